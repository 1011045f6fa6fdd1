//! Which package is the program's own, where frames of more than one could be.
//!
//! No table knows every library. A frame of an unknown one stands nearer to the failure than the program does, and it
//! has no part in handling letters. Only with evidence for one package and none for the other is either ruled out.

use super::Frame;
use crate::fingerprint::language::Language;

/// The program's package among frames that no table knows, nearest the failure first; `None` where there is only one
/// package, or where nothing tells which it is.
pub(in crate::fingerprint) fn own_package<'a>(
    language: Language,
    frames: &[Frame<'a>],
    reported: &str,
) -> Option<&'a str> {
    let nearest = package(language, frames.first()?);
    if frames.iter().all(|frame| package(language, frame) == nearest) {
        return None;
    }
    // Whoever wraps what went wrong nearer to the failure by an error of its own is the program.
    let of_type = frames.iter().map(|frame| package(language, frame)).find(|it| is_of(it, reported));
    if of_type.is_some_and(|it| it != nearest) {
        return of_type;
    }
    let handles = |wanted: &str| {
        frames.iter().any(|frame| package(language, frame) == wanted && is_handler(frame.function))
    };
    let outer = package(language, frames.last()?);
    (outer != nearest && handles(outer) && !handles(nearest)).then_some(outer)
}

/// What a program and its parts share in their names: `com.acme`, `Acme`, `acme_orders`.
pub(in crate::fingerprint) fn package<'a>(language: Language, frame: &Frame<'a>) -> &'a str {
    let function = frame.function;
    let until = |sign: char, count: usize| {
        let end = function.match_indices(sign).nth(count - 1).map_or(0, |(at, _)| at);
        &function[..end]
    };
    match language {
        Language::Java => until('.', 2),
        Language::DotNet => until('.', 1),
        Language::Rust => function.trim_start_matches(['<', '&']).split("::").next().unwrap_or(""),
        Language::Elixir => frame.package,
        // Their paths tell a library by where it is installed.
        Language::Python | Language::Go | Language::Node | Language::Ruby | Language::Php => "",
    }
}

fn is_of(package: &str, name: &str) -> bool {
    !package.is_empty() && name.strip_prefix(package).is_some_and(|rest| rest.starts_with(['.', ':']))
}

/// Whether a name is one that programs give to what takes in letters and does the work of their trade: `OrderListener`,
/// and not `Worker` or `DefaultListener`, which frameworks have.
#[rustfmt::skip]
fn is_handler(function: &str) -> bool {
    const ENDS: &[&str] = &[
        "Activity", "Command", "Consumer", "Controller", "Exporter", "Facade", "Handler", "Importer", "Job", "Listener", "Projection", "Receiver",
        "Repository", "Saga", "Service", "Subscriber", "UseCase", "Worker", "_consumer", "_handler", "_job", "_listener", "_service", "_worker",
    ];
    const OF_FRAMEWORKS: &[&str] = &[
        "abstract", "async", "base", "batch", "default", "delegating", "event", "internal", "message", "method", "pool", "proxy", "reactive", "runnable",
        "simple", "task", "thread", "virtual", "executor", "queue", "kafka", "rabbit", "sqs", "jms", "stream", "callback", "job", "http", "request",
    ];
    let is_compound = |part: &str| {
        let Some(end) = ENDS.iter().find(|end| part.ends_with(*end)) else { return false };
        let trade = part[..part.len() - end.len()].to_lowercase();
        trade.len() >= 3 && !OF_FRAMEWORKS.iter().any(|start| trade.starts_with(start))
    };
    function.split(['.', ':', '$']).any(is_compound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(functions: &[&'static str], reported: &str) -> Option<&'static str> {
        let frames: Vec<_> =
            functions.iter().map(|function| Frame { function, place: "", package: "" }).collect();
        own_package(Language::Java, &frames, reported)
    }

    #[test]
    fn the_package_that_handles_letters_is_the_programs() {
        let unknown = "io.quaint.wire.FrameReader.next";
        assert_eq!(
            own(&[unknown, "com.acme.pay.Gateway.charge", "com.acme.pay.ChargeListener.on"], ""),
            Some("com.acme")
        );
        assert_eq!(own(&["com.acme.pay.ChargeService.charge", "io.quaint.Runner.run"], ""), None);
        assert_eq!(own(&["com.acme.pay.Gateway.charge", "com.acme.pay.ChargeListener.on"], ""), None);
        assert_eq!(own(&[], ""), None);
    }

    #[test]
    fn the_package_of_the_reported_error_is_the_programs() {
        let frames =
            ["io.quaint.wire.FrameReader.next", "com.acme.pay.Gateway.charge", "io.quaint.Runner.run"];
        assert_eq!(own(&frames, "com.acme.pay.ChargeFailed"), Some("com.acme"));
        assert_eq!(own(&frames, "io.quaint.WireException"), None);
        let frames =
            ["com.acme.pay.Gateway.charge", "io.quaint.jobs.Worker.run", "io.quaint.jobs.DefaultListener.on"];
        assert_eq!(own(&frames, ""), None);
    }
}
