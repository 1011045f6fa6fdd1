//! Numbers within a message: the few that tell causes apart, and the amounts, times and ids that do not.

use super::scan::{Scan, run};
use super::{Kind, names, vocabulary};

/// A word that begins with a digit.
pub(super) fn read(scan: &mut Scan<'_>, start: usize, text: &str) {
    let end = start + text.len();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits && is_code(scan, start, text) || vocabulary::is_technical(text) {
        return scan.push(start, end, Kind::Kept);
    }
    if is_sqlstate(scan, text) || is_reply(scan, text, end) {
        return scan.push(start, end, Kind::Kept);
    }
    let numeric = run(text.as_bytes(), 0, |byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'_'));
    let unit = &text[numeric..];
    let placeholder = if text.starts_with("0x") || text.starts_with("0X") {
        "<hex>"
    } else if is_uuid(text) {
        "<uuid>"
    } else if is_date(text) || is_time(text) && text.contains(':') {
        "<time>"
    } else if numeric == text.len() || vocabulary::is_unit(unit) || is_time(text) {
        "<number>"
    } else if text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        "<hex>"
    } else {
        "<id>"
    };
    // The unit is part of the amount: `5 seconds` and `500 ms` are one.
    let mut close = end;
    if numeric == text.len() || placeholder == "<time>" {
        let next = scan.after(end, 0);
        let space = scan.source[end..].len() - scan.source[end..].trim_start_matches(' ').len();
        if !next.is_empty()
            && scan.source[end + space..].starts_with(next)
            && (vocabulary::is_unit(next) && next.len() > 1
                || vocabulary::is_month_or_day(next)
                || space == 1 && matches!(next, "s" | "m" | "h" | "B"))
        {
            close = end + space + next.len();
        }
    }
    scan.push(start, close, Kind::Value(placeholder));
    scan.at = close;
}

/// Whether a number is a status or an error's own number.
fn is_code(scan: &Scan<'_>, start: usize, text: &str) -> bool {
    if text.len() > 5 {
        return false;
    }
    let (last, second) = (scan.before(0), scan.before(1));
    let gap = scan.pieces.last().map_or("", |it| &scan.source[it.end..start]);
    if gap.contains(['.', ';', '\n']) {
        return false;
    }
    // `line 3 column 404` is a place.
    if names::is_of_run(last) || last.eq_ignore_ascii_case("column") {
        return false;
    }
    let next = scan.after(start + text.len(), 0);
    if vocabulary::leads_a_code(last) {
        return !vocabulary::is_of_goods(second) && !vocabulary::is_unit(next);
    }
    let status = text.len() == 3 && matches!(text.as_bytes()[0], b'1'..=b'5');
    let ends = next.is_empty() || scan.source[start + text.len()..].starts_with([':', ')', ']', ',', '.']);
    let reason = vocabulary::is_reason(next)
        && (!next.eq_ignore_ascii_case("not")
            || ["found", "acceptable", "implemented", "modified"]
                .iter()
                .any(|it| scan.after(start + text.len(), 1).eq_ignore_ascii_case(it)));
    // `TooManyRequests (429)`, the other way round.
    let named = gap == " (" && ends && vocabulary::is_status_name(last);
    status && (reason || named || vocabulary::leads_a_status(last) && ends)
        // `is` and `:` lead up to a code that was named before: `status code does not indicate success: 404`.
        || status && vocabulary::leads_a_code(second) && matches!(last, "is" | "was" | "of" | "success" | "code")
}

/// Five letters and digits behind `SQLSTATE`, or in brackets of their own as drivers print them.
pub(super) fn is_sqlstate(scan: &Scan<'_>, text: &str) -> bool {
    text.len() == 5
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && (scan.before(0).eq_ignore_ascii_case("sqlstate") || scan.before(0).eq_ignore_ascii_case("state"))
}

/// `554 5.7.1 …`: both numbers of a mail server's reply.
fn is_reply(scan: &Scan<'_>, text: &str, end: usize) -> bool {
    let enhanced = |text: &str| {
        let mut parts = text.split('.');
        let shaped = parts
            .by_ref()
            .take(3)
            .all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()));
        shaped
            && text.matches('.').count() == 2
            && text.starts_with(['2', '4', '5'])
            && text[1..].starts_with('.')
    };
    let follows = || scan.source[end..].split_whitespace().next().is_some_and(enhanced);
    text.len() == 3 && text.starts_with(['4', '5']) && follows()
        || enhanced(text) && scan.before(0).len() == 3 && scan.before(0).bytes().all(|b| b.is_ascii_digit())
}

/// `2026-01-02`, `02/01/2026`, `2026-01-02T10:00:00Z`.
pub(super) fn is_date(text: &str) -> bool {
    text.len() >= 6
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| {
            byte.is_ascii_digit() || matches!(byte, b'-' | b'/' | b':' | b'.' | b'T' | b'Z' | b'+' | b',')
        })
        && text.bytes().filter(|byte| matches!(byte, b'-' | b'/' | b':')).count() >= 2
}

pub(super) fn is_time(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| {
            byte.is_ascii_digit() || matches!(byte, b'-' | b'/' | b':' | b'.' | b'T' | b'Z' | b'+' | b',')
        })
}

pub(super) fn is_uuid(text: &str) -> bool {
    let hex = text.bytes().filter(u8::is_ascii_hexdigit).count();
    hex == 32 && (text.len() == 32 || text.len() == 36 && text.matches('-').count() == 4)
}
