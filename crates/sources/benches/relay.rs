//! What a relay delivers per second beside bare loops that do the same to the same table and nothing else.
//!
//! `cargo bench -p lazaret-sources --bench relay [-- ROWS]`. Every commit is synced. The bare loops are what an
//! application writes by itself: `update … for update skip locked` in batches, without order, retries or claims.
//! With ROWS, every shape but the large bodies has so many rows: 20,000 make a quick run.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench tells what it measured")]

#[path = "relay/http.rs"]
mod http;
#[path = "relay/shapes.rs"]
mod shapes;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use lazaret_core::class::ClassRules;
use lazaret_sources::outbox::{Outbox, OutboxConfig, Relay, RelayConfig, TableName, ddl};
use lazaret_sources::sink::{Delivery, Sink, Sunk};
use lazaret_store::testing::TestDatabase;
use shapes::Shape;
use tokio_postgres::{Client, NoTls};

const ROWS: usize = 20_000;
/// Rows where one aggregate has many, or each has one.
const HOT_ROWS: usize = 100_000;
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
}

/// What one way to do it reached.
struct Measured {
    rows_per_s: f64,
    /// Processor time of this process; the database has its own.
    cpu_us_per_row: f64,
    peak_mib: f64,
}

impl Bench {
    async fn done(&self) -> usize {
        let sql = "select count(*) from outbox where status = 'PROCESSED'";
        self.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) as usize
    }

    async fn measure(&self, name: &str, shape: Shape, rows: usize, work: impl AsyncFn(&Bench)) -> Measured {
        shape.fill(&self.client, rows).await;
        // Resets the peak of resident memory.
        std::fs::write("/proc/self/clear_refs", "5").ok();
        let (begun, cpu) = (Instant::now(), cpu_s());
        work(self).await;
        let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_s() - cpu);
        assert_eq!(self.done().await, rows, "{name}");
        let measured = Measured {
            rows_per_s: rows as f64 / seconds,
            cpu_us_per_row: cpu * 1e6 / rows as f64,
            peak_mib: peak_mib(),
        };
        println!(
            "{name:<34} {:>9.0} rows/s {:>9.1} µs CPU a row {:>6.0} MiB at most",
            measured.rows_per_s, measured.cpu_us_per_row, measured.peak_mib
        );
        measured
    }

    /// The relay to nothing and over HTTP beside both bare loops.
    async fn destinations(&self, rows: usize) {
        let shape = Shape::Tens;
        let single = self.measure("bare loop, one statement", shape, rows, Bench::bare_single).await;
        let bare = self.measure("bare loop, claim and settle", shape, rows, Bench::bare).await;
        let nothing = async |it: &Bench| it.relay(Arc::new(Nothing)).await;
        let nothing = self.measure("relay to nothing", shape, rows, nothing).await;
        let sink = http::HttpSink::start(16).await;
        let over_http = async |it: &Bench| it.relay(sink.clone()).await;
        let over_http = self.measure("relay to HTTP on loopback", shape, rows, over_http).await;
        for (name, relay) in [("nothing", nothing), ("HTTP", over_http)] {
            println!(
                "relay to {name}: {:.2} of claim and settle, {:.2} of one statement",
                relay.rows_per_s / bare.rows_per_s,
                relay.rows_per_s / single.rows_per_s
            );
        }
    }

    /// The relay beside the bare loop that claims and settles.
    async fn compare(&self, shape: Shape, rows: usize) {
        let rows = shape.rows(rows);
        println!("\n{}", shape.name(rows));
        let relay = async |it: &Bench| it.relay(Arc::new(Nothing)).await;
        let relay = self.measure("relay to nothing", shape, rows, relay).await;
        let bare = self.measure("bare loop, claim and settle", shape, rows, Bench::bare).await;
        println!("ratio {:.2}", relay.rows_per_s / bare.rows_per_s);
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

/// Processor time of this process so far; `/proc` counts hundredths of a second.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name stands in parentheses and may hold spaces; two fields further on begins what is counted from.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

#[tokio::main]
async fn main() {
    let wanted: Option<usize> = std::env::args().filter_map(|word| word.parse().ok()).next();
    let database = tokio::task::spawn_blocking(TestDatabase::durable).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut config = OutboxConfig::new("orders", database.url(), TableName::parse("public.outbox").unwrap());
    config.relay = Some(RelayConfig { batch: BATCH, concurrency: 16, ..RelayConfig::default() });
    client.batch_execute("set search_path to public").await.unwrap();
    for step in ddl(&config) {
        client.batch_execute(&step.sql).await.unwrap();
    }
    let bench = Bench { client, config };
    let rows = wanted.unwrap_or(ROWS);
    println!("{rows} rows of 1 KiB, batches of {BATCH}, triggers on, every commit synced");
    bench.destinations(rows).await;
    for shape in [Shape::One, Shape::Singles, Shape::Zipf, Shape::Large] {
        bench.compare(shape, wanted.unwrap_or(HOT_ROWS)).await;
    }
    tokio::task::spawn_blocking(move || drop(database)).await.unwrap();
}
