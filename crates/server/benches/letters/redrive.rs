//! Letters put back to a receiver over HTTP on this machine, without a limit of pace, each verified by its answer, beside
//! a bare HTTP client that sends the same bodies; and a plan over many letters while others are captured.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use lazaret_core::filter::Filter;
use lazaret_core::gate::Governance;
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, Pace, RunState};
use lazaret_server::app::App;
use lazaret_server::capture::capture;
use lazaret_server::clock::Clock;
use lazaret_server::config::{Config, DestinationConfig, DestinationUrl};
use lazaret_server::redrive::{self, Glass, LaunchRequest, PlanRequest, Selection, Wanted};
use lazaret_server::report::{Door, read_entry};
use lazaret_store::Redrives;
use lazaret_store::audit::Actor;
use lazaret_store::sqlite::{Mode, SqliteStore};
use tokio::net::TcpListener;

use super::resident_mib;
use super::sample::{BATCH, Deaths, entry};

const LETTERS: usize = 20_000;

/// Letters of the plan that is only made.
const PLANNED: usize = 100_000;

/// Letters that are sent at the same time, by the bare client too: the most that a run may ask for.
const AT_ONCE: usize = limits::REDRIVE_CONCURRENCY_MAX as usize;

pub async fn run() {
    println!("## {LETTERS} letters redriven to a receiver on this machine, verified, fsync on\n");
    let received = Arc::new(AtomicUsize::new(0));
    let url = receiver(Arc::clone(&received)).await;
    let config = sending_to(&url);
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).expect("a new store opens"));
    let app = App::new(store.clone(), config, Clock::System, false).await.expect("it starts");
    fill(&app, LETTERS, Deaths::Now).await;
    let before_mib = resident_mib();
    let by = Actor { name: "bench".into(), role: "admin".into(), request: None };
    let wanted = Wanted {
        pace: Some(Pace::Unlimited),
        canary: Some(0),
        batch_size: Some(limits::REDRIVE_BATCH_MAX),
        concurrency: Some(AT_ONCE as u32),
        ..Wanted::default()
    };
    let selection = Selection::Filter(Filter::from_text("source:report").expect("it is a filter"));
    let started = Instant::now();
    let request = PlanRequest { selection, expected: None, wanted, reason: None, by: by.clone() };
    let planned = redrive::plan(&app, request).await.expect("it is planned").redrive;
    let planning = started.elapsed();
    let (count, wanted) = (planned.letters[&Outcome::Waiting], Wanted::default());
    let launch = LaunchRequest { count, wanted, break_glass: None, glass: Glass::OutOfReach, by };
    redrive::launch(&app, planned.id, launch).await.expect("it is launched");
    let started = Instant::now();
    let run = loop {
        redrive::tick(&app).await.expect("it goes on");
        let run = store.redrive(planned.id).await.expect("it can be read").expect("it is there");
        if run.state == RunState::Done {
            break run;
        }
    };
    let took = started.elapsed();
    assert_eq!(
        (received.load(Ordering::SeqCst), run.letters[&Outcome::Succeeded]),
        (LETTERS, LETTERS as u64)
    );
    let run_mib = resident_mib();
    let bare = bare_client(&url).await;
    println!("| what | seconds | letters/s | of the bare client |\n|---|---|---|---|");
    for (what, time) in
        [("bare HTTP client", bare), ("plan", planning), ("run, until every letter is resolved", took)]
    {
        let (seconds, of_bare) = (time.as_secs_f64(), bare.as_secs_f64() / time.as_secs_f64());
        println!("| {what} | {seconds:.3} | {:.0} | {of_bare:.2} |", LETTERS as f64 / seconds);
    }
    println!("\nResident memory: {before_mib:.0} MiB before the run, {run_mib:.0} MiB after it.\n");
    plan_only(sending_to(&url)).await;
}

/// Reports go back to this address, without an analysis first.
fn sending_to(url: &str) -> Config {
    let mut destination = DestinationConfig::new(DestinationUrl::parse(url).expect("it is an address"));
    destination.allow_private = true;
    destination.connections_max = AT_ONCE;
    let mut config = Config::default();
    let source = config.sources.get_mut("report").expect("it is always there");
    source.governance = Governance::Optional;
    source.destination = Some(destination);
    config
}

