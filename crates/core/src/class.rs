//! What kind of error it is, decided by ordered rules: the operator's first, then the built-in ones.
//!
//! A class is a guess about a stranger's program, so it must never refuse, change or drop anything by itself, and
//! where no rule is sure it says `unknown`: a wrong class sends an operator the wrong way, an unknown one does not.

use std::fmt;

use crate::attempt::LetterError;
use crate::class_builtin::{self, http_status};
use crate::limits;
use crate::pattern::Pattern;

/// What kind of error ended a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ErrorClass {
    /// Passes by itself: timeouts, connections, overload, a server's own failure.
    Transient,
    /// The failing program was set up wrongly: credentials, settings, topology.
    Configuration,
    /// Readable, but not what was agreed on.
    Validation,
    /// Cannot be read at all.
    Malformed,
    Authorization,
    NotFound,
    /// A rule of the business says no.
    Business,
    /// No rule matched; shown as such.
    Unknown,
}

/// What kind of cause a root-cause analysis names (RULE-040-032).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Category {
    Infrastructure,
    Contract,
    Business,
    PoisonPill,
}

/// Whether trying again can help.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Retryable {
    Yes,
    No,
    /// The retry policy says how often, if at all.
    PresetDecides,
}

impl ErrorClass {
    pub const ALL: [ErrorClass; 8] = [
        ErrorClass::Transient,
        ErrorClass::Configuration,
        ErrorClass::Validation,
        ErrorClass::Malformed,
        ErrorClass::Authorization,
        ErrorClass::NotFound,
        ErrorClass::Business,
        ErrorClass::Unknown,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            ErrorClass::Transient => "transient",
            ErrorClass::Configuration => "configuration",
            ErrorClass::Validation => "validation",
            ErrorClass::Malformed => "malformed",
            ErrorClass::Authorization => "authorization",
            ErrorClass::NotFound => "not_found",
            ErrorClass::Business => "business",
            ErrorClass::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Option<ErrorClass> {
        ErrorClass::ALL.into_iter().find(|class| class.name() == text)
    }

    /// `None` for unknown: only a person can tell.
    pub const fn category(self) -> Option<Category> {
        match self {
            ErrorClass::Transient | ErrorClass::Configuration => Some(Category::Infrastructure),
            ErrorClass::Validation => Some(Category::Contract),
            ErrorClass::Malformed => Some(Category::PoisonPill),
            ErrorClass::Authorization | ErrorClass::NotFound | ErrorClass::Business => {
                Some(Category::Business)
            }
            ErrorClass::Unknown => None,
        }
    }

    /// Unknown is retryable: what nobody has judged yet deserves its attempts.
    pub const fn retryable(self) -> Retryable {
        match self {
            ErrorClass::Transient | ErrorClass::Unknown => Retryable::Yes,
            ErrorClass::Configuration
            | ErrorClass::Validation
            | ErrorClass::Malformed
            | ErrorClass::Authorization
            | ErrorClass::NotFound => Retryable::No,
            ErrorClass::Business => Retryable::PresetDecides,
        }
    }

    /// What RabbitMQ consumers (P6) call a `client` error.
    pub const fn is_client(self) -> bool {
        match self {
            ErrorClass::Validation
            | ErrorClass::Malformed
            | ErrorClass::Authorization
            | ErrorClass::NotFound => true,
            ErrorClass::Transient
            | ErrorClass::Configuration
            | ErrorClass::Business
            | ErrorClass::Unknown => false,
        }
    }
}

impl Category {
    pub const ALL: [Category; 4] =
        [Category::Infrastructure, Category::Contract, Category::Business, Category::PoisonPill];

    pub const fn name(self) -> &'static str {
        match self {
            Category::Infrastructure => "infrastructure",
            Category::Contract => "contract",
            Category::Business => "business",
            Category::PoisonPill => "poison_pill",
        }
    }

