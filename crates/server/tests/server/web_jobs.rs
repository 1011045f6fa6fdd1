//! The pages of jobs: queues and workers that are told what to do, jobs that are found, one job with its failures.

use serde_json::json;

use super::ojs::{UNKNOWN, fetch, id, nack, push};
use super::ojs_dead_letter::dead;
use super::rig::TestApp;
use super::web::Browser;

async fn beat(app: &TestApp, worker: &str) {
    let body = json!({"worker_id": worker, "queues": ["mail"], "hostname": "host-1", "pid": 7});
    app.post("/ojs/v1/workers/heartbeat", &body).await.expect(200);
}

async fn mail(app: &TestApp) -> String {
    id(&push(
        app,
        json!({"type": "mail.send", "args": [12345678901234567890_u64], "options": {"queue": "mail"}}),
    )
    .await)
}

/// Where the link to the next page leads.
pub fn next(text: &str) -> String {
    let (before, _) = text.split_once("\" rel=\"next\"").unwrap_or_else(|| panic!("no next page: {text}"));
    let (_, address) = before.rsplit_once("href=\"").unwrap();
    address.replace("&#38;", "&").replace("&amp;", "&")
}

/// What a reader sees of a page: a field that is not shown keeps the bytes that have to come back.
fn without_hidden_fields(text: &str) -> String {
    let mut pieces = text.split("<input type=\"hidden\"");
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |seen, piece| seen + piece.split_once('>').unwrap().1)
}

async fn page(app: &TestApp, path: &str) -> String {
    let answer = Browser::default().get(app, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.bytes));
    Browser::text(&answer)
}

#[tokio::test]
async fn an_empty_server_says_how_jobs_come_about() {
    let app = TestApp::new().await;
    for (view, told) in [
        ("", "No queues"),
        ("?view=queues", "The first job creates a queue"),
        ("?view=workers", "after its first heartbeat"),
        ("?view=jobs", "No jobs"),
    ] {
        let text = page(&app, &format!("/jobs{view}")).await;
        assert!(text.contains(told), "{view}: {text}");
    }
    let answer = Browser::default().get(&app, "/jobs?view=nothing").await;
    assert_eq!(answer.status, 404);
    assert!(Browser::text(&answer).contains("unknown jobs view"));
}

#[tokio::test]
async fn a_queue_is_paused_and_resumed_by_its_forms() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    mail(&app).await;
    let text = page(&app, "/jobs").await;
    assert!(text.contains("<span class=\"state active\">active</span>"), "{text}");
    assert!(text.contains("href=\"/jobs?view=jobs&amp;queue=mail&amp;state=available\">1</a>"), "{text}");
    let answer = browser.submit(&app, "/jobs", "/jobs/queues/pause", &[("name", "mail")]).await;
    let text = browser.follow(&app, &answer).await;
    assert!(text.contains("Queue mail paused"), "{text}");
    assert!(text.contains("<span class=\"state paused\">paused</span>"), "{text}");
    assert_eq!(app.get("/ojs/v1/admin/queues/mail").await.expect(200)["paused"], true);
    assert!(fetch(&app, "mail").await.is_empty());
    let answer = browser.submit(&app, "/jobs", "/jobs/queues/resume", &[("name", "mail")]).await;
    let text = browser.follow(&app, &answer).await;
    assert!(text.contains("Queue mail resumed."), "{text}");
    assert_eq!(fetch(&app, "mail").await.len(), 1);
}

#[tokio::test]
async fn a_queue_that_cannot_be_is_refused_and_what_was_typed_stays() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let answer = browser.submit(&app, "/jobs", "/jobs/queues/pause", &[("name", "No \"Queue\"!")]).await;
    assert_eq!(answer.status, 400);
    let text = Browser::text(&answer);
    assert!(text.contains("is not a valid queue name"), "{text}");
    assert!(
        text.contains("value=\"No &#34;Queue&#34;!\"") && text.contains("aria-invalid=\"true\""),
        "{text}"
    );
}

