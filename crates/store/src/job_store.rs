//! The part of the seam for jobs: those who enqueue and run them, their queues, and the rules that replay
//! what died. One method is one commit; times and ids are bound in.

use async_trait::async_trait;
use futures_util::future::join_all;
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;
use crate::job::{Changed, JobChange, JobEvent, JobPage, JobQuery, QueueInfo, StoredJob};
use crate::page::LetterHistory;

/// What a store does for jobs. Every `Store` is one.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Enqueues new jobs, each with what is to be told of it. All of them or none; the error names the first one whose id
    /// belongs to another job, or to a live or archived letter of one.
    async fn enqueue_jobs(
        &self,
        jobs: Vec<(Job, Vec<JobEvent>)>,
        at: Time,
    ) -> Result<Result<(), JobId>, StoreError>;

    async fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError>;

    /// A job as this instance handed it to a worker a moment ago, without a look at the store; told once. It may have
    /// moved since: only a change may be made from it, which its version guards, and nothing may be refused by it.
    fn handed_job(&self, _id: JobId) -> Option<StoredJob> {
        None
    }

    /// Hands the next jobs to a worker: queue by queue, highest priority first, then who waits longest. A paused queue
    /// gives nothing, and what has expired is discarded on the way. An empty name is nobody's; a worker that is wished to
    /// be quiet or to exit gets nothing.
    async fn fetch_jobs(
        &self,
        queues: Vec<String>,
        count: usize,
        worker: String,
        visibility_ms: Option<u64>,
        at: Time,
    ) -> Result<Vec<Job>, StoreError>;

    /// Writes a job over the version it was read in, with what becomes of its letter and what is to be told.
    async fn change_job(&self, change: JobChange) -> Result<Changed, StoreError>;

    /// Writes changes of several jobs, each by itself and as `change_job` does; the outcomes come in order. They share a
    /// commit where the store can.
    async fn change_jobs(&self, changes: Vec<JobChange>) -> Vec<Result<Changed, StoreError>> {
        join_all(changes.into_iter().map(|change| self.change_job(change))).await
    }

    /// Jobs that the clock has something to do with by then, the longest due first: to be promoted, to be taken from
    /// their worker, or, if they are available, expired.
    async fn due_jobs(&self, at: Time, limit: usize) -> Result<Vec<StoredJob>, StoreError>;

    /// When the next job is due, which may be in the past.
    async fn next_due(&self) -> Result<Option<Time>, StoreError>;

    /// All queues in the order of their names.
    async fn queues(&self) -> Result<Vec<QueueInfo>, StoreError>;

    /// Pauses a queue or lets it go on, and writes the audit entry.
    async fn pause_queue(&self, name: String, paused: bool, by: Actor, at: Time) -> Result<(), StoreError>;

    /// The live letter of a job.
    async fn letter_of_job(&self, id: JobId) -> Result<Option<LetterHistory>, StoreError>;

    /// Forgets jobs that ended in these states before these times, at most `limit` and fewer if they are large; says how
    /// many. What is in the dead letter stays.
    async fn prune_jobs(&self, before: [(JobState, Time); 3], limit: usize) -> Result<u64, StoreError>;

    /// Jobs by their ids, newest first. A filter that has to look into jobs looks at a bounded number of them.
    async fn jobs(&self, query: JobQuery) -> Result<JobPage, StoreError>;

    /// Jobs that a worker holds.
    async fn jobs_held_by(&self, worker: String, limit: usize) -> Result<Vec<StoredJob>, StoreError>;
}
