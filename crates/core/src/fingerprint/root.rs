//! The root cause of an error: its name, its words and the frames nearest the failure, out of everything reported.
//!
//! What wraps the root on its way out must not matter: retries, handlers and executors wrap the same failure once or
//! three times.

use std::borrow::Cow;

use crate::attempt::LetterError;
use crate::fingerprint::backtrace::{Backtrace, Cause};
use crate::fingerprint::frame::Origin;
use crate::fingerprint::language::Language;
use crate::fingerprint::message::{self, Style};
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search::{self, Parts};
use crate::fingerprint::template::{HasFrames, Template, vocabulary};
use crate::fingerprint::{error_type, excerpt};
use crate::limits;

mod place;

use self::place::Place;

/// What is left of an error when everything around its cause is taken away.
#[derive(Clone, Debug)]
pub(super) struct Root<'a> {
    pub language: Option<Language>,
    /// Normalised; empty when nothing tells it.
    pub error_type: String,
    /// The words of the root, a piece of what was reported.
    pub message: Cow<'a, str>,
    /// Normalised names, nearest the failure first.
    pub frames: Vec<String>,
    pub has_frames: HasFrames,
    /// Whether a library threw the root, whose name then says only which layer spoke.
    pub is_of_library: bool,
    /// Names and codes that a library told only in what it wrapped around the root.
    pub told_outside: Vec<String>,
}

impl<'a> Root<'a> {
    pub fn of(error: &'a LetterError, rules: &FingerprintRules) -> Root<'a> {
        let reported = excerpt::beginning(&error.error_type, limits::NAME_BYTES_MAX);
        let traced = error.backtrace.as_deref().and_then(|text| Backtrace::read(text, rules));
        // Some report the whole backtrace as the message, beside it or instead of it.
        let in_message = backtrace_in(&error.message, rules).filter(|it| {
            // The first line of a panic tells a place as well, and is no backtrace beside one.
            traced.is_none() || it.causes.iter().any(|cause| cause.frames.seen > 1)
        });
        let message = if in_message.is_some() { "" } else { error.message.as_str() };
        let Some(backtrace) = traced.or(in_message) else {
            return Root::without_backtrace(reported, message);
        };
        let style = style(reported, Some(backtrace.language));
        let place = Place::of(&backtrace, reported);
        let told = root_of(&backtrace);
        let inner = told.map(|root| told_by(&backtrace.causes[root], style)).unwrap_or_default();
        let seen = told.map(|root| seen_by_program(&backtrace, root, &inner.1));
        let inner = match seen {
            Some(at) if seen != told => told_by(&backtrace.causes[at], style),
            Some(_) | None => inner,
        };
        let is_chained = seen.is_some_and(|at| at > 0);
        let chain = seen.map_or("", |at| &*backtrace.causes[at].message);
        let is_longer = goes_on(chain, message.trim(), style);
        let inner = Inner { error_type: inner.0, message: inner.1, is_chained, is_longer };
        let (error_type, said) = told_best(message, reported, backtrace.language, inner);
        let told_outside = if is_chained && seen == told && !names_something(&said) {
            told_outside(&backtrace, &said)
        } else {
            Vec::new()
        };
        let message = match place.has_frames {
            HasFrames::Yes if style == Style::Chained && place.tells() => {
                shortened(said, message::root_alone)
            }
            HasFrames::Yes if place.is_of_library => shortened(said, message::without_operation),
            HasFrames::Yes | HasFrames::No => said,
        };
        Root {
            language: Some(backtrace.language),
            error_type,
            message,
            frames: place.frames,
            has_frames: place.has_frames,
            is_of_library: place.is_of_library,
            told_outside,
        }
    }

    fn without_backtrace(reported: &str, message: &'a str) -> Root<'a> {
        let stated = message::core(message, reported, style(reported, None));
        let inner = error_type::normalise(stated.error_type);
        let mut error_type = if inner.is_empty() { error_type::normalise(reported) } else { inner };
        if error_type.is_empty() && stated.text.is_empty() {
            error_type = error_type::last_segment(reported).to_string();
        }
        Root {
            language: None,
            error_type,
            message: Cow::Borrowed(stated.text),
            frames: Vec::new(),
            has_frames: HasFrames::No,
            is_of_library: false,
            told_outside: Vec::new(),
        }
    }
}

/// A piece of what was said.
fn shortened(said: Cow<'_, str>, piece: fn(&str) -> &str) -> Cow<'_, str> {
    match said {
        Cow::Borrowed(text) => Cow::Borrowed(piece(text)),
        Cow::Owned(text) => Cow::Owned(piece(&text).to_string()),
    }
}

/// The backtrace that a message holds, if it holds one.
fn backtrace_in<'a>(message: &'a str, rules: &FingerprintRules) -> Option<Backtrace<'a>> {
    if !excerpt::beginning(message, limits::BACKTRACE_BYTES_EACH_END).contains('\n') {
        return None;
    }
    Backtrace::read(message, rules).filter(|it| it.causes.iter().any(|cause| cause.frames.seen > 0))
}

/// What a backtrace tells of its root, and whether other errors are wrapped around it.
struct Inner<'a> {
    error_type: String,
    message: Cow<'a, str>,
    is_chained: bool,
    /// Whether its chain begins with the reported message and says more behind it.
    is_longer: bool,
}

