//! The page of letters: filter, chips, pages, and decisions on all that match or on those that were chosen.

use lazaret_server::operations::{self, Progress};
use serde_json::{Value, json};

use super::rig::TestApp;
use super::web::{Browser, between};

fn entry(n: usize, pattern: &str) -> Value {
    json!({"eventId": format!("{pattern}-{n}"), "originalEvent": {"pattern": pattern},
        "error": {"type": "Timeout", "message": "timed out"}})
}

async fn fill(app: &TestApp, count: usize, pattern: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for from in (0..count).step_by(1_000) {
        let items: Vec<Value> = (from..count.min(from + 1_000)).map(|n| entry(n, pattern)).collect();
        let answer = app.post("/api/v1/dead-letters", &json!({"items": items})).await.expect(200);
        ids.extend(
            answer["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
    }
    ids
}

async fn page(browser: &Browser, app: &TestApp, path: &str) -> String {
    let answer = browser.get(app, path).await;
    let text = Browser::text(&answer);
    assert_eq!(answer.status, 200, "{path}: {text}");
    text
}

async fn status_of(app: &TestApp, id: &str) -> String {
    let letter = app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    letter["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_the_filter_rules_out_is_not_offered() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    app.report(&serde_json::json!({"eventId": "e", "originalEvent": {}})).await;
    let barred = |text: &str, action: &str| {
        let (_, rest) = text.split_once(&format!("name=\"action\" value=\"{action}\"")).unwrap();
        rest.split_once('>').unwrap().0.contains("disabled")
    };
    let pending = page(&browser, &app, "/letters").await;
    assert!(barred(&pending, "reopen") && !barred(&pending, "discard") && !barred(&pending, "redrive"));
    assert!(pending.contains("Not available for letters in this state: Reopen."), "{pending}");
    let resolved = page(&browser, &app, "/letters?q=status:resolved").await;
    assert!(barred(&resolved, "redrive") && !barred(&resolved, "reopen"), "{resolved}");
    let free = page(&browser, &app, "/letters?q=held:no").await;
    assert!(barred(&free, "release") && !barred(&free, "hold") && !barred(&free, "reopen"), "{free}");
    let all = page(&browser, &app, "/letters?q=").await;
    for action in ["redrive", "resolve", "discard", "hold", "release", "reopen", "delete"] {
        assert!(!barred(&all, action), "{action}");
    }
}

#[tokio::test]
async fn without_letters_the_page_says_what_to_do() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let text = page(&browser, &app, "/letters").await;
    assert!(text.contains("No pending letters."), "{text}");
    assert!(text.contains("value=\"status:pending\""), "the filter that is meant is shown: {text}");
    for section in ["<section class=\"card\" hidden>", "id=\"all\" data-live=\"dead_letter\" hidden>"] {
        assert!(text.contains(section), "nothing can be done with nothing: {text}");
    }
    assert!(page(&browser, &app, "/letters?q=").await.contains("lazaret demo"));
    assert!(page(&browser, &app, "/letters?q=queue:x").await.contains("/archive?q=queue%3Ax"));
}

#[tokio::test]
async fn letters_stand_with_what_tells_them_apart() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let id = fill(&app, 1, "order.created").await.remove(0);
    app.post(&format!("/api/v1/dead-letters/{id}/hold"), &json!({"reason": "case"})).await.expect(200);
    let text = page(&browser, &app, "/letters").await;
    for part in [
        format!("<tr data-letter=\"{id}\">"),
        format!("href=\"/letters/{id}\">order.created</a>"),
        format!("<input type=\"checkbox\" form=\"bulk\" name=\"letter\" value=\"{id}\""),
        "<span class=\"state pending\">pending</span>".into(),
        "<span class=\"tag held\">held</span>".into(),
        "<strong>Timeout</strong>".into(),
        "timed out".into(),
        "href=\"/incidents/".into(),
        "1 letter</span>".into(),
        "<div id=\"letters\" data-live=\"dead_letter\" data-reading>".into(),
        "<aside id=\"panel\" hidden".into(),
        "value=\"status:pending type:order.created\"".into(),
        "Discard 1 letter…".into(),
        "href=\"/redrives/new?q=status%3Apending\"".into(),
    ] {
        assert!(text.contains(&part), "{part} is not in {text}");
    }
}

#[tokio::test]
async fn a_filter_has_chips_and_a_wrong_one_is_kept_and_explained() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    fill(&app, 2, "order.created").await;
    fill(&app, 1, "order.paid").await;
    let text = page(&browser, &app, "/letters?q=type:order.paid+status:pending&sort=diedAt").await;
    assert!(text.contains("href=\"/letters?q=status%3Apending&#38;sort=diedAt\""), "{text}");
    assert!(text.contains("href=\"/letters?q=type%3Aorder.paid&#38;sort=diedAt\""), "{text}");
    assert!(text.contains("<option value=\"diedAt\" selected>"), "{text}");
    assert_eq!(text.matches("<tr data-letter").count(), 1);
    let wrong = browser.get(&app, "/letters?q=nonsense:%3Cb%3E").await;
    assert_eq!(wrong.status, 400);
    let text = Browser::text(&wrong);
    assert!(text.contains("role=\"alert\"") && text.contains("aria-invalid=\"true\""), "{text}");
    assert!(text.contains("value=\"nonsense:&#60;b&#62;\""), "{text}");
    assert_eq!(browser.get(&app, "/letters?cursor=nonsense").await.status, 400);
}

