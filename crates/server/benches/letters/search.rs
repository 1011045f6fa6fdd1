//! Searching inside of 100,000 bodies, how far the index lags behind capture, and what it costs capture.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lazaret_core::filter::Filter;
use lazaret_core::limits;
use lazaret_store::Store;

use super::capture::{capture_all, read};
use super::lists::page;
use super::sample::{BATCH, Bed, Deaths, bed, entry};

const LETTERS: usize = 100_000;

/// Letters of one measurement of the rate of capture.
const CAPTURED: usize = 30_000;

/// Calls of each kind.
const CALLS: usize = 200;

const CASES: [(&str, &str); 5] = [
    ("one order of many", "body:o-4711"),
    ("two words, some hundred letters", "body:\"c-17 b-500\""),
    ("a word in every body", "body:orderid"),
    ("a word and a path", "body:o-4711 path:$.payload.lines[?@.count==2]"),
    ("a path alone: looks into letters one by one", "path:$.payload.lines[?@.sku=='B-7']"),
];

pub async fn run() {
    println!("## Search inside of bodies\n");
    println!(
        "| the body index while capture runs | letters/s | most lives behind | longest lag |\n|---|---|---|---|"
    );
    for (name, index) in [("off", Index::Off), ("on, filled by turns with capture", Index::On)] {
        let bed = bed().await;
        report(name, rate(&bed, index).await);
        close(bed).await;
    }
    let bed = bed().await;
    rate(&bed, Index::Off).await;
    report("behind: catching up with what came before", rate(&bed, Index::On).await);
    close(bed).await;

    let bed = self::bed().await;
    super::lists::fill(&bed, LETTERS).await;
    let started = Instant::now();
    while behind(bed.app.store.as_ref()).await > 0 {
        bed.app.store.index_bodies(limits::INDEX_LIVES_PER_BATCH).await.expect("bodies are indexed");
    }
    println!(
        "\nIndexing {LETTERS} bodies with nothing else to do: {:.0} a second.\n",
        LETTERS as f64 / started.elapsed().as_secs_f64()
    );
    println!("Pages of 50 with their total over {LETTERS} letters; times in ms.\n");
    println!("| what | p50 | p99 | letters looked into |\n|---|---|---|---|");
    for (name, filter) in CASES {
        let filter = Filter::from_text(filter).expect("the filter is good");
        let mut waits = Vec::with_capacity(CALLS);
        let (mut after, mut looked_at) = (None, 0);
        for _ in 0..CALLS {
            let started = Instant::now();
            let found = page(&bed.app, filter.clone(), after).await;
            waits.push(started.elapsed());
            looked_at += found.scan.map_or(0, |scan| scan.letters);
            after = found.next;
        }
        waits.sort();
        let ms = |share: f64| waits[((CALLS - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!("| {name} | {:.2} | {:.2} | {} |", ms(0.5), ms(0.99), looked_at / CALLS as u64);
    }
    println!();
    close(bed).await;
}

#[derive(Clone, Copy, PartialEq)]
enum Index {
    Off,
    On,
}

struct Measured {
    letters_a_second: f64,
    behind_max: u64,
    lag_max: Duration,
}

fn report(name: &str, measured: Measured) {
    println!(
        "| {name} | {:.0} | {} | {:.2} s |",
        measured.letters_a_second,
        measured.behind_max,
        measured.lag_max.as_secs_f64()
    );
}

/// Captures as fast as it goes, and fills the index beside it as the server's tick does.
async fn rate(bed: &Bed, index: Index) -> Measured {
    let from = behind(bed.app.store.as_ref()).await as usize;
    let texts: Vec<Vec<String>> = (0..CAPTURED / BATCH)
        .map(|batch| (0..BATCH).map(|n| entry(from + batch * BATCH + n, Deaths::Now)).collect())
        .collect();
    let batches: Vec<_> = texts.iter().map(|texts| read(&bed.app, texts)).collect();
    let over = Arc::new(AtomicBool::new(false));
    let ticks = tokio::spawn(fill_beside(Arc::clone(&bed.app), Arc::clone(&over), index));
    let took = capture_all(&bed.app, batches).await;
    over.store(true, Ordering::SeqCst);
    let (behind_max, lag_max) = ticks.await.expect("the index is filled");
    Measured { letters_a_second: CAPTURED as f64 / took.as_secs_f64(), behind_max, lag_max }
}

async fn fill_beside(
    app: Arc<lazaret_server::app::App>,
    over: Arc<AtomicBool>,
    index: Index,
) -> (u64, Duration) {
    let (mut most, mut longest) = (0, Duration::ZERO);
    while index == Index::On && !over.load(Ordering::SeqCst) {
        let reached =
            app.store.index_bodies(limits::INDEX_LIVES_PER_BATCH).await.expect("bodies are indexed");
        most = most.max(reached.behind);
        let lag = reached.behind_since.map_or(0, |since| app.clock.now().ms() - since.ms());
        longest = longest.max(Duration::from_millis(lag.max(0) as u64));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (most, longest)
}

async fn behind(store: &dyn Store) -> u64 {
    store.body_index().await.expect("the index can be asked").behind
}

async fn close(bed: Bed) {
    bed.app.store.close().await.expect("the store closes");
}
