//! Redrives as a store keeps them: the frozen list, the groups it is judged by, the run and what became of each letter.
//!
//! What a run may do is decided by `lazaret_core::redrive` alone.

use std::collections::BTreeMap;

use lazaret_core::attempt::Attempt;
use lazaret_core::filter::Filter;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::gate::{Cause, Governance, Passed, Shut, pass};
use lazaret_core::header::Headers;
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::incident::AgainstFix;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Outcome, Pace, RedriveKind, RunState};
use lazaret_core::time::Time;

use crate::audit::Actor;
use crate::claim::{ClaimFence, ClaimStep};
use crate::series::Step;
use crate::source_store::SettledElsewhere;

/// A redrive before its list is taken down.
#[derive(Clone, PartialEq, Debug)]
pub struct NewRedrive {
    pub id: RedriveId,
    pub kind: RedriveKind,
    pub selection: Selection,
    pub options: Options,
    pub by: Actor,
    pub reason: Option<String>,
    /// The edit that is sent in place of the original, by its number; only for a single letter.
    pub edit: Option<u32>,
    pub at: Time,
}

/// A plan that has to end although nobody cancelled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overdue {
    /// Opened before this time and never launched.
    Unlaunched(Time),
    /// Not finished, and nobody has worked on it since this time: its server or its caller is gone.
    Abandoned(Time),
}

impl Overdue {
    pub(crate) const fn before(self) -> Time {
        match self {
            Overdue::Unlaunched(before) | Overdue::Abandoned(before) => before,
        }
    }

    pub(crate) const fn why(self) -> &'static str {
        match self {
            Overdue::Unlaunched(_) => "it was not launched in time",
            Overdue::Abandoned(_) => "planning was interrupted",
        }
    }
}

/// Which letters a redrive is about.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each redrive that is opened, and it is moved once"
)]
#[derive(Clone, PartialEq, Debug)]
pub enum Selection {
    /// Pending letters that match; frozen in chunks.
    Filter(Filter),
    /// These, in this life; at most `limits::PAGE_ROWS_MAX`.
    Letters(Vec<(LetterId, u32)>),
}

/// A redrive, its run and how far it has come.
#[derive(Clone, PartialEq, Debug)]
pub struct Redrive {
    pub id: RedriveId,
    pub kind: RedriveKind,
    pub state: RunState,
    /// The filter in its text form; empty if the letters were named.
    pub filter: String,
    pub options: Options,
    pub by: Actor,
    pub reason: Option<String>,
    /// Why the gate was passed by force.
    pub break_glass: Option<String>,
    pub edit: Option<u32>,
    /// Letters on the list, the refused ones among them.
    pub total: u64,
    /// Letters of groups that the gate or the lack of a way back keeps from going.
    pub refused: u64,
    /// How many letters stand where, of those that are not refused. Every outcome is there.
    pub letters: BTreeMap<Outcome, u64>,
    /// Of the canaries; empty if there are none.
    pub canaries: BTreeMap<Outcome, u64>,
    pub canary_passed: bool,
    /// Why it is paused, stopped or cancelled.
    pub why: Option<String>,
    /// The plan as it was shown: JSON text of the server's making.
    pub plan: Option<String>,
    /// The rule, for the kind `rule`.
    pub rule: Option<String>,
    pub opened_at: Time,
    pub launched_at: Option<Time>,
    /// The last time that somebody let it go on.
    pub resumed_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub updated_at: Time,
}

impl Redrive {
    /// How many letters of the list go.
    pub fn goes(&self) -> u64 {
        self.total.saturating_sub(self.refused)
    }
}

/// Letters of one list that are judged together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub number: u32,
    pub incident: IncidentId,
    pub cause: Cause,
    pub source: String,
    pub subscriber: Option<String>,
    pub died: AgainstFix,
    /// Why its letters have no body, if they have none: that of the first of them.
    pub body_missing: Option<String>,
    pub letters: u64,
    /// What was decided, once it was.
    pub verdict: Option<GroupVerdict>,
}

/// A letter as the gate sees it: what is known of the incident it is in now, and when it died seen from the fix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LetterCause {
    pub incident: IncidentId,
    pub fingerprint: Fingerprint,
    /// Its class is that of the letter.
    pub cause: Cause,
    pub died: AgainstFix,
}

impl LetterCause {
    /// Asks the gate for this letter alone.
    pub fn pass(&self, governance: Governance) -> Result<Passed, Shut> {
        pass(governance, self.cause, self.died)
    }
}

/// Why the gate is shut for one of the groups that passed it under an RCA, if it is. Asked at the launch, whenever letters
/// are claimed and whenever the run is tended.
pub(crate) fn first_shut(groups: &[Group]) -> Option<(Shut, IncidentId)> {
    let governed = groups
        .iter()
        .filter(|group| matches!(group.verdict, Some(GroupVerdict::Goes { passed: Passed::Governed, .. })));
    governed
        .filter_map(|group| {
            Some((pass(Governance::Required, group.cause, group.died).err()?, group.incident))
        })
        .next()
}

