//! What a write costs the embedded store: bytes written, CPU of the writer's thread, and how many requests share a
//! commit. These hold on any machine; the rates beside them do not.
//!
//! `cargo bench -p lazaret-store --bench writes [-- --letters N] [--pages]`; `--pages` says which tables and indexes the
//! pages of a commit belong to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_core::class::ClassRules;
use lazaret_core::envelope::Envelope;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::header::Headers;
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::enqueue::{JobDefaults, read_enqueue};
use lazaret_core::job::failure::read_nack;
use lazaret_core::letter::{Admitted, Captured, admit};
use lazaret_core::time::Time;
use lazaret_store::Store;
use lazaret_store::job::{Changed, JobChange, JobEvent, LetterEffect, SOURCE};
use lazaret_store::job_store::JobStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use rusqlite::Connection;

const CONNECTIONS: usize = 32;
const JOBS: usize = 16_000;
const BATCH: usize = 1_000;
const QUEUE: &str = "bench";

fn main() {
    let (mut letters, mut pages) = (20_000, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--letters" => {
                let given = args.next().unwrap_or_default();
                letters = given.replace('_', "").parse().expect("--letters needs a number");
            }
            "--pages" => pages = true,
            _ => {}
        }
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(run(letters, pages));
}

async fn run(letters: usize, pages: bool) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).expect("the store opens"));
    println!("{letters} letters before; {CONNECTIONS} connections, {JOBS} jobs; batches of {BATCH}\n");
    println!("| what | /s | KB written | writer µs | process µs | in a commit |\n|---|---|---|---|---|---|");
    let mut next = 0;
    let before = captures(letters);
    measure(&store, "capture by batch", letters, capture(&store, before)).await;
    next += JOBS;
    measure(&store, "push", JOBS, push(&store, 0..next)).await;
    measure(&store, "fetch of 10 and fail into the dead letter", JOBS, work(&store, End::Die)).await;
    push(&store, next..next + JOBS).await;
    next += JOBS;
    measure(&store, "fetch of 10 and acknowledge", JOBS, work(&store, End::Ack)).await;
    if pages {
        let few = 400;
        push(&store, next..next + few).await;
        let conn = Connection::open(folder.path().join("lazaret.db")).expect("the file opens");
        conn.execute_batch("pragma wal_checkpoint(truncate)").expect("the log is folded in");
        let commits = *store.changes().borrow();
        work(&store, End::Die).await;
        print_pages(&conn, folder.path(), few, *store.changes().borrow() - commits);
    }
    store.close().await.expect("the store closes");
}

/// What this process wrote and how long it ran, in bytes and nanoseconds.
struct Reading {
    written: u64,
    writer: u64,
    process: u64,
    commits: u64,
    at: Instant,
}

fn reading(store: &SqliteStore) -> Reading {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap_or("0");
    let (mut writer, mut process) = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let ran: u64 = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        process += ran;
        if read("comm").trim() == "lazaret-writer" {
            writer += ran;
        }
    }
    let commits = *store.changes().borrow();
    Reading { written: written.parse().unwrap_or(0), writer, process, commits, at: Instant::now() }
}

async fn measure(store: &SqliteStore, what: &str, count: usize, work: impl Future<Output = Duration>) {
    let before = reading(store);
    let prepared = work.await;
    let after = reading(store);
    let per = |now: u64, then: u64, unit: f64| now.saturating_sub(then) as f64 / unit / count as f64;
    let took = after.at - before.at - prepared;
    println!(
        "| {what} | {:.0} | {:.1} | {:.0} | {:.0} | {:.1} |",
        count as f64 / took.as_secs_f64(),
        per(after.written, before.written, 1024.0),
        per(after.writer, before.writer, 1e3),
        per(after.process, before.process, 1e3),
        count as f64 / (after.commits - before.commits).max(1) as f64,
    );
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(since.as_millis() as i64)
}

fn mix(n: usize, salt: u64) -> u64 {
    (n as u64 ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

fn random(n: usize, salt: u64) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&mix(n, salt).to_le_bytes());
    bytes[8..].copy_from_slice(&mix(n, salt + 1).to_le_bytes()[..2]);
    bytes
}

fn admitted(captured: Captured, n: usize, at: Time) -> Admitted {
    let ids = [random(n, 11), random(n, 13)];
    admit(captured, at, ids, &ClassRules::default(), &FingerprintRules::default())
}

fn noise(n: usize, parts: u64) -> String {
    (0..parts).map(|part| format!("{:016x}", mix(n, 100 + part))).collect()
}