#[tokio::test]
async fn a_worker_is_quieted_resumed_and_terminated() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    mail(&app).await;
    beat(&app, "w 1/ä").await;
    let wish = json!({"queues": ["mail"], "worker_id": "w 1/ä"});
    app.post("/ojs/v1/workers/fetch", &wish).await.expect(200);
    let text = page(&app, "/jobs?view=workers").await;
    for part in ["w 1/ä", "host-1", "process 7", "running", "<td data-name=\"jobs\" class=\"number\">1"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let worker = [("worker", "w 1/ä")];
    let from = "/jobs";
    let told = browser.submit(&app, from, "/jobs/workers/quiet", &worker).await;
    let text = browser.follow(&app, &told).await;
    assert!(
        text.contains("fetches no new ones") && text.contains("action=\"/jobs/workers/resume\""),
        "{text}"
    );
    let told = browser.submit(&app, from, "/jobs/workers/resume", &worker).await;
    assert!(browser.follow(&app, &told).await.contains("is running again"));
    let asks = page(&app, "/jobs?view=workers&terminate=w+1%2F%C3%A4").await;
    assert!(asks.contains("Terminate worker") && asks.contains("This cannot be undone"), "{asks}");
    let told = browser.submit(&app, from, "/jobs/workers/terminate", &worker).await;
    let text = browser.follow(&app, &told).await;
    assert!(text.contains(">terminating<"), "{text}");
    let refused = browser.submit(&app, from, "/jobs/workers/resume", &worker).await;
    assert_eq!(refused.status, 409);
    assert!(Browser::text(&refused).contains("start another worker under another name"));
    let unknown = browser.submit(&app, from, "/jobs/workers/quiet", &[("worker", "nobody")]).await;
    assert_eq!(unknown.status, 404);
    assert!(Browser::text(&unknown).contains("unknown worker nobody"));
}

#[tokio::test]
async fn jobs_are_found_by_state_queue_and_type_and_in_pages() {
    let app = TestApp::new().await;
    let mut ids = Vec::new();
    for _ in 0..25 {
        ids.push(mail(&app).await);
        app.pass(1);
    }
    let other = dead(&app, "bills", "bill.pay", "Timeout").await;
    let first = page(&app, "/jobs?view=jobs&queue=mail").await;
    assert!(first.contains("25 jobs") && first.contains(&ids[24]) && !first.contains(&ids[0]), "{first}");
    assert!(!first.contains(&other), "{first}");
    let second = page(&app, &next(&first)).await;
    assert!(second.contains(&ids[0]) && !second.contains(&ids[24]), "{second}");
    assert!(second.contains("rel=\"first\"") && !second.contains("rel=\"next\""), "{second}");
    for found in ["state=discarded", "type=bill.*", "queue=bills", "queue=bills&state=discarded&worker="] {
        let text = page(&app, &format!("/jobs?view=jobs&{found}")).await;
        assert!(text.contains(&other) && !text.contains(&ids[3]), "{found}: {text}");
        assert!(text.contains("dead letter"), "{text}");
    }
    assert!(page(&app, "/jobs?view=jobs&queue=none").await.contains("No matching jobs"));
    let refused = Browser::default().get(&app, "/jobs?view=jobs&state=dead&type=x%22y").await;
    assert_eq!(refused.status, 400);
    let text = Browser::text(&refused);
    assert!(text.contains("is not a state of jobs") && text.contains("x&#34;y"), "{text}");
}

#[tokio::test]
async fn one_job_shows_its_failures_and_leads_to_its_letter() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let one = dead(&app, "bills", "bill.pay", "Timeout").await;
    let text = page(&app, &format!("/jobs/{one}")).await;
    let letters = app.get(&format!("/api/v1/dead-letters?source=jobs&eventId={one}")).await.expect(200);
    let letter = letters["items"][0]["id"].as_str().unwrap();
    for part in ["bill.pay", "Timeout", "attempt 1", &format!("href=\"/letters/{letter}\""), "tenant_id"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("cannot cancel a job that is discarded"), "the button says why not: {text}");
    let refused = browser.submit(&app, "/jobs", &format!("/jobs/{one}/cancel"), &[]).await;
    assert_eq!(refused.status, 409);
    assert!(Browser::text(&refused).contains("cannot cancel a job that is discarded"));
    let other = mail(&app).await;
    let text = page(&app, &format!("/jobs/{other}")).await;
    assert!(text.contains("[12345678901234567890]"), "numbers stay exact: {text}");
    let done = browser.submit(&app, &format!("/jobs/{other}"), &format!("/jobs/{other}/cancel"), &[]).await;
    let text = browser.follow(&app, &done).await;
    assert!(text.contains("Job cancelled.") && text.contains("state cancelled"), "{text}");
    for nobody in [UNKNOWN, "nonsense"] {
        let answer = browser.get(&app, &format!("/jobs/{nobody}")).await;
        assert_eq!(answer.status, 404);
        assert!(Browser::text(&answer).contains("not found"));
    }
    app.check().await;
}

