//! Redrives from the plan to the closed incident, against a destination that answers as it is told.

use lazaret_core::filter::Filter;
use lazaret_core::gate::Shut;
use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, Pace, RunState};
use lazaret_server::redrive::{self, Glass, LaunchRequest, NotRedriven, PlanRequest, Selection, Wanted};
use lazaret_store::redrive::RunStep;

use super::redrive_rig::{Does, GOVERNED, Rig, Scripted, anna, at_once, canaries};

#[tokio::test]
async fn a_plan_says_what_would_happen_and_sends_nothing() {
    let rig = Rig::new().await;
    for n in 0..3 {
        rig.dies(n, (n > 0).then_some("o-1")).await;
    }
    let refused = rig.plan(Wanted::default()).await;
    assert_eq!((refused.redrive.refused, refused.redrive.letters[&Outcome::Waiting]), (3, 0));
    let refusal = &refused.plan.refusals[0];
    assert_eq!((refusal.code.as_str(), refusal.count, refusal.incidents.len()), ("rca_required", 3, 1));
    rig.fixed().await;
    let planned = rig.plan(Wanted::default()).await;
    let (redrive, plan) = (&planned.redrive, &planned.plan);
    assert_eq!((redrive.state, redrive.total, redrive.refused), (RunState::Planned, 3, 0));
    assert_eq!(redrive.letters[&Outcome::Waiting], 3);
    assert_eq!((plan.lanes.total, plan.lanes.unordered), (1, 1));
    assert_eq!(plan.duration, "PT1.200S");
    assert_eq!(plan.destinations[0].name, "report");
    assert_eq!(plan.destinations[0].address.as_deref(), Some("scripted"));
    assert_eq!(plan.samples.len(), 3);
    assert!(plan.samples[0].body.as_ref().unwrap().contains("\"n\":0"), "{:?}", plan.samples);
    assert_eq!(plan.incidents.len(), 1);
    assert!(plan.warnings.iter().any(|text| text.contains("the audit")), "{:?}", plan.warnings);
    assert_eq!(redrive::Plan::of(redrive.plan.as_deref()), *plan);
    rig.tick().await;
    assert!(rig.to.numbers().is_empty());
    rig.test.check().await;
}

#[tokio::test]
async fn nothing_is_planned_without_a_filter_or_against_the_stated_count() {
    let rig = Rig::new().await;
    rig.dies(0, None).await;
    let plan = |selection: Selection| {
        let request =
            PlanRequest { selection, expected: None, wanted: Wanted::default(), reason: None, by: anna() };
        redrive::plan(&rig.app, request)
    };
    let empty = plan(Selection::Filter(Filter::default())).await;
    assert!(matches!(empty, Err(NotRedriven::FilterRequired)), "{empty:?}");
    let wrong = plan(Selection::All { expected: 2 }).await;
    assert!(matches!(wrong, Err(NotRedriven::CountMismatch { count: 1, expected: 2 })), "{wrong:?}");
    assert_eq!(plan(Selection::All { expected: 1 }).await.unwrap().redrive.total, 1);
    let unknown = plan(Selection::Letters(vec![lazaret_core::id::LetterId::from_bytes([7; 16])])).await;
    assert!(matches!(unknown, Err(NotRedriven::UnknownLetter(_))), "{unknown:?}");
}

#[tokio::test]
async fn canaries_go_first_the_rest_follows_and_the_incident_closes() {
    let rig = Rig::new().await;
    let mut letters = Vec::new();
    for n in 0..10 {
        letters.push(rig.dies(n, None).await);
    }
    rig.fixed().await;
    rig.to.always(Does::Take);
    let id = rig.launched(canaries(2)).await;
    assert_eq!(rig.incident_state().await, IncidentState::Redriving);
    rig.tick().await;
    assert_eq!(rig.state(id).await.0, RunState::Canary);
    let first = rig.to.got.lock().unwrap().clone();
    assert_eq!(first.len(), 2);
    for outgoing in first {
        let proof = lazaret_server::redrive::ReceiptGiven {
            letter: outgoing.letter,
            life: outgoing.life,
            redrive: Some(outgoing.redrive),
            outcome: redrive::ReceiptOutcome::Succeeded,
            at: None,
            by: "billing".into(),
        };
        assert_eq!(redrive::receive(&rig.app, proof).await.unwrap(), redrive::Received::Resolved);
    }
    rig.to.always(Does::Deliver);
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("succeeded", 10)]);
    assert_eq!(rig.state(id).await, (RunState::Done, None));
    assert!(rig.run(id).await.canary_passed);
    for letter in letters {
        assert_eq!(rig.status(letter).await, Status::Resolved);
    }
    assert_eq!(rig.incident_state().await, IncidentState::Closed);
    assert_eq!(rig.to.numbers().len(), 10, "each was sent once");
    rig.test.check().await;
}

