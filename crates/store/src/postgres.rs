//! The shared store: PostgreSQL, for those who outgrow one machine. Any number of instances write at once.
//!
//! The same files and function names as the embedded store; `docs/decisions/0006` tells how it writes.

mod audit;
mod bodies;
mod cell;
mod changes;
mod conn;
mod copy;
mod counters;
mod decisions;
mod dump;
mod events;
mod extract;
mod failure;
pub(crate) mod filter;
mod holds;
mod incidents;
mod insert;
mod job_store;
mod jobs;
mod leader;
mod letters;
pub(crate) mod migrate;
mod months;
mod opening;
mod operations;
mod readers;
mod redrives;
mod refill;
mod regroup;
mod replays;
mod retention;
mod rows;
mod scan;
mod seam;
mod session;
mod transfer;
mod trash;
mod verdicts;
mod writer;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::letter::{Admitted, Receipt};
use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio::sync::watch;

use crate::audit::Actor;
use crate::decision::{Decided, Decision, Operation, Verb};
use crate::engine::numbers::RECOUNT_MAX;
use crate::engine::replays::Rounds;
use crate::event::{Event, EventsKept};
use crate::failure::Failures;
use crate::health::WriteHealth;
use crate::job::handed::Handed;
use crate::moves::{Committed, Move};
use crate::page::{LetterHistory, LetterPage, Original, PageQuery, Total};
use crate::search::BodyIndex;
use crate::sqlite::Mode;
use crate::transfer::{Exported, Import, Imported};
use crate::{Store, StoreError};
use changes::{Changes, Listener};
use conn::Connections;
use insert::Incoming;
use leader::Leader;
use months::Months;
use readers::Readers;
use writer::Writer;

pub use opening::Timeouts;

#[derive(Debug)]
pub struct PostgresStore {
    writer: Writer,
    readers: Readers,
    /// What the writer's lanes take their connections from.
    lanes: Connections,
    months: Months,
    changes: Arc<Changes>,
    committed: Arc<Committed>,
    rounds: Rounds,
    /// Jobs that workers of this instance were just handed.
    handed: Handed,
    listener: Mutex<Option<Listener>>,
    leader: Leader,
    failures: Arc<Failures>,
    health: Arc<WriteHealth>,
    mode: Mode,
}

/// Letters whose packing is quicker than handing it to another thread.
const PREPARE_INLINE_MAX: usize = 8;

async fn prepare(batch: Vec<Admitted>) -> Result<Vec<Incoming>, StoreError> {
    if batch.len() <= PREPARE_INLINE_MAX {
        return batch.into_iter().map(Incoming::new).collect();
    }
    off_thread(|| batch.into_iter().map(Incoming::new).collect()).await
}

/// Packs letters where that keeps nobody waiting.
async fn off_thread<T: Send + 'static>(
    pack: impl FnOnce() -> Result<Vec<T>, StoreError> + Send + 'static,
) -> Result<Vec<T>, StoreError> {
    tokio::task::spawn_blocking(pack).await.unwrap_or_else(|error| {
        Err(StoreError::Unavailable { doing: "packing letters", source: Some(Box::new(error)) })
    })
}

#[async_trait]
impl Store for PostgresStore {
    async fn insert(&self, batch: Vec<Admitted>) -> Result<Vec<Receipt>, StoreError> {
        insert::capture(self, prepare(batch).await?).await
    }

    async fn list(&self, query: PageQuery) -> Result<LetterPage, StoreError> {
        self.readers.snapshot(query, |conn, asked| Box::pin(letters::list(conn, asked))).await
    }

    async fn count(&self, filter: Filter, now: Time) -> Result<Total, StoreError> {
        self.readers
            .snapshot((filter, now), |conn, asked| {
                Box::pin(letters::count(conn, &asked.0, asked.1, limits::COUNT_ROWS_MAX))
            })
            .await
    }

    async fn count_all(&self, filter: Filter, now: Time) -> Result<Total, StoreError> {
        let some = self.count(filter.clone(), now).await?;
        // What ran out of time would do so again.
        if some != Total::AtLeast(limits::COUNT_ROWS_MAX) {
            return Ok(some);
        }
        let all = self
            .readers
            .snapshot((filter, now), |conn, asked| {
                Box::pin(letters::count(conn, &asked.0, asked.1, u64::MAX))
            })
            .await;
        all.or_else(|error| if matches!(error, StoreError::TooSlow) { Ok(some) } else { Err(error) })
    }

