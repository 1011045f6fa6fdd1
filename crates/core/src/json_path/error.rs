//! Why a text is no query that we follow, with the place.

use crate::limits;

/// What is wrong, and at which character, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{problem} at {at}{}", .problem.hint())]
pub struct PathError {
    pub at: usize,
    pub problem: PathProblem,
}

/// What is wrong with a query, as the end of a sentence that begins with it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathProblem {
    #[error("is longer than {} bytes", limits::JSON_PATH_BYTES_MAX)]
    TooLong,

    #[error("ends inside of {inside}")]
    Ends { inside: &'static str },

    #[error("has `{}` instead of {expected}", visible(*.found))]
    Unexpected { found: char, expected: &'static str },

    #[error("holds `..` more than once")]
    DescendsTwice,

    #[error("holds a filter inside of a filter")]
    NestedFilter,

    #[error("nests parentheses deeper than {}", limits::JSON_PATH_NESTING_MAX)]
    TooNested,

    #[error("has a number that is not a whole one from -9007199254740991 to 9007199254740991")]
    BadInteger,

    #[error("has an escape that means nothing")]
    BadEscape,

    #[error("compares a path that can select several values")]
    NotSingle,

    #[error("has a value that is compared with nothing")]
    NotCompared,

    #[error("compares a test")]
    ComparedTest,

    #[error("negates one side of a comparison")]
    NegatedSide,

    #[error("has an unknown function")]
    UnknownFunction,

    #[error("has the wrong arguments")]
    BadArguments { usage: &'static str },

    #[error("has a pattern that is not valid or too large")]
    BadPattern,

    #[error("has `==` outside of a filter")]
    DoubleEquals,

    #[error("has nothing behind the `=`")]
    NoValue,

    #[error("has a text that is not closed or not JSON behind the `=`")]
    BadText,
}

impl PathProblem {
    /// What to do about it, where more can be said.
    fn hint(&self) -> String {
        match self {
            PathProblem::DescendsTwice | PathProblem::NestedFilter => ", which could take too long".into(),
            PathProblem::NotSingle => "; name one value, or use count(…) or value(…)".into(),
            PathProblem::ComparedTest => ", which is already true or false".into(),
            PathProblem::NegatedSide => "; put the comparison in parentheses".into(),
            PathProblem::UnknownFunction => {
                "; the functions are length, count, value, match and search".into()
            }
            PathProblem::BadArguments { usage } => format!("; write {usage}"),
            PathProblem::DoubleEquals => "; write one `=`".into(),
            PathProblem::NoValue => "; write `=\"\"` for the empty text".into(),
            PathProblem::TooLong | PathProblem::Ends { .. } | PathProblem::Unexpected { .. } => String::new(),
            PathProblem::TooNested | PathProblem::BadInteger | PathProblem::BadEscape => String::new(),
            PathProblem::NotCompared | PathProblem::BadPattern | PathProblem::BadText => String::new(),
        }
    }
}

/// Without what could move a terminal's cursor.
fn visible(found: char) -> char {
    if found.is_control() { char::REPLACEMENT_CHARACTER } else { found }
}
