//! What limits do to letters: age, count, both, per queue, archive, floor, hold, restore, and where they meet.
//!
//! Each case is a row: the configuration, letters by their age, and what becomes of each. A dry run before it has to say the
//! same as the prune does.

use std::collections::BTreeMap;

use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_server::operations::Progress;
use lazaret_server::retention;
use lazaret_store::sqlite::Mode;
use lazaret_store::{Archive, Store};
use serde_json::{Value, json};

use super::ojs_dead_letter::dead;
use super::redrive_rig::configured;
use super::retention_cases::Fate::{Archived, Gone, Live};
use super::retention_cases::{CASES, Fate, Is, Row};
use super::rig::TestApp;

pub const DAY_MS: i64 = 86_400_000;

/// The letters of a case, by name.
type Ids = BTreeMap<&'static str, LetterId>;

pub fn parsed(id: &str) -> LetterId {
    LetterId::parse(id).unwrap()
}

pub fn entry(event: &str) -> Value {
    json!({
        "eventId": event,
        "originalEvent": {"pattern": "order.created", "event": event},
        "error": {"type": "Timeout", "message": "timed out"},
    })
}

/// Reports to a source and gives the letter's id.
pub async fn report(app: &TestApp, source: &str, event: &str) -> String {
    let answer = app.post(&format!("/api/v1/dead-letters?source={source}"), &entry(event)).await.expect(200);
    answer["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A job that died, by its letter.
pub async fn dead_letter(app: &TestApp, queue: &str) -> String {
    let job = dead(app, queue, "t", "E").await;
    let page = app.get(&format!("/api/v1/dead-letters?source=jobs&eventId={job}")).await.expect(200);
    page["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{page}")).to_owned()
}

/// Prunes until nothing more goes.
pub async fn prune(app: &TestApp) {
    app.pass(5 * 60_000);
    while retention::tick(&app.app).await.unwrap() == Progress::More {}
}

async fn decide(app: &TestApp, id: &str, action: &str) {
    let path = format!("/api/v1/dead-letters/{id}/{action}");
    app.post(&path, &json!({"reason": "so"})).await.expect(200);
}

/// Lets a letter come to be as its row says, but for what is done later.
async fn arrive(app: &TestApp, (name, source, _, is, _): Row) -> LetterId {
    let id = match source.strip_prefix("jobs/") {
        Some(queue) => dead_letter(app, queue).await,
        None => report(app, source, name).await,
    };
    match is {
        Is::Pending | Is::Planned | Is::DiedAgain(_) => {}
        Is::Resolved => decide(app, &id, "resolve").await,
        Is::Discarded => decide(app, &id, "discard").await,
        Is::Held => decide(app, &id, "hold").await,
        Is::Deleted => decide(app, &id, "delete").await,
    }
    parsed(&id)
}

/// Plays the rows in the order of time.
async fn play(app: &TestApp, rows: &'static [Row]) -> Ids {
    let mut moments: Vec<(i64, Row, &str)> = Vec::new();
    for row in rows {
        moments.push((row.2, *row, "arrive"));
        if let Is::DiedAgain(days) = row.3 {
            moments.push((days, *row, "die again"));
        }
    }
    moments.sort_by_key(|(days, ..)| std::cmp::Reverse(*days));
    let mut ids = Ids::new();
    let mut days_ago = moments[0].0;
    for (days, row, what) in moments {
        app.pass((days_ago - days) * DAY_MS);
        days_ago = days;
        match what {
            "arrive" => {
                ids.insert(row.0, arrive(app, row).await);
            }
            _ => {
                let mut again = entry(row.0);
                again["createdAt"] = json!(app.app.clock.now().to_string());
                app.report(&again).await;
            }
        }
    }
    app.pass(days_ago * DAY_MS);
    ids
}

async fn plan(app: &TestApp, rows: &[Row], ids: &Ids) {
    for (name, ..) in rows.iter().filter(|row| row.3 == Is::Planned) {
        let page = app.get(&format!("/api/v1/dead-letters/{}", ids[name])).await.expect(200);
        let wish = json!({"filter": {"eventId": page["eventId"]}, "pace": "unlimited"});
        let plan = app.post("/api/v1/redrives/plan", &wish).await.expect(201);
        assert_eq!(plan["count"], 1, "{plan}");
    }
}

pub async fn place_of(app: &TestApp, id: LetterId) -> Option<Place> {
    if app.store.history(id).await.unwrap().is_some() {
        return Some(Place::Live);
    }
    app.store.archived_letter(id).await.unwrap().map(|archived| archived.letter.place)
}

async fn fate(app: &TestApp, id: LetterId) -> Fate {
    match place_of(app, id).await {
        Some(Place::Live) => Live,
        // Its content is kept, which is what the table is about.
        Some(Place::Archived | Place::Deleted) => Archived,
        None => Gone,
    }
}

#[tokio::test]
async fn limits_push_out_what_they_say_and_nothing_else() {
    for case in CASES {
        let app = TestApp::with(configured(case.config), Mode::Real).await;
        let ids = play(&app, case.letters).await;
        plan(&app, case.letters, &ids).await;
        let would = app.post("/api/v1/prune", &json!({"dryRun": true})).await.expect(200);
        prune(&app).await;
        let mut fates = BTreeMap::new();
        for (name, id) in &ids {
            fates.insert(*name, fate(&app, *id).await);
        }
        let expected: BTreeMap<_, _> = case.letters.iter().map(|row| (row.0, row.4)).collect();
        assert_eq!(fates, expected, "{}", case.name);
        let pruned = |fate: Fate| {
            let by_limit = case.letters.iter().filter(|row| row.4 == fate && row.3 != Is::Deleted);
            by_limit.count()
        };
        let told = (&would["archived"], &would["deleted"], &would["complete"]);
        assert_eq!(told, (&json!(pruned(Archived)), &json!(pruned(Gone)), &json!(true)), "{would}");
        let again = app.post("/api/v1/prune", &json!({})).await.expect(200);
        assert_eq!((&again["archived"], &again["deleted"]), (&json!(0), &json!(0)), "{}", case.name);
        app.check().await;
    }
}

#[tokio::test]
async fn a_dry_run_says_what_would_go_where_to_and_why() {
    let config = "[sources.report.retention]\nmax_age = '50d'\nmax_count = 1\npruning_policy = 'delete'\n";
    let app = TestApp::with(configured(config), Mode::Real).await;
    report(&app, "report", "beyond").await;
    let held = report(&app, "report", "held").await;
    decide(&app, &held, "hold").await;
    app.pass(40 * DAY_MS);
    report(&app, "report", "inside").await;
    app.pass(51 * DAY_MS);
    report(&app, "report", "a").await;
    let would = app.post("/api/v1/prune", &json!({"dryRun": true})).await.expect(200);
    let expected = json!({
        "dryRun": true, "complete": true, "archived": 2, "deleted": 1, "unmet": [],
        "nextPruneAt": "2027-02-14T03:05:00.000Z",
        "queues": [{
            "source": "report", "queue": "report", "status": "pending", "reason": "max_age",
            "archived": 1, "deleted": 1, "insideFloor": 1, "planned": 0, "held": 1,
            "oldestAt": "2026-11-15T03:00:00.000Z", "newestAt": "2026-12-25T03:00:00.000Z",
            "why": "older than P50D; 1 younger than min_age P90D: archived; 1 older than min_age P90D: deleted by policy delete; 1 held: kept",
        }, {
            "source": "report", "queue": "report", "status": "pending", "reason": "max_count",
            "archived": 1, "deleted": 0, "insideFloor": 1, "planned": 0, "held": 1,
            "oldestAt": "2027-02-14T03:00:00.000Z", "newestAt": "2027-02-14T03:00:00.000Z",
            "why": "beyond 1 letters, oldest first; 1 younger than min_age P90D: archived; 1 held: kept",
        }],
    });
    assert_eq!(would, expected);
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 4, "nothing was removed");
    let done = app.post("/api/v1/prune", &json!({})).await.expect(200);
    assert_eq!((&done["dryRun"], &done["complete"]), (&json!(false), &json!(true)));
    assert_eq!((&done["archived"], &done["deleted"]), (&json!(2), &json!(1)), "{done}");
    app.post("/api/v1/prune", &json!({"dryRun": 1})).await.problem(400, "bad_request");
    app.post("/api/v1/prune", &json!({"dry": true})).await.problem(400, "bad_request");
    app.check().await;
}

