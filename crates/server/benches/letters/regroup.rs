//! New rules for 100,000 letters while capture goes on: how long both take, and whether incidents keep their ids.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use lazaret_core::fingerprint::{FingerprintRule, RuleConditions, RuleEffect, SplitBy};
use lazaret_core::id::IncidentId;
use lazaret_core::pattern::Pattern;
use lazaret_server::app::App;
use lazaret_server::capture::capture;
use lazaret_server::config::Config;
use lazaret_server::regroup;
use lazaret_store::incident::IncidentQuery;

use super::capture::read;
use super::lists::fill;
use super::sample::{BATCH, Deaths, bed, entry};

const LETTERS: usize = 100_000;

/// How long capture is measured with nothing beside it.
const ALONE: Duration = Duration::from_secs(4);

pub async fn run() {
    let bed = bed().await;
    fill(&bed, LETTERS).await;
    regroup_all(&bed.app).await;
    let before = incidents(&bed.app).await;
    let captured = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let app = Arc::new(RwLock::new(Arc::clone(&bed.app)));
    let capturing = tokio::spawn(capture_on(Arc::clone(&app), Arc::clone(&captured), Arc::clone(&over)));
    let alone = rate_until(&captured, tokio::time::sleep(ALONE)).await;
    // Every letter gets another fingerprint: the source becomes part of it, and all have the same.
    let rule = FingerprintRule {
        name: "by source".into(),
        when: RuleConditions { source: Some(Pattern::new("*")), ..RuleConditions::default() },
        then: RuleEffect::SplitBy(vec![SplitBy::Source]),
    };
    let config = Config { fingerprint_rules: vec![rule], ..bed.app.config.clone() };
    let changed = Arc::new(bed.app.under(config));
    *app.write().expect("nobody panics while it is held") = Arc::clone(&changed);
    let started = Instant::now();
    let meanwhile = rate_until(&captured, regroup_all(&changed)).await;
    let took = started.elapsed();
    over.store(true, Ordering::SeqCst);
    capturing.await.expect("capture goes on");
    let after = incidents(&bed.app).await;
    println!("## New fingerprints for {LETTERS} letters while capture goes on\n");
    println!("| what | |\n|---|---|");
    println!("| lives regrouped a second | {:.0} |", LETTERS as f64 / took.as_secs_f64());
    println!("| capture alone, letters a second | {alone:.0} |");
    println!("| capture meanwhile, letters a second | {meanwhile:.0} ({:.2}) |", meanwhile / alone);
    println!("| incidents before | {} |", before.len());
    println!("| of these with the same id after | {} |\n", before.intersection(&after).count());
    bed.app.store.close().await.expect("the store closes");
}

/// Ticks until every life is grouped by the rules in force, as the server's loop does.
async fn regroup_all(app: &Arc<App>) {
    while regroup::tick(app).await.expect("regrouping goes on") == lazaret_server::operations::Progress::More
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn rate_until(captured: &AtomicU64, end: impl Future) -> f64 {
    let (started, before) = (Instant::now(), captured.load(Ordering::SeqCst));
    end.await;
    (captured.load(Ordering::SeqCst) - before) as f64 / started.elapsed().as_secs_f64()
}

/// Captures by the rules in force, one batch after the other.
async fn capture_on(app: Arc<RwLock<Arc<App>>>, captured: Arc<AtomicU64>, over: Arc<AtomicBool>) {
    let mut from = LETTERS;
    while !over.load(Ordering::SeqCst) {
        let texts: Vec<String> = (from..from + BATCH).map(|n| entry(n, Deaths::Now)).collect();
        from += BATCH;
        let app = Arc::clone(&app.read().expect("nobody panics while it is held"));
        capture(&app, read(&app, &texts)).await.expect("the batch is stored");
        captured.fetch_add(BATCH as u64, Ordering::SeqCst);
    }
}

async fn incidents(app: &App) -> BTreeSet<IncidentId> {
    let query = IncidentQuery { limit: 10_000, ..IncidentQuery::default() };
    let page = app.store.incidents(query).await.expect("incidents are listed");
    page.incidents.iter().map(|incident| incident.id).collect()
}
