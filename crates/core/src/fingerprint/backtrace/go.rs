//! Go: panics with the dumps of goroutines, and the traces that `pkg/errors` prints.
//!
//! Arguments, addresses and the numbers of closures say nothing about the failure.

use super::{Cause, push};
use crate::fingerprint::frame::Frame;
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    let mut goroutine = false;
    let mut at = 0;
    while at < lines.len() {
        let text = lines[at].trim();
        let place = lines.get(at + 1).map(|next| next.trim()).filter(|next| is_place(next));
        at += 1;
        let Some(cause) = causes.last_mut() else { break };
        if text.is_empty() {
            // Other goroutines follow, and they did not fail.
            if goroutine && cause.frames.seen > 0 {
                break;
            }
        } else if text.starts_with("goroutine ") && text.ends_with(':') {
            if goroutine {
                break;
            }
            goroutine = true;
        } else if let Some(place) = place.filter(|_| is_function(text)) {
            at += 1;
            if text.starts_with("created by ") {
                continue;
            }
            if is_panic(text) {
                // Everything above is the recovery, not the failure.
                cause.frames = Default::default();
                continue;
            }
            let place = place.split(".go:").next().unwrap_or(place);
            cause.frames.outward(Language::Go, Frame { function: text, place, package: "" }, rules);
        } else if !goroutine
            && !is_place(text)
            && !text.starts_with("[signal")
            && !text.starts_with("exit status")
        {
            let message = text.trim_end_matches("[recovered]").trim_end();
            let stated = message.strip_prefix("panic: ");
            if cause.is_empty() {
                *cause = Cause::new(("", stated.unwrap_or(message)));
            } else if cause.frames.seen > 0 {
                push(&mut causes, Cause::new(("", message)));
            } else if stated.is_none() {
                cause.continue_message(message);
            }
        }
    }
    // Wrapped errors are printed from the root on.
    causes.reverse();
    causes
}

fn is_panic(function: &str) -> bool {
    function.starts_with("panic(")
        || function.starts_with("runtime.gopanic")
        || function.starts_with("runtime.panic")
        || function.starts_with("runtime.sigpanic")
        || function.starts_with("runtime.goPanic")
}

fn is_function(text: &str) -> bool {
    let name = text.strip_prefix("created by ").unwrap_or(text);
    let head = name.split(['(', ' ']).next().unwrap_or(name);
    head.contains('.') && !head.ends_with(':') || text.starts_with("panic(")
}

/// `/app/main.go:12 +0x1d`.
pub(super) fn is_place(line: &str) -> bool {
    // The runtime's own assembler is printed like any other file.
    let Some((path, rest)) = search::split_once(line, ".go:").or_else(|| search::split_once(line, ".s:"))
    else {
        return false;
    };
    (path.contains('/') || path.contains('\\'))
        && !search::has(path, ": ")
        && rest.starts_with(|c: char| c.is_ascii_digit())
        && !path.contains(' ')
}

/// Package, receiver and function: `pay.Gateway.Charge`.
pub(super) fn name(frame: Frame<'_>) -> String {
    let function = frame.function;
    // Arguments begin at the last bracket that is not a receiver's.
    let end = match function.rfind('(') {
        Some(at) if !function[at..].starts_with("(*") && function[..at].contains('.') => at,
        Some(_) | None => function.len(),
    };
    let path = &function[..end];
    let own = path.rfind('/').map_or(path, |at| &path[at + 1..]);
    let mut name = String::with_capacity(own.len());
    let mut depth = 0_usize;
    for c in own.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '(' | ')' | '*' => {}
            c if depth == 0 => name.push(c),
            _ => {}
        }
    }
    let mut parts: Vec<&str> = name.split('.').filter(|part| !part.is_empty()).collect();
    // `v2.Foo` is a version of the package whose name stands before it.
    if parts.len() > 1 && is_version(parts[0]) {
        parts.remove(0);
    }
    while parts.len() > 1 && parts.last().is_some_and(|part| is_closure(part)) {
        parts.pop();
    }
    parts.join(".").trim_end_matches("-fm").to_string()
}

fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

fn is_closure(part: &str) -> bool {
    let rest = part.trim_start_matches("func").trim_start_matches("gowrap").trim_start_matches("deferwrap");
    (rest.len() < part.len() || !part.is_empty()) && rest.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::super::read_names;
    use super::*;

    #[test]
    fn a_recovered_panic_shows_the_frame_that_panicked() {
        let text = "panic: runtime error: invalid memory address or nil pointer dereference [recovered]\n\
            \tpanic: again\n\
            [signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4a]\n\
            \n\
            goroutine 34 [running]:\n\
            github.com/acme/orders/worker.recoverJob.func1()\n\
            \t/app/worker/recover.go:12 +0x1d\n\
            panic({0x1234, 0x5678})\n\
            \t/usr/local/go/src/runtime/panic.go:884 +0x212\n\
            github.com/acme/orders/pay.(*Gateway).Charge(0xc0000, {0x1, 0x2})\n\
            \t/app/pay/gateway.go:88 +0x9f\n\
            main.main()\n\
            \t/app/main.go:3 +0x1\n\
            created by main.start in goroutine 1\n\
            \t/app/main.go:9 +0x1\n\
            \n\
            goroutine 1 [select]:\n\
            main.other()\n\
            \t/app/main.go:99 +0x1";
        assert_eq!(
            read_names(text),
            [(
                String::new(),
                "runtime error: invalid memory address or nil pointer dereference".into(),
                vec!["pay.Gateway.Charge".into(), "main.main".into()]
            )]
        );
    }

    #[test]
    fn a_wrapped_error_is_printed_from_its_root_on() {
        let text = "no rows in result set\n\
            github.com/acme/orders/store.(*Orders).Load\n\
            \t/build/store/orders.go:20\n\
            runtime.goexit\n\
            \t/usr/local/go/src/runtime/asm_amd64.s:1650\n\
            load order 42\n\
            github.com/acme/orders/worker.Handle[...]\n\
            \t/build/worker/handle.go:8";
        let causes = read_names(text);
        assert_eq!(
            causes[1],
            (String::new(), "no rows in result set".into(), vec!["store.Orders.Load".into()])
        );
        assert_eq!(causes[0].2, ["worker.Handle"]);
    }

    #[test]
    fn closures_are_named_after_the_function_around_them() {
        for (function, expected) in [
            ("main.run.func1.2()", "main.run"),
            ("github.com/acme/x/v2.Do(...)", "Do"),
            ("github.com/acme/x.(*T).Do-fm()", "x.T.Do"),
            ("github.com/acme/x.Map[...]({0x1})", "x.Map"),
        ] {
            assert_eq!(name(Frame { function, place: "", package: "" }), expected);
        }
    }
}
