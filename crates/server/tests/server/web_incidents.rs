//! Incidents on pages: the list as cards, one by itself, and its forms from open to fixed.

use std::time::Duration;

use lazaret_server::config::Success;
use lazaret_store::stats::Ledger;
use serde_json::{Value, json};

use super::ojs::{fetch, id, nack, push};
use super::redriving::{all, drive, fixed, launch_of, report, serving};
use super::rig::TestApp;
use super::web::{Browser, between};

/// Texts that would do harm if they were taken for markup, or that hide what they are.
const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}\u{0}";

fn entry(event: &str, letter_type: &str, error_type: &str, message: &str) -> Value {
    json!({
        "eventId": event,
        "originalEvent": {"pattern": letter_type, "metadata": {"tenantId": "acme"}},
        "error": {"type": error_type, "message": message},
    })
}

async fn text(app: &TestApp, path: &str) -> String {
    let page = Browser::default().get(app, path).await;
    assert_eq!(page.status, 200, "{path}: {}", String::from_utf8_lossy(&page.bytes));
    Browser::text(&page)
}

/// Reports a letter and gives the address of its incident's page.
async fn incident(app: &TestApp, error_type: &str, message: &str) -> String {
    let letter = app.report(&entry("e", "order.created", error_type, message)).await;
    let letter = app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    format!("/incidents/{}", letter["incidentId"].as_str().unwrap())
}

/// One form of a page, whole.
fn form(page: &str, action: &str) -> String {
    between(page, &format!("action=\"{action}\""), "</form>").unwrap_or_else(|| panic!("{action}: {page}"))
}

const RCA: [(&str, &str); 3] = [
    ("category", "infrastructure"),
    ("rootCause", "the pool was too small"),
    ("remediation", "made it larger"),
];

#[tokio::test]
async fn an_empty_list_says_what_to_do() {
    let app = TestApp::new().await;
    assert!(text(&app, "/incidents").await.contains("No open incidents"));
    let filtered = text(&app, "/incidents?type=nothing.*&text=&class=&since=&errorType=&state=&sort=").await;
    assert!(
        filtered.contains("No matching incidents") && filtered.contains("value=\"nothing.*\""),
        "{filtered}"
    );
}

