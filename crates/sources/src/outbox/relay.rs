//! Delivers the events of an outbox: claims what is due, hands it to a sink, writes down what became of it.
//!
//! A row's waiting is its `next_attempt_at`; nobody sleeps over it. So is its claim: a row in processing whose time is
//! over belongs to nobody, and is taken back. Delivery is at least once, with the row's id as the key to recognise a
//! repetition by.

mod claim;
mod refused;
mod settle;
mod statements;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::{Fuse, FusedFuture};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use lazaret_core::attempt::LetterError;
use lazaret_core::class::ClassRules;
use lazaret_core::limits;
use tokio::sync::{Semaphore, watch};

use super::config::RelayConfig;
use super::table::Table;
use super::tries::TryLog;
use super::{Outbox, locked, now};
use crate::sink::{Sink, Sunk};
use crate::{Duty, SourceError};
use claim::{Aggregate, Batch, Claimed};
pub use refused::RefusedRow;
use refused::RefusedRows;
use settle::{Outcome, Settled};
pub(super) use statements::{Ordered, RelayStatements};

/// A relay of one outbox. Any number may work on one table.
pub struct Relay {
    outbox: Arc<Outbox>,
    sink: Arc<dyn Sink>,
    config: RelayConfig,
    classes: ClassRules,
    /// Where the errors of failed deliveries are kept; without it a row's last one is all that is known.
    tries: Option<Arc<dyn TryLog>>,
    hook: Hook,
    /// When expired claims were looked for last.
    looked_at: Mutex<Option<Instant>>,
    /// The aggregate that the last claim ended with: the next one goes on behind it, so that each has its turn.
    claimed_up_to: Mutex<Option<Aggregate>>,
    /// Whether the next claim begins with rows of no aggregate.
    free_first: AtomicBool,
    refused: Mutex<RefusedRows>,
    /// KiB of large bodies that may be in memory.
    large_bodies: Semaphore,
    stopping: watch::Sender<bool>,
    so_far: Mutex<Worked>,
}

/// What one tick did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Worked {
    pub claimed: u64,
    pub delivered: u64,
    pub retried: u64,
    pub died: u64,
    /// Given back without a try.
    pub released: u64,
    /// Claims that expired before their outcome was recorded: these rows come again.
    pub lost: u64,
    /// Rows that the database refuses to change: these stay as they are.
    pub refused: u64,
    /// Rows of others whose claim expired.
    pub taken_back: u64,
    /// When the next row is due, if that is known.
    pub next_due_ms: Option<u64>,
    /// Whether there may be due rows that were not looked at.
    is_partial: bool,
    /// How many notifications had come before the claim.
    heard: u64,
}

/// Where a test can stop a relay as a crash would.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Point {
    /// Rows are claimed, and nothing was delivered.
    Claimed,
    /// Some were delivered, and it is not written down.
    Delivered,
    /// It is written down.
    Settled,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Go {
    On,
    Die,
}

type Hook = Arc<dyn Fn(Point) -> Go + Send + Sync>;

impl Point {
    pub const ALL: [Point; 3] = [Point::Claimed, Point::Delivered, Point::Settled];

    pub const fn name(self) -> &'static str {
        match self {
            Point::Claimed => "claimed",
            Point::Delivered => "delivered",
            Point::Settled => "settled",
        }
    }
}

impl Worked {
    fn add(&mut self, more: &Worked) {
        self.claimed += more.claimed;
        self.delivered += more.delivered;
        self.retried += more.retried;
        self.died += more.died;
        self.released += more.released;
        self.lost += more.lost;
        self.refused += more.refused;
        self.taken_back += more.taken_back;
        self.is_partial |= more.is_partial;
    }
}