#[tokio::test]
async fn a_canary_that_fails_pauses_the_run_before_the_rest_is_sent() {
    let rig = Rig::new().await;
    for n in 0..10 {
        rig.dies(n, None).await;
    }
    rig.fixed().await;
    rig.to.always(Does::Refuse);
    let id = rig.launched(canaries(2)).await;
    rig.tick().await;
    assert_eq!(rig.state(id).await, (RunState::Paused, Some("canary: failed".into())));
    assert_eq!(rig.to.numbers().len(), 2);
    assert_eq!(rig.letters(id).await, [("waiting", 8), ("failed", 2)]);
    rig.test.check().await;
}

#[tokio::test]
async fn canaries_that_are_not_verified_in_time_pause_the_run() {
    let rig = Rig::new().await;
    for n in 0..4 {
        rig.dies(n, None).await;
    }
    rig.fixed().await;
    rig.to.always(Does::Take);
    let wanted = Wanted { quiet_ms: Some(2 * limits::CANARY_MS_MIN), ..canaries(2) };
    let id = rig.launched(wanted).await;
    rig.tick().await;
    rig.test.pass(limits::CANARY_MS_MIN + 1);
    rig.tick().await;
    assert_eq!(rig.state(id).await, (RunState::Paused, Some("canary: not verified in time".into())));
    assert_eq!(rig.to.numbers().len(), 2);
}

#[tokio::test]
async fn silence_after_the_quiet_window_is_taken_for_success() {
    let rig = Rig::new().await;
    for n in 0..3 {
        rig.dies(n, None).await;
    }
    rig.fixed().await;
    rig.to.always(Does::Take);
    let id = rig.launched(at_once()).await;
    rig.tick().await;
    assert_eq!(rig.state(id).await.0, RunState::Verifying);
    assert_eq!(rig.incident_state().await, IncidentState::Verifying);
    rig.test.pass(limits::CANARY_MS_MIN + 1);
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("assumed", 3)]);
    assert_eq!(rig.state(id).await.0, RunState::Done);
    assert_eq!(rig.incident_state().await, IncidentState::Closed);
    rig.test.check().await;
}

#[tokio::test]
async fn a_run_of_which_too_much_fails_stops_by_itself() {
    let rig = Rig::new().await;
    for n in 0..40 {
        rig.dies(n, None).await;
    }
    rig.fixed().await;
    rig.to.always(Does::Refuse);
    let wanted = Wanted { concurrency: Some(2), ..at_once() };
    let id = rig.launched(wanted).await;
    rig.tick().await;
    let (state, why) = rig.state(id).await;
    assert_eq!(state, RunState::Stopped, "{why:?}");
    assert!(why.is_some());
    let sent = rig.to.numbers().len();
    assert!(sent < 10, "{sent} letters were sent to a destination that refuses all of them");
    assert!(rig.letters(id).await.contains(&("waiting", 40 - sent as u64)), "{:?}", rig.letters(id).await);
    rig.test.check().await;
}

#[tokio::test]
async fn relapses_stop_a_run_and_the_incident_has_come_back() {
    let rig = Rig::new().await;
    for n in 0..20 {
        rig.dies(n, None).await;
    }
    rig.fixed().await;
    rig.to.always(Does::Take);
    let id =
        rig.launched(Wanted { pace: Some(Pace::from_per_minute(Some(600)).unwrap()), ..at_once() }).await;
    for _ in 0..6 {
        rig.tick().await;
        rig.test.pass(100);
    }
    let got = rig.to.got.lock().unwrap().clone();
    assert!((3..20).contains(&got.len()), "{} letters at 600 a minute", got.len());
    for outgoing in &got {
        let n = serde_json::from_slice::<serde_json::Value>(&outgoing.body).unwrap()["n"].as_u64().unwrap();
        rig.dies_again(n, outgoing).await;
    }
    rig.tick().await;
    assert_eq!(rig.state(id).await.0, RunState::Stopped);
    assert_eq!(rig.incident_state().await, IncidentState::Regressed);
    assert!(rig.letters(id).await.contains(&("relapsed", got.len() as u64)), "{:?}", rig.letters(id).await);
    let again = redrive::step(&rig.app, id, RunStep::Resume, anna()).await;
    assert!(matches!(again, Err(NotRedriven::Shut(_))), "{again:?}");
    rig.test.check().await;
}

