//! JSON paths (RFC 9535): a query, the documents it is asked of, and an evaluation that always ends.
//!
//! Documents are a stranger's and queries are typed by people, so both are bounded: the length of a query, one `..`,
//! no filter inside of a filter, and the steps of one evaluation. What is beyond a bound is said to be so and never
//! answered with a guess.

mod compare;
mod document;
mod error;
mod escape;
mod evaluate;
#[cfg(test)]
mod laws;
mod logical;
mod number;
mod parse;
mod pattern;
mod reach;
mod syntax;
#[cfg(test)]
mod tests;

pub use compare::{Look, Node, equal};
pub use document::{Json, Members, NotRead};
pub use error::{PathError, PathProblem};
pub use evaluate::{OutOfSteps, Steps};

use evaluate::Evaluation;
use syntax::{Segment, Selector};

/// A query that was read and found to be within bounds. Two are the same when they are written the same.
#[derive(Clone, Debug)]
pub struct Query {
    text: String,
    segments: Vec<Segment>,
}

/// What makes a query more than a chain of names, indexes, `*` and `..`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    Filter,
    Slice,
    List,
}

impl Query {
    pub fn parse(text: &str) -> Result<Query, PathError> {
        Ok(Query { text: text.to_owned(), segments: parse::segments(text)? })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the query is `$` alone.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The first thing in the query that does not just name values.
    pub fn extra(&self) -> Option<Extra> {
        self.segments.iter().find_map(|segment| match segment.selectors.as_slice() {
            [Selector::Name(_) | Selector::Index(_) | Selector::Any] => None,
            [Selector::Filter(_)] => Some(Extra::Filter),
            [Selector::Slice(_)] => Some(Extra::Slice),
            _ => Some(Extra::List),
        })
    }

    /// The first node that the query selects, in the order of the RFC.
    pub fn first<'n, N: Node>(&self, document: &'n N) -> Result<Option<&'n N>, OutOfSteps> {
        self.find(document, |_, _| Ok(true))
    }

    /// The first selected node that is accepted. Accepting takes from the same steps as the walk.
    pub fn find<'n, N: Node>(
        &self,
        document: &'n N,
        mut accept: impl FnMut(&'n N, &Steps) -> Result<bool, OutOfSteps>,
    ) -> Result<Option<&'n N>, OutOfSteps> {
        let evaluation = Evaluation::of(document);
        let mut found = None;
        evaluation.walk(&self.segments, document, &mut |node| {
            let accepted = accept(node, evaluation.steps())?;
            if accepted {
                found = Some(node);
            }
            Ok(accepted)
        })?;
        Ok(found)
    }
}

impl PartialEq for Query {
    fn eq(&self, other: &Query) -> bool {
        self.text == other.text
    }
}

impl Eq for Query {}