/// Name and words of the root, out of the message and of what the backtrace tells. Is it one error told twice, or an
/// error and what is behind it?
fn told_best<'a>(
    message: &'a str,
    reported: &str,
    language: Language,
    inner: Inner<'a>,
) -> (String, Cow<'a, str>) {
    let style = style(reported, Some(language));
    let stated = message::core(message, reported, style);
    let named = || {
        let names = [stated.error_type, reported];
        names.iter().map(|name| error_type::normalise(name)).find(|name| !name.is_empty()).unwrap_or_default()
    };
    let own_type = if says_all_in_words(language) { String::new() } else { named() };
    let Inner { error_type: inner_type, message: inner_message, is_chained, is_longer } = inner;
    let is_nothing = inner_type.is_empty() && inner_message.is_empty();
    let is_other = !inner_type.is_empty() && inner_type != own_type;
    // A message that goes on behind what the backtrace tells makes the backtrace that of a wrapping.
    if is_nothing || goes_on(message, &inner_message, style) || !(is_chained || is_other) {
        // The backtrace has the root alone where the message has words of callers in front of it.
        if style == Style::Chained && !inner_message.is_empty() && stated.text.ends_with(&*inner_message) {
            return (own_type, inner_message);
        }
        let is_more = is_longer || style == Style::Chained && inner_message.starts_with(stated.text);
        let said = if stated.text.is_empty() || is_more { inner_message } else { Cow::Borrowed(stated.text) };
        return (own_type, said);
    }
    // The same words without the name: the message has them as they were, with its empty lines.
    let line = stated.text.lines().next().unwrap_or("");
    if own_type.is_empty() && !is_chained && !line.is_empty() && inner_message.starts_with(line) {
        return (inner_type, Cow::Borrowed(stated.text));
    }
    (inner_type, inner_message)
}

/// Whether a root names something itself and needs nobody else's words.
fn names_something(said: &str) -> bool {
    Template::of(said).kept().iter().any(|name| !vocabulary::is_type(name))
}

/// Go and Rust say everything in the message: their types change with each wrapping, however they are written.
fn says_all_in_words(language: Language) -> bool {
    match language {
        Language::Go | Language::Rust => true,
        Language::Java
        | Language::Python
        | Language::Node
        | Language::DotNet
        | Language::Ruby
        | Language::Php
        | Language::Elixir => false,
    }
}

