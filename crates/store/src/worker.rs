//! Workers as they report themselves by heartbeat, and what they are wished to do.

use async_trait::async_trait;
use lazaret_core::letter::listed;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;

/// What a worker says of itself with a heartbeat. What it leaves out stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Beat {
    pub worker: String,
    pub hostname: Option<String>,
    pub pid: Option<u64>,
    pub queues: Vec<String>,
    pub concurrency: Option<u64>,
    /// When it says that it was started.
    pub started_at: Option<Time>,
    /// Everything else it said, as JSON text of an object.
    pub said: Option<String>,
}

impl Beat {
    /// Cut down to what is kept of a worker, whatever it sends.
    pub fn bounded(self) -> Beat {
        let name = |text: String| listed(&text, limits::NAME_BYTES_MAX);
        // No store keeps a larger number; one that came back smaller would be another process at each heartbeat.
        let number = |number: u64| number.min(i64::MAX as u64);
        Beat {
            hostname: self.hostname.map(name),
            pid: self.pid.map(number),
            concurrency: self.concurrency.map(number),
            queues: self.queues.into_iter().take(limits::WORKER_QUEUES_MAX).map(name).collect(),
            // Half of a JSON text is none.
            said: self.said.filter(|text| text.len() <= limits::WORKER_SAID_BYTES_MAX),
            ..self
        }
    }

    /// What is known of a worker once it has said this too.
    pub fn with(&self, later: &Beat) -> Beat {
        let of = |new: &Option<String>, old: &Option<String>| new.clone().or_else(|| old.clone());
        Beat {
            worker: self.worker.clone(),
            hostname: of(&later.hostname, &self.hostname),
            pid: later.pid.or(self.pid),
            queues: if later.queues.is_empty() { self.queues.clone() } else { later.queues.clone() },
            concurrency: later.concurrency.or(self.concurrency),
            started_at: later.started_at.or(self.started_at),
            said: of(&later.said, &self.said),
        }
    }

    /// Whether a later word under the same name comes from another process, as far as both tell.
    pub fn is_another_process(&self, later: &Beat) -> bool {
        fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            matches!((one, other), (Some(one), Some(other)) if one != other)
        }
        differ(&self.started_at, &later.started_at)
            || differ(&self.pid, &later.pid)
            || differ(&self.hostname, &later.hostname)
    }
}

/// What a worker is wished to do. There is no way back from `Terminate`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Wish {
    Running,
    /// Fetch no more, finish what is held.
    Quiet,
    /// Finish and exit.
    Terminate,
}

impl Wish {
    pub const ALL: [Wish; 3] = [Wish::Running, Wish::Quiet, Wish::Terminate];

    pub const fn name(self) -> &'static str {
        match self {
            Wish::Running => "running",
            Wish::Quiet => "quiet",
            Wish::Terminate => "terminate",
        }
    }

    pub fn parse(text: &str) -> Option<Wish> {
        Wish::ALL.into_iter().find(|wish| wish.name() == text)
    }
}

/// A worker, with how many jobs it holds. One that holds jobs and never sent a heartbeat is there too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerInfo {
    pub beat: Beat,
    pub wish: Wish,
    pub first_seen_at: Option<Time>,
    pub last_beat_at: Option<Time>,
    pub active: u64,
}

/// What came of a wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wished {
    Done,
    Unknown,
    /// It was told to terminate, and there is no way back.
    Terminating,
}

/// What a store does for workers. Every `Store` is one.
#[async_trait]
pub trait Workers: Send + Sync {
    /// Records a heartbeat, adds the worker if it is not known, and returns what is wished of it.
    async fn beat(&self, beat: Beat, at: Time) -> Result<Wish, StoreError>;

    /// All workers that are known or have claimed jobs, in the order of their names, at most `limits::WORKERS_SHOWN_MAX`.
    async fn workers(&self) -> Result<Vec<WorkerInfo>, StoreError>;

    /// Wishes something of a worker and writes the audit entry.
    async fn wish_worker(
        &self,
        worker: String,
        wish: Wish,
        by: Actor,
        at: Time,
    ) -> Result<Wished, StoreError>;

    /// Workers that sent heartbeats, none since `before`, and still have jobs.
    async fn silent_workers(&self, before: Time, limit: usize) -> Result<Vec<String>, StoreError>;

    /// Forgets workers that sent no heartbeat since `before` and have no jobs; returns how many.
    async fn forget_workers(&self, before: Time, limit: usize) -> Result<u64, StoreError>;
}
