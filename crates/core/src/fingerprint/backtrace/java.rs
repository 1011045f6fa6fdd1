//! Backtraces of Java, Kotlin, Scala and Groovy.
//!
//! What a compiler or a container makes up (lambdas, coroutines, proxies) must not show in a name: it changes with
//! each build.

use super::{Cause, indent, push};
use crate::fingerprint::error_type;
use crate::fingerprint::frame::Frame;
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    let mut suppressed: Option<usize> = None;
    let mut root_first = false;
    for line in lines {
        let text = line.trim_ascii_start();
        // Most lines are frames, and nothing else begins with a small `a`.
        if suppressed.is_none()
            && let Some(frame) = frame(text)
        {
            if let Some(cause) = causes.last_mut() {
                cause.frames.outward(Language::Java, frame, rules);
            }
            continue;
        }
        if text.is_empty() || is_omission(text) {
            continue;
        }
        let head = ["Caused by: ", "Wrapped by: "].iter().find_map(|marker| text.strip_prefix(marker));
        if let Some(depth) = suppressed {
            // What was suppressed has causes of its own, further to the right.
            let ends = indent(line) < depth || head.is_some() && indent(line) == 0;
            if !ends {
                continue;
            }
            suppressed = None;
        }
        if text.starts_with("Suppressed: ") {
            suppressed = Some(indent(line));
        } else if let Some(head) = head {
            root_first |= text.starts_with("Wrapped by: ");
            push(&mut causes, Cause::new(error_type::head_of_line(head)));
        } else if let Some(frame) = frame(text) {
            // The first frame behind what was suppressed.
            if let Some(cause) = causes.last_mut() {
                cause.frames.outward(Language::Java, frame, rules);
            }
        } else if let Some(cause) = causes.last_mut()
            && cause.frames.seen == 0
        {
            if cause.is_empty() {
                *cause = Cause::new(error_type::head(without_thread(text)));
            } else {
                cause.continue_message(text);
            }
        }
    }
    if root_first {
        causes.reverse();
    }
    causes
}

fn without_thread(text: &str) -> &str {
    let rest = text.strip_prefix("Exception in thread \"").and_then(|rest| search::split_once(rest, "\" "));
    rest.map_or(text, |(_, rest)| rest)
}

/// `... 23 more`, `... 12 common frames omitted`, `[CIRCULAR REFERENCE: …]`.
fn is_omission(text: &str) -> bool {
    text.starts_with("...")
        || text.starts_with("[CIRCULAR REFERENCE")
        || text.starts_with("(Coroutine boundary)")
}

/// The bytes that end the name of a function, or show that there is none.
const STOPS: [bool; 256] = {
    let mut stops = [false; 256];
    let mut at = 0;
    while at < 5 {
        stops[b"([ \"/"[at] as usize] = true;
        at += 1;
    }
    stops
};

fn frame(text: &str) -> Option<Frame<'_>> {
    let call = text.strip_prefix("at ")?;
    let bytes = call.as_bytes();
    let (mut own, mut open) = (0, 0);
    // One pass in place of four: this is done for each line of each backtrace.
    loop {
        if !STOPS[usize::from(*bytes.get(open)?)] {
            open += 1;
            continue;
        }
        match bytes[open] {
            b'(' => break,
            // Loader and module stand before the class: `app//com.acme.Foo`, `java.base/java.util.List`.
            b'/' => own = open + 1,
            // Jackson's messages go on with `at [Source: (String)…`.
            _ => return None,
        }
        open += 1;
    }
    let (function, rest) = (&call[own..open], &call[open + 1..]);
    let end = rest.bytes().position(|byte| matches!(byte, b')' | b':')).unwrap_or(rest.len());
    let place = &rest[..end];
    Some(Frame { function, place, package: "" })
}

/// Whether the text between the brackets is one that Java prints.
pub(super) fn is_place(inner: &str) -> bool {
    let file = inner.split(':').next().unwrap_or(inner);
    [".java", ".kt", ".kts", ".scala", ".groovy", ".clj"].iter().any(|end| file.ends_with(end))
        || matches!(
            file,
            "Native Method" | "Unknown Source" | "SourceFile" | "<generated>" | "Unknown Source Method"
        )
}