#[tokio::test]
async fn letters_of_one_order_key_go_one_after_the_other_and_stop_at_the_first_that_fails() {
    let rig = Rig::new().await;
    for n in 0..4 {
        rig.dies(n, Some("o-1")).await;
        rig.dies(10 + n, Some("o-2")).await;
    }
    rig.fixed().await;
    rig.to.does(1, Does::Refuse);
    let wanted = Wanted { stop_percent: Some(100), ..at_once() };
    let id = rig.launched(wanted).await;
    rig.tick().await;
    let of = |from: u64| {
        rig.to.numbers().into_iter().filter(|n| (from..from + 10).contains(n)).collect::<Vec<_>>()
    };
    assert_eq!(of(0), [0, 1]);
    assert_eq!(of(10), [10, 11, 12, 13]);
    assert_eq!(rig.letters(id).await, [("succeeded", 5), ("failed", 1), ("lane_blocked", 2)]);
    assert_eq!(rig.state(id).await.0, RunState::Done);
    assert_eq!(rig.incident_state().await, IncidentState::Fixed, "letters are left, and nothing relapsed");
    rig.test.check().await;
}

#[tokio::test]
async fn a_run_is_paused_resumed_paced_and_cancelled() {
    let rig = Rig::new().await;
    for n in 0..10 {
        rig.dies(n, None).await;
    }
    rig.fixed().await;
    let slow = Pace::from_per_minute(Some(60)).unwrap();
    let id = rig.launched(Wanted { pace: Some(slow), ..at_once() }).await;
    let step = |step: RunStep| redrive::step(&rig.app, id, step, anna());
    rig.tick().await;
    assert_eq!(rig.to.numbers().len(), 1, "one a second");
    step(RunStep::Pause("lunch".into())).await.unwrap();
    rig.test.pass(5_000);
    rig.tick().await;
    assert_eq!(rig.to.numbers().len(), 1);
    assert_eq!(rig.state(id).await, (RunState::Paused, Some("lunch".into())));
    step(RunStep::Resume).await.unwrap();
    rig.tick().await;
    assert_eq!(rig.to.numbers().len(), 2, "what was not sent in the pause is not caught up with");
    let fast = Pace::from_per_minute(Some(180)).unwrap();
    step(RunStep::Pace(fast)).await.unwrap();
    rig.test.pass(1_000);
    rig.tick().await;
    assert_eq!(rig.to.numbers().len(), 5, "three a second");
    let cancelled = step(RunStep::Cancel(None)).await.unwrap();
    assert_eq!(cancelled.letters[&Outcome::Cancelled], 5);
    rig.test.pass(60_000);
    rig.tick().await;
    assert_eq!(rig.to.numbers().len(), 5);
    assert_eq!(rig.letters(id).await, [("succeeded", 5), ("cancelled", 5)]);
    let resumed = step(RunStep::Resume).await;
    assert!(matches!(resumed, Err(NotRedriven::State { state: RunState::Cancelled, .. })), "{resumed:?}");
    rig.test.check().await;
}

#[tokio::test]
async fn a_launch_needs_the_count_a_plan_that_is_not_old_and_an_open_gate() {
    let rig = Rig::new().await;
    rig.dies(0, None).await;
    rig.fixed().await;
    let planned = rig.plan(at_once()).await.redrive.id;
    let wrong = rig.try_launch(planned, 2).await;
    assert!(matches!(wrong, Err(NotRedriven::CountMismatch { count: 1, expected: 2 })), "{wrong:?}");
    // Another event of the same cause dies after the fix.
    rig.dies(1, None).await;
    assert_eq!(rig.incident_state().await, IncidentState::Regressed);
    let shut = rig.try_launch(planned, 1).await;
    assert!(matches!(&shut, Err(NotRedriven::Shut(shut)) if shut[0].shut == Shut::Regressed), "{shut:?}");
    rig.fixed().await;
    rig.test.pass(limits::PLAN_AGE_MS_MAX);
    let old = rig.try_launch(planned, 1).await;
    assert!(matches!(old, Err(NotRedriven::PlanExpired(_))), "{old:?}");
    redrive::drop_plans(&rig.app).await.unwrap();
    assert_eq!(rig.state(planned).await.0, RunState::Cancelled);
    assert!(rig.to.numbers().is_empty());
}

