//! The seam between operations and databases: what an operation that is written once may ask of either.
//!
//! Operations are `async fn`s over `Conn` and `Tx`. On PostgreSQL their futures wait for the server; on SQLite every one is
//! ready at once, and the writer's thread polls it a single time. So an operation awaits nothing but the seam.

pub(crate) mod row;
pub(crate) mod sql;
pub(crate) mod table;
pub(crate) mod value;

use std::borrow::Cow;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lazaret_core::filter::Filter;
use lazaret_core::id::{IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::{Act, Actor, NewEntry};
use crate::decision::{Decision, Operation};
use crate::engine::operations::{DeathKey, FrozenChunk};
use crate::event::NewEvent;

pub(crate) use row::{Cell, Raw, Row};
pub(crate) use sql::{Dialect, Query, Sql, sql};
pub(crate) use table::{Table, table};
pub(crate) use value::{Value, binds};

/// A connection: asks and changes.
pub(crate) trait Conn: Send {
    /// Runs a statement and reads all its rows.
    fn query<T: Send>(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;

    /// Runs a statement that was composed for one question.
    fn ask<T: Send>(
        &mut self,
        query: &Query<'_>,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;

    /// Runs a statement and returns how many rows it changed.
    fn execute(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Runs a statement once for each of these rows of values, in order, and returns how many rows were changed in all.
    fn execute_each(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// The text as the database gives it back.
    fn kept<'t>(&self, text: &'t str) -> Cow<'t, str>;

    fn dialect(&self) -> Dialect;

    /// The newest letters of an incident: queue, type, subscriber, order key, tenant and class of each.
    fn newest_of_incident(
        &mut self,
        id: IncidentId,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<[Option<String>; 6]>, StoreError>> + Send;

    /// Runs a statement and reads its first row, if there is one.
    fn query_opt<T: Send>(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send {
        async move { Ok(self.query(sql, binds, read).await?.into_iter().next()) }
    }

    /// Runs a statement that always has a row.
    fn query_one<T: Send>(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        async move {
            let missing = || StoreError::Corrupt("a row that is always there is missing".into());
            self.query_opt(sql, binds, read).await?.ok_or_else(missing)
        }
    }
}

/// An open transaction, with what is written at its end.
pub(crate) trait Tx: Conn {
    /// Adds an audit entry, which gets its id here.
    fn add_audit(&mut self, entry: &NewEntry<'_>) -> Result<(), StoreError>;

    /// Adds an event, which gets its id here.
    fn add_event(&mut self, event: &NewEvent<'_>) -> Result<(), StoreError>;

    /// Random bytes for a new id.
    fn entropy(&mut self) -> Result<[u8; 10], StoreError>;

    /// Ends the next letters of a run that wait, behind an ordinal; says where it came to, nothing if that was the last. The
    /// run is locked.
    fn end_waiting(
        &mut self,
        id: RedriveId,
        after: i64,
        to: Outcome,
        why: Option<&str>,
        at: Time,
    ) -> impl Future<Output = Result<Option<i64>, StoreError>> + Send;

    /// Goes through the next letters of a plan and sets what the verdicts make of each; says where it ended, nothing at the
    /// end. What is behind a refused letter of the same lane must not overtake it.
    fn refuse_chunk(
        &mut self,
        id: RedriveId,
        after: u64,
    ) -> impl Future<Output = Result<Option<u64>, StoreError>> + Send;

    /// Lists the next letters of an operation that match, in order of death behind a place.
    fn select_chunk(
        &mut self,
        operation: &Operation,
        filter: &Filter,
        last: Option<DeathKey>,
    ) -> impl Future<Output = Result<FrozenChunk, StoreError>> + Send;

    /// Decides the next letters of an operation, and writes down what became of each; counts those done and skipped.
    fn decide_chunk(
        &mut self,
        operation: &Operation,
        decision: &Decision,
    ) -> impl Future<Output = Result<(u64, u64), StoreError>> + Send;

    /// The hold that an operation placed is on all its letters.
    fn end_placing(&mut self, id: OperationId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Adds the audit entry of an act.
    fn add_act(&mut self, act: &Act, by: &Actor, at: Time) -> Result<(), StoreError> {
        self.add_audit(&NewEntry {
            letter: act.letter(),
            filter: act.filter(),
            reason: act.reason(),
            ..NewEntry::new(by, act.action(), at)
        })
    }
}

/// Which writer a request goes to, and how many letters it touches. SQLite has one writer, where only the number counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lane {
    /// Short work, committed together with others.
    Quick(usize),
    /// Work that moves one letter. The requests of a commit go in the order of their letters, so that two instances never
    /// wait for each other in a circle.
    Letter(LetterId),
    /// Long work: capture goes on beside it.
    Long(usize),
    /// Long work in a transaction of its own: for what takes a lock before it comes to letters.
    Apart(usize),
    /// Work of a redrive, in a transaction of its own: it locks from a run down to incidents.
    Run(usize),
    /// Work during which nobody else writes, in any instance.
    Alone(usize),
}

impl Lane {
    pub fn letters(self) -> usize {
        match self {
            Lane::Letter(_) => 1,
            Lane::Quick(letters)
            | Lane::Long(letters)
            | Lane::Apart(letters)
            | Lane::Run(letters)
            | Lane::Alone(letters) => letters,
        }
    }
}

/// What a read sees.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View {
    /// A row or two by their key, so few that SQLite reads them on the thread that asks.
    Point,
    /// Each statement sees what is committed when it begins.
    Newest,
    /// All statements see the same commit.
    Snapshot,
    /// All statements see the same commit, and each may take this long.
    Within(Duration),
}

/// A database on which operations run.
pub(crate) trait Backend: Send + Sync {
    type Tx: Tx;
    type Reader: Conn;

    /// Runs `work` in a transaction and returns its result after the commit. It may be run more than once, and must
    /// change nothing outside of the transaction.
    fn write<I, T, F>(
        &self,
        lane: Lane,
        input: I,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Self::Tx, &'a I) -> BoxFuture<'a, Result<T, StoreError>>
            + Send
            + Sync
            + 'static;

    /// Runs `work` on a connection that changes nothing.
    fn read<I, T, F>(
        &self,
        view: View,
        input: I,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Self::Reader, &'a I) -> BoxFuture<'a, Result<T, StoreError>>
            + Send
            + Sync
            + 'static;
}

/// The result of an operation on SQLite, whose future never waits.
pub(crate) fn ready<T>(operation: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(operation).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => {
            Err(StoreError::Unavailable { doing: "waiting inside a shared operation", source: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_waits_is_an_error() {
        assert_eq!(ready(async { Ok(7) }).unwrap(), 7);
        assert!(ready(std::future::pending::<Result<(), StoreError>>()).is_err());
    }
}