impl Relay {
    /// Fails if the outbox is not configured to have one.
    pub fn new(outbox: Arc<Outbox>, sink: Arc<dyn Sink>, classes: ClassRules) -> Result<Relay, SourceError> {
        let config = outbox.config.relay.clone();
        let config = config.ok_or_else(|| SourceError::Unfit("no relay is configured".to_owned()))?;
        Ok(Relay {
            outbox,
            sink,
            config,
            classes,
            tries: None,
            hook: Arc::new(|_| Go::On),
            looked_at: Mutex::default(),
            claimed_up_to: Mutex::default(),
            free_first: AtomicBool::new(false),
            refused: Mutex::default(),
            large_bodies: Semaphore::new(limits::RELAY_LARGE_BODIES_KIB_MAX as usize),
            stopping: watch::Sender::new(false),
            so_far: Mutex::default(),
        })
    }

    /// The relay with a place to keep the errors of failed deliveries.
    pub fn with_tries(self, tries: Arc<dyn TryLog>) -> Relay {
        Relay { tries: Some(tries), ..self }
    }

    /// A relay that a test can stop at a point, as a crash would.
    pub fn with_hook(self, hook: impl Fn(Point) -> Go + Send + Sync + 'static) -> Relay {
        Relay { hook: Arc::new(hook), ..self }
    }

    /// Delivers a batch, or two if there is so much. Stopping it in the middle loses nothing: what was claimed is taken back
    /// when its time is over.
    pub async fn tick(&self) -> Result<Worked, SourceError> {
        // Before the claim: what is notified from now on may not be in it.
        let heard = *self.outbox.due.borrow();
        let worked = self.work(heard).await;
        self.outbox.noticing(worked)
    }

    async fn work(&self, heard: u64) -> Result<Worked, SourceError> {
        let table = self.outbox.table().await?;
        let statements = relay_statements(&table)?;
        let mut worked = Worked { heard, ..Worked::default() };
        let begun = Instant::now();
        let batch = claim::claim(self, &table, statements).await?;
        if batch.rows() < self.config.batch {
            self.carry_out(statements, batch, begun, &mut worked).await?;
        } else {
            // There is more: it is claimed while this is delivered, so that neither side waits for the other.
            let mut more = Worked::default();
            let beside = async {
                let begun = Instant::now();
                let batch = claim::claim(self, &table, statements).await?;
                self.carry_out(statements, batch, begun, &mut more).await
            };
            // Both come to their ends, or what one has delivered would not be recorded because of the other.
            let (one, other) = tokio::join!(self.carry_out(statements, batch, begun, &mut worked), beside);
            worked.add(&more);
            one.and(other)?;
        }
        // Whoever has a full batch has better things to do, but not for ever.
        if worked.claimed < self.config.batch as u64 || self.is_time_to_look() {
            *locked(&self.looked_at) = Some(Instant::now());
            worked.taken_back = settle::take_back(self, statements).await?;
            if worked.taken_back > 0 {
                tracing::warn!(
                    source = self.outbox.config.name,
                    "the claims of {} rows expired; each counts as a failed try",
                    worked.taken_back
                );
            }
            let rows = self.outbox.db.query("looking for due rows", &statements.next_due, &[]).await?;
            let due: Option<i64> = rows.first().map_or(Ok(None), |row| super::db::cell(row, 0))?;
            worked.next_due_ms = due.and_then(|due| u64::try_from(due).ok());
        }
        Ok(worked)
    }

    /// Whether stuck rows were not looked for during a good part of the time that makes them so.
    fn is_time_to_look(&self) -> bool {
        let every = Duration::from_millis(self.config.stuck_after_ms / 4);
        locked(&self.looked_at).is_none_or(|at| at.elapsed() >= every)
    }

