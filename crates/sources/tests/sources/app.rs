//! An application with an outbox in a PostgreSQL of its own, as the tests write to it.

use std::sync::Arc;

use lazaret_core::class::ClassRules;
use lazaret_sources::outbox::{Outbox, OutboxConfig, Relay, RelayConfig, TableName, ddl};
use lazaret_sources::sink::Sink;
use lazaret_sources::{Arrival, Source};
use lazaret_store::testing::TestDatabase;
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

/// Longer than any test: what happens before does not happen because of it.
pub const NEVER_MS: u64 = 3_600_000;

pub struct App {
    pub config: OutboxConfig,
    client: Mutex<Option<Client>>,
    _database: Option<TestDatabase>,
}

impl App {
    /// An application with an outbox of the standard layout, made by the statements that operators get.
    pub async fn start() -> App {
        let app = App::bare().await;
        app.make_table().await;
        app
    }

    /// The same without a table.
    pub async fn bare() -> App {
        let database = tokio::task::spawn_blocking(TestDatabase::bare).await.unwrap();
        let mut app = App::at(&database.url());
        app._database = Some(database);
        app
    }

    /// An application whose database is at this address.
    pub fn at(url: &str) -> App {
        let mut config = OutboxConfig::new("orders", url, TableName::parse("public.outbox").unwrap());
        config.subscriber = Some("shop".to_owned());
        (config.sweep_ms, config.poll_ms) = (NEVER_MS, NEVER_MS);
        config.relay = Some(RelayConfig { poll_ms: NEVER_MS, ..RelayConfig::default() });
        App { config, client: Mutex::default(), _database: None }
    }

    pub fn outbox(&self) -> Arc<Outbox> {
        Arc::new(Outbox::new(self.config.clone()).unwrap())
    }

    pub fn relay(&self, sink: Arc<dyn Sink>) -> Relay {
        Relay::new(self.outbox(), sink, ClassRules::default()).unwrap()
    }

    /// Makes the table by the statements that operators get.
    pub async fn make_table(&self) {
        for step in ddl(&self.config) {
            self.run(&step.sql).await;
        }
    }

    /// Runs statements that bind nothing.
    pub async fn run(&self, sql: &str) {
        let client = self.client().await;
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        *self.client.lock().await = Some(client);
    }

    pub async fn rows(&self, sql: &str, binds: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        let mut client = self.client().await;
        let mut rows = client.query(sql, binds).await;
        if rows
            .as_ref()
            .is_err_and(|error| error.is_closed() || error.code() == Some(&SqlState::ADMIN_SHUTDOWN))
        {
            // A test cut all connections, and this one did not know yet.
            client = connect(&self.config.url).await;
            rows = client.query(sql, binds).await;
        }
        *self.client.lock().await = Some(client);
        rows.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// One text; null is `-`.
    pub async fn text(&self, sql: &str) -> String {
        let rows = self.rows(sql, &[]).await;
        rows[0].get::<_, Option<String>>(0).unwrap_or_else(|| "-".to_owned())
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.rows(sql, &[]).await[0].get(0)
    }

    async fn client(&self) -> Client {
        let kept = self.client.lock().await.take().filter(|client| !client.is_closed());
        match kept {
            Some(client) => client,
            None => connect(&self.config.url).await,
        }
    }

    /// Inserts a pending event; gives its id.
    pub async fn event(&self, aggregate: &str, body: &str) -> String {
        let sql = "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
                   values ('OrderCreated', 'order', $1, ($2::text)::jsonb) returning id::text";
        self.rows(sql, &[&aggregate, &body]).await[0].get(0)
    }

    /// Lets an event die as an application's own relay does.
    pub async fn die(&self, id: &str, error: &str) {
        let sql = "update outbox
                      set status = 'DEAD_LETTER', retry_count = 5, last_error = $2, processed_at = now()
                    where id = ($1::text)::uuid";
        self.rows(sql, &[&id, &error]).await;
    }

    pub async fn dead_event(&self, aggregate: &str, body: &str) -> String {
        let id = self.event(aggregate, body).await;
        self.die(&id, "TimeoutError: the warehouse did not answer").await;
        id
    }

    pub async fn status(&self, id: &str) -> String {
        self.text(&format!("select status from outbox where id = '{id}'")).await
    }

    /// How many rows have each status, for a glance.
    pub async fn counts(&self) -> String {
        let sql = "select coalesce(string_agg(status || ' ' || count, ', ' order by status), '') from
                   (select status, count(*) from outbox group by status) as counted";
        self.text(sql).await
    }

    /// Everything that waits is due, and every claim is over.
    pub async fn let_time_pass(&self) {
        self.run(
            "update outbox set next_attempt_at = now() - interval '1 second'
              where status in ('PENDING', 'PROCESSING')",
        )
        .await;
    }
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The next arrivals, of which there have to be some.
pub async fn some(source: &dyn Source) -> Vec<Arrival> {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        assert!(std::time::Instant::now() < until, "nothing arrives");
        let arrivals = source.next().await.unwrap();
        if !arrivals.is_empty() {
            return arrivals;
        }
    }
}
