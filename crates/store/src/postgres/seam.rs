//! PostgreSQL behind the seam.

use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use futures_util::future::{BoxFuture, try_join_all};
use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, IncidentId, JobId, LetterId, OperationId, RedriveId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::{Action, Standing};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::cell::{At, Bind, Uid, clean};
use super::conn::Conn as Connection;
use super::jobs::follow::{job_of, lock_jobs};
use super::jobs::retry::{Retried, retry};
use super::redrives::doors::{self, Door};
use super::writer::Write;
use super::{PostgresStore, audit, events, holds, incidents, operations, redrives, replays, verdicts};
use crate::StoreError;
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
use crate::replay::ReplayQuery;
use crate::seam::{Backend, Conn, Dialect, Lane, OnConn, Query, Raw, Row, Sql, Tx, Value, View};

type Failure = Box<dyn Error + Sync + Send>;

/// A value takes the width of the parameter it is bound to.
impl ToSql for Value<'_> {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Flag(flag) => flag.to_sql_checked(of, out),
            Value::Number(number) => match *of {
                Type::INT2 => i16::try_from(*number)?.to_sql(of, out),
                Type::INT4 => i32::try_from(*number)?.to_sql(of, out),
                _ => number.to_sql_checked(of, out),
            },
            Value::Real(real) => real.to_sql_checked(of, out),
            Value::Text(text) => clean(text).to_sql_checked(of, out),
            Value::Bytes(bytes) => bytes.as_ref().to_sql_checked(of, out),
            Value::Id(id) => Uid(*id).to_sql_checked(of, out),
            Value::Time(time) => At(*time).to_sql_checked(of, out),
            Value::Ids(ids) => ids.iter().copied().map(Uid).collect::<Vec<_>>().to_sql_checked(of, out),
            Value::Numbers(numbers) if *of == Type::INT4_ARRAY => {
                let narrow: Vec<i32> = numbers.iter().map(|n| i32::try_from(*n)).collect::<Result<_, _>>()?;
                narrow.to_sql(of, out)
            }
            Value::Numbers(numbers) => numbers.to_sql_checked(of, out),
            Value::Texts(texts) => {
                texts.iter().map(|text| clean(text)).collect::<Vec<_>>().to_sql_checked(of, out)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The type of a value in a statement that is planned for it.
fn type_of(value: &Value<'_>) -> Type {
    match value {
        Value::Null | Value::Text(_) => Type::TEXT,
        Value::Flag(_) => Type::BOOL,
        Value::Number(_) => Type::INT8,
        Value::Real(_) => Type::FLOAT8,
        Value::Bytes(_) => Type::BYTEA,
        Value::Id(_) => Type::UUID,
        Value::Time(_) => Type::TIMESTAMPTZ,
        Value::Ids(_) => Type::UUID_ARRAY,
        Value::Numbers(_) => Type::INT8_ARRAY,
        Value::Texts(_) => Type::TEXT_ARRAY,
    }
}

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Raw<'a>, Failure> {
        Ok(match *of {
            Type::BOOL => Raw::Flag(bool::from_sql(of, raw)?),
            Type::INT2 => Raw::Number(i16::from_sql(of, raw)?.into()),
            Type::INT4 => Raw::Number(i32::from_sql(of, raw)?.into()),
            Type::INT8 => Raw::Number(i64::from_sql(of, raw)?),
            Type::FLOAT8 => Raw::Real(f64::from_sql(of, raw)?),
            Type::TEXT | Type::VARCHAR | Type::NAME => Raw::Text(<&str>::from_sql(of, raw)?),
            Type::BYTEA => Raw::Bytes(raw),
            Type::UUID => Raw::Id(Uid::from_sql(of, raw)?.0),
            Type::TIMESTAMPTZ => Raw::Time(At::from_sql(of, raw)?.0),
            _ => return Err(format!("a column has the type {of}, which nothing is read from").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Raw<'a>, Failure> {
        Ok(Raw::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn bound<'a>(values: &'a [Value<'a>]) -> Vec<Bind<'a>> {
    values.iter().map(|value| value as Bind<'a>).collect()
}

/// The columns of rows of values, each as one list.
fn columns<'a>(rows: &'a [Vec<Value<'a>>]) -> Vec<Vec<&'a Value<'a>>> {
    let width = rows.first().map_or(0, Vec::len);
    (0..width).map(|column| rows.iter().filter_map(|row| row.get(column)).collect()).collect()
}

fn read_all<T>(
    rows: &[tokio_postgres::Row],
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    rows.iter().map(|row| read(&Row::of_postgres(row))).collect()
}

impl Conn for Connection {
    async fn query<T: Send>(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<Vec<T>, StoreError> {
        read_all(&Connection::query(self, sql.postgres, &bound(binds)).await?, read)
    }

    async fn ask<T: Send>(
        &mut self,
        query: &Query<'_>,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<Vec<T>, StoreError> {
        let typed: Vec<(Bind<'_>, Type)> =
            query.binds.iter().map(|value| (value as Bind<'_>, type_of(value))).collect();
        read_all(&self.ask_typed(&query.text(Dialect::Postgres), &typed).await?, read)
    }

    async fn execute(&mut self, sql: &Sql, binds: &[Value<'_>]) -> Result<u64, StoreError> {
        Connection::execute(self, sql.postgres, &bound(binds)).await
    }

    async fn execute_each(&mut self, sql: &Sql, rows: &[Vec<Value<'_>>]) -> Result<u64, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        // Prepared first: then the rows are sent one behind the other, without waiting for answers.
        self.prepare(sql.postgres).await?;
        let this = &*self;
        let each = rows.iter().map(|row| async move { this.execute(sql.postgres, &bound(row)).await });
        Ok(try_join_all(each).await?.iter().sum())
    }

    async fn query_rows<T: Send>(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<Vec<T>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let columns = columns(rows);
        let lists: Vec<Bind<'_>> = columns.iter().map(|column| column as Bind<'_>).collect();
        read_all(&Connection::query(self, sql.postgres, &lists).await?, read)
    }

    async fn execute_rows(&mut self, sql: &Sql, rows: &[Vec<Value<'_>>]) -> Result<u64, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let columns = columns(rows);
        let lists: Vec<Bind<'_>> = columns.iter().map(|column| column as Bind<'_>).collect();
        Connection::execute(self, sql.postgres, &lists).await
    }

    fn replay_candidates(
        &mut self,
        query: &ReplayQuery,
        between: (Option<DeathKey>, Option<DeathKey>),
        rows: usize,
    ) -> impl Future<Output = Result<Vec<Candidate>, StoreError>> + Send {
        replays::candidates(self, query, between, rows)
    }

    fn match_content(
        &mut self,
        filter: &Filter,
        candidates: &[Candidate],
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<Candidate>, usize), StoreError>> + Send {
        replays::match_content(self, filter, candidates, limit)
    }

    fn kept<'t>(&self, text: &'t str) -> Cow<'t, str> {
        clean(text)
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn newest_of_incident(
        &mut self,
        id: IncidentId,
        limit: usize,
    ) -> Result<Vec<[Option<String>; 6]>, StoreError> {
        incidents::newest(self, id, limit).await
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

    async fn end_waiting(
        &mut self,
        id: RedriveId,
        after: i64,
        to: Outcome,
        why: Option<&str>,
        at: Time,
    ) -> Result<Option<i64>, StoreError> {
        redrives::end_waiting(self, id, after, to, why, at).await
    }

    async fn select_chunk(
        &mut self,
        operation: &Operation,
        filter: &Filter,
        last: Option<DeathKey>,
    ) -> Result<FrozenChunk, StoreError> {
        operations::select_chunk(self, operation, filter, last).await
    }

    async fn decide_chunk(
        &mut self,
        operation: &Operation,
        decision: &Decision,
    ) -> Result<(u64, u64), StoreError> {
        operations::decide_chunk(self, operation, decision).await
    }

    async fn apply(
        &mut self,
        letter: LetterId,
        action: Action,
        mark: Mark<'_>,
        at: Time,
    ) -> Result<Decided, StoreError> {
        verdicts::apply(self, letter, action, mark, at).await
    }

    async fn confirm(
        &mut self,
        run: &Run,
        letter: LetterId,
        to: Outcome,
        evidence: &str,
        by: &str,
        at: Time,
    ) -> Result<(), StoreError> {
        redrives::confirm_one(self, (run, letter), to, evidence, (by, at)).await
    }

    async fn unclaim(
        &mut self,
        run: &Run,
        letter: LetterId,
        evidence: &str,
        by: &str,
        at: Time,
    ) -> Result<(), StoreError> {
        redrives::unclaim_one(self, (run, letter), evidence, (by, at)).await
    }

    async fn job_of(&mut self, letter: LetterId) -> Result<Option<JobId>, StoreError> {
        job_of(&self.conn, letter).await
    }

    async fn lock_jobs_of(&mut self, letters: &[LetterId]) -> Result<(), StoreError> {
        lock_jobs(self, letters).await?;
        Ok(())
    }

    async fn retry_job(
        &mut self,
        letter: LetterId,
        with: &Override,
        at: Time,
    ) -> Result<(Decided, Option<JobId>), StoreError> {
        let Retried { decided, job } = retry(self, letter, with, at).await?;
        Ok((decided, job))
    }

    async fn record_replays(
        &mut self,
        rule: &str,
        letters: Vec<LetterId>,
        by: &Actor,
        at: Time,
    ) -> Result<RedriveId, StoreError> {
        doors::record(self, Door::Rule(rule), letters, (by, None), at)
    }

    fn note_move(&mut self, moved: Move) {
        self.tally.note(moved);
    }

    async fn open_incident(&mut self, opening: &Opening<'_>) -> Result<(), StoreError> {
        incidents::open_missing(self, &[*opening]).await?;
        incidents::tell_opened(self, opening)
    }

    async fn open_unpointed_incident(&mut self, opening: &Opening<'_>) -> Result<(), StoreError> {
        incidents::open_unpointed(self, opening).await
    }

    fn count_regrouped(&mut self, letter: &Counted, old: &str, new: &str, captured_at: Time, at: Time) {
        self.tally.reflow(captured_at.minute(), old, new);
        self.tally.vanish(letter);
        self.tally.appear(&Counted { fingerprint: new.to_owned(), ..letter.clone() });
        self.tally.see(new, captured_at);
        self.tally.at(at);
    }

    async fn lock_standing(&mut self, letter: LetterId) -> Result<Option<Standing>, StoreError> {
        holds::lock_standing(self, letter).await
    }

    async fn lock_live(&mut self, letters: &[LetterId]) -> Result<Vec<LetterId>, StoreError> {
        let here = verdicts::lock_letters(self, letters).await?;
        Ok(letters.iter().copied().filter(|letter| here.contains_key(letter)).collect())
    }

    async fn find_to_hold(
        &mut self,
        filter: &Filter,
        held_at: Time,
        last: Option<DeathKey>,
    ) -> Result<MatchingChunk, StoreError> {
        operations::find_to_hold(&self.conn, filter, held_at, last).await
    }

    async fn count_held(&mut self, hold: HoldId, by: i64) -> Result<(), StoreError> {
        self.holds.count(hold, by);
        Ok(())
    }

    async fn end_hold(&mut self, hold: HoldId, decision: &Decision) -> Result<(), StoreError> {
        self.holds.end(hold, decision);
        Ok(())
    }

    fn standing_holds_changed(&mut self) {}

    async fn end_placing(&mut self, id: OperationId) -> Result<(), StoreError> {
        self.holds.placed(HoldId::from_bytes(*id.bytes()));
        Ok(())
    }

    async fn refuse_chunk(&mut self, id: RedriveId, after: u64) -> Result<Option<u64>, StoreError> {
        redrives::refuse_chunk(self, id, after).await
    }
}

impl Backend for PostgresStore {
    type Tx = Write;
    type Reader = Connection;

    async fn write<I, T, F>(&self, lane: Lane, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Write, &'a I) -> BoxFuture<'a, Result<T, StoreError>> + Send + Sync + 'static,
    {
        match lane {
            Lane::Quick(letters) => self.writer.write(letters, input, work).await,
            Lane::Letter(letter) => self.writer.write_of(letter, input, work).await,
            Lane::Long(letters) => self.writer.write_long(letters, input, work).await,
            Lane::Apart(letters) => self.writer.write_apart(letters, input, work).await,
            Lane::Run(letters) => self.writer.write_run(letters, input, work).await,
            Lane::Alone(letters) => self.writer.write_alone(letters, input, work).await,
        }
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
        match view {
            View::Point | View::Newest => self.readers.read(input, work).await,
            View::Snapshot => self.readers.snapshot(input, work).await,
            View::Within(max) => self.readers.snapshot_within(max, input, work).await,
        }
    }

    async fn count_created_by(&self, filter: Filter, at: Time, expected: u64) -> Result<u64, StoreError> {
        operations::count_created_by(self, filter, at, expected).await
    }

    fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// Rounds compare a number that the store keeps, because any instance may have decided.
    fn after_decision(&self, _: Verb) {}
}
