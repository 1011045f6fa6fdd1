//! What is known of each job from the answers that were heard, and what may have happened besides.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One job.
#[derive(Default, Debug)]
pub struct Account {
    pub pushes_tried: bool,
    pub pushed: bool,
    /// The worker that knows that it holds the job.
    pub holder: Option<u64>,
    pub acks_tried: bool,
    pub cancels_tried: bool,
    pub deletes_tried: u64,
    pub requeues_tried: u64,
    pub requeues_sure: u64,
    pub retries_sure: u64,
    pub retries_unsure: u64,
    /// An answer said so, at some time.
    pub discarded: bool,
    /// How it ended for good: nothing brings back a job that is `completed`, `cancelled` or `deleted`.
    pub ended: Option<&'static str>,
}

impl Account {
    pub fn take(&mut self, id: &str, worker: u64) {
        assert_eq!(self.holder, None, "{id} is held by two workers at the same time, the other is {worker}");
        // A cancel may have come between the fetch and its answer.
        let open = matches!(self.ended, None | Some("cancelled"));
        assert!(open, "{id} was given to worker {worker} after it had ended: {self:?}");
        self.holder = Some(worker);
    }

    /// Acknowledged by whoever held it.
    pub fn end_by_ack(&mut self, id: &str) {
        self.holder = None;
        self.acks_tried = true;
        self.end(id, "completed");
    }

    pub fn end(&mut self, id: &str, how: &'static str) {
        assert_eq!(self.ended, None, "{id} ended twice, the second time it was {how}: {self:?}");
        self.ended = Some(how);
    }
}

/// All jobs, and what cannot be told by job.
#[derive(Default)]
pub struct Accounts(Mutex<Book>);

#[derive(Default)]
struct Book {
    jobs: BTreeMap<String, Account>,
    /// Jobs that may be held by a worker that was not told so.
    unheard: BTreeMap<String, u64>,
    bulk_retries: u64,
    bulk_unsure: u64,
}

impl Accounts {
    /// The first worker that finds something wrong says what; the others go on.
    fn open(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn with<T>(&self, id: &str, change: impl FnOnce(&mut Account) -> T) -> T {
        let mut book = self.open();
        change(book.jobs.entry(id.to_owned()).or_default())
    }

    /// Some job that is as it is wanted.
    pub fn pick(&self, random: u64, wanted: impl Fn(&Account) -> bool) -> Option<String> {
        let book = self.open();
        let found: Vec<&String> =
            book.jobs.iter().filter(|(_, account)| wanted(account)).map(|(id, _)| id).collect();
        (!found.is_empty()).then(|| found[random as usize % found.len()].clone())
    }

    pub fn lose_fetch(&self, worker: String, count: u64) {
        *self.open().unheard.entry(worker).or_default() += count;
    }

    /// Gives a job that nobody knows to hold to the worker in whose name it is held, as `holds` finds out: one of those
    /// that did not get every answer.
    pub fn settle_unheard(&self, id: &str, holds: impl Fn(&str) -> bool) {
        let mut book = self.open();
        let mut workers = book.unheard.iter_mut().filter(|(_, left)| **left > 0);
        let (_, left) = workers
            .find(|(worker, _)| holds(worker))
            .unwrap_or_else(|| panic!("{id} is held, and by nobody who could have missed it"));
        *left -= 1;
    }

    pub fn bulk_retried(&self, jobs: u64) {
        self.open().bulk_retries += jobs;
    }

    pub fn lose_bulk(&self) {
        self.open().bulk_unsure += 1;
    }

    pub fn ids(&self) -> Vec<String> {
        self.open().jobs.keys().cloned().collect()
    }

    /// How many retries were heard of, by one and by many; nothing is said about the most when a bulk was not heard.
    pub fn retries(&self) -> (u64, Option<u64>) {
        let book = self.open();
        let sure = book.bulk_retries + book.jobs.values().map(|account| account.retries_sure).sum::<u64>();
        let unsure: u64 = book.jobs.values().map(|account| account.retries_unsure).sum();
        (sure, (book.bulk_unsure == 0).then_some(sure + unsure))
    }
}
