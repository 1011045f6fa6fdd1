//! Addresses within a message: URLs, e-mail addresses, paths, hosts and IP addresses.

use super::number::is_date;
use super::scan::{Scan, is_identifier};
use super::{Kind, names, vocabulary};
use crate::fingerprint::search;

/// URLs, e-mail addresses, paths, hosts and IP addresses.
pub(super) fn address(scan: &Scan<'_>, start: usize, text: &str) -> Option<&'static str> {
    if search::has(text, "://") {
        return Some("<url>");
    }
    if let Some((user, host)) = text.split_once('@')
        && !user.is_empty()
        && host.contains('.')
    {
        return Some("<email>");
    }
    if is_pointer(scan, start, text) {
        return None;
    }
    if is_path(text) || names::is_data_file(text) {
        return Some("<path>");
    }
    if is_ip(text) {
        return Some("<ip>");
    }
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    let named = !host.is_empty()
        && host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_')
        });
    if !named {
        return None;
    }
    let port = port.split('/').next().unwrap_or(port);
    let has_port = (2..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let led = vocabulary::leads_a_host(scan.before(0));
    let dotted = host.contains('.') && host.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_host = has_port
        && (led
            || host == "localhost"
            || host.contains(['.', '-']) && !host.bytes().all(|b| !b.is_ascii_alphabetic()))
        || dotted && has_top_level(host) && port.is_empty()
        || start > 0 && is_looked_up(scan)
        || host == "localhost";
    is_host.then_some("<host>")
}

/// The placeholder of a word of letters alone, which can only be a host.
pub(super) fn address_of_letters(scan: &Scan<'_>, start: usize, text: &str) -> Option<&'static str> {
    let is_host = || start > 0 && is_looked_up(scan) && text.bytes().all(|byte| byte.is_ascii_lowercase());
    (text == "localhost" || is_host()).then_some("<host>")
}

fn is_looked_up(scan: &Scan<'_>) -> bool {
    ["ENOTFOUND", "EAI_AGAIN", "lookup"].contains(&scan.before(0))
}

pub(super) fn push_address(scan: &mut Scan<'_>, start: usize, text: &str, placeholder: &'static str) {
    let end = start + text.len();
    if placeholder == "<url>"
        && let Some((from, to)) = resource(text)
    {
        // Without frames the resource is all that tells one call from another.
        scan.push(start, start + from, Kind::Value(placeholder));
        scan.push(start + from, start + to, Kind::Hint);
        scan.push(start + to, end, Kind::Value("<path>"));
        return;
    }
    scan.push(start, end, Kind::Value(placeholder));
}

/// The first part of a URL's path that is a word: `charges` of `https://x/v1/charges/ch_1`.
fn resource(url: &str) -> Option<(usize, usize)> {
    let host = url.find("://")? + 3;
    let mut at = host + url[host..].find('/')? + 1;
    for part in url[at..].split('/').take(3) {
        let word = part.split(['?', '#']).next().unwrap_or(part);
        if word.len() > 2
            && word.len() <= 30
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte == b'_')
            && word != "api"
        {
            return Some((at, at + word.len()));
        }
        at += part.len() + 1;
    }
    None
}

fn is_path(text: &str) -> bool {
    if text.len() > 2 && text.as_bytes()[1] == b':' && matches!(text.as_bytes()[2], b'\\' | b'/') {
        return true;
    }
    if text.starts_with("\\\\") || text.starts_with("./") || text.starts_with("../") || text.starts_with("~/")
    {
        return true;
    }
    if text.starts_with('/') {
        return text.len() > 1;
    }
    // `Shop.Price.round/2` is a function and its arity.
    if let Some((function, arity)) = text.rsplit_once('/')
        && arity.len() <= 2
        && arity.bytes().all(|byte| byte.is_ascii_digit())
        && function.contains('.')
        && !function.contains('/')
    {
        return false;
    }
    // `application/json` and `i/o` are words.
    text.contains('/')
        && !vocabulary::is_technical(text)
        && text.bytes().any(|byte| byte.is_ascii_digit() || byte == b'.')
        && !is_date(text)
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// `data/lines/0/sku must …` and `/lines/0/sku is …`: a way into a document and not into a file system.
fn is_pointer(scan: &Scan<'_>, start: usize, text: &str) -> bool {
    let inside = text.strip_prefix('/').unwrap_or(text);
    let steps = |part: &str| {
        !part.is_empty()
            && (part.bytes().all(|byte| byte.is_ascii_digit()) || is_identifier(part) && !part.contains('.'))
    };
    inside.contains('/')
        && inside.split('/').all(steps)
        && (inside.len() == text.len() && inside.bytes().any(|byte| byte.is_ascii_digit())
            || ["must", "is", "should"].contains(&scan.after(start + text.len(), 0)))
}

fn is_ip(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or(text);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let four = host.split('.').count() == 4
        && host
            .split('.')
            .all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()));
    let six = address.matches(':').count() >= 2
        && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.')
        && (address.contains("::") || address.matches(':').count() == 7);
    four || six
}

#[rustfmt::skip]
fn has_top_level(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host);
    matches!(last, "com" | "net" | "org" | "io" | "dev" | "internal" | "local" | "cluster" | "svc" | "de" | "uk" | "eu" | "app" | "cloud" | "co"
        | "lan" | "corp" | "example" | "test" | "invalid" | "localhost" | "ai" | "us" | "fr" | "nl" | "consul" | "intra" | "prod" | "staging" | "tech")
}
