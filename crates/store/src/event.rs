//! What happened, in commit order.

use lazaret_core::id::{EventId, IncidentId, JobId, LetterId, OperationId};
use lazaret_core::letter::Letter;
use lazaret_core::time::Time;

#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Grows with each commit; no reader ever sees a lower one appear later.
    pub position: u64,
    pub id: EventId,
    pub at: Time,
    pub kind: String,
    pub letter: Option<LetterId>,
    pub incident: Option<IncidentId>,
    pub operation: Option<OperationId>,
    pub job: Option<JobId>,
    pub actor: Option<String>,
    /// JSON text of an object.
    pub detail: Option<String>,
    /// The letter as it stands now, for whoever filters or shows the event; gone if the letter is.
    pub about: Option<Box<Letter>>,
}

/// The positions between which events are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventsKept {
    /// The oldest that is kept; one past the newest if none is.
    pub oldest: u64,
    /// The newest there ever was; zero if there was none.
    pub newest: u64,
}

/// An event that is about to be written; it gets its id there and its position at the commit.
#[derive(Default)]
pub(crate) struct NewEvent<'a> {
    pub at: Time,
    pub kind: &'static str,
    pub letter: Option<LetterId>,
    pub incident: Option<IncidentId>,
    pub operation: Option<OperationId>,
    pub job: Option<JobId>,
    pub actor: Option<&'a str>,
    pub detail: Option<String>,
}