/// Go and Rust wrap errors by words in front. Without a backtrace, only the way of writing tells them.
fn style(reported: &str, language: Option<Language>) -> Style {
    match language {
        Some(language) if says_all_in_words(language) => Style::Chained,
        Some(_) => Style::Plain,
        None if error_type::is_go(reported) || reported.contains("anyhow") => Style::Chained,
        None if error_type::normalise(reported).is_empty() => Style::AsWritten,
        None => Style::Plain,
    }
}

/// Which cause tells the root: the innermost that tells anything. An open circuit names the failure that opened it,
/// long ago, as its cause; the letter failed because of the circuit.
fn root_of(backtrace: &Backtrace<'_>) -> Option<usize> {
    let is_circuit = |cause: &Cause<'_>| {
        search::has_any(
            cause.error_type,
            const { Parts::of(&["BrokenCircuit", "CircuitBreakerOpen", "CallNotPermitted"]) },
        )
    };
    let causes = &backtrace.causes;
    causes.iter().position(is_circuit).or_else(|| causes.iter().rposition(tells))
}

fn tells(cause: &Cause<'_>) -> bool {
    if cause.message.starts_with("Unknown error") {
        return false;
    }
    !cause.message.trim().is_empty() || !error_type::normalise(cause.error_type).is_empty()
}

/// The cause that the program itself met, where it repeats what the root says: a library wraps its own errors, and a
/// report without a chain tells only the outermost of them. One that does not repeat its root gives way to it.
fn seen_by_program<'a>(backtrace: &Backtrace<'a>, root: usize, said: &str) -> usize {
    if root == 0 || said.is_empty() || says_all_in_words(backtrace.language) {
        return root;
    }
    let place = |cause: &Cause<'a>| cause.frames.in_app.first().map(|frame| frame.function);
    let mut met = place(&backtrace.causes[root]);
    let mut seen = root;
    for at in (0..root).rev() {
        let cause = &backtrace.causes[at];
        let by_library = matches!(cause.frames.thrown_by, Some(Origin::Library | Origin::Runtime));
        if !by_library || met.is_some() && place(cause) != met {
            break;
        }
        met = met.or(place(cause));
        // What only puts words in front is a wrapping like any other.
        let line = cause.message.lines().next().unwrap_or("");
        let is_within = line.find(said).is_some_and(|at| {
            !(line[..at].ends_with(": ") && line[at + said.len()..].trim_end_matches(['.', ' ']).is_empty())
        });
        if is_within && !told_by(cause, Style::Plain).0.is_empty() {
            seen = at;
        }
    }
    seen
}

/// Whether a message says more behind the words of a cause: `publish event: kafka: no brokers` behind `publish event`.
fn goes_on(message: &str, told: &str, style: Style) -> bool {
    if style == Style::Plain || told.is_empty() {
        return false;
    }
    let message = excerpt::beginning(message, limits::TEMPLATE_SOURCE_BYTES_MAX);
    let behind = message.find(told).map_or("", |at| &message[at + told.len()..]);
    behind.strip_prefix(": ").is_some_and(|rest| !rest.trim().is_empty())
}

/// Name and words of one cause of a backtrace.
fn told_by<'a>(cause: &Cause<'a>, style: Style) -> (String, Cow<'a, str>) {
    let name = |inner: &str| {
        let inner = error_type::normalise(inner);
        if inner.is_empty() { error_type::normalise(cause.error_type) } else { inner }
    };
    match &cause.message {
        Cow::Borrowed(text) => {
            let core = message::core(text, cause.error_type, style);
            (name(core.error_type), Cow::Borrowed(core.text))
        }
        Cow::Owned(text) => {
            let core = message::core(text, cause.error_type, style);
            (name(core.error_type), Cow::Owned(core.text.to_string()))
        }
    }
}

