//! Redrives as a browser without JavaScript sees them: selected, planned, launched, watched.

use http::header;
use lazaret_server::config::Success;
use serde_json::{Value, json};

use super::redriving::{all, diagnose, drive, fixed, incident_of, launch_of, plan, report, serving};
use super::rig::{Answer, TestApp};
use super::web::{Browser, between};

/// A page that has a form in any case.
pub(super) const FORM: &str = "/redrives/new";

const REASON: &str = "the bank needs these before midnight";

/// The page of a redrive of the API.
pub(super) fn page_of(redrive: &Value) -> String {
    format!("/redrives/{}", redrive["id"].as_str().unwrap())
}

/// A page that must be there.
pub(super) async fn see(browser: &Browser, app: &TestApp, path: &str) -> String {
    let page = browser.get(app, path).await;
    assert_eq!(page.status, 200, "{path}: {}", Browser::text(&page));
    Browser::text(&page)
}

#[track_caller]
pub(super) fn has(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "`{text}` is not in {page}");
    }
}

/// A form that was refused: the page says why.
#[track_caller]
pub(super) fn refused(answer: &Answer, status: u16, texts: &[&str]) -> String {
    assert_eq!(answer.status.as_u16(), status, "{}", Browser::text(answer));
    let page = Browser::text(answer);
    has(&page, &["role=\"alert\""]);
    has(&page, texts);
    page
}

pub(super) async fn launched(app: &TestApp, planned: &Value) {
    app.post("/api/v1/redrives", &launch_of(planned)).await.expect(202);
}

#[tokio::test]
async fn a_redrive_goes_from_the_selection_to_its_end() {
    let (app, receiver) = serving(Success::Response).await;
    let (ids, incident) = fixed(&app, 3).await;
    let browser = Browser::default();
    let select = "/redrives/new?q=type%3Aorder.*";
    let page = see(&browser, &app, select).await;
    has(
        &page,
        &[
            "3 letters selected",
            "Plan redrive of 3 letters",
            "aria-current=\"step\">Select",
            "value=\"type:order.*\"",
        ],
    );
    has(&page, &[&format!("/letters/{}", ids[0])]);
    let fields =
        [("q", "type:order.*"), ("reason", "the bank is back"), ("pace", "unlimited"), ("canary", "0")];
    let answer = browser.submit(&app, select, FORM, &fields).await;
    let address = answer.headers[header::LOCATION].to_str().unwrap().to_owned();
    let page = browser.follow(&app, &answer).await;
    has(&page, &["<div class=\"in\">+lazaret-life: 1</div>"]);
    has(&page, &["Nothing was sent yet", "Redrive plan: 3 letters", "aria-current=\"step\">Dry run"]);
    has(&page, &["Redrive 3 letters</button>", "Type 3 to confirm", "the bank is back", "unlimited"]);
    has(&page, &["order.created", "report", &receiver.url(), "sent unchanged", "no matching letters"]);
    assert_eq!(receiver.got().len(), 0);
    let answer = browser.submit(&app, &address, &format!("{address}/launch"), &[("count", "3")]).await;
    let page = browser.follow(&app, &answer).await;
    has(&page, &["Redrive of 3 letters launched.", "state running", "0 of 3 processed", "Pause"]);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 3);
    let page = see(&browser, &app, &address).await;
    has(&page, &["Sent per minute", "sent above, failed or relapsed below", "<td class=\"number\">3</td>"]);
    has(&page, &["state done", "Results for 3 letters", "100 %", "3 succeeded", "Finished."]);
    has(&page, &[&format!("<code>{}:1:1</code>", ids[0]), "delivered", "the bank is back"]);
    let incident = incident.rsplit('/').next().unwrap();
    has(&page, &[&format!("/incidents/{incident}"), "state closed", "Incident trend per minute"]);
    let failed = see(&browser, &app, &format!("{address}?outcome=failed")).await;
    has(&failed, &["No letters."]);
    let list = see(&browser, &app, "/redrives").await;
    has(&list, &[&address, "state done", "3 letters", "the bank is back", "local", "type:order.*"]);
    app.check().await;
}

