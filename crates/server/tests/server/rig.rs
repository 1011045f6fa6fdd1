//! A server on a temporary store and a clock that stands still, called without a network.
//!
//! Which store it is says the module `backing` beside this one; see `postgres.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use lazaret_core::time::Time;
use lazaret_server::access::Role;
use lazaret_server::app::App;
use lazaret_server::audit::AuditKey;
use lazaret_server::clock::Clock;
use lazaret_server::config::Config;
use lazaret_server::tokens;
use lazaret_store::Numbers;
use lazaret_store::audit::Actor;
use lazaret_store::sqlite::Mode;
use lazaret_store::stats::LedgerBy;
use serde_json::Value;
use tower::ServiceExt;

use super::backing::{Backing, Kept};

/// When the tests' clock starts.
pub const START: &str = "2026-11-15T03:00:00.000Z";

pub struct TestApp {
    pub app: Arc<App>,
    pub store: Arc<Kept>,
    pub token: Option<String>,
    router: Router,
    clock: Clock,
    /// Gone with everything in it when the test ends.
    #[allow(dead_code, reason = "only the embedded store has a file that tests damage")]
    pub backing: Backing,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: http::HeaderMap,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.bytes)))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.bytes));
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// A problem of this code, with everything a problem must have.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["type"], format!("urn:lazaret:{code}"));
        assert_eq!(body["status"], status);
        assert!(body["detail"].is_string());
        body
    }
}

impl TestApp {
    pub async fn new() -> TestApp {
        TestApp::with(Config::default(), Mode::Real).await
    }

    pub async fn with(config: Config, mode: Mode) -> TestApp {
        let backing = Backing::new(mode);
        let store = Arc::new(backing.open(mode).await);
        let clock = Clock::fixed(Time::parse(START).unwrap());
        let app = App::new(store.clone(), config, clock.clone(), mode == Mode::Test).await.unwrap();
        let router = lazaret_server::api::router(Arc::clone(&app));
        TestApp { app, store, token: None, router, clock, backing }
    }

    /// The same server with a key for the audit log.
    #[allow(dead_code, reason = "the chain is damaged in the embedded store's file alone")]
    pub fn use_audit_key(&mut self, key: AuditKey) {
        self.app = Arc::new(self.app.with_audit_key(Some(key)));
        self.router = lazaret_server::api::router(Arc::clone(&self.app));
    }

    /// An admin's token, made in the store itself as on the server's machine: whatever the configuration, it works.
    #[allow(dead_code, reason = "not every test that runs on both stores asks who may")]
    pub async fn first_token(&self) -> String {
        let by = Actor { name: "command line".into(), role: "admin".into(), request: None };
        let (app, now) = (&self.app, self.app.clock.now());
        let made = tokens::create(app.store.as_ref(), &app.entropy, now, "the admin", Role::Admin, by).await;
        app.access.reload(app.store.as_ref()).await.unwrap();
        made.unwrap().token
    }

    /// A token of this role; the first one that is made must be an admin's.
    #[allow(dead_code, reason = "not every test that runs on both stores asks who may")]
    pub async fn token_of(&self, role: &str) -> String {
        let wish = serde_json::json!({"name": format!("the {role}"), "role": role});
        let made = self.post("/api/v1/tokens", &wish).await.expect(201);
        made["token"].as_str().unwrap().to_owned()
    }

    /// Moves the clock on.
    pub fn pass(&self, ms: i64) {
        match &self.clock {
            Clock::Fixed(at) => at.fetch_add(ms, Ordering::SeqCst),
            Clock::System | Clock::Shared(_) => unreachable!("the rig's clock stands still"),
        };
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        crate::documented::check(&method, &path, parts.status);
        let bytes = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, bytes }
    }

    pub fn request(&self, method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
        // Without the wish for JSON the events would come as a stream that does not end.
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:7070")
            .header(header::ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(body.into()).unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path, Body::empty())).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, "application/json", body.to_string()).await
    }

    pub async fn post_text(&self, path: &str, content_type: &str, body: impl Into<Body>) -> Answer {
        let mut request = self.request(Method::POST, path, body);
        request.headers_mut().insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        self.send(request).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path, Body::empty())).await
    }

    /// Reports one entry and gives its letter's id.
    pub async fn report(&self, entry: &Value) -> String {
        let answer = self.post("/api/v1/dead-letters", entry).await.expect(200);
        answer["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Fails if a row is unaccounted for or a counter is wrong: the end of every test.
    pub async fn check(&self) {
        let ledger = self.store.ledger(LedgerBy::Recount).await.unwrap();
        assert_eq!((ledger.difference(), ledger.wrong_counters, ledger.unlisted), (0, 0, 0), "{ledger:?}");
    }
}
