//! Messages of brokers: typed headers, origins and missing bodies, from capture to the destination and back.

use lazaret_core::envelope::Envelope;
use lazaret_core::header::{HeaderValue, headers_from_json};
use lazaret_core::id::LetterId;
use lazaret_core::letter::Captured;
use lazaret_core::origin::Origin;
use lazaret_core::redrive::RunState;
use lazaret_server::app::App;
use lazaret_server::archive;
use lazaret_server::capture::capture;
use lazaret_server::redrive::{Edited, NotRedriven, SingleRequest};
use lazaret_store::Store;
use lazaret_store::decision::Decided;
use lazaret_store::testing::messages::{GONE, every_header, full, without_body};
use serde_json::{Value, json};

use super::redrive_rig::{Does, GOVERNED, Rig, Scripted, at_once, plain};
use super::rig::TestApp;
use super::web::Browser;
use super::web_letter::{holds, message, page};
use super::{archive_rig, redrive_rig};

async fn free() -> Rig {
    Rig::with(&format!("{GOVERNED}governance = 'optional'\n"), Scripted::new(false)).await
}

async fn dies(app: &App, event: &str, envelope: Envelope) -> LetterId {
    let letter = Captured { message_id: event.into(), envelope, ..message(b"", "", &[]) };
    capture(app, vec![letter]).await.unwrap()[0].letter
}

async fn original(store: &dyn Store, id: LetterId) -> Envelope {
    store.original(id, None).await.unwrap().unwrap().envelope
}

fn url(id: LetterId) -> String {
    format!("/api/v1/dead-letters/{id}")
}

