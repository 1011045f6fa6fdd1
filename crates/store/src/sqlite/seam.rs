//! SQLite behind the seam: every statement is done when its future is made.

use std::borrow::Cow;
use std::future;

use futures_util::future::BoxFuture;
use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, IncidentId, JobId, LetterId, OperationId, RedriveId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::{Action, Standing};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use rusqlite::{Connection, Statement, params_from_iter};

use super::SqliteStore;
use super::jobs::follow::{Retried, job_of, retry};
use super::redrives::doors;
use super::writer::Write;
use super::{audit, events, holds, incidents, operations, redrives, replays, verdicts};
use crate::audit::{Actor, NewEntry};
use crate::decision::{Decided, Decision, Operation, Verb};
use crate::engine::dimension::Counted;
use crate::engine::incidents::Opening;
use crate::engine::operations::{DeathKey, FrozenChunk, MatchingChunk};
use crate::engine::redrives::row::Run;
use crate::engine::replays::{Candidate, Rounds};
use crate::engine::verdicts::Mark;
use crate::event::NewEvent;
use crate::moves::Move;
use crate::page::Total;
use crate::replay::ReplayQuery;
use crate::seam::{Backend, Conn, Dialect, Lane, OnConn, Query, Row, Sql, Tx, Value, View, ready};
use crate::{Store, StoreError};

/// Runs a statement and reads its rows to the end: one that returns what it changed has changed it all only then.
fn rows<T>(
    conn: &Connection,
    sql: &str,
    binds: &[Value<'_>],
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::new();
    read_into(&mut found, &mut statement, binds, &read)?;
    Ok(found)
}

/// Runs a statement for each of these rows of values.
fn rows_each<T>(
    conn: &Connection,
    sql: &str,
    rows: &[Vec<Value<'_>>],
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(rows.len());
    for binds in rows {
        read_into(&mut found, &mut statement, binds, &read)?;
    }
    Ok(found)
}

fn read_into<T>(
    found: &mut Vec<T>,
    statement: &mut Statement<'_>,
    binds: &[Value<'_>],
    read: &impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<(), StoreError> {
    let mut rows = statement.query(params_from_iter(binds))?;
    while let Some(row) = rows.next()? {
        found.push(read(&Row::of_sqlite(row))?);
    }
    Ok(())
}

fn execute<'b>(
    conn: &Connection,
    sql: &str,
    rows: impl Iterator<Item = &'b [Value<'b>]>,
) -> Result<u64, StoreError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut changed = 0;
    for binds in rows {
        changed += statement.execute(params_from_iter(binds))? as u64;
    }
    Ok(changed)
}

impl Conn for Connection {
    fn query<T: Send>(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        future::ready(rows(self, sql.sqlite, binds, read))
    }

    fn ask<T: Send>(
        &mut self,
        query: &Query<'_>,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        future::ready(rows(self, &query.text(Dialect::Sqlite), &query.binds, read))
    }

    fn execute(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        future::ready(execute(self, sql.sqlite, std::iter::once(binds)))
    }

    fn execute_each(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        future::ready(execute(self, sql.sqlite, rows.iter().map(Vec::as_slice)))
    }

    fn query_rows<T: Send>(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        future::ready(rows_each(self, sql.sqlite, rows, read))
    }

    fn execute_rows(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.execute_each(sql, rows)
    }

    fn replay_candidates(
        &mut self,
        query: &ReplayQuery,
        between: (Option<DeathKey>, Option<DeathKey>),
        rows: usize,
    ) -> impl Future<Output = Result<Vec<Candidate>, StoreError>> + Send {
        future::ready(replays::candidates(self, query, between, rows))
    }

    fn match_content(
        &mut self,
        filter: &Filter,
        candidates: &[Candidate],
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<Candidate>, usize), StoreError>> + Send {
        future::ready(replays::match_content(self, filter, candidates, limit))
    }

    fn kept<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn newest_of_incident(
        &mut self,
        id: IncidentId,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<[Option<String>; 6]>, StoreError>> + Send {
        future::ready(incidents::newest(self, id, limit))
    }
}

impl OnConn for Write {
    type Conn = Connection;

    fn conn(&self) -> &Connection {
        &self.conn
    }

    fn conn_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }
}

impl Tx for Write {
    fn add_audit(&mut self, entry: &NewEntry<'_>) -> Result<(), StoreError> {
        audit::add(self, entry)
    }

    fn add_event(&mut self, event: &NewEvent<'_>) -> Result<(), StoreError> {
        events::add(self, event)
    }

    fn entropy(&mut self) -> Result<[u8; 10], StoreError> {
        self.entropy.take()
    }

    fn end_waiting(
        &mut self,
        id: RedriveId,
        after: i64,
        to: Outcome,
        why: Option<&str>,
        at: Time,
    ) -> impl Future<Output = Result<Option<i64>, StoreError>> + Send {
        future::ready(redrives::end_waiting(self, id, after, to, why, at))
    }

    fn select_chunk(
        &mut self,
        operation: &Operation,
        filter: &Filter,
        last: Option<DeathKey>,
    ) -> impl Future<Output = Result<FrozenChunk, StoreError>> + Send {
        future::ready(operations::select_chunk(self, operation, filter, last))
    }

    fn decide_chunk(
        &mut self,
        operation: &Operation,
        decision: &Decision,
    ) -> impl Future<Output = Result<(u64, u64), StoreError>> + Send {
        future::ready(operations::decide_chunk(self, operation, decision))
    }

    fn apply(
        &mut self,
        letter: LetterId,
        action: Action,
        mark: Mark<'_>,
        at: Time,
    ) -> impl Future<Output = Result<Decided, StoreError>> + Send {
        future::ready(verdicts::apply(self, letter, action, mark, at))
    }

    fn confirm(
        &mut self,
        run: &Run,
        letter: LetterId,
        to: Outcome,
        evidence: &str,
        by: &str,
        at: Time,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(redrives::confirm_one(self, (run, letter), to, evidence, (by, at)))
    }

    fn unclaim(
        &mut self,
        run: &Run,
        letter: LetterId,
        evidence: &str,
        by: &str,
        at: Time,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(redrives::unclaim_one(self, (run, letter), evidence, (by, at)))
    }

    fn job_of(&mut self, letter: LetterId) -> impl Future<Output = Result<Option<JobId>, StoreError>> + Send {
        future::ready(job_of(self, letter))
    }

    async fn lock_jobs_of(&mut self, _: &[LetterId]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn retry_job(
        &mut self,
        letter: LetterId,
        with: &Override,
        at: Time,
    ) -> Result<(Decided, Option<JobId>), StoreError> {
        let Retried { decided, job } = retry(self, letter, with, at)?;
        Ok((decided, job))
    }

    fn record_replays(
        &mut self,
        rule: &str,
        letters: Vec<LetterId>,
        by: &Actor,
        at: Time,
    ) -> impl Future<Output = Result<RedriveId, StoreError>> + Send {
        future::ready(doors::record_replays(self, rule, &letters, by, at))
    }

    fn note_move(&mut self, moved: Move) {
        self.tally.note(moved);
    }

    fn open_incident(
        &mut self,
        opening: &Opening<'_>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(incidents::open(self, opening))
    }

    fn open_unpointed_incident(
        &mut self,
        opening: &Opening<'_>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(incidents::open_unpointed(self, opening))
    }

    fn count_regrouped(&mut self, letter: &Counted, old: &str, new: &str, captured_at: Time, at: Time) {
        self.tally.reflow(captured_at.minute(), old, new);
        self.tally.vanish(letter);
        self.tally.appear(&Counted { fingerprint: new.to_owned(), ..letter.clone() });
        self.tally.see(new, captured_at);
        self.tally.at(at);
    }

    fn lock_standing(
        &mut self,
        letter: LetterId,
    ) -> impl Future<Output = Result<Option<Standing>, StoreError>> + Send {
        future::ready(verdicts::standing(&self.conn, letter))
    }

    async fn lock_live(&mut self, letters: &[LetterId]) -> Result<Vec<LetterId>, StoreError> {
        Ok(letters.to_vec())
    }

    fn find_to_hold(
        &mut self,
        filter: &Filter,
        held_at: Time,
        last: Option<DeathKey>,
    ) -> impl Future<Output = Result<MatchingChunk, StoreError>> + Send {
        future::ready(operations::find_to_hold(&self.conn, filter, held_at, last))
    }

    fn count_held(&mut self, hold: HoldId, by: i64) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(holds::count(self, hold, by))
    }

    fn end_hold(
        &mut self,
        hold: HoldId,
        decision: &Decision,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(holds::end(self, hold, decision))
    }

    fn standing_holds_changed(&mut self) {
        self.standing.change();
    }

    fn end_placing(&mut self, id: OperationId) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(holds::end_placing(self, id))
    }

    fn refuse_chunk(
        &mut self,
        id: RedriveId,
        after: u64,
    ) -> impl Future<Output = Result<Option<u64>, StoreError>> + Send {
        future::ready(redrives::refuse_chunk(self, id, after))
    }
}