    async fn history(&self, letter: LetterId) -> Result<Option<LetterHistory>, StoreError> {
        self.readers.snapshot(letter, |conn, asked| Box::pin(letters::history(conn, *asked))).await
    }

    async fn original(&self, letter: LetterId, life: Option<u32>) -> Result<Option<Original>, StoreError> {
        self.readers
            .read((letter, life), |conn, asked| Box::pin(letters::original(conn, asked.0, asked.1)))
            .await
    }

    async fn refill_extracts(&self, letters: usize) -> Result<bool, StoreError> {
        refill::refill(self, letters).await
    }

    async fn index_bodies(&self, lives: usize) -> Result<BodyIndex, StoreError> {
        self.writer
            .write_long(lives.min(limits::COMMIT_LETTERS_MAX), lives, |write, asked| {
                Box::pin(bodies::index(write, *asked))
            })
            .await
    }

    async fn body_index(&self) -> Result<BodyIndex, StoreError> {
        self.readers.snapshot((), |conn, _| Box::pin(bodies::state(conn))).await
    }

    async fn export(&self, letters: Vec<LetterId>) -> Result<Vec<Exported>, StoreError> {
        self.readers.snapshot(letters, |conn, asked| Box::pin(transfer::export(conn, asked))).await
    }

    async fn import(&self, letters: Vec<Import>, by: Actor, at: Time) -> Result<Vec<Imported>, StoreError> {
        transfer::bring_in(self, letters, by, at).await
    }

    async fn decide(&self, letter: LetterId, decision: Decision) -> Result<Decided, StoreError> {
        // What comes back may be of a month that was empty without it.
        let back = (decision.verb == Verb::Restore).then(|| letter.at());
        self.months.ensure(&self.lanes, back.into_iter()).await?;
        let decided = self.writer.write_of(letter, (letter, decision), |write, asked| {
            Box::pin(verdicts::decide(write, asked.0, &asked.1))
        });
        self.months.after(decided.await)
    }

    async fn work(&self, operation: OperationId, at: Time) -> Result<Operation, StoreError> {
        operations::work_on(self, operation, at).await
    }

    fn moves(&self) -> Vec<(Move, u64)> {
        self.committed.all()
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.readers.read((after, limit), |conn, asked| Box::pin(events::after(conn, asked.0, asked.1))).await
    }

    async fn events_kept(&self) -> Result<EventsKept, StoreError> {
        self.readers.read((), |conn, _| Box::pin(events::kept(conn))).await
    }

    async fn prune_events(&self, keep: u64) -> Result<u64, StoreError> {
        self.writer.write_long(1, keep, |write, asked| Box::pin(events::prune(write, *asked))).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        // Written and removed in one commit: the disk has to take it, and nothing is left.
        let key = format!("ready {}", self.changes.instance());
        let probe = async {
            match self.health.take_doubt() {
                false => self.writer.write(1, key, |write, key| Box::pin(opening::probe(write, key))).await,
                true => {
                    self.writer.write(1, key, |write, key| Box::pin(opening::probe_large(write, key))).await
                }
            }
        };
        let wait = Duration::from_millis(limits::READY_MS_MAX);
        let probed = tokio::time::timeout(wait, probe).await.unwrap_or_else(|_| Err(failure::silent(wait)));
        probed.inspect_err(|_| self.health.doubt())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn lead(&self) -> Result<bool, StoreError> {
        self.leader.lead().await
    }

    fn leads(&self) -> bool {
        self.leader.leads()
    }

    async fn now(&self) -> Result<Option<Time>, StoreError> {
        self.readers.read((), |conn, _| Box::pin(opening::clock(conn))).await.map(Some)
    }

    async fn drop_empty_months(&self, before: Time) -> Result<u64, StoreError> {
        self.months.drop_empty(self.leader.address(), before).await
    }

    async fn reset(&self) -> Result<(), StoreError> {
        if self.mode != Mode::Test {
            return Err(StoreError::WrongMode("this store was made for real use: it cannot be emptied"));
        }
        self.writer.write_alone(1, (), |write, _| Box::pin(dump::empty(write))).await
    }

    async fn dump(&self) -> Result<String, StoreError> {
        self.readers.snapshot_within(RECOUNT_MAX, (), |conn, _| Box::pin(dump::dump(conn))).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        drop(self.listener.lock().unwrap_or_else(|broken| broken.into_inner()).take());
        self.writer.close().await;
        self.leader.step_down().await;
        self.readers.close();
        self.lanes.close();
        Ok(())
    }
}
