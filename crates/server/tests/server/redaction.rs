//! What is masked at every door, who may see it all the same, and that nothing but the showing changes.

use axum::body::Body;
use http::Method;
use lazaret_core::id::LetterId;
use lazaret_server::access::{PERMISSIONS, Permission};
use lazaret_server::config::Config;
use lazaret_store::audit::AuditQuery;
use lazaret_store::sqlite::Mode;
use lazaret_store::{AuditLog, Store};
use serde_json::{Value, json};

use super::ojs::{fetch, id, nack, push};
use super::redrive_rig::{Rig, Scripted, at_once, configured, plain};
use super::rig::{Answer, TestApp};
use super::web::Browser;

/// Stands in every value that nobody may see.
const SECRET: &str = "hush";
const CARD: &str = "4242424242424242";
const WHY: &str = "ticket 7: what was sent";

const CONFIG: &str = "[sources.report]\ngovernance = 'optional'\n\
                      [sources.report.destination]\nurl = 'http://127.0.0.1:9/in'\nallow_private = true\n";

/// A letter with something to hide wherever there is room for it.
pub(super) fn entry(event: &str) -> Value {
    json!({
        "eventId": event,
        "originalEvent": {
            "pattern": "user.created",
            "n": 7,
            "amount": 1.50,
            "payload": {
                "name": "ada", "password": "hush-1", "nested": [{"apiKey": "hush-2"}], "token": {"inner": "hush-3"},
                "note": "Bearer hush-4", "data": "{\"secret\":\"hush-5\"}", "url": "https://u:hush-6@h/x", "card": CARD,
            },
            "metadata": {"headers": {"Authorization": "Bearer hush-7", "Set-Cookie": "sid=hush-8"}},
        },
        "error": {
            "type": "AuthError",
            "message": format!("login refused: password=hush-9 for card {CARD}"),
            "stackTrace": "at login (token: hush-10)\nat main",
            "context": {"headers": {"authorization": "Bearer hush-11"}, "query": "x=1&access_token=hush-12"},
            "sessionToken": "hush-13",
        },
        "retryHistory": [
            {"attempt": 1, "timestamp": "2026-11-14T00:00:00Z", "apiToken": "hush-14",
             "error": {"message": "secret=hush-15", "context": {"password": "hush-16"}}},
        ],
        "unknownField": {"password": "hush-17"},
    })
}

/// Fails if an answer tells what is hidden.
#[track_caller]
pub(super) fn tells_nothing(about: &str, answer: &Answer) {
    let text = String::from_utf8_lossy(&answer.bytes);
    for hidden in [SECRET, CARD] {
        if let Some(at) = text.find(hidden) {
            let from = text.floor_char_boundary(at.saturating_sub(120));
            let to = text.floor_char_boundary((at + 40).min(text.len()));
            panic!("{about} tells {hidden}: …{}…", &text[from..to]);
        }
    }
}

/// A server with a letter of every kind, and where its things are.
pub(super) struct Full {
    pub app: TestApp,
    admin: String,
    pub letter: String,
    archived: String,
    pub job: String,
    pub incident: String,
    /// An incident like that one.
    alike: String,
    operation: String,
    pub hold: String,
    redrive: String,
}