#[tokio::test]
async fn pages_follow_each_other_and_hold_every_letter_once() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let mut expected = fill(&app, 120, "order.created").await;
    let mut seen = Vec::new();
    let mut path = "/letters".to_owned();
    for _ in 0..3 {
        let text = page(&browser, &app, &path).await;
        assert!(text.contains("120 letters"), "{text}");
        assert_eq!(text.contains("First page"), path != "/letters");
        let rows = text.split("<tr data-letter=\"").skip(1);
        seen.extend(rows.map(|row| row.split('"').next().unwrap().to_owned()));
        let next = between(&text, "<a class=\"button\" href=\"", "\" rel=\"next\"");
        path = next.map(|next| next.replace("&#38;", "&")).unwrap_or_default();
    }
    assert_eq!(path, "", "there are three pages");
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn all_that_match_are_discarded_if_they_are_as_many_as_was_typed() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let ids = fill(&app, 5, "a.b").await;
    let other = fill(&app, 1, "c.d").await.remove(0);
    let confirm = "/letters/confirm?q=type%3Aa.b&action=discard";
    let text = page(&browser, &app, confirm).await;
    for part in ["<h1>Discard 5 letters?</h1>", "Type 5 to confirm", ">Discard 5 letters</button>"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let fields = |count: &'static str| {
        [("action", "discard"), ("q", "type:a.b"), ("all", "1"), ("reason", "poison <b>"), ("count", count)]
    };
    let refused = browser.submit(&app, confirm, "/letters/bulk", &fields("4")).await;
    assert_eq!(refused.status, 409);
    let text = Browser::text(&refused);
    assert!(text.contains("5 letters match, expected 4: nothing was changed"), "{text}");
    assert!(
        text.contains("value=\"poison &#60;b&#62;\"") && text.contains("value=\"4\" aria-invalid"),
        "{text}"
    );
    assert_eq!(status_of(&app, &ids[0]).await, "pending");
    for count in ["", "five"] {
        assert_eq!(browser.submit(&app, confirm, "/letters/bulk", &fields(count)).await.status, 400);
    }
    let done = browser.submit(&app, confirm, "/letters/bulk", &fields("5")).await;
    let text = browser.follow(&app, &done).await;
    assert!(text.contains("5 letters discarded."), "{text}");
    assert_eq!(text.matches("state discarded").count(), 5);
    assert_eq!(status_of(&app, &other).await, "pending");
    let audit = app.get("/api/v1/audit").await.expect(200);
    assert_eq!(
        (&audit["items"][0]["reason"], &audit["items"][0]["count"]),
        (&json!("poison <b>"), &json!(5))
    );
    app.check().await;
}

