//! Bare words: which of them are ids, names and codes.

use super::address::{address, address_of_letters, push_address};
use super::number::{self, is_sqlstate, is_time, is_uuid};
use super::scan::{Scan, is_identifier, run};
use super::{Kind, names, vocabulary};
use crate::fingerprint::search;

/// Reads one word, up to white space or a sign that ends words.
pub(super) fn read(scan: &mut Scan<'_>) {
    let start = scan.at;
    let hard = |byte: u8| {
        let ends = matches!(byte, b'"' | b'`' | b',' | b';' | b'(' | b')' | b'[' | b']' | b'{' | b'}');
        ends || byte.is_ascii_whitespace() || matches!(byte, b'<' | b'>' | b'=' | b'|')
    };
    // Most words are letters alone and end with a space.
    let letters = run(scan.bytes, start, |byte| byte.is_ascii_alphabetic());
    if letters > start && matches!(scan.bytes.get(letters), None | Some(b' ')) {
        scan.at = letters;
        return classify(scan, start, &scan.source[start..letters]);
    }
    let mut end = run(scan.bytes, start, |byte| !hard(byte));
    if search::has(&scan.source[start..end], "://") {
        end = run(scan.bytes, start, |byte| {
            !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'`' | b'>' | b'<' | b')' | b']' | b'\'')
        });
    } else {
        // Thousands are separated by commas: `1,234.50`.
        while matches!(scan.bytes.get(end), Some(b','))
            && end > start
            && scan.bytes[end - 1].is_ascii_digit()
            && scan.bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
        {
            end = run(scan.bytes, end + 1, |byte| !hard(byte));
        }
        end = before_quote(scan, start, end);
    }
    if end == start {
        return;
    }
    let text = &scan.source[start..end];
    let lead = text.len()
        - text
            .trim_start_matches([
                '#', '*', '&', '~', '!', '?', '.', '-', '+', ':', '\'', '$', '€', '£', '@', '%', '^',
            ])
            .len();
    let body = text[lead..].trim_end_matches(['.', ':', '!', '?', '\'', '-', '*', '%', '…']);
    if body.is_empty() {
        scan.at = end;
        return;
    }
    // A path may begin with the signs that other words do not begin with.
    let (from, body) = match text.as_bytes()[0] {
        b'~' | b'.' if text[lead..].starts_with('/') => (start, text.trim_end_matches(['.', ':', ','])),
        _ => (start + lead, body),
    };
    scan.at = from + body.len();
    if text.starts_with("$.") && is_identifier(body) {
        // A way into a document: `$.parcels[1].length`.
        return scan.push(from, from + body.len(), Kind::Kept);
    }
    classify(scan, from, body);
}

/// An apostrophe ends a word unless a letter follows, as in `can't`.
fn before_quote(scan: &Scan<'_>, start: usize, end: usize) -> usize {
    for at in start + 1..end {
        if scan.bytes[at] == b'\''
            && !(scan.bytes[at - 1].is_ascii_alphabetic()
                && scan.bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic))
        {
            return at;
        }
    }
    end
}

fn classify(scan: &mut Scan<'_>, start: usize, text: &str) {
    let end = start + text.len();
    // Most words are letters alone, and cannot be most of what follows.
    let is_letters = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let found = if is_letters { address_of_letters(scan, start, text) } else { address(scan, start, text) };
    if let Some(kind) = found {
        return push_address(scan, start, text, kind);
    }
    if !is_letters && push_steps(scan, start, text) {
        return;
    }
    // `key:value` is two words unless it was an address.
    if !is_letters
        && let Some(colon) = text.find(':')
        && !text.contains("::")
        && colon > 0
        && !is_time(text)
    {
        let part = text[..colon].trim_end_matches(['.', '\'']);
        classify(scan, start, part);
        scan.at = start + colon + 1;
        return;
    }
    if let Some(kind) = value_of_key(scan, start, text) {
        if kind != Kind::Kept {
            scan.hide_key();
        }
        return scan.push(start, end, kind);
    }
    if follows_closely(scan, start) && names::is_code_of(scan.before(0), text) {
        return scan.push(start, end, Kind::Value("<value>"));
    }
    if is_id_of_key(scan, start, text) {
        return scan.push(start, end, Kind::Value("<id>"));
    }
    if is_request(scan, text, end) {
        return scan.push(start, end, Kind::Shown);
    }
    if is_statement(scan, start, text) {
        let line = scan.source[start..].find('\n').map_or(scan.source.len(), |at| start + at);
        // In brackets it ends with them: `SQL [select …]; Duplicate entry`.
        let open = start.checked_sub(1).filter(|at| matches!(scan.bytes[*at], b'[' | b'('));
        let close = open.and_then(|open| super::fragment::end_of(&scan.bytes[..line], open)).unwrap_or(line);
        scan.push(start, close, Kind::Value("<sql>"));
        scan.at = close;
        return;
    }
    if follows_closely(scan, start) && names::is_name_of(scan.before(0), text) {
        return scan.push(start, end, Kind::Value("<name>"));
    }
    if !is_letters && text.contains('+') && text.len() >= 4 {
        return scan.push(start, end, Kind::Value("<id>"));
    }
    if is_letters || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        let long = text.len() >= 32 && !text.contains(['_', '.', '-', '\\', ':', '/']);
        let is_id = long || names::is_bare_id(text) || is_subject(scan, start, text);
        let kind = if is_id { Kind::Value("<id>") } else { plain(text) };
        return scan.push(start, end, kind);
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return number::read(scan, start, text);
    }
    mixed(scan, start, text);
}