#[tokio::test]
async fn another_number_than_the_plans_launches_nothing_and_is_kept() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 3).await;
    let planned = plan(&app).await;
    let (browser, address) = (Browser::default(), page_of(&planned));
    let launch = format!("{address}/launch");
    let answer = browser.submit(&app, &address, &launch, &[("count", "4")]).await;
    refused(
        &answer,
        409,
        &["3 letters match, expected 4", "value=\"4\" aria-invalid=\"true\"", "Redrive 3 letters"],
    );
    let answer = browser.submit(&app, &address, &launch, &[("count", " ")]).await;
    refused(&answer, 400, &["confirmation required", "type the number of letters to confirm"]);
    let answer = browser.submit(&app, &address, &launch, &[("count", "three")]).await;
    refused(&answer, 400, &["must be an integer", "value=\"three\""]);
    let answer = browser.post(&app, &launch, &[("csrf", "forged"), ("count", "3")]).await;
    assert_eq!(answer.status, 403);
    assert_eq!(app.get(&format!("/api/v1{address}")).await.expect(200)["state"], "planned");
    assert_eq!(receiver.got().len(), 0);
    let dropped = browser.submit(&app, &address, &format!("{address}/cancel"), &[]).await;
    has(&browser.follow(&app, &dropped).await, &["state cancelled", "not launched"]);
}

#[tokio::test]
async fn an_expired_plan_says_to_plan_anew() {
    let (app, _receiver) = serving(Success::Response).await;
    fixed(&app, 1).await;
    let planned = plan(&app).await;
    app.pass(24 * 3_600_000 + 1);
    let browser = Browser::default();
    let page = see(&browser, &app, &page_of(&planned)).await;
    has(&page, &["plan expired", "disabled", "/redrives/new?q=type%3Aorder.*"]);
}

#[tokio::test]
async fn a_shut_gate_says_why_and_what_to_do_and_an_admin_may_break_the_glass() {
    let (mut app, receiver) = serving(Success::Response).await;
    let ids = report(&app, 2).await;
    let incident = incident_of(&app, &ids[0]).await;
    let incident = incident.rsplit('/').next().unwrap();
    let planned = plan(&app).await;
    let address = page_of(&planned);
    let browser = Browser::default();
    let page = see(&browser, &app, &address).await;
    has(&page, &["2 blocked: RCA required", "Save the root cause on the incident", "all letters blocked"]);
    has(
        &page,
        &[
            &format!("href=\"/incidents/{incident}\""),
            "Override and redrive 2 letters",
            "at least 20 characters",
        ],
    );
    diagnose(&app, &format!("/api/v1/incidents/{incident}"), "infrastructure").await;
    let later = see(&browser, &app, &page_of(&plan(&app).await)).await;
    has(&later, &["fix required", "Link the fix on the incident"]);
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    app.token = Some(app.token_of("operator").await);
    let launch = format!("{address}/launch");
    let force = |reason: &'static str| [("force", "yes"), ("count", "2"), ("breakGlass", reason)];
    let page = see(&browser, &app, &address).await;
    has(&page, &["not allowed for role operator: requires `administer`"]);
    let answer = browser.submit(&app, &address, &launch, &force(REASON)).await;
    refused(&answer, 403, &["emergency override requires the role admin", REASON]);
    app.token = Some(admin);
    for reason in ["because", ""] {
        let answer = browser.submit(&app, &address, &launch, &force(reason)).await;
        refused(&answer, 400, &["at least 20 characters", &format!(">{reason}</textarea>")]);
    }
    let wrong = [("force", "yes"), ("count", "7"), ("breakGlass", REASON)];
    let answer = browser.submit(&app, &address, &launch, &wrong).await;
    refused(
        &answer,
        409,
        &["2 letters match, expected 7", "value=\"7\"", REASON, "Override and redrive 2 letters"],
    );
    assert_eq!(receiver.got().len(), 0);
    let answer = browser.submit(&app, &address, &launch, &force(REASON)).await;
    has(&browser.follow(&app, &answer).await, &["Emergency override:", REASON]);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn letters_without_a_way_back_are_told_with_what_to_configure() {
    let app = TestApp::new().await;
    fixed(&app, 1).await;
    let planned = plan(&app).await;
    let page = see(&Browser::default(), &app, &page_of(&planned)).await;
    has(&page, &["[sources.NAME.destination]", "all letters blocked", "Redrive 0 letters"]);
    assert!(!page.contains("Emergency override"), "{page}");
}

#[tokio::test]
async fn a_run_is_paused_paced_resumed_and_cancelled() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 4).await;
    let planned = plan(&app).await;
    let mut launch = launch_of(&planned);
    launch["pace"] = json!(1);
    app.post("/api/v1/redrives", &launch).await.expect(202);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 1);
    let (browser, address) = (Browser::default(), page_of(&planned));
    let take = async |step: &str, fields: &[(&str, &str)]| {
        browser.submit(&app, FORM, &format!("{address}/{step}"), fields).await
    };
    let page = see(&browser, &app, &address).await;
    has(&page, &["1 of 4 processed", "1/min", "3 min", "Cancel redrive, leave 3 letters unsent"]);
    let page = browser.follow(&app, &take("pause", &[("reason", "the bank is down")]).await).await;
    has(&page, &["state paused", "the bank is down", "Resume redrive</button>"]);
    refused(&take("pause", &[]).await, 409, &["not allowed: redrive", "is paused"]);
    app.pass(60_000);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 1);
    let wrong = take("pace", &[("pace", "other"), ("perMinute", "0")]).await;
    refused(&wrong, 400, &["pace must be", "value=\"0\""]);
    refused(&take("pace", &[("pace", "other")]).await, 400, &["rate required: letters per minute"]);
    let page = browser.follow(&app, &take("pace", &[("pace", "other"), ("perMinute", "60")]).await).await;
    has(&page, &["Rate set: 60/min."]);
    let page = browser.follow(&app, &take("pace", &[("pace", "critical")]).await).await;
    has(&page, &["Rate set: 1,000/min."]);
    browser.follow(&app, &take("pace", &[("pace", "other"), ("perMinute", "60")]).await).await;
    has(&browser.follow(&app, &take("resume", &[]).await).await, &["Redrive resumed.", "state running"]);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    let page = browser.follow(&app, &take("cancel", &[("reason", "enough")]).await).await;
    has(&page, &["state cancelled", "enough", "2 cancelled", "2 succeeded"]);
    refused(&take("resume", &[]).await, 409, &["not allowed: redrive", "is cancelled"]);
    app.check().await;
}