    /// Delivers rows that are claimed, and records what became of each as it comes. When that cannot be recorded, no further
    /// delivery begins, those under way come to their ends, and their outcomes are tried to be recorded once more.
    async fn carry_out(
        &self,
        statements: &RelayStatements,
        batch: Batch,
        begun: Instant,
        worked: &mut Worked,
    ) -> Result<(), SourceError> {
        let Batch { lanes, out_of_order, is_partial } = batch;
        worked.is_partial |= is_partial;
        worked.claimed += (lanes.iter().map(Vec::len).sum::<usize>() + out_of_order.len()) as u64;
        let released = |row: Claimed| row.settled(Outcome::Released { delay_ms: 0 });
        let mut waiting: Vec<Settled> = out_of_order.into_iter().map(released).collect();
        if lanes.is_empty() && waiting.is_empty() {
            return Ok(());
        }
        self.reached(Point::Claimed)?;
        let failed = AtomicBool::new(false);
        let lanes = lanes.into_iter().map(|rows| Box::pin(self.lane(rows, begun, &failed)));
        let mut done = stream::iter(lanes)
            .flatten_unordered(self.config.concurrency)
            .ready_chunks(self.config.batch)
            .fuse();
        // Deliveries go on while something is recorded, and what comes meanwhile is recorded together.
        let mut writing = Fuse::terminated();
        let mut first_error = None;
        loop {
            let may_write = first_error.is_none() || done.is_done();
            if writing.is_terminated() && !waiting.is_empty() && may_write {
                self.reached(Point::Delivered)?;
                let mut settled = std::mem::take(&mut waiting);
                writing = Box::pin(async move {
                    let written = settle::settle(self, statements, &mut settled).await;
                    (settled, written)
                })
                .fuse();
            }
            tokio::select! {
                Some(settled) = done.next() => waiting.extend(settled),
                (settled, written) = &mut writing, if !writing.is_terminated() => match written {
                    Ok(written) => {
                        worked.add(&written);
                        self.reached(Point::Settled)?;
                    }
                    Err(error) if first_error.is_some() => return Err(error),
                    Err(error) => {
                        failed.store(true, Ordering::Relaxed);
                        first_error = Some(error);
                        waiting.extend(settled);
                    }
                },
                else => break,
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Delivers rows one after the other. Behind one that was not delivered the others are given back: its outcome has to be
    /// recorded before they may go out.
    fn lane<'a>(
        &'a self,
        rows: Vec<Claimed>,
        begun: Instant,
        failed: &'a AtomicBool,
    ) -> impl Stream<Item = Settled> + 'a {
        stream::unfold((rows.into_iter(), true), move |(mut rows, goes_on)| async move {
            let mut row = rows.next()?;
            let outcome = match goes_on && !failed.load(Ordering::Relaxed) {
                true => self.deliver(&mut row, begun).await,
                false => Outcome::Released { delay_ms: 0 },
            };
            let goes_on = outcome == Outcome::Delivered;
            Some((row.settled(outcome), (rows, goes_on)))
        })
    }

    /// Waits until there may be something to do after a tick: something was notified, is due, or could have been missed.
    pub async fn wait(&self, worked: &Worked) {
        if worked.claimed > 0 || worked.taken_back > 0 || worked.is_partial {
            return;
        }
        let mut due = self.outbox.due.subscribe();
        // A row may become due a fraction of a millisecond after what was rounded down.
        let pause = worked.next_due_ms.map_or(self.config.poll_ms, |due| (due + 1).min(self.config.poll_ms));
        let told = due.wait_for(|count| *count != worked.heard);
        let alone = matches!(tokio::time::timeout(Duration::from_millis(pause), told).await, Ok(Err(_)));
        if alone {
            // Nobody is left who could tell, which cannot be while the outbox is there.
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    pub fn sink(&self) -> &dyn Sink {
        self.sink.as_ref()
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// What was done since the start.
    pub fn so_far(&self) -> Worked {
        *locked(&self.so_far)
    }

    /// Rows that the database refuses to change, with its reason.
    pub fn refused_rows(&self) -> Vec<RefusedRow> {
        locked(&self.refused).list()
    }

    fn refused_keys(&self) -> Vec<String> {
        locked(&self.refused).keys(Instant::now())
    }

    fn refuse(&self, key: &str, why: &str) {
        tracing::error!(
            source = self.outbox.config.name,
            "the database refuses to change row {key}, which stays as it is: {why}"
        );
        locked(&self.refused).add(key, why, Instant::now());
    }

    fn takes_free_first(&self) -> bool {
        self.free_first.fetch_xor(true, Ordering::Relaxed)
    }

    /// Delivers one row, if its claim lasts.
    async fn deliver(&self, row: &mut Claimed, begun: Instant) -> Outcome {
        let claim = Duration::from_millis(self.config.stuck_after_ms);
        let not_now = Outcome::Released { delay_ms: limits::RETRY_DELAY_MS_MIN };
        // A body waits for room while others are delivered.
        let _room = match row.body_left_out {
            Some(bytes) => {
                let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
                let kib = kib.min(limits::RELAY_LARGE_BODIES_KIB_MAX);
                self.large_bodies.acquire_many(kib).await.ok()
            }
            None => None,
        };
        // Half of the claim is for the delivery: what begins later could end when it is somebody else's.
        if begun.elapsed() > claim / 2 || self.is_stopping() {
            return not_now;
        }
        if row.body_left_out.is_some() {
            match self.outbox.body(&row.delivery.idempotency_key).await {
                Ok(Some((content_type, body))) => {
                    (row.delivery.content_type, row.delivery.body) = (content_type, body);
                }
                // The row is gone, or the database cannot be asked now: settling it shows which.
                Ok(None) | Err(_) => return not_now,
            }
        }
        let (at, delivering) = (now(), Instant::now());
        let sunk = match tokio::time::timeout(claim / 2, self.sink.deliver(&row.delivery)).await {
            Ok(sunk) => sunk,
            Err(_) => Sunk::Failed(Box::new(LetterError {
                error_type: "DeliveryTimeout".to_owned(),
                message: format!("no end within {} ms", claim.as_millis() / 2),
                ..LetterError::default()
            })),
        };
        row.delivery.body = bytes::Bytes::new();
        match sunk {
            Sunk::Delivered => Outcome::Delivered,
            Sunk::Unsent => not_now,
            Sunk::Failed(error) => {
                let took_ms = u64::try_from(delivering.elapsed().as_millis()).ok();
                self.failed(row, *error, at, took_ms)
            }
        }
    }

    fn reached(&self, point: Point) -> Result<(), SourceError> {
        match (self.hook)(point) {
            Go::On => Ok(()),
            Go::Die => Err(SourceError::Stopped(point.name())),
        }
    }
}

#[async_trait]
impl Duty for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn is_leader_only(&self) -> bool {
        // Claims keep the relays of several instances apart.
        false
    }

    async fn run_once(&self) -> Result<(), SourceError> {
        if self.is_stopping() {
            return Err(SourceError::Stopped("the end"));
        }
        let worked = self.tick().await?;
        locked(&self.so_far).add(&worked);
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            () = self.wait(&worked) => {}
            // The sender is here as long as the wait lasts.
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let so_far = self.so_far();
        vec![
            ("delivered", so_far.delivered),
            ("retried", so_far.retried),
            ("died", so_far.died),
            ("taken_back", so_far.taken_back),
        ]
    }

    /// Begins no further delivery; the outcomes of those under way are recorded.
    fn stop(&self) -> bool {
        self.stopping.send_replace(true);
        true
    }
}

fn relay_statements(table: &Table) -> Result<&RelayStatements, SourceError> {
    table.statements.relay.as_ref().ok_or_else(|| SourceError::Unfit("no relay is configured".to_owned()))
}

impl Outbox {
    /// The payload of a row as it is now; nothing if there is no such row.
    async fn body(&self, key: &str) -> Result<Option<(&'static str, bytes::Bytes)>, SourceError> {
        let table = self.table().await?;
        let statements = relay_statements(&table)?;
        let rows = self.db.query("fetching a payload", &statements.body, &[&key]).await?;
        rows.first().map(|row| super::row::payload(row, 0, table.payload)).transpose()
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("outbox", &self.outbox)
            .field("sink", &self.sink)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
