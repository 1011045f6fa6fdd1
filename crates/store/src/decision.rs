//! Decisions on letters, one by one or by a frozen selection.

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::lifecycle::{Action, Refused, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;

/// The actions that a person takes on letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verb {
    Resolve,
    Discard,
    Reopen,
    Hold,
    Release,
    /// Puts the job of the letter back; a letter that is no job's has no way back yet.
    Retry,
    /// Takes the letter out of every list; inside the floor its content goes to the archive.
    Delete,
    /// Brings back a letter that is archived, or deleted while its content is kept.
    Restore,
}

impl Verb {
    pub const ALL: [Verb; 8] = [
        Verb::Resolve,
        Verb::Discard,
        Verb::Reopen,
        Verb::Hold,
        Verb::Release,
        Verb::Retry,
        Verb::Delete,
        Verb::Restore,
    ];

    /// Those that can be asked for by a filter over the API.
    pub const BY_FILTER: [Verb; 6] =
        [Verb::Resolve, Verb::Discard, Verb::Reopen, Verb::Hold, Verb::Release, Verb::Delete];

    pub const fn action(self) -> Action {
        match self {
            Verb::Resolve => Action::Resolve,
            Verb::Discard => Action::Discard,
            Verb::Reopen => Action::Reopen,
            Verb::Hold => Action::Hold,
            Verb::Release => Action::Release,
            Verb::Retry => Action::Redrive,
            Verb::Delete => Action::Delete,
            Verb::Restore => Action::Restore,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            // What the person asks for; the machine calls every way of putting back a redrive.
            Verb::Retry => "retry",
            Verb::Resolve
            | Verb::Discard
            | Verb::Reopen
            | Verb::Hold
            | Verb::Release
            | Verb::Delete
            | Verb::Restore => self.action().name(),
        }
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
            Verb::Retry => "dead_letter.retried",
            Verb::Delete => "dead_letter.deleted",
            Verb::Restore => "dead_letter.restored",
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
    /// Only of a letter that stands so, if it matters how it stood when it was decided on.
    pub from: Option<Status>,
    /// How long after its last capture or death nothing of a letter that is deleted is destroyed; `None` is as long as it
    /// is unless something is set.
    pub floor_ms: Option<i64>,
}

impl Decision {
    pub fn floor_ms(&self) -> i64 {
        self.floor_ms.unwrap_or(limits::RETENTION_FLOOR_MS)
    }
}

/// What a decision did to one letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decided {
    Done,
    Refused(Refused),
    Unknown,
    /// It cannot be put back from here: its source takes nothing.
    NoWayBack,
    /// It cannot be restored: another letter or job has taken its key since.
    Replaced,
}

/// A decision by filter, before its list is frozen.
#[derive(Clone, PartialEq, Debug)]
pub struct NewOperation {
    pub id: OperationId,
    pub decision: Decision,
    pub filter: Filter,
    pub expected: Expected,
}

/// How many letters an operation may find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    Exactly(u64),
    /// Whatever matches, if it is not more.
    AtMost(u64),
}

impl Expected {
    pub const fn number(self) -> u64 {
        match self {
            Expected::Exactly(number) | Expected::AtMost(number) => number,
        }
    }

    /// What an operation becomes when so many letters are listed, and perhaps all.
    pub(crate) const fn after_chunk(self, total: u64, complete: bool) -> OperationState {
        let too_few = match self {
            Expected::Exactly(number) => total < number,
            Expected::AtMost(_) => false,
        };
        if total > self.number() || (complete && too_few) {
            OperationState::Refused
        } else if !complete {
            OperationState::Freezing
        } else if total == 0 {
            OperationState::Done
        } else {
            OperationState::Working
        }
    }
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
    pub expected: Expected,
    pub total: u64,
    pub done: u64,
    pub skipped: u64,
    pub opened_at: Time,
    pub finished_at: Option<Time>,
    /// As its decision has it.
    pub floor_ms: Option<i64>,
}

impl Operation {
    /// What the audit log calls it once it is known whether it is carried out.
    pub(crate) fn audit_action(&self, state: OperationState) -> String {
        match state {
            OperationState::Refused => format!("{}.refused", self.verb.name()),
            OperationState::Freezing | OperationState::Working | OperationState::Done => {
                self.verb.name().to_owned()
            }
        }
    }
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

/// What a store does for operations. Every `Store` is one.
#[async_trait]
pub trait Operations: Send + Sync {
    /// Opens an operation in state `freezing`.
    async fn open_operation(&self, operation: NewOperation) -> Result<(), StoreError>;

    /// Takes down one chunk of the operation's list: letters captured before it was opened that match its filter. When
    /// the list is complete the operation is `working`, or `refused` if the count is not the expected one.
    async fn freeze(&self, operation: OperationId) -> Result<Operation, StoreError>;

    /// Operations that have letters left to decide, oldest first.
    async fn working_operations(&self, limit: usize) -> Result<Vec<OperationId>, StoreError>;

    /// Ends operations that were opened before then and are still freezing, and plans that nobody has worked on since and
    /// are not finished: their caller or their server is gone. Returns how many.
    async fn drop_unfrozen(&self, opened_before: Time) -> Result<u64, StoreError>;

    async fn operation(&self, id: OperationId) -> Result<Option<Operation>, StoreError>;

    /// The first letters that an operation could not decide.
    async fn skipped(&self, id: OperationId, limit: usize) -> Result<Vec<Skipped>, StoreError>;
}
