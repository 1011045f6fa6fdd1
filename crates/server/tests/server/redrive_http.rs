//! A redrive to a real receiver over HTTP, with what it is sent.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::RunState;
use lazaret_server::redrive;
use lazaret_store::sqlite::Mode;
use tokio::net::TcpListener;

use super::redrive_rig::{GOVERNED, Rig, Scripted, at_once, configured};
use super::rig::TestApp;

/// What a receiver was sent.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(HeaderMap, Bytes)>>>);

/// A receiver that refuses events whose `n` is 3. It ends with the test.
async fn receiver() -> (String, Received) {
    let received = Received::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let router = Router::new().route("/in", post(take)).with_state(received.clone());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, received)
}

async fn take(State(received): State<Received>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let event: serde_json::Value = serde_json::from_slice(&body).unwrap();
    received.0.lock().unwrap().push((headers, body));
    if event["n"] == 3 { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::NO_CONTENT }
}

async fn rig() -> (Rig, Received) {
    let (url, received) = receiver().await;
    let config = format!("{GOVERNED}[sources.report.destination]\nurl = '{url}'\nallow_private = true\n");
    let test = TestApp::with(configured(&config), Mode::Real).await;
    let app = Arc::clone(&test.app);
    (Rig { test, app, to: Scripted::new(false) }, received)
}

#[tokio::test]
async fn letters_arrive_as_they_were_captured_with_what_makes_them_known() {
    let (rig, received) = rig().await;
    let mut letters = Vec::new();
    for n in 0..6 {
        letters.push(rig.dies(n, Some("o-1").filter(|_| n < 3)).await);
    }
    rig.fixed().await;
    let id = rig.launched(at_once()).await;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("succeeded", 5), ("failed", 1)]);
    assert_eq!(rig.state(id).await.0, RunState::Done);
    let received = received.0.lock().unwrap().clone();
    assert_eq!(received.len(), 6);
    for (headers, body) in &received {
        let event: serde_json::Value = serde_json::from_slice(body).unwrap();
        let letter = letters[event["n"].as_u64().unwrap() as usize].to_string();
        assert_eq!(headers["lazaret-letter-id"], letter);
        assert_eq!(headers["lazaret-life"], "1");
        assert_eq!(headers["lazaret-redrive-id"], id.to_string());
        assert_eq!(headers["idempotency-key"], format!("{letter}:1:1"));
    }
    let order: Vec<u64> = received
        .iter()
        .map(|(_, body)| serde_json::from_slice::<serde_json::Value>(body).unwrap()["n"].as_u64().unwrap())
        .filter(|n| *n < 3)
        .collect();
    assert_eq!(order, [0, 1, 2]);
    assert_eq!(rig.status(letters[3]).await, Status::Pending);
    assert_eq!(rig.status(letters[4]).await, Status::Resolved);
    rig.test.check().await;
}

#[tokio::test]
async fn a_receiver_that_is_away_is_a_definite_failure() {
    let (rig, _) = rig().await;
    let config = format!(
        "{GOVERNED}[sources.report.destination]\nurl = 'http://127.0.0.1:1/'\nallow_private = true\n"
    );
    let app = rig.app.under(configured(&config));
    let one = rig.dies(0, None).await;
    rig.fixed().await;
    let done = redrive::single(&app, one, super::redrive_rig::plain()).await.unwrap();
    assert_eq!(rig.letters(done.id).await, [("failed", 1)]);
    assert_eq!(rig.status(one).await, Status::Pending);
    rig.test.check().await;
}
