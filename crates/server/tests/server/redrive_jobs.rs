//! Jobs that are put back by a redrive, and the gate at the doors of the Open Job Specification.

use lazaret_core::class::Category;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::rca::{Analysis, FixKind};
use lazaret_core::redrive::RunState;
use lazaret_server::redrive;
use lazaret_store::incident::IncidentStep;
use lazaret_store::{Incidents, JobStore, Redrives};
use serde_json::json;

use super::ojs::{error, fetch, job};
use super::ojs_dead_letter::{dead, die, listed};
use super::redrive_rig::{Rig, Scripted, anna, at_once, configured};
use super::rig::TestApp;
use lazaret_store::sqlite::Mode;

const GOVERNED: &str = "[jobs]\ngovernance = 'required'\n";

async fn incident(app: &TestApp) -> IncidentId {
    let list = app.get("/api/v1/incidents").await.expect(200);
    IncidentId::parse(list["items"][0]["id"].as_str().unwrap()).unwrap()
}

async fn step(app: &TestApp, step: IncidentStep) {
    let (id, at) = (incident(app).await, app.app.clock.now());
    app.store.step_incident(id, step, anna(), at).await.unwrap();
    app.pass(1_000);
}

fn analysis(category: Category) -> IncidentStep {
    IncidentStep::Diagnose(Analysis::new(category, "a price is missing", "prices are checked").unwrap())
}

fn fix(app: &TestApp, kind: FixKind) -> IncidentStep {
    IncidentStep::Fix { kind, reference: "pr/1".into(), fixed_at: app.app.clock.now() }
}

#[tokio::test]
async fn a_retry_is_refused_by_what_is_missing_until_nothing_is() {
    let app = TestApp::with(configured(GOVERNED), Mode::Real).await;
    let one = dead(&app, "q", "t", "E").await;
    let retry = || async { app.post(&format!("/ojs/v1/dead-letter/{one}/retry"), &json!({})).await };
    let many = || async {
        app.post("/ojs/v1/dead-letter/retry", &json!({"filter": {"queue": "q"}, "confirm": true})).await
    };
    error(&retry().await, 409, "rca_required");
    step(&app, analysis(Category::Business)).await;
    error(&retry().await, 409, "decision_required");
    error(&many().await, 409, "decision_required");
    step(&app, analysis(Category::PoisonPill)).await;
    error(&retry().await, 409, "poison");
    step(&app, analysis(Category::Contract)).await;
    error(&retry().await, 409, "fix_required");
    error(&many().await, 409, "fix_required");
    assert_eq!(listed(&app, "/ojs/v1/dead-letter").await, [one.as_str()]);
    step(&app, fix(&app, FixKind::Deployed)).await;
    retry().await.expect(200);
    assert_eq!(job(&app, &one).await["state"], "available");
    app.check().await;
}

#[tokio::test]
async fn many_jobs_go_back_by_one_redrive_where_an_analysis_is_required() {
    let app = TestApp::with(configured(GOVERNED), Mode::Real).await;
    let (one, two) = (dead(&app, "q", "t", "E").await, dead(&app, "q", "t", "E").await);
    step(&app, analysis(Category::Contract)).await;
    step(&app, fix(&app, FixKind::Deployed)).await;
    let wish = json!({"filter": {"queue": "q"}, "expected_count": 3, "confirm": true});
    error(&app.post("/ojs/v1/dead-letter/retry", &wish).await, 409, "count_mismatch");
    let wish = json!({"filter": {"queue": "q"}, "expected_count": 2, "confirm": true});
    let done = app.post("/ojs/v1/dead-letter/retry", &wish).await.expect(200);
    assert_eq!((&done["matched"], &done["succeeded"], &done["failed"]), (&json!(2), &json!(2), &json!(0)));
    for one in [&one, &two] {
        assert_eq!(job(&app, one).await["state"], "available");
    }
    let ack = |id: String| async move { json!({"job_id": id, "worker_id": "w"}) };
    assert_eq!(fetch(&app, "q").await.len(), 2);
    for one in [one, two] {
        app.post("/ojs/v1/workers/ack", &ack(one).await).await.expect(200);
    }
    redrive::tick(&app.app).await.unwrap();
    let state = app.store.incident(incident(&app).await).await.unwrap().unwrap().incident.state;
    assert_eq!(state, IncidentState::Closed);
    app.check().await;
}

#[tokio::test]
async fn jobs_of_a_plan_succeed_when_they_are_acked_and_relapse_when_they_die_again() {
    let rig = Rig::with("", Scripted::new(false)).await;
    let (one, two) = (dead(&rig.test, "q", "t", "E").await, dead(&rig.test, "q", "t", "E").await);
    let planned = rig.try_plan("source:jobs", at_once()).await.unwrap();
    let id = rig.try_launch(planned.redrive.id, 2).await.unwrap().id;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("sent", 2)]);
    assert_eq!(rig.state(id).await.0, RunState::Verifying);
    assert_eq!(fetch(&rig.test, "q").await.len(), 2);
    rig.test.post("/ojs/v1/workers/ack", &json!({"job_id": one, "worker_id": "w"})).await.expect(200);
    let nack = json!({"code": "x", "type": "E", "message": "no"});
    super::ojs::nack(&rig.test, &two, nack).await;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("succeeded", 1), ("relapsed", 1)]);
    assert_eq!(rig.state(id).await.0, RunState::Done);
    assert!(rig.to.numbers().is_empty(), "jobs are not sent");
    rig.test.check().await;
}

#[tokio::test]
async fn a_retry_by_a_client_is_a_redrive_too() {
    let rig = Rig::with("", Scripted::new(false)).await;
    let one = dead(&rig.test, "q", "t", "E").await;
    rig.test.post(&format!("/ojs/v1/dead-letter/{one}/retry"), &json!({})).await.expect(200);
    let job = lazaret_core::id::JobId::parse(&one).unwrap();
    let letter = rig.test.store.letter_of_job(job).await.unwrap().unwrap().letter.id;
    let redrives = rig.test.store.redrives_of(letter).await.unwrap();
    assert_eq!(redrives.len(), 1);
    assert_eq!((redrives[0].0.kind.name(), redrives[0].1.outcome.name()), ("single", "sent"));
    die(&rig.test, &one, "q", "E").await;
    rig.tick().await;
    let redrives = rig.test.store.redrives_of(letter).await.unwrap();
    assert_eq!((redrives[0].0.state, redrives[0].1.outcome.name()), (RunState::Done, "relapsed"));
    rig.test.check().await;
}