    pub fn parse(text: &str) -> Option<Category> {
        Category::ALL.into_iter().find(|category| category.name() == text)
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// HTTP statuses from `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

/// A text that is not a range of HTTP statuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not an HTTP status; write it like 503, 5xx or 500-599")]
pub struct BadStatusRange(pub String);

impl StatusRange {
    /// Reads `503`, `5xx` and `500-599`.
    pub fn parse(text: &str) -> Result<StatusRange, BadStatusRange> {
        let status = |part: &str| -> Option<u16> {
            let number = part.trim();
            let three_digits = number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit());
            let status = if three_digits { number.parse().ok()? } else { return None };
            (100..=599).contains(&status).then_some(status)
        };
        let text = text.trim();
        let range = if let Some((first, last)) = text.split_once('-') {
            status(first).zip(status(last))
        } else if text.is_ascii() && text.len() == 3 && text[1..].eq_ignore_ascii_case("xx") {
            status(&format!("{}00", &text[..1])).map(|first| (first, first + 99))
        } else {
            status(text).map(|only| (only, only))
        };
        match range {
            Some((first, last)) if first <= last => Ok(StatusRange { first, last }),
            Some(_) | None => Err(BadStatusRange(text.chars().take(64).collect())),
        }
    }

    pub const fn contains(self, status: u16) -> bool {
        self.first <= status && status <= self.last
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// When a rule applies: every part that is given has to match.
///
/// Patterns match the whole value whatever its case, so a part of a message is written `*timed out*`. A pattern on
/// the code does not match an error without one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    pub error_type: Option<Pattern>,
    pub code: Option<Pattern>,
    pub message: Option<Pattern>,
    /// The status that is read from the error's code or message.
    pub http_status: Option<StatusRange>,
    /// The name of the source that the letter came from.
    pub source: Option<Pattern>,
}

/// One rule of the operator's: where the conditions hold, the error is of this class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassRule {
    when: Conditions,
    class: ErrorClass,
}

/// A rule without conditions would silently hide every rule after it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "class rule for {0} has no condition; give at least one of error_type, code, message, http_status, source"
)]
pub struct EmptyRule(pub ErrorClass);

impl ClassRule {
    pub fn new(when: Conditions, class: ErrorClass) -> Result<ClassRule, EmptyRule> {
        if when == Conditions::default() {
            return Err(EmptyRule(class));
        }
        // Lowered once here, because values are lowered before they are compared.
        let lower = |pattern: Option<Pattern>| pattern.map(|it| Pattern::new(it.text().to_lowercase()));
        let when = Conditions {
            error_type: lower(when.error_type),
            code: lower(when.code),
            message: lower(when.message),
            http_status: when.http_status,
            source: lower(when.source),
        };
        Ok(ClassRule { when, class })
    }

    pub fn class(&self) -> ErrorClass {
        self.class
    }

    fn matches(&self, seen: &Seen) -> bool {
        let fits = |pattern: &Option<Pattern>, value: Option<&str>| match pattern {
            Some(pattern) => value.is_some_and(|value| pattern.matches(value)),
            None => true,
        };
        fits(&self.when.error_type, Some(&seen.error_type))
            && fits(&self.when.code, seen.code.as_deref())
            && fits(&self.when.source, Some(&seen.source))
            && self
                .when
                .http_status
                .is_none_or(|range| seen.status.is_some_and(|status| range.contains(status)))
            && fits(&self.when.message, Some(&seen.message))
    }
}

/// An error as the operator's rules compare it: lowered and cut.
struct Seen {
    source: String,
    error_type: String,
    code: Option<String>,
    message: String,
    status: Option<u16>,
}

/// The operator's rules in their order, and behind them the built-in ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassRules {
    rules: Vec<ClassRule>,
}

impl ClassRules {
    pub fn new(rules: Vec<ClassRule>) -> ClassRules {
        ClassRules { rules }
    }

    /// The class of an error that came in from `source`. Takes bounded time whatever the error holds.
    pub fn classify(&self, source: &str, error: &LetterError) -> ErrorClass {
        let error_type = beginning(&error.error_type, limits::NAME_BYTES_MAX);
        let code = error.code.as_deref().map(|code| beginning(code, limits::NAME_BYTES_MAX));
        let message = beginning(&error.message, limits::MESSAGE_BYTES_CLASSIFIED);
        if !self.rules.is_empty() {
            let seen = Seen {
                source: source.to_lowercase(),
                error_type: error_type.to_lowercase(),
                code: code.map(str::to_lowercase),
                message: message.to_lowercase(),
                status: http_status::find(error_type, code, message),
            };
            if let Some(rule) = self.rules.iter().find(|rule| rule.matches(&seen)) {
                return rule.class;
            }
        }
        class_builtin::classify(error_type, code, message)
    }
}

/// How many words and phrases the built-in rules know for a class.
pub fn builtin_phrases(class: ErrorClass) -> u64 {
    class_builtin::phrases_of(class)
}

fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(error_type: &str, code: Option<&str>, message: &str) -> LetterError {
        LetterError {
            error_type: error_type.into(),
            code: code.map(String::from),
            message: message.into(),
            ..LetterError::default()
        }
    }

    fn rule(when: Conditions, class: ErrorClass) -> ClassRule {
        ClassRule::new(when, class).unwrap()
    }

    #[test]
    fn every_class_but_the_unknown_one_has_words_of_its_own() {
        for class in ErrorClass::ALL.into_iter().filter(|class| *class != ErrorClass::Unknown) {
            assert!(builtin_phrases(class) > 5, "{class}: {}", builtin_phrases(class));
        }
    }

    #[test]
    fn every_class_gives_its_two_answers() {
        let mut table = String::new();
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::parse(class.name()), Some(class));
            let category = class.category().map_or("-", Category::name);
            table.push_str(&format!("{class} {:?} {category} {}\n", class.retryable(), class.is_client()));
        }
        assert_eq!(
            table,
            "transient Yes infrastructure false\n\
             configuration No infrastructure false\n\
             validation No contract true\n\
             malformed No poison_pill true\n\
             authorization No business true\n\
             not_found No business true\n\
             business PresetDecides business false\n\
             unknown Yes - false\n"
        );
        for category in Category::ALL {
            assert_eq!(Category::parse(category.name()), Some(category));
        }
        assert_eq!(ErrorClass::parse("Transient"), None);
    }

    #[test]
    fn a_status_range_is_read_as_operators_write_it() {
        for (text, shown) in
            [("503", "503"), ("5xx", "500-599"), ("4XX", "400-499"), ("500 - 504", "500-504")]
        {
            assert_eq!(StatusRange::parse(text).unwrap().to_string(), shown);
        }
        for text in ["", "50", "5x", "xxx", "6xx", "0xx", "599-500", "1000", "+50", "500-", "ü0", "5xx-6xx"]
        {
            assert!(StatusRange::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_operators_rules_come_first_and_in_order() {
        let rules = ClassRules::new(vec![
            rule(
                Conditions { code: Some(Pattern::new("ACME-4*")), ..Conditions::default() },
                ErrorClass::Business,
            ),
            rule(
                Conditions { code: Some(Pattern::new("acme-*")), ..Conditions::default() },
                ErrorClass::Configuration,
            ),
            rule(
                Conditions {
                    message: Some(Pattern::new("*TIMED OUT*")),
                    source: Some(Pattern::new("legacy")),
                    ..Conditions::default()
                },
                ErrorClass::Validation,
            ),
        ]);
        let classify =
            |source: &str, code, message| rules.classify(source, &error("AcmeError", code, message));
        assert_eq!(classify("jobs", Some("acme-42"), ""), ErrorClass::Business);
        assert_eq!(classify("jobs", Some("Acme-52"), ""), ErrorClass::Configuration);
        assert_eq!(classify("legacy", None, "Read timed out."), ErrorClass::Validation);
        // Every part has to match, and behind the operator's rules stand the built-in ones.
        assert_eq!(classify("jobs", None, "Read timed out."), ErrorClass::Transient);
        assert_eq!(classify("jobs", None, "no idea"), ErrorClass::Unknown);
    }

    #[test]
    fn a_rule_on_the_http_status_reads_it_from_code_or_message() {
        let when =
            Conditions { http_status: Some(StatusRange::parse("409").unwrap()), ..Conditions::default() };
        let rules = ClassRules::new(vec![rule(when, ErrorClass::Business)]);
        let classify = |code, message| rules.classify("jobs", &error("HTTPError", code, message));
        assert_eq!(classify(Some("409"), ""), ErrorClass::Business);
        assert_eq!(classify(None, "Request failed with status code 409"), ErrorClass::Business);
        assert_eq!(classify(None, "409 orders were late"), ErrorClass::Unknown);
    }

    #[test]
    fn a_pattern_matches_the_whole_value() {
        let when = Conditions { message: Some(Pattern::new("quota")), ..Conditions::default() };
        let rules = ClassRules::new(vec![rule(when, ErrorClass::Business)]);
        assert_eq!(rules.classify("jobs", &error("", None, "Quota")), ErrorClass::Business);
        assert_eq!(rules.classify("jobs", &error("", None, "the quota is used up")), ErrorClass::Unknown);
    }

    #[test]
    fn a_rule_without_a_condition_is_refused() {
        assert_eq!(
            ClassRule::new(Conditions::default(), ErrorClass::Business),
            Err(EmptyRule(ErrorClass::Business))
        );
    }
}
