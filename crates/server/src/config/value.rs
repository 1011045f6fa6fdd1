//! The meaning of single values. Each function says what it expects when it gets something else.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use lazaret_core::duration::Length;

use super::problem::quoted;
use super::{LogFormat, SourceKind};

/// Characters of a host name (RFC 1035).
const HOST_CHARS_MAX: usize = 253;

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// `HOST:PORT`, as it was written.
pub(super) fn listen(text: &str) -> Result<String, String> {
    let bad = || format!("{} is not HOST:PORT; write it like 127.0.0.1:7070 or [::1]:7070", quoted(text));
    if text.parse::<SocketAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    if is_host_name(host) && is_port(port) { Ok(text.to_owned()) } else { Err(bad()) }
}

/// A value of the `Host` header in lower case, with or without a port.
pub(super) fn allowed_host(text: &str) -> Result<String, String> {
    let host = match text.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        Some(_) | None => text,
    };
    let is_address = format!("{host}:0").parse::<SocketAddr>().is_ok();
    if is_address || is_host_name(host) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("{} is not a host; write it as browsers send it, like lazaret.example.org", quoted(text)))
}

/// A level, or directives separated by commas: `info,lazaret_store=debug`. Spaces are taken out, because the log's
/// own parser stumbles over them.
pub(super) fn log_level(text: &str) -> Result<String, String> {
    let is_target_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-');
    let is_directive = |directive: &str| match directive.split_once('=') {
        Some((target, level)) => {
            !target.is_empty()
                && target.chars().all(is_target_char)
                && (level == "off" || LEVELS.contains(&level))
        }
        None => LEVELS.contains(&directive),
    };
    let directives: Vec<&str> = text.split(',').map(str::trim).collect();
    if directives.iter().all(|directive| is_directive(directive)) {
        return Ok(directives.join(","));
    }
    Err(format!(
        "{} is not a log level; write {}, or directives like info,lazaret_store=debug",
        quoted(text),
        LEVELS.join(", ")
    ))
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    let found = LogFormat::ALL.into_iter().find(|format| format.name() == text);
    found.ok_or_else(|| format!("{} is not a log format; known are text, json", quoted(text)))
}

pub(super) fn source_kind(text: &str) -> Result<SourceKind, String> {
    let found = SourceKind::ALL.into_iter().find(|kind| kind.name() == text);
    let known = || SourceKind::ALL.map(SourceKind::name).join(", ");
    found.ok_or_else(|| format!("{} is not a kind of source; known are {}", quoted(text), known()))
}

/// A text that must say something.
pub(super) fn filled(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A name that is indexed with its letters.
pub(super) fn name(text: &str) -> Result<String, String> {
    let bytes_max = lazaret_core::limits::NAME_BYTES_MAX;
    if text.len() > bytes_max { Err(format!("longer than {bytes_max} bytes")) } else { filled(text) }
}

/// Bytes: `16777216` or `16MiB`, from 1 to `max`.
pub(super) fn size(text: &str, max: u64) -> Result<usize, String> {
    let bad = || format!("{} is not a number of bytes; write it like 16777216 or \"16MiB\"", quoted(text));
    let unit = UNITS.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (digits, unit_bytes) = unit.unwrap_or((text, 1));
    let number = digits_value(digits.trim()).ok_or_else(bad)?;
    let bytes = number.checked_mul(unit_bytes).filter(|bytes| (1..=max).contains(bytes));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| format!("{} is out of range; write 1 to {}", quoted(text), size_text(max)))
}

/// The shortest way to write a size without rounding it.
pub(super) fn size_text(bytes: u64) -> String {
    let (unit, unit_bytes) =
        UNITS.into_iter().find(|(_, unit_bytes)| bytes.is_multiple_of(*unit_bytes)).unwrap_or(("B", 1));
    format!("{}{unit}", bytes / unit_bytes)
}

/// A number within a range.
pub(super) fn count(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = digits_value(text.trim()).filter(|number| range.contains(number));
    let (min, max) = (range.start(), range.end());
    number.ok_or_else(|| format!("{} is not a number from {min} to {max}", quoted(text)))
}

