//! The page of one letter: what it shows, and every form on it.

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::envelope::Envelope;
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_server::capture::capture;
use lazaret_server::config::Config;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::receiver::Receiver;
use super::redrive_rig::GOVERNED;
use super::rig::TestApp;
use super::web::Browser;
use super::{archive_rig, redrive_rig};

/// A message with these bytes and headers.
pub(super) fn message(body: &[u8], content_type: &str, headers: &[(&str, &str)]) -> Captured {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let error = LetterError {
        error_type: "PriceError".into(),
        code: Some("E42".into()),
        message: "no price".into(),
        backtrace: Some(TRACE.into()),
        context: Some(r#"{"sku":12345678901234567890}"#.into()),
        ..LetterError::default()
    };
    Captured {
        source: "report".into(),
        message_id: "e1".into(),
        letter_type: "order.created".into(),
        queue: "orders".into(),
        subscriber: None,
        tenant: Some("acme".into()),
        aggregate: None,
        schema_version: None,
        envelope: Envelope::seal(body.to_vec().into(), content_type, headers),
        attempts: vec![Attempt { at: None, duration_ms: Some(1_500), error: error.clone(), extra: None }],
        error,
        retry_count: 3,
        max_retries: Some(5),
        died_at: None,
        mark: None,
        word: SourceWord::Silent,
        reported: None,
    }
}

const TRACE: &str = "java.lang.IllegalStateException: no price\n\tat com.acme.Orders.total(Orders.java:12)\n\
    \tat org.springframework.a.A.a(A.java:1)\n\tat org.springframework.b.B.b(B.java:2)\n\tat org.springframework.c.C.c(C.java:3)";

/// A server that masks nothing.
async fn unmasked() -> TestApp {
    let mut config = Config::default();
    config.redaction.enabled = false;
    TestApp::with(config, Mode::Real).await
}

pub(super) async fn captured(app: &TestApp, message: Captured) -> String {
    capture(&app.app, vec![message]).await.unwrap()[0].letter.to_string()
}

pub(super) async fn page(browser: &Browser, app: &TestApp, path: &str) -> String {
    let answer = browser.get(app, path).await;
    let text = Browser::text(&answer);
    assert_eq!(answer.status, 200, "{path}: {text}");
    assert!(text.len() < 300_000, "{path} has {} bytes", text.len());
    text
}

#[track_caller]
pub(super) fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test]
async fn a_letter_tells_why_it_died_and_what_it_holds() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let body = br#"{"z":12345678901234567890.10,"a":{"b":[1,2]}}"#;
    let id = captured(&app, message(body, "application/json", &[("trace", "t-1")])).await;
    let text = page(&browser, &app, &format!("/letters/{id}")).await;
    holds(
        &text,
        &[
            &format!("<article id=\"letter\" data-letter=\"{id}\">"),
            &format!("data-copy=\"{id}\""),
            "<strong>PriceError</strong> <code>E42</code>",
            "<b>&quot;z&quot;</b>: 12345678901234567890.10",
            "<td class=\"mono\">trace</td><td class=\"mono\"><span data-copy data-copy-name=\"value of trace\">t-1</span></td>",
            "took 1 s",
            "<div class=\"own\">\tat com.acme.Orders.total(Orders.java:12)</div>",
            "3 library frames",
            "context: {&#34;sku&#34;:12345678901234567890}",
            "href=\"/letters?q=tenant%3Aacme\"",
            "Life 1",
            &format!("href=\"/api/v1/dead-letters/{id}/body\""),
        ],
    );
    assert!(
        text.find("&quot;z&quot;").unwrap() < text.find("&quot;a&quot;").unwrap(),
        "fields keep their order"
    );
    let raw = page(&browser, &app, &format!("/letters/{id}?view=raw")).await;
    holds(&raw, &["{&#34;z&#34;:12345678901234567890.10,"]);
    let hex = page(&browser, &app, &format!("/letters/{id}?view=hex")).await;
    holds(&hex, &["00000000  7b 22 7a 22 3a 31 32 33  34 35 36 37 38 39 30 31  |{&#34;z&#34;:12345678901|"]);
    // It cannot be sent from here, and says why.
    holds(&text, &["no destination is configured for source report", "<button class=\"primary\" disabled"]);
}

