//! Stacks of Node, Deno and Bun, of sources and of bundles.
//!
//! Minified names change with each build, so they must not enter a name.

use super::{Cause, push};
use crate::fingerprint::error_type;
use crate::fingerprint::frame::{Frame, file_stem};
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    let mut member_follows = false;
    let mut in_group = false;
    for line in lines {
        let text = line.trim_start();
        if text.is_empty() {
            continue;
        }
        if let Some(frame) = frame(text) {
            if let Some(cause) = causes.last_mut() {
                cause.frames.outward(Language::Node, frame, rules);
            }
        } else if let Some(head) = cause_head(text) {
            push(&mut causes, Cause::new(head_of(head)));
        } else if text.starts_with("[errors]: [") || text.starts_with("errors: [") {
            member_follows = true;
        } else if member_follows {
            member_follows = false;
            in_group = true;
            push(&mut causes, Cause::new(head_of(text)));
        } else if let Some(cause) = causes.last_mut() {
            if cause.frames.seen > 0 {
                // The other members of a group failed beside this one.
                if in_group && !error_type::head(text).0.is_empty() {
                    break;
                }
            } else if cause.is_empty() {
                *cause = Cause::new(head_of(text));
            } else {
                cause.continue_message(text);
            }
        }
    }
    causes
}

fn cause_head(text: &str) -> Option<&str> {
    let marked =
        ["[cause]: ", "Caused by: ", "caused by: "].iter().find_map(|marker| text.strip_prefix(marker));
    // Where `cause` can be enumerated it stands among the error's other properties.
    marked.or_else(|| {
        let inner = ["cause: ", "parent: ", "original: "].iter().find_map(|key| text.strip_prefix(key))?;
        let name = inner.split([':', ' ']).next().unwrap_or(inner);
        (name.ends_with("rror") || !error_type::head(inner).0.is_empty()).then_some(inner)
    })
}

fn head_of(text: &str) -> (&str, &str) {
    let text = text.strip_prefix("Uncaught ").unwrap_or(text);
    // The driver of PostgreSQL names its errors with a small letter.
    let text = text.strip_prefix("error: ").unwrap_or(text);
    error_type::head(text.strip_prefix("UnhandledPromiseRejectionWarning: ").unwrap_or(text))
}

fn frame(text: &str) -> Option<Frame<'_>> {
    let call = text.strip_prefix("at ")?.trim_start();
    let call = call.strip_prefix("async ").unwrap_or(call);
    let (function, place) = match call.rsplit_once(" (") {
        // A bundler's own path may hold brackets: `webpack-internal:///(rsc)/./src/a.ts`.
        Some((function, place)) => (function, place.rfind(')').map_or(place, |at| &place[..at])),
        None => ("", call),
    };
    // A sentence in the message may begin with `at` as well.
    if function.is_empty() && position(place).is_none() {
        return None;
    }
    let path = position(place).unwrap_or(place);
    Some(Frame { function, place: path.strip_prefix("file://").unwrap_or(path), package: "" })
}

/// The path in front of line and column: `/app/main.js:1:2`.
pub(super) fn position(place: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, column) = place.rsplit_once(':')?;
    if !digits(column) {
        return None;
    }
    match rest.rsplit_once(':') {
        Some((path, line)) if digits(line) && !path.is_empty() => Some(path),
        Some(_) | None => None,
    }
}

/// Class and method, or file and function: `PaymentGateway.charge`, `gateway.charge`.
pub(super) fn name(frame: Frame<'_>) -> String {
    let function = frame.function.strip_prefix("new ").unwrap_or(frame.function);
    // `Foo.bar [as baz]` names the property it was called by.
    let function = function.split(" [").next().unwrap_or(function).trim_start_matches("async ");
    let stem = file_stem(frame.place);
    let parts: Vec<&str> = function
        .split('.')
        .map(|part| part.trim_start_matches('_').trim_matches(['<', '>']))
        .filter(|part| !is_owner_of_nothing(part))
        .collect();
    // Bundlers shorten all names to a letter or two.
    let minified = !parts.is_empty() && parts.iter().all(|part| part.len() <= 2);
    match parts.as_slice() {
        [] => stem,
        _ if minified => format!("{stem}.<minified>"),
        // A bundle has one file where the sources have many.
        [only] if is_chunk(&stem) || has_two_words(only) => (*only).to_string(),
        [only] => format!("{stem}.{only}"),
        [.., class, method] => format!("{class}.{method}"),
    }
}

/// Whether a bundler named the file: by a number, a hash or the whole of what it holds.
fn is_chunk(stem: &str) -> bool {
    stem.bytes().any(|byte| byte.is_ascii_digit())
        && stem.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'_' | b'-'))
        || matches!(stem, "bundle" | "chunk" | "vendor" | "vendors" | "chunks")
}

/// Whether a function's name tells by itself what it does, as `formatDestination` does and `load` does not.
fn has_two_words(function: &str) -> bool {
    let humps = function.bytes().skip(1).filter(u8::is_ascii_uppercase).count();
    function.len() >= 8 && (humps > 0 || function[1..].contains('_'))
}

fn is_owner_of_nothing(part: &str) -> bool {
    matches!(
        part,
        "" | "Object"
            | "Function"
            | "Module"
            | "module"
            | "exports"
            | "process"
            | "Array"
            | "Promise"
            | "global"
            | "anonymous"
            | "Timeout"
            | "Immediate"
            | "default"
            | "Runner"
    )
}

#[cfg(test)]
mod tests {
    use super::super::read_names;
    use super::*;

    #[test]
    fn the_innermost_cause_is_the_root() {
        let text = "Error: order 12 failed\n\
            \x20   at handle (/app/dist/handler.js:3:9)\n\
            \x20   at process.processTicksAndRejections (node:internal/process/task_queues:95:5) {\n\
            \x20 [cause]: AxiosError: Request failed with status code 503\n\
            \x20     at settle (/app/node_modules/axios/lib/core/settle.js:19:12)\n\
            \x20     at async PaymentGateway.charge (file:///app/dist/gateway.js:88:11) {\n\
            \x20   code: 'ERR_BAD_RESPONSE'\n\
            \x20 }\n\
            }";
        let causes = read_names(text);
        assert_eq!(causes[0].2, ["handler.handle"]);
        assert_eq!(
            causes[1],
            (
                "AxiosError".into(),
                "Request failed with status code 503".into(),
                vec!["PaymentGateway.charge".into()]
            )
        );
    }

    #[test]
    fn the_first_member_of_an_aggregate_is_its_root() {
        let text = "AggregateError: all failed\n    at run (/app/a.js:1:1) {\n  [errors]: [\n    TypeError: x is undefined\n        at load (/app/b.js:1:1)\n    RangeError: y\n        at other (/app/c.js:1:1)\n  ]\n}";
        let causes = read_names(text);
        assert_eq!(causes.len(), 2);
        assert_eq!(causes[1], ("TypeError".into(), "x is undefined".into(), vec!["b.load".into()]));
    }

    #[test]
    fn names_survive_a_build() {
        for (function, place, expected) in [
            ("e.t", "/app/dist/main.3f2a1b.js", "main.<minified>"),
            ("Object.<anonymous>", "/app/src/orders/index.ts", "orders/index"),
            ("new Gateway", "/app/gateway.js", "gateway.Gateway"),
            ("Object.handler [as fn]", "webpack://orders/./src/handler.ts", "handler.handler"),
            ("", "/app/worker.js", "worker"),
            ("Orders.load", "/app/x.js", "Orders.load"),
        ] {
            assert_eq!(name(Frame { function, place, package: "" }), expected);
        }
    }
}
