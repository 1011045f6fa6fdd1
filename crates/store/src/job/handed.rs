//! Jobs that were just handed to workers: how a run ends is mostly told soon after, and then the job need not be read.
//!
//! What is remembered may have moved since. Whoever changes a job from it is guarded by the version as ever, and reads
//! the job before anything is refused.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lazaret_core::id::JobId;
use lazaret_core::job::{Job, JobError};
use lazaret_core::limits;

use super::StoredJob;

/// The latest jobs that were handed out, each until it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Handed(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    jobs: HashMap<JobId, StoredJob>,
    /// Ids as they came in, also those that have been asked for since.
    order: VecDeque<JobId>,
    bytes: usize,
}

impl Handed {
    /// Remembers a job in place of whatever was known of it, and forgets the oldest ones if there are too many.
    pub fn remember(&self, job: &Job, version: u64) {
        let mut kept = self.lock();
        kept.forget(job.id);
        kept.bytes += weight(job);
        kept.jobs.insert(job.id, StoredJob { job: job.clone(), version });
        kept.order.push_back(job.id);
        while kept.order.len() > limits::HANDED_JOBS_MAX || kept.bytes > limits::HANDED_BYTES_MAX {
            let Some(oldest) = kept.order.pop_front() else { break };
            kept.forget(oldest);
        }
    }

    /// The job as it was handed out, once.
    pub fn take(&self, id: JobId) -> Option<StoredJob> {
        self.lock().forget(id)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget(&mut self, id: JobId) -> Option<StoredJob> {
        let known = self.jobs.remove(&id)?;
        self.bytes -= weight(&known.job);
        Some(known)
    }
}

/// Bytes of a job, roughly: what can be large in it, and the rest.
fn weight(job: &Job) -> usize {
    let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let of_error = |error: &JobError| {
        error.message.len() + of(&error.details) + of(&error.backtrace) + of(&error.extra) + 256
    };
    let texts = job.args.len() + job.meta.len() + of(&job.schema) + of(&job.unique) + of(&job.result);
    let tags: usize = job.tags.iter().map(|tag| tag.len() + 32).sum();
    let extra: usize = job.extra.iter().map(|(name, json)| name.len() + json.len() + 64).sum();
    let errors: usize = job.errors.iter().map(of_error).sum();
    texts + tags + extra + errors + 1_024
}

#[cfg(test)]
mod tests {
    use lazaret_core::job::enqueue::{JobDefaults, read_enqueue};
    use lazaret_core::time::Time;

    use super::*;

    fn job(n: u8, args_bytes: usize) -> Job {
        let text = format!(r#"{{"type":"t","args":["{}"]}}"#, "x".repeat(args_bytes));
        let new = read_enqueue(&text, &JobDefaults::default()).expect("a job can be read from it");
        Job::enqueued(new, JobId::from_bytes([n; 16]), Time::from_ms(1))
    }

    #[test]
    fn a_job_is_remembered_once_and_as_it_was_last() {
        let handed = Handed::default();
        handed.remember(&job(1, 10), 2);
        handed.remember(&job(1, 20), 4);
        assert_eq!(handed.take(JobId::from_bytes([1; 16])), Some(StoredJob { job: job(1, 20), version: 4 }));
        assert_eq!(handed.take(JobId::from_bytes([1; 16])), None);
        assert_eq!(handed.lock().bytes, 0);
    }

    #[test]
    fn the_oldest_are_forgotten_before_there_are_too_many_bytes() {
        let handed = Handed::default();
        let (large, count) = (limits::HANDED_BYTES_MAX / 10, 20);
        for n in 0..count {
            handed.remember(&job(n, large), 2);
        }
        assert!(handed.lock().bytes <= limits::HANDED_BYTES_MAX);
        assert_eq!(handed.take(JobId::from_bytes([0; 16])), None);
        assert!(handed.take(JobId::from_bytes([count - 1; 16])).is_some());
    }

    #[test]
    fn ids_that_were_asked_for_do_not_pile_up() {
        let handed = Handed::default();
        for _ in 0..limits::HANDED_JOBS_MAX * 2 {
            handed.remember(&job(7, 1), 2);
            handed.take(JobId::from_bytes([7; 16]));
        }
        assert!(handed.lock().order.len() <= limits::HANDED_JOBS_MAX);
    }
}