impl Backend for SqliteStore {
    type Tx = Write;
    type Reader = Connection;

    async fn write<I, T, F>(&self, lane: Lane, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + Sync + 'static,
    {
        self.writer.write(lane.letters(), move |write| ready(work(write, &input))).await
    }

    async fn read<I, T, F>(&self, view: View, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Connection, &'a I) -> BoxFuture<'a, Result<T, StoreError>>
            + Send
            + Sync
            + 'static,
    {
        let snapshot = matches!(view, View::Snapshot | View::Within(_));
        let run = move |conn: &mut Connection| {
            if snapshot {
                conn.prepare_cached("begin")?.execute([])?;
            }
            let result = ready(work(conn, &input));
            // A read that was stopped may have ended the transaction already.
            if !conn.is_autocommit() {
                conn.prepare_cached("rollback")?.execute([])?;
            }
            result
        };
        match view {
            View::Point => self.readers.read_here(run).await,
            View::Newest | View::Snapshot => self.readers.read(run).await,
            View::Within(max) => self.readers.read_within(max, run).await,
        }
    }

    async fn count_created_by(&self, filter: Filter, at: Time, _: u64) -> Result<u64, StoreError> {
        let (Total::Exact(letters) | Total::AtLeast(letters)) = self.count(filter, at).await?;
        Ok(letters)
    }

    fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    fn after_decision(&self, verb: Verb) {
        self.rounds.after(verb);
    }
}
