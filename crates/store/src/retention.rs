//! Letters that a limit pushes out: what is asked, what goes, and what became of it.

use lazaret_core::duration::Length;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Status;
use lazaret_core::retention::{Limit, PruningPolicy};
use lazaret_core::time::Time;

/// A queue of a source, and how many live letters of each status there are in it. Held ones are counted in both numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueStanding {
    pub source: String,
    pub queue: String,
    pub status: Status,
    pub letters: u64,
    pub held: u64,
    /// When the retention of the oldest that is not held began.
    pub oldest_at: Option<Time>,
}

/// Which letters may go: those of one status in these queues, the one first whose retention began first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrunableQuery {
    /// Source and queue.
    pub queues: Vec<(String, String)>,
    pub status: Status,
    /// Their retention began at this moment or earlier.
    pub until: Time,
    /// Behind the last one of the page before.
    pub after: Option<PrunableKey>,
    /// Only those that stand in no unfinished plan, or only those that do; nothing asks for both.
    pub planned: Option<bool>,
    pub limit: usize,
}

/// A place in the order of going.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PrunableKey {
    pub retention_at: Time,
    pub letter: LetterId,
}

/// A letter that may go; none of them is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prunable {
    pub key: PrunableKey,
    pub source: String,
    pub queue: String,
    pub letter_type: String,
    /// The later of its last capture and its last death: the floor is counted from here.
    pub since: Time,
}

/// Letters that are to go. One is left as it is if it is held, out there, or its retention began anew since it was looked
/// at: the statement that removes it asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PruneBatch {
    pub letters: Vec<PruneLetter>,
    /// Each of them has it, or stays.
    pub status: Status,
    pub limit: Limit,
    pub at: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PruneLetter {
    pub letter: LetterId,
    /// As it was found; another one means that something happened to the letter.
    pub retention_at: Time,
    pub policy: PruningPolicy,
    /// Inside the floor it is archived whatever the policy says; the store asks again in the statement.
    pub min_age: Length,
}

/// What one commit took away, by source and queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    pub queues: Vec<PrunedQueue>,
    /// Letters of the batch that were looked at; the others were left for the next commit, because those took too long.
    pub looked_at: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrunedQueue {
    pub source: String,
    pub queue: String,
    pub archived: u64,
    pub deleted: u64,
}
