//! Delivers the events of an outbox: claims what is due, hands it to a sink, writes down what became of it.
//!
//! A row's waiting is its `next_attempt_at`; nobody sleeps over it. So is its claim: a row in processing whose time is
//! over belongs to nobody, and is taken back. Delivery is at least once, with the row's id as the key to recognise a
//! repetition by.

mod claim;
mod settle;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::{Fuse, FusedFuture};
use futures_util::{FutureExt, StreamExt, stream};
use lazaret_core::attempt::LetterError;
use lazaret_core::class::ClassRules;

use super::config::RelayConfig;
use super::statements::RelayStatements;
use super::table::Table;
use super::tries::TryLog;
use super::{Outbox, locked, now};
use crate::SourceError;
use crate::sink::{Sink, Sunk};
use claim::Claimed;
use settle::Settled;

/// A relay of one outbox. Any number may work on one table.
pub struct Relay {
    outbox: Arc<Outbox>,
    sink: Arc<dyn Sink>,
    config: RelayConfig,
    classes: ClassRules,
    /// Where the errors of failed deliveries are kept; without it a row's last one is all that is known.
    tries: Option<Arc<dyn TryLog>>,
    hook: Hook,
    /// When stuck rows were looked for last.
    looked_at: Mutex<Option<Instant>>,
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
    /// Claims that were over before what became of them was written: these come again.
    pub lost: u64,
    /// Rows of others whose claim was over.
    pub taken_back: u64,
    /// When the next row is due, if that is known.
    pub next_due_ms: Option<u64>,
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
        })
    }

    /// The relay with a place to keep the errors of failed deliveries.
    pub fn with_tries(self, tries: Arc<dyn TryLog>) -> Relay {
        Relay { tries: Some(tries), ..self }
    }

    /// The relay with a way to stop it at a point, for tests of crashes.
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
        let claimed = claim::claim(self, &table, statements).await?;
        if claimed.len() < self.config.batch {
            self.carry_out(statements, claimed, begun, &mut worked).await?;
        } else {
            // There is more: it is claimed while this is delivered, so that neither side waits for the other.
            let mut more = Worked::default();
            let beside = async {
                let begun = Instant::now();
                let claimed = claim::claim(self, &table, statements).await?;
                self.carry_out(statements, claimed, begun, &mut more).await
            };
            // Both come to their ends, or what one has delivered would not be written down because of the other.
            let (one, other) = tokio::join!(self.carry_out(statements, claimed, begun, &mut worked), beside);
            one.and(other)?;
            worked.add(&more);
        }
        // Whoever has a full batch has better things to do, but not for ever.
        if worked.claimed < self.config.batch as u64 || self.is_time_to_look() {
            *locked(&self.looked_at) = Some(Instant::now());
            let batch = self.config.batch as i64;
            let rows =
                self.outbox.db.query("taking back stuck rows", &statements.take_back, &[&batch]).await?;
            worked.taken_back = rows.len() as u64;
            if worked.taken_back > 0 {
                tracing::warn!(
                    source = self.outbox.config.name,
                    "{} rows were stuck in processing and are tried again",
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

    /// Delivers rows that are claimed, and writes down what became of each as it comes.
    async fn carry_out(
        &self,
        statements: &RelayStatements,
        claimed: Vec<Claimed>,
        begun: Instant,
        worked: &mut Worked,
    ) -> Result<(), SourceError> {
        worked.claimed += claimed.len() as u64;
        if claimed.is_empty() {
            return Ok(());
        }
        self.reached(Point::Claimed)?;
        let mut done = stream::iter(claimed)
            .map(|row| self.deliver(row, begun))
            .buffer_unordered(self.config.concurrency)
            .ready_chunks(self.config.batch)
            .fuse();
        // Deliveries go on while something is written, and what comes meanwhile is written together.
        let mut waiting = Vec::new();
        let mut writing = Fuse::terminated();
        loop {
            if writing.is_terminated() && !waiting.is_empty() {
                self.reached(Point::Delivered)?;
                writing = Box::pin(settle::settle(self, statements, std::mem::take(&mut waiting))).fuse();
            }
            tokio::select! {
                Some(settled) = done.next() => waiting.extend(settled),
                written = &mut writing, if !writing.is_terminated() => {
                    worked.add(&written?);
                    self.reached(Point::Settled)?;
                }
                else => return Ok(()),
            }
        }
    }

    /// Waits until there may be something to do after a tick: something was notified, is due, or could have been missed.
    pub async fn wait(&self, worked: &Worked) {
        if worked.claimed > 0 || worked.taken_back > 0 {
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

    /// Delivers one row, if its claim lasts.
    async fn deliver(&self, row: Claimed, begun: Instant) -> Settled {
        let claim = Duration::from_millis(self.config.stuck_after_ms);
        // Half of the claim is for the delivery: what begins later could end when it is somebody else's.
        if begun.elapsed() > claim / 2 {
            return row.settled(Sunk::Unsent, now(), Duration::ZERO);
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
        row.settled(sunk, at, delivering.elapsed())
    }

    fn reached(&self, point: Point) -> Result<(), SourceError> {
        match (self.hook)(point) {
            Go::On => Ok(()),
            Go::Die => Err(SourceError::Stopped(point.name())),
        }
    }
}

fn relay_statements(table: &Table) -> Result<&RelayStatements, SourceError> {
    table.statements.relay.as_ref().ok_or_else(|| SourceError::Unfit("no relay is configured".to_owned()))
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