#[tokio::test]
async fn the_api_shows_headers_and_origin() {
    let config = redrive_rig::configured("[redaction]\nenabled = false\n");
    let app = TestApp::with(config, lazaret_store::sqlite::Mode::Real).await;
    let id = dies(&app.app, "full", full(br#"{"n":1}"#)).await;
    let shown = app.get(&url(id)).await.expect(200);
    assert_eq!(headers_from_json(&shown["headers"].to_string()).unwrap(), every_header());
    for origin in [&shown["origin"], &shown["lives"][0]["origin"]] {
        assert_eq!(Origin::from_json(&origin.to_string()).unwrap(), *full(b"").origin().unwrap());
    }
    assert!(shown.get("bodyMissing").is_none());
    let text = page(&Browser::default(), &app, &format!("/letters/{id}")).await;
    holds(&text, &["orders.eu.new", "18446744073709551615", "9007199254740993 (int64)", "19.99 (decimal)"]);
    app.check().await;
}

#[tokio::test]
async fn a_letter_without_a_body_says_so_everywhere() {
    let rig = free().await;
    let app = &rig.test;
    let (gone, there) = (dies(&rig.app, "gone", without_body()).await, rig.dies(1, None).await);
    let shown = app.get(&url(gone)).await.expect(200);
    assert_eq!((&shown["bodyMissing"], &shown["lives"][0]["bodyMissing"]), (&json!(GONE), &json!(GONE)));
    assert_eq!((&shown["originalEvent"], &shown["lives"][0]["bodyBytes"]), (&Value::Null, &json!(0)));
    let problem = app.get(&format!("{}/body", url(gone))).await.problem(410, "body_missing");
    assert!(problem["detail"].as_str().unwrap().contains(GONE), "{problem}");
    assert_eq!(app.get(&format!("{}/body", url(there))).await.status, 200);
    let text = page(&Browser::default(), app, &format!("/letters/{gone}")).await;
    holds(&text, &["Body missing", GONE, "unheard-of"]);
    assert!(!text.contains("Empty body"), "{text}");

    let planned = rig.plan(at_once()).await;
    assert_eq!((planned.redrive.total, planned.redrive.refused), (2, 1));
    let plan = json!(planned.plan);
    assert_eq!(plan["refusals"][0]["code"], "body_missing", "{plan}");
    assert!(plan["refusals"][0]["reason"].as_str().unwrap().contains(GONE), "{plan}");
    rig.try_launch(planned.redrive.id, 1).await.unwrap();
    rig.tick().await;
    assert_eq!(rig.to.numbers(), [1], "only the one with a body was sent");

    let refused = rig.single(gone, plain()).await;
    assert!(matches!(&refused, Err(NotRedriven::BodyMissing(_, why)) if why == GONE), "{refused:?}");
    let headers = Edited { headers: vec![("x".into(), None)], ..Edited::default() };
    let refused = rig.single(gone, SingleRequest { edit: Some(headers), ..plain() }).await;
    assert!(matches!(refused, Err(NotRedriven::BodyMissing(..))), "{refused:?}");
    let problem = app.post(&format!("{}/retry", url(gone)), &json!({})).await.problem(409, "no_way_back");
    assert!(problem["detail"].as_str().unwrap().contains(GONE), "{problem}");
    let body = Edited { body: Some(br#"{"n":7}"#.to_vec()), ..Edited::default() };
    let done = rig.single(gone, SingleRequest { edit: Some(body), ..plain() }).await.unwrap();
    assert_eq!(done.state, RunState::Done);
    let sent = rig.to.got.lock().unwrap().pop().unwrap();
    assert_eq!((sent.headers, sent.origin.as_ref()), (every_header(), without_body().origin()));
    assert_eq!(original(rig.test.store.as_ref(), gone).await, without_body(), "the original stays");
    app.check().await;
}

#[tokio::test]
async fn a_destination_gets_everything_and_its_handle_back() {
    let rig = free().await;
    let id = dies(&rig.app, "full", full(br#"{"n":1}"#)).await;
    rig.to.always(Does::Take);
    let run = rig.launched(at_once()).await;
    rig.tick().await;
    let sent = rig.to.got.lock().unwrap()[0].clone();
    let envelope = full(br#"{"n":1}"#);
    assert_eq!(sent.headers, every_header());
    assert_eq!((sent.origin.as_ref(), &sent.body), (envelope.origin(), envelope.body()));
    assert_eq!(sent.letter, id);
    let rows = rig.test.get(&format!("/api/v1/redrives/{run}/letters")).await.expect(200);
    assert_eq!(rows["items"][0]["handle"], "scripted:1");
    // Another process verifies it.
    rig.to.verified.lock().unwrap().clear();
    let other = rig.other();
    lazaret_server::redrive::tick(&other).await.unwrap();
    let verified = rig.to.verified.lock().unwrap().clone();
    assert!(
        !verified.is_empty() && verified.iter().all(|it| it.as_deref() == Some("scripted:1")),
        "{verified:?}"
    );
}

#[tokio::test]
async fn messages_go_through_an_export_unchanged() {
    let (here, there) = (TestApp::new().await, TestApp::new().await);
    let kept = [
        (dies(&here.app, "full", full(br#"{"n":1}"#)).await, full(br#"{"n":1}"#)),
        (dies(&here.app, "gone", without_body()).await, without_body()),
    ];
    let exported = here.get("/api/v1/export").await;
    let text = String::from_utf8(exported.bytes).unwrap();
    let answer = there.post_text("/api/v1/import", "application/x-ndjson", text).await.expect(200);
    assert_eq!((&answer["created"], &answer["end"]), (&json!(2), &json!(true)), "{answer}");
    for (id, envelope) in kept {
        assert_eq!(original(there.store.as_ref(), id).await, envelope);
    }
    there.check().await;
}

#[tokio::test]
async fn messages_go_through_a_file_of_the_archive_unchanged() {
    let rig = archive_rig::Rig::new(2).await;
    let kept = [
        (dies(&rig.app, "full", full(br#"{"n":1}"#)).await, full(br#"{"n":1}"#)),
        (dies(&rig.app, "gone", without_body()).await, without_body()),
    ];
    rig.archive(&kept.clone().map(|(id, _)| id)).await;
    assert_eq!(rig.settle().await.len(), 1);
    for (id, envelope) in kept {
        assert_eq!(rig.place(id).await, "file");
        let read = archive::read_letter(&rig.app, id).await.unwrap().unwrap();
        assert_eq!(read.lives[0].1, envelope);
        assert_eq!(rig.restore(id).await.unwrap(), Decided::Done);
        assert_eq!(original(rig.app.store.as_ref(), id).await, envelope);
    }
}

#[tokio::test]
async fn headers_are_masked_at_every_level() {
    let app = TestApp::new().await;
    let table = vec![
        ("queue".to_owned(), HeaderValue::from("orders")),
        ("api-key".to_owned(), HeaderValue::ShortText("hush-1".into())),
    ];
    let headers = vec![
        ("x-death".to_owned(), HeaderValue::Array(vec![HeaderValue::Table(table)])),
        ("Authorization".to_owned(), HeaderValue::Bytes(bytes::Bytes::from_static(b"hush-2"))),
    ];
    let id = dies(&app.app, "e", Envelope::seal(bytes::Bytes::from_static(b"{}"), "", headers)).await;
    let shown = app.get(&url(id)).await.expect(200);
    let text = shown["headers"].to_string();
    assert!(!text.contains("hush") && text.contains("orders") && !text.contains("aHVzaC0y"), "{text}");
    assert_eq!(shown["redacted"], true);
    let text = page(&Browser::default(), &app, &format!("/letters/{id}")).await;
    assert!(!text.contains("hush") && !text.contains("aHVzaC0y"), "{text}");
}

#[tokio::test]
async fn typed_headers_are_changed_over_the_api() {
    let rig = free().await;
    let id = dies(&rig.app, "full", full(br#"{"n":1}"#)).await;
    let by = |headers: Value| json!({"edit": {"headers": headers}});
    let bad = by(json!({"x-n": {"type": "int8", "value": 300}}));
    let problem = rig.test.post(&format!("{}/retry", url(id)), &bad).await.problem(400, "bad_request");
    assert_eq!(problem["field"], "edit.headers.x-n", "{problem}");
    let edit = Edited {
        headers: vec![("trace".into(), None), ("x-n".into(), Some(HeaderValue::Int8(7)))],
        ..Edited::default()
    };
    rig.single(id, SingleRequest { edit: Some(edit), ..plain() }).await.unwrap();
    let mut expected = every_header();
    expected.retain(|(name, _)| name != "trace");
    expected.push(("x-n".to_owned(), HeaderValue::Int8(7)));
    assert_eq!(rig.to.got.lock().unwrap()[0].headers, expected);
    let edits = rig.test.get(&format!("{}/edits", url(id))).await.expect(200);
    assert_eq!(edits["items"][0]["headers"]["x-n"], json!({"type": "int8", "value": 7}));
}
