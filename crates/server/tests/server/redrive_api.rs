//! Redrives as people ask for them: planned, launched, watched, paced, cancelled.

use lazaret_server::config::Success;
use serde_json::{Value, json};

use super::redriving::{all, diagnose, drive, fixed, incident_of, launch_of, plan, report, serving, url};
use super::rig::TestApp;

const REASON: &str = "the bank needs these before midnight";

#[tokio::test]
async fn a_run_tells_what_it_did_step_by_step() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 3).await;
    let planned = plan(&app).await;
    let series = format!("{}/series", url(&planned));
    let nothing = json!({"step": "minute", "from": null, "until": null, "points": []});
    assert_eq!(app.get(&series).await.expect(200), nothing, "it was not launched");
    app.post("/api/v1/redrives", &launch_of(&planned)).await.expect(202);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 3);
    for step in ["minute", "hour"] {
        let told = app.get(&format!("{series}?step={step}")).await.expect(200);
        let point = json!({"at": told["from"], "sent": 3, "good": 3, "bad": 0});
        assert_eq!((&told["step"], &told["points"]), (&json!(step), &json!([point])), "{told}");
        assert!(told["until"].as_str() > told["from"].as_str(), "{told}");
    }
    for (query, what) in [("step=day", "step `day`"), ("since=1h", "since"), ("step=hour&step=hour", "step")]
    {
        let problem = app.get(&format!("{series}?{query}")).await.problem(400, "bad_request");
        assert!(problem["detail"].as_str().unwrap().contains(what), "{problem}");
    }
}

#[tokio::test]
async fn a_plan_sends_nothing_and_its_launch_sends_all() {
    let (app, receiver) = serving(Success::Response).await;
    let (ids, incident) = fixed(&app, 3).await;
    let mut wish = all();
    wish["reason"] = json!("the bank is back");
    let answer = app.post("/api/v1/redrives/plan", &wish).await;
    let planned = answer.expect(201);
    assert_eq!(answer.headers["location"], url(&planned).as_str());
    assert_eq!((&planned["kind"], &planned["state"]), (&json!("plan"), &json!("planned")));
    assert_eq!(
        (&planned["count"], &planned["total"], &planned["refused"]),
        (&json!(3), &json!(3), &json!(0))
    );
    assert_eq!((&planned["by"], &planned["reason"]), (&json!("local"), &json!("the bank is back")));
    assert_eq!(planned["plan"]["types"], json!([{"value": "order.created", "count": 3}]));
    assert_eq!(planned["plan"]["destinations"][0]["name"], "report");
    assert_eq!(planned["plan"]["samples"].as_array().unwrap().len(), 3);
    let (id, added) = (&ids[0], &planned["plan"]["samples"][0]["headersAdded"]);
    assert_eq!((&added["lazaret-letter-id"], &added["lazaret-life"]), (&json!(id), &json!("1")), "{added}");
    assert_eq!(added["idempotency-key"], format!("{id}:1:N"), "{added}");
    assert_eq!(planned["allowedActions"], json!(["launch", "cancel"]));
    assert_eq!(
        (&planned["options"]["pace"], &planned["options"]["canary"]),
        (&json!("unlimited"), &json!(0))
    );
    assert!(planned["expiresAt"].is_string() && planned["launchedAt"].is_null(), "{planned}");
    assert_eq!(receiver.got().len(), 0);
    let answer = app.post("/api/v1/redrives", &launch_of(&planned)).await;
    let launched = answer.expect(202);
    assert_eq!(answer.headers["location"], url(&planned).as_str());
    assert_eq!((&launched["id"], &launched["state"]), (&planned["id"], &json!("running")));
    drive(&app).await;
    let done = app.get(&url(&planned)).await.expect(200);
    assert_eq!((&done["state"], &done["letters"]["succeeded"]), (&json!("done"), &json!(3)), "{done}");
    assert_eq!((&done["successRate"], &done["allowedActions"]), (&json!(1.0), &json!([])));
    assert_eq!(
        (&done["count"], &done["expiresAt"], &done["canaries"]),
        (&json!(3), &Value::Null, &Value::Null)
    );
    assert_eq!(receiver.got().len(), 3);
    let page = app.get(&format!("{}/letters", url(&planned))).await.expect(200);
    for (letter, id) in page["items"].as_array().unwrap().iter().zip(&ids) {
        assert_eq!((&letter["letterId"], &letter["life"]), (&json!(id), &json!(1)));
        assert_eq!((&letter["outcome"], &letter["evidence"]), (&json!("succeeded"), &json!("delivered")));
        assert_eq!(letter["idempotencyKey"], format!("{id}:1:1"));
    }
    let letter = app.get(&format!("/api/v1/dead-letters/{}", ids[0])).await.expect(200);
    assert_eq!(
        (&letter["status"], &letter["resolution"]["strategy"]),
        (&json!("resolved"), &json!("manual_retry"))
    );
    let lineage = &letter["redrives"][0];
    assert_eq!((&lineage["redriveId"], &lineage["outcome"]), (&planned["id"], &json!("succeeded")));
    let closed = app.get(&incident).await.expect(200);
    assert_eq!((&closed["state"], &closed["redrives"][0]["id"]), (&json!("closed"), &planned["id"]));
    assert!(closed["redrivenAt"].is_string());
    app.check().await;
}

