//! In which ways one letter differs from what its group has in common.

use crate::attempt::LetterError;
use crate::fingerprint::parts::Parts;
use crate::fingerprint::root::Root;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::template::Template;
use crate::fingerprint::{error_type, excerpt};
use crate::limits;

/// One such way: what the group has, and what stands there in this letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// `letter_type`, `error_type`, `frames`, `message`, `wrapped_by` or `wrapped_message`.
    pub part: &'static str,
    pub common: String,
    pub here: String,
}

/// The values that stand where the template has placeholders, and whatever else is this letter's own.
pub fn differences(parts: &Parts, letter_type: &str, error: &LetterError) -> Vec<Difference> {
    let root = Root::of(error, &FingerprintRules::default());
    let template = Template::of(&root.message);
    let mut found: Vec<Difference> = Vec::new();
    let mut put = |part: &'static str, common: &str, here: &str| {
        if common != here && found.len() < limits::DIFFERENCES_MAX {
            let here = excerpt::beginning(here, limits::QUOTED_BYTES_MAX).to_string();
            found.push(Difference { part, common: common.to_string(), here });
        }
    };
    put("letter_type", &parts.letter_type, letter_type);
    put("error_type", &parts.error_type, &root.error_type);
    put("frames", &parts.frames.join(", "), &root.frames.join(", "));
    let own = template.text();
    if own != parts.template {
        put("message", &parts.template, &own);
    }
    for (placeholder, value) in template.values() {
        put("message", placeholder, value);
    }
    // What the failing program called it, where the root has another name.
    let outer = error_type::normalise(&error.error_type);
    if !outer.is_empty() && outer != root.error_type {
        put("wrapped_by", &root.error_type, &outer);
    }
    let line = error.message.lines().next().unwrap_or("").trim();
    if !line.is_empty() && !line.contains(root.message.lines().next().unwrap_or("")) {
        put("wrapped_message", &parts.template, line);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::{Subject, group};

    fn parts_of(letter_type: &str, error: &LetterError) -> Parts {
        let subject = Subject { source: "jobs", queue: "q", letter_type, tenant: None, error };
        group(subject, &FingerprintRules::default()).parts
    }

    #[test]
    fn the_values_behind_the_placeholders_are_listed() {
        let error = |message: &str| LetterError {
            error_type: "Timeout".into(),
            message: message.into(),
            ..LetterError::default()
        };
        let parts = parts_of("order.paid", &error("no answer for order 12 after 30 s"));
        let found = differences(&parts, "order.paid", &error("no answer for order 4711 after 5 s"));
        let shown: Vec<_> = found.iter().map(|it| (it.part, it.common.as_str(), it.here.as_str())).collect();
        assert_eq!(shown, [("message", "<number>", "4711"), ("message", "<number>", "5 s")]);
    }

    #[test]
    fn a_wrapping_is_told() {
        let inner = LetterError {
            error_type: "java.net.SocketTimeoutException".into(),
            message: "Read timed out".into(),
            ..LetterError::default()
        };
        let parts = parts_of("order.paid", &inner);
        let outer = LetterError {
            error_type: "com.acme.PaymentException".into(),
            message: "charge failed".into(),
            backtrace: Some(
                "com.acme.PaymentException: charge failed\n\tat java.lang.X.y(X.java:1)\n\
                 Caused by: java.net.SocketTimeoutException: Read timed out\n\t... 3 more"
                    .into(),
            ),
            ..LetterError::default()
        };
        let found = differences(&parts, "order.paid", &outer);
        let shown: Vec<_> = found.iter().map(|it| (it.part, it.here.as_str())).collect();
        assert_eq!(shown, [("wrapped_by", "PaymentException"), ("wrapped_message", "charge failed")]);
    }

    #[test]
    fn the_list_is_bounded() {
        let error = LetterError { message: "a 1 b 2 ".repeat(500), ..LetterError::default() };
        assert!(differences(&Parts::default(), "t", &error).len() <= limits::DIFFERENCES_MAX);
    }
}