pub(super) async fn full() -> Full {
    let mut app = TestApp::with(configured(CONFIG), Mode::Real).await;
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    let letter = app.report(&entry("e-1")).await;
    let archived = app.report(&entry("e-2")).await;
    let decided = app.report(&entry("e-3")).await;
    app.pass(1_000);
    let path = |rest: &str| format!("/api/v1/dead-letters/{rest}");
    app.post(&path(&format!("{decided}/resolve")), &json!({"reason": "password=hush-20"})).await.expect(200);
    app.post(&path(&format!("{archived}/delete")), &json!({})).await.expect(200);
    let edit = json!({"edit": {"body": "{\"n\":8,\"password\":\"hush-21\"}", "headers": {"X-Trace": "Bearer hush-22"}}});
    let retried = app.post(&path(&format!("{letter}/retry")), &edit).await;
    assert!(retried.status.is_success(), "{retried:?}");
    let all = json!({"filter": {"eventId": "e-1"}, "expectedCount": 1, "reason": "token: hush-23"});
    let operation = app.post(&path("hold"), &all).await.expect(200)["id"].as_str().unwrap().to_owned();
    let hold = json!({"letterId": letter, "reason": "secret=hush-24"});
    let hold = app.post("/api/v1/holds", &hold).await.expect(201)["id"].as_str().unwrap().to_owned();
    let plan = json!({"filter": {"eventId": "e-1"}, "reason": "password: hush-25"});
    let planned = app.post("/api/v1/redrives/plan", &plan).await.expect(201);
    let incident = app.get(&path(&letter)).await.expect(200)["incidentId"].as_str().unwrap().to_owned();
    let note = json!({"text": "api_key=hush-26"});
    app.post(&format!("/api/v1/incidents/{incident}/notes"), &note).await.expect(200);
    let analysis = json!({
        "category": "infrastructure",
        "rootCause": "the vault gave <password>hush-40</password> where password: hush-41 was due",
        "remediation": "rotate it, api_key=hush-42, and deploy the vault's client again",
    });
    app.post(&format!("/api/v1/incidents/{incident}/rca"), &analysis).await.expect(200);
    let fix = json!({"kind": "deployed", "reference": "PR 1, token=hush-43"});
    app.post(&format!("/api/v1/incidents/{incident}/fix"), &fix).await.expect(200);
    let mut alike = entry("e-4");
    alike["originalEvent"]["pattern"] = "user.removed".into();
    let alike = app.report(&alike).await;
    let alike = app.get(&path(&alike)).await.expect(200)["incidentId"].as_str().unwrap().to_owned();
    let job = dead_job(&app).await;
    let redrive = planned["id"].as_str().unwrap().to_owned();
    Full { app, admin, letter, archived, job, incident, alike, operation, hold, redrive }
}

