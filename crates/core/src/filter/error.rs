//! Why a filter was not understood, said so that the person who wrote it can mend it.

use super::key::Form;
use crate::json_path::{PathError, PathProblem};
use crate::limits;

/// A filter that cannot be used. Nothing is ever left out of a filter instead: that would widen it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("the filter has {bytes} bytes as text; at most {} are allowed", limits::FILTER_BYTES_MAX)]
    TooLong { bytes: usize },

    #[error(
        "`{key}` has more than {} values; use a pattern with `*`, or several filters",
        limits::FILTER_VALUES_MAX
    )]
    TooManyValues { key: &'static str },

    #[error(
        "`{key}` has more than {} conditions; one path can hold several, such as $[?@.a==1 && @.b==2]",
        limits::FILTER_PATHS_MAX
    )]
    TooManyPaths { key: &'static str },

    #[error("`{key}` has more than {} texts", limits::FILTER_PARTS_MAX)]
    TooManyParts { key: &'static str },

    #[error("unknown key `{key}`{}; the keys are {}{}", did_you_mean(.near), .form.known(), as_text(.form, .token))]
    UnknownKey { key: String, near: Option<&'static str>, token: String, form: Form },

    #[error("`{key}` has an empty value; {}", empty(.form, .key))]
    NoValue { key: &'static str, form: Form },

    #[error("`{key}` takes one value; put quotes around one that has a comma in it")]
    OneValue { key: &'static str },

    #[error("`{key}` is given twice with different values")]
    Twice { key: &'static str },

    #[error("`{key}` is given in `q` and beside it with different values; give it in one place")]
    Both { key: &'static str },

    #[error("`{key}` cannot be excluded; only {} can", .form.excludable())]
    NotExcludable { key: &'static str, form: Form },

    #[error("words cannot be excluded; to search for `{word}` as text, put it in quotes")]
    ExcludedWord { word: String },

    #[error("a quote is not closed after `{after}`")]
    UnclosedQuote { after: String },

    #[error(
        "a quote stands in the middle of `{value}`; put quotes around the whole value, and `\\\"` for one inside"
    )]
    StrayQuote { value: String },

    #[error("`\\{escaped}` means nothing inside quotes; write `\\\\` for a backslash and `\\\"` for a quote")]
    BadEscape { escaped: String },

    #[error("`{value}` is not a {key}{}; use one of {known}", did_you_mean(.near))]
    UnknownName { key: &'static str, value: String, near: Option<&'static str>, known: String },

    #[error("`{value}` is not an incident; its id looks like 019a8b1c-7e00-7000-8000-000000000000")]
    BadIncident { value: String },

    #[error("`held` is yes or no, not `{value}`")]
    BadHeld { value: String },

    #[error(
        "`{key}` is a length of time before now such as 24h, or a time such as 2026-11-15T03:00:00Z, not `{value}`"
    )]
    BadWhen { key: &'static str, value: String },

    #[error(
        "`{value}` has no time zone; write `{key}` like 2026-11-15T03:00:00Z, or as a length of time such as 24h"
    )]
    NoZone { key: &'static str, value: String },

    #[error("`{value}` is not a length of time; write it like 15m, 24h, 7d or P180D, at most 3652425d")]
    BadLength { value: String },

    #[error("`age` is like >7d for older, <24h for younger or 1d..7d for between, not `{value}`")]
    BadAge { value: String },

    #[error("`{key}` is a number such as 3, >=3, <5 or 1..5, not `{value}`")]
    BadRetries { key: &'static str, value: String },

    #[error("no letter can have `{key}` from {min} to {max}; the first has to be the smaller")]
    NoneBetween { key: &'static str, min: String, max: String },

    #[error(
        "`since` is not before `until`, so that no letter can match; lengths of time count back from now"
    )]
    NoTimeBetween,

    #[error("`{value}` has no letters or digits to search for")]
    NoWords { value: String },

    #[error("`{key}` has nothing to find; leave it out if it does not matter")]
    NothingToFind { key: &'static str },

    #[error("{key} `{path}` {error}{}", with_spaces(.form, .error))]
    BadPath { key: &'static str, path: String, error: PathError, form: Form },

    #[error("`{key}` must be {expected}, not {given}")]
    WrongType { key: String, expected: &'static str, given: String },

    #[error("`{key}` is empty; leave it out if it does not matter")]
    NoEntries { key: String },

    #[error("`{key}` has min and max, not `{end}`")]
    UnknownEnd { key: String, end: String },

    #[error("the filter must be an object such as {{\"queue\": \"billing\"}}, not {given}")]
    NotAnObject { given: String },
}

fn did_you_mean(near: &Option<&'static str>) -> String {
    near.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

fn as_text(form: &Form, token: &str) -> String {
    match form {
        Form::Text => format!("; to search for `{token}` as text, put it in quotes"),
        Form::Query | Form::Json => String::new(),
    }
}

fn empty(form: &Form, key: &str) -> String {
    match form {
        Form::Text => {
            format!("write `{key}:\"\"` if that is meant, and no spaces around colon and commas if not")
        }
        Form::Query | Form::Json => format!("write `{key}=\"\"` if that is meant, and leave it out if not"),
    }
}

fn with_spaces(form: &Form, error: &PathError) -> &'static str {
    match (form, &error.problem) {
        (Form::Text, PathProblem::Ends { .. }) => {
            "; if it goes on behind a space, put quotes around the path"
        }
        (Form::Text | Form::Query | Form::Json, _) => "",
    }
}
