//! What a relay delivers per second beside bare loops that do the same to the same table and nothing else.
//!
//! `cargo bench -p lazaret-sources --bench relay [-- ROWS]`. Every commit is synced. The bare loops are what an
//! application writes by itself: `update … for update skip locked` in batches, without order, retries or claims.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench tells what it measured")]

#[path = "relay/http.rs"]
mod http;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use lazaret_core::class::ClassRules;
use lazaret_sources::outbox::{Outbox, OutboxConfig, Relay, RelayConfig, TableName, ddl};
use lazaret_sources::sink::{Delivery, Sink, Sunk};
use lazaret_store::testing::TestDatabase;
use tokio_postgres::{Client, NoTls};

const ROWS: usize = 20_000;
const BATCH: usize = 200;

/// Takes everything at once.
#[derive(Debug)]
struct Nothing;

#[async_trait]
impl Sink for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn address(&self) -> String {
        "nothing".to_owned()
    }

    async fn deliver(&self, _: &Delivery) -> Sunk {
        Sunk::Delivered
    }
}

struct Bench {
    client: Client,
    config: OutboxConfig,
    rows: usize,
}

impl Bench {
    /// The same rows again: a kilobyte each, ten of every aggregate.
    async fn fill(&self) {
        let sql = format!(
            "truncate outbox;
             insert into outbox (event_type, aggregate_type, aggregate_id, payload)
             select 'OrderCreated', 'order', (n % {aggregates})::text,
                    jsonb_build_object('n', n, 'text', repeat(md5(n::text), 30))
               from generate_series(1, {rows}) as n;
             vacuum analyze outbox;
             checkpoint",
            aggregates = self.rows / 10,
            rows = self.rows,
        );
        for statement in sql.split(';') {
            self.client.batch_execute(statement).await.unwrap();
        }
    }

    async fn done(&self) -> usize {
        let sql = "select count(*) from outbox where status = 'PROCESSED'";
        self.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) as usize
    }

    /// Rows per second of one way to do it.
    async fn measure(&self, name: &str, work: impl AsyncFn(&Bench)) -> f64 {
        self.fill().await;
        let begun = Instant::now();
        work(self).await;
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(self.done().await, self.rows, "{name}");
        let rate = self.rows as f64 / seconds;
        println!("{name:<34} {rate:>9.0} rows/s");
        rate
    }

    /// Claims a batch and settles it: two statements, as a relay needs them.
    async fn bare(&self) {
        let claim = self
            .client
            .prepare(&format!(
                "update outbox set status = 'PROCESSING'
                  where id in (select id from outbox where status = 'PENDING' order by created_at, id
                                limit {BATCH} for update skip locked)
                 returning id::text, payload::text"
            ))
            .await
            .unwrap();
        let settle = "update outbox set status = 'PROCESSED', processed_at = now()
                       where id = any(($1::text[])::uuid[])";
        let settle = self.client.prepare(settle).await.unwrap();
        loop {
            let rows = self.client.query(&claim, &[]).await.unwrap();
            if rows.is_empty() {
                return;
            }
            let ids: Vec<String> = rows.iter().map(|row| row.get::<_, String>(0)).collect();
            self.client.execute(&settle, &[&ids]).await.unwrap();
        }
    }

    /// Everything in one statement: no claim, so a crash loses or repeats what was under way.
    async fn bare_single(&self) {
        let sql = format!(
            "update outbox set status = 'PROCESSED', processed_at = now()
              where id in (select id from outbox where status = 'PENDING' order by created_at, id
                            limit {BATCH} for update skip locked)
             returning id::text, payload::text"
        );
        let statement = self.client.prepare(&sql).await.unwrap();
        while !self.client.query(&statement, &[]).await.unwrap().is_empty() {}
    }

    async fn relay(&self, sink: Arc<dyn Sink>) {
        let outbox = Arc::new(Outbox::new(self.config.clone()).unwrap());
        let relay = Relay::new(outbox, sink, ClassRules::default()).unwrap();
        while relay.tick().await.unwrap().claimed > 0 {}
    }
}

#[tokio::main]
async fn main() {
    let rows = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(ROWS);
    let database = tokio::task::spawn_blocking(TestDatabase::durable).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut config = OutboxConfig::new("orders", database.url(), TableName::parse("public.outbox").unwrap());
    config.relay = Some(RelayConfig { batch: BATCH, concurrency: 16, ..RelayConfig::default() });
    client.batch_execute("set search_path to public").await.unwrap();
    for step in ddl(&config) {
        client.batch_execute(&step.sql).await.unwrap();
    }
    let bench = Bench { client, config, rows };
    println!("{rows} rows of 1 KiB, batches of {BATCH}, triggers on, every commit synced");
    let single = bench.measure("bare loop, one statement", Bench::bare_single).await;
    let bare = bench.measure("bare loop, claim and settle", Bench::bare).await;
    let nothing = bench.measure("relay to nothing", async |it| it.relay(Arc::new(Nothing)).await).await;
    let sink = http::HttpSink::start(16).await;
    let over_http = bench.measure("relay to HTTP on loopback", async |it| it.relay(sink.clone()).await).await;
    for (name, rate) in [("nothing", nothing), ("HTTP", over_http)] {
        println!(
            "relay to {name}: {:.2} of claim and settle, {:.2} of one statement",
            rate / bare,
            rate / single
        );
    }
    tokio::task::spawn_blocking(move || drop(database)).await.unwrap();
}
