//! Why a command did not do what was asked, and what the person can do about it.

use std::fmt;

use crate::client::ClientError;

/// How a command ended when nothing stopped it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Done,
    /// Not everything that was asked for happened, and the command has said so itself.
    Incomplete,
}

/// What the shell is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    Failed,
    /// The command line itself was wrong; nothing was tried.
    Misuse,
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Exit::Failed => 1,
            Exit::Misuse => 2,
        }
    }
}

/// A failure with words for the person at the terminal.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    exit: Exit,
}

impl Failure {
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, exit: Exit::Failed }
    }

    pub fn misuse(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, exit: Exit::Misuse }
    }

    pub fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An error as it is shown: with its causes, its hint and its exit code.
#[derive(PartialEq, Eq, Debug)]
pub struct Explained {
    pub message: String,
    pub hint: Option<String>,
    pub exit: Exit,
}

/// Finds the words for any error that a command can end with.
pub fn explain(error: &anyhow::Error) -> Explained {
    let message = format!("{error:#}");
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return Explained { message, hint: failure.hint.clone(), exit: failure.exit };
        }
        if let Some(error) = cause.downcast_ref::<ClientError>() {
            return Explained { message, hint: error.hint(), exit: error.exit() };
        }
    }
    Explained { message, hint: None, exit: Exit::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_survives_the_context_around_it() {
        let error =
            anyhow::Error::from(Failure::misuse("no such file").hint("look")).context("cannot report");
        let expected = Explained {
            message: "cannot report: no such file".into(),
            hint: Some("look".into()),
            exit: Exit::Misuse,
        };
        assert_eq!(explain(&error), expected);
    }
}
