//! Replay rules: dead jobs go back by themselves, when their time has come and as often as they may.

use lazaret_server::config::{self, Config, Overrides};
use lazaret_server::operations::Progress;
use lazaret_server::replay;
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::ojs::{fetch, id, job, nack, push};
use super::rig::TestApp;

const HOUR_MS: i64 = 3_600_000;

fn configured(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lazaret.toml");
    std::fs::write(&path, text).unwrap();
    config::load(Some(&path), [], Overrides::default()).unwrap()
}

async fn server(rules: &str) -> TestApp {
    TestApp::with(configured(rules), Mode::Real).await
}

fn rule(name: &str, rest: &str) -> String {
    format!("[[replay_rules]]\nname = '{name}'\ncategory = 'infrastructure'\n{rest}\n")
}

/// Connection errors go back after an hour, twice.
fn connections() -> String {
    rule("connections", "filter = { error_type = 'ConnectionError' }\ndelay = 'PT1H'\nmax_replays = 2")
}

async fn pushed(app: &TestApp, queue: &str) -> String {
    let options = json!({"queue": queue, "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
    let wish = json!({"type": "mail.send", "args": [1], "meta": {"k": "v"}, "options": options});
    id(&push(app, wish).await)
}

async fn die(app: &TestApp, one: &str, queue: &str, error: &str) {
    assert!(fetch(app, queue).await.iter().any(|job| job["id"] == one));
    let answer = nack(app, one, json!({"code": "x", "type": error, "message": "no"})).await;
    assert_eq!(answer["state"], "discarded");
}

async fn dead(app: &TestApp, queue: &str, error: &str) -> String {
    let one = pushed(app, queue).await;
    die(app, &one, queue, error).await;
    one
}

async fn tick(app: &TestApp) {
    while replay::tick(&app.app).await.unwrap() == Progress::More {}
}

async fn state(app: &TestApp, one: &str) -> String {
    job(app, one).await["state"].as_str().unwrap().to_owned()
}

async fn listed(app: &TestApp, name: &str) -> Value {
    let rules = app.get("/api/v1/rules/replay").await.expect(200);
    let found = rules["items"].as_array().unwrap().iter().find(|rule| rule["name"] == name);
    found.unwrap_or_else(|| panic!("{rules}")).clone()
}

#[tokio::test]
async fn a_dead_job_goes_back_when_its_delay_has_passed_and_not_before() {
    let app = server(&connections()).await;
    let (one, other) = (dead(&app, "q", "ConnectionError").await, dead(&app, "r", "Boom").await);
    app.report(&json!({"eventId": "e", "originalEvent": {}, "error": {"type": "ConnectionError"}})).await;
    for ms in [0, HOUR_MS - 1] {
        app.pass(ms);
        tick(&app).await;
        assert_eq!(state(&app, &one).await, "discarded", "after {ms} ms");
    }
    app.pass(1);
    tick(&app).await;
    let back = job(&app, &one).await;
    assert_eq!((&back["state"], &back["attempt"]), (&json!("available"), &json!(0)), "{back}");
    let meta = json!({
        "k": "v",
        "ojs.replay_count": 1,
        "ojs.last_replayed_at": "2026-11-15T04:00:00.000Z",
        "ojs.replay_rule": "connections",
    });
    assert_eq!(back["meta"], meta);
    assert_eq!(back["errors"].as_array().unwrap().len(), 1, "history only grows");
    assert_eq!(state(&app, &other).await, "discarded", "no rule is about it");
    let dead = app.get("/ojs/v1/dead-letter").await.expect(200);
    assert_eq!((&dead["total"], &dead["jobs"][0]["id"]), (&json!(1), &json!(other)));
    let letters = app.get("/api/v1/dead-letters?source=jobs&status=reprocessing").await.expect(200);
    assert_eq!(letters["items"].as_array().unwrap().len(), 1, "{letters}");
    app.check().await;
}

#[tokio::test]
async fn a_rule_puts_a_job_back_so_often_and_no_more() {
    let app = server(&connections()).await;
    let one = dead(&app, "q", "ConnectionError").await;
    for count in [1, 2] {
        app.pass(HOUR_MS);
        tick(&app).await;
        assert_eq!(job(&app, &one).await["meta"]["ojs.replay_count"], count);
        die(&app, &one, "q", "ConnectionError").await;
    }
    app.pass(5 * HOUR_MS);
    tick(&app).await;
    assert_eq!(state(&app, &one).await, "discarded");
    let rule = listed(&app, "connections").await;
    assert_eq!((&rule["replayed"], &rule["waiting"]), (&json!(2), &json!(1)), "{rule}");
    assert_eq!(rule["lastReplayedAt"], "2026-11-15T05:00:00.000Z");
    app.check().await;
}

#[tokio::test]
async fn a_job_of_two_rules_goes_back_by_the_first_and_each_counts_for_itself() {
    let app = server(
        &[
            rule("first", "filter = 'queue:q error:Boom'\ndelay = '1m'\nmax_replays = 1"),
            rule("second", "filter = 'queue:q'\ndelay = '1m'\nmax_replays = 1"),
        ]
        .concat(),
    )
    .await;
    let (one, two) = (dead(&app, "q", "Boom").await, dead(&app, "q", "Bang").await);
    app.pass(60_000);
    tick(&app).await;
    let by = async |one: &str| job(&app, one).await["meta"]["ojs.replay_rule"].clone();
    assert_eq!((by(&one).await, by(&two).await), (json!("first"), json!("second")));
    fetch(&app, "q").await;
    nack(&app, &one, json!({"code": "x", "type": "Boom", "message": "no"})).await;
    app.pass(60_000);
    tick(&app).await;
    let again = job(&app, &one).await;
    assert_eq!(
        (&again["meta"]["ojs.replay_rule"], &again["meta"]["ojs.replay_count"]),
        (&json!("second"), &json!(2))
    );
    app.check().await;
}

#[tokio::test]
async fn more_letters_than_fit_into_a_batch_all_go_back() {
    let app = server(&rule("all", "filter = 'queue:q'\ndelay = '0s'\nmax_replays = 1")).await;
    let mut wishes = Vec::new();
    for n in 0..450 {
        let options = json!({"queue": "q", "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
        wishes.push(json!({"type": "t", "args": [n], "options": options}));
    }
    app.post("/ojs/v1/jobs/batch", &json!({"jobs": wishes})).await.expect(201);
    loop {
        let jobs = fetch(&app, "q").await;
        if jobs.is_empty() {
            break;
        }
        for job in jobs {
            nack(&app, &id(&job), json!({"code": "x", "message": "no"})).await;
        }
    }
    tick(&app).await;
    assert_eq!(app.get("/ojs/v1/dead-letter").await.expect(200)["total"], 0);
    assert_eq!(listed(&app, "all").await["replayed"], 450);
    app.check().await;
}

#[tokio::test]
async fn a_disabled_rule_does_nothing_until_a_person_switches_it_on() {
    let off = rule("off", "filter = 'queue:q'\ndelay = '0s'\nmax_replays = 9\nenabled = false");
    let app = server(&off).await;
    let one = dead(&app, "q", "Boom").await;
    tick(&app).await;
    assert_eq!(state(&app, &one).await, "discarded");
    assert_eq!(
        (&listed(&app, "off").await["enabled"], &listed(&app, "off").await["enabledBy"]),
        (&json!(false), &json!("configuration"))
    );

    let on = app.post("/api/v1/rules/replay/off/enable", &json!({})).await.expect(200);
    assert_eq!(
        (&on["enabled"], &on["enabledBy"], &on["waiting"]),
        (&json!(true), &json!("switch"), &json!(1))
    );
    tick(&app).await;
    assert_eq!(state(&app, &one).await, "available");

    app.post("/api/v1/rules/replay/off/disable", &json!({})).await.expect(200);
    die(&app, &one, "q", "Boom").await;
    tick(&app).await;
    assert_eq!(state(&app, &one).await, "discarded");

    let audit = app.get("/api/v1/audit").await.expect(200);
    let told: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|it| (&it["action"], &it["actor"])).collect();
    for expected in [("rule_disabled", "local"), ("rule_enabled", "local"), ("replay", "rule:off")] {
        let expected = (&json!(expected.0), &json!(expected.1));
        assert!(told.contains(&expected), "{expected:?} is not in {audit}");
    }
    app.check().await;
}

#[tokio::test]
async fn a_rule_that_does_not_exist_cannot_be_switched() {
    let app = server(&connections()).await;
    for name in ["none", "Connections", "a%20b", "%F0%9F%92%A3"] {
        for verb in ["enable", "disable"] {
            app.post(&format!("/api/v1/rules/replay/{name}/{verb}"), &json!({}))
                .await
                .problem(404, "not_found");
        }
    }
    assert_eq!(listed(&app, "connections").await["enabledBy"], "configuration");
}

#[tokio::test]
async fn the_list_shows_each_rule_whole() {
    let text = rule(
        "whole",
        "filter = { queue = ['q', 'r'], error_type = 'Conn*', not = { type = 'x' } }\ndelay = '90m'\nmax_replays = 3\ncause = 'the bank restarts at night'",
    );
    let app = server(&[text, connections()].concat()).await;
    let rules = app.get("/api/v1/rules/replay").await.expect(200);
    let expected = json!({
        "name": "whole",
        "filter": {"queue": ["q", "r"], "errorType": ["Conn*"], "not": {"type": ["x"]}},
        "delay": "PT1H30M",
        "maxReplays": 3,
        "enabled": true,
        "enabledBy": "configuration",
        "cause": "the bank restarts at night",
        "category": "infrastructure",
        "replayed": 0,
        "waiting": 0,
    });
    assert_eq!(rules["items"][0], expected);
    assert_eq!(rules["items"][1]["name"], "connections");
    assert_eq!(TestApp::new().await.get("/api/v1/rules/replay").await.expect(200), json!({"items": []}));
}

#[tokio::test]
async fn a_replay_is_told_on_both_event_routes_with_its_rule() {
    let app = server(&rule("at-once", "filter = 'queue:q'\ndelay = '0s'\nmax_replays = 1")).await;
    let one = dead(&app, "q", "Boom").await;
    tick(&app).await;
    let ojs = app.get("/ojs/v1/events?types=dead_letter.replayed").await.expect(200);
    let event = &ojs["events"][0];
    assert_eq!((&event["subject"], &event["data"]["rule"]), (&json!(one), &json!("at-once")), "{ojs}");
    assert_eq!((&event["data"]["queue"], &event["data"]["job_type"]), (&json!("q"), &json!("mail.send")));
    let own = app.get("/api/v1/events?after=0&kind=dead_letter.replayed").await.expect(200);
    assert!(own.to_string().contains("at-once"), "{own}");
}

#[tokio::test]
async fn a_rule_leaves_what_it_is_no_rca_for() {
    let app = server(&rule("all", "filter = 'queue:*'\ndelay = '0s'\nmax_replays = 9")).await;
    let poison = dead(&app, "a", "JSONDecodeError").await;
    let business = dead(&app, "b", "NotFoundError").await;
    let diagnosed = dead(&app, "c", "Boom").await;
    let letters = app.get("/api/v1/dead-letters?source=jobs&queue=c").await.expect(200);
    let incident = letters["items"][0]["incidentId"].as_str().unwrap();
    let rca = json!({"category": "poison_pill", "rootCause": "it is cut off", "remediation": "discard it"});
    app.post(&format!("/api/v1/incidents/{incident}/rca"), &rca).await.expect(200);
    tick(&app).await;
    for one in [&poison, &business, &diagnosed] {
        assert_eq!(state(&app, one).await, "discarded", "{}", job(&app, one).await);
    }
    let other = dead(&app, "d", "Bang").await;
    tick(&app).await;
    assert_eq!(state(&app, &other).await, "available");
    app.check().await;
}

#[tokio::test]
async fn a_rule_that_fails_holds_up_no_other() {
    let app = server(
        &[
            rule("first", "filter = 'queue:a'\ndelay = '0s'\nmax_replays = 1"),
            rule("second", "filter = 'queue:b'\ndelay = '0s'\nmax_replays = 1"),
        ]
        .concat(),
    )
    .await;
    let (a, b) = (dead(&app, "a", "Boom").await, dead(&app, "b", "Boom").await);
    // Listed now, so that the commit that fails is the first rule's.
    app.get("/api/v1/dead-letters").await.expect(200);
    app.store.failures().plan(FailurePoint::Commit, Failure::Unavailable, 1);
    assert_eq!(replay::tick(&app.app).await.unwrap(), Progress::Idle);
    assert_eq!((state(&app, &a).await.as_str(), state(&app, &b).await.as_str()), ("discarded", "available"));
    tick(&app).await;
    assert_eq!(state(&app, &a).await, "available");
    app.check().await;
}

#[tokio::test]
async fn the_loop_knows_when_the_next_letter_is_due() {
    let app = server(
        &[connections(), rule("soon", "filter = 'queue:soon'\ndelay = '10m'\nmax_replays = 1")].concat(),
    )
    .await;
    let until_due = async || replay::until_due(&app.app).await.unwrap().map(|wait| wait.as_millis() as i64);
    assert_eq!(until_due().await, None);
    dead(&app, "q", "ConnectionError").await;
    assert_eq!(until_due().await, Some(HOUR_MS));
    app.pass(60_000);
    dead(&app, "soon", "Boom").await;
    assert_eq!(until_due().await, Some(600_000));
    app.pass(599_999);
    assert_eq!(until_due().await, Some(100), "a loop has to rest");
    app.pass(1);
    assert_eq!(until_due().await, Some(HOUR_MS - 660_000), "what is due is not waited for");
}
