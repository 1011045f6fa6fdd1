//! Putting letters back: planned, passed by the gate, launched, driven, verified.
//!
//! Every door calls these functions. What a run may do is decided by `lazaret_core::redrive`, whether letters pass by
//! `lazaret_core::gate`, and each step is one commit of the store: nothing is remembered here.

mod doors;
mod gate;
mod launch;
mod load;
mod options;
mod plan;
mod preview;
mod receipt;
mod send;
mod shown;
mod single;
mod tick;
mod verify;

use lazaret_core::filter::Filter;
use lazaret_core::gate::Shut;
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::lifecycle::Refused;
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_store::StoreError;
use lazaret_store::audit::Actor;
use lazaret_store::redrive::Redrive;

pub use doors::{Many, put_back_many};
pub(crate) use doors::{has_left, put_back};
pub use gate::{governance_of, shut_for};
pub use launch::{launch, settle, step};
pub(crate) use load::full_message_id;
pub use options::Wanted;
pub use plan::plan;
pub use receipt::{ReceiptGiven, ReceiptOutcome, receive};
pub(crate) use send::Looked;
pub use shown::{
    Counted, Destined, IncidentCounted, LanesShown, OlderOutside, Plan, RefusalShown, Sample, ShutShown,
};
pub use single::{Edited, SingleRequest, single};
pub(crate) use tick::{drive, look_after_claims, needs_look};
pub use tick::{drop_plans, tick};
pub use verify::Verifications;

/// Which letters a plan is about.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each plan that is asked for")]
pub enum Selection {
    /// Pending letters that match; it must not be empty.
    Filter(Filter),
    /// These, in the life that they are in; at most `limits::PAGE_ROWS_MAX`.
    Letters(Vec<LetterId>),
    /// Every pending letter, if there are so many.
    All { expected: u64 },
}

/// A plan that somebody asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanRequest {
    pub selection: Selection,
    /// How many letters they expect to go, if they say so.
    pub expected: Option<u64>,
    pub wanted: Wanted,
    pub reason: Option<String>,
    pub by: Actor,
}

/// A redrive and its plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    pub redrive: Redrive,
    pub plan: Plan,
}

/// Whether the caller may pass a shut gate by force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glass {
    /// Their role does not allow it.
    OutOfReach,
    InReach,
}

/// What a person says at the launch of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchRequest {
    /// How many letters they expect to go.
    pub count: u64,
    /// What they want otherwise than planned; the prioritization stays.
    pub wanted: Wanted,
    /// Why the gate is to be passed by force.
    pub break_glass: Option<String>,
    pub glass: Glass,
    pub by: Actor,
}

/// An incident for which the gate is shut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShutIncident {
    pub incident: IncidentId,
    pub shut: Shut,
    /// Letters of it among those asked for.
    pub letters: u64,
}

/// What a receipt did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// The letter is resolved.
    Resolved,
    /// The letter died again.
    Relapsed,
    /// The letter is in another life or has come to its end: nothing moved.
    Late,
    Unknown,
}

/// Why nothing was put back, by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum NotRedriven {
    #[error("redrive {0} not found")]
    Unknown(RedriveId),
    #[error("letter {0} not found")]
    UnknownLetter(LetterId),
    #[error("filter required; to redrive all letters state their count")]
    FilterRequired,
    /// The field and what is wrong with it.
    #[error("{field}: {problem}")]
    BadOption { field: &'static str, problem: String },
    #[error("{count} letters match, expected {expected}; nothing was sent")]
    CountMismatch { count: u64, expected: u64 },
    /// Narrow the filter.
    #[error("{0}")]
    TooLarge(String),
    #[error("not allowed: redrive {id} is {state}")]
    State { id: RedriveId, state: RunState },
    /// The letter's state stands in the way.
    #[error(transparent)]
    Letter(#[from] Refused),
    /// Do first what the hint of each says.
    #[error("{}", first_shut(.0))]
    Shut(Vec<ShutIncident>),
    /// Configure where the letters go.
    #[error("{0}")]
    NoWayBack(String),
    /// Send a body of your own.
    #[error("letter {0} has no body to send: {1}")]
    BodyMissing(LetterId, String),
    #[error("redrive {id} was planned more than {hours} hours ago", id = .0, hours = limits::PLAN_AGE_MS_MAX / 3_600_000)]
    PlanExpired(RedriveId),
    #[error("emergency override requires a reason of at least {} characters", limits::BREAK_GLASS_CHARS_MIN)]
    GlassReason,
    #[error("emergency override requires the role admin")]
    GlassForbidden,
    #[error("letter {0} does not have an unknown outcome")]
    NotUnknown(LetterId),
    /// The edit cannot be sent.
    #[error("{0}")]
    BadEdit(String),
    #[error("letter {0} belongs to a job: its outcome is the worker's ack or nack")]
    NotByReceipt(LetterId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Letters of a redrive that have not had their turn: all that go, before its launch.
fn goes(redrive: &Redrive) -> u64 {
    redrive.letters.get(&Outcome::Waiting).copied().unwrap_or(0)
}

/// Who does what nobody asked for, in the audit log.
fn ourselves() -> Actor {
    Actor { name: "lazaret".to_owned(), role: "system".to_owned(), request: None }
}

fn first_shut(incidents: &[ShutIncident]) -> String {
    match incidents {
        [] => "redrive blocked".to_owned(),
        [one] => format!("incident {}: {}", one.incident, one.shut),
        [first, ..] => {
            format!("incident {} and {} more: {}", first.incident, incidents.len() - 1, first.shut)
        }
    }
}
