//! Readers: connections that see what is committed and never wait for a writer.

use std::time::Duration;

use futures_util::future::BoxFuture;
use lazaret_core::limits;
use lazaret_postgres::Address;

use super::conn::{AnswerLimit, Conn, Connections};
use super::failure::{kind_of, of_search};
use crate::StoreError;

#[derive(Debug, Clone)]
pub(super) struct Readers {
    connections: Connections,
    /// How long one statement may take.
    statement: Duration,
}

/// What a read sees.
enum View {
    /// Each statement the newest.
    Newest,
    /// All statements the same.
    Snapshot,
    /// All statements the same, with this much time for each.
    Within(Duration),
}

impl Readers {
    pub fn new(address: &Address, statement: Duration) -> Result<Readers, StoreError> {
        let connections = Connections::new(address, limits::POSTGRES_READERS_MAX, statement)?;
        Ok(Readers { connections, statement })
    }

    /// Runs `work`, which asks one question: every statement sees what is committed when it begins.
    pub async fn read<I, T, F>(&self, input: I, work: F) -> Result<T, StoreError>
    where
        F: for<'a> Fn(&'a mut Conn, &'a I) -> BoxFuture<'a, Result<T, StoreError>>,
    {
        self.run(View::Newest, input, work).await
    }

    /// Runs `work` on one snapshot: all its statements see the same.
    pub async fn snapshot<I, T, F>(&self, input: I, work: F) -> Result<T, StoreError>
    where
        F: for<'a> Fn(&'a mut Conn, &'a I) -> BoxFuture<'a, Result<T, StoreError>>,
    {
        self.run(View::Snapshot, input, work).await
    }

    /// Runs `work` on one snapshot with another bound, for reads that have to see every row.
    pub async fn snapshot_within<I, T, F>(
        &self,
        read_max: Duration,
        input: I,
        work: F,
    ) -> Result<T, StoreError>
    where
        F: for<'a> Fn(&'a mut Conn, &'a I) -> BoxFuture<'a, Result<T, StoreError>>,
    {
        self.run(View::Within(read_max), input, work).await
    }

    async fn run<I, T, F>(&self, view: View, input: I, work: F) -> Result<T, StoreError>
    where
        F: for<'a> Fn(&'a mut Conn, &'a I) -> BoxFuture<'a, Result<T, StoreError>>,
    {
        let limit = AnswerLimit::of(match view {
            View::Newest | View::Snapshot => self.statement,
            View::Within(max) => max,
        });
        match self.once(&view, limit, &input, &work).await {
            // The server went away and may be back: a read can be asked again.
            Err(error) if kind_of(&error).is_gone() && !limit.is_over() => {
                self.once(&view, limit, &input, &work).await
            }
            result => result,
        }
    }

    async fn once<I, T, F>(
        &self,
        view: &View,
        limit: AnswerLimit,
        input: &I,
        work: &F,
    ) -> Result<T, StoreError>
    where
        F: for<'a> Fn(&'a mut Conn, &'a I) -> BoxFuture<'a, Result<T, StoreError>>,
    {
        const BEGIN: &str = "begin isolation level repeatable read, read only";
        let mut conn = Conn::of(&self.connections).await?.within(limit);
        match view {
            View::Newest => {}
            View::Snapshot => conn.batch(BEGIN).await?,
            View::Within(max) => {
                conn.batch(&format!("{BEGIN}; set local statement_timeout to {}", max.as_millis())).await?;
            }
        }
        let result = work(&mut conn, input).await.map_err(of_search);
        match view {
            // A connection that failed is closed, and with it what was open on it.
            _ if result.is_err() => {}
            View::Newest => conn.give_back(),
            View::Snapshot | View::Within(_) => {
                conn.batch("commit").await?;
                conn.give_back();
            }
        }
        result
    }

    pub fn close(&self) {
        self.connections.close();
    }
}
