//! A JSON text that is changed by somebody who may not see all of it: each hidden value has a numbered stand-in, and the
//! value itself comes back where the stand-in is left.
//!
//! A stand-in may be moved, but not to where its value could be read: whoever may not reveal a value would do it so.

use std::ops::Range;

use super::json::{self, Cut};
use super::{Compiled, MASK, quoted, unquoted};

/// Around a stand-in: signs that hardly any text has. One that has them is not drafted.
const OPEN: char = '⟦';
const CLOSE: char = '⟧';

/// A text with stand-ins, and what they stand for.
#[derive(Clone, Debug)]
pub struct Draft {
    /// With the stand-ins.
    pub text: String,
    hidden: Vec<Hidden>,
    rules: Compiled,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Hidden {
    /// A JSON text that no other value has.
    stand_in: String,
    /// The value as it is written.
    value: String,
    /// What is shown of it elsewhere.
    shown: String,
}

/// Why the hidden values cannot be put back.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfilled {
    #[error("what stands between {OPEN} and {CLOSE} is a hidden value, and has been changed: {0}")]
    Changed(String),
    #[error("the hidden value {0} could be read where it stands now")]
    Readable(usize),
    #[error("hidden values can be kept in JSON alone, and this is none any more")]
    NoJson,
}

impl Draft {
    pub(super) fn of(rules: &Compiled, text: &str) -> Option<Draft> {
        if text.contains([OPEN, CLOSE]) {
            return None;
        }
        let cuts = json::cuts(rules, text, 0)?;
        // A body that is hidden as a whole leaves nothing to change.
        if cuts.iter().any(|cut| cut.span.len() == text.trim().len()) {
            return None;
        }
        let (mut draft, mut done, mut hidden) = (String::with_capacity(text.len()), 0, Vec::new());
        for (at, Cut { span, with }) in cuts.into_iter().enumerate() {
            let number = at + 1;
            let stand_in = match unquoted(&with).as_ref() {
                MASK => format!("{OPEN}hidden {number}{CLOSE}"),
                // What may be seen of it tells what it is.
                seen => format!("{OPEN}hidden {number}: {seen}{CLOSE}"),
            };
            let stand_in = quoted(&stand_in);
            draft.push_str(&text[done..span.start]);
            draft.push_str(&stand_in);
            done = span.end;
            hidden.push(Hidden { stand_in, value: text[span].to_owned(), shown: with });
        }
        draft.push_str(&text[done..]);
        Some(Draft { text: draft, hidden, rules: rules.clone() })
    }

    /// What somebody made of the text, with the hidden values in the places of their stand-ins.
    pub fn fill(&self, typed: &str) -> Result<String, Unfilled> {
        let (mut text, mut filled, mut rest) = (String::with_capacity(typed.len()), Vec::new(), typed);
        while let Some(at) = rest.find([OPEN, CLOSE]) {
            let changed = || Unfilled::Changed(beginning(&rest[at..]));
            // The quote before it belongs to it.
            let start = rest[..at].strip_suffix('"').ok_or_else(changed)?.len();
            let number = self.hidden.iter().position(|hidden| rest[start..].starts_with(&hidden.stand_in));
            let number = number.ok_or_else(changed)?;
            let hidden = &self.hidden[number];
            text.push_str(&rest[..start]);
            filled.push((number, text.len()..text.len() + hidden.value.len()));
            text.push_str(&hidden.value);
            rest = &rest[start + hidden.stand_in.len()..];
        }
        text.push_str(rest);
        if filled.is_empty() {
            return Ok(text);
        }
        let cuts = json::cuts(&self.rules, &text, 0).ok_or(Unfilled::NoJson)?;
        match filled.iter().find(|(number, span)| !self.is_hidden(*number, span, &cuts)) {
            Some((number, _)) => Err(Unfilled::Readable(number + 1)),
            None => Ok(text),
        }
    }

    /// Whether no more of a value is seen than before.
    fn is_hidden(&self, number: usize, span: &Range<usize>, cuts: &[Cut]) -> bool {
        let all = quoted(MASK);
        let around = cuts.iter().find(|cut| cut.span.start <= span.start && span.end <= cut.span.end);
        around
            .is_some_and(|cut| cut.with == all || cut.span == *span && cut.with == self.hidden[number].shown)
    }
}

