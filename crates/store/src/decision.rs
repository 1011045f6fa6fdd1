//! Decisions on letters, one by one or by a frozen selection.

use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::lifecycle::{Action, Refused};
use lazaret_core::time::Time;

use crate::audit::Actor;

/// The actions that a person takes on letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verb {
    Resolve,
    Discard,
    Reopen,
    Hold,
    Release,
}

impl Verb {
    pub const ALL: [Verb; 5] = [Verb::Resolve, Verb::Discard, Verb::Reopen, Verb::Hold, Verb::Release];

    pub const fn action(self) -> Action {
        match self {
            Verb::Resolve => Action::Resolve,
            Verb::Discard => Action::Discard,
            Verb::Reopen => Action::Reopen,
            Verb::Hold => Action::Hold,
            Verb::Release => Action::Release,
        }
    }

    pub const fn name(self) -> &'static str {
        self.action().name()
    }

    pub fn parse(text: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name() == text)
    }

    /// The event that tells of it.
    pub const fn event(self) -> &'static str {
        match self {
            Verb::Resolve => "dead_letter.resolved",
            Verb::Discard => "dead_letter.discarded",
            Verb::Reopen => "dead_letter.reopened",
            Verb::Hold => "dead_letter.held",
            Verb::Release => "dead_letter.released",
        }
    }
}

/// A decision: what, by whom, why and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    pub verb: Verb,
    pub actor: Actor,
    pub reason: Option<String>,
    pub at: Time,
}

/// What a decision did to one letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decided {
    Done,
    Refused(Refused),
    Unknown,
}

/// A decision by filter, before its list is frozen.
#[derive(Clone, PartialEq, Debug)]
pub struct NewOperation {
    pub id: OperationId,
    pub decision: Decision,
    pub filter: Filter,
    pub expected: u64,
}

/// A frozen list of letters and the decision worked off on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    pub id: OperationId,
    pub verb: Verb,
    pub state: OperationState,
    pub actor: String,
    pub reason: Option<String>,
    /// The filter in its text form.
    pub filter: String,
    pub expected: u64,
    pub total: u64,
    pub done: u64,
    pub skipped: u64,
    pub opened_at: Time,
    pub finished_at: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OperationState {
    /// The list is being taken down; nothing has been decided.
    Freezing,
    Working,
    Done,
    /// The count was not the one expected, or the caller went away while freezing: nothing was decided.
    Refused,
}

impl OperationState {
    pub const ALL: [OperationState; 4] =
        [OperationState::Freezing, OperationState::Working, OperationState::Done, OperationState::Refused];

    pub const fn name(self) -> &'static str {
        match self {
            OperationState::Freezing => "freezing",
            OperationState::Working => "working",
            OperationState::Done => "done",
            OperationState::Refused => "refused",
        }
    }

    pub fn parse(text: &str) -> Option<OperationState> {
        OperationState::ALL.into_iter().find(|state| state.name() == text)
    }
}

/// A letter that an operation could not decide, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    pub letter: LetterId,
    pub reason: String,
}
