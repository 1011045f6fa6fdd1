//! Why a request about a job cannot be taken: what kind of mistake, in which field, and what would be right.
//!
//! Knows the code by which clients tell mistakes apart, never an HTTP status.

use std::fmt;

/// The kinds of mistakes that clients tell apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProblemKind {
    /// A field is missing, or its value is not allowed.
    InvalidRequest,
    /// The request cannot be read at all.
    InvalidPayload,
    /// A field holds the wrong kind of JSON value.
    SchemaValidation,
    /// The retry policy cannot be followed.
    ValidationError,
    TooLarge,
}

impl ProblemKind {
    pub const ALL: [ProblemKind; 5] = [
        ProblemKind::InvalidRequest,
        ProblemKind::InvalidPayload,
        ProblemKind::SchemaValidation,
        ProblemKind::ValidationError,
        ProblemKind::TooLarge,
    ];

    /// The code on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            ProblemKind::InvalidRequest => "invalid_request",
            ProblemKind::InvalidPayload => "invalid_payload",
            ProblemKind::SchemaValidation => "schema_validation",
            ProblemKind::ValidationError => "validation_error",
            ProblemKind::TooLarge => "envelope_too_large",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request that cannot be taken. The message names the field and the value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct JobProblem {
    pub kind: ProblemKind,
    /// The field, as a path such as `options.retry.max_attempts`.
    pub field: Option<String>,
    pub message: String,
    /// What would be right.
    pub hint: Option<&'static str>,
}

impl JobProblem {
    pub(super) fn new(kind: ProblemKind, field: &str, message: impl Into<String>) -> JobProblem {
        JobProblem { kind, field: Some(field.to_owned()), message: message.into(), hint: None }
    }

    /// A problem of the request as a whole.
    pub(super) fn whole(kind: ProblemKind, message: impl Into<String>) -> JobProblem {
        JobProblem { kind, field: None, message: message.into(), hint: None }
    }

    /// The wrong kind of JSON value.
    pub(super) fn wrong_kind(field: &str, wanted: &str, raw: &str) -> JobProblem {
        let message = format!("{field} must be {wanted}, not {}", super::raw::kind(raw));
        JobProblem::new(ProblemKind::SchemaValidation, field, message)
    }

    pub(super) fn hinted(self, hint: &'static str) -> JobProblem {
        JobProblem { hint: Some(hint), ..self }
    }
}