#[tokio::test]
async fn a_count_that_holds_keep_from_being_met_is_told() {
    let app = TestApp::with(configured("[sources.report.retention]\nmax_count = 1\n"), Mode::Real).await;
    for event in ["a", "b", "c"] {
        let id = report(&app, "report", event).await;
        decide(&app, &id, "hold").await;
        app.pass(1_000);
    }
    prune(&app).await;
    let unmet = json!([{"scope": "source", "source": "report", "letters": 2}]);
    let done = app.post("/api/v1/prune", &json!({})).await.expect(200);
    assert_eq!((&done["unmet"], &done["archived"]), (&unmet, &json!(0)));
    let would = app.post("/api/v1/prune", &json!({"dryRun": true})).await.expect(200);
    assert_eq!(would["unmet"], unmet);
    let told = app.get("/api/v1/retention").await.expect(200);
    let count =
        json!([{"scope": "source", "source": "report", "maxCount": 1, "letters": 3, "held": 3, "unmet": 2}]);
    assert_eq!(told["counts"], count);
    let metrics = String::from_utf8(app.get("/metrics").await.bytes).unwrap();
    assert!(metrics.contains("\nlazaret_prune_unmet_letters 2\n"), "{metrics}");
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 3);
    app.check().await;
}

#[tokio::test]
async fn each_queue_shows_its_policy_and_where_it_comes_from() {
    let config = "[retention]\nmax_age = '400d'\n[jobs.retention]\nmax_count = 500\n\
                  [jobs.queues.mails.retention]\nmax_age = '30d'\nmax_count = 'none'\n";
    let app = TestApp::with(configured(config), Mode::Real).await;
    dead_letter(&app, "mails").await;
    report(&app, "report", "e").await;
    let told = app.get("/api/v1/retention").await.expect(200);
    assert_eq!(
        (&told["nextPruneAt"], &told["pruneEvery"]),
        (&json!("2026-11-15T03:05:00.000Z"), &json!("PT5M"))
    );
    let names: Vec<_> =
        told["queues"].as_array().unwrap().iter().map(|queue| queue["queue"].clone()).collect();
    assert_eq!(names, ["mails", "report", "default"]);
    let mails = &app.get("/api/v1/retention?source=jobs&queue=mails").await.expect(200)["queues"][0];
    let of = |value: Value, from: &str| json!({"value": value, "from": from});
    assert_eq!(mails["maxAge"], of("P30D".into(), "queue"));
    assert_eq!(mails["maxCount"], of(Value::Null, "queue"));
    assert_eq!(mails["minAge"], of("P90D".into(), "default"));
    assert_eq!(mails["pruningPolicy"], of("delete".into(), "default"));
    assert_eq!(mails["discardedMaxAge"], of("P180D".into(), "default"));
    assert_eq!((&mails["letters"], &mails["held"]), (&json!({"pending": 1}), &json!(0)));
    assert!(mails.get("countedWith").is_none());
    let note = mails["notes"][0].as_str().unwrap();
    assert!(note.starts_with("max_age is shorter than min_age"), "{note}");
    let default = &app.get("/api/v1/retention?queue=default").await.expect(200)["queues"][0];
    assert_eq!(default["maxAge"], of("P400D".into(), "global"));
    assert_eq!(
        (&default["maxCount"], &default["countedWith"]),
        (&of(500.into(), "source"), &json!("source"))
    );
    app.get("/api/v1/retention?q=x").await.problem(400, "bad_request");
}