/// `HostID: k+z`, `traceId: QbVw`: whatever is written behind such a key, unless it is a sentence about the key.
fn is_id_of_key(scan: &Scan<'_>, start: usize, text: &str) -> bool {
    let key = scan.before(0);
    let named =
        ["ID", "Id", "_id", "-id", "Ids"].iter().any(|end| key.ends_with(end) && key.len() > end.len());
    named
        && text.bytes().any(|byte| !byte.is_ascii_lowercase())
        && scan.pieces.last().is_some_and(|last| matches!(&scan.source[last.end..start], ": " | ":" | "="))
}

/// `Order QRST-LMNO cannot …`: digits or capitals behind the noun that opens a sentence tell which one it was.
fn is_subject(scan: &Scan<'_>, start: usize, text: &str) -> bool {
    let noun = scan.before(0);
    let is_code = text.contains('-') && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    scan.pieces.len() == 1
        && follows_closely(scan, start)
        && (is_code || text.bytes().any(|byte| byte.is_ascii_digit()))
        && noun.starts_with(|c: char| c.is_ascii_uppercase())
        && noun[1..].bytes().all(|byte| byte.is_ascii_lowercase())
        && !vocabulary::names_a_part(noun)
        && scan.after(start + text.len(), 0).starts_with(|c: char| c.is_ascii_lowercase())
}

/// Whether only a space stands between the last piece and this word.
fn follows_closely(scan: &Scan<'_>, start: usize) -> bool {
    scan.pieces.last().is_some_and(|last| &scan.source[last.end..start] == " ")
}

/// `lines.0.sku` and `data/lines/0/sku`: names and positions in turn.
fn push_steps(scan: &mut Scan<'_>, start: usize, text: &str) -> bool {
    let sign = if text.contains('/') { '/' } else { '.' };
    let is_position = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_small = |part: &str| part.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_name = |part: &str| {
        part.len() > 1 && is_small(part) && is_identifier(part) && !part.contains(['.', '/', '-'])
    };
    let inside = text.strip_prefix('/').unwrap_or(text);
    let first = inside.split(sign).next().unwrap_or("");
    if !inside.contains(sign)
        || !is_name(first)
        || !inside.split(sign).any(is_position)
        || !inside.split(sign).all(|part| is_position(part) || is_name(part))
        || inside.split(sign).next_back().is_some_and(is_position)
    {
        return false;
    }
    let mut at = start + (text.len() - inside.len());
    for part in inside.split(sign) {
        let kind = if is_position(part) { Kind::Value("<number>") } else { Kind::Kept };
        scan.push(at, at + part.len(), kind);
        at += part.len() + 1;
    }
    true
}

fn plain(text: &str) -> Kind {
    // Old versions of Ruby write `nil:NilClass`, new ones `nil`.
    if text == "NilClass" {
        return Kind::Shown;
    }
    // Everybody's abbreviations name nothing.
    if matches!(
        text,
        "GET"
            | "POST"
            | "PUT"
            | "PATCH"
            | "DELETE"
            | "HEAD"
            | "HTTP"
            | "HTTPS"
            | "REST"
            | "API"
            | "I/O"
            | "JSON"
            | "XML"
    ) {
        return Kind::Word;
    }
    let upper = text.bytes().filter(u8::is_ascii_uppercase).count();
    let shaped = text.contains('_')
        || text.contains('.')
        || upper > 1
        || upper == 1 && !text.starts_with(|c: char| c.is_ascii_uppercase());
    if shaped { Kind::Kept } else { Kind::Word }
}

/// The kind of a value behind `key=`: only some keys have values that tell causes apart.
fn value_of_key(scan: &Scan<'_>, start: usize, text: &str) -> Option<Kind> {
    let key = scan.key_of_value(start)?;
    let code = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    // `reply-code` and `errorCode` are codes as well.
    let is_code =
        vocabulary::leads_a_code(key) || ["code", "Code", "errno"].iter().any(|end| key.ends_with(end));
    let telling =
        vocabulary::is_telling_key(key) || is_code || vocabulary::names_a_part(key) || is_constant(text);
    let telling =
        telling && (is_identifier(text) || code && (is_code || key.eq_ignore_ascii_case("sqlstate")));
    Some(if telling { Kind::Kept } else { Kind::Value("<value>") })
}

