//! Panics of Rust with their backtraces, and the chains that `anyhow` and `eyre` print.

use super::{Cause, push};
use crate::fingerprint::error_type;
use crate::fingerprint::frame::{Frame, file_stem};
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;
use crate::limits;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    // All frames belong to the failure itself, wherever the chain is printed.
    let mut frames = crate::fingerprint::frame::Frames::default();
    let mut in_frames = false;
    let mut in_chain = false;
    let mut panicked_at = None;
    for (at, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with("note: ") {
            continue;
        }
        if text == "Location:" {
            // Where `eyre` made its report; the chain ends here.
            in_chain = false;
            in_frames = true;
            continue;
        }
        if text == "Error:" {
            in_chain = true;
            continue;
        }
        if text.eq_ignore_ascii_case("stack backtrace:") {
            in_frames = true;
        } else if text.starts_with("Caused by:") || text.starts_with("caused by:") {
            in_chain = true;
        } else if let Some((message, place)) = panic(text) {
            panicked_at = Some(place);
            causes = vec![Cause::new(("", message))];
        } else if let Some(function) = numbered(text) {
            let next =
                lines.get(at + 1).map(|next| next.trim_start()).and_then(|next| next.strip_prefix("at "));
            if in_frames || next.is_some() || !in_chain && is_frame(text) {
                let place = next.map_or("", |place| place.split(".rs:").next().unwrap_or(place));
                frames.outward(Language::Rust, Frame { function, place, package: "" }, rules);
            } else if in_chain {
                push(&mut causes, Cause::new(error_type::head(function)));
            }
        } else if text.starts_with("at ") && frames.seen > 0 {
            continue;
        } else if in_chain && !in_frames {
            push(&mut causes, Cause::new(error_type::head(text)));
        } else if !in_frames && let Some(cause) = causes.last_mut() {
            if cause.is_empty() {
                *cause = Cause::new(("", text.strip_prefix("Error: ").unwrap_or(text)));
            } else {
                cause.continue_message(text);
            }
        }
    }
    // A panic without frames still tells its file.
    if let Some(place) = panicked_at
        && frames.in_app.is_empty()
    {
        frames.outward(Language::Rust, Frame { function: "", place, package: "" }, rules);
    }
    if frames.seen == 0 {
        return joined(causes);
    }
    if let Some(root) = causes.last_mut() {
        root.frames = frames;
    }
    causes
}

/// One cause with the words of all, as they are printed in one line: without frames they tell where it happened.
fn joined(causes: Vec<Cause<'_>>) -> Vec<Cause<'_>> {
    let mut causes = causes.into_iter();
    let Some(mut whole) = causes.next() else { return Vec::new() };
    for cause in causes {
        // Libraries repeat what they wrap.
        if !whole.message.ends_with(&*cause.message)
            && whole.message.len() + cause.message.len() < limits::CAUSE_MESSAGE_BYTES_MAX
        {
            let message = whole.message.to_mut();
            message.push_str(": ");
            message.push_str(&cause.message);
        }
    }
    vec![whole]
}

/// Message and file of `thread 'main' panicked at src/main.rs:1:2:` and of the older form with the message first.
fn panic(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with("thread ") {
        return None;
    }
    let (_, rest) = search::split_once(text, " panicked at ")?;
    if let Some(message) = rest.strip_prefix('\'')
        && let Some((message, place)) = message.rsplit_once("', ")
    {
        return Some((message, place.split(".rs:").next().unwrap_or(place)));
    }
    Some(("", rest.split(".rs:").next().unwrap_or(rest)))
}

/// Whether a line is the first of a frame, as `  12: orders::gateway::charge` is.
pub(super) fn is_frame(text: &str) -> bool {
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    let path =
        |name: &str| search::has(name, "::") && name.bytes().take_while(|byte| is_path(*byte)).count() > 4;
    numbered(text).is_some_and(|name| path(name.trim_start_matches(['<', '&'])))
}

/// What stands behind the number of a line: `  12: orders::gateway::charge`.
fn numbered(text: &str) -> Option<&str> {
    let (number, rest) = search::split_once(text, ": ")?;
    let counts = !number.is_empty() && number.len() <= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let rest = rest.trim_start();
    // Some print the address first: `0x55d3c1 - orders::main`.
    let rest =
        rest.strip_prefix("0x").and_then(|it| search::split_once(it, " - ")).map_or(rest, |(_, name)| name);
    counts.then_some(rest)
}

/// Module and function: `gateway::charge`.
pub(super) fn name(frame: Frame<'_>) -> String {
    if frame.function.is_empty() {
        return file_stem(frame.place);
    }
    let plain = without_types(frame.function);
    let mut parts: Vec<&str> = plain
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty() && !part.starts_with('{') && !is_hash(part))
        .collect();
    let kept = parts.split_off(parts.len().saturating_sub(2));
    kept.join("::")
}