#[tokio::test]
async fn each_commit_tells_of_itself_by_queue_and_in_the_audit_log() {
    let config = "[retention]\nmax_age = '10d'\n[jobs.retention]\nmin_age = '0s'\n";
    let app = TestApp::with(configured(config), Mode::Real).await;
    for queue in ["a", "a", "b"] {
        dead_letter(&app, queue).await;
    }
    report(&app, "report", "e").await;
    app.pass(11 * DAY_MS);
    prune(&app).await;
    let events = app.get("/api/v1/events?after=0&kind=dead_letter.pruned").await.expect(200);
    // How many commits it takes is a matter of time; what they say together is not.
    let mut told: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for event in events["items"].as_array().unwrap() {
        let (text, number) = (
            |key: &str| event["detail"][key].as_str().unwrap().to_owned(),
            |key: &str| event["detail"][key].as_u64().unwrap(),
        );
        assert_eq!(text("reason"), "max_age");
        let sum = told.entry((text("source"), text("queue"))).or_default();
        *sum = (sum.0 + number("archived"), sum.1 + number("deleted"));
    }
    let key = |source: &str, queue: &str| (source.to_owned(), queue.to_owned());
    let expected =
        [(key("jobs", "a"), (0, 2)), (key("jobs", "b"), (0, 1)), (key("report", "report"), (1, 0))];
    assert_eq!(told, expected.into());
    let audit = app.get("/api/v1/audit").await.expect(200);
    let pruned: Vec<&Value> =
        audit["items"].as_array().unwrap().iter().filter(|entry| entry["action"] == "prune").collect();
    assert_eq!(pruned.len(), events["items"].as_array().unwrap().len(), "{audit}");
    assert!(pruned.iter().all(|entry| entry["reason"] == "max_age"), "{audit}");
    assert_eq!(pruned.iter().map(|entry| entry["count"].as_u64().unwrap()).sum::<u64>(), 4, "{audit}");
    let ledger = app.get("/api/v1/ledger?recount=true").await.expect(200);
    assert_eq!(
        (&ledger["archived"], &ledger["pruned"], &ledger["deleted"]),
        (&json!(1), &json!(3), &json!(0))
    );
    app.check().await;
}