#[tokio::test]
async fn every_letter_there_is_can_be_meant_and_is_named_so() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    fill(&app, 3, "a.b").await;
    let confirm = "/letters/confirm?q=&action=resolve";
    assert!(page(&browser, &app, confirm).await.contains("<strong>all letters</strong>"));
    let fields = [("action", "resolve"), ("q", ""), ("all", "1"), ("count", "3")];
    let done = browser.submit(&app, confirm, "/letters/bulk", &fields).await;
    assert!(browser.follow(&app, &done).await.contains("3 letters resolved."));
    // To delete them all a reason is needed.
    let fields = [("action", "delete"), ("q", ""), ("all", "1"), ("count", "3")];
    let refused = browser.submit(&app, confirm, "/letters/bulk", &fields).await;
    assert_eq!(refused.status, 400);
    assert!(Browser::text(&refused).contains("reason required"));
    assert!(page(&browser, &app, "/letters/confirm?q=&action=delete").await.contains("move to the archive"));
    app.check().await;
}

#[tokio::test]
async fn chosen_letters_are_decided_on_one_by_one() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let ids = fill(&app, 3, "a.b").await;
    let chosen = [("action", "discard"), ("q", "type:a.b"), ("letter", ids[0].as_str()), ("letter", &ids[1])];
    let asked = browser.submit(&app, "/letters", "/letters/confirm", &chosen).await;
    assert_eq!(asked.status, 200);
    let text = Browser::text(&asked);
    assert!(text.contains(">Discard 2 letters</button>") && !text.contains("name=\"count\""), "{text}");
    assert!(
        text.contains(&format!("<input type=\"hidden\" name=\"letter\" value=\"{}\">", ids[1])),
        "{text}"
    );
    assert_eq!(status_of(&app, &ids[0]).await, "pending", "nothing is done before it is confirmed");
    let done = browser.submit(&app, "/letters", "/letters/bulk", &chosen).await;
    assert!(browser.follow(&app, &done).await.contains("2 letters discarded."));
    assert_eq!(status_of(&app, &ids[2]).await, "pending");
    let again = [("action", "discard"), ("letter", ids[0].as_str()), ("letter", &ids[2])];
    let text = Browser::text(&browser.submit(&app, "/letters", "/letters/bulk", &again).await);
    assert!(text.contains("<h1>1 letter discarded, 1 not</h1>"), "{text}");
    assert!(text.contains("cannot discard a letter that is discarded"), "{text}");
    fill(&app, 1, "c.d").await;
    let none = browser.submit(&app, "/letters", "/letters/confirm", &[("action", "discard")]).await;
    assert_eq!(none.status, 400);
    assert!(Browser::text(&none).contains("no letters selected"));
    let odd =
        browser.submit(&app, "/letters", "/letters/confirm", &[("action", "<b>"), ("letter", "x")]).await;
    assert_eq!(odd.status, 400);
    assert!(!Browser::text(&odd).contains("<b>"));
    app.check().await;
}

#[tokio::test]
async fn a_hold_on_chosen_letters_needs_its_reason() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let ids = fill(&app, 2, "a.b").await;
    let letters = [("action", "hold"), ("letter", ids[0].as_str()), ("letter", &ids[1])];
    let refused = browser.submit(&app, "/letters", "/letters/bulk", &letters).await;
    assert_eq!(refused.status, 400);
    assert!(Browser::text(&refused).contains("reason required"));
    let reasoned = [&letters[..], &[("reason", "court order")]].concat();
    let done = browser.submit(&app, "/letters", "/letters/bulk", &reasoned).await;
    assert!(browser.follow(&app, &done).await.contains("2 letters held."));
    let release = [("action", "release"), ("letter", ids[0].as_str())];
    let done = browser.submit(&app, "/letters", "/letters/bulk", &release).await;
    assert!(browser.follow(&app, &done).await.contains("1 letter released."));
    app.check().await;
}