fn is_hash(part: &str) -> bool {
    part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Takes type arguments away and keeps the type of `<Type as Trait>::method`.
fn without_types(function: &str) -> String {
    let mut plain = String::with_capacity(function.len());
    let mut rest = function;
    if let Some(own) = rest.strip_prefix('<')
        && let Some((owner, method)) = search::split_once(own, ">::")
    {
        let owner = owner.split(" as ").next().unwrap_or(owner);
        plain.push_str(owner.trim_start_matches(['&', '<']).split('<').next().unwrap_or(owner));
        plain.push_str("::");
        rest = method;
    }
    let mut depth = 0_usize;
    for c in rest.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::super::read_names;
    use super::*;

    #[test]
    fn a_panic_shows_message_and_frames() {
        let text = "thread 'tokio-runtime-worker' panicked at src/gateway.rs:42:10:\n\
            called `Result::unwrap()` on an `Err` value: Timeout\n\
            stack backtrace:\n\
            \x20  0: rust_begin_unwind\n\
            \x20            at /rustc/0123/library/std/src/panicking.rs:645:5\n\
            \x20  1: core::result::unwrap_failed\n\
            \x20            at /rustc/0123/library/core/src/result.rs:1:5\n\
            \x20  2: orders::gateway::charge::{{closure}}::h0123456789abcdef\n\
            \x20            at ./src/gateway.rs:42:10\n\
            \x20  3: <orders::Worker as orders::Run>::run\n\
            \x20            at ./src/worker.rs:4:1\n\
            \x20  4: tokio::runtime::task::poll\n\
            \x20            at /root/.cargo/registry/src/tokio/task.rs:1:1\n\
            note: Some details are omitted";
        assert_eq!(
            read_names(text),
            [(
                String::new(),
                "called `Result::unwrap()` on an `Err` value: Timeout".into(),
                vec!["gateway::charge".into(), "Worker::run".into()]
            )]
        );
        let old = "thread 'main' panicked at 'index out of bounds', src/orders.rs:1:2\nnote: run with";
        assert_eq!(read_names(old), [(String::new(), "index out of bounds".into(), vec!["orders".into()])]);
    }

    #[test]
    fn the_last_of_a_chain_is_the_root() {
        let text = "Error: handle message\n\nCaused by:\n    0: charge card\n    1: connection refused (os error 111)\n\n\
            Stack backtrace:\n   0: anyhow::error::new\n   1: orders::gateway::charge\n             at ./src/gateway.rs:1:1";
        let causes = read_names(text);
        let root = causes.last().unwrap();
        assert_eq!(root.1, "connection refused (os error 111)");
        assert_eq!(root.2, ["gateway::charge"]);
    }

    #[test]
    fn types_and_hashes_are_no_part_of_a_name() {
        for (function, expected) in [
            ("<alloc::vec::Vec<T> as orders::Sum>::sum::h0123456789abcdef", "Vec::sum"),
            ("orders::run<orders::Config>", "orders::run"),
            ("orders::main::{{closure}}", "orders::main"),
            ("", ""),
        ] {
            assert_eq!(name(Frame { function, place: "", package: "" }), expected, "{function}");
        }
    }
}