#[tokio::test]
async fn large_and_binary_bodies_are_shown_in_part() {
    let (app, browser) = (unmasked().await, Browser::default());
    let large = format!("{{\"a\":[{}]}}", vec!["\"value\""; 100_000].join(","));
    let id = captured(&app, message(large.as_bytes(), "application/json", &[])).await;
    let text = page(&browser, &app, &format!("/letters/{id}")).await;
    holds(&text, &["Truncated: first part of 781.3 KiB", "body=whole#body"]);
    let whole = Browser::text(&browser.get(&app, &format!("/letters/{id}?body=whole")).await);
    assert!(whole.len() > text.len() && whole.len() < 5_000_000, "{}", whole.len());
    let mut binary = message(&[0xff; 10_000], "application/x-protobuf", &[]);
    binary.message_id = "e2".into();
    let id = captured(&app, binary).await;
    let text = page(&browser, &app, &format!("/letters/{id}")).await;
    holds(&text, &["00000000  ff ff", "Bytes 0 to 4096 of 10000.", "view=hex&#38;from=4096#body"]);
    holds(
        &page(&browser, &app, &format!("/letters/{id}?view=hex&from=4096")).await,
        &["00001000  ff", "Previous bytes"],
    );
}

#[tokio::test]
async fn what_must_not_be_seen_is_masked_in_every_view() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let body = br#"{"password":"hunter2","kept":"seen"}"#;
    let headers = [("authorization", "Bearer s3cret-token"), ("trace", "t-1")];
    let id = captured(&app, message(body, "application/json", &headers)).await;
    for query in ["", "?view=raw", "?view=hex", "/edit"] {
        let text = page(&browser, &app, &format!("/letters/{id}{query}")).await;
        for secret in ["hunter2", "s3cret-token", "68 75 6e 74"] {
            assert!(!text.contains(secret), "{secret} is in {query}: {text}");
        }
    }
    let text = page(&browser, &app, &format!("/letters/{id}")).await;
    holds(&text, &["[redacted]", "seen", "t-1", &format!("action=\"/letters/{id}/reveal\"")]);
    // A header that stays as it is shown is sent as it was.
    let edit = format!("/letters/{id}/edit");
    let shown = page(&browser, &app, &edit).await;
    holds(&shown, &["⟦hidden 1⟧", "authorization: [redacted]"]);
    let mut binary = message(b"\xff\xfepassword", "application/x-protobuf", &[]);
    binary.message_id = "e2".into();
    let id = captured(&app, binary).await;
    holds(&page(&browser, &app, &format!("/letters/{id}")).await, &["Reveal the letter to see it"]);
}

#[tokio::test]
async fn decisions_are_taken_by_forms_and_refused_with_the_reason() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let id = captured(&app, message(b"{}", "application/json", &[])).await;
    let letter = format!("/letters/{id}");
    let action = |name: &str| format!("/letters/{id}/{name}");
    let done = browser.submit(&app, &letter, &action("discard"), &[("reason", "poison")]).await;
    let text = browser.follow(&app, &done).await;
    holds(
        &text,
        &["Letter discarded.", "state discarded", "poison", "cannot discard a letter that is discarded"],
    );
    let refused = browser.submit(&app, &letter, &action("resolve"), &[("reason", "typed <i>")]).await;
    assert_eq!(refused.status, 409);
    holds(&Browser::text(&refused), &["role=\"alert\"", "cannot resolve", "value=\"typed &#60;i&#62;\""]);
    let done = browser.submit(&app, &letter, &action("reopen"), &[]).await;
    holds(&browser.follow(&app, &done).await, &["Letter reopened.", "state pending"]);
    let done = browser.submit(&app, &letter, &action("resolve"), &[]).await;
    holds(&browser.follow(&app, &done).await, &["state resolved"]);
    app.check().await;
}