#[tokio::test]
async fn what_happens_to_a_redrive_is_told_as_events_and_in_the_audit_log() {
    let (app, _receiver) = serving(Success::Response).await;
    fixed(&app, 1).await;
    let planned = plan(&app).await;
    app.post("/api/v1/redrives", &launch_of(&planned)).await.expect(202);
    drive(&app).await;
    let events = app.get("/api/v1/events?kind=redrive.*&after=0").await.expect(200);
    let kinds: Vec<&str> =
        events["items"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["redrive.planned", "redrive.started", "redrive.done"], "{events}");
    for event in events["items"].as_array().unwrap() {
        assert_eq!(event["detail"]["redrive"], planned["id"], "{event}");
    }
    let audit = app.get("/api/v1/audit").await.expect(200);
    let entry = audit["items"].as_array().unwrap().iter().find(|entry| entry["action"] == "redrive").unwrap();
    assert_eq!((&entry["redriveId"], &entry["count"]), (&planned["id"], &json!(1)));
}

#[tokio::test]
async fn the_gate_says_what_to_do_first() {
    let (app, receiver) = serving(Success::Response).await;
    let id = report(&app, 1).await.remove(0);
    let incident = incident_of(&app, &id).await;
    let retry = format!("/api/v1/dead-letters/{id}/retry");
    let refused = app.post(&retry, &json!({})).await.problem(409, "rca_required");
    assert_eq!(
        (&refused["incidents"][0]["url"], &refused["incidents"][0]["count"]),
        (&json!(incident), &json!(1))
    );
    let planned = plan(&app).await;
    assert_eq!((&planned["count"], &planned["refused"]), (&json!(0), &json!(1)));
    let refusal = &planned["plan"]["refusals"][0];
    assert_eq!((&refusal["code"], &refusal["count"]), (&json!("rca_required"), &json!(1)), "{planned}");
    assert_eq!(refusal["incidents"][0]["url"], incident);
    for (category, code) in
        [("infrastructure", "fix_required"), ("business", "decision_required"), ("poison_pill", "poison")]
    {
        diagnose(&app, &incident, category).await;
        let refused = app.post(&retry, &json!({})).await.problem(409, code);
        assert!(refused["hint"].is_string() && refused["incidents"][0]["code"] == code, "{refused}");
        assert_eq!(app.get(&incident).await.expect(200)["next"]["code"], code);
        assert_eq!(plan(&app).await["plan"]["refusals"][0]["code"], code);
    }
    assert_eq!(receiver.got().len(), 0);
    app.check().await;
}

#[tokio::test]
async fn a_gate_that_shuts_after_the_plan_is_seen_at_the_launch() {
    let (app, receiver) = serving(Success::Response).await;
    let (_, incident) = fixed(&app, 1).await;
    let planned = plan(&app).await;
    diagnose(&app, &incident, "poison_pill").await;
    app.post("/api/v1/redrives", &launch_of(&planned)).await.problem(409, "poison");
    assert_eq!(receiver.got().len(), 0);
    assert_eq!(app.get(&url(&planned)).await.expect(200)["state"], "planned");
}

#[tokio::test]
async fn the_glass_is_broken_with_a_reason_by_an_administrator() {
    let (mut app, receiver) = serving(Success::Response).await;
    let ids = report(&app, 2).await;
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    let operator = app.token_of("operator").await;
    let planned = plan(&app).await;
    let force = |reason: &str| json!({"planId": planned["id"], "count": 2, "breakGlass": reason});
    let retry = format!("/api/v1/dead-letters/{}/retry", ids[0]);
    let short = app.post("/api/v1/redrives", &force("because")).await.problem(400, "break_glass");
    assert_eq!(short["field"], "breakGlass");
    app.post(&retry, &json!({"breakGlass": "because"})).await.problem(400, "break_glass");
    app.token = Some(operator);
    let refused = app.post("/api/v1/redrives", &force(REASON)).await.problem(403, "break_glass");
    assert_eq!(refused["may"], json!(["admin"]));
    app.post(&retry, &json!({"breakGlass": REASON})).await.problem(403, "break_glass");
    assert_eq!(receiver.got().len(), 0);
    app.token = Some(admin);
    let single = app.post(&retry, &json!({"breakGlass": REASON})).await;
    assert!(single.status.is_success(), "{single:?}");
    let planned = plan(&app).await;
    let force = json!({"planId": planned["id"], "count": 1, "breakGlass": REASON});
    let launched = app.post("/api/v1/redrives", &force).await.expect(202);
    assert_eq!(launched["breakGlass"], REASON);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    let audit = app.get("/api/v1/audit").await.expect(200);
    let loud = audit["items"].as_array().unwrap().iter().filter(|entry| entry["action"] == "break_glass");
    assert_eq!(loud.count(), 2, "{audit}");
    app.check().await;
}