#[tokio::test]
async fn what_strangers_send_is_shown_and_not_obeyed() {
    let app = TestApp::new().await;
    let evil = "<script>alert(1)</script>\u{202e}\"'><img src=x onerror=alert(1)>";
    let options = json!({"queue": "q", "retry": {"max_attempts": 5, "initial_interval": "PT1S"}});
    let wish = json!({"type": "a.b", "args": [evil], "meta": {"x": evil}, "options": options});
    let one = id(&push(&app, wish).await);
    let wish = json!({"queues": ["q"], "worker_id": evil});
    app.post("/ojs/v1/workers/fetch", &wish).await.expect(200);
    app.post("/ojs/v1/workers/heartbeat", &json!({"worker_id": evil, "hostname": evil})).await.expect(200);
    let workers = page(&app, "/jobs?view=workers").await;
    let held = page(&app, &format!("/jobs/{one}")).await;
    nack(&app, &one, json!({"code": evil, "type": evil, "message": evil, "backtrace": [evil]})).await;
    let failed = page(&app, &format!("/jobs/{one}")).await;
    let listed = page(&app, "/jobs?view=jobs").await;
    for text in [workers, held, failed, listed] {
        assert!(!text.contains("<script>alert") && !text.contains("<img src=x"), "{text}");
        let seen = without_hidden_fields(&text);
        assert!(!seen.contains('\u{202e}') && seen.contains("U+202E"), "{text}");
    }
    let asked = page(&app, "/jobs?view=jobs&type=%3Cscript%3Ealert(1)&queue=%22%3E%3Cscript%3E").await;
    assert!(!asked.contains("<script>alert") && !asked.contains("\"><script>"), "{asked}");
}

#[tokio::test]
async fn what_is_masked_elsewhere_is_masked_here() {
    let app = TestApp::new().await;
    let options = json!({"queue": "q", "retry": {"max_attempts": 5, "initial_interval": "PT1S"}});
    let wish = json!({"type": "a.b", "args": [{"password": "hunter-2-hunter"}], "options": options});
    let one = id(&push(&app, wish).await);
    let text = page(&app, &format!("/jobs/{one}")).await;
    assert!(text.contains("password") && !text.contains("hunter-2"), "{text}");
}

#[tokio::test]
async fn who_only_looks_changes_nothing() {
    let mut app = TestApp::new().await;
    let one = mail(&app).await;
    beat(&app, "w").await;
    app.token = Some(app.token_of("admin").await);
    app.token = Some(app.token_of("viewer").await);
    let browser = Browser::default();
    for path in ["/jobs", "/jobs?view=workers", &format!("/jobs/{one}")] {
        let text = Browser::text(&browser.get(&app, path).await);
        assert!(text.contains("disabled title=\"not allowed for role viewer"), "{path}: {text}");
    }
    for action in [
        "/jobs/queues/pause",
        "/jobs/queues/resume",
        "/jobs/workers/quiet",
        "/jobs/workers/resume",
        "/jobs/workers/terminate",
        &format!("/jobs/{one}/cancel"),
    ] {
        let fields = [("name", "mail"), ("worker", "w")];
        let answer = browser.submit(&app, "/jobs", action, &fields).await;
        assert_eq!(answer.status, 403, "{action}");
    }
    assert_eq!(app.get("/ojs/v1/admin/queues/mail").await.expect(200)["paused"], false);
    assert_eq!(app.get("/ojs/v1/admin/workers").await.expect(200)["items"][0]["wished"], "running");
}

#[tokio::test]
async fn a_form_of_somebody_else_is_not_believed() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let one = mail(&app).await;
    beat(&app, "w").await;
    browser.get(&app, "/jobs").await;
    for action in [
        "/jobs/queues/pause",
        "/jobs/workers/terminate",
        "/jobs/workers/quiet",
        &format!("/jobs/{one}/cancel"),
    ] {
        let answer = browser.post(&app, action, &[("csrf", "0"), ("name", "mail"), ("worker", "w")]).await;
        assert_eq!(answer.status, 403, "{action}");
    }
    assert_eq!(app.get("/ojs/v1/admin/queues/mail").await.expect(200)["paused"], false);
    assert_eq!(app.get("/ojs/v1/admin/workers").await.expect(200)["items"][0]["wished"], "running");
    assert_eq!(app.get(&format!("/ojs/v1/jobs/{one}")).await.expect(200)["job"]["state"], "available");
}
