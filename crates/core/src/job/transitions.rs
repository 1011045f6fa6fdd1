//! What each move does to a job, beyond its state.
//!
//! Every function asks the machine first and gives back the changed job; nothing else writes a job's state.

use crate::limits;
use crate::time::Time;

use super::failure::{Failure, Fate, Verdict, decide};
use super::field::merge_objects;
use super::problem::{JobProblem, ProblemKind};
use super::reenqueue::Override;
use super::state::{JobAction, JobRefused, JobState};
use super::{Held, Job, JobError};

/// Why a job cannot be taken out of the dead letter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotRetried {
    #[error(transparent)]
    State(#[from] JobRefused),
    /// It was discarded for good, which nobody can retry.
    #[error("the job is discarded but not in the dead letter")]
    NotDead,
    #[error(transparent)]
    Override(#[from] JobProblem),
}

/// A worker speaks about a job that another one holds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the job is held by another worker")]
pub struct NotHolder;

impl Job {
    /// Its time has come, or its backoff is over.
    pub fn promoted(self, now: Time) -> Result<Job, JobRefused> {
        let state = self.state.after(JobAction::Promote)?;
        Ok(Job { state, enqueued_at: now, next_attempt_at: None, ..self })
    }

    pub fn activated(self, now: Time) -> Result<Job, JobRefused> {
        let state = self.state.after(JobAction::Activate)?;
        Ok(Job { state, activated_at: Some(now), enqueued_at: now, ..self })
    }

    /// A worker takes it. The attempt counts from here, and from nowhere else. The fetch's own reservation beats the
    /// job's.
    pub fn fetched(
        self,
        worker: Option<&str>,
        now: Time,
        visibility_ms: Option<u64>,
    ) -> Result<Job, JobRefused> {
        let state = self.state.after(JobAction::Fetch)?;
        let visibility_ms = visibility_ms.unwrap_or(self.visibility_ms);
        let held = Held {
            worker: worker.map(str::to_owned),
            visibility_ms,
            until: later(now, visibility_ms),
            timeout_at: later(now, self.timeout_ms),
        };
        let attempt = self.attempt.saturating_add(1);
        Ok(Job { state, attempt, started_at: Some(now), held: Some(held), ..self })
    }

    /// Its deadline passed before anybody ran it: discarded, and not a dead letter. `completed_at` stays absent, because
    /// nothing was run.
    pub fn expired(self, now: Time) -> Result<Job, JobRefused> {
        let state = self.state.after(JobAction::Expire)?;
        Ok(Job { state, discarded_at: Some(now), ..self })
    }

    /// A heartbeat restarts the reservation; the time limit of the run stays.
    pub fn extended(self, now: Time, visibility_ms: Option<u64>) -> Result<Job, JobRefused> {
        let state = self.state.after(JobAction::Extend)?;
        let held = self
            .held
            .map(|held| Held { until: later(now, visibility_ms.unwrap_or(held.visibility_ms)), ..held });
        Ok(Job { state, held, ..self })
    }

    /// Refuses a worker that names itself and does not hold the job. Who gives no name is believed: most SDKs do not.
    pub fn check_holder(&self, worker: Option<&str>) -> Result<(), NotHolder> {
        let holder = self.held.as_ref().and_then(|held| held.worker.as_deref());
        match (worker, holder) {
            (Some(worker), Some(holder)) if worker != holder => Err(NotHolder),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    /// Whether a worker that was not heard since `before` has lost it. What it fetched later, or asked by a heartbeat to
    /// hold for longer than usual, stays with it until the reservation is over.
    pub fn is_abandoned_since(&self, before: Time) -> bool {
        self.held.as_ref().is_some_and(|held| held.until <= later(before, held.visibility_ms))
    }

    /// The work is done. `result` is JSON text, verbatim. A job in the dead letter whose last run only the clock ended is
    /// completed by its worker's late word; one whose worker reported a failure stays dead.
    pub fn acked(self, result: Option<String>, now: Time) -> Result<Job, JobRefused> {
        let given_up = self.in_dead_letter && self.errors.last().is_some_and(JobError::is_by_clock);
        let state = self.state.after(if given_up { JobAction::AckLate } else { JobAction::Ack })?;
        Ok(Job {
            state,
            in_dead_letter: false,
            completed_at: Some(now),
            discarded_at: None,
            result,
            held: None,
            ..self
        })
    }

    /// What is to become of it after this failure. `unit` is a random number from 0 to 1.
    pub fn verdict(&self, failure: &Failure, unit: f64) -> Verdict {
        decide(failure, self.attempt, &self.retry, self.fate, unit)
    }

    /// A run has failed, and this is what becomes of the job.
    pub fn failed(self, failure: Failure, verdict: Verdict, now: Time) -> Result<Job, JobRefused> {
        let state = self.state.after(verdict.action())?;
        let attempt = self.attempt;
        let freed = Job { state, held: None, ..self };
        Ok(match verdict {
            // Nothing failed. The run that was counted at the fetch stays counted, or a job could go round for ever.
            Verdict::Requeue => Job { started_at: None, ..freed },
            Verdict::Return => Job { started_at: None, ..freed }.with_error(failure, attempt, now),
            Verdict::Retry { delay_ms } => {
                Job { retry_delay_ms: Some(delay_ms), next_attempt_at: Some(later(now, delay_ms)), ..freed }
                    .with_error(failure, attempt, now)
            }
            Verdict::Discard => ended(freed, now).with_error(failure, attempt, now),
            Verdict::DeadLetter => {
                Job { in_dead_letter: true, ..ended(freed, now) }.with_error(failure, attempt, now)
            }
        })
    }

    pub fn cancelled(self, now: Time) -> Result<Job, JobRefused> {
        let state = self.state.after(JobAction::Cancel)?;
        Ok(Job { state, cancelled_at: Some(now), next_attempt_at: None, held: None, ..self })
    }

    /// Leaves the dead letter and begins anew under the same id: attempts from 0, errors kept. From now on it returns to
    /// the dead letter when it is out of attempts, unless the override says where it ends.
    pub fn retried_from_dead_letter(self, with: &Override, now: Time) -> Result<Job, NotRetried> {
        let state = self.state.after(JobAction::RetryFromDeadLetter)?;
        if !self.in_dead_letter {
            return Err(NotRetried::NotDead);
        }
        let meta = match &with.meta {
            Some(over) => merge_objects("override.meta", &self.meta, over)?,
            None => self.meta,
        };
        if meta.len() > limits::JOB_META_BYTES_MAX {
            let message = format!("meta would have more than {} bytes", limits::JOB_META_BYTES_MAX);
            return Err(JobProblem::new(ProblemKind::TooLarge, "override.meta", message).into());
        }
        let (retry, fate) = match &with.retry {
            Some(patch) if patch.on_exhaustion.is_some() => (patch.over(&self.retry), Fate::ByPolicy),
            Some(patch) => (patch.over(&self.retry), Fate::DeadLetter),
            None => (self.retry, Fate::DeadLetter),
        };
        Ok(Job {
            state,
            in_dead_letter: false,
            queue: with.queue.clone().unwrap_or(self.queue),
            priority: with.priority.unwrap_or(self.priority),
            args: with.args.clone().unwrap_or(self.args),
            meta,
            retry,
            fate,
            attempt: 0,
            // The deadline was for the first life: whoever puts the job back wants it run.
            expires_at: None,
            enqueued_at: now,
            re_enqueued_at: Some(now),
            started_at: None,
            completed_at: None,
            discarded_at: None,
            next_attempt_at: None,
            retry_delay_ms: None,
            result: None,
            held: None,
            ..self
        })
    }

    /// Adds a failure to the history, which keeps the newest.
    fn with_error(mut self, failure: Failure, attempt: u32, now: Time) -> Job {
        self.errors.push(JobError::of(failure, attempt, now));
        let surplus = self.errors.len().saturating_sub(limits::JOB_ERRORS_MAX);
        self.errors.drain(..surplus);
        self
    }

    /// The states in which it waits for the clock, and for which moment.
    pub fn due_at(&self) -> Option<Time> {
        match self.state {
            JobState::Scheduled => self.scheduled_at,
            JobState::Retryable => self.next_attempt_at,
            JobState::Active => self.held.as_ref().map(|held| held.until.min(held.timeout_at)),
            JobState::Available
            | JobState::Pending
            | JobState::Completed
            | JobState::Cancelled
            | JobState::Discarded => None,
        }
    }
}

fn ended(job: Job, now: Time) -> Job {
    Job { discarded_at: Some(now), completed_at: Some(now), ..job }
}

fn later(now: Time, ms: u64) -> Time {
    now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