#[tokio::test]
async fn a_count_that_is_not_the_plans_launches_nothing() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 2).await;
    let planned = plan(&app).await;
    let wrong = json!({"planId": planned["id"], "count": 3});
    let problem = app.post("/api/v1/redrives", &wrong).await.problem(409, "count_mismatch");
    assert_eq!((&problem["count"], &problem["expectedCount"]), (&json!(2), &json!(3)));
    let mut wish = all();
    wish["expectedCount"] = json!(5);
    let problem = app.post("/api/v1/redrives/plan", &wish).await.problem(409, "count_mismatch");
    assert_eq!(problem["count"], 2);
    let everything = json!({"all": true, "expectedCount": 1});
    app.post("/api/v1/redrives/plan", &everything).await.problem(409, "count_mismatch");
    let everything = json!({"all": true, "expectedCount": 2});
    assert_eq!(app.post("/api/v1/redrives/plan", &everything).await.expect(201)["count"], 2);
    assert_eq!(receiver.got().len(), 0);
    app.post("/api/v1/redrives", &launch_of(&planned)).await.expect(202);
}

#[tokio::test]
async fn two_operators_who_launch_one_plan_launch_it_once() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 2).await;
    let planned = plan(&app).await;
    let launch = launch_of(&planned);
    let (left, right) =
        tokio::join!(app.post("/api/v1/redrives", &launch), app.post("/api/v1/redrives", &launch));
    let (won, lost) = if left.status == 202 { (left, right) } else { (right, left) };
    won.expect(202);
    let problem = lost.problem(409, "redrive_state");
    assert_eq!(problem["state"], "running", "{problem}");
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    let problem = app.post("/api/v1/redrives", &launch).await.problem(409, "redrive_state");
    assert_eq!((&problem["state"], &problem["allowedActions"]), (&json!("done"), &json!([])));
    app.check().await;
}

#[tokio::test]
async fn an_old_plan_is_not_launched() {
    let (app, _receiver) = serving(Success::Response).await;
    fixed(&app, 1).await;
    let planned = plan(&app).await;
    app.pass(24 * 3_600_000 + 1);
    app.post("/api/v1/redrives", &launch_of(&planned)).await.problem(409, "plan_expired");
}

#[tokio::test]
async fn letters_without_a_destination_have_no_way_back() {
    let app = TestApp::new().await;
    let (ids, _) = fixed(&app, 1).await;
    let refused = app.post(&format!("/api/v1/dead-letters/{}/retry", ids[0]), &json!({})).await;
    let refused = refused.problem(409, "no_way_back");
    assert!(refused["hint"].as_str().unwrap().contains("destination"), "{refused}");
    let planned = plan(&app).await;
    assert_eq!((&planned["count"], &planned["refused"]), (&json!(0), &json!(1)));
    assert_eq!(planned["plan"]["refusals"][0]["code"], "no_way_back");
    app.check().await;
}

