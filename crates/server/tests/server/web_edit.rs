//! Edit and retry: of letters, where not everything may be seen, and of jobs.

use lazaret_core::gate::Governance;
use lazaret_server::config::Success;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::ojs::{fetch, id, nack, push};
use super::receiver::Receiver;
use super::rig::TestApp;
use super::web::{Browser, between};
use super::web_letter::{captured, holds, message, page};

const BODY: &[u8] =
    br#"{"amount":10.50,"auth":{"password":"hunter2"},"card":4242424242424242,"url":"https://u:pw9@h/x"}"#;

/// The body as the page offers it.
const LINES: &str = r#"{
  "amount": 10.50,
  "auth": {
    "password": "⟦hidden 1⟧"
  },
  "card": "⟦hidden 2: •••• 4242⟧",
  "url": "⟦hidden 3: https://u:[redacted]@h/x⟧"
}"#;

/// The same in one line.
const DRAFT: &str = r#"{"amount":10.50,"auth":{"password":"⟦hidden 1⟧"},"card":"⟦hidden 2: •••• 4242⟧","url":"⟦hidden 3: https://u:[redacted]@h/x⟧"}"#;

async fn optional(receiver: &Receiver) -> TestApp {
    let mut config = receiver.config(Success::Response);
    config.sources.get_mut("report").unwrap().governance = Governance::Optional;
    TestApp::with(config, Mode::Real).await
}