/// `NOT_FOUND`: constants tell causes apart wherever they stand.
pub(super) fn is_constant(text: &str) -> bool {
    text.contains('_')
        && text.len() >= 5
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// `Post "https://…"`: how Go names the request that failed.
fn is_request(scan: &Scan<'_>, text: &str, end: usize) -> bool {
    ["get", "post", "put", "patch", "delete", "head"].iter().any(|verb| verb.eq_ignore_ascii_case(text))
        && scan.source[end..].trim_start_matches([' ', '"']).starts_with("http")
}

/// Whether a statement of SQL begins here.
fn is_statement(scan: &Scan<'_>, start: usize, text: &str) -> bool {
    let rest = &scan.source[start + text.len()..];
    let goes_on = |words: &[&str]| words.iter().any(|word| rest.contains(word));
    match text {
        "SELECT" => goes_on(&[" FROM ", " from "]),
        "select" => goes_on(&[" from "]),
        "INSERT" | "insert" => rest.starts_with(" INTO ") || rest.starts_with(" into "),
        "DELETE" | "delete" => rest.starts_with(" FROM ") || rest.starts_with(" from "),
        "UPDATE" => goes_on(&[" SET "]),
        "update" => goes_on(&[" set "]),
        _ => false,
    }
}

/// `ORA-00060: …`, `(E11000)`: the code of a vendor opens or closes a sentence, or stands in brackets. In the middle of
/// one stands the number of a thing, and no vendor joins a single letter by a dash.
fn is_vendor_code(scan: &Scan<'_>, start: usize, text: &str, prefix: &str) -> bool {
    let before = scan.pieces.last().map_or(":", |last| &scan.source[last.end..start]);
    let behind = &scan.source[start + text.len()..];
    vocabulary::is_vendor(prefix)
        && (prefix.len() > 1 || !text.contains(['-', '_']))
        && (before.contains([':', '(', '[', ';', '.', '\n'])
            || behind.is_empty()
            || behind.starts_with([':', ')', ']', ',', ';', '.']))
}

/// A word of letters and digits.
fn mixed(scan: &mut Scan<'_>, start: usize, text: &str) {
    let end = start + text.len();
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let prefix = &text[..letters];
    let rest = text[letters..].trim_start_matches(['-', '_']);
    let coded = rest.bytes().all(|byte| byte.is_ascii_digit()) && rest.len() <= 6;
    let named = vocabulary::names_a_part(scan.before(0));
    let code = vocabulary::leads_a_code(scan.before(0))
        && !vocabulary::is_of_goods(scan.before(1))
        && text.len() <= 12;
    let function = text.contains('.') && text.contains('/');
    if vocabulary::is_technical(text)
        || function
        || coded && rest.len() >= 3 && is_vendor_code(scan, start, text, prefix)
        || code && rest.len() <= 5
        || is_sqlstate(scan, text)
        || named && is_identifier(text) && text.bytes().any(|byte| byte.is_ascii_lowercase())
    {
        return scan.push(start, end, Kind::Kept);
    }
    if is_uuid(text) {
        return scan.push(start, end, Kind::Value("<uuid>"));
    }
    if text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return scan.push(start, end, Kind::Value("<hex>"));
    }
    // `com.acme.v2.Order` is a class whatever its package is called.
    let last = text.rsplit(['.', '\\', ':']).next().unwrap_or(text);
    if last.len() < text.len()
        && last.starts_with(|c: char| c.is_ascii_uppercase())
        && !last.bytes().any(|b| b.is_ascii_digit())
        && last.len() > 2
    {
        return scan.push(start, end, Kind::Kept);
    }
    // `com.acme.Account#4711` is a row of a class.
    if let Some((class, _)) = text.split_once('#')
        && is_identifier(class)
    {
        scan.push(start, start + class.len(), Kind::Kept);
        scan.push(start + class.len(), end, Kind::Value("<id>"));
        return;
    }
    if is_subject(scan, start, text) {
        return scan.push(start, end, Kind::Value("<id>"));
    }
    // `worker7` and `worker12` are one; `orders-3` is a partition of a topic.
    let short = prefix.bytes().any(|byte| byte.is_ascii_lowercase())
        && text.len() - letters <= 2
        && text[letters..].bytes().all(|byte| byte.is_ascii_digit())
        && letters >= 3;
    let part = named
        && coded
        && text[letters..].starts_with(['-', '_'])
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase())
        && letters >= 3;
    if short || part {
        scan.push(start, start + letters, Kind::Word);
        scan.push(start + letters, end, Kind::Value("<number>"));
        return;
    }
    scan.push(start, end, Kind::Value("<id>"));
}
