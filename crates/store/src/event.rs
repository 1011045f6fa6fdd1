//! What happened, in commit order.

use lazaret_core::id::{EventId, IncidentId, LetterId, OperationId};
use lazaret_core::time::Time;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Grows with each commit; no reader ever sees a lower one appear later.
    pub position: u64,
    pub id: EventId,
    pub at: Time,
    pub kind: String,
    pub letter: Option<LetterId>,
    pub incident: Option<IncidentId>,
    pub operation: Option<OperationId>,
    pub actor: Option<String>,
    /// JSON text of an object.
    pub detail: Option<String>,
}