#[track_caller]
fn tells_no_secret(text: &str) {
    for secret in ["hunter2", "4242424242424242", "pw9"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn a_letter_is_sent_and_sent_changed_after_a_look_at_the_difference() {
    let receiver = Receiver::start().await;
    let (app, browser) = (optional(&receiver).await, Browser::default());
    let id =
        captured(&app, message(b"{\n\"price\": 1}", "application/json", &[("trace", "a"), ("kept", "1")]))
            .await;
    let letter = format!("/letters/{id}");
    receiver.answers(&[422]);
    let sent = browser.submit(&app, &letter, &format!("{letter}/retry"), &[("reason", "again")]).await;
    holds(
        &browser.follow(&app, &sent).await,
        &["Rejected by the destination", "state failed", "state pending"],
    );

    let edit = format!("{letter}/edit");
    holds(
        &page(&browser, &app, &edit).await,
        &["\n{\n&#34;price&#34;: 1}</textarea>", "trace: a\nkept: 1\n</textarea>"],
    );
    let as_it_is = [
        ("body", "{\r\n\"price\": 1}"),
        ("contentType", "application/json"),
        ("headers", "trace: a\r\nkept: 1\r\n"),
    ];
    let nothing = browser.submit(&app, &edit, &edit, &as_it_is).await;
    assert_eq!(nothing.status, 400);
    holds(&Browser::text(&nothing), &["changes nothing"]);

    let changed = [
        ("body", "{\r\n\"price\": 2}"),
        ("contentType", "application/json"),
        ("headers", "trace: <b>\r\n"),
        ("reason", "a price"),
    ];
    let seen = browser.submit(&app, &edit, &edit, &changed).await;
    assert_eq!((seen.status.as_u16(), receiver.got().len()), (200, 1), "nothing is sent before it was seen");
    let text = Browser::text(&seen);
    holds(
        &text,
        &[
            "<div class=\"out\">-&#34;price&#34;: 1}</div>",
            "<div class=\"in\">+&#34;price&#34;: 2}</div>",
            "-kept: 1",
            "+trace: &#60;b&#62;",
            "value=\"a price\"",
        ],
    );
    let mark = between(&text, "name=\"seen\" value=\"", "\"").unwrap();

    let mut other = changed;
    other[0].1 = "{\"price\": 3}";
    let unseen = [&other[..], &[("seen", mark.as_str()), ("send", "1")]].concat();
    let shown = browser.submit(&app, &edit, &edit, &unseen).await;
    assert_eq!((shown.status.as_u16(), receiver.got().len()), (200, 1), "what was not seen is shown first");

    let agreed = [&changed[..], &[("seen", mark.as_str()), ("send", "1")]].concat();
    let sent = browser.submit(&app, &edit, &edit, &agreed).await;
    let text = browser.follow(&app, &sent).await;
    holds(
        &text,
        &[
            "Delivered and resolved.",
            "state resolved",
            "Edit 1 by local",
            "<span class=\"tag\">edit 1</span>",
            "a price",
        ],
    );
    let got = receiver.got();
    assert_eq!(got[1].body, "{\n\"price\": 2}", "the ends of lines are the original's");
    assert_eq!(got[1].headers["trace"], "<b>");
    assert!(!got[1].headers.contains_key("kept"), "{:?}", got[1].headers);
    app.check().await;
}

#[tokio::test]
async fn a_masked_body_is_changed_without_being_seen() {
    let receiver = Receiver::start().await;
    let (app, browser) = (optional(&receiver).await, Browser::default());
    let letter = captured(&app, message(BODY, "application/json", &[("authorization", "Bearer t0p")])).await;
    let edit = format!("/letters/{letter}/edit");
    let text = Browser::text(&browser.get(&app, &edit).await);
    tells_no_secret(&text);
    let offered = between(&text, "aria-describedby=\"drafted\">\n", "</textarea>").unwrap();
    assert_eq!(offered.replace("&#34;", "\""), LINES);

    for same in [DRAFT, LINES, &LINES.replace('\n', "\r\n")] {
        let untouched = browser.submit(&app, &edit, &edit, &[("body", same)]).await;
        assert!(Browser::text(&untouched).contains("changes nothing"), "{same}");
    }

    for (typed, why) in [
        (DRAFT.replace("\"amount\":10.50", "\"amount\":\"⟦hidden 1⟧\""), "could be read where it stands now"),
        (DRAFT.replace("⟦hidden 1⟧", "x⟦hidden 1⟧"), "has been changed"),
        (DRAFT.replace("{\"amount\"", "\"amount\""), "this is none any more"),
        (DRAFT.replace("\"⟦hidden 2: •••• 4242⟧\"", "\"•••• 4242\""), "contains a mask"),
        (DRAFT.replace("⟦hidden 1⟧", "[redacted]"), "contains a mask"),
    ] {
        let answer = browser.submit(&app, &edit, &edit, &[("body", &typed)]).await;
        let text = Browser::text(&answer);
        tells_no_secret(&text);
        match between(&text, "name=\"seen\" value=\"", "\"") {
            // What the API alone knows it says when it is sent.
            Some(mark) => {
                let fields = [("body", typed.as_str()), ("seen", mark.as_str()), ("send", "1")];
                let sent = browser.submit(&app, &edit, &edit, &fields).await;
                assert_eq!(sent.status, 400, "{typed}");
                assert!(Browser::text(&sent).contains(why), "{typed}: {}", Browser::text(&sent));
            }
            None => assert!(answer.status == 400 && text.contains(why), "{typed}: {text}"),
        }
    }
    assert!(receiver.got().is_empty());

    let changed =
        LINES.replace("10.50", "12.00").replace("\"⟦hidden 2: •••• 4242⟧\"", "\"4000056655665556\"");
    let seen = Browser::text(&browser.submit(&app, &edit, &edit, &[("body", &changed)]).await);
    tells_no_secret(&seen);
    assert!(
        seen.contains("-  &#34;amount&#34;: 10.50,") && seen.contains("+  &#34;amount&#34;: 12.00,"),
        "{seen}"
    );
    let mark = between(&seen, "name=\"seen\" value=\"", "\"").unwrap();
    let fields = [("body", changed.as_str()), ("seen", mark.as_str()), ("send", "1")];
    let sent = browser.submit(&app, &edit, &edit, &fields).await;
    let text = browser.follow(&app, &sent).await;
    assert!(text.contains("Delivered and resolved."), "{text}");
    tells_no_secret(&text);
    let expected = String::from_utf8_lossy(BODY)
        .replace("10.50", "12.00")
        .replace("4242424242424242", "\"4000056655665556\"");
    assert_eq!(receiver.got()[0].body, expected);
    app.check().await;
}

#[tokio::test]
async fn what_is_no_json_is_not_changed_where_it_is_masked() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    for (n, body) in
        [&b"password=hunter2 and more"[..], b"\xff\xfe", "{\"a\":\"⟦\",\"password\":\"hunter2\"}".as_bytes()]
            .into_iter()
            .enumerate()
    {
        let mut letter = message(body, "text/plain", &[]);
        letter.message_id = format!("e{n}");
        let letter = captured(&app, letter).await;
        let text = Browser::text(&browser.get(&app, &format!("/letters/{letter}/edit")).await);
        assert!(text.contains("lazaret retry --body FILE") && !text.contains("name=\"body\""), "{text}");
        tells_no_secret(&text);
    }
}

/// A job that died, and the id of its letter.
async fn dead_job(app: &TestApp) -> (String, String) {
    let options = json!({"queue": "mails", "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
    let args = json!([12_345_678_901_234_567_890_u64, {"password": "hunter2", "to": "ada"}]);
    let job = id(&push(app, json!({"type": "mail.send", "args": args, "options": options})).await);
    fetch(app, "mails").await;
    assert_eq!(nack(app, &job, json!({"code": "x", "message": "no"})).await["state"], "discarded");
    let letters = app.get(&format!("/api/v1/dead-letters?source=jobs&eventId={job}")).await.expect(200);
    (job, letters["items"][0]["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_job_is_changed_and_put_back() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let (job, letter) = dead_job(&app).await;
    let page = Browser::text(&browser.get(&app, &format!("/letters/{letter}")).await);
    let edit = format!("/letters/{letter}/edit");
    assert!(page.contains(&format!("href=\"{edit}\">Edit and retry</a>")), "{page}");
    let text = Browser::text(&browser.get(&app, &edit).await);
    tells_no_secret(&text);
    let offered =
        between(&text, "aria-describedby=\"drafted\">\n", "</textarea>").unwrap().replace("&#34;", "\"");
    assert!(offered.starts_with("[12345678901234567890,{\"password\":\"⟦hidden 1⟧\""), "{offered}");
    assert!(
        text.contains("name=\"queue\" value=\"mails\"") && text.contains("name=\"maxAttempts\" value=\"1\"")
    );

    let as_it_is = [("args", offered.as_str()), ("queue", "mails"), ("priority", "0"), ("maxAttempts", "1")];
    let nothing = browser.submit(&app, &edit, &edit, &as_it_is).await;
    assert!(nothing.status == 400 && Browser::text(&nothing).contains("changes nothing"));
    for (field, value, why) in [
        ("args", "{}", "is not a JSON array"),
        ("args", "[1],\"queue\":\"x\"", "is not a JSON array"),
        ("priority", "much", "is not an integer"),
    ] {
        let fields = as_it_is.map(|(name, was)| (name, if name == field { value } else { was }));
        let answer = browser.submit(&app, &edit, &edit, &fields).await;
        assert_eq!(answer.status, 400);
        assert!(Browser::text(&answer).contains(why), "{value}: {}", Browser::text(&answer));
    }

    let args = offered.replace("ada", "grace");
    let changed = [("args", args.as_str()), ("queue", "slow"), ("priority", "5"), ("maxAttempts", "3")];
    let seen = Browser::text(&browser.submit(&app, &edit, &edit, &changed).await);
    tells_no_secret(&seen);
    for part in ["grace", "-Queue: mails", "+Queue: slow", "+Maximum attempts: 3"] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
    let mark = between(&seen, "name=\"seen\" value=\"", "\"").unwrap();
    let bad = [
        &[("args", args.as_str()), ("queue", "No Such"), ("priority", "5"), ("maxAttempts", "3")][..],
        &[("seen", mark.as_str()), ("send", "1")],
    ]
    .concat();
    let shown = browser.submit(&app, &edit, &edit, &bad).await;
    assert_eq!(shown.status, 200, "what was not seen is shown first");
    let agreed = [&changed[..], &[("seen", mark.as_str()), ("send", "1")]].concat();
    let sent = browser.submit(&app, &edit, &edit, &agreed).await;
    let text = browser.follow(&app, &sent).await;
    assert!(text.contains("Edited job enqueued in slow.") && text.contains("0 of 3"), "{text}");
    let fetched = fetch(&app, "slow").await;
    assert_eq!(fetched[0]["id"], job.as_str());
    assert_eq!(
        fetched[0]["args"],
        json!([12_345_678_901_234_567_890_u64, {"password": "hunter2", "to": "grace"}])
    );
    // It has left the dead letter: there is nothing to change any more.
    let gone = browser.get(&app, &edit).await;
    assert_eq!(gone.status, 404);
    app.check().await;
}

#[tokio::test]
async fn a_job_that_cannot_be_as_it_was_changed_says_why() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let (_, letter) = dead_job(&app).await;
    let edit = format!("/letters/{letter}/edit");
    let changed = [("queue", "No Such")];
    let seen = Browser::text(&browser.submit(&app, &edit, &edit, &changed).await);
    let mark = between(&seen, "name=\"seen\" value=\"", "\"").unwrap();
    let agreed = [&changed[..], &[("seen", mark.as_str()), ("send", "1")]].concat();
    let refused = browser.submit(&app, &edit, &edit, &agreed).await;
    let text = Browser::text(&refused);
    assert!(refused.status.is_client_error() && text.contains("class=\"trouble\""), "{text}");
    assert!(text.contains("value=\"No Such\""), "what was typed stays: {text}");
    app.check().await;
}