#[tokio::test]
async fn incidents_are_cards_and_the_closed_ones_are_asked_for() {
    let app = TestApp::new().await;
    for n in 0..3 {
        app.report(&entry(&format!("o{n}"), "order.created", "Timeout", &format!("call {n} timed out")))
            .await;
    }
    let done = app.report(&entry("m", "mail.sent", "BadAddress", "no such mailbox")).await;
    app.post(&format!("/api/v1/dead-letters/{done}/resolve"), &json!({})).await.expect(200);
    let page = text(&app, "/incidents").await;
    assert_eq!(page.matches("<article class=\"card incident\"").count(), 1, "{page}");
    let card = between(&page, "<article", "</article>").unwrap();
    for part in [
        "Timeout",
        "order.created",
        "class=\"state open\"",
        "infrastructure",
        "3 of 3 letters are pending",
        "timed out",
    ] {
        assert!(card.contains(part), "{part}: {card}");
    }
    assert!(card.contains(
        "aria-label=\"Deaths in the last 48 hours: 3, at most 3 in the hour of Sun 15 Nov 03:00 UTC\""
    ));
    assert!(text(&app, "/incidents?state=all").await.contains("BadAddress"));
    let closed = text(&app, "/incidents?state=closed").await;
    assert!(closed.contains("BadAddress") && !closed.contains("order.created"), "{closed}");
    assert!(closed.contains("<option value=\"closed\" selected>"), "{closed}");
    for (query, found) in [
        ("type=order.*", true),
        ("type=mail.*", false),
        ("class=transient", true),
        ("errorType=Time*&since=1h", true),
    ] {
        assert_eq!(text(&app, &format!("/incidents?{query}")).await.contains("<article"), found, "{query}");
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_answered_keeps_its_words() {
    let app = TestApp::new().await;
    for (query, kept) in
        [("since=soon", "value=\"soon\""), ("class=weather", "<option value=\"weather\" selected>")]
    {
        let page = Browser::default().get(&app, &format!("/incidents?{query}&text=pool")).await;
        assert_eq!(page.status, 400, "{query}");
        let page = Browser::text(&page);
        assert!(
            page.contains("role=\"alert\"") && page.contains(kept) && page.contains("value=\"pool\""),
            "{page}"
        );
    }
}

#[tokio::test]
async fn fifty_incidents_are_walked_in_small_pages() {
    let app = TestApp::new().await;
    let long = "x".repeat(400);
    for n in 0..50 {
        // Names that differ by more than a number, and a message as long as they come.
        let name = format!("{}{}", char::from(b'a' + n / 26), char::from(b'a' + n % 26));
        app.report(&entry(&format!("e{n}"), &format!("type.{name}"), &format!("Error{name}"), &long)).await;
        app.pass(600_000);
    }
    let mut path = "/incidents".to_owned();
    let mut seen = 0;
    for _ in 0..5 {
        let page = text(&app, &path).await;
        assert!(page.len() < 100_000, "{} bytes", page.len());
        assert!(page.contains("50 incidents"), "{page}");
        seen += page.matches("<article class=\"card incident\"").count();
        match between(&page, "rel=\"next\" href=\"", "\"") {
            Some(next) => path = next.replace("&#38;", "&").replace("&amp;", "&"),
            None => break,
        }
    }
    assert_eq!(seen, 50);
    let overview = text(&app, "/").await;
    assert!(overview.len() < 100_000, "{} bytes", overview.len());
    assert_eq!(overview.matches("<article class=\"card incident\"").count(), 8);
}

#[tokio::test]
async fn an_incident_goes_from_open_to_fixed_by_its_forms() {
    let (app, _receiver) = serving(Success::Response).await;
    let letters = report(&app, 2).await;
    let letter = app.get(&format!("/api/v1/dead-letters/{}", letters[0])).await.expect(200);
    let url = format!("/incidents/{}", letter["incidentId"].as_str().unwrap());
    let browser = Browser::default();
    let page = Browser::text(&browser.get(&app, &url).await);
    assert!(page.contains("Save root cause") && page.contains("Redrive blocked: RCA required"), "{page}");
    let plan = between(&page, "data-action=\"redrive\"", "</div>").unwrap();
    assert!(plan.contains("disabled") && plan.contains("Plan redrive of 2 letters"), "{plan}");
    // The class of its letters suggests what it is.
    assert!(form(&page, &format!("{url}/rca")).contains("<option value=\"infrastructure\" selected>"));
    assert!(
        form(&page, &format!("{url}/fix")).contains("disabled title=\"RCA required: save the root cause")
    );
    let done = browser.submit(&app, &url, &format!("{url}/rca"), &RCA).await;
    let page = browser.follow(&app, &done).await;
    assert!(page.contains("Root cause saved.") && page.contains("class=\"state diagnosed\""), "{page}");
    assert!(page.contains("<strong>Root Cause</strong>: the pool was too small"), "{page}");
    assert!(page.contains("Link a fix"), "{page}");
    let fix = [("kind", "deployed"), ("reference", "PR 4711"), ("fixedAt", "2026-11-15T03:00:01")];
    let done = browser.submit(&app, &url, &format!("{url}/fix"), &fix).await;
    let page = browser.follow(&app, &done).await;
    assert!(page.contains("Fix linked") && page.contains("class=\"state fixed\""), "{page}");
    assert!(page.contains("<strong>Fix Applied</strong>: PR 4711"), "{page}");
    let id = url.rsplit('/').next().unwrap();
    let address = format!("href=\"/redrives/new?q=incident%3A{id}+status%3Apending\"");
    assert!(page.contains(&address), "{address}: {page}");
    let second = [("category", "contract"), ("rootCause", "a renamed field"), ("remediation", "read both")];
    let done = browser.submit(&app, &url, &format!("{url}/rca"), &second).await;
    let page = browser.follow(&app, &done).await;
    assert!(page.contains("RCA revision 2 saved") && page.contains("2 revisions"), "{page}");
    assert!(page.contains("the pool was too small") && page.contains("a renamed field"), "{page}");
    app.check().await;
}

#[tokio::test]
async fn a_refused_form_says_why_and_keeps_what_was_typed() {
    let app = TestApp::new().await;
    let url = incident(&app, "Timeout", "call timed out").await;
    let browser = Browser::default();
    let half = [("category", "contract"), ("rootCause", "because <b> & so"), ("remediation", "  ")];
    let answer = browser.submit(&app, &url, &format!("{url}/rca"), &half).await;
    assert_eq!(answer.status, 400);
    let page = Browser::text(&answer);
    let rca = form(&page, &format!("{url}/rca"));
    assert!(
        page.contains("role=\"alert\"") && rca.contains("because &#60;b&#62; &#38; so</textarea>"),
        "{rca}"
    );
    assert!(rca.contains("<option value=\"contract\" selected>"), "{rca}");
    assert!(between(&rca, "name=\"remediation\"", ">").unwrap().contains("aria-invalid=\"true\""), "{rca}");
    assert!(!between(&rca, "name=\"rootCause\"", ">").unwrap().contains("aria-invalid"), "{rca}");
    // Whoever loads that answer again comes to the incident.
    let again = browser.get(&app, &format!("{url}/rca")).await;
    assert_eq!((again.status.as_u16(), again.headers["location"].to_str().unwrap()), (303, url.as_str()));
    let early = [("kind", "deployed"), ("reference", "PR 1"), ("fixedAt", "2026-11-15T03:00")];
    let answer = browser.submit(&app, &url, &format!("{url}/fix"), &early).await;
    assert_eq!(answer.status, 409);
    let page = form(&Browser::text(&answer), &format!("{url}/fix"));
    assert!(page.contains("value=\"PR 1\"") && page.contains("value=\"2026-11-15T03:00\""), "{page}");
    let answer = browser.submit(&app, &url, &format!("{url}/close"), &[("reason", "enough of it")]).await;
    assert_eq!(answer.status, 409);
    assert!(form(&Browser::text(&answer), &format!("{url}/close")).contains("value=\"enough of it\""));
    let long = "x".repeat(10_001);
    let answer = browser.submit(&app, &url, &format!("{url}/notes"), &[("text", &long)]).await;
    assert_eq!(answer.status, 400);
    assert!(form(&Browser::text(&answer), &format!("{url}/notes")).contains(&long));
    let state = app.get(&format!("/api/v1{url}")).await.expect(200);
    assert_eq!((&state["state"], &state["rcas"]), (&json!("open"), &json!([])));
}

#[tokio::test]
async fn people_are_assigned_and_notes_are_told() {
    let app = TestApp::new().await;
    let url = incident(&app, "Timeout", "call timed out").await;
    let browser = Browser::default();
    let done = browser.submit(&app, &url, &format!("{url}/assign"), &[("assignee", " anna ")]).await;
    assert!(browser.follow(&app, &done).await.contains("Assigned to anna."));
    assert!(text(&app, "/incidents").await.contains("Assignee: anna"));
    let done =
        browser.submit(&app, &url, &format!("{url}/assign"), &[("assignee", "anna"), ("me", "1")]).await;
    assert!(browser.follow(&app, &done).await.contains("Assigned to local."));
    let done = browser.submit(&app, &url, &format!("{url}/assign"), &[("assignee", "")]).await;
    assert!(browser.follow(&app, &done).await.contains("Unassigned"));
    let done = browser
        .submit(&app, &url, &format!("{url}/notes"), &[("text", "called the bank\nnobody there")])
        .await;
    let page = browser.follow(&app, &done).await;
    let timeline = between(&page, "<h2>Timeline</h2>", "</ol>").unwrap();
    assert!(timeline.contains("<b>note</b> by local") && timeline.contains("called the bank\nnobody there"));
    app.post("/api/v1/dead-letters/resolve", &json!({"all": true, "expectedCount": 1})).await.expect(200);
    let page = text(&app, &url).await;
    assert!(page.contains("No pending letters") && page.contains("no pending letters"), "{page}");
    assert!(form(&page, &format!("{url}/close")).contains("title=\"already closed\""), "{page}");
}

#[tokio::test]
async fn a_form_from_elsewhere_does_nothing() {
    let app = TestApp::new().await;
    let url = incident(&app, "Timeout", "call timed out").await;
    let browser = Browser::default();
    browser.get(&app, &url).await;
    let mut forged = vec![("csrf", "0000")];
    forged.extend(RCA);
    let answer = browser.post(&app, &format!("{url}/rca"), &forged).await;
    assert_eq!(answer.status, 403);
    assert_eq!(app.get(&format!("/api/v1{url}")).await.expect(200)["state"], "open");
}

#[tokio::test]
async fn who_may_only_look_sees_why() {
    let mut app = TestApp::new().await;
    let url = incident(&app, "Forbidden", "may not charge").await;
    app.token = Some(app.token_of("admin").await);
    let (viewer, operator) = (app.token_of("viewer").await, app.token_of("operator").await);
    let rca = json!({"category": "business", "rootCause": "a", "remediation": "b"});
    app.post(&format!("/api/v1{url}/rca"), &rca).await.expect(200);
    app.token = Some(viewer);
    let page = text(&app, &url).await;
    for step in ["rca", "fix", "assign", "notes", "close"] {
        let form = form(&page, &format!("{url}/{step}"));
        assert!(form.contains("disabled title=\"not allowed for role viewer"), "{step}: {form}");
    }
    let answer = Browser::default().submit(&app, &url, &format!("{url}/notes"), &[("text", "x")]).await;
    assert_eq!(answer.status, 403);
    app.token = Some(operator);
    let fix = form(&text(&app, &url).await, &format!("{url}/fix"));
    assert!(fix.contains("a business error requires an approver decision"), "{fix}");
    assert!(
        fix.contains("requires `approve`") && fix.contains("<button class=\"primary\" disabled"),
        "{fix}"
    );
}

#[tokio::test]
async fn charts_have_names_and_tables_and_the_rest_is_told() {
    let (app, _receiver) = serving(Success::Response).await;
    let (letters, incident) = fixed(&app, 7).await;
    let url = incident.strip_prefix("/api/v1").unwrap().to_owned();
    let alike = json!({"eventId": "z", "originalEvent": {"pattern": "order.paid"}, "error": {"type": "Timeout", "message": "call timed out"}});
    let other = app.report(&alike).await;
    let planned = app.post("/api/v1/redrives/plan", &all()).await.expect(201);
    app.post("/api/v1/redrives", &launch_of(&planned)).await.expect(202);
    let running = text(&app, &url).await;
    assert!(running.contains("Redrive running"), "{running}");
    drive(&app).await;
    let page = text(&app, &url).await;
    for (chart, table, steps, label) in [
        ("flow", "hours-table", 48, "Letters in and out over the last 48 hours: 7 in, 7 out"),
        ("course", "days-table", 14, "Letters in and out over the last 14 days: 7 in, 7 out"),
    ] {
        let svg = between(&page, &format!("<svg class=\"{chart}\""), "<figcaption").unwrap();
        assert!(svg.contains(&format!("role=\"img\" aria-label=\"{label}")), "{svg}");
        let table = between(&page, &format!("id=\"{table}\""), "</details>").unwrap();
        assert_eq!(table.matches("<tr>").count(), steps + 1, "{table}");
    }
    let newest = between(&page, "id=\"incident-letters\"", "</section>").unwrap();
    assert_eq!(newest.matches("<tr id=\"letter-").count(), 5, "{newest}");
    assert!(newest.contains(&format!("/letters/{}", letters[6])) && newest.contains("all 7"), "{newest}");
    assert!(page.contains("<h2>Redrives</h2>") && page.contains("7 of 7"), "{page}");
    assert!(
        page.contains(&format!("/redrives/{}\">Open redrive</a>", planned["id"].as_str().unwrap())),
        "{page}"
    );
    // The other one is like it, and says what fixed this one.
    let other = app.get(&format!("/api/v1/dead-letters/{other}")).await.expect(200);
    let other = text(&app, &format!("/incidents/{}", other["incidentId"].as_str().unwrap())).await;
    let similar = between(&other, "Similar incidents", "</section>").unwrap_or_else(|| panic!("{other}"));
    assert!(similar.contains(&url) && similar.contains("Fixed by</b> deploy 7"), "{similar}");
    assert!(page.len() < 100_000, "{} bytes", page.len());
}

#[tokio::test]
async fn clocks_go_by_the_zone_of_the_reader() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let path = incident(&app, "Timeout", "slow").await;
    let page = Browser::text(&browser.get(&app, &path).await);
    assert!(
        page.contains("times in UTC<") && page.contains("Hour (UTC)") && page.contains("UTC; default: now"),
        "{page}"
    );
    browser.plant("lazaret_zone", "-210");
    for path in [path.as_str(), "/"] {
        let page = Browser::text(&browser.get(&app, path).await);
        assert!(page.contains("times in UTC-03:30") && page.contains("Hour (UTC-03:30)"), "{page}");
    }
    for nonsense in ["", "9999", "%3Cb%3E"] {
        browser.plant("lazaret_zone", nonsense);
        let page = Browser::text(&browser.get(&app, &path).await);
        assert!(page.contains("times in UTC<"), "{nonsense}");
    }
}

#[tokio::test]
async fn hostile_texts_stay_texts() {
    let app = TestApp::new().await;
    let hostile = json!({
        "eventId": HOSTILE,
        "originalEvent": {"pattern": HOSTILE, "metadata": {"tenantId": HOSTILE}},
        "subscriberId": HOSTILE,
        "error": {"type": HOSTILE, "message": HOSTILE, "stackTrace": format!("at {HOSTILE} (a.js:1:1)")},
    });
    let letter = app.report(&hostile).await;
    let letter = app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    let url = format!("/incidents/{}", letter["incidentId"].as_str().unwrap());
    let browser = Browser::default();
    let typed = HOSTILE.replace('\u{0}', "");
    let rca = [("category", "contract"), ("rootCause", typed.as_str()), ("remediation", typed.as_str())];
    browser.follow(&app, &browser.submit(&app, &url, &format!("{url}/rca"), &rca).await).await;
    browser
        .follow(&app, &browser.submit(&app, &url, &format!("{url}/assign"), &[("assignee", &typed)]).await)
        .await;
    browser
        .follow(&app, &browser.submit(&app, &url, &format!("{url}/notes"), &[("text", &typed)]).await)
        .await;
    let filter = form_urlencoded::Serializer::new(String::new()).append_pair("text", &typed).finish();
    for path in ["/", "/incidents", &url, &format!("/incidents?{filter}")] {
        let page = text(&app, path).await;
        for markup in ["<script>", "<img", "\u{0}"] {
            assert!(!page.contains(markup), "{markup:?} on {path}: {page}");
        }
    }
    let page = text(&app, &url).await;
    assert!(page.contains("alert(1)") && page.contains("⟨U+202E⟩"), "{page}");
}

#[tokio::test]
async fn an_incident_that_is_not_there_is_not_found() {
    let app = TestApp::new().await;
    let browser = Browser::default();
    assert_eq!(browser.get(&app, "/incidents/019a8b1c-7e00-7000-8000-000000000000").await.status, 404);
    assert_eq!(browser.get(&app, "/incidents/nonsense").await.status, 400);
}

#[tokio::test]
async fn letters_of_a_source_that_asks_for_nothing_may_go_at_once() {
    let job = json!({"type": "mail.send", "args": [1], "options": {"queue": "mail", "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}});
    let app = TestApp::new().await;
    let pushed = push(&app, job).await;
    fetch(&app, "mail").await;
    nack(&app, &id(&pushed), json!({"type": "SmtpTimeout", "message": "no answer", "retryable": false}))
        .await;
    let list = app.get("/api/v1/incidents").await.expect(200);
    let incident = list["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{list}"));
    let page = text(&app, &format!("/incidents/{incident}")).await;
    assert!(page.contains("RCA is optional for this source"), "{page}");
    assert!(page.contains(&format!("href=\"/redrives/new?q=incident%3A{incident}")), "{page}");
}

#[tokio::test]
async fn the_ledger_of_many_letters_is_shown_as_it_was_counted_last() {
    let app = TestApp::new().await;
    app.report(&json!({"eventId": "e", "originalEvent": {"pattern": "a"}})).await;
    let counted = Ledger { captured: 1_234_567, pending: 1_234_567, ..Ledger::default() };
    app.app.books.keep(counted, app.app.clock.now(), Duration::from_secs(3_600));
    app.pass(120_000);
    let page = Browser::text(&Browser::default().get(&app, "/").await);
    assert!(page.contains("1,234,567 letters captured, all accounted for"), "{page}");
    assert!(page.contains("Counted <time") && page.contains("2 min ago"), "{page}");
    assert!(page.contains("<b>1</b><span>pending</span>"), "what waits is as it is now: {page}");
    // Of few letters it is counted for every page.
    app.app.books.keep(Ledger { captured: 7, ..counted }, app.app.clock.now(), Duration::from_secs(3_600));
    let page = Browser::text(&Browser::default().get(&app, "/").await);
    assert!(page.contains("1 letter captured") && !page.contains("Counted <time"), "{page}");
}
