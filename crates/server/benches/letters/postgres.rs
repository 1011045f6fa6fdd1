//! The shared store: capture by batch beside a bare COPY of the same rows, then jobs and lists. The server is one of the
//! bench's own, on the same cores, and syncs every commit.

use std::sync::Arc;
use std::time::Duration;

use lazaret_core::letter::Captured;
use lazaret_server::app::App;
use lazaret_server::clock::Clock;
use lazaret_server::config::Config;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::Mode;
use lazaret_store::testing::TestDatabase;

use super::capture::{capture_all, read};
use super::sample::{BATCH, Deaths, entry};
use super::{postgres_floor, postgres_jobs, postgres_lists};

/// Batches of one measurement.
const BATCHES: usize = 10;

/// Each side is measured this often, by turns, and the best is taken.
const TURNS: usize = 3;

pub async fn run(sizes: &[usize]) {
    capture().await;
    postgres_jobs::run().await;
    postgres_lists::run(sizes).await;
}

/// An instance on a database.
pub async fn instance(database: &TestDatabase) -> Arc<App> {
    let store = PostgresStore::open(&database.url(), Mode::Real).await.expect("the store opens");
    App::new(Arc::new(store), Config::default(), Clock::System, false).await.expect("the app starts")
}

async fn capture() {
    let texts: Vec<Vec<String>> = (0..BATCHES)
        .map(|batch| (0..BATCH).map(|n| entry(batch * BATCH + n, Deaths::Now)).collect())
        .collect();
    let rows = {
        let database = TestDatabase::durable();
        stored(&database, &texts).await;
        postgres_floor::rows(&database, BATCHES).await
    };
    let (mut took, mut bare) = (Duration::MAX, Duration::MAX);
    for _ in 0..TURNS {
        took = took.min(stored(&TestDatabase::durable(), &texts).await);
        bare = bare.min(postgres_floor::copy(&TestDatabase::durable(), &rows).await);
    }
    let rate = |time: Duration| (BATCHES * BATCH) as f64 / time.as_secs_f64();
    println!("## PostgreSQL: capture by batch of {BATCH}, fsync on\n");
    println!("Best of {TURNS} turns of {} letters.\n", BATCHES * BATCH);
    println!("| what | letters/s | of the bare COPY |\n|---|---|---|");
    println!(
        "| bare COPY: the same rows, tables and indexes, prepared beforehand, no sums | {:.0} | 1.00 |",
        rate(bare)
    );
    println!(
        "| captured messages into the store (admit, pack, insert, commit) | {:.0} | {:.2} |\n",
        rate(took),
        rate(took) / rate(bare)
    );
}

/// From the value that every source hands over to the commit.
async fn stored(database: &TestDatabase, texts: &[Vec<String>]) -> Duration {
    let app = instance(database).await;
    let batches: Vec<Vec<Captured>> = texts.iter().map(|texts| read(&app, texts)).collect();
    let took = capture_all(&app, batches).await;
    app.store.close().await.expect("the store closes");
    took
}
