//! The operator's word on grouping: which frames are whose, which letters are one group, and what splits a group.
//!
//! Rules are tried in their order and the first that matches decides. A rule without any condition never matches: it
//! would silently make one group of everything.

use std::fmt::Write as _;

use crate::fingerprint::hash::Digest;
use crate::fingerprint::{Parts, Subject, VERSION, excerpt};
use crate::limits;
use crate::pattern::Pattern;

/// The operator's rules, and whose frames are whose. The default has none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FingerprintRules {
    rules: Vec<FingerprintRule>,
    pub(super) in_app: Vec<String>,
    pub(super) library: Vec<String>,
}

/// One rule: where the conditions hold, the effect decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FingerprintRule {
    pub name: String,
    pub when: RuleConditions,
    pub then: RuleEffect,
}

/// When a rule applies: every part that is given has to match, whatever its case.
///
/// Patterns match the whole value, so a part of a message is written `*timed out*`. A pattern on the code does not
/// match an error without one; one on the frame matches any of the frames that make the fingerprint. The message is the
/// error's own, cut like that of class rules; the error's type is matched as reported and in its normalised form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleConditions {
    pub source: Option<Pattern>,
    pub letter_type: Option<Pattern>,
    pub error_type: Option<Pattern>,
    pub code: Option<Pattern>,
    pub message: Option<Pattern>,
    pub frame: Option<Pattern>,
}

/// What a rule does to the letters that it matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleEffect {
    /// All letters that match are one group under this key, whatever their type.
    Group(String),
    /// Adds these values to what makes the fingerprint.
    SplitBy(Vec<SplitBy>),
}

/// A value of the letter that can split a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SplitBy {
    Source,
    Queue,
    Tenant,
    /// The error's code as reported, even one that looks like an id.
    Code,
    /// The error's message as reported, numbers and all.
    Message,
}

/// A rule without conditions would silently hide every rule after it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "fingerprint rule `{0}` has no condition; give at least one of source, letter_type, error_type, code, message, frame"
)]
pub struct EmptyFingerprintRule(pub String);

impl FingerprintRule {
    pub fn new(
        name: String,
        when: RuleConditions,
        then: RuleEffect,
    ) -> Result<FingerprintRule, EmptyFingerprintRule> {
        if when == RuleConditions::default() {
            return Err(EmptyFingerprintRule(name));
        }
        Ok(FingerprintRule { name, when, then })
    }
}

impl SplitBy {
    pub const ALL: [SplitBy; 5] =
        [SplitBy::Source, SplitBy::Queue, SplitBy::Tenant, SplitBy::Code, SplitBy::Message];

    pub const fn name(self) -> &'static str {
        match self {
            SplitBy::Source => "source",
            SplitBy::Queue => "queue",
            SplitBy::Tenant => "tenant",
            SplitBy::Code => "code",
            SplitBy::Message => "message",
        }
    }

    pub fn parse(text: &str) -> Option<SplitBy> {
        SplitBy::ALL.into_iter().find(|by| by.name() == text)
    }

    pub(super) fn value<'a>(self, subject: Subject<'a>) -> &'a str {
        match self {
            SplitBy::Source => subject.source,
            SplitBy::Queue => subject.queue,
            SplitBy::Tenant => subject.tenant.unwrap_or(""),
            SplitBy::Code => subject.error.code.as_deref().unwrap_or(""),
            SplitBy::Message => excerpt::beginning(&subject.error.message, limits::MESSAGE_BYTES_CLASSIFIED),
        }
    }
}

impl FingerprintRules {
    /// `in_app` and `library` are prefixes of a frame's module, package or path; `in_app` beats `library`, and both beat
    /// what is known of the language.
    pub fn new(rules: Vec<FingerprintRule>, in_app: Vec<String>, library: Vec<String>) -> FingerprintRules {
        // Lowered once here, because values are lowered before they are compared.
        let lower = |pattern: Option<Pattern>| pattern.map(|it| Pattern::new(it.text().to_lowercase()));
        let rules = rules
            .into_iter()
            .map(|rule| FingerprintRule {
                when: RuleConditions {
                    source: lower(rule.when.source),
                    letter_type: lower(rule.when.letter_type),
                    error_type: lower(rule.when.error_type),
                    code: lower(rule.when.code),
                    message: lower(rule.when.message),
                    frame: lower(rule.when.frame),
                },
                ..rule
            })
            .collect();
        FingerprintRules { rules, in_app, library }
    }

    /// A short text that changes whenever a letter could be grouped otherwise than before.
    pub fn revision(&self) -> String {
        let mut digest = Digest::default();
        for rule in &self.rules {
            digest.add(&rule.name);
            let when = &rule.when;
            for pattern in
                [&when.source, &when.letter_type, &when.error_type, &when.code, &when.message, &when.frame]
            {
                digest.add(if pattern.is_some() { "given" } else { "any" });
                digest.add(pattern.as_ref().map_or("", Pattern::text));
            }
            match &rule.then {
                RuleEffect::Group(key) => {
                    digest.add("group");
                    digest.add(key);
                }
                RuleEffect::SplitBy(values) => {
                    digest.add("split");
                    for by in values {
                        digest.add(by.name());
                    }
                }
            }
        }
        for (list, prefixes) in [("in_app", &self.in_app), ("library", &self.library)] {
            digest.add(list);
            for prefix in prefixes {
                digest.add(prefix);
            }
        }
        let mut text = digest.hex();
        text.truncate(12);
        let mut revision = format!("{VERSION}-");
        revision.write_str(&text).expect("writing to a string does not fail");
        revision
    }

