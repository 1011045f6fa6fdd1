//! Jobs, their queues, and the rules that replay what died: how requests reach the writer and the readers.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::writer::Write;
use super::{PREPARE_INLINE_MAX, SqliteStore, jobs, off_thread};
use crate::StoreError;
use crate::audit::Actor;
use crate::engine::queues;
use crate::job::{Changed, JobChange, JobEvent, JobPage, JobQuery, QueueInfo, StoredJob};
use crate::job_store::JobStore;
use crate::page::LetterHistory;
use crate::seam::{Backend, Lane, View};

#[async_trait]
impl JobStore for SqliteStore {
    async fn enqueue_jobs(
        &self,
        jobs: Vec<(Job, Vec<JobEvent>)>,
        at: Time,
    ) -> Result<Result<(), JobId>, StoreError> {
        let few = jobs.len() <= PREPARE_INLINE_MAX;
        let pack = move || jobs.into_iter().map(|(job, events)| jobs::Enqueued::new(job, events)).collect();
        let packed = if few { pack()? } else { off_thread(pack).await? };
        self.writer.write(packed.len(), move |write| jobs::enqueue(write, &packed, at)).await
    }

    async fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.readers.read_here(|conn| jobs::job(conn, id)).await
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
        let worker = Some(worker).filter(|name| !name.is_empty());
        let asked = Arc::new(jobs::fetch::Fetch { queues, count, worker, visibility_ms, at });
        if self.dry.holds(&asked.queues)
            && !self.readers.read_here(|conn| jobs::fetch::anything(conn, &asked)).await?
        {
            return Ok(Vec::new());
        }
        let (weight, same) = (count.min(limits::COMMIT_LETTERS_MAX), Arc::clone(&asked));
        let handed = Arc::clone(&self.handed);
        let fetched =
            self.writer.write(weight, move |write| jobs::fetch::fetch(write, &same, &handed)).await?;
        self.dry.note(&asked.queues, fetched.len());
        Ok(fetched)
    }

    async fn change_job(&self, change: JobChange) -> Result<Changed, StoreError> {
        let packed = jobs::change::Move::new(change)?;
        self.writer.write(1, move |write| jobs::change::change(write, &packed)).await
    }

    async fn change_jobs(&self, changes: Vec<JobChange>) -> Vec<Result<Changed, StoreError>> {
        let count = changes.len();
        let pack = move || changes.into_iter().map(jobs::change::Move::new).collect();
        let packed = if count <= PREPARE_INLINE_MAX { pack() } else { off_thread(pack).await };
        let moves = match packed {
            Ok(moves) => Arc::new(moves),
            Err(error) => return (0..count).map(|_| Err(error.again())).collect(),
        };
        let all = Arc::clone(&moves);
        // One request: a batch takes one place in the queue and is one commit.
        let change_all = move |write: &mut Write| {
            all.iter()
                .map(|one| jobs::change::change(write, one))
                .collect::<Result<Vec<Changed>, StoreError>>()
        };
        match self.writer.write(count, change_all).await {
            Ok(changed) => changed.into_iter().map(Ok).collect(),
            // One that cannot be written must not keep the others from it.
            Err(StoreError::Corrupt(_)) => {
                let each = (0..count).map(|at| {
                    let moves = Arc::clone(&moves);
                    self.writer.write(1, move |write| jobs::change::change(write, &moves[at]))
                });
                join_all(each).await
            }
            Err(error) => (0..count).map(|_| Err(error.again())).collect(),
        }
    }

    async fn due_jobs(&self, at: Time, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        self.readers.read(move |conn| jobs::due(conn, at, limit)).await
    }

    async fn next_due(&self) -> Result<Option<Time>, StoreError> {
        self.readers.read(|conn| jobs::next_due(conn)).await
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
        let keys = Arc::clone(&self.keys);
        self.readers.read(move |conn| jobs::letter_of(&keys, conn, id)).await
    }

    async fn prune_jobs(&self, before: [(JobState, Time); 3], limit: usize) -> Result<u64, StoreError> {
        let weight = limit.min(limits::COMMIT_LETTERS_MAX);
        self.writer.write(weight, move |write| jobs::prune(write, &before, limit)).await
    }

    async fn jobs(&self, query: JobQuery) -> Result<JobPage, StoreError> {
        self.read(View::Snapshot, query, |conn, query| Box::pin(async move { jobs::list::page(conn, query) }))
            .await
    }

    async fn jobs_held_by(&self, worker: String, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        self.readers.read(move |conn| jobs::held_by(conn, &worker, limit)).await
    }
}
