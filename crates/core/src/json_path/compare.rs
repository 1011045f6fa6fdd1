//! What a node of a document is, and how two of them compare.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::evaluate::{OutOfSteps, Steps};
use super::number;

/// A value of a document that queries can be asked of.
pub trait Node: Sized {
    fn look(&self) -> Look<'_>;

    /// The items of a list; of anything else none.
    fn items(&self) -> &[Self];

    /// The members of an object; of anything else none.
    fn members(&self) -> impl Iterator<Item = (&str, &Self)>;

    /// How many items or members there are.
    fn size(&self) -> usize;

    fn member(&self, name: &str) -> Option<&Self>;
}

/// What a node is, with its value unless it has nodes below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look<'n> {
    Null,
    Bool(bool),
    /// In the notation of JSON.
    Number(Cow<'n, str>),
    Text(&'n str),
    List,
    Object,
}

/// Whether two nodes are equal in the sense of the RFC: numbers by value, texts by code points, the rest by parts.
pub fn equal<A: Node, B: Node>(one: &A, other: &B, steps: &Steps) -> Result<bool, OutOfSteps> {
    steps.take(1)?;
    match one.look() {
        Look::Null => Ok(other.look() == Look::Null),
        Look::Bool(truth) => Ok(other.look() == Look::Bool(truth)),
        Look::Number(_) | Look::Text(_) => Ok(order(one, other, steps)? == Some(Ordering::Equal)),
        Look::List if other.look() == Look::List && one.size() == other.size() => {
            for (one, other) in one.items().iter().zip(other.items()) {
                if !equal(one, other, steps)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Look::Object if other.look() == Look::Object && one.size() == other.size() => {
            for (name, one) in one.members() {
                steps.take_for(name)?;
                let Some(other) = other.member(name) else { return Ok(false) };
                if !equal(one, other, steps)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Look::List | Look::Object => Ok(false),
    }
}

/// The order of two numbers or two texts; anything else has none.
pub(super) fn order<A: Node, B: Node>(
    one: &A,
    other: &B,
    steps: &Steps,
) -> Result<Option<Ordering>, OutOfSteps> {
    let (one, other) = (one.look(), other.look());
    if let (Look::Number(one), Look::Number(other)) = (&one, &other) {
        steps.take_for(one)?;
        steps.take_for(other)?;
        return Ok(number::compare(one, other));
    }
    if let (Look::Text(one), Look::Text(other)) = (one, other) {
        // Comparing stops at the end of the shorter one.
        steps.take_for(if one.len() < other.len() { one } else { other })?;
        return Ok(Some(one.cmp(other)));
    }
    Ok(None)
}

/// An event that was read for other purposes as well.
impl Node for Value {
    fn look(&self) -> Look<'_> {
        match self {
            Value::Null => Look::Null,
            Value::Bool(truth) => Look::Bool(*truth),
            Value::Number(number) => Look::Number(Cow::Owned(number.to_string())),
            Value::String(text) => Look::Text(text),
            Value::Array(_) => Look::List,
            Value::Object(_) => Look::Object,
        }
    }

    fn items(&self) -> &[Self] {
        self.as_array().map_or(&[], Vec::as_slice)
    }

    fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    }

    fn size(&self) -> usize {
        match self {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }
}