#[tokio::test]
async fn what_was_just_decided_is_undone_by_one_press() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let id = captured(&app, message(b"{}", "application/json", &[])).await;
    let letter = format!("/letters/{id}");
    assert!(!page(&browser, &app, &letter).await.contains("id=\"undo\""));
    for verb in ["discard", "resolve"] {
        let done = browser.submit(&app, &letter, &format!("{letter}/{verb}"), &[]).await;
        holds(&browser.follow(&app, &done).await, &["id=\"undo\"", "undo"]);
        // Whoever comes later finds it under its own name.
        assert!(!page(&browser, &app, &letter).await.contains("id=\"undo\""));
        let undone = browser.submit(&app, &letter, &format!("{letter}/reopen"), &[("reason", "undo")]).await;
        let text = browser.follow(&app, &undone).await;
        holds(&text, &["Letter reopened.", "state pending"]);
        assert!(!text.contains("id=\"undo\""), "{text}");
    }
    app.check().await;
}

#[tokio::test]
async fn a_hold_keeps_a_letter_until_it_is_released() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let id = captured(&app, message(b"{}", "application/json", &[])).await;
    let letter = format!("/letters/{id}");
    let hold = format!("/letters/{id}/hold");
    let refused = browser.submit(&app, &letter, &hold, &[("reason", "case 7"), ("until", "soon")]).await;
    assert_eq!(refused.status, 400);
    holds(&Browser::text(&refused), &["neither a time nor a duration", "value=\"case 7\"", "value=\"soon\""]);
    let done = browser.submit(&app, &letter, &hold, &[("reason", "case 7"), ("until", "365d")]).await;
    let text = browser.follow(&app, &done).await;
    holds(
        &text,
        &["Letter held.", "held by local", "case 7", "in 365 d", "cannot discard a letter that is pending"],
    );
    let refused = browser.submit(&app, &letter, &format!("/letters/{id}/delete"), &[]).await;
    assert_eq!(refused.status, 409);
    holds(&Browser::text(&refused), &["release the hold first"]);
    let done = browser.submit(&app, &letter, &format!("/letters/{id}/release"), &[("reason", "over")]).await;
    let text = browser.follow(&app, &done).await;
    holds(&text, &["Letter released."]);
    assert!(!text.contains("held by local"), "{text}");
    app.check().await;
}

#[tokio::test]
async fn a_shut_gate_is_shown_and_only_an_administrator_breaks_the_glass() {
    let receiver = Receiver::start().await;
    let config =
        format!("{GOVERNED}[sources.report.destination]\nurl = '{}'\nallow_private = true\n", receiver.url());
    let mut app = TestApp::with(redrive_rig::configured(&config), Mode::Real).await;
    let browser = Browser::default();
    let id = captured(&app, message(b"{}", "application/json", &[])).await;
    let (letter, retry) = (format!("/letters/{id}"), format!("/letters/{id}/retry"));
    let text = page(&browser, &app, &letter).await;
    holds(&text, &["Redrive blocked", "RCA required", "name=\"breakGlass\""]);
    let refused = browser.submit(&app, &letter, &retry, &[("breakGlass", "now")]).await;
    assert_eq!((refused.status.as_u16(), receiver.got().len()), (400, 0));
    holds(&Browser::text(&refused), &["value=\"now\""]);
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    app.token = Some(app.token_of("operator").await);
    let text = page(&browser, &app, &letter).await;
    assert!(!text.contains("name=\"breakGlass\""), "{text}");
    holds(&text, &["<button class=\"primary\" disabled title=\"RCA required\""]);
    assert_eq!(browser.submit(&app, &letter, &retry, &[]).await.status, 409);
    app.token = Some(admin);
    let reason = "the customer waits at the counter";
    let sent = browser.submit(&app, &letter, &retry, &[("breakGlass", reason)]).await;
    browser.follow(&app, &sent).await;
    assert_eq!(receiver.got().len(), 1);
    app.check().await;
}

