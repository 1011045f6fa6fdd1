//! The parsed form of a query. It holds only what is well-typed by the RFC, so evaluating it can go wrong nowhere.

use regex::Regex;

use super::document::Json;

/// One step from a list of nodes to the next.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) reach: Reach,
    pub(super) selectors: Vec<Selector>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    Child,
    /// `..`: the children of a node and of all below it.
    Descendant,
}

#[derive(Clone, Debug)]
pub(super) enum Selector {
    Name(String),
    Any,
    /// From the end when negative.
    Index(i64),
    Slice(Slice),
    Filter(Logical),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) step: i64,
}

/// A query inside of a filter.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) origin: Origin,
    pub(super) segments: Vec<Segment>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// `$`
    Root,
    /// `@`
    Current,
}

/// What is true or false of a node.
#[derive(Clone, Debug)]
pub(super) enum Logical {
    Any(Vec<Logical>),
    All(Vec<Logical>),
    Not(Box<Logical>),
    Exists(Path),
    Compare(Value, Relation, Value),
    /// `match` and `search`.
    Matches {
        text: Value,
        pattern: Pattern,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is at most one value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Literal(Json<'static>),
    /// A path that selects one node at most.
    Single(Path),
    /// `length(…)`
    Length(Box<Value>),
    /// `count(…)`
    Count(Path),
    /// `value(…)`: the only node of the path, or nothing.
    Only(Path),
}

#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// Written in the query, and compiled once.
    Fixed(Regex),
    /// Taken from the document, or a literal that is no text.
    Looked(Box<Value>, Span),
}

/// How much of a text a pattern has to match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Span {
    /// `match`
    Whole,
    /// `search`
    Part,
}

impl Path {
    /// Whether no document can make it select more than one node.
    pub(super) fn is_single(&self) -> bool {
        self.segments.iter().all(|segment| {
            segment.reach == Reach::Child
                && matches!(segment.selectors.as_slice(), [Selector::Name(_) | Selector::Index(_)])
        })
    }
}
