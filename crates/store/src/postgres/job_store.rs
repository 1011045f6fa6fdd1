//! Jobs, their queues, and the rules that replay what died: how requests reach the writer and the readers.

use std::sync::Arc;

use async_trait::async_trait;
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::{PREPARE_INLINE_MAX, PostgresStore, jobs, off_thread};
use crate::StoreError;
use crate::audit::Actor;
use crate::engine::queues;
use crate::job::{Changed, JobChange, JobEvent, JobPage, JobQuery, QueueInfo, StoredJob};
use crate::job_store::JobStore;
use crate::page::LetterHistory;
use crate::seam::{Backend, Lane, View};

#[async_trait]
impl JobStore for PostgresStore {
    async fn enqueue_jobs(
        &self,
        jobs: Vec<(Job, Vec<JobEvent>)>,
        at: Time,
    ) -> Result<Result<(), JobId>, StoreError> {
        let few = jobs.len() <= PREPARE_INLINE_MAX;
        let pack = move || jobs.into_iter().map(|(job, events)| jobs::Enqueued::new(job, events)).collect();
        let packed: Vec<jobs::Enqueued> = if few { pack()? } else { off_thread(pack).await? };
        self.writer.enqueue(jobs::NewJobs { jobs: packed, at }).await
    }

    async fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.readers.read(id, |conn, asked| Box::pin(jobs::job(conn, *asked))).await
    }

    fn handed_job(&self, id: JobId) -> Option<StoredJob> {
        self.handed.take(id)
    }

    async fn fetch_jobs(
        &self,
        queues: Vec<String>,
        count: usize,
        worker: String,
        visibility_ms: Option<u64>,
        at: Time,
    ) -> Result<Vec<Job>, StoreError> {
        let asked = Arc::new(jobs::fetch::Fetch::new(queues, count, &worker, visibility_ms, at));
        let anything = self
            .readers
            .read(Arc::clone(&asked), |conn, asked| Box::pin(jobs::fetch::anything(conn, asked)))
            .await?;
        if !anything {
            return Ok(Vec::new());
        }
        let weight = count.min(limits::COMMIT_LETTERS_MAX);
        let fetched = self
            .writer
            .write(weight, asked, |write, asked| Box::pin(jobs::fetch::fetch(write, asked)))
            .await?;
        fetched.iter().for_each(|stored| self.handed.remember(&stored.job, stored.version));
        Ok(fetched.into_iter().map(|stored| stored.job).collect())
    }

    async fn change_job(&self, change: JobChange) -> Result<Changed, StoreError> {
        jobs::change::carry_out(self, change).await
    }

    async fn due_jobs(&self, at: Time, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        self.readers.read((at, limit), |conn, asked| Box::pin(jobs::due(conn, asked.0, asked.1))).await
    }

    async fn next_due(&self) -> Result<Option<Time>, StoreError> {
        self.readers.read((), |conn, _| Box::pin(jobs::next_due(conn))).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<JobPage, StoreError> {
        self.readers.snapshot(query, |conn, asked| Box::pin(jobs::list::page(conn, asked))).await
    }

    async fn jobs_held_by(&self, worker: String, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        self.readers
            .read((worker, limit), |conn, asked| Box::pin(jobs::held_by(conn, &asked.0, asked.1)))
            .await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, StoreError> {
        self.read(View::Newest, (), |conn, ()| Box::pin(queues::all(conn))).await
    }

    async fn pause_queue(&self, name: String, paused: bool, by: Actor, at: Time) -> Result<(), StoreError> {
        self.write(Lane::Quick(1), (name, paused, by, at), |tx, (name, paused, by, at)| {
            Box::pin(queues::pause(tx, name, *paused, by, *at))
        })
        .await
    }

    async fn letter_of_job(&self, id: JobId) -> Result<Option<LetterHistory>, StoreError> {
        self.readers.snapshot(id, |conn, asked| Box::pin(jobs::letter_of(conn, *asked))).await
    }

    async fn prune_jobs(&self, before: [(JobState, Time); 3], limit: usize) -> Result<u64, StoreError> {
        self.writer
            .write_long(limit.min(limits::COMMIT_LETTERS_MAX), (before, limit), |write, asked| {
                Box::pin(jobs::prune(write, &asked.0, asked.1))
            })
            .await
    }
}
