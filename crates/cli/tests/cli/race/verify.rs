//! What is there after the race, compared with what was heard in it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::QUEUES;
use super::account::{Account, Accounts};
use crate::torture::call;

/// One request to a server that nobody kills.
fn ask(address: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    call(address, method, path, "application/json", &body).expect("nobody kills the server now")
}

#[track_caller]
fn get(address: &str, path: &str) -> Value {
    let (status, answer) = ask(address, "GET", path, &Value::Null);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// The state of a job; nothing if there is none.
fn state_of(address: &str, id: &str) -> Option<String> {
    match ask(address, "GET", &format!("/ojs/v1/jobs/{id}"), &Value::Null) {
        (200, answer) => Some(answer["job"]["state"].as_str().unwrap().to_owned()),
        (status, answer) => {
            assert_eq!(status, 404, "{id}: {answer}");
            None
        }
    }
}

/// Brings every job to an end that the race left on its way.
pub fn drain(address: &str, accounts: &Accounts) {
    loop {
        let asked = json!({"queues": QUEUES, "count": 100, "worker_id": "drain"});
        let (status, answer) = ask(address, "POST", "/ojs/v1/workers/fetch", &asked);
        assert_eq!(status, 200, "{answer}");
        let jobs = answer["jobs"].as_array().unwrap();
        for job in jobs {
            let id = job["id"].as_str().unwrap();
            accounts.with(id, |account| account.take(id, u64::MAX));
            assert!(acks(address, id, "drain"), "{id} was just fetched");
            accounts.with(id, |account| account.end_by_ack(id));
        }
        if jobs.is_empty() && !end_the_others(address, accounts) {
            return;
        }
    }
}

fn acks(address: &str, id: &str, worker: &str) -> bool {
    let said = json!({"job_id": id, "worker_id": worker});
    let (status, answer) = ask(address, "POST", "/ojs/v1/workers/ack", &said);
    assert!(status == 200 || status == 409, "{id}: {status} {answer}");
    status == 200
}

/// Ends what no worker can fetch, and says whether there was anything.
fn end_the_others(address: &str, accounts: &Accounts) -> bool {
    let mut found = false;
    for id in accounts.ids() {
        match state_of(address, &id).as_deref() {
            None | Some("completed" | "cancelled" | "discarded") => continue,
            // The answer to its fetch was never heard: it is still held, because a kill ends no reservation.
            Some("active") => {
                accounts.settle_unheard(&id, |worker| acks(address, &id, worker));
                accounts.with(&id, |account| account.end_by_ack(&id));
            }
            Some("retryable") => {
                accounts.with(&id, |account| account.cancels_tried = true);
                let (status, answer) = ask(address, "DELETE", &format!("/ojs/v1/jobs/{id}"), &Value::Null);
                assert_eq!(status, 200, "{id}: {answer}");
                accounts.with(&id, |account| account.end(&id, "cancelled"));
            }
            Some("available") => {}
            Some(state) => panic!("{id} is {state}"),
        }
        found = true;
    }
    found
}

/// Compares everything, and says in a line what was there.
pub fn verify(address: &str, accounts: &Accounts) -> String {
    let (letters, others_pending) = letters(address);
    let (stories, retried) = stories(address);
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for id in accounts.ids() {
        let letter = letters.get(&id).map(String::as_str);
        let place = place(address, &id, letter);
        let told = stories.get(&id).copied();
        accounts.with(&id, |account| check(&id, account, place, told));
        *places.entry(place).or_default() += 1;
    }
    let (least, most) = accounts.retries();
    assert!(retried >= least, "{retried} retries are told, {least} were heard of");
    assert!(
        most.is_none_or(|most| retried <= most),
        "{retried} retries are told, at most {most:?} were made"
    );
    let ledger = get(address, "/api/v1/ledger?recount=true");
    assert_eq!(ledger["difference"], 0, "{ledger}");
    assert_eq!(ledger["wrongCounters"], 0, "{ledger}");
    assert_eq!(ledger["reprocessing"], 0, "every job has ended: {ledger}");
    assert_eq!(ledger["pending"], places.get("dead").copied().unwrap_or(0) + others_pending, "{ledger}");
    let gone = places.get("gone").copied().unwrap_or(0);
    let never = accounts.ids().iter().filter(|id| !stories.contains_key(*id)).count() as u64;
    assert_eq!(ledger["deleted"], gone - never, "{ledger}");
    for place in ["completed", "cancelled", "dropped", "dead", "gone"] {
        assert!(
            places.contains_key(place),
            "no job came to be {place}: the test proved too little, {places:?}"
        );
    }
    format!("{places:?}, {retried} retries, captured {}", ledger["captured"])
}

/// Event ids of all live letters of jobs, with their status; and how many others wait.
fn letters(address: &str) -> (BTreeMap<String, String>, u64) {
    let (mut letters, mut others_pending, mut cursor) = (BTreeMap::new(), 0, String::new());
    loop {
        let page = get(address, &format!("/api/v1/dead-letters?limit=500&cursor={cursor}"));
        for letter in page["items"].as_array().unwrap() {
            let (id, status) = (letter["eventId"].as_str().unwrap(), letter["status"].as_str().unwrap());
            if letter["source"] != "jobs" {
                others_pending += u64::from(status == "pending");
                continue;
            }
            assert!(letters.insert(id.into(), status.into()).is_none(), "{id} has two letters");
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return (letters, others_pending),
        }
    }
}

/// The one place that a job is in.
fn place(address: &str, id: &str, letter: Option<&str>) -> &'static str {
    let state = state_of(address, id);
    let (status, answer) = ask(address, "GET", &format!("/ojs/v1/dead-letter/{id}"), &Value::Null);
    assert!(status == 200 || status == 404, "{id}: {status} {answer}");
    match (state.as_deref(), status == 200, letter) {
        (Some("completed"), false, None | Some("resolved")) => "completed",
        (Some("cancelled"), false, None | Some("discarded")) => "cancelled",
        (Some("discarded"), false, None | Some("discarded")) => "dropped",
        (Some("discarded"), true, Some("pending")) => "dead",
        (None, false, None) => "gone",
        elsewhere => panic!("{id} is in no place or in two: {elsewhere:?}"),
    }
}

