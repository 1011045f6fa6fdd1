//! Letters put back to a receiver over HTTP on this machine, without a limit of pace, each verified by its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

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
use lazaret_store::RedriveStore;
use lazaret_store::audit::Actor;
use lazaret_store::sqlite::{Mode, SqliteStore};
use tokio::net::TcpListener;

use super::sample::{BATCH, Deaths, entry};

const LETTERS: usize = 20_000;

pub async fn run() {
    println!("## {LETTERS} letters redriven to a receiver on this machine, verified, fsync on\n");
    let received = Arc::new(AtomicUsize::new(0));
    let url = receiver(Arc::clone(&received)).await;
    let mut destination = DestinationConfig::new(DestinationUrl::parse(&url).expect("it is an address"));
    destination.allow_private = true;
    destination.connections_max = 64;
    let mut config = Config::default();
    let source = config.sources.get_mut("report").expect("it is always there");
    source.governance = Governance::Optional;
    source.destination = Some(destination);
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).expect("a new store opens"));
    let app = App::new(store.clone(), config, Clock::System, false).await.expect("it starts");
    for first in (0..LETTERS).step_by(BATCH) {
        let read = |n| {
            let config = app.config.sources.get("report").expect("it is always there");
            let door = Door { source: "report", config, entry_bytes_max: limits::ENTRY_BYTES_MAX };
            read_entry(&entry(n, Deaths::Now), door).expect("it is a report")
        };
        capture(&app, (first..first + BATCH).map(read).collect()).await.expect("the batch is stored");
    }
    let by = Actor { name: "bench".into(), role: "admin".into(), request: None };
    let wanted = Wanted {
        pace: Some(Pace::Unlimited),
        canary: Some(0),
        batch_size: Some(limits::REDRIVE_BATCH_MAX),
        concurrency: Some(64),
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
    println!("| what | seconds | letters/s |\n|---|---|---|");
    for (what, time) in [("plan", planning), ("run, until every letter is resolved", took)] {
        let seconds = time.as_secs_f64();
        println!("| {what} | {seconds:.3} | {:.0} |", LETTERS as f64 / seconds);
    }
    println!();
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
