//! Ten thousand jobs put back from the dead letter by one request, beside the bare loop of the same statements; and how
//! long others had to wait for the writer meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::jobs_floor::{Dump, Look, Stage};
use super::jobs_load::{End, Line, QUEUE, Served, fill, work};

const JOBS: usize = 10_000;

/// Each side is measured this often and the best is taken.
const TURNS: usize = 3;

pub async fn run() {
    println!("## {JOBS} jobs put back by one request, fsync on\n");
    let (mut took, mut bare, mut commits) = (Duration::MAX, Duration::MAX, 0);
    let mut held = Duration::MAX;
    for _ in 0..TURNS {
        let served = Served::start().await;
        let data = served.bed.as_ref().expect("it has a store").folder.path().to_owned();
        fill(served.address, JOBS).await;
        work(served.address, 16, 100, End::Die).await;
        let before = Dump::of(&data);
        let mut line = Line::open(served.address).await;
        let commits_before = served.commits();
        let asked = format!(r#"{{"filter":{{"queue":"{QUEUE}"}},"confirm":true}}"#);
        let longest = Arc::new(AtomicU64::new(0));
        let watching = tokio::spawn(watch_gaps(served.changes(), Arc::clone(&longest)));
        let started = Instant::now();
        let answer =
            String::from_utf8_lossy(line.post("/ojs/v1/dead-letter/retry", &asked).await).into_owned();
        let turn = started.elapsed();
        watching.abort();
        assert!(answer.contains(&format!("\"retried\":{JOBS}")), "{answer}");
        if turn < took {
            (took, commits) = (turn, (served.commits() - commits_before).max(1));
        }
        held = held.min(Duration::from_micros(longest.load(Ordering::Relaxed)));
        let stage = Stage::between(&before, &Dump::of(&data), JOBS);
        served.stop().await;
        bare = bare.min(stage.run(&before, JOBS, JOBS / commits as usize, Look::Job));
    }
    let rate = |time: Duration| JOBS as f64 / time.as_secs_f64();
    println!("| what | seconds | jobs/s | of the bare loop |\n|---|---|---|---|");
    println!("| bare loop, {commits} commits | {:.3} | {:.0} | 1.00 |", bare.as_secs_f64(), rate(bare));
    println!(
        "| one `POST /ojs/v1/dead-letter/retry` | {:.3} | {:.0} | {:.2} |\n",
        took.as_secs_f64(),
        rate(took),
        rate(took) / rate(bare)
    );
    println!(
        "The writer was never held for longer than {:.1} ms: from one commit to the next, its sync included.\n",
        held.as_secs_f64() * 1e3
    );
}

/// Keeps the longest time from one commit to the next, in microseconds.
async fn watch_gaps(mut changes: watch::Receiver<u64>, longest: Arc<AtomicU64>) {
    let mut last = Instant::now();
    while changes.changed().await.is_ok() {
        longest.fetch_max(last.elapsed().as_micros() as u64, Ordering::Relaxed);
        last = Instant::now();
    }
}
