//! Dumps within a message: JSON bodies, maps, debug output. They go, but for what they say about the error.

use super::scan::{Scan, is_identifier, run};
use super::{Kind, names, vocabulary};
use crate::limits;

/// Reads what begins with a bracket, if it ends within bounds and holds keys; otherwise passes the bracket over.
pub(super) fn read(scan: &mut Scan<'_>) {
    let start = scan.at;
    let end = match end_of(scan.bytes, start) {
        Some(end) => end,
        None => {
            // A body that was cut off has no end at all.
            let cut = scan.bytes.get(start + 1) == Some(&b'"') || scan.source[start..].starts_with("[{\"");
            scan.unbalanced += 1;
            if !cut || scan.unbalanced > limits::UNBALANCED_MAX {
                scan.at += 1;
                return;
            }
            scan.source.floor_char_boundary(scan.bytes.len().min(start + limits::FRAGMENT_BYTES_MAX))
        }
    };
    let inside = &scan.source[start + 1..end];
    let holds_keys = inside.contains([':', '=', '"', '\'']) || scan.bytes[start] != b'{';
    if !holds_keys {
        scan.at += 1;
        return;
    }
    let placeholder =
        if scan.bytes[start] == b'{' || inside.starts_with('{') { "<json>" } else { "<quoted>" };
    let mut done = start;
    let about_error = !is_of_letter(scan, start);
    let found = if about_error { telling(scan.source, start, end) } else { Vec::new() };
    for (from, to) in found {
        scan.push(done, from, Kind::Value(placeholder));
        scan.push(from, to, Kind::Kept);
        done = to;
    }
    let close = (end + 1).min(scan.bytes.len());
    let close = scan.source.floor_char_boundary(close).max(done);
    scan.push(done, close, Kind::Value(placeholder));
    scan.at = close.max(start + 1);
}

/// Whether the dump shows what was worked on: its fields are the letter's, not the error's.
fn is_of_letter(scan: &Scan<'_>, start: usize) -> bool {
    let shown = [
        "in",
        "value",
        "got",
        "input",
        "params",
        "row",
        "record",
        "data",
        "payload",
        "entity",
        "for",
        "arguments",
        "args",
    ];
    let key = scan.key_of_value(start);
    // `422 (Unprocessable Entity): {…}` ends a sentence before the dump.
    let closed = scan.pieces.last().is_some_and(|last| scan.source[last.end..start].contains(')'));
    let closed = closed || scan.before(1).eq_ignore_ascii_case("unprocessable");
    key.is_some_and(|key| !vocabulary::is_spoken_key(key))
        || !closed && shown.iter().any(|word| word.eq_ignore_ascii_case(scan.before(0)))
}

/// Where the bracket that closes this one stands, strings left out.
pub(super) fn end_of(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let stop = bytes.len().min(start + limits::FRAGMENT_BYTES_MAX);
    let mut at = start;
    while at < stop {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => quoted = !quoted,
            b'{' | b'[' | b'(' if !quoted => depth += 1,
            b'}' | b']' | b')' if !quoted => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Adds the names of a list such as `["lines", 0, "sku"]`, and says where it ends.
fn names_in_list(source: &str, start: usize, end: usize, found: &mut Vec<(usize, usize)>) -> usize {
    let bytes = &source.as_bytes()[..end];
    let stop = run(bytes, start, |byte| byte != b']');
    let mut at = start;
    while at < stop && found.len() < 8 {
        let word = run(bytes, at, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
        if word > at && is_identifier(&source[at..word]) {
            found.push((at, word));
        }
        at = word + 1;
    }
    stop
}

/// The ranges of the values that tell causes apart: `"code":"invalid_type"`, `kind: NotFound`, `"path":["id"]`.
fn telling(source: &str, start: usize, end: usize) -> Vec<(usize, usize)> {
    let bytes = &source.as_bytes()[..end];
    let mut found = Vec::new();
    let mut at = start;
    while at < end && found.len() < 8 {
        let key_end = run(bytes, at, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if key_end == at {
            at += 1;
            continue;
        }
        let key = &source[at..key_end];
        let sign = run(bytes, key_end, |byte| matches!(byte, b'"' | b'\'' | b' '));
        at = key_end;
        // A `propertyPath` leads to a part of the document.
        let is_path = key.ends_with("Path");
        if !matches!(bytes.get(sign), Some(b':' | b'=')) || !(is_path || vocabulary::is_telling_key(key)) {
            continue;
        }
        let value = run(bytes, sign + 1, |byte| matches!(byte, b'"' | b'\'' | b' ' | b'[' | b'>' | b':'));
        let stop = run(bytes, value, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/')
        });
        if bytes[sign..value].contains(&b'[') {
            at = names_in_list(source, value, end, &mut found);
            continue;
        }
        let text = &source[value..stop];
        let closed =
            !matches!(bytes.get(stop), Some(b' ')) || bytes.get(value.wrapping_sub(1)) == Some(&b' ');
        let status = text.len() <= 5 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let numbered = status && !matches!(key, "type" | "name" | "path" | "field");
        let is_file = is_path && (text.contains('/') || names::is_data_file(text));
        if closed && !is_file && (numbered || is_identifier(text)) && source.is_char_boundary(stop) {
            found.push((value, stop));
        }
        at = stop.max(key_end);
    }
    found
}
