//! Transactions ask as the connection does that they run on.

use std::borrow::Cow;

use lazaret_core::filter::Filter;
use lazaret_core::id::IncidentId;

use super::{Conn, Dialect, Query, Row, Sql, Value};
use crate::StoreError;
use crate::engine::operations::DeathKey;
use crate::engine::replays::Candidate;
use crate::replay::ReplayQuery;

/// A transaction that runs its statements on a connection.
pub(crate) trait OnConn: Send {
    type Conn: Conn;

    fn conn(&self) -> &Self::Conn;

    fn conn_mut(&mut self) -> &mut Self::Conn;
}

impl<W: OnConn> Conn for W {
    fn query<T: Send>(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        self.conn_mut().query(sql, binds, read)
    }

    fn ask<T: Send>(
        &mut self,
        query: &Query<'_>,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        self.conn_mut().ask(query, read)
    }

    fn execute(
        &mut self,
        sql: &Sql,
        binds: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.conn_mut().execute(sql, binds)
    }

    fn execute_each(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.conn_mut().execute_each(sql, rows)
    }

    fn query_rows<T: Send>(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        self.conn_mut().query_rows(sql, rows, read)
    }

    fn execute_rows(
        &mut self,
        sql: &Sql,
        rows: &[Vec<Value<'_>>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.conn_mut().execute_rows(sql, rows)
    }

    fn kept<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.conn().kept(text)
    }

    fn dialect(&self) -> Dialect {
        self.conn().dialect()
    }

    fn newest_of_incident(
        &mut self,
        id: IncidentId,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<[Option<String>; 6]>, StoreError>> + Send {
        self.conn_mut().newest_of_incident(id, limit)
    }

    fn replay_candidates(
        &mut self,
        query: &ReplayQuery,
        between: (Option<DeathKey>, Option<DeathKey>),
        rows: usize,
    ) -> impl Future<Output = Result<Vec<Candidate>, StoreError>> + Send {
        self.conn_mut().replay_candidates(query, between, rows)
    }

    fn match_content(
        &mut self,
        filter: &Filter,
        candidates: &[Candidate],
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<Candidate>, usize), StoreError>> + Send {
        self.conn_mut().match_content(filter, candidates, limit)
    }
}
