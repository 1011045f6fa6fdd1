//! The seam between operations and databases: what an operation that is written once may ask of either.
//!
//! Operations are `async fn`s over `Conn` and `Tx`. On PostgreSQL their futures wait for the server; on SQLite every one is
//! ready at once, and the writer's thread polls it a single time. So an operation awaits nothing but the seam.

mod on_conn;
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
use lazaret_core::id::{HoldId, IncidentId, JobId, LetterId, OperationId, RedriveId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::{Action, Standing};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::{Act, Actor, NewEntry};
use crate::decision::{Decided, Decision, Operation, Verb};
use crate::engine::dimension::Counted;
use crate::engine::incidents::Opening;
use crate::engine::operations::{DeathKey, FrozenChunk, MatchingChunk};
use crate::engine::redrives::row::Run;
use crate::engine::replays::{Candidate, Rounds};
use crate::engine::verdicts::Mark;
use crate::event::NewEvent;
use crate::moves::Move;
use crate::replay::ReplayQuery;

pub(crate) use on_conn::OnConn;
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

    /// Runs a statement for many rows of values and reads what it returns for all of them. SQLite runs it once for each row,
    /// in order; PostgreSQL once, with a list for each column, which the statement takes apart by `unnest`.
    fn query_rows<T: Send>(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;

    /// Runs a statement for many rows of values, as `query_rows` does; returns how many rows were changed in all.
    fn execute_rows(
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

    /// Finds letters that a replay rule has not put back as often as it may, behind a place and up to another, in the order of
    /// their deaths.
    fn replay_candidates(
        &mut self,
        query: &ReplayQuery,
        between: (Option<DeathKey>, Option<DeathKey>),
        rows: usize,
    ) -> impl Future<Output = Result<Vec<Candidate>, StoreError>> + Send;

    /// The first candidates whose content is what the filter asks for, and how many were looked at for it: until there are
    /// enough, or the time is over.
    fn match_content(
        &mut self,
        filter: &Filter,
        candidates: &[Candidate],
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<Candidate>, usize), StoreError>> + Send;

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

    /// Moves one letter if the machine allows it, with its counters; otherwise says how it stands.
    fn apply(
        &mut self,
        letter: LetterId,
        action: Action,
        mark: Mark<'_>,
        at: Time,
    ) -> impl Future<Output = Result<Decided, StoreError>> + Send;

    /// Resolves a locked letter that a run has out, by evidence or a person's word.
    fn confirm(
        &mut self,
        run: &Run,
        letter: LetterId,
        to: Outcome,
        evidence: &str,
        by: &str,
        at: Time,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes a locked letter back of which a person says that it was not sent: it is pending again.
    fn unclaim(
        &mut self,
        run: &Run,
        letter: LetterId,
        evidence: &str,
        by: &str,
        at: Time,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The job of a live letter. Letters that are no job's have none, even if a report gave them the name of our source.
    fn job_of(&mut self, letter: LetterId) -> impl Future<Output = Result<Option<JobId>, StoreError>> + Send;

    /// Locks the jobs of letters until the commit; asked before the letters are locked.
    fn lock_jobs_of(&mut self, letters: &[LetterId]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Puts the job of a pending letter back into its queue, and the letter goes out with it; says what was decided, and the
    /// job. The caller adds the event.
    fn retry_job(
        &mut self,
        letter: LetterId,
        with: &Override,
        at: Time,
    ) -> impl Future<Output = Result<(Decided, Option<JobId>), StoreError>> + Send;

    /// Records that letters were put back with their jobs by a replay rule; returns the redrive.
    fn record_replays(
        &mut self,
        rule: &str,
        letters: Vec<LetterId>,
        by: &Actor,
        at: Time,
    ) -> impl Future<Output = Result<RedriveId, StoreError>> + Send;

    /// Counts a move for whoever watches this instance, if it is committed.
    fn note_move(&mut self, moved: Move);

    /// Opens an incident together with its fingerprint, and adds the event.
    fn open_incident(&mut self, opening: &Opening<'_>)
    -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Opens an incident whose fingerprint is there already and is pointed to it by the caller, and adds the event.
    fn open_unpointed_incident(
        &mut self,
        opening: &Opening<'_>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Counts a letter under another fingerprint from now on.
    fn count_regrouped(&mut self, letter: &Counted, old: &str, new: &str, captured_at: Time, at: Time);

    /// Locks a live or archived letter until the commit and returns its standing; that of a deleted one is only read.
    fn lock_standing(
        &mut self,
        letter: LetterId,
    ) -> impl Future<Output = Result<Option<Standing>, StoreError>> + Send;

    /// Locks live letters until the commit, in the order of their ids; returns those that are there.
    fn lock_live(
        &mut self,
        letters: &[LetterId],
    ) -> impl Future<Output = Result<Vec<LetterId>, StoreError>> + Send;

    /// Finds the next letters for a standing hold behind a place, as many as are marked at once. When they were captured is
    /// not asked: one may have been stored before the hold was placed and say a later time.
    fn find_to_hold(
        &mut self,
        filter: &Filter,
        held_at: Time,
        last: Option<DeathKey>,
    ) -> impl Future<Output = Result<MatchingChunk, StoreError>> + Send;

    /// Adds to the number of letters under a hold.
    fn count_held(&mut self, hold: HoldId, by: i64) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Ends a hold that was on one letter, which is free. Who ended it before stays who ended it.
    fn end_hold(
        &mut self,
        hold: HoldId,
        decision: &Decision,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Notes that this transaction places or ends a standing hold.
    fn standing_holds_changed(&mut self);

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

    /// Counts the letters created by then that match; exactly, unless they are both more than expected and many.
    fn count_created_by(
        &self,
        filter: Filter,
        at: Time,
        expected: u64,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// How far each replay rule has come.
    fn rounds(&self) -> &Rounds;

    /// Ends the rounds of replay rules if a decision made letters pending or free that may lie behind them.
    fn after_decision(&self, verb: Verb);
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
