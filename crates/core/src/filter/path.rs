//! Conditions on what is inside of a letter, as JSON paths: `$.customer.vip`, `$.customer.id=4711`.
//!
//! A condition that cannot be decided within bounds is neither met nor unmet, so that neither side of a filter lets
//! a letter through that nobody has looked into.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::key::Side;
use crate::json_path::{Json, Look, Node, NotRead, OutOfSteps, PathError, PathProblem, Query, equal};

/// Conditions to meet: all of `include`, and none of `exclude`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Paths {
    pub include: BTreeSet<PathCondition>,
    pub exclude: BTreeSet<PathCondition>,
}

/// A JSON path that selects something, or something that equals a value. Two are the same when written the same.
#[derive(Clone, Debug)]
pub struct PathCondition {
    text: String,
    query: Query,
    wanted: Wanted,
}

#[derive(Clone, Debug)]
enum Wanted {
    Anything,
    Exactly(Json<'static>),
    /// A value written without quotes is also the text that it is written as.
    Either(Json<'static>, String),
}

impl PathCondition {
    /// Reads a query, and behind its first `=` outside of brackets a JSON value or a bare text.
    pub fn parse(text: &str) -> Result<PathCondition, PathError> {
        let Some(split) = first_equals(text) else {
            let text = text.trim();
            return Ok(PathCondition {
                text: text.to_owned(),
                query: Query::parse(text)?,
                wanted: Wanted::Anything,
            });
        };
        let query = Query::parse(text[..split].trim())?;
        let value = text[split + 1..].trim();
        let wanted = wanted(value)
            .map_err(|problem| PathError { at: text[..split].trim_start().chars().count() + 1, problem })?;
        Ok(PathCondition { text: format!("{}={value}", query.text()), query, wanted })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the answer could tell something of a value under a hidden name.
    pub fn may_see(&self, is_hidden: &dyn Fn(&str) -> bool) -> bool {
        // A whole object or list is compared with all that is below it.
        let whole = match &self.wanted {
            Wanted::Anything => false,
            Wanted::Exactly(value) | Wanted::Either(value, _) => {
                matches!(value, Json::List(_) | Json::Object(_))
            }
        };
        whole || self.query.may_see(is_hidden)
    }

    /// Whether the document has what is wanted.
    pub fn is_met_by(&self, document: &Json<'_>) -> Result<bool, OutOfSteps> {
        let found = match &self.wanted {
            Wanted::Anything => self.query.first(document)?,
            Wanted::Exactly(value) => self.query.find(document, |node, steps| equal(node, value, steps))?,
            Wanted::Either(value, text) => self.query.find(document, |node, steps| {
                Ok(equal(node, value, steps)? || node.look() == Look::Text(text))
            })?,
        };
        Ok(found.is_some())
    }
}

impl Paths {
    pub fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    pub(super) fn texts(&self, side: Side) -> Vec<String> {
        let conditions = match side {
            Side::Include => self.include.iter(),
            Side::Exclude => self.exclude.iter(),
        };
        conditions.map(|condition| condition.text.clone()).collect()
    }

    pub(super) fn add(&mut self, side: Side, condition: PathCondition) {
        match side {
            Side::Include => self.include.insert(condition),
            Side::Exclude => self.exclude.insert(condition),
        };
    }

    /// Whether a document is as wanted. What is no JSON has nothing that a path could select.
    pub(super) fn allow(&self, document: &Result<Json<'_>, NotRead>) -> bool {
        match document {
            Ok(document) => {
                self.include.iter().all(|condition| condition.is_met_by(document) == Ok(true))
                    && self.exclude.iter().all(|condition| condition.is_met_by(document) == Ok(false))
            }
            Err(NotRead::NotJson) => self.include.is_empty(),
            Err(NotRead::TooMuch) => self.is_empty(),
        }
    }
}

impl PartialEq for PathCondition {
    fn eq(&self, other: &PathCondition) -> bool {
        self.text == other.text
    }
}

impl Eq for PathCondition {}

impl PartialOrd for PathCondition {
    fn partial_cmp(&self, other: &PathCondition) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathCondition {
    fn cmp(&self, other: &PathCondition) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// The byte of the first `=` that is not inside of brackets; brackets in quotes inside of them do not count.
fn first_equals(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, '\'' | '"') if depth > 0 => quote = Some(c),
            (None, '=') if depth == 0 => return Some(at),
            (None, _) => {}
        }
    }
    None
}

fn wanted(value: &str) -> Result<Wanted, PathProblem> {
    if value.is_empty() {
        return Err(PathProblem::NoValue);
    }
    // Somebody who wants a text that begins with it can put the text in quotes.
    if value.starts_with('=') {
        return Err(PathProblem::DoubleEquals);
    }
    match Json::read(value) {
        Ok(json @ Json::Text(_)) => Ok(Wanted::Exactly(json.into_owned())),
        Ok(json) => Ok(Wanted::Either(json.into_owned(), value.to_owned())),
        Err(_) if value.starts_with('"') => Err(PathProblem::BadText),
        Err(_) => Ok(Wanted::Exactly(Json::Text(Cow::Owned(value.to_owned())))),
    }
}