#[tokio::test]
async fn an_archived_letter_is_shown_and_comes_back() {
    let (rig, browser) = (archive_rig::Rig::new(1).await, Browser::default());
    let letter = rig.letter("e1").await;
    rig.archive(&[letter]).await;
    rig.settle().await;
    let path = format!("/letters/{letter}");
    let text = page(&browser, &rig.test, &path).await;
    holds(&text, &["Archived by", "max age", "File <code>", "Restore letter", "12345678901234567890"]);
    assert!(!text.contains("Retry letter") && !text.contains("Discard letter"), "{text}");
    holds(&text, &[&format!("href=\"/api/v1/archive/{letter}/body\"")]);
    let done = browser.submit(&rig.test, &path, &format!("{path}/restore"), &[("reason", "needed")]).await;
    let text = browser.follow(&rig.test, &done).await;
    holds(&text, &["Letter restored.", "Retry letter"]);
    assert!(!text.contains("in the archive"), "{text}");
    let deleted = browser.submit(&rig.test, &path, &format!("{path}/delete"), &[]).await;
    holds(&browser.follow(&rig.test, &deleted).await, &["can be restored from the archive"]);
    holds(&page(&browser, &rig.test, &path).await, &["Archived by", "Archived by local"]);
    rig.test.check().await;
}

#[tokio::test]
async fn older_lives_are_read_when_they_are_wanted() {
    let (rig, browser) = (archive_rig::Rig::new(1).await, Browser::default());
    let letter = rig.dies("e1", "first").await;
    rig.archive(&[letter]).await;
    rig.settle().await;
    rig.test.pass(3_600_000);
    assert_eq!(rig.dies("e1", "second").await, letter);
    let path = format!("/letters/{letter}");
    let text = page(&browser, &rig.test, &path).await;
    holds(&text, &["Life 2", "?older=1#letter-lives"]);
    assert!(!text.contains("Life 1"), "{text}");
    let text = page(&browser, &rig.test, &format!("{path}?older=1")).await;
    holds(&text, &["Life 2", "Life 1"]);
}

#[tokio::test]
async fn a_letter_that_is_not_there_has_a_page_that_says_so() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let id = "019a8b1c-7e00-7000-8000-000000000000";
    for path in [format!("/letters/{id}"), format!("/letters/{id}/edit")] {
        let gone = browser.get(&app, &path).await;
        assert_eq!(gone.status, 404, "{path}");
        holds(&Browser::text(&gone), &[&format!("letter {id} not found"), "/archive"]);
    }
    assert_eq!(browser.get(&app, "/letters/%3Cscript%3E").await.status, 400);
    assert_eq!(browser.get(&app, &format!("/operations/{id}")).await.status, 404);
}