/// A job that died with its secrets.
async fn dead_job(app: &TestApp) -> String {
    let options = json!({"queue": "mails", "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
    let wish = json!({"type": "mail.send", "args": [1, {"password": "hush-30"}], "meta": {"api_key": "hush-31"}, "options": options});
    let job = id(&push(app, wish).await);
    let fetched = fetch(app, "mails").await;
    assert_eq!(fetched[0]["args"][1]["password"], "hush-30", "a worker gets what was pushed");
    let error = json!({
        "code": "x", "type": "Boom", "message": "smtp://u:hush-32@h refused", "details": {"token": "hush-33"},
        "backtrace": ["at send (password=hush-34)"],
    });
    assert_eq!(nack(app, &job, error).await["state"], "discarded");
    app.pass(1_000);
    job
}

impl Full {
    /// The address of a route, with something that is there.
    fn path(&self, route: &str) -> String {
        let known = [
            ("/api/v1/dead-letters/", &self.letter),
            ("/api/v1/archive/", &self.archived),
            ("/api/v1/incidents/", &self.incident),
            ("/api/v1/operations/", &self.operation),
            ("/api/v1/holds/", &self.hold),
            ("/api/v1/redrives/", &self.redrive),
            ("/ojs/", &self.job),
            ("/letters/", &self.letter),
            ("/incidents/", &self.incident),
            ("/redrives/", &self.redrive),
            ("/archive/", &self.archived),
            ("/operations/", &self.operation),
            ("/rules/holds/", &self.hold),
            ("/jobs/", &self.job),
        ];
        let id = known.iter().find(|(begin, _)| route.starts_with(begin)).map_or("x", |(_, id)| id.as_str());
        let name = if route.starts_with("/ojs/") { "mails" } else { "report" };
        let path = route.replace("{id}", id).replace("{name}", name).replace("{file}", "x");
        match route {
            "/api/v1/suggest" => format!("{path}?key=errorType"),
            "/api/v1/events" => format!("{path}?after=0&limit=500"),
            _ => path,
        }
    }
}

#[tokio::test]
async fn nothing_that_is_hidden_is_in_any_answer_to_a_viewer() {
    let mut full = full().await;
    let viewer = full.app.token_of("viewer").await;
    full.app.token = Some(viewer);
    let mut shown = Vec::new();
    for (method, route, permission) in PERMISSIONS {
        if *method != "GET" || matches!(permission, Permission::Administer) {
            continue;
        }
        let path = full.path(route);
        let answer = full.app.get(&path).await;
        tells_nothing(&path, &answer);
        if answer.status == 200 {
            shown.push(*route);
        }
    }
    for route in [
        "/api/v1/dead-letters",
        "/api/v1/dead-letters/{id}",
        "/api/v1/dead-letters/{id}/body",
        "/api/v1/dead-letters/{id}/edits",
        "/api/v1/archive",
        "/api/v1/archive/{id}",
        "/api/v1/archive/{id}/body",
        "/api/v1/incidents",
        "/api/v1/incidents/{id}",
        "/api/v1/incidents/{id}/rca.md",
        "/api/v1/operations/{id}",
        "/api/v1/holds/{id}",
        "/api/v1/redrives/{id}",
        "/api/v1/redrives/{id}/letters",
        "/api/v1/audit",
        "/api/v1/events",
        "/ojs/v1/jobs/{id}",
        "/ojs/v1/events",
        "/ojs/v1/admin/jobs",
        "/ojs/v1/admin/jobs/{id}",
        "/ojs/v1/dead-letter",
        "/ojs/v1/dead-letter/{id}",
        "/ojs/v1/admin/dead-letter",
        "/letters/{id}",
        "/incidents/{id}",
        "/redrives/{id}",
        "/jobs/{id}",
    ] {
        assert!(shown.contains(&route), "{route} was not walked through");
    }
    for path in [format!("/api/v1/incidents/{}", full.alike), format!("/incidents/{}", full.alike)] {
        let answer = full.app.get(&path).await;
        tells_nothing(&path, &answer);
        let text = String::from_utf8_lossy(&answer.bytes);
        assert!(text.contains("the vault"), "what fixed a similar one is told: {text}");
    }
    // A stream says the same.
    let masked = full.app.get(&format!("/api/v1/dead-letters/{}", full.letter)).await.expect(200);
    assert_eq!(masked["redacted"], true);
    assert_eq!(masked["originalEvent"]["payload"]["name"], "ada", "the rest is there");
    assert_eq!(masked["originalEvent"]["payload"]["token"], "[redacted]");
    assert_eq!(masked["originalEvent"]["payload"]["card"], "•••• 4242");
    let body = full.app.get(&full.path("/api/v1/dead-letters/{id}/body")).await;
    assert_eq!(body.headers["lazaret-redacted"], "true");
    assert!(!body.headers.contains_key("lazaret-sha256"), "it is the hash of other bytes");
    assert!(String::from_utf8_lossy(&body.bytes).contains("\"amount\":1.5"), "the rest is as it was");
    full.app.token = Some(full.admin.clone());
    full.app.check().await;
}

#[tokio::test]
async fn to_reveal_takes_a_role_and_a_reason_and_is_on_record() {
    let mut full = full().await;
    let why = WHY.replace(' ', "%20");
    let routes = [
        format!("/api/v1/dead-letters/{}", full.letter),
        format!("/api/v1/dead-letters/{}/body", full.letter),
        format!("/api/v1/archive/{}", full.archived),
        format!("/api/v1/archive/{}/body", full.archived),
    ];
    let audit = async |app: &TestApp| {
        let log = app.get("/api/v1/audit?limit=500").await.expect(200);
        let items = log["items"].as_array().unwrap().clone();
        items.into_iter().filter(|entry| entry["action"] == "letter.revealed").collect::<Vec<Value>>()
    };
    for role in ["viewer", "operator"] {
        full.app.token = Some(full.admin.clone());
        let token = full.app.token_of(role).await;
        full.app.token = Some(token);
        for route in &routes {
            let refused = full.app.get(&format!("{route}?reveal={why}")).await;
            assert_eq!(refused.problem(403, "forbidden")["may"], json!(["approver", "admin"]));
            tells_nothing(route, &refused);
        }
    }
    full.app.token = Some(full.admin.clone());
    let approver = full.app.token_of("approver").await;
    full.app.token = Some(approver);
    for route in &routes {
        for short in ["", "because", "%20%20%20%20%20%20why%20%20%20%20"] {
            full.app.get(&format!("{route}?reveal={short}")).await.problem(400, "reason_required");
        }
        full.app.get(&format!("{route}?reveal={why}&reveal={why}")).await.problem(400, "bad_request");
    }
    assert_eq!(audit(&full.app).await, Vec::<Value>::new());
    for route in &routes {
        let answer = full.app.get(&format!("{route}?reveal={why}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = String::from_utf8_lossy(&answer.bytes);
        assert!(text.contains("hush-1") && !text.contains("[redacted]"), "{route}: {text}");
        assert_eq!(answer.headers.contains_key("lazaret-sha256"), route.ends_with("/body"));
    }
    let log = audit(&full.app).await;
    assert_eq!(log.len(), routes.len());
    for (entry, letter) in log.iter().rev().zip([&full.letter, &full.letter, &full.archived, &full.archived])
    {
        assert_eq!((&entry["letterId"], &entry["reason"]), (&json!(letter), &json!(WHY)));
        assert_eq!((&entry["actor"], &entry["role"]), (&json!("the approver"), &json!("approver")));
    }
    full.app.check().await;
}

#[tokio::test]
async fn what_is_stored_sent_and_exported_is_what_was_captured() {
    let to = Scripted::new(false);
    let rig = Rig::with("[sources.report]\ngovernance = 'optional'\n", to).await;
    let given = entry("e-1");
    let letter = LetterId::parse(&rig.test.report(&given).await).unwrap();
    let second = LetterId::parse(&rig.test.report(&entry("e-2")).await).unwrap();
    rig.test.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    let bytes = given["originalEvent"].to_string();
    let kept = async |id| rig.test.store.original(id, None).await.unwrap().unwrap().envelope.body().to_vec();
    assert_eq!(String::from_utf8(kept(letter).await).unwrap(), bytes);
    rig.single(letter, plain()).await.unwrap();
    let planned = rig.plan(at_once()).await;
    let sample = planned.plan.samples[0].body.clone().unwrap();
    assert!(sample.contains("[redacted]") && !sample.contains(SECRET), "{sample}");
    rig.try_launch(planned.redrive.id, 1).await.unwrap();
    for _ in 0..10 {
        rig.tick().await;
    }
    let got = rig.to.got.lock().unwrap().clone();
    assert_eq!(got.iter().map(|it| it.letter).collect::<Vec<_>>(), [letter, second]);
    assert!(got.iter().all(|it| it.body.as_ref() == bytes.as_bytes()), "{got:?}");
    assert_eq!(String::from_utf8(kept(second).await).unwrap(), bytes);
    let exported = rig.test.get("/api/v1/export").await;
    assert!(String::from_utf8_lossy(&exported.bytes).contains("hush-17"), "an export is whole");
    let log = rig.test.store.audit(AuditQuery::newest(1)).await.unwrap();
    assert_eq!(log[0].action, "letters.exported");
    rig.test.check().await;
}

#[tokio::test]
async fn letters_are_grouped_by_what_they_say_and_not_by_what_is_shown() {
    let masked = TestApp::new().await;
    let open = TestApp::with(configured("[redaction]\nenabled = false\n"), Mode::Real).await;
    let mut prints = Vec::new();
    for app in [&masked, &open] {
        let id = app.report(&entry("e-1")).await;
        let shown = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
        prints.push(shown["fingerprint"].clone());
        assert_eq!(shown["grouping"]["fingerprint"], shown["fingerprint"]);
        assert_eq!(shown.get("redacted").is_some(), std::ptr::eq(app, &masked));
    }
    assert_eq!(prints[0], prints[1]);
    let whole = open.get("/api/v1/dead-letters").await;
    assert!(String::from_utf8_lossy(&whole.bytes).contains("hush-9"), "switched off, nothing is masked");
}

#[tokio::test]
async fn a_filter_does_not_answer_what_is_masked() {
    let mut app = TestApp::new().await;
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    app.report(&entry("e-1")).await;
    let (operator, approver) = (app.token_of("operator").await, app.token_of("approver").await);
    let asked = "path=$.payload.password%3Dhush-1";
    let q = "q=path:$.payload.password%3Dhush-1";
    let body = json!({"path": ["$.payload.password=hush-1"]});
    let by_filter = json!({"filter": body, "expectedCount": 9});
    app.token = Some(operator);
    for query in [asked, q, "path=$..*%3Dhush-1", "headerPath=$.Authorization"] {
        for route in ["/api/v1/dead-letters", "/api/v1/archive"] {
            app.get(&format!("{route}?{query}")).await.problem(403, "forbidden");
        }
    }
    app.post("/api/v1/dead-letters/count", &body).await.problem(403, "forbidden");
    app.post("/api/v1/dead-letters/resolve", &by_filter).await.problem(403, "forbidden");
    app.post("/api/v1/redrives/plan", &by_filter).await.problem(403, "forbidden");
    app.post("/api/v1/archive/restore", &json!({"filter": body, "count": 1})).await.problem(403, "forbidden");
    for query in ["args_path=$[?@.password%20%3E%3D%20'h']", "args=$..password"] {
        for route in ["/ojs/v1/dead-letter", "/ojs/v1/admin/dead-letter"] {
            assert_eq!(app.get(&format!("{route}?{query}")).await.status, 403, "{route}?{query}");
        }
        let many = app.post(&format!("/ojs/v1/dead-letter/retry?{query}"), &json!({"confirm": true})).await;
        assert_eq!(many.status, 403, "{query}");
    }
    let browser = Browser::default();
    browser.sign_in(&app, app.token.as_deref().unwrap()).await;
    let asked_by_form = "path:$.payload.password=hush-1";
    for (page, action, fields) in [
        ("/letters", "/letters/confirm", &[("all", "1"), ("action", "resolve"), ("q", asked_by_form)][..]),
        ("/letters", "/letters/bulk", &[("all", "1"), ("action", "resolve"), ("q", asked_by_form)]),
        ("/redrives/new", "/redrives/new", &[("q", asked_by_form)]),
    ] {
        let answer = browser.submit(&app, page, action, fields).await;
        let text = Browser::text(&answer);
        assert_eq!(answer.status, 403, "{action}: {text}");
        assert!(!text.contains("1 letter") && !text.contains("/letters/0"), "{action}: {text}");
    }
    let shown = app.get("/api/v1/dead-letters?path=$.payload.name%3Dada").await.expect(200);
    assert_eq!(shown["total"], 1);
    app.token = Some(approver);
    assert_eq!(app.get(&format!("/api/v1/dead-letters?{asked}")).await.expect(200)["total"], 1);
    assert_eq!(app.post("/api/v1/dead-letters/count", &body).await.expect(200)["total"], 1);
}

#[tokio::test]
async fn where_search_is_kept_to_those_who_may_reveal_others_cannot_look_inside() {
    let mut app = TestApp::with(configured("[redaction]\nsearch = false\n"), Mode::Real).await;
    app.token = Some(app.token_of("admin").await);
    let viewer = app.token_of("viewer").await;
    for query in ["contains=hush", "body=hush", "q=contains:hush", "path=$.n"] {
        app.get(&format!("/api/v1/dead-letters?{query}")).await.expect(200);
    }
    app.token = Some(viewer);
    for query in ["contains=hush", "body=hush", "q=contains:hush", "path=$.n"] {
        app.get(&format!("/api/v1/dead-letters?{query}")).await.problem(403, "forbidden");
    }
    app.get("/api/v1/dead-letters?q=queue:report").await.expect(200);
}

#[tokio::test]
async fn an_edit_that_is_no_text_is_not_shown() {
    let full = full().await;
    let path = format!("/api/v1/dead-letters/{}", full.letter);
    let edit = json!({"edit": {"bodyBase64": "/wBodXNo"}});
    let retried = full.app.post(&format!("{path}/retry"), &edit).await;
    assert!(retried.status.is_success(), "{retried:?}");
    let edits = full.app.get(&format!("{path}/edits")).await.expect(200);
    let last = edits["items"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["bodyBytes"], &last["redacted"]), (&json!(6), &json!(true)));
    assert!(last.get("bodyBase64").is_none() && last["diff"].is_null(), "{last}");
}

#[tokio::test]
async fn the_rules_of_a_new_configuration_hold_at_once() {
    let app = TestApp::new().await;
    let id = app
        .report(&json!({"eventId": "e", "originalEvent": {"iban": "DE-hush", "password": "x-hush"}}))
        .await;
    let live = lazaret_server::reload::Live::new(app.app.clone());
    let show = async || {
        use tower::ServiceExt;
        let request = app.request(Method::GET, &format!("/api/v1/dead-letters/{id}"), Body::empty());
        let response = live.router().oneshot(request).await.unwrap();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()["originalEvent"].clone()
    };
    assert_eq!(show().await, json!({"iban": "DE-hush", "password": "[redacted]"}));
    let mut config = Config::default();
    config.redaction.rules.keys.push("iban".into());
    let changes = live.take(config);
    assert_eq!(changes[0].key, "redaction.keys");
    assert_eq!(show().await, json!({"iban": "[redacted]", "password": "[redacted]"}));
}