/// Whether the place is one that what was heard can have led to.
fn check(id: &str, account: &Account, place: &str, told: Option<Story>) {
    let here = format!("{id} is {place}: {account:?}, {told:?}");
    match account.ended {
        Some("deleted") => assert_eq!(place, "gone", "{here}"),
        Some(ended) => assert_eq!(place, ended, "{here}"),
        None => {}
    }
    let (told_of, runs_again) = told.map_or((Stage::Never, 0), |story| (story.stage, story.runs_again));
    assert!(account.pushes_tried, "{here}");
    assert!(runs_again <= account.requeues_tried, "{here}");
    let (possible, stages): (bool, &[Stage]) = match place {
        "completed" => (account.acks_tried, &[Stage::Completed]),
        "cancelled" => (account.cancels_tried, &[Stage::Cancelled]),
        "dropped" | "dead" => (true, &[Stage::Discarded]),
        _ if told_of == Stage::Never => (!account.pushed, &[Stage::Never]),
        _ => (account.deletes_tried > 0, &[Stage::Discarded, Stage::Deleted]),
    };
    assert!(possible && stages.contains(&told_of), "{here}");
}

/// How far the events tell of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Never,
    Waiting,
    Running,
    Failed,
    Completed,
    Cancelled,
    Discarded,
    Deleted,
}

#[derive(Clone, Copy, Debug)]
struct Story {
    stage: Stage,
    /// Runs that began without an end of the one before: it was given back, which no event tells.
    runs_again: u64,
}

/// Reads every event in order and follows each job; also how often one was put back from the dead letter.
fn stories(address: &str) -> (BTreeMap<String, Story>, u64) {
    let mut stories: BTreeMap<String, Story> = BTreeMap::new();
    let (mut retried, mut cursor) = (0, "0".to_owned());
    loop {
        let page = get(address, &format!("/ojs/v1/events?limit=1000&after={cursor}"));
        for event in page["events"].as_array().unwrap() {
            let (kind, id) = (event["type"].as_str().unwrap(), event["subject"].as_str().unwrap());
            let story = stories.entry(id.into()).or_insert(Story { stage: Stage::Never, runs_again: 0 });
            let before = story.stage;
            story.stage = match (before, kind) {
                (Stage::Never, "job.enqueued") => Stage::Waiting,
                (Stage::Waiting, "job.started") => Stage::Running,
                (Stage::Running, "job.started") => {
                    story.runs_again += 1;
                    Stage::Running
                }
                (Stage::Running, "job.completed") => Stage::Completed,
                (Stage::Running, "job.failed") => Stage::Failed,
                (Stage::Failed, "job.retrying") => Stage::Waiting,
                (Stage::Failed, "job.discarded") => Stage::Discarded,
                (Stage::Waiting | Stage::Running, "job.cancelled") => Stage::Cancelled,
                (Stage::Discarded, "dead_letter.retried") => {
                    retried += 1;
                    Stage::Waiting
                }
                (Stage::Discarded, "dead_letter.deleted") => Stage::Deleted,
                (
                    stage,
                    "dead_letter.added"
                    | "dead_letter.relapsed"
                    | "dead_letter.recurred"
                    | "dead_letter.resolved"
                    | "dead_letter.discarded",
                ) => stage,
                _ => panic!("{id}: {kind} cannot follow {before:?}: {event}"),
            };
        }
        cursor = page["cursor"].as_str().unwrap().to_owned();
        if page["has_more"] == false {
            return (stories, retried);
        }
    }
}