/// Everything that could be taken for markup, turns the reading direction, or cannot be seen.
const EVIL: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`&lt;\u{202e}\u{2066}\u{0}\u{7}\u{200b}javascript:alert(1)";

/// A letter whose every field holds this.
fn hostile(event: &str, text: &str, body: Vec<u8>) -> Captured {
    let some = Some(text.to_owned());
    let quoted = serde_json::to_string(text).unwrap();
    let error = LetterError {
        error_type: text.into(),
        code: some.clone(),
        message: text.into(),
        backtrace: Some(format!("{text}\n\tat com.acme.{text}(X.java:1)\n{text}")),
        context: Some(quoted.clone()),
        extra: Some(format!("{{{quoted}:{quoted}}}")),
    };
    let attempt = |n: i64| Attempt {
        at: Some(lazaret_core::time::Time::from_ms(1_763_000_000_000 + n)),
        duration_ms: Some(u64::MAX),
        error: error.clone(),
        extra: Some(format!("{{{quoted}:[{quoted}]}}")),
    };
    Captured {
        message_id: format!("{event}{text}"),
        letter_type: text.into(),
        queue: text.into(),
        subscriber: some.clone(),
        tenant: some.clone(),
        aggregate: some.clone(),
        schema_version: some,
        envelope: Envelope::seal(
            body.into(),
            text,
            vec![(text.into(), text.into()), ("long".into(), text.repeat(64 * 1024 / text.len() + 1).into())],
        ),
        // Reports have at most 16 MiB in all.
        attempts: (0..if text.len() > 1_000 { 2 } else { 60 }).map(attempt).collect(),
        error: error.clone(),
        reported: Some(quoted),
        ..message(b"", "", &[])
    }
}

#[track_caller]
fn is_harmless(path: &str, text: &str) {
    assert!(text.len() < 300_000, "{path} has {} bytes", text.len());
    for evil in [
        "<script>",
        "<img",
        " onerror=alert(1)>",
        "\u{202e}",
        "\u{2066}",
        "\u{0}",
        "\u{7}",
        "\u{200b}",
        "href=\"javascript:",
        " style=\"",
    ] {
        assert!(!text.contains(evil), "{path} holds {evil:?}");
    }
    for tag in ["details", "div", "section", "ol", "table", "form", "dl", "pre"] {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        let opened = text.matches(&open).count();
        assert_eq!(opened, text.matches(&close).count(), "{path}: <{tag}>");
    }
}

#[tokio::test]
async fn nothing_that_a_stranger_writes_leaves_its_place() {
    let (app, browser) = (unmasked().await, Browser::default());
    let long = "<\u{202e}\u{0}\"x".repeat(200_000);
    let bodies: Vec<(&str, &str, Vec<u8>)> = vec![
        (
            "json",
            EVIL,
            format!(
                "{{{0}:{0},\"a\":[{0}]}}",
                serde_json::to_string(EVIL)
                    .unwrap()
                    .replace("\\u0000", EVIL.split('\u{0}').next().unwrap().split('"').next().unwrap())
            )
            .into_bytes(),
        ),
        ("text", EVIL, EVIL.as_bytes().to_vec()),
        ("bytes", EVIL, [EVIL.as_bytes(), b"\xff\xfe\x00<script>"].concat()),
        ("deep", EVIL, ("[".repeat(200_000) + &"]".repeat(200_000)).into_bytes()),
        ("wide", EVIL, format!("[{}]", vec!["{\"<b>\":\"\u{202e}\"}"; 50_000].join(",")).into_bytes()),
        ("long", &long, format!("{{\"a\":{}}}", serde_json::to_string(&long).unwrap()).into_bytes()),
        ("zeros", &long, vec![0; 1_000_000]),
    ];
    for (event, text, body) in bodies {
        let id = captured(&app, hostile(event, text, body)).await;
        app.post(&format!("/api/v1/dead-letters/{id}/hold"), &json!({"reason": &EVIL.repeat(3)[..]}))
            .await
            .expect(200);
        for query in ["", "?view=raw", "?view=hex", "?view=json", "?older=1"] {
            let path = format!("/letters/{id}{query}");
            let answer = browser.get(&app, &path).await;
            assert_eq!(answer.status, 200, "{event}{query}");
            is_harmless(&format!("{event}{query}"), &Browser::text(&answer));
        }
        let edit = browser.get(&app, &format!("/letters/{id}/edit")).await;
        assert_eq!(edit.status, 200, "{event}");
        let text = Browser::text(&edit);
        assert!(
            text.len() < 300_000 && !text.contains("<script>") && !text.contains("<img"),
            "{event}: {}",
            text.len()
        );
    }
    let shorter = "<\u{202e}\u{0}\"x".repeat(1_000);
    for n in 0..50 {
        captured(&app, hostile(&format!("more{n}"), &shorter, b"{}".to_vec())).await;
    }
    let list = browser.get(&app, "/letters").await;
    assert_eq!(list.status, 200);
    is_harmless("/letters", &Browser::text(&list).replace("<tr data-letter", "<tr"));
}
