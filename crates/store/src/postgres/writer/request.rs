//! What waits for the writer: captures, new jobs and ends of jobs, each kind written together by a few statements for the
//! whole group, and everything else one by one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::letter::Receipt;
use tokio::sync::oneshot;

use super::super::insert::Incoming;
use super::super::jobs::NewJobs;
use super::super::jobs::change::JobMove;
use super::{Company, Weight, Write};
use crate::StoreError;
use crate::job::Changed;

pub(super) enum Work {
    Capture(Queued<Arc<Vec<Incoming>>, Vec<Receipt>>),
    Enqueue(Queued<NewJobs, Result<(), JobId>>),
    Change(Queued<Arc<JobMove>, Changed>),
    Request(Box<dyn Request>),
}

impl Work {
    pub fn letters(&self) -> usize {
        match self {
            Work::Capture(capture) => capture.input.len(),
            Work::Enqueue(enqueue) => enqueue.input.jobs.len(),
            Work::Change(_) => 1,
            Work::Request(request) => request.letters(),
        }
    }

    pub fn company(&self) -> Company {
        match self {
            Work::Capture(_) | Work::Enqueue(_) | Work::Change(_) => Company::Welcome,
            Work::Request(request) => request.company(),
        }
    }
}

/// One request of a kind that is written together with others of its kind.
pub(super) struct Queued<I, T> {
    pub input: I,
    pub result: Option<Result<T, StoreError>>,
    pub answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<I, T> Queued<I, T> {
    pub fn new(input: I) -> (Queued<I, T>, oneshot::Receiver<Result<T, StoreError>>) {
        let (answer, result) = oneshot::channel();
        (Queued { input, result: None, answer }, result)
    }

    pub fn failure(&self) -> Option<&StoreError> {
        self.result.as_ref().and_then(|result| result.as_ref().err())
    }

    pub fn answer(self, commit: Result<(), &StoreError>) {
        // The caller may have gone away; what it asked for stands all the same.
        self.answer.send(settled(self.result, commit)).ok();
    }
}

pub(super) trait Request: Send {
    /// Does the work, again if need be, and remembers its result; the failure, if it failed.
    fn run<'a>(&'a mut self, write: &'a mut Write) -> BoxFuture<'a, Result<(), StoreError>>;
    /// Remembers a failure that doing it again cannot mend.
    fn fail(&mut self, error: StoreError);
    fn failure(&self) -> Option<&StoreError>;
    fn answer(self: Box<Self>, commit: Result<(), &StoreError>);
    fn letters(&self) -> usize;
    /// The letter it moves, if it is one.
    fn of(&self) -> Option<LetterId>;
    fn company(&self) -> Company;
}

pub(super) struct Waiting<I, T, F> {
    pub input: I,
    pub work: F,
    pub result: Option<Result<T, StoreError>>,
    pub answer: oneshot::Sender<Result<T, StoreError>>,
    pub weight: Weight,
    pub company: Company,
}

impl<I, T, F> Request for Waiting<I, T, F>
where
    I: Send + Sync,
    T: Send,
    F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send,
{
    fn run<'a>(&'a mut self, write: &'a mut Write) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            // A panic in one request must not take the writer, and with it the store, away from all others.
            let work = (self.work)(write, &self.input);
            let value = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(broken()))?;
            self.result = Some(Ok(value));
            Ok(())
        })
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn failure(&self) -> Option<&StoreError> {
        self.result.as_ref().and_then(|result| result.as_ref().err())
    }

    fn answer(self: Box<Self>, commit: Result<(), &StoreError>) {
        self.answer.send(settled(self.result, commit)).ok();
    }

    fn letters(&self) -> usize {
        self.weight.letters
    }

    fn of(&self) -> Option<LetterId> {
        self.weight.of
    }

    fn company(&self) -> Company {
        self.company
    }
}

pub(super) fn broken() -> StoreError {
    StoreError::Unavailable { doing: "carrying out a write", source: None }
}

fn settled<T>(
    result: Option<Result<T, StoreError>>,
    commit: Result<(), &StoreError>,
) -> Result<T, StoreError> {
    match (commit, result) {
        (_, Some(Err(error))) => Err(error),
        (Ok(()), Some(Ok(value))) => Ok(value),
        (Ok(()), None) => Err(broken()),
        (Err(error), _) => Err(error.again()),
    }
}