    /// The first rule that matches.
    pub(super) fn decide(&self, subject: Subject<'_>, parts: &Parts) -> Option<&FingerprintRule> {
        if self.rules.is_empty() {
            return None;
        }
        let seen = Seen::of(subject, parts);
        self.rules.iter().find(|rule| rule.when != RuleConditions::default() && seen.fits(&rule.when))
    }
}

/// A letter as rules compare it: lowered and cut.
struct Seen {
    source: String,
    letter_type: String,
    error_types: [String; 2],
    code: Option<String>,
    message: String,
    frames: Vec<String>,
}

impl Seen {
    fn of(subject: Subject<'_>, parts: &Parts) -> Seen {
        let cut = |text: &str, bytes| excerpt::beginning(text, bytes).to_lowercase();
        let error = subject.error;
        Seen {
            source: subject.source.to_lowercase(),
            letter_type: cut(subject.letter_type, limits::NAME_BYTES_MAX),
            error_types: [cut(&error.error_type, limits::NAME_BYTES_MAX), parts.error_type.to_lowercase()],
            code: error.code.as_deref().map(|code| cut(code, limits::NAME_BYTES_MAX)),
            message: cut(&error.message, limits::MESSAGE_BYTES_CLASSIFIED),
            frames: parts.frames.iter().map(|frame| frame.to_lowercase()).collect(),
        }
    }

    fn fits(&self, when: &RuleConditions) -> bool {
        let fits =
            |pattern: &Option<Pattern>, value: &str| pattern.as_ref().is_none_or(|it| it.matches(value));
        let any = |pattern: &Option<Pattern>, values: &[String]| {
            pattern.as_ref().is_none_or(|it| values.iter().any(|value| it.matches(value)))
        };
        fits(&when.source, &self.source)
            && fits(&when.letter_type, &self.letter_type)
            && any(&when.error_type, &self.error_types)
            && when.code.as_ref().is_none_or(|it| self.code.as_ref().is_some_and(|code| it.matches(code)))
            && any(&when.frame, &self.frames)
            && fits(&when.message, &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::LetterError;
    use crate::fingerprint::group;

    fn error(error_type: &str, message: &str) -> LetterError {
        LetterError { error_type: error_type.into(), message: message.into(), ..LetterError::default() }
    }

    fn subject<'a>(letter_type: &'a str, tenant: &'a str, error: &'a LetterError) -> Subject<'a> {
        Subject { source: "jobs", queue: "default", letter_type, tenant: Some(tenant), error }
    }

    fn rules(when: RuleConditions, then: RuleEffect) -> FingerprintRules {
        let rule = FingerprintRule::new("mine".into(), when, then).unwrap();
        FingerprintRules::new(vec![rule], vec![], vec![])
    }

    #[test]
    fn a_group_holds_letters_of_all_types() {
        let when = RuleConditions { message: Some(Pattern::new("*Stripe*")), ..RuleConditions::default() };
        let rules = rules(when, RuleEffect::Group("stripe is down".into()));
        let one = error("Timeout", "stripe did not answer");
        let other = error("HttpError", "503 from STRIPE");
        let first = group(subject("order.paid", "a", &one), &rules);
        let second = group(subject("refund.made", "b", &other), &rules);
        assert_eq!(first.fingerprint, second.fingerprint);
        assert_eq!(first.parts.rule.as_deref(), Some("mine"));
        let unrelated = error("HttpError", "503 from adyen");
        assert_eq!(group(subject("refund.made", "b", &unrelated), &rules).parts.rule, None);
    }

    #[test]
    fn a_split_adds_a_value() {
        let when = RuleConditions { error_type: Some(Pattern::new("timeout")), ..RuleConditions::default() };
        let rules = rules(when, RuleEffect::SplitBy(vec![SplitBy::Tenant]));
        let error = error("Timeout", "no answer");
        let of = |tenant| group(subject("order.paid", tenant, &error), &rules).fingerprint;
        assert_ne!(of("a"), of("b"));
        assert_eq!(of("a"), of("a"));
    }

    #[test]
    fn a_pattern_on_the_code_does_not_match_an_error_without_one() {
        let when = RuleConditions { code: Some(Pattern::new("*")), ..RuleConditions::default() };
        let rules = rules(when, RuleEffect::Group("any".into()));
        assert_eq!(group(subject("t", "a", &error("X", "y")), &rules).parts.rule, None);
    }

    #[test]
    fn a_rule_without_a_condition_is_refused_and_never_matches() {
        let empty = RuleConditions::default();
        let then = RuleEffect::Group("all".into());
        assert!(FingerprintRule::new("all".into(), empty.clone(), then.clone()).is_err());
        let rules = FingerprintRules::new(
            vec![FingerprintRule { name: "all".into(), when: empty, then }],
            vec![],
            vec![],
        );
        assert_eq!(group(subject("t", "a", &error("X", "y")), &rules).parts.rule, None);
    }

    #[test]
    fn the_revision_changes_with_every_rule() {
        let none = FingerprintRules::default().revision();
        assert_eq!(none, FingerprintRules::default().revision());
        let when = RuleConditions { code: Some(Pattern::new("a")), ..RuleConditions::default() };
        let group = rules(when.clone(), RuleEffect::Group("x".into())).revision();
        let split = rules(when, RuleEffect::SplitBy(vec![SplitBy::Source])).revision();
        let in_app = FingerprintRules::new(vec![], vec!["acme".into()], vec![]).revision();
        let library = FingerprintRules::new(vec![], vec![], vec!["acme".into()]).revision();
        let all = [&none, &group, &split, &in_app, &library];
        for (at, one) in all.iter().enumerate() {
            assert!(one.starts_with("2-"));
            assert!(all[at + 1..].iter().all(|other| other != one));
        }
    }
}