#[tokio::test]
async fn it_prunes_at_every_full_five_minutes_and_only_then() {
    let app = TestApp::with(configured("[sources.report.retention]\nmax_count = 1\n"), Mode::Real).await;
    let total = async || app.get("/api/v1/dead-letters").await.expect(200)["total"].clone();
    report(&app, "report", "a").await;
    app.pass(1);
    report(&app, "report", "b").await;
    app.pass(5 * 60_000 - 2);
    assert_eq!(retention::tick(&app.app).await.unwrap(), Progress::Idle);
    assert_eq!(total().await, 2);
    app.pass(1);
    while retention::tick(&app.app).await.unwrap() == Progress::More {}
    assert_eq!(total().await, 1);
    app.pass(1);
    report(&app, "report", "c").await;
    assert_eq!(retention::tick(&app.app).await.unwrap(), Progress::Idle);
    assert_eq!(total().await, 2, "it is not time yet");
    app.check().await;
}

#[tokio::test]
async fn more_than_one_batch_goes_in_one_pass() {
    let app = TestApp::with(configured("[sources.report.retention]\nmax_count = 10\n"), Mode::Real).await;
    let lines: Vec<String> = (0..350).map(|n| entry(&format!("e{n}")).to_string()).collect();
    app.post_text("/api/v1/dead-letters", "application/x-ndjson", lines.join("\n")).await.expect(200);
    app.pass(1_000);
    prune(&app).await;
    let page = app.get("/api/v1/dead-letters").await.expect(200);
    assert_eq!(page["total"], 10);
    let ledger = app.get("/api/v1/ledger").await.expect(200);
    assert_eq!(ledger["archived"], 340);
    app.check().await;
}

