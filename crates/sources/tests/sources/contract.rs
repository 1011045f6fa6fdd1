//! The outbox keeps the contract of all sources.

use std::sync::Arc;

use async_trait::async_trait;
use lazaret_sources::Source;
use lazaret_sources::destination::Destination;
use lazaret_sources::testing::{Message, Rig, Taken};
use tokio_postgres::Client;

use crate::app::{App, connect};

struct OutboxRig {
    app: App,
    /// Connected to another database of the server, so that it survives the cut.
    admin: Client,
    database: String,
}

async fn rig() -> OutboxRig {
    let app = App::start().await;
    let (server, database) = app.config.url.rsplit_once('/').unwrap();
    let admin = connect(&format!("{server}/postgres")).await;
    OutboxRig { database: database.to_owned(), admin, app }
}

#[async_trait]
impl Rig for OutboxRig {
    fn source(&self) -> Arc<dyn Source> {
        self.app.outbox()
    }

    fn destination(&self) -> Arc<dyn Destination> {
        self.app.outbox()
    }

    async fn put_dead(&self, message: &Message) -> String {
        let sql = "insert into outbox (event_type, aggregate_type, aggregate_id, payload, status, retry_count, last_error)
                   values ($1, 'order', $2, ($3::text)::jsonb, 'DEAD_LETTER', $4, $5) returning id::text";
        let count = i32::try_from(message.retry_count).unwrap();
        let Message { event_type, aggregate, body, error, .. } = message;
        self.app.rows(sql, &[event_type, aggregate, body, &count, error]).await[0].get(0)
    }

    async fn take(&self) -> Vec<Taken> {
        let sql = "update outbox set status = 'PROCESSED', processed_at = now()
                    where status = 'PENDING' returning id::text, payload::text";
        let rows = self.app.rows(sql, &[]).await;
        rows.iter()
            .map(|row| Taken { message_id: row.get(0), body: row.get::<_, String>(1).into() })
            .collect()
    }

    async fn cut(&self) {
        let database = &self.database;
        // Committed before anybody is thrown out, or they are back at once.
        for sql in [
            format!("alter database {database} allow_connections false"),
            format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{database}'"),
        ] {
            self.admin.batch_execute(&sql).await.unwrap();
        }
    }

    async fn heal(&self) {
        let sql = format!("alter database {} allow_connections true", self.database);
        self.admin.batch_execute(&sql).await.unwrap();
    }
}

lazaret_sources::source_contract!(rig);