#[tokio::test]
async fn the_glass_is_broken_by_who_may_with_a_reason_and_the_whole_count() {
    let rig = Rig::new().await;
    for n in 0..3 {
        rig.dies(n, None).await;
    }
    let id = rig.plan(at_once()).await.redrive.id;
    let launch = |reason: &str, glass: Glass, count: u64| {
        let break_glass = Some(reason.to_owned());
        let request = LaunchRequest { count, wanted: Wanted::default(), break_glass, glass, by: anna() };
        redrive::launch(&rig.app, id, request)
    };
    let reason = "the shop is closed until they are through";
    let forbidden = launch(reason, Glass::OutOfReach, 3).await;
    assert!(matches!(forbidden, Err(NotRedriven::GlassForbidden)), "{forbidden:?}");
    let short = launch("because", Glass::InReach, 3).await;
    assert!(matches!(short, Err(NotRedriven::GlassReason)), "{short:?}");
    let counted = launch(reason, Glass::InReach, 0).await;
    assert!(matches!(counted, Err(NotRedriven::CountMismatch { count: 3, expected: 0 })), "{counted:?}");
    assert_eq!(rig.run(id).await.refused, 3, "what was not launched is as it was planned");
    launch(reason, Glass::InReach, 3).await.unwrap();
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("succeeded", 3)]);
    assert_eq!(rig.run(id).await.break_glass.as_deref(), Some(reason));
    let audit = rig.test.get("/api/v1/audit").await.expect(200);
    let actions: Vec<_> = audit["items"].as_array().unwrap().iter().map(|it| it["action"].clone()).collect();
    assert!(actions.contains(&"break_glass".into()), "{actions:?}");
    rig.test.check().await;
}

#[tokio::test]
async fn a_letter_that_moved_before_its_turn_is_skipped() {
    let rig = Rig::with(&format!("{GOVERNED}governance = 'optional'\n"), Scripted::new(false)).await;
    let one = rig.dies(0, None).await;
    rig.dies(1, None).await;
    let planned = rig.plan(at_once()).await;
    let single = rig.single(one, super::redrive_rig::plain()).await.unwrap();
    assert_eq!(single.state, RunState::Done);
    rig.try_launch(planned.redrive.id, 2).await.unwrap();
    rig.tick().await;
    assert_eq!(rig.letters(planned.redrive.id).await, [("succeeded", 1), ("skipped", 1)]);
    let skipped = rig.rows(planned.redrive.id).await.into_iter().find(|row| row.letter == one).unwrap();
    assert!(skipped.evidence.is_some());
    assert_eq!(rig.to.numbers(), [0, 1]);
    assert_eq!(rig.run(planned.redrive.id).await.state, RunState::Done);
    rig.test.check().await;
}

#[tokio::test]
async fn what_is_behind_a_refused_letter_is_not_counted_for_its_destination() {
    let rig = Rig::new().await;
    let event = serde_json::json!({"n": 9, "pattern": "order.created", "order": "o-1"});
    let entry = serde_json::json!({"eventId": "e9", "originalEvent": event,
        "error": {"type": "StockError", "message": "no stock"}});
    rig.test.report(&entry).await;
    rig.test.pass(1_000);
    rig.dies(1, Some("o-1")).await;
    rig.dies(2, None).await;
    rig.fixed().await;
    let planned = rig.plan(at_once()).await;
    let refused: Vec<_> = planned.plan.refusals.iter().map(|it| (it.code.as_str(), it.count)).collect();
    assert_eq!(refused, [("rca_required", 1), ("lane_blocked", 1)]);
    let counts: Vec<_> = planned.plan.destinations.iter().map(|to| (to.name.as_str(), to.count)).collect();
    assert_eq!(counts, [("report", 1)]);
    assert_eq!(planned.redrive.letters[&Outcome::Waiting], 1);
}