fn failure_text(n: usize) -> String {
    let frames: Vec<String> = (0..20)
        .map(|frame| {
            let line = (mix(n, 4) % 3 + frame * 7) % 400;
            format!(r#""\tat com.shop.billing.Handler{0}.step{frame}(Handler{0}.java:{line})""#, frame % 4)
        })
        .collect();
    let error = ["SmtpTimeout", "OutOfStock", "NullPointer"][(mix(n, 3) % 3) as usize];
    format!(
        r#"{{"job_id":"x","error":{{"type":"com.shop.{error}","message":"billing call {} failed after 5000 ms: connection timed out","backtrace":[{}]}}}}"#,
        mix(n, 5) % 100_000,
        frames.join(",")
    )
}

/// Messages of 1 KiB from somewhere else, each with a failure of 20 frames.
fn captures(letters: usize) -> Vec<Vec<Admitted>> {
    let one = |n: usize| {
        let at = now();
        let mut job = job(n, at);
        job = job.fetched(None, at, None).expect("it waits");
        let failure = read_nack(&failure_text(n)).expect("a failure").failure;
        let verdict = job.verdict(&failure, 0.5);
        let dead = job.failed(failure, verdict, at).expect("it runs");
        let body = format!(r#"{{"order":"o-{}","note":"{}"}}"#, mix(n, 2) % 100_000, noise(n, 58));
        let captured = Captured {
            message_id: format!("evt-{n:012}-{:08x}", mix(n, 6) as u32),
            letter_type: format!("order.step{}", mix(n, 8) % 12),
            queue: format!("q{}", mix(n, 9) % 5),
            subscriber: Some(format!("worker{}", mix(n, 9) % 5)),
            tenant: Some(format!("t{}", mix(n, 10) % 20)),
            envelope: Envelope::seal(body.into_bytes().into(), "application/json", Headers::default()),
            reported: None,
            ..dead.to_captured("report", None)
        };
        admitted(captured, n, at)
    };
    (0..letters).step_by(BATCH).map(|first| (first..letters.min(first + BATCH)).map(one).collect()).collect()
}

/// Two batches are under way at a time, as over HTTP.
async fn capture(store: &Arc<SqliteStore>, batches: Vec<Vec<Admitted>>) -> Duration {
    let mut lanes: [Vec<Vec<Admitted>>; 2] = Default::default();
    for (at, batch) in batches.into_iter().enumerate() {
        lanes[at % 2].push(batch);
    }
    let tasks: Vec<_> = lanes
        .into_iter()
        .map(|lane| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for batch in lane {
                    store.insert(batch).await.expect("they are taken");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it ends well");
    }
    Duration::ZERO
}

fn job(n: usize, at: Time) -> Job {
    let text = format!(
        r#"{{"type":"invoice.send{}","args":[{{"order":"o-{}","customer":"c-{}","note":"{}"}}],"options":{{"queue":"{QUEUE}","retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}}}"#,
        mix(n, 1) % 12,
        mix(n, 2) % 100_000,
        mix(n, 3) % 10_000,
        noise(n, 42),
    );
    let new = read_enqueue(&text, &JobDefaults::default()).expect("a job");
    Job::enqueued(new, JobId::mint(at, random(n, 7)), at)
}

fn told(kind: &'static str, job: &Job) -> Vec<JobEvent> {
    let data =
        format!(r#"{{"job_type":"{}","queue":"{}","attempt":{}}}"#, job.job_type, job.queue, job.attempt);
    vec![JobEvent { kind, data }]
}

async fn push(store: &Arc<SqliteStore>, numbers: std::ops::Range<usize>) -> Duration {
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let (store, numbers) = (Arc::clone(store), numbers.clone().skip(connection).step_by(CONNECTIONS));
            tokio::spawn(async move {
                for n in numbers {
                    let at = now();
                    let job = job(n, at);
                    let told = told("job.enqueued", &job);
                    let pushed = store.enqueue_jobs(vec![(job, told)], at).await.expect("it is taken");
                    assert_eq!(pushed, Ok(()));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it ends well");
    }
    Duration::ZERO
}

#[derive(Clone, Copy)]
enum End {
    Die,
    Ack,
}

async fn work(store: &Arc<SqliteStore>, end: End) -> Duration {
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                loop {
                    let (queues, worker) = (vec![QUEUE.to_owned()], format!("w{connection}"));
                    let jobs = store.fetch_jobs(queues, 10, worker, None, now()).await.expect("it answers");
                    if jobs.is_empty() {
                        return;
                    }
                    for (n, job) in jobs.into_iter().enumerate() {
                        let change = ended(&store, job, connection * 7 + n, end);
                        let changed = store.change_job(change).await.expect("it is taken");
                        assert_eq!(changed, Changed::Done);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it ends well");
    }
    Duration::ZERO
}

fn ended(store: &SqliteStore, job: Job, n: usize, end: End) -> JobChange {
    let (at, id) = (now(), job.id);
    let version = store.handed_job(id).map_or(2, |stored| stored.version);
    let seed = id.bytes().iter().fold(n, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let (after, letter, kind) = match end {
        End::Ack => {
            let after = job.acked(Some(r#"{"sent":true}"#.into()), at).expect("it runs");
            (after, LetterEffect::Confirm { evidence: "acked" }, "job.completed")
        }
        End::Die => {
            let failure = read_nack(&failure_text(seed)).expect("a failure").failure;
            let verdict = job.verdict(&failure, 0.5);
            let after = job.failed(failure, verdict, at).expect("it runs");
            let letter = admitted(after.to_captured(SOURCE, None), seed, at);
            (after, LetterEffect::Die(Box::new(letter)), "job.discarded")
        }
    };
    let events = told(kind, &after);
    JobChange { before: (id, version), after, letter, events, by: None, at }
}

/// Counts the pages in the write-ahead log by the table or index that they belong to.
fn print_pages(conn: &Connection, folder: &Path, deaths: usize, commits: u64) {
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    let mut statement = conn.prepare("select pageno, name from dbstat").expect("pages can be told apart");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("it can be asked");
    names.extend(rows.map(|row| row.expect("a row")));
    let log = std::fs::read(folder.join("lazaret.db-wal")).expect("the log can be read");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = 0;
    for frame in log.get(32..).unwrap_or_default().chunks_exact(24 + 4096) {
        let page = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
        *counts.entry(names.get(&page).cloned().unwrap_or("free".into())).or_default() += 1;
        all += 1;
    }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("\n{deaths} deaths in {commits} commits, with their fetches: {all} pages\n");
    println!("| pages for a death | table or index |\n|---|---|");
    for (name, count) in sorted.into_iter().take(40) {
        println!("| {:.2} | {name} |", count as f64 / deaths as f64);
    }
}
