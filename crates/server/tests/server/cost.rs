//! What a failed job costs in things that can be counted on any machine: commits and bytes of the write-ahead
//! log. A change that lets one of them grow by a tenth fails here; one that lowers it lowers the figure in `cost.toml`.

use serde_json::{Value, json};

use super::ojs::{fetch, id};
use super::rig::TestApp;

/// The figures as they are, by name.
const KNOWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/cost.toml");

const GROUP: usize = 16;
/// Few enough that the write-ahead log is not restarted meanwhile.
const GROUPS: usize = 6;

/// Fails if a figure is a tenth above what it was.
#[track_caller]
fn hold(name: &str, figure: u64) {
    let known: toml::Table = std::fs::read_to_string(KNOWN).unwrap().parse().unwrap();
    let known = known[name].as_integer().unwrap().unsigned_abs();
    println!("{name}: {figure}, {known} is known");
    assert!(figure * 10 <= known * 11, "{name} is {figure}, more than a tenth above the {known} it was");
}

fn job(n: usize) -> Value {
    // About a kilobyte that hardly compresses, as the jobs of the benches.
    let mut state = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    let note: String = (0..60).map(|_| next()).collect();
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let kind = ["email.send", "order.sync"][n % 2];
    json!({"type": kind, "args": [{"seq": n, "note": note}], "options": {"retry": retry}})
}

fn nack(id: &str, n: usize) -> Value {
    let frames: Vec<String> =
        (0..20).map(|k| format!("    at step{k} (/srv/app/src/module_{k}.js:{}:17)", 100 + k)).collect();
    let error = ["TimeoutError", "ConnectionError", "ValidationError", "RateLimitError"][n % 4];
    let message = format!("{error}: upstream answered 503 for item {n}");
    json!({"job_id": id, "worker_id": "w", "error": {"type": error, "message": message, "backtrace": frames}})
}

/// Pushes a group of jobs and fetches it.
async fn held(app: &TestApp, first: usize, count: usize) -> Vec<String> {
    let jobs: Vec<Value> = (first..first + count).map(job).collect();
    app.post("/ojs/v1/jobs/batch", &json!({"jobs": jobs})).await.expect(201);
    let ids: Vec<String> = fetch(app, "default").await.iter().map(id).collect();
    assert_eq!(ids.len(), count);
    ids
}

/// Bytes of the write-ahead log. It is not restarted as long as less is written than a checkpoint waits for.
fn log_bytes(app: &TestApp) -> u64 {
    let log = app.backing.database().with_extension("db-wal");
    std::fs::metadata(log).map_or(0, |file| file.len())
}

/// A server whose tables are larger than a page.
async fn settled() -> TestApp {
    let app = TestApp::new().await;
    for group in 0..4 {
        let ids = held(&app, group * GROUP, GROUP).await;
        let ends: Vec<Value> = ids.iter().enumerate().map(|(n, id)| nack(id, n)).collect();
        app.post("/ojs/v1/workers/nack/batch", &json!({"jobs": ends})).await.expect(200);
    }
    app
}

#[tokio::test]
async fn a_failed_job_costs_no_more_than_it_did_on_the_embedded_store() {
    let app = settled().await;
    let (mut bytes, mut commits) = (0, 0);
    for group in 0..GROUPS {
        let ids = held(&app, 1_000 + group * GROUP, GROUP).await;
        let ends: Vec<Value> = ids.iter().enumerate().map(|(n, id)| nack(id, n)).collect();
        let (before, committed) = (log_bytes(&app), *app.app.store.changes().borrow());
        app.post("/ojs/v1/workers/nack/batch", &json!({"jobs": ends})).await.expect(200);
        bytes += log_bytes(&app) - before;
        commits += *app.app.store.changes().borrow() - committed;
    }
    assert_eq!(commits, GROUPS as u64, "a batch of ends is one commit");
    hold("failed_job", bytes / (GROUP * GROUPS) as u64);
}

#[tokio::test]
async fn a_completed_job_costs_no_more_than_it_did_on_the_embedded_store() {
    let app = settled().await;
    let (before, committed) = (log_bytes(&app), *app.app.store.changes().borrow());
    for group in 0..GROUPS {
        let ids = held(&app, 1_000 + group * GROUP, GROUP).await;
        let ends: Vec<Value> = ids.iter().map(|id| json!({"job_id": id})).collect();
        app.post("/ojs/v1/workers/ack/batch", &json!({"jobs": ends})).await.expect(200);
    }
    let commits = *app.app.store.changes().borrow() - committed;
    assert_eq!(commits, 3 * GROUPS as u64, "a push, a fetch and a batch of ends are a commit each");
    hold("completed_job", (log_bytes(&app) - before) / (GROUP * GROUPS) as u64);
}