/// What a library says around a root that it caught itself: a parser's error tells what is wrong, and the one around it
/// tells in which field. What the program itself wraps around is left out: it differs from caller to caller.
fn told_outside(backtrace: &Backtrace<'_>, message: &str) -> Vec<String> {
    let mut told = Vec::new();
    for (at, cause) in backtrace.causes.iter().enumerate().rev().take(limits::CAUSES_TOLD_MAX) {
        let is_root = at + 1 == backtrace.causes.len();
        let by_library = match cause.frames.thrown_by {
            Some(Origin::Library | Origin::Runtime) => true,
            Some(Origin::InApp) => break,
            None => false,
        };
        if by_library && !is_root {
            let said = message::core(&cause.message, cause.error_type, Style::Plain);
            let said = Template::of(said.text).kept();
            let known = format!("{} {message}", root_type(backtrace)).to_lowercase();
            told.extend(said.into_iter().filter(|word| !known.contains(word.as_str())));
        }
        if !cause.frames.in_app.is_empty() {
            break;
        }
    }
    told
}

fn root_type<'a>(backtrace: &Backtrace<'a>) -> &'a str {
    backtrace.causes.last().map_or("", |cause| cause.error_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(error_type: &str, message: &str, backtrace: Option<&str>) -> LetterError {
        LetterError {
            error_type: error_type.into(),
            message: message.into(),
            backtrace: backtrace.map(String::from),
            ..LetterError::default()
        }
    }

    #[track_caller]
    fn check(error: LetterError, error_type: &str, message: &str, frames: &[&str]) {
        let root = Root::of(&error, &FingerprintRules::default());
        assert_eq!(
            (
                root.error_type.as_str(),
                &*root.message,
                root.frames.iter().map(String::as_str).collect::<Vec<_>>()
            ),
            (error_type, message, frames.to_vec())
        );
    }

    #[test]
    fn a_wrapper_gives_way_to_what_it_wraps() {
        let chain = "java.util.concurrent.ExecutionException: com.acme.Failed: no\n\tat com.acme.Handler.handle(Handler.java:1)\n\
            Caused by: java.net.SocketTimeoutException: Read timed out\n\tat java.net.Socket.read(Socket.java:1)\n\t... 3 more";
        check(
            error("java.util.concurrent.ExecutionException", "com.acme.Failed: no", Some(chain)),
            "SocketTimeoutException",
            "Read timed out",
            &["Handler.handle"],
        );
        check(
            error("RuntimeException", "java.net.SocketTimeoutException: Read timed out", None),
            "SocketTimeoutException",
            "Read timed out",
            &[],
        );
    }

    #[test]
    fn a_missing_name_is_taken_from_the_text() {
        check(error("", "TypeError: x is undefined", None), "TypeError", "x is undefined", &[]);
        let text = "TypeError: x is undefined\n    at load (/app/a.js:1:1)";
        check(error("", "", Some(text)), "TypeError", "x is undefined", &["a.load"]);
        check(error("", text, None), "TypeError", "x is undefined", &["a.load"]);
    }

    #[test]
    fn where_nothing_else_is_told_any_name_is_better_than_none() {
        check(error("*pay.DeclinedError", "", None), "DeclinedError", "", &[]);
        check(error("*pay.DeclinedError", "card declined", None), "", "card declined", &[]);
    }

    #[test]
    fn a_helper_is_told_by_its_caller() {
        let text = "Error: no\n    at assertFound (/app/utils/assert.js:1:1)\n    at Orders.load (/app/o.js:1:1)\n    at run (/app/r.js:1:1)";
        check(error("Error", "no", Some(text)), "", "no", &["assertFound", "Orders.load"]);
    }

    #[test]
    fn without_own_frames_the_nearest_library_stands_in() {
        let text = "java.lang.IllegalStateException: closed\n\tat java.util.List.get(List.java:1)\n\tat org.apache.kafka.Producer.send(Producer.java:1)";
        check(
            error("java.lang.IllegalStateException", "closed", Some(text)),
            "IllegalStateException",
            "closed",
            &["Producer.send"],
        );
    }
}