#[tokio::test]
async fn canaries_are_a_gate_and_what_died_again_is_listed() {
    let (app, receiver) = serving(Success::Receipt).await;
    fixed(&app, 4).await;
    let planned = plan(&app).await;
    let mut launch = launch_of(&planned);
    launch["canary"] = json!(2);
    app.post("/api/v1/redrives", &launch).await.expect(202);
    drive(&app).await;
    assert_eq!(receiver.got().len(), 2);
    let (browser, address) = (Browser::default(), page_of(&planned));
    let page = see(&browser, &app, &address).await;
    has(&page, &["canaries waiting", "0 of 2 verified", "state canary", "2 sent, verifying"]);
    let sent = app.get(&format!("/api/v1{address}/letters?outcome=sent")).await.expect(200);
    let good = json!({"letterId": sent["items"][0]["letterId"], "life": 1});
    app.post("/api/v1/receipts", &good).await.expect(200);
    has(&see(&browser, &app, &address).await, &["canaries waiting", "1 of 2 verified"]);
    let error = json!({"type": "StillDown", "message": "no route"});
    let bad =
        json!({"letterId": sent["items"][1]["letterId"], "life": 1, "outcome": "failed", "error": error});
    app.post("/api/v1/receipts", &bad).await.expect(200);
    drive(&app).await;
    let page = see(&browser, &app, &address).await;
    has(&page, &["canaries failed", "1 relapsed", "redrive halted", "The fix does not cover these letters"]);
    has(&page, &[&format!("{address}?outcome=relapsed#letters"), "50 %"]);
    assert_eq!(receiver.got().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn a_launch_may_go_otherwise_than_planned() {
    let (app, receiver) = serving(Success::Response).await;
    fixed(&app, 4).await;
    let planned = plan(&app).await;
    let (browser, address) = (Browser::default(), page_of(&planned));
    has(&see(&browser, &app, &address).await, &["Override rate", "Planned: unlimited"]);
    let launch = format!("{address}/launch");
    let wrong = [("count", "4"), ("pace", "other"), ("perMinute", "0"), ("canary", "1")];
    refused(&browser.submit(&app, &address, &launch, &wrong).await, 400, &["pace must be", "value=\"0\""]);
    let wish = [("count", "4"), ("pace", "other"), ("perMinute", "7"), ("canary", "2"), ("stopPercent", "")];
    let page = browser.follow(&app, &browser.submit(&app, &address, &launch, &wish).await).await;
    has(&page, &["launched.", "7/min", "<title>", " % · Redrive of 4 letters"]);
    let options = app.get(&format!("/api/v1{address}")).await.expect(200)["options"].clone();
    assert_eq!((&options["pace"], &options["canary"]), (&json!(7), &json!(2)), "{options}");
    drive(&app).await;
    assert!(receiver.got().len() <= 2, "the canaries go first");
    let take = async |step: &str| browser.submit(&app, FORM, &format!("{address}/{step}"), &[]).await;
    let page = browser.follow(&app, &take("pause").await).await;
    has(&page, &["<title>", "paused · Redrive of 4 letters"]);
    app.check().await;
}

#[tokio::test]
async fn what_was_sent_instead_of_an_original_is_shown_as_a_difference() {
    let (app, _receiver) = serving(Success::Response).await;
    let (ids, _) = fixed(&app, 1).await;
    let edit = json!({"reason": "the total was wrong", "edit": {"headers": {"X-Fixed": "yes"},
        "body": {"eventId": "e0", "pattern": "order.created", "payload": {"total": 2}}}});
    let redrive = app.post(&format!("/api/v1/dead-letters/{}/retry", ids[0]), &edit).await.expect(200);
    let browser = Browser::default();
    let page = see(&browser, &app, &page_of(&redrive)).await;
    has(&page, &["Edited message", "class=\"added\">+", "&#34;total&#34;: 2", "x-fixed"]);
    has(&see(&browser, &app, "/redrives?kind=single").await, &[&page_of(&redrive), "1 letter by id"]);
}

#[tokio::test]
async fn who_may_only_look_sees_why_nothing_can_be_done() {
    let (mut app, _receiver) = serving(Success::Response).await;
    fixed(&app, 2).await;
    let (planned, running) = (plan(&app).await, plan(&app).await);
    launched(&app, &running).await;
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    let viewer = app.token_of("viewer").await;
    let producer = app.token_of("producer").await;
    app.token = Some(viewer);
    let browser = Browser::default();
    let pages = ["/redrives", "/redrives/new?q=type:order.*", &page_of(&planned), &page_of(&running)];
    for path in pages {
        let page = see(&browser, &app, path).await;
        has(&page, &["not allowed for role viewer: requires `decide`"]);
    }
    for action in
        ["/redrives/new", &format!("{}/launch", page_of(&planned)), &format!("{}/pause", page_of(&running))]
    {
        let answer =
            browser.submit(&app, &page_of(&planned), action, &[("count", "2"), ("q", "type:a")]).await;
        assert_eq!(answer.status, 403, "{action}");
    }
    assert_eq!(app.get(&format!("/api/v1{}", page_of(&planned))).await.expect(200)["state"], "planned");
    app.token = Some(producer);
    for path in pages {
        assert_eq!(browser.get(&app, path).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn a_selection_that_cannot_be_planned_says_what_to_do_and_keeps_what_was_typed() {
    let (app, _receiver) = serving(Success::Response).await;
    fixed(&app, 1).await;
    let browser = Browser::default();
    has(
        &see(&browser, &app, FORM).await,
        &["Filter required", "queue:billing since:24h", "Default: 100/min"],
    );
    let answer = browser.submit(&app, FORM, FORM, &[("q", "  "), ("reason", "a reason")]).await;
    refused(&answer, 400, &["filter required", "or start from an incident", "value=\"a reason\""]);
    let answer = browser.get(&app, "/redrives/new?q=quue:a").await;
    refused(&answer, 400, &["did you mean", "value=\"quue:a\""]);
    let fields = [("q", "type:order.*"), ("canary", "1000"), ("batchSize", "7"), ("perMinute", "12")];
    let answer = browser.submit(&app, FORM, FORM, &fields).await;
    let page = refused(
        &answer,
        400,
        &["canary must be", "value=\"1000\"", "value=\"7\"", "value=\"12\"", "<details open>"],
    );
    let canary = between(&page, "name=\"canary\"", ">").unwrap();
    assert!(canary.contains("aria-invalid=\"true\""), "{canary}");
    let fields = [("q", "type:order.*"), ("pace", "other"), ("orderBy", "createdAt"), ("direction", "desc")];
    let answer = browser.submit(&app, FORM, FORM, &fields).await;
    refused(&answer, 400, &["rate required: letters per minute", "value=\"createdAt\" selected"]);
    let none = see(&browser, &app, "/redrives/new?q=type:order.*+status:resolved").await;
    has(&none, &["No matching pending letters"]);
    let fields = [
        ("q", "type:order.*"),
        ("perMinute", "12"),
        ("canary", "1"),
        ("canaryTimeout", "15m"),
        ("canaryAssumed", "yes"),
        ("stopPercent", "5"),
        ("stopOf", "20"),
        ("batchSize", "7"),
        ("concurrency", "3"),
        ("orderBy", "retryCount"),
        ("direction", "desc"),
    ];
    let answer = browser.submit(&app, FORM, FORM, &fields).await;
    let address = answer.headers[header::LOCATION].to_str().unwrap();
    let options = app.get(&format!("/api/v1{address}")).await.expect(200)["options"].take();
    let expected = json!({"pace": 12, "batchSize": 7, "concurrency": 3,
        "prioritization": {"orderBy": "retryCount", "direction": "desc"}, "canary": 1, "canaryTimeout": "PT15M",
        "canaryAssumed": true, "stopPercent": 5, "stopOf": 20, "quiet": "PT5M"});
    assert_eq!(options, expected);
}

#[tokio::test]
async fn lists_say_what_is_there_and_how_to_make_one() {
    let (app, _receiver) = serving(Success::Response).await;
    let browser = Browser::default();
    has(&see(&browser, &app, "/redrives").await, &["No redrives yet", "lazaret redrive plan"]);
    let (_, incident) = fixed(&app, 2).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(page_of(&plan(&app).await));
        app.pass(1_000);
    }
    let first = see(&browser, &app, "/redrives?state=&kind=plan&limit=2").await;
    has(
        &first,
        &[&format!("href=\"{}\"", made[2]), &format!("href=\"{}\"", made[1]), "value=\"plan\" selected"],
    );
    assert!(!first.contains(&made[0]), "{first}");
    let next = between(&first, "class=\"button\" href=\"", "\" rel=\"next\"").unwrap().replace("&#38;", "&");
    let second = see(&browser, &app, &next).await;
    has(&second, &[&made[0], "Newest"]);
    assert!(!second.contains("rel=\"next\"") && !second.contains(&made[1]), "{second}");
    has(&see(&browser, &app, "/redrives?state=done").await, &["No matching redrives", "Show all redrives"]);
    let incident = incident.rsplit('/').next().unwrap();
    has(&see(&browser, &app, &format!("/redrives?incident={incident}")).await, &[&made[0], incident]);
    for bad in ["/redrives?state=fast", "/redrives/nothing", "/redrives?colour=red"] {
        assert_eq!(browser.get(&app, bad).await.status, 400, "{bad}");
    }
    let nowhere = browser.get(&app, "/redrives/019a8b1c-7e00-7000-8000-000000000000").await;
    assert_eq!(nowhere.status, 404);
    let letters = format!("{}?limit=1", made[0]);
    app.post("/api/v1/redrives", &json!({"planId": made[0].rsplit('/').next(), "count": 2}))
        .await
        .expect(202);
    drive(&app).await;
    let page = see(&browser, &app, &letters).await;
    let next = between(&page, "class=\"button\" href=\"", "#letters\" rel=\"next\"").unwrap();
    has(&see(&browser, &app, &next.replace("&#38;", "&")).await, &[">First</a>", "id=\"row-2\""]);
}

#[tokio::test]
async fn hostile_letters_are_shown_and_not_obeyed() {
    let (app, _receiver) = serving(Success::Response).await;
    let evil = "<script>alert(1)</script>\"'\u{202e}";
    let entry = json!({"eventId": evil, "error": {"type": evil, "message": evil},
        "originalEvent": {"eventId": evil, "pattern": evil, "payload": evil}});
    let id = app.report(&entry).await;
    let incident = incident_of(&app, &id).await;
    diagnose(&app, &incident, "infrastructure").await;
    app.post(&format!("{incident}/fix"), &json!({"reference": evil})).await.expect(200);
    let mut wish = all();
    wish["filter"] = json!({"source": "report"});
    wish["reason"] = json!(evil);
    let planned = app.post("/api/v1/redrives/plan", &wish).await.expect(201);
    let browser = Browser::default();
    let plan_page = see(&browser, &app, &page_of(&planned)).await;
    let new = see(&browser, &app, "/redrives/new?q=source:report").await;
    launched(&app, &planned).await;
    drive(&app).await;
    let run = see(&browser, &app, &page_of(&planned)).await;
    let list = see(&browser, &app, "/redrives").await;
    let refused = browser.submit(&app, FORM, FORM, &[("q", evil), ("reason", evil)]).await;
    let pages = [plan_page, new, run, list, Browser::text(&refused)];
    for page in pages {
        assert!(!page.contains("<script>alert") && !page.contains("\"'\u{202e}"), "{page}");
        has(&page, &["&#60;script&#62;"]);
    }
}