/// A number within a range, which may have a fraction.
pub(super) fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.trim().replace('_', "").parse().ok().filter(|number| range.contains(number));
    let (min, max) = (range.start(), range.end());
    number.ok_or_else(|| format!("{} is not a number from {min} to {max}", quoted(text)))
}

pub(super) fn flag(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{} is neither true nor false", quoted(text)))
}

/// Milliseconds, from 1 to `max`.
pub(super) fn length_ms(text: &str, max: u64) -> Result<u64, String> {
    let bad = || format!("{} is not a length of time; write it like 15s or 2m", quoted(text));
    let ms = Length::parse(text).map_err(|_| bad())?.ms();
    let ms = u64::try_from(ms).ok().filter(|ms| (1..=max).contains(ms));
    ms.ok_or_else(|| format!("{} is out of range; write 1ms to {}s", quoted(text), max / 1_000))
}

/// A length of time as it is written to a file.
pub(super) fn length_text(ms: u64) -> String {
    Length::from_ms(i64::try_from(ms).unwrap_or(i64::MAX)).to_string()
}

/// Decimal digits, which may be grouped as in TOML: `16_777_216`.
fn digits_value(text: &str) -> Option<u64> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    if is_number { text.replace('_', "").parse().ok() } else { None }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Underscores are allowed, because containers are named with them. What ends in a number is an address, and a bad
/// one if it comes here.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_plain)
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= HOST_CHARS_MAX
        && text.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_on_is_a_host_and_a_port() {
        for good in ["127.0.0.1:7070", "0.0.0.0:0", "[::1]:7070", "[::]:0", "localhost:80", "lazaret_1:7070"]
        {
            assert_eq!(listen(good).as_deref(), Ok(good));
        }
        let bad =
            ["", ":", ":7070", "7070", "localhost", "localhost:", "localhost:http", "::1:7070", "[::1]"];
        for bad in
            bad.into_iter().chain(["a b:1", "1.2.3:1", "999.1.1.1:1", "a..b:1", "host:65536", "host:+1"])
        {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_is_what_browsers_send() {
        for good in ["lazaret.example.org", "Lazaret.Example.org:8443", "10.0.0.7", "[::1]:7070", "[fd00::1]"]
        {
            assert_eq!(allowed_host(good), Ok(good.to_ascii_lowercase()));
        }
        for bad in
            ["", "*", "*.example.org", "http://example.org", "example.org/", "a b", "::1", "host:99999"]
        {
            assert!(allowed_host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_level_is_one_word_or_directives() {
        for good in ["error", "trace", "info,lazaret_store=debug", "warn, hyper::proto=off"] {
            assert_eq!(log_level(good), Ok(good.replace(' ', "")));
        }
        for bad in
            ["", "loud", "INFO", "off", "info,", "info;debug", "=debug", "a b=debug", "x=y", "x=1=debug"]
        {
            assert!(log_level(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_in_binary_units() {
        let max = 1 << 30;
        for (text, bytes) in [("1", 1), ("16MiB", 16 << 20), ("16 KiB", 16 << 10), ("1_000", 1000), ("9B", 9)]
        {
            assert_eq!(size(text, max), Ok(bytes), "{text}");
        }
        for bad in
            ["", "0", "0MiB", "-1", "1.5MiB", "16MB", "MiB", "2GiB", "99999999999999999999", "_1", "1e3"]
        {
            assert!(size(bad, max).is_err(), "{bad}");
        }
        for (bytes, text) in [(1, "1B"), (1536, "1536B"), (16 << 20, "16MiB"), (1 << 30, "1GiB")] {
            assert_eq!(size_text(bytes), text);
        }
    }

    #[test]
    fn a_length_of_time_has_a_unit_and_an_end() {
        assert_eq!(length_ms("120s", 3_600_000), Ok(120_000));
        assert_eq!(length_ms("PT2M", 3_600_000), Ok(120_000));
        for bad in ["", "120", "0s", "-1s", "2h", "soon", "P1M", "500us"] {
            assert!(length_ms(bad, 3_600_000).is_err(), "{bad}");
        }
    }
}
