//! Backtraces: which language printed one, the chain of causes it tells, and the frames of each cause.
//!
//! Reading one must never fail: a line that is not understood is not a frame, and a text without any frame or chain is
//! no backtrace.

use std::borrow::Cow;

use crate::fingerprint::excerpt;
use crate::fingerprint::frame::{Frame, Frames};
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search::{self, Parts};
use crate::limits;

mod dotnet;
mod elixir;
mod go;
mod java;
mod node;
mod php;
mod python;
mod ruby;
mod rust;

/// What a backtrace tells.
#[derive(Clone, Debug)]
pub(super) struct Backtrace<'a> {
    pub language: Language,
    /// From the error that was reported to the one that caused it all.
    pub causes: Vec<Cause<'a>>,
}

/// One error of a chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Cause<'a> {
    pub error_type: &'a str,
    pub message: Cow<'a, str>,
    pub frames: Frames<'a>,
}

impl<'a> Cause<'a> {
    fn new((error_type, message): (&'a str, &'a str)) -> Cause<'a> {
        Cause { error_type, message: Cow::Borrowed(message), frames: Frames::default() }
    }

    /// Adds a line that belongs to the message, as long as it is short enough to tell anything.
    fn continue_message(&mut self, line: &str) {
        if self.message.len() + line.len() >= limits::CAUSE_MESSAGE_BYTES_MAX {
            return;
        }
        let message = self.message.to_mut();
        if !message.is_empty() {
            message.push('\n');
        }
        message.push_str(line);
    }

    fn is_empty(&self) -> bool {
        self.error_type.is_empty() && self.message.is_empty() && self.frames.seen == 0
    }
}

impl<'a> Backtrace<'a> {
    /// Reads a backtrace; `None` when no language is recognised.
    pub fn read(text: &'a str, rules: &FingerprintRules) -> Option<Backtrace<'a>> {
        let lines = excerpt::lines(text);
        let language = lines.iter().find_map(|line| detect(line))?;
        let mut causes = causes(language, &lines, rules);
        causes.retain(|cause| !cause.is_empty());
        (!causes.is_empty()).then_some(Backtrace { language, causes })
    }
}

/// What lines of a language tell.
pub(super) fn causes<'a>(language: Language, lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    match language {
        Language::Java => java::causes(lines, rules),
        Language::Python => python::causes(lines, rules),
        Language::Go => go::causes(lines, rules),
        Language::Node => node::causes(lines, rules),
        Language::DotNet => dotnet::causes(lines, rules),
        Language::Rust => rust::causes(lines, rules),
        Language::Ruby => ruby::causes(lines, rules),
        Language::Php => php::causes(lines, rules),
        Language::Elixir => elixir::causes(lines, rules),
    }
}

/// The name of a frame without anything that varies.
pub(super) fn frame_name(language: Language, frame: Frame<'_>) -> String {
    match language {
        Language::Java => java::name(frame),
        Language::Python => python::name(frame),
        Language::Go => go::name(frame),
        Language::Node => node::name(frame),
        Language::DotNet => dotnet::name(frame),
        Language::Rust => rust::name(frame),
        Language::Ruby => ruby::name(frame),
        Language::Php => php::name(frame),
        Language::Elixir => elixir::name(frame),
    }
}

/// What the frames of some languages hold anywhere in a line.
const SIGNS: Parts =
    Parts::of(&["Traceback (", ".go:", ".s:", ":in ", ".ex:", ".exs:", ".erl:", ".eex:", ".heex:"]);

/// The language that one line gives away.
pub(super) fn detect(line: &str) -> Option<Language> {
    let line = line.trim_start();
    if let Some(call) = line.strip_prefix("at ") {
        return detect_at(call);
    }
    // The line before the frames is an error's own words, which hold none of these.
    let is_signed = search::has_any(line, SIGNS);
    if python::is_frame(line) || is_signed && search::has(line, "Traceback (most recent call last)") {
        return Some(Language::Python);
    }
    if line.starts_with("goroutine ") && line.contains(" [") || is_signed && go::is_place(line) {
        return Some(Language::Go);
    }
    if php::is_frame(line) {
        return Some(Language::Php);
    }
    if is_signed && ruby::place_of(line).is_some() {
        return Some(Language::Ruby);
    }
    if (is_signed || line.starts_with('(')) && elixir::is_frame(line) || line.starts_with("** (") {
        return Some(Language::Elixir);
    }
    let rust = rust::is_frame(line)
        || line.starts_with("thread '") && line.contains("panicked at")
        || line.eq_ignore_ascii_case("stack backtrace:")
        || line == "Caused by:"
        || line == "Location:";
    rust.then_some(Language::Rust)
}

/// Java, .NET and Node all write `at`; they differ in what stands between the brackets.
fn detect_at(call: &str) -> Option<Language> {
    // The line below a function of Rust; Node prints a position in the same way.
    if !call.contains('(') && search::has(call, ".rs:") {
        return Some(Language::Rust);
    }
    if search::has(call, " in ") && search::has(call, ":line ") {
        return Some(Language::DotNet);
    }
    let Some((before, rest)) = call.split_once('(') else {
        // `at /app/main.js:1:2` or a line that is not a frame at all.
        return node::position(call.trim_start_matches("async ")).map(|_| Language::Node);
    };
    let inner = rest.rfind(')').map_or(rest, |at| &rest[..at]);
    if java::is_place(inner) && !before.trim_end().contains(' ') {
        return Some(Language::Java);
    }
    if node::position(inner).is_some()
        || inner.starts_with("node:")
        || matches!(inner, "<anonymous>" | "native")
        || inner.starts_with("index ")
    {
        return Some(Language::Node);
    }
    let qualified = before.contains('.') && !before.contains(' ');
    qualified.then_some(Language::DotNet)
}

/// Adds a cause to a chain that grows towards its root. The root stays, whatever the length.
fn push<'a>(causes: &mut Vec<Cause<'a>>, cause: Cause<'a>) {
    if causes.len() >= limits::CAUSES_MAX {
        causes.pop();
    }
    causes.push(cause);
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
fn read_names(text: &str) -> Vec<(String, String, Vec<String>)> {
    let rules = FingerprintRules::default();
    let Some(backtrace) = Backtrace::read(text, &rules) else { return Vec::new() };
    let named = |frames: &[Frame<'_>]| frames.iter().map(|it| frame_name(backtrace.language, *it)).collect();
    backtrace
        .causes
        .iter()
        .map(|cause| (cause.error_type.to_string(), cause.message.to_string(), named(&cause.frames.in_app)))
        .collect()
}
