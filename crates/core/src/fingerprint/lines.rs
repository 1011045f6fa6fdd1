//! Whose code each line of a backtrace is, for people who read one. It is guessed as the fingerprint guesses it, and
//! nothing is decided by it.

use crate::fingerprint::backtrace::{causes, detect};
use crate::fingerprint::excerpt;
use crate::fingerprint::frame::Origin;
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;

/// Whose a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineOrigin {
    /// The program's own code.
    InApp,
    Library,
    /// The language's own.
    Runtime,
    /// Words, or a frame that nothing is known about.
    Told,
}

/// A line of a backtrace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedLine<'a> {
    pub text: &'a str,
    pub origin: LineOrigin,
}

/// The lines of a backtrace with their origins. Of a text that is too long to be worth reading both ends are given.
pub fn traced_lines<'a>(text: &'a str, rules: &FingerprintRules) -> Vec<TracedLine<'a>> {
    let lines = excerpt::lines(text);
    let language = lines.iter().find_map(|line| detect(line));
    let mut traced: Vec<TracedLine<'a>> = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let own = language.map_or(LineOrigin::Told, |language| origin(language, &lines[at..], rules));
        let before = traced.last().map_or(LineOrigin::Told, |before| before.origin);
        let goes_on = language.is_some_and(|language| goes_on(language, line));
        let origin = if own == LineOrigin::Told && goes_on { before } else { own };
        traced.push(TracedLine { text: line, origin });
    }
    traced
}

/// The origin of the frame that the first of these lines is.
fn origin(language: Language, lines: &[&str], rules: &FingerprintRules) -> LineOrigin {
    // Some languages tell the file of a frame below its function.
    let of_frame = match language {
        Language::Go | Language::Rust => 2,
        Language::Java
        | Language::Python
        | Language::Node
        | Language::DotNet
        | Language::Ruby
        | Language::Php
        | Language::Elixir => 1,
    };
    let causes = causes(language, &lines[..of_frame.min(lines.len())], rules);
    match causes.iter().find_map(|cause| cause.frames.thrown_by) {
        Some(Origin::InApp) => LineOrigin::InApp,
        Some(Origin::Library) => LineOrigin::Library,
        Some(Origin::Runtime) => LineOrigin::Runtime,
        None => LineOrigin::Told,
    }
}

/// Whether a line belongs to the frame above it.
fn goes_on(language: Language, line: &str) -> bool {
    match language {
        Language::Go => line.starts_with('\t'),
        Language::Rust => line.trim_start().starts_with("at "),
        // The line of the source, and the marks below it.
        Language::Python => line.starts_with("    "),
        Language::Java
        | Language::Node
        | Language::DotNet
        | Language::Ruby
        | Language::Php
        | Language::Elixir => false,
    }
}

#[cfg(test)]
mod tests {
    use super::LineOrigin::{InApp, Library, Runtime, Told};
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[LineOrigin]) {
        let traced = traced_lines(text, &FingerprintRules::default());
        let found: Vec<LineOrigin> = traced.iter().map(|line| line.origin).collect();
        assert_eq!(found, expected, "{traced:#?}");
    }

    #[test]
    fn every_language_tells_whose_a_line_is() {
        check(
            "java.lang.IllegalStateException: no price\n\tat com.acme.Orders.total(Orders.java:12)\n\
             \tat org.springframework.web.Servlet.run(Servlet.java:3)\n\tat java.base/java.lang.Thread.run(Thread.java:1)",
            &[Told, InApp, Library, Runtime],
        );
        check(
            "Traceback (most recent call last):\n  File \"/usr/lib/python3.11/site-packages/requests/api.py\", line 9, in post\n\
             \x20   return request()\n  File \"/srv/shop/orders.py\", line 3, in total\n    return price * 2\nTypeError: no",
            &[Told, Library, Library, InApp, InApp, Told],
        );
        check(
            "panic: no price\n\ngoroutine 1 [running]:\ngithub.com/acme/shop/orders.Total(0x1)\n\t/srv/shop/orders/total.go:12 +0x1d",
            &[Told, Told, Told, InApp, InApp],
        );
        check(
            "Error: no price\n    at total (/srv/shop/orders.js:3:1)\n    at run (/srv/shop/node_modules/express/lib/router.js:1:2)",
            &[Told, InApp, Library],
        );
    }

    #[test]
    fn what_is_no_backtrace_is_only_told() {
        check("it did not work\nat all", &[Told, Told]);
        check("", &[Told]);
    }
}
