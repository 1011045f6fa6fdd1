//! SQLite behind the seam: every statement is done when its future is made.

use std::borrow::Cow;
use std::future;

use futures_util::future::BoxFuture;
use lazaret_core::filter::Filter;
use lazaret_core::id::{IncidentId, OperationId, RedriveId};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use rusqlite::{Connection, params_from_iter};

use super::SqliteStore;
use super::writer::Write;
use super::{audit, events, holds, incidents, operations, redrives};
use crate::StoreError;
use crate::audit::NewEntry;
use crate::decision::{Decision, Operation};
use crate::engine::operations::{DeathKey, FrozenChunk};
use crate::event::NewEvent;
use crate::seam::{Backend, Conn, Dialect, Lane, Query, Row, Sql, Tx, Value, View, ready};

/// Runs a statement and reads its rows to the end: one that returns what it changed has changed it all only then.
fn rows<T>(
    conn: &Connection,
    sql: &str,
    binds: &[Value<'_>],
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(binds))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(&Row::of_sqlite(row))?);
    }
    Ok(found)
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

impl Conn for Write {
    fn query<T: Send>(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        self.conn.query(sql, binds, read)
    }

    fn ask<T: Send>(
        &mut self,
        query: &Query<'_>,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        self.conn.ask(query, read)
    }

    fn execute(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        Conn::execute(&mut self.conn, sql, binds)
    }

    fn execute_each(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.conn.execute_each(sql, rows)
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
        self.conn.newest_of_incident(id, limit)
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

    fn end_placing(&mut self, id: OperationId) -> impl Future<Output = Result<(), StoreError>> + Send {
        future::ready(holds::placed(self, id))
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
        if snapshot {
            self.catch_up().await?;
        }
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
}