/// Class and method: `PaymentGateway.charge`.
pub(super) fn name(frame: Frame<'_>) -> String {
    let (class, method) = frame.function.rsplit_once('.').unwrap_or(("", frame.function));
    let class = class.rsplit('.').next().unwrap_or(class);
    let class = class.split("$$").next().unwrap_or(class);
    let mut inner = class.split('$').filter(|part| is_written(part));
    let outer = inner.next().unwrap_or(class).trim_end_matches("Kt");
    // Kotlin makes a class of each lambda and names it after the function around it.
    let enclosing = class.split('$').skip(1).filter(|part| starts_small(part)).find(|part| is_written(part));
    let method = match (method, enclosing) {
        ("invoke" | "invokeSuspend" | "apply" | "accept" | "emit" | "call" | "run", Some(function)) => {
            function
        }
        ("<init>" | "<clinit>", _) => "<init>",
        (method, _) => method,
    };
    let method = method
        .strip_prefix("lambda$")
        .or_else(|| method.strip_prefix("$anonfun$"))
        .map_or(method, |rest| rest.split('$').next().unwrap_or(rest))
        .split(['$', '-'])
        .find(|part| !part.is_empty())
        .unwrap_or(method);
    match inner.rfind(|part| !starts_small(part)) {
        Some(inner) => format!("{outer}.{inner}.{method}"),
        None => format!("{outer}.{method}"),
    }
}

/// Whether a person wrote this part of a class's name.
fn is_written(part: &str) -> bool {
    !part.is_empty()
        && !part.bytes().all(|byte| byte.is_ascii_digit())
        && !matches!(
            part,
            "Companion" | "sam" | "inlined" | "special" | "WhenMappings" | "DefaultImpls" | "lambda"
        )
}

fn starts_small(part: &str) -> bool {
    part.starts_with(|c: char| c.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::super::read_names;
    use super::*;

    #[test]
    fn the_last_cause_is_the_root_and_suppressed_errors_are_not_causes() {
        let text = "Exception in thread \"worker-3\" com.acme.OrderException: order 12 failed\n\
            \tat com.acme.orders.OrderHandler.handle(OrderHandler.java:41)\n\
            \tSuppressed: java.io.IOException: close\n\
            \t\tat com.acme.orders.Stream.close(Stream.java:3)\n\
            \t\tCaused by: java.io.EOFException\n\
            \t\t\t... 3 more\n\
            Caused by: java.net.SocketTimeoutException: Read timed out\n\
            \tat java.base/java.net.SocketInputStream.read(SocketInputStream.java:189)\n\
            \tat okhttp3.RealCall.execute(RealCall.kt:12)\n\
            \tat app//com.acme.pay.PaymentGateway.lambda$charge$3(PaymentGateway.java:88)\n\
            \t... 23 more";
        let causes = read_names(text);
        assert_eq!(causes.len(), 2);
        assert_eq!(causes[0].0, "com.acme.OrderException");
        assert_eq!(
            causes[1],
            (
                "java.net.SocketTimeoutException".into(),
                "Read timed out".into(),
                vec!["PaymentGateway.charge".into()]
            )
        );
    }

    #[test]
    fn names_lose_what_compilers_and_containers_add() {
        for (function, expected) in [
            ("com.acme.Foo$$EnhancerBySpringCGLIB$$1a2b.bar", "Foo.bar"),
            ("com.acme.Foo$bar$1.invokeSuspend", "Foo.bar"),
            ("com.acme.Foo$Companion.of", "Foo.of"),
            ("com.acme.FooKt.main", "Foo.main"),
            ("com.acme.Foo$Inner.run", "Foo.Inner.run"),
            ("com.acme.Foo$2.run", "Foo.run"),
            ("com.acme.Foo.<init>", "Foo.<init>"),
            ("com.acme.Foo.bar$lambda$4", "Foo.bar"),
            ("com.acme.Foo.bar$suspendImpl", "Foo.bar"),
            ("com.acme.Foo$.$anonfun$bar$1", "Foo.bar"),
            ("bar", ".bar"),
            ("", "."),
        ] {
            assert_eq!(name(Frame { function, place: "", package: "" }), expected, "{function}");
        }
    }
}