#[tokio::test]
async fn a_redrive_of_chosen_letters_is_planned() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let ids = fill(&app, 3, "a.b").await;
    let chosen = [("action", "redrive"), ("letter", ids[0].as_str()), ("letter", &ids[2])];
    let planned = browser.submit(&app, "/letters", "/letters/bulk", &chosen).await;
    assert_eq!(planned.status, 303);
    let to = planned.headers["location"].to_str().unwrap();
    let redrive = app.get(&format!("/api/v1{to}")).await.expect(200);
    assert_eq!(redrive["total"], 2, "{redrive}");
    let all = browser.get(&app, "/letters/confirm?q=type:a.b&action=redrive").await;
    assert_eq!(
        (all.status.as_u16(), &all.headers["location"]),
        (303, &"/redrives/new?q=type%3Aa.b".parse().unwrap())
    );
}

#[tokio::test]
async fn what_takes_long_goes_on_behind_the_page_and_is_watched() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    fill(&app, 10_001, "a.b").await;
    // Nobody keeps the number of these: the list gives up counting, the question does not.
    let q = "type:a.b error:Time*";
    let list = page(&browser, &app, "/letters?q=type%3Aa.b+error%3ATime*").await;
    assert!(list.contains("Discard at least 10,000 letters…</button>"), "{list}");
    let confirm = "/letters/confirm?q=type%3Aa.b+error%3ATime*&action=discard";
    assert!(page(&browser, &app, confirm).await.contains("Discard 10,001 letters?"));
    let fields = [("action", "discard"), ("q", q), ("all", "1"), ("count", "10,001")];
    let going = browser.submit(&app, confirm, "/letters/bulk", &fields).await;
    let text = browser.follow(&app, &going).await;
    assert!(text.contains("is running in the background"), "{text}");
    let watch = between(&text, "<a href=\"/operations/", "\"").unwrap();
    let path = format!("/operations/{watch}");
    assert!(page(&browser, &app, &path).await.contains("id=\"operation\" data-live=\"dead_letter\""));
    while operations::tick(&app.app).await.unwrap() == Progress::More {}
    let text = page(&browser, &app, &path).await;
    assert!(text.contains("10,001 of 10,001 done") && text.contains("state done"), "{text}");
    app.check().await;
}

#[tokio::test]
async fn who_only_looks_sees_the_actions_and_why_not() {
    let (mut app, browser) = (TestApp::new().await, Browser::default());
    let id = fill(&app, 1, "a.b").await.remove(0);
    app.token = Some(app.token_of("admin").await);
    let viewer = app.token_of("viewer").await;
    app.token = Some(viewer);
    let text = page(&browser, &app, "/letters").await;
    assert!(text.contains("not allowed for role viewer"), "{text}");
    assert!(text.contains("value=\"discard\" class=\"danger\" disabled"), "{text}");
    for action in ["/letters/bulk", "/letters/confirm", &format!("/letters/{id}/discard")] {
        assert_eq!(browser.post(&app, action, &[("action", "discard"), ("letter", &id)]).await.status, 403);
    }
    assert_eq!(status_of(&app, &id).await, "pending");
}

#[tokio::test]
async fn a_form_of_another_page_is_not_believed() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let id = fill(&app, 1, "a.b").await.remove(0);
    browser.get(&app, "/letters").await;
    for action in [
        "/letters/bulk",
        "/letters/confirm",
        &format!("/letters/{id}/discard"),
        &format!("/letters/{id}/edit"),
    ] {
        let fields = [("csrf", "0000"), ("action", "discard"), ("letter", id.as_str())];
        let refused = browser.post(&app, action, &fields).await;
        assert_eq!(refused.status, 403, "{action}");
    }
    assert_eq!(status_of(&app, &id).await, "pending");
}