#[tokio::test]
async fn a_policy_that_changes_in_the_middle_of_a_pass_is_the_one_that_counts() {
    let config = configured("[sources.report.retention]\nmax_age = '1d'\n");
    let app = TestApp::with(config, Mode::Real).await;
    let lines: Vec<String> = (0..250).map(|n| entry(&format!("e{n}")).to_string()).collect();
    app.post_text("/api/v1/dead-letters", "application/x-ndjson", lines.join("\n")).await.expect(200);
    app.pass(2 * DAY_MS);
    assert_eq!(retention::tick(&app.app).await.unwrap(), Progress::More);
    let left = app.get("/api/v1/dead-letters").await.expect(200)["total"].as_u64().unwrap();
    assert!(left < 250);
    let relaxed = app.app.under(configured("[sources.report.retention]\nmax_age = '9d'\n"));
    while retention::tick(&relaxed).await.unwrap() == Progress::More {}
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], left);
    app.check().await;
}

#[tokio::test]
async fn a_restored_letter_has_its_age_anew_and_its_floor_not() {
    let config = "[sources.report.retention]\nmax_age = '60d'\npruning_policy = 'delete'\n";
    let app = TestApp::with(configured(config), Mode::Real).await;
    let id = report(&app, "report", "e").await;
    decide(&app, &id, "discard").await;
    decide(&app, &id, "reopen").await;
    app.pass(61 * DAY_MS);
    prune(&app).await;
    assert_eq!(place_of(&app, parsed(&id)).await, Some(Place::Archived));
    decide(&app, &id, "restore").await;
    let back = app.store.history(parsed(&id)).await.unwrap().unwrap().letter;
    assert_eq!((back.status, back.place), (Status::Pending, Place::Live));
    app.pass(59 * DAY_MS);
    prune(&app).await;
    assert_eq!(place_of(&app, parsed(&id)).await, Some(Place::Live), "restored 59 days ago");
    app.pass(2 * DAY_MS);
    prune(&app).await;
    assert_eq!(place_of(&app, parsed(&id)).await, None, "it died 122 days ago, beyond the floor");
    app.check().await;
}

#[tokio::test]
async fn an_old_history_that_is_reported_now_is_young() {
    let app = TestApp::with(configured("[retention]\nmax_age = '1d'\n"), Mode::Real).await;
    let mut old = entry("old");
    old["createdAt"] = json!("2020-01-01T00:00:00Z");
    let id = app.report(&old).await;
    prune(&app).await;
    assert_eq!(place_of(&app, parsed(&id)).await, Some(Place::Live));
    app.pass(DAY_MS);
    prune(&app).await;
    assert_eq!(place_of(&app, parsed(&id)).await, Some(Place::Archived), "and inside the floor");
    app.check().await;
}

#[tokio::test]
async fn a_delete_by_hand_keeps_the_content_for_as_long_as_the_queues_floor() {
    let config = "[sources.short]\nkind = 'report'\nretention = { min_age = '10d' }\n";
    let app = TestApp::with(configured(config), Mode::Real).await;
    let short = report(&app, "short", "a").await;
    let long = report(&app, "report", "b").await;
    app.pass(11 * DAY_MS);
    decide(&app, &short, "delete").await;
    decide(&app, &long, "delete").await;
    assert_eq!(place_of(&app, parsed(&short)).await, None);
    assert_eq!(place_of(&app, parsed(&long)).await, Some(Place::Deleted));
    // Of many the longest floor counts.
    let other = report(&app, "short", "c").await;
    app.pass(11 * DAY_MS);
    let wish = json!({"filter": {"source": "short"}, "expectedCount": 1, "reason": "so"});
    app.post("/api/v1/dead-letters/delete", &wish).await.expect(200);
    assert_eq!(place_of(&app, parsed(&other)).await, Some(Place::Deleted));
    app.check().await;
}
