//! Every run that failed, the newest first, with its backtrace: the program's own lines in sight, the others folded.

use std::collections::BTreeMap;

use lazaret_core::fingerprint::{FingerprintRules, LineOrigin, traced_lines};
use lazaret_core::limits;
use serde_json::value::RawValue;

use super::room::{Fitted, Room};
use crate::api::wire::ErrorBody;
use crate::api::wire::entry::AttemptBody;
use crate::web::format::length;

/// Lines of libraries that are worth folding; fewer are not in the way.
const FOLDED_MIN: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    /// The newest first.
    pub rows: Vec<AttemptRow>,
    pub total: u64,
    /// The oldest, which are not shown.
    pub left_out: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct AttemptRow {
    /// Counted from the first of all lives.
    pub number: usize,
    pub life: u32,
    pub at: Option<String>,
    pub took: Option<String>,
    pub failure: Failure,
    /// Fields that were reported under names of their own.
    pub extra: Fitted,
}

/// An error as a page shows it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub error_type: Fitted,
    pub message: Fitted,
    pub code: Option<Fitted>,
    pub backtrace: Vec<Piece>,
    /// Whether there is more of it than is shown.
    pub cut: bool,
    /// What was reported beside it.
    pub context: Fitted,
}

/// Lines of a backtrace that belong together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub is_own: bool,
    pub is_folded: bool,
    pub lines: usize,
    pub text: String,
}

impl Attempts {
    pub fn new(history: &[AttemptBody], rules: &FingerprintRules) -> Attempts {
        let mut room = Room::new(limits::WEB_ATTEMPTS_MARKUP_BYTES);
        let newest = history.iter().enumerate().rev().take(limits::WEB_ATTEMPTS);
        let mut rows = Vec::new();
        for (at, attempt) in newest {
            // A row takes markup of its own.
            if !room.take(400) {
                break;
            }
            rows.push(AttemptRow {
                number: at + 1,
                life: attempt.life,
                at: attempt.timestamp.clone(),
                took: attempt.processing_duration.map(|ms| length(i64::try_from(ms).unwrap_or(i64::MAX))),
                failure: Failure::new(&attempt.error, rules, &mut room),
                extra: fields(&attempt.extra, &mut room),
            });
        }
        let left_out = (history.len() - rows.len()) as u64;
        Attempts { rows, total: history.len() as u64, left_out }
    }
}

impl Failure {
    pub fn new(error: &ErrorBody, rules: &FingerprintRules, room: &mut Room) -> Failure {
        let most = limits::WEB_MESSAGE_MARKUP_BYTES;
        let error_type = room.fit(&error.error_type, most);
        let message = room.fit(&error.message, most);
        let code = error.code.as_ref().map(|code| room.fit(code, most));
        let (backtrace, cut) = match &error.stack_trace {
            Some(text) => backtrace(text, rules, room),
            None => (Vec::new(), false),
        };
        let mut all: BTreeMap<&str, &str> =
            error.extra.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        if let Some(context) = &error.context {
            all.insert("context", context.get());
        }
        let context = lines_of(all.into_iter(), room);
        Failure { error_type, message, code, backtrace, cut, context }
    }
}

fn fields(extra: &BTreeMap<String, Box<RawValue>>, room: &mut Room) -> Fitted {
    lines_of(extra.iter().map(|(name, value)| (name.as_str(), value.get())), room)
}

fn lines_of<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>, room: &mut Room) -> Fitted {
    let mut all = Fitted::default();
    for (name, value) in fields {
        let (name, value) = (room.fit(name, 200), room.fit(value, limits::WEB_MESSAGE_MARKUP_BYTES));
        let goes_on = if value.cut { "…" } else { "" };
        all.text.push_str(&format!("{}: {}{goes_on}\n", name.text, value.text));
        all.cut |= name.cut || value.cut;
    }
    all
}

/// Lines of one owner together, those of others folded if they are many. And whether something is left out.
fn backtrace(text: &str, rules: &FingerprintRules, room: &mut Room) -> (Vec<Piece>, bool) {
    let lines = traced_lines(text, rules);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut left = limits::WEB_BACKTRACE_MARKUP_BYTES;
    let mut cut = text.len() > 2 * limits::BACKTRACE_BYTES_EACH_END;
    for line in lines {
        let fitted = room.fit(line.text, left);
        left = left.saturating_sub(fitted.text.len() + 20);
        if fitted.cut || left == 0 || !room.take(1) {
            cut = true;
            break;
        }
        let (is_own, is_foreign) = match line.origin {
            LineOrigin::InApp => (true, false),
            LineOrigin::Told => (false, false),
            LineOrigin::Library | LineOrigin::Runtime => (false, true),
        };
        match pieces.last_mut().filter(|piece| piece.is_own == is_own && piece.is_folded == is_foreign) {
            Some(piece) => {
                piece.lines += 1;
                piece.text.push('\n');
                piece.text.push_str(&fitted.text);
            }
            None => {
                if !room.take(100) {
                    cut = true;
                    break;
                }
                pieces.push(Piece { is_own, is_folded: is_foreign, lines: 1, text: fitted.text });
            }
        }
    }
    // A backtrace of libraries alone would show nothing at all.
    let has_own = pieces.iter().any(|piece| piece.is_own);
    for piece in &mut pieces {
        piece.is_folded &= has_own && piece.lines >= FOLDED_MIN;
    }
    (pieces, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Piece>, bool) {
        backtrace(text, &FingerprintRules::default(), &mut Room::new(100_000))
    }

    #[test]
    fn own_lines_stand_out_and_libraries_are_folded() {
        let library = "\tat org.springframework.web.Servlet.run(Servlet.java:3)\n".repeat(3);
        let (pieces, cut) = read(&format!(
            "E: no price\n\tat com.acme.Orders.total(Orders.java:12)\n{library}\tat com.acme.Main.main(Main.java:1)"
        ));
        let seen: Vec<(bool, bool, usize)> =
            pieces.iter().map(|piece| (piece.is_own, piece.is_folded, piece.lines)).collect();
        assert_eq!(seen, [(false, false, 1), (true, false, 1), (false, true, 3), (true, false, 1)]);
        assert!(!cut);
        let (pieces, _) = read(&library);
        assert!(pieces.iter().all(|piece| !piece.is_folded), "{pieces:?}");
    }

    #[test]
    fn an_endless_backtrace_ends() {
        let (pieces, cut) = read(&"at a.b.c(D.java:1)\n<script>\u{202e}".repeat(100_000));
        assert!(cut);
        assert!(
            pieces.iter().map(|piece| piece.text.len()).sum::<usize>() <= limits::WEB_BACKTRACE_MARKUP_BYTES
        );
        let one: (Vec<Piece>, bool) = read(&"x".repeat(1_000_000));
        assert!(one.1);
    }
}
