//! Stack traces of .NET, whose inner exceptions stand inside the outer one.
//!
//! State machines and display classes are the compiler's; a name shows the method that a person wrote.

use super::{Cause, push};
use crate::fingerprint::error_type;
use crate::fingerprint::frame::Frame;
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    let mut open = 0_usize;
    for line in lines {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with("--- End of stack trace from previous") {
            continue;
        }
        if text.starts_with("--- End of inner exception stack trace") {
            open = open.saturating_sub(1);
        } else if let Some(frame) = frame(text) {
            if let Some(cause) = causes.get_mut(open) {
                cause.frames.outward(Language::DotNet, frame, rules);
            }
        } else if text.starts_with("---> (Inner Exception #")
            && !text.starts_with("---> (Inner Exception #0)")
        {
            // The other members of an aggregate failed beside the first.
            break;
        } else if text.starts_with("---> ") || search::has(text, " ---> ") {
            for (position, head) in text.split("---> ").enumerate() {
                let head = head.trim().trim_start_matches("(Inner Exception #0) ").trim_end_matches("<---");
                if head.is_empty() {
                    continue;
                }
                let cause = Cause::new(error_type::head(head));
                if position == 0 && causes.len() == 1 && causes[0].is_empty() {
                    causes[0] = cause;
                } else if position > 0 {
                    push(&mut causes, cause);
                }
            }
            open = causes.len() - 1;
        } else if let Some(cause) = causes.get_mut(open)
            && cause.frames.seen == 0
        {
            if cause.is_empty() {
                *cause =
                    Cause::new(error_type::head(text.strip_prefix("Unhandled exception. ").unwrap_or(text)));
            } else {
                cause.continue_message(text);
            }
        }
    }
    causes
}

fn frame(text: &str) -> Option<Frame<'_>> {
    let call = text.strip_prefix("at ")?;
    let (function, rest) = call.split_once('(')?;
    if function.contains(' ') && !function.contains('<') {
        return None;
    }
    let place = rest
        .split_once(") in ")
        .map_or("", |(_, place)| place.rsplit_once(":line ").map_or(place, |it| it.0));
    Some(Frame { function, place, package: "" })
}

/// Class and method: `PaymentGateway.ChargeAsync`.
pub(super) fn name(frame: Frame<'_>) -> String {
    let function = without_arguments(frame.function);
    // A method that a person wrote stands in angle brackets inside what the compiler made of it.
    let written = function
        .match_indices('<')
        .filter_map(|(at, _)| {
            function[at + 1..].split_once('>').map(|(method, _)| (at, method.trim_start_matches('<')))
        })
        .find(|(_, method)| !method.is_empty());
    let (class, method) = match written {
        Some((at, method)) => {
            let before = function[..at].trim_end_matches('.');
            let class = before.rsplit(['.', '+']).find(|part| !part.is_empty() && !part.starts_with("<>"));
            (class.unwrap_or(""), method)
        }
        None => {
            let trimmed = function.trim_end_matches("..ctor").trim_end_matches("..cctor");
            if trimmed.len() < function.len() {
                (trimmed.rsplit(['.', '+']).next().unwrap_or(trimmed), "ctor")
            } else {
                let (class, method) = function.rsplit_once('.').unwrap_or(("", &function));
                (class.rsplit(['.', '+']).next().unwrap_or(class), method)
            }
        }
    };
    if class.is_empty() { method.to_string() } else { format!("{class}.{method}") }
}

/// Takes generic arity and arguments away: `List`1`, `Handle[TMessage]`.
fn without_arguments(function: &str) -> String {
    let mut plain = String::with_capacity(function.len());
    let mut depth = 0_usize;
    let mut arity = false;
    for c in function.chars() {
        arity = c == '`' || arity && c.is_ascii_digit();
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            c if depth == 0 && !arity => plain.push(c),
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
    fn the_innermost_exception_is_the_root() {
        let text = "System.AggregateException: One or more errors occurred. (Timeout)\n\
            \x20---> Acme.PaymentException: charge 12 failed\n\
            \x20---> System.TimeoutException: The operation has timed out.\n\
            \x20  at System.Net.Http.HttpClient.SendAsync(HttpRequestMessage request)\n\
            \x20  at Acme.Pay.PaymentGateway.<ChargeAsync>d__12.MoveNext() in C:\\work\\1\\s\\PaymentGateway.cs:line 88\n\
            --- End of stack trace from previous location ---\n\
            \x20  --- End of inner exception stack trace ---\n\
            \x20  at Acme.Pay.Retry.<>c__DisplayClass5_0.<RunAsync>b__1() in /src/Retry.cs:line 3\n\
            \x20  --- End of inner exception stack trace ---\n\
            \x20  at Acme.Program.Main(String[] args)\n\
            ---> (Inner Exception #1) System.Exception: other<---";
        let causes = read_names(text);
        assert_eq!(causes.len(), 3);
        assert_eq!(
            causes[2],
            (
                "System.TimeoutException".into(),
                "The operation has timed out.".into(),
                vec!["PaymentGateway.ChargeAsync".into()]
            )
        );
        assert_eq!(causes[1].2, ["Retry.RunAsync"]);
        assert_eq!(causes[0].2, ["Program.Main"]);
    }

    #[test]
    fn names_show_the_method_that_was_written() {
        for (function, expected) in [
            ("Acme.Foo`1.Handle[TMessage]", "Foo.Handle"),
            ("Acme.Foo..ctor", "Foo.ctor"),
            ("Acme.Program.<Main>g__Local|0_1", "Program.Main"),
            ("Acme.Foo.<>c.<Bar>b__3_0", "Foo.Bar"),
            ("Acme.Foo.<>c__DisplayClass4_0.<<BarAsync>b__0>d.MoveNext", "Foo.BarAsync"),
            ("Acme.Outer+Inner.Run", "Inner.Run"),
            ("Run", "Run"),
        ] {
            assert_eq!(name(Frame { function, place: "", package: "" }), expected, "{function}");
        }
    }
}