/// What becomes of a letter that the gate refuses when its turn has come: the rest of its lane must not overtake it.
pub(crate) const fn refused_at_claim(lane: Option<&str>) -> Outcome {
    match lane {
        Some(_) => Outcome::LaneBlocked,
        None => Outcome::Skipped,
    }
}

/// What becomes of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupVerdict {
    Goes {
        passed: Passed,
        /// The configured destination, by name.
        destination: String,
    },
    Shut(Shut),
    /// Nothing is configured that takes these letters.
    NoWayBack(String),
    /// The letters have no body that could be sent, for this reason.
    BodyMissing(String),
}

/// What a plan counts, read from the frozen list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanCounts {
    /// The largest `limits::PLAN_VALUES_SHOWN` each; the numbers of all letters that go.
    pub types: Vec<(String, u64)>,
    pub queues: Vec<(String, u64)>,
    /// Lanes are (source, aggregate); shown by the aggregate.
    pub lanes: Vec<(String, u64)>,
    pub lanes_total: u64,
    /// Letters without an order key.
    pub unordered: u64,
    /// Pending letters of the same lanes that died earlier than one of the list and are not on it, and the first lanes
    /// that have such.
    pub older_outside: u64,
    pub older_lanes: Vec<String>,
    /// Letters that go of each group, by its number; groups of which none goes are left out.
    pub groups: BTreeMap<u32, u64>,
    /// The first `limits::PLAN_SAMPLES` letters that would go.
    pub samples: Vec<(LetterId, u32)>,
}

/// What a person says at the launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// How many letters they expect to go.
    pub count: u64,
    /// As planned or changed; prioritization stays as planned.
    pub options: Options,
    pub break_glass: Option<String>,
    pub by: Actor,
    pub at: Time,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Launched {
    Done(Box<Redrive>),
    /// So many would go.
    CountMismatch(u64),
    /// It is not planned, or no longer.
    State(RunState),
    /// An incident of the plan moved since: plan anew.
    Shut(Shut, IncidentId),
    Unknown,
}

/// What is done to a run by a person or by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunStep {
    Pause(String),
    /// Refused while the gate is shut for one of its groups, unless the glass was broken.
    Resume,
    Cancel(Option<String>),
    Pace(Pace),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Stepped {
    Done(Box<Redrive>),
    /// Its state does not allow it.
    Refused(RunState),
    Shut(Shut, IncidentId),
    Unknown,
}

/// A letter that a run has taken to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub letter: LetterId,
    pub life: u32,
    pub idempotency_key: String,
    /// How often its claim was taken over from a holder that did not act in time.
    pub renewals: u32,
    /// The configured destination, by name.
    pub destination: String,
    pub source: String,
    pub subscriber: Option<String>,
}

impl Taken {
    pub fn fence(&self) -> ClaimFence {
        let Taken { letter, idempotency_key, renewals, .. } = self;
        ClaimFence { letter: *letter, idempotency_key: idempotency_key.clone(), renewals: *renewals }
    }
}

/// What a look for letters to send gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Next {
    /// Claimed, to be sent by the caller within the lease.
    pub taken: Vec<Taken>,
    /// Jobs that were put back in this very commit.
    pub put_back: u64,
    /// Letters that had moved since the plan.
    pub skipped: u64,
    /// When the pace allows the next one, if it allowed none now.
    pub next_at: Option<Time>,
}

/// What sending one letter came to.
#[derive(Clone, PartialEq, Debug)]
pub enum SendOutcome {
    /// The work is done, on this evidence.
    Delivered {
        evidence: &'static str,
        /// What the destination handed out for it.
        handle: Option<String>,
    },
    /// The destination has it; whether the work succeeds is not known yet.
    Sent {
        /// What the destination handed out for it.
        handle: Option<String>,
    },
    /// It was sent, and has not died again for as long as its quiet window lasts.
    Assumed,
    /// It definitely has not, or its answer says that the work failed: an attempt of the same life.
    Failed {
        attempt: Box<Attempt>,
        why: String,
    },
    Unknown {
        why: String,
    },
    /// It was sent, and its trace at the destination is gone: nobody can tell what became of it.
    Lost {
        why: String,
    },
    /// It was never sent: the letter waits for its turn again.
    Unsent,
}

impl SendOutcome {
    /// What the destination handed out, as far as it is kept.
    pub(crate) fn handle(&self) -> Option<&str> {
        let handle = match self {
            SendOutcome::Delivered { handle, .. } | SendOutcome::Sent { handle } => handle.as_deref()?,
            SendOutcome::Assumed
            | SendOutcome::Failed { .. }
            | SendOutcome::Unknown { .. }
            | SendOutcome::Lost { .. }
            | SendOutcome::Unsent => return None,
        };
        Some(&handle[..handle.floor_char_boundary(limits::HANDLE_BYTES_MAX)])
    }

