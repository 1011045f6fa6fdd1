//! Lists and statistics on PostgreSQL as the store grows.

use std::sync::Arc;
use std::time::Instant;

use lazaret_server::app::App;
use lazaret_store::stats::StatsOf;
use lazaret_store::testing::TestDatabase;

use super::capture::{capture_all, read};
use super::lists::{CALLS, CASES, list, report};
use super::postgres::instance;
use super::postgres_floor::connect;
use super::sample::{BATCH, Deaths, entry};

pub async fn run(sizes: &[usize]) {
    println!("## PostgreSQL: lists of 50 with their total, and statistics; times in ms\n");
    let mut before: Vec<f64> = Vec::new();
    for size in sizes {
        let database = TestDatabase::durable();
        let app = instance(&database).await;
        fill(&app, *size).await;
        // What autovacuum does some time after so many letters.
        connect(&database).await.batch_execute("vacuum analyze").await.expect("it can be vacuumed");
        println!("### {size} letters\n\n| what | p50 | p99 | growth of p50 |\n|---|---|---|---|");
        let mut medians = Vec::new();
        for case in &CASES {
            let waits = list(&app, case).await;
            report(case.name, waits, &mut medians, &before);
        }
        let mut waits = Vec::new();
        for _ in 0..CALLS {
            let started = Instant::now();
            app.store.stats(StatsOf::All).await.expect("statistics come");
            waits.push(started.elapsed());
        }
        report("statistics", waits, &mut medians, &before);
        println!();
        before = medians;
        app.store.close().await.expect("the store closes");
    }
}

/// A few batches at a time, so that millions of texts are never there at once.
async fn fill(app: &Arc<App>, letters: usize) {
    const AT_ONCE: usize = 20 * BATCH;
    for from in (0..letters).step_by(AT_ONCE) {
        let all: Vec<usize> = (from..letters.min(from + AT_ONCE)).collect();
        let batches = all.chunks(BATCH).map(|batch| {
            let texts: Vec<String> = batch.iter().map(|n| entry(*n, Deaths::Over(letters))).collect();
            read(app, &texts)
        });
        capture_all(app, batches.collect()).await;
    }
}
