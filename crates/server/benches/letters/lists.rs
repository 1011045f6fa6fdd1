//! Lists, filters and statistics as the store grows, and what it weighs.

use std::time::{Duration, Instant};

use lazaret_core::cursor::Sort;
use lazaret_core::filter::Filter;
use lazaret_core::limits;
use lazaret_server::app::App;
use lazaret_store::page::PageQuery;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::stats::StatsOf;

use super::capture::read;
use super::sample::{BATCH, Bed, Deaths, bed, entry};
use super::{bytes_in, resident_mib};

/// Calls of each kind.
pub const CALLS: usize = 300;

pub struct Case {
    pub name: &'static str,
    filter: &'static str,
}

pub const CASES: [Case; 9] = [
    Case { name: "all letters", filter: "" },
    Case { name: "by queue", filter: "queue:report" },
    Case { name: "by type", filter: "type:billing.step3" },
    Case { name: "by error type", filter: "error:com.shop.OutOfStockException" },
    Case { name: "by status", filter: "status:pending" },
    Case { name: "by source", filter: "source:report" },
    Case { name: "by incident", filter: "incident:?" },
    Case {
        name: "by type and time range",
        filter: "type:billing.step3 since:2026-10-10T00:00:00Z until:2026-10-20T00:00:00Z",
    },
    Case { name: "by time range", filter: "since:2026-10-10T00:00:00Z until:2026-10-20T00:00:00Z" },
];

pub async fn run(sizes: &[usize]) {
    println!("## Lists of 50 with their total, and statistics; times in ms\n");
    let mut before: Vec<f64> = Vec::new();
    for size in sizes {
        let bed = bed().await;
        fill(&bed, *size).await;
        println!("### {size} letters\n\n| what | p50 | p99 | growth of p50 |\n|---|---|---|---|");
        let mut medians = Vec::new();
        for case in &CASES {
            let waits = list(&bed.app, case).await;
            report(case.name, waits, &mut medians, &before);
        }
        let mut waits = Vec::new();
        for _ in 0..CALLS {
            let started = Instant::now();
            bed.app.store.stats(StatsOf::All).await.expect("statistics come");
            waits.push(started.elapsed());
        }
        report("statistics", waits, &mut medians, &before);
        super::pages::run(&bed, &mut medians, &before).await;
        before = medians;
        let resident = resident_mib();
        bed.app.store.close().await.expect("the store closes");
        let disk = bytes_in(bed.folder.path()) as f64 / *size as f64;
        let opened = reopen(&bed).await;
        println!(
            "\nResident {resident:.0} MiB, {disk:.0} bytes on disk per letter, opened again in {opened:.1} ms.\n"
        );
    }
}

pub fn report(name: &str, mut waits: Vec<Duration>, medians: &mut Vec<f64>, before: &[f64]) {
    waits.sort();
    let ms = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let growth = before.get(medians.len()).map_or("".into(), |smaller| format!("{:.2}", ms(0.5) / smaller));
    println!("| {name} | {:.2} | {:.2} | {growth} |", ms(0.5), ms(0.99));
    medians.push(ms(0.5));
}

pub async fn fill(bed: &Bed, letters: usize) {
    let mut from = 0;
    while from < letters {
        let to = letters.min(from + BATCH);
        let texts: Vec<String> = (from..to).map(|n| entry(n, Deaths::Over(letters))).collect();
        lazaret_server::capture::capture(&bed.app, read(&bed.app, &texts))
            .await
            .expect("the batch is stored");
        from = to;
    }
}

/// Pages at the beginning and further down, by turns: a page must not cost more the deeper it lies.
pub async fn list(app: &App, case: &Case) -> Vec<Duration> {
    let mut text = case.filter.to_owned();
    if text.ends_with('?') {
        let first = page(app, Filter::default(), None).await;
        text = text.replace('?', &first.letters[0].incident.to_string());
    }
    let filter = Filter::from_text(&text).expect("the filter is good");
    let mut waits = Vec::with_capacity(CALLS);
    let mut after = None;
    for _ in 0..CALLS {
        let started = Instant::now();
        let found = page(app, filter.clone(), after).await;
        waits.push(started.elapsed());
        assert!(!found.letters.is_empty() || after.is_some(), "the sample has letters for {text}");
        after = found.next;
    }
    waits
}

pub async fn page(
    app: &App,
    filter: Filter,
    after: Option<lazaret_core::cursor::LastKey>,
) -> lazaret_store::page::LetterPage {
    let now = app.clock.now();
    let query = PageQuery {
        filter,
        now,
        sort: Sort::default(),
        limit: limits::PAGE_ROWS,
        after,
        scan_max: PageQuery::SCAN_MAX,
    };
    app.store.list(query).await.expect("a page comes")
}

async fn reopen(bed: &Bed) -> f64 {
    let copy = tempfile::tempdir().expect("a folder can be made");
    let file = copy.path().join("lazaret.db");
    std::fs::copy(bed.folder.path().join("lazaret.db"), &file).expect("the file can be copied");
    // Or the first sync of the store would pay for the copying.
    std::fs::File::open(&file).and_then(|file| file.sync_all()).expect("the copy can be synced");
    let started = Instant::now();
    let store = SqliteStore::open(copy.path(), Mode::Real).expect("the store opens");
    let took = started.elapsed();
    drop(store);
    took.as_secs_f64() * 1e3
}