async fn fill(app: &Arc<App>, letters: usize, deaths: Deaths) {
    for first in (0..letters).step_by(BATCH) {
        capture(app, (first..first + BATCH).map(|n| captured(app, n, deaths)).collect())
            .await
            .expect("the batch is stored");
    }
}

fn captured(app: &App, n: usize, deaths: Deaths) -> lazaret_core::letter::Captured {
    let config = app.config.sources.get("report").expect("it is always there");
    let door = Door { source: "report", config, entry_bytes_max: limits::ENTRY_BYTES_MAX };
    read_entry(&entry(n, deaths), door).expect("it is a report")
}

/// The same bodies to the same receiver, by the library that Lazaret sends with and nothing around it.
async fn bare_client(url: &str) -> Duration {
    // Nothing is encrypted here, but the library asks for a provider before it knows.
    rustls::crypto::ring::default_provider().install_default().ok();
    let http = reqwest::Client::builder().pool_max_idle_per_host(AT_ONCE).build().expect("it can be made");
    let bodies: Arc<Vec<String>> = Arc::new((0..LETTERS).map(|n| entry(n, Deaths::Now)).collect());
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (http, bodies, next, url) =
            (http.clone(), Arc::clone(&bodies), Arc::clone(&next), url.to_owned());
        senders.spawn(async move {
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = http.post(&url).body(body.clone()).send().await.expect("it is answered");
                assert_eq!(sent.status(), StatusCode::NO_CONTENT);
            }
        });
    }
    senders.join_all().await;
    started.elapsed()
}

/// A plan over many letters: how long it takes, what it needs, and how long a capture takes meanwhile.
async fn plan_only(config: Config) {
    println!("## A plan over {PLANNED} letters while others are captured\n");
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).expect("a new store opens"));
    let app = App::new(store, config, Clock::System, false).await.expect("it starts");
    fill(&app, PLANNED, Deaths::Over(PLANNED)).await;
    let before_mib = resident_mib();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let alone = tokio::spawn(capture_one_by_one(Arc::clone(&app), PLANNED, Arc::clone(&stop)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.store(true, Ordering::SeqCst);
    let alone = alone.await.expect("it captured");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let beside = tokio::spawn(capture_one_by_one(Arc::clone(&app), 2 * PLANNED, Arc::clone(&stop)));
    let by = Actor { name: "bench".into(), role: "admin".into(), request: None };
    let selection =
        Selection::Filter(Filter::from_text("until:2026-11-01T00:00:00Z").expect("it is a filter"));
    let request = PlanRequest { selection, expected: None, wanted: Wanted::default(), reason: None, by };
    let started = Instant::now();
    let planned = redrive::plan(&app, request).await.expect("it is planned").redrive;
    let took = started.elapsed();
    stop.store(true, Ordering::SeqCst);
    let beside = beside.await.expect("it captured");
    let after_mib = resident_mib();
    let listed: u64 = planned.letters.values().sum();
    println!("| what | seconds |\n|---|---|");
    println!("| plan over {listed} letters | {:.3} |", took.as_secs_f64());
    println!("\n| captures | alone | during the plan |\n|---|---|---|");
    for (what, of) in [("p50 ms", 50), ("p99 ms", 99), ("longest ms", 100)] {
        println!("| {what} | {:.2} | {:.2} |", percentile(&alone, of), percentile(&beside, of));
    }
    println!("\nResident memory: {before_mib:.0} MiB before the plan, {after_mib:.0} MiB after it.\n");
}

/// Captures letter after letter until it is told to stop; returns how long each took, shortest first.
async fn capture_one_by_one(
    app: Arc<App>,
    first: usize,
    stop: Arc<std::sync::atomic::AtomicBool>,
) -> Vec<Duration> {
    let mut took = Vec::new();
    for n in first.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let started = Instant::now();
        capture(&app, vec![captured(&app, n, Deaths::Now)]).await.expect("the letter is stored");
        took.push(started.elapsed());
    }
    took.sort();
    took
}

fn percentile(took: &[Duration], of: usize) -> f64 {
    let at = (took.len() * of / 100).min(took.len().saturating_sub(1));
    took.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

async fn receiver(received: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}/in", listener.local_addr().expect("it has an address"));
    let take = move || async move {
        received.fetch_add(1, Ordering::SeqCst);
        StatusCode::NO_CONTENT
    };
    let router = Router::new().route("/in", post(take));
    tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    url
}
