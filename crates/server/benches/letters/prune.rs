//! A tenth of all letters pushed out by a limit while capture goes on at a steady pace: how long a capture takes meanwhile,
//! beside how long it takes with nothing else to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lazaret_core::retention::MaxCount;
use lazaret_server::app::App;
use lazaret_server::capture::capture;
use lazaret_server::operations::Progress;
use lazaret_server::retention;
use lazaret_store::testing::TestDatabase;

use super::capture::read;
use super::postgres::instance;
use super::sample::{BATCH, Deaths, bed, entry};

/// Letters of one capture, and how often one comes.
const CAPTURED: usize = 20;
const EVERY: Duration = Duration::from_millis(50);

/// How long capture is measured with nothing beside it.
const ALONE: Duration = Duration::from_secs(20);

pub async fn run(sizes: &[usize]) {
    let letters = sizes.iter().copied().max().unwrap_or(BATCH);
    let pruned = letters / 10;
    println!("## {pruned} of {letters} letters pruned while capture goes on, fsync on\n");
    println!("A capture is {CAPTURED} letters every {} ms.\n", EVERY.as_millis());
    println!("| what | p50 ms | p99 ms | worst ms |\n|---|---|---|---|");
    let bed = bed().await;
    measure("embedded", &bed.app, letters, pruned).await;
    let database = TestDatabase::durable();
    measure("PostgreSQL", &instance(&database).await, letters, pruned).await;
    println!();
}

async fn measure(store: &str, app: &Arc<App>, letters: usize, pruned: usize) {
    for first in (0..letters).step_by(BATCH) {
        let texts: Vec<String> = (first..letters.min(first + BATCH)).map(|n| entry(n, Deaths::Now)).collect();
        capture(app, read(app, &texts)).await.expect("the batch is stored");
    }
    let over = Arc::new(AtomicBool::new(false));
    let capturing = tokio::spawn(capture_on(Arc::clone(app), letters, Arc::clone(&over)));
    tokio::time::sleep(ALONE).await;
    over.store(true, Ordering::SeqCst);
    let alone = capturing.await.expect("capture goes on");
    let there = letters + alone.len() * CAPTURED;
    let mut config = app.config.clone();
    let source = config.sources.get_mut("report").expect("it is always there");
    source.retention.max_count = Some(MaxCount::Letters((there - pruned) as u64));
    let app = Arc::new(app.under(config));
    let over = Arc::new(AtomicBool::new(false));
    let capturing = tokio::spawn(capture_on(Arc::clone(&app), there, Arc::clone(&over)));
    let started = Instant::now();
    prune(&app).await;
    let took = started.elapsed();
    over.store(true, Ordering::SeqCst);
    let meanwhile = capturing.await.expect("capture goes on");
    let gone: u64 = app.pruner.last().map_or(0, |report| report.sum().archived + report.sum().deleted);
    assert!(gone >= pruned as u64, "{gone} went");
    let (before, after) =
        (row(&format!("{store}: capture alone"), alone), row(&format!("{store}: meanwhile"), meanwhile));
    println!(
        "| {store}: {gone} letters in {:.1} s, {:.0} a second | | {:.2} × | |",
        took.as_secs_f64(),
        gone as f64 / took.as_secs_f64(),
        after / before
    );
    app.store.close().await.expect("the store closes");
}

/// One pass, with the rests that the server's loop makes.
async fn prune(app: &App) {
    let mut complete = retention::prune_now(app).await.expect("it prunes").complete;
    let mut took = Duration::ZERO;
    while !complete {
        tokio::time::sleep(retention::rest_after(took)).await;
        let started = Instant::now();
        complete = retention::tick(app).await.expect("it goes on") == Progress::Idle;
        took = started.elapsed();
    }
}

/// Captures at a steady pace, and says how long each took.
async fn capture_on(app: Arc<App>, first: usize, over: Arc<AtomicBool>) -> Vec<Duration> {
    let mut beat = tokio::time::interval(EVERY);
    let (mut from, mut waits) = (first, Vec::new());
    while !over.load(Ordering::SeqCst) {
        beat.tick().await;
        let texts: Vec<String> = (from..from + CAPTURED).map(|n| entry(n, Deaths::Now)).collect();
        from += CAPTURED;
        let captured = read(&app, &texts);
        let started = Instant::now();
        capture(&app, captured).await.expect("the batch is stored");
        waits.push(started.elapsed());
    }
    waits
}

/// Prints a row; gives its 99th percentile in milliseconds.
fn row(name: &str, mut waits: Vec<Duration>) -> f64 {
    waits.sort();
    let ms = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("| {name} | {:.2} | {:.2} | {:.2} |", ms(0.5), ms(0.99), ms(1.0));
    ms(0.99)
}