#[tokio::test]
async fn a_run_is_paused_paced_resumed_and_cancelled() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 4).await;
    let planned = plan(&app).await;
    let at = |step: &str| format!("{}/{step}", url(&planned));
    for step in ["pause", "resume"] {
        let problem = app.post(&at(step), &json!({})).await.problem(409, "redrive_state");
        assert_eq!(problem["allowedActions"], json!(["launch", "cancel"]));
    }
    let mut launch = launch_of(&planned);
    launch["pace"] = json!(1);
    app.post("/api/v1/redrives", &launch).await.expect(202);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 1);
    let paused = app.post(&at("pause"), &json!({"reason": "the bank is down"})).await.expect(200);
    assert_eq!((&paused["state"], &paused["why"]), (&json!("paused"), &json!("the bank is down")));
    assert_eq!(paused["allowedActions"], json!(["resume", "cancel", "pace"]));
    app.post(&at("pause"), &json!({})).await.problem(409, "redrive_state");
    app.pass(60_000);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 1);
    let paced = app.post(&at("pace"), &json!({"pace": 60})).await.expect(200);
    assert_eq!(paced["options"]["pace"], 60);
    let resumed = app.post(&at("resume"), &json!({})).await.expect(200);
    assert_eq!(resumed["state"], "running");
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    let cancelled = app.post(&at("cancel"), &json!({"reason": "enough"})).await.expect(200);
    assert_eq!((&cancelled["state"], &cancelled["why"]), (&json!("cancelled"), &json!("enough")));
    assert_eq!(
        (&cancelled["letters"]["cancelled"], &cancelled["letters"]["waiting"]),
        (&json!(2), &json!(0))
    );
    for step in ["pause", "resume", "cancel"] {
        app.post(&at(step), &json!({})).await.problem(409, "redrive_state");
    }
    app.post(&at("pace"), &json!({"pace": 5})).await.problem(409, "redrive_state");
    app.pass(60_000);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn named_letters_are_planned_and_what_cannot_go_is_refused() {
    let (app, _receiver) = serving(Success::Response).await;
    let (ids, _) = fixed(&app, 3).await;
    let named = json!({"letters": [ids[2], ids[0], ids[2]]});
    let planned = app.post("/api/v1/redrives/plan", &named).await.expect(201);
    assert_eq!((&planned["count"], &planned["filter"]), (&json!(2), &json!("")));
    app.post(&format!("/api/v1/dead-letters/{}/resolve", ids[0]), &json!({})).await.expect(200);
    let problem = app.post("/api/v1/redrives/plan", &json!({"letters": [ids[0]]})).await;
    problem.problem(409, "not_allowed");
    let nobody = json!({"letters": ["019a8b1c-7e00-7000-8000-000000000000"]});
    app.post("/api/v1/redrives/plan", &nobody).await.problem(404, "not_found");
}

#[tokio::test]
async fn the_published_options_are_taken_as_they_stand() {
    let (app, _receiver) = serving(Success::Response).await;
    fixed(&app, 2).await;
    let wish = json!({"reprocessingOptions": {
        "batchSize": 50,
        "concurrency": 5,
        "filterCriteria": {"errorTypes": ["Timeout", "NetworkError"], "maxAge": "24h", "minRetryCount": 0,
            "maxRetryCount": 5, "eventPatterns": ["payment.*", "order.created"]},
        "prioritization": {"orderBy": "createdAt", "direction": "desc"},
    }});
    let planned = app.post("/api/v1/redrives/plan", &wish).await.expect(201);
    assert_eq!(planned["count"], 2, "{planned}");
    let options = &planned["options"];
    assert_eq!((&options["batchSize"], &options["concurrency"]), (&json!(50), &json!(5)));
    assert_eq!(options["prioritization"], json!({"orderBy": "createdAt", "direction": "desc"}));
    assert_eq!(
        (&options["pace"], &options["canary"], &options["stopPercent"]),
        (&json!(100), &json!(5), &json!(20))
    );
    let mut none = wish.clone();
    none["reprocessingOptions"]["filterCriteria"]["minRetryCount"] = json!(5);
    assert_eq!(app.post("/api/v1/redrives/plan", &none).await.expect(201)["total"], 0);
}

#[tokio::test]
async fn lists_are_walked_page_by_page() {
    let (app, _receiver) = serving(Success::Response).await;
    let (ids, incident) = fixed(&app, 5).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(plan(&app).await["id"].as_str().unwrap().to_owned());
        app.pass(1_000);
    }
    made.reverse();
    let walk = async |address: &str, key: &str| {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = app.get(&format!("{address}limit=2&cursor={cursor}")).await.expect(200);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            seen.extend(items.iter().map(|item| item[key].as_str().unwrap().to_owned()));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => return seen,
            }
        }
    };
    assert_eq!(walk("/api/v1/redrives?", "id").await, made);
    let incident = incident.rsplit('/').next().unwrap();
    assert_eq!(walk(&format!("/api/v1/redrives?incident={incident}&"), "id").await, made);
    assert_eq!(walk("/api/v1/redrives?state=done,planned&kind=plan&", "id").await, made);
    assert!(walk("/api/v1/redrives?state=done&", "id").await.is_empty());
    assert!(walk("/api/v1/redrives?kind=single,bulk&kind=rule&", "id").await.is_empty());
    let letters = format!("/api/v1/redrives/{}/letters", made[0]);
    assert_eq!(walk(&format!("{letters}?"), "letterId").await, ids);
    assert_eq!(walk(&format!("{letters}?outcome=waiting&"), "letterId").await, ids);
    assert!(walk(&format!("{letters}?outcome=failed&"), "letterId").await.is_empty());
    let first = app.get("/api/v1/redrives?limit=2").await.expect(200);
    assert!(first["items"][0]["plan"].is_null(), "{first}");
    let cursor = first["nextCursor"].as_str().unwrap();
    for address in ["/api/v1/redrives?state=done", "/api/v1/incidents?", &format!("{letters}?")] {
        app.get(&format!("{address}&cursor={cursor}")).await.problem(400, "bad_cursor");
    }
}
