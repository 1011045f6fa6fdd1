//! Jobs as a store keeps them: how one is read, what changes it, and what becomes of its letter meanwhile.
//!
//! What a job may do is decided by `lazaret_core::job` alone; a change carries the job as it shall be.

pub(crate) mod detail;
pub(crate) mod handed;

use std::collections::BTreeMap;

use lazaret_core::gate::{Governance, Shut};
use lazaret_core::id::{IncidentId, JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::job::letter::letter_key;
use lazaret_core::job::state::JobState;
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Admitted;
use lazaret_core::lifecycle::Refused;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;

use crate::audit::Actor;

pub use lazaret_core::job::SOURCE;

/// The key of a job's letter.
pub fn key_of(job: JobId) -> CaptureKey {
    letter_key(SOURCE, &job.to_string())
}

/// A job as it was read: what a change is guarded by.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredJob {
    pub job: Job,
    pub version: u64,
}

/// What becomes of the letter of a job, in the same commit.
#[derive(Clone, PartialEq, Debug)]
pub enum LetterEffect {
    None,
    /// The job is captured: as a new letter, or as the next life of the one it has. Whatever key it was admitted under,
    /// it is stored under the job's.
    Die(Box<Admitted>),
    /// Its pending letter is being reprocessed, because the job is available again; the gate is asked as governance says.
    Redrive(LetterId, Governance),
    /// Its letter, if one is being reprocessed, is resolved.
    Confirm {
        evidence: &'static str,
    },
    /// Its pending letter is resolved: the work was done although the job had been given up.
    SettleElsewhere {
        evidence: &'static str,
    },
    /// Its letter, if one is being reprocessed, is discarded: the job ended without a dead letter.
    End {
        evidence: &'static str,
    },
}

/// One move of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobChange {
    /// The job, and the version it was read in; version 0 says that it has no row, and that it gets one.
    pub before: (JobId, u64),
    pub after: Job,
    pub letter: LetterEffect,
    pub events: Vec<JobEvent>,
    /// Who asked for it, where that was a person: it goes into the audit log.
    pub by: Option<ByHand>,
    pub at: Time,
}

/// A change that a person asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByHand {
    pub actor: Actor,
    /// The word in the audit log: `retry`, `job_cancelled`, `job_activated`.
    pub action: &'static str,
    pub reason: Option<String>,
}

/// What a change did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Changed {
    Done,
    /// Another change came first: read again.
    Stale,
    /// The letter does not allow it; nothing changed.
    Refused(Refused),
    /// The gate is shut for the letter, which is in this incident; nothing changed.
    Shut(Shut, IncidentId),
}

/// Something to tell about a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobEvent {
    /// `job.enqueued` and the like.
    pub kind: &'static str,
    /// JSON text of an object.
    pub data: String,
}

/// A queue and how many jobs it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueInfo {
    pub name: String,
    pub paused: bool,
    pub created_at: Time,
    /// Every state is there.
    pub counts: BTreeMap<JobState, u64>,
}

/// Which jobs, in the order of their ids, newest first; what is not given is not asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobQuery {
    pub queue: Option<String>,
    pub state: Option<JobState>,
    /// A `*` matches any run of characters.
    pub job_type: Option<Pattern>,
    /// Only those that this worker holds.
    pub worker: Option<String>,
    /// Only ids before this one.
    pub before: Option<JobId>,
    pub limit: usize,
}

/// One page of jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct JobPage {
    pub jobs: Vec<Job>,
    /// The last id looked at, if there may be more behind it.
    pub next: Option<JobId>,
}