/// Enough of a text to find it again.
fn beginning(text: &str) -> String {
    let mut start: String = text.chars().take(40).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

#[cfg(test)]
mod tests {
    use super::super::{Redactor, Rules};
    use super::*;

    const TEXT: &str = r#"{"user": "ada", "password": "hunter2", "auth": {"token": [1, 2]}, "pin": 12345678901234567890,
        "card": 4242424242424242, "note": "Bearer abc.def", "amount": 1.50}"#;

    fn draft(text: &str) -> Option<Draft> {
        Redactor::new(Rules::default()).draft(text)
    }

    #[test]
    fn hidden_values_have_stand_ins_that_come_back() {
        let draft = draft(TEXT).unwrap();
        assert!(draft.text.contains(r#""password": "⟦hidden 1⟧""#), "{}", draft.text);
        assert!(draft.text.contains(r#"⟦hidden 3: •••• 4242⟧"#), "{}", draft.text);
        assert!(draft.text.contains(r#""note": "⟦hidden 4: Bearer [redacted]⟧""#), "{}", draft.text);
        for secret in ["hunter2", "[1, 2]", "42424242", "abc.def"] {
            assert!(!draft.text.contains(secret), "{secret} in {}", draft.text);
        }
        assert_eq!(draft.fill(&draft.text).as_deref(), Ok(TEXT));
        let changed = draft.text.replace("1.50", "2.50").replace("\"⟦hidden 1⟧\"", "\"new\"");
        let expected = TEXT.replace("1.50", "2.50").replace("hunter2", "new");
        assert_eq!(draft.fill(&changed), Ok(expected));
    }

    #[test]
    fn a_stand_in_moves_only_to_where_its_value_stays_hidden() {
        let draft = draft(r#"{"a":{"password":"hunter2"},"b":1}"#).unwrap();
        let moved = r#"{"b":1,"secret":"⟦hidden 1⟧"}"#;
        assert_eq!(draft.fill(moved).as_deref(), Ok(r#"{"b":1,"secret":"hunter2"}"#));
        let within = r#"{"secret":{"any":["⟦hidden 1⟧"]}}"#;
        assert_eq!(draft.fill(within).as_deref(), Ok(r#"{"secret":{"any":["hunter2"]}}"#));
        assert_eq!(draft.fill(r#"{"b":"⟦hidden 1⟧"}"#), Err(Unfilled::Readable(1)));
        assert_eq!(draft.fill(r#"{"⟦hidden 1⟧":1}"#), Err(Unfilled::Readable(1)));
        assert_eq!(draft.fill(r#"{"password":"⟦hidden 1⟧""#), Err(Unfilled::NoJson));
        assert_eq!(draft.fill(r#"password "⟦hidden 1⟧""#), Err(Unfilled::NoJson));
    }

    #[test]
    fn a_torn_stand_in_is_refused() {
        let draft = draft(r#"{"password":"hunter2"}"#).unwrap();
        for typed in [
            r#"{"password":"my ⟦hidden 1⟧"}"#,
            r#"{"password":"⟦hidden 1⟧ more"}"#,
            r#"{"password":"⟦hidden 2⟧"}"#,
            r#"{"password":"hidden 1⟧"}"#,
            "⟦",
            "\"⟧",
        ] {
            assert!(matches!(draft.fill(typed), Err(Unfilled::Changed(_))), "{typed}");
        }
        assert_eq!(draft.fill(r#"{"password":"x"}"#).as_deref(), Ok(r#"{"password":"x"}"#));
        assert_eq!(draft.fill("no json at all").as_deref(), Ok("no json at all"));
    }

    #[test]
    fn what_cannot_be_drafted_is_not() {
        assert!(draft("password=hunter2").is_none());
        assert!(draft(r#"{"password":"x","a":"⟦"}"#).is_none());
        assert!(draft(r#" "Bearer abc.def" "#).is_none());
        assert!(Redactor::off().draft("{}").is_none());
    }
}