    /// Whether sending can have come to this when the claim was that far. A letter whose outcome is unknown is settled by
    /// the answer if that comes after all, but not as unknown once more.
    pub(crate) fn can_settle(&self, step: ClaimStep, before: Outcome) -> bool {
        match self {
            SendOutcome::Delivered { .. } => matches!(step, ClaimStep::Sending | ClaimStep::Sent),
            SendOutcome::Sent { .. } => step == ClaimStep::Sending,
            SendOutcome::Assumed | SendOutcome::Lost { .. } => before == Outcome::Sent,
            SendOutcome::Unknown { .. } => step == ClaimStep::Sending && before != Outcome::Unknown,
            SendOutcome::Failed { .. } | SendOutcome::Unsent => {
                matches!(step, ClaimStep::Claimed | ClaimStep::Sending)
            }
        }
    }
}

/// What a person says of a letter of which nobody knew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ByPerson {
    /// It was sent: it is verified as any other.
    Sent,
    /// It was not: the letter is pending again.
    Unclaim,
}

/// One letter of a redrive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedriveLetter {
    pub ordinal: u64,
    pub letter: LetterId,
    pub life: u32,
    pub outcome: Outcome,
    pub canary: bool,
    /// The order key it has to keep to.
    pub lane: Option<String>,
    pub group: u32,
    /// What proves the outcome, or why it is so.
    pub evidence: Option<String>,
    pub idempotency_key: Option<String>,
    /// What the destination handed out for it: a sequence, a delivery tag.
    pub handle: Option<String>,
    pub sent_at: Option<Time>,
    pub outcome_at: Option<Time>,
}

/// A letter that was sent and whose outcome is not known yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentLetter {
    pub ordinal: u64,
    pub group: u32,
    pub claim: ClaimFence,
    pub life: u32,
    /// The id that the message has at its source, as lists show it: cut to `limits::NAME_BYTES_MAX`.
    pub event_id: String,
    /// What the destination handed out when it took the letter.
    pub handle: Option<String>,
    pub sent_at: Option<Time>,
}

/// Evidence of a letter that was resolved because nothing was heard of it.
pub const QUIET_WINDOW: &str = "quiet_window";

/// A claim whose holder did not act in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expired {
    pub run: RedriveId,
    pub taken: Taken,
    /// Whether it may have been sent: it was `sending`.
    pub sending: bool,
    /// When it was sent for the first time under its key, if it may have been.
    pub begun_at: Option<Time>,
}

impl Expired {
    pub(crate) fn step(&self) -> ClaimStep {
        if self.sending { ClaimStep::Sending } else { ClaimStep::Claimed }
    }

    /// The letter in the hands of whoever took its claim over.
    pub(crate) fn renewed(&self) -> Taken {
        Taken { renewals: self.taken.renewals + 1, ..self.taken.clone() }
    }
}

/// Which redrives, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RedriveQuery {
    /// Any of these; all if there are none.
    pub states: Vec<RunState>,
    pub kinds: Vec<RedriveKind>,
    pub incident: Option<IncidentId>,
    pub before: Option<RedriveId>,
    pub limit: usize,
}

/// What a subscriber says of a letter that it got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    pub letter: LetterId,
    pub life: u32,
    /// The word for what proves it: `receipt`.
    pub evidence: &'static str,
    pub by: String,
    pub at: Time,
}

impl Proof {
    /// Evidence for a letter that is not out: its source shows that the work is done.
    pub(crate) fn elsewhere(&self, source: &str) -> SettledElsewhere {
        SettledElsewhere {
            letter: self.letter,
            life: self.life,
            by: format!("source:{source}"),
            notes: format!("{}, says {}", self.evidence, self.by),
            at: self.at,
        }
    }
}

/// What a proof did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proved {
    Done,
    /// The letter is in another life, or resolved or discarded already: nothing moved.
    Late,
    Unknown,
}

/// A letter as a person changed it before sending; the original stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// From 1 upward, over all lives.
    pub number: u32,
    pub life: u32,
    pub body: Vec<u8>,
    pub content_type: String,
    /// All headers that are sent, by name.
    pub headers: Headers,
    /// Another configured destination, by name.
    pub destination: Option<String>,
    pub author: String,
    pub reason: Option<String>,
    pub at: Time,
}

/// What a run did in a while: letters sent, and those whose outcome came to be known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Did {
    pub sent: u64,
    pub good: u64,
    pub bad: u64,
}

impl Did {
    /// Counts a letter that moved.
    pub(crate) fn count(&mut self, from: Outcome, to: Outcome) {
        self.sent += u64::from(to.was_sent() && !from.was_sent());
        self.good += u64::from(to.weight() == Some(true));
        self.bad += u64::from(to.weight() == Some(false));
    }
}

/// Which steps of a run are asked for: from the one that `from` lies in up to `until`, which is not among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunLine {
    pub redrive: RedriveId,
    pub step: Step,
    pub from: Time,
    pub until: Time,
}

impl RunLine {
    /// The first minute, and the one behind the last.
    pub(crate) fn minutes(&self) -> (i64, i64) {
        let last = self.until.plus_ms(-1).minute();
        (self.step.floor(self.from.minute()), self.step.floor(last).saturating_add(self.step.minutes()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunPoint {
    /// The beginning of the step.
    pub at: Time,
    pub did: Did,
}
