//! Capture by batch, from JSON text to the commit, beside a bare loop that writes the same rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_core::fingerprint::{FingerprintRules, group};
use lazaret_core::letter::Captured;
use lazaret_server::app::App;
use lazaret_server::capture::capture;
use lazaret_server::report::{Door, read_entry};

use super::floor;
use super::sample::{BATCH, Deaths, bed, entry};

/// Batches of one measurement.
const BATCHES: usize = 30;

/// Each side is measured this often, by turns, and the best is taken: the machine is shared, and whatever else runs on
/// it only ever makes a run slower.
const TURNS: usize = 3;

pub async fn run() {
    let texts: Vec<Vec<String>> = (0..BATCHES)
        .map(|batch| (0..BATCH).map(|n| entry(batch * BATCH + n, Deaths::Now)).collect())
        .collect();
    let bytes: usize = texts.iter().flatten().map(String::len).sum();
    let rows = floor::rows(&texts).await;
    let (mut whole, mut stored, mut bare) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..TURNS {
        whole = whole.min(from_text(&texts).await);
        stored = stored.min(from_captured(&texts).await);
        bare = bare.min(floor::write_batches(&rows));
    }
    let rate = |time: Duration| (BATCHES * BATCH) as f64 / time.as_secs_f64();
    println!("## Capture by batch of {BATCH}, fsync on\n");
    println!(
        "Entries of {} bytes with a 20-frame backtrace; best of {TURNS} turns of {} letters.\n",
        bytes / (BATCHES * BATCH),
        BATCHES * BATCH
    );
    println!("| what | letters/s | of the bare loop |\n|---|---|---|");
    println!(
        "| bare loop: the same rows, tables and indexes, prepared beforehand | {:.0} | 1.00 |",
        rate(bare)
    );
    println!(
        "| captured messages into the store (admit, pack, insert, commit) | {:.0} | {:.2} |",
        rate(stored),
        rate(stored) / rate(bare)
    );
    println!(
        "| JSON text into the store (read as well) | {:.0} | {:.2} |\n",
        rate(whole),
        rate(whole) / rate(bare)
    );
    let grouping = grouping(&texts).await;
    println!(
        "Working out the fingerprint takes {:.1} µs of the {:.1} µs that a letter takes.\n",
        grouping.as_secs_f64() * 1e6,
        stored.as_secs_f64() * 1e6 / (BATCHES * BATCH) as f64
    );
}

/// The fingerprint of one letter alone, on one thread.
async fn grouping(texts: &[Vec<String>]) -> Duration {
    let bed = bed().await;
    let letters = read(&bed.app, &texts[0]);
    let rules = FingerprintRules::default();
    let mut best = Duration::MAX;
    for _ in 0..TURNS {
        let started = Instant::now();
        for letter in &letters {
            std::hint::black_box(group(letter.subject(), &rules));
        }
        best = best.min(started.elapsed() / letters.len() as u32);
    }
    best
}

/// JSON to commit, as a batch over HTTP goes; two requests are under way at a time.
async fn from_text(texts: &[Vec<String>]) -> Duration {
    let bed = bed().await;
    let started = Instant::now();
    let mut under_way = tokio::task::JoinSet::new();
    for texts in texts {
        if under_way.len() == 2 {
            under_way.join_next().await;
        }
        let (app, texts) = (bed.app.clone(), texts.clone());
        under_way.spawn(async move {
            let reading = app.clone();
            let captured = tokio::task::spawn_blocking(move || read(&reading, &texts))
                .await
                .expect("reading does not panic");
            capture(&app, captured).await.expect("the batch is stored");
        });
    }
    under_way.join_all().await;
    let took = started.elapsed();
    bed.app.store.close().await.expect("the store closes");
    took
}

/// From the value that every source hands over to the commit.
async fn from_captured(texts: &[Vec<String>]) -> Duration {
    let bed = bed().await;
    let batches: Vec<Vec<Captured>> = texts.iter().map(|texts| read(&bed.app, texts)).collect();
    let took = capture_all(&bed.app, batches).await;
    bed.app.store.close().await.expect("the store closes");
    took
}

/// Captures batches, two of them under way at a time.
pub async fn capture_all(app: &Arc<App>, batches: Vec<Vec<Captured>>) -> Duration {
    let started = Instant::now();
    let mut under_way = tokio::task::JoinSet::new();
    for batch in batches {
        if under_way.len() == 2 {
            under_way.join_next().await;
        }
        let app = Arc::clone(app);
        under_way.spawn(async move { capture(&app, batch).await.map(drop).expect("the batch is stored") });
    }
    under_way.join_all().await;
    started.elapsed()
}

pub fn read(app: &App, texts: &[String]) -> Vec<Captured> {
    let config = &app.config.sources["report"];
    let door = Door { source: "report", config, entry_bytes_max: app.config.limits.entry_bytes_max };
    texts.iter().map(|text| read_entry(text, door).expect("the sample is a good entry")).collect()
}
