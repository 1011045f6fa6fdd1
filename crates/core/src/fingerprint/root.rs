//! The root cause of an error: its name, its words and the frames nearest the failure, out of everything reported.
//!
//! What wraps the root on its way out must not matter: retries, handlers and executors wrap the same failure once or
//! three times.

use std::borrow::Cow;

use crate::attempt::LetterError;
use crate::fingerprint::backtrace::{Backtrace, Cause, frame_name};
use crate::fingerprint::frame::{Frame, Origin};
use crate::fingerprint::language::Language;
use crate::fingerprint::message::{self, Style};
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::template::{HasFrames, Template, vocabulary};
use crate::fingerprint::{error_type, excerpt};
use crate::limits;

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
    /// Names and codes that a library told only in what it wrapped around the root.
    pub told_outside: Vec<String>,
}

impl<'a> Root<'a> {
    pub fn of(error: &'a LetterError, rules: &FingerprintRules) -> Root<'a> {
        let reported = excerpt::beginning(&error.error_type, limits::NAME_BYTES_MAX);
        let backtrace = match error.backtrace.as_deref() {
            Some(text) => Backtrace::read(text, rules),
            None => None,
        };
        // Some report the whole backtrace as the message.
        let backtrace = backtrace.or_else(|| {
            let told = excerpt::beginning(&error.message, limits::BACKTRACE_BYTES_EACH_END)
                .contains('\n')
                .then(|| Backtrace::read(&error.message, rules))
                .flatten();
            told.filter(|it| it.causes.iter().any(|cause| cause.frames.seen > 0))
        });
        let style = style(
            reported,
            excerpt::beginning(&error.message, limits::TEMPLATE_SOURCE_BYTES_MAX),
            backtrace.as_ref(),
        );
        let stated = message::core(&error.message, reported, style);
        let Some(backtrace) = backtrace else {
            let inner = error_type::normalise(stated.error_type);
            let mut error_type = if inner.is_empty() { error_type::normalise(reported) } else { inner };
            if error_type.is_empty() && stated.text.is_empty() {
                error_type = error_type::last_segment(reported).to_string();
            }
            let message = Cow::Borrowed(stated.text);
            return Root {
                language: None,
                error_type,
                message,
                frames: Vec::new(),
                has_frames: HasFrames::No,
                told_outside: Vec::new(),
            };
        };
        let (frames, has_frames) = nearest(&backtrace);
        let root =
            backtrace.causes.iter().rev().find(|cause| tells(cause)).map(|cause| told_by(cause, style));
        let chained = backtrace.causes.iter().rposition(tells).is_some_and(|at| at > 0);
        let (inner_type, inner_message) = root.unwrap_or_default();
        let own_type = [stated.error_type, reported]
            .iter()
            .map(|name| error_type::normalise(name))
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        // One error told twice, or an error and what is behind it?
        let is_behind = chained || !inner_type.is_empty() && inner_type != own_type;
        let (error_type, message) = if is_behind && !(inner_type.is_empty() && inner_message.is_empty()) {
            (inner_type, inner_message)
        } else if stated.text.is_empty() {
            (own_type, inner_message)
        } else {
            (own_type, Cow::Borrowed(stated.text))
        };
        // A root that names something itself needs nobody else's words.
        let names = Template::of(&message).kept().iter().any(|name| !vocabulary::is_type(name));
        let told_outside = if chained && !names { told_outside(&backtrace, &message) } else { Vec::new() };
        Root { language: Some(backtrace.language), error_type, message, frames, has_frames, told_outside }
    }
}

/// Go and Rust wrap errors by words in front.
fn style(reported: &str, message: &str, backtrace: Option<&Backtrace<'_>>) -> Style {
    let lower = |text: &str| text.trim_start().starts_with(|c: char| c.is_lowercase());
    let chained = match backtrace.map(|it| it.language) {
        Some(Language::Go | Language::Rust) => true,
        Some(_) => false,
        None => {
            error_type::is_go(reported)
                || reported.contains("anyhow")
                || error_type::normalise(reported).is_empty() && lower(message)
        }
    };
    if chained { Style::Chained } else { Style::Plain }
}

fn tells(cause: &Cause<'_>) -> bool {
    !cause.message.trim().is_empty() || !error_type::normalise(cause.error_type).is_empty()
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
            let said = Template::of(&cause.message).kept();
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

/// The frames that make the fingerprint: up to the first that is not a helper of many callers. An outer cause is asked
/// only where the root has none of its own, because its frames were left out as common.
fn nearest(backtrace: &Backtrace<'_>) -> (Vec<String>, HasFrames) {
    let named = |frames: &[Frame<'_>]| -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for frame in frames {
            let name = excerpt::beginning(&frame_name(backtrace.language, *frame), limits::NAME_BYTES_MAX)
                .to_string();
            // Recursion repeats one frame or a few in turn.
            if !names.contains(&name) && !name.is_empty() {
                names.push(name);
            }
        }
        names
    };
    for cause in backtrace.causes.iter().rev() {
        let mut names = named(&cause.frames.in_app);
        if names.is_empty() {
            continue;
        }
        let telling = names.iter().position(|name| !is_helper(name)).unwrap_or(names.len());
        names.truncate((telling + 1).min(limits::FINGERPRINT_FRAMES_MAX));
        return (names, HasFrames::Yes);
    }
    for cause in backtrace.causes.iter().rev() {
        let mut names = named(&cause.frames.library);
        if !names.is_empty() {
            names.truncate(1);
            return (names, HasFrames::No);
        }
    }
    (Vec::new(), HasFrames::No)
}

/// Whether a frame is code that many callers share, so that it alone does not tell the failure.
fn is_helper(name: &str) -> bool {
    let lower = name.to_lowercase();
    [
        "util",
        "helper",
        "common",
        "shared",
        "abstract",
        "wrapper",
        "retry",
        "middleware",
        "interceptor",
        "decorator",
        "assert",
        "ensure",
        "precondition",
        "httpclient",
        "http_client",
        "apiclient",
        "api_client",
        "restclient",
        "guard",
        "closure",
    ]
    .iter()
    .any(|part| lower.contains(part))
        || lower.starts_with("base")
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
        check(error("Error", "no", Some(text)), "", "no", &["assert.assertFound", "Orders.load"]);
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
