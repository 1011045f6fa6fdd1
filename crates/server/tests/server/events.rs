//! Following events: nothing is missed and nothing comes twice, whoever reads badly or comes back late.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use lazaret_server::app::App;
use lazaret_server::config::Config;
use lazaret_server::events::{ReaderBounds, Readers, prune};
use lazaret_server::operations::Progress;
use lazaret_store::Store;
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::rig::TestApp;
use super::web::Browser;

/// One block of a stream; comments are left out.
#[derive(Debug, Default)]
struct Message {
    id: Option<u64>,
    kind: Option<String>,
    data: Option<Value>,
}

impl Message {
    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    fn data(&self) -> &Value {
        self.data.as_ref().unwrap()
    }
}

struct Stream {
    body: Body,
    text: String,
}

impl Stream {
    async fn open(router: &Router, path: &str, last: Option<u64>) -> Stream {
        let mut request = Request::builder().uri(path).header(header::HOST, "127.0.0.1");
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
        Stream { body: answer.into_body(), text: String::new() }
    }

    /// The next block; nothing when the stream has ended.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let message = parse(block);
                self.text = rest.to_owned();
                return Some(message);
            }
            let bytes = self.body.frame().await?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The next block that tells something.
    async fn next_told(&mut self) -> Option<Message> {
        let told = async {
            loop {
                let message = self.next().await?;
                if message.data.is_some() {
                    return Some(message);
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("the stream tells something")
    }

    async fn take(&mut self, count: usize) -> Vec<Message> {
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(self.next_told().await.unwrap());
        }
        taken
    }
}

fn parse(block: &str) -> Message {
    let mut message = Message::default();
    for line in block.lines() {
        match line.split_once(": ").unwrap() {
            ("id", id) => message.id = Some(id.parse().unwrap()),
            ("event", kind) => message.kind = Some(kind.to_owned()),
            ("data", data) => message.data = Some(serde_json::from_str(data).unwrap()),
            ("", _) | ("retry", "1000") => {}
            other => panic!("{other:?}"),
        }
    }
    message
}

fn streaming(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert(header::ACCEPT, "text/event-stream".parse().unwrap());
    request
}

fn router(app: &TestApp, bounds: ReaderBounds) -> (Arc<App>, Router) {
    let app = Arc::new(app.app.with_readers(Readers::new(bounds)));
    (Arc::clone(&app), lazaret_server::api::router(app))
}

fn entry(event: usize, letter_type: &str) -> Value {
    json!({
        "eventId": format!("e-{event}"),
        "originalEvent": {"pattern": letter_type},
        "error": {"type": "Timeout", "message": "too late"},
    })
}

async fn positions(app: &TestApp) -> Vec<u64> {
    app.store.events(0, 100_000).await.unwrap().iter().map(|event| event.position).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_misses_nothing_and_who_does_not_read_is_dropped() {
    let app = TestApp::new().await;
    let stall = Duration::from_millis(50);
    let (impatient, lazy_router) = router(&app, ReaderBounds { stall, ..ReaderBounds::default() });
    let (_, router) = router(&app, ReaderBounds::default());
    let mut lazy = Stream::open(&lazy_router, "/api/v1/events", None).await;
    let batches = async |from: usize| {
        for batch in 0..40 {
            let entries: Vec<Value> = (0..5).map(|n| entry(from + batch * 5 + n, "order.created")).collect();
            app.post("/api/v1/dead-letters", &Value::from(entries)).await.expect(200);
        }
    };
    let reader = async {
        let (mut seen, mut added, mut dice) = (Vec::new(), 0, 7_u64);
        while added < 400 {
            let mut stream = Stream::open(&router, "/api/v1/events?after=0", seen.last().copied()).await;
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            for _ in 0..1 + (dice >> 33) % 13 {
                let message = stream.next_told().await.unwrap();
                assert_eq!(message.id, message.data()["position"].as_u64());
                seen.extend(message.id);
                added += usize::from(message.is("dead_letter.added"));
                if added == 400 {
                    break;
                }
            }
        }
        seen
    };
    let (mut seen, (), ()) = tokio::join!(reader, batches(0), batches(10_000));
    let all = positions(&app).await;
    let mut rest = Stream::open(&router, "/api/v1/events", seen.last().copied()).await;
    let missing = all.len() - seen.len();
    seen.extend(rest.take(missing).await.iter().filter_map(|message| message.id));
    assert_eq!(seen, all);

    // Letters keep coming until the server has had enough of the one that does not read.
    let mut more = 100_000;
    while impatient.readers.count() > 0 {
        app.report(&entry(more, "order.created")).await;
        more += 1;
    }
    let (mut read, mut dropped) = (Vec::new(), None);
    while let Some(message) = lazy.next_told().await {
        assert!(dropped.is_none(), "nothing comes after the reason");
        if message.is("dropped") {
            dropped = Some(message);
        } else {
            read.extend(message.id);
        }
    }
    let dropped = dropped.expect("a reason is given");
    assert!(dropped.data()["reason"].as_str().unwrap().contains("stalled"));
    assert_eq!(dropped.data()["resumeAfter"].as_u64(), read.last().copied());
    assert_eq!(read, all[..read.len()], "what was queued comes first");
    app.check().await;
}

#[tokio::test]
async fn a_reader_begins_with_what_happens_from_now_on() {
    let app = TestApp::new().await;
    app.report(&entry(1, "order.created")).await;
    let (_, router) = router(&app, ReaderBounds::default());
    let mut stream = Stream::open(&router, "/api/v1/events", None).await;
    let newest = *positions(&app).await.last().unwrap();
    assert_eq!(stream.next().await.unwrap().id, Some(newest), "it is told its place at once");
    let id = app.report(&entry(2, "order.created")).await;
    let told = stream.next_told().await.unwrap();
    let data = told.data();
    assert!(told.id > Some(newest));
    assert_eq!((data["kind"].as_str(), data["letterId"].as_str()), (told.kind.as_deref(), Some(id.as_str())));
    assert!(data["id"].as_str().unwrap().starts_with("evt_"));
    assert_eq!(data["at"], super::rig::START);
    assert_eq!(data["letter"]["type"], "order.created");
    assert!(data.get("operationId").is_none() && data.get("actor").is_none(), "{data}");
}

#[tokio::test]
async fn a_place_that_is_no_longer_kept_is_told_and_gone_on_from_the_oldest() {
    let config = Config::default();
    let mut app = TestApp::with(config.clone(), Mode::Real).await;
    for n in 0..8 {
        app.report(&entry(n, "order.created")).await;
    }
    let mut few = config;
    few.events.keep = 3;
    app.app = Arc::new(app.app.under(few));
    while prune(&app.app).await.unwrap() == Progress::More {}
    let kept = positions(&app).await;
    assert_eq!(kept.len(), 3);
    let (_, router) = router(&app, ReaderBounds::default());
    for asked in [0, 1, 1_000_000, u64::MAX] {
        let mut stream = Stream::open(&router, "/api/v1/events?after=0", Some(asked)).await;
        let lost = stream.next_told().await.unwrap();
        assert!(lost.is("lost"), "{lost:?}");
        assert_eq!(
            (lost.data()["asked"].as_u64(), lost.data()["oldest"].as_u64()),
            (Some(asked), Some(kept[0]))
        );
        let ids: Vec<u64> = stream.take(3).await.iter().filter_map(|message| message.id).collect();
        assert_eq!(ids, kept);
        if asked == 0 {
            continue;
        }
        let page = poll(&app, &format!("after={asked}")).await;
        assert_eq!(page["lost"]["oldest"], kept[0], "{page}");
        assert_eq!(page["items"][0]["position"], kept[0]);
    }
    // Whoever asks for the oldest has lost nothing.
    let mut stream = Stream::open(&router, "/api/v1/events?after=0", None).await;
    assert_eq!(stream.next_told().await.unwrap().id, Some(kept[0]));
}

#[tokio::test]
async fn a_question_that_would_widen_by_a_slip_is_refused() {
    let app = TestApp::new().await;
    for query in ["kind=", "kind=incident.*,", "after=1&after=2", "body=acme", "after=-1"] {
        let request = app.request(Method::GET, &format!("/api/v1/events?{query}"), "");
        assert_eq!(app.send(request).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn only_what_is_asked_for_comes() {
    let app = TestApp::new().await;
    let order = app.report(&entry(1, "order.created")).await;
    let invoice = app.report(&entry(2, "invoice.created")).await;
    for id in [&order, &invoice] {
        app.post(&format!("/api/v1/dead-letters/{id}/resolve"), &json!({})).await.expect(200);
    }
    let (_, router) = router(&app, ReaderBounds::default());
    let about = |path: &'static str, count: usize| {
        let router = router.clone();
        async move {
            let mut stream = Stream::open(&router, path, None).await;
            let told = stream.take(count).await;
            told.iter()
                .map(|it| (it.kind.clone().unwrap(), it.data()["letterId"].as_str().unwrap().to_owned()))
                .collect::<Vec<_>>()
        }
    };
    let resolved = "dead_letter.resolved".to_owned();
    let added = "dead_letter.added".to_owned();
    let by_kind = about("/api/v1/events?after=0&kind=incident.nothing,*.resolved", 2).await;
    assert_eq!(by_kind, [(resolved.clone(), order.clone()), (resolved.clone(), invoice.clone())]);
    let by_letter = about("/api/v1/events?after=0&type=invoice.*&kind=dead_letter.*", 2).await;
    assert_eq!(by_letter, [(added, invoice.clone()), (resolved.clone(), invoice.clone())]);
    let by_both = about("/api/v1/events?after=0&q=type:invoice.*&kind=dead_letter.resolved", 1).await;
    assert_eq!(by_both, [(resolved, invoice)]);
    for bad in ["tpye=x", "after=-1", "after=x", "limit=3"] {
        let asked = streaming(app.request(Method::GET, &format!("/api/v1/events?{bad}"), ""));
        assert_eq!(app.send(asked).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn events_that_are_left_out_move_the_place_too() {
    let app = TestApp::new().await;
    let beat = Duration::from_millis(10);
    let (_, router) = router(&app, ReaderBounds { beat, ..ReaderBounds::default() });
    let mut stream = Stream::open(&router, "/api/v1/events?kind=redrive.*", None).await;
    app.report(&entry(1, "order.created")).await;
    let newest = positions(&app).await.last().copied();
    loop {
        let message = stream.next().await.unwrap();
        assert!(message.data.is_none(), "{message:?}");
        if message.id == newest {
            break;
        }
    }
}

async fn poll(app: &TestApp, query: &str) -> Value {
    let request = app.request(Method::GET, &format!("/api/v1/events?{query}"), "");
    app.send(request).await.expect(200)
}

#[tokio::test]
async fn polling_gives_pages_that_join_without_a_gap() {
    let app = TestApp::new().await;
    assert_eq!(poll(&app, "").await, json!({"items": [], "next": 0}));
    for n in 0..7 {
        app.report(&entry(n, if n % 2 == 0 { "order.created" } else { "invoice.created" })).await;
    }
    let all = positions(&app).await;
    assert_eq!(poll(&app, "").await, json!({"items": [], "next": all.last()}), "what happens from now on");
    let (mut seen, mut next) = (Vec::new(), 0);
    loop {
        let page = poll(&app, &format!("after={next}&limit=2")).await;
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().filter_map(|item| item["position"].as_u64()));
        next = page["next"].as_u64().unwrap();
        if items.is_empty() {
            break;
        }
        assert!(items.len() <= 2);
    }
    assert_eq!(seen, all);
    let page = poll(&app, "after=0&type=invoice.*&kind=dead_letter.added&limit=500").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    assert_eq!(page["next"].as_u64(), all.last().copied(), "what is left out is not looked at again");
}

#[tokio::test]
async fn one_reader_too_many_is_told_to_come_back() {
    let app = TestApp::new().await;
    let (_, router) = router(&app, ReaderBounds { readers_max: 1, ..ReaderBounds::default() });
    let first = Stream::open(&router, "/api/v1/events", None).await;
    let ask = || streaming(app.request(Method::GET, "/api/v1/events", ""));
    let refused = router.clone().oneshot(ask()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    drop(first);
    // Its place is free as soon as its task has noticed.
    while router.clone().oneshot(ask()).await.unwrap().status() != StatusCode::OK {}
}

#[tokio::test]
async fn one_caller_cannot_take_every_stream() {
    let mut app = TestApp::new().await;
    let admin = app.token_of("admin").await;
    app.token = Some(admin.clone());
    let viewer = app.token_of("viewer").await;
    let (_, router) = router(&app, ReaderBounds { per_caller_max: 2, ..ReaderBounds::default() });
    let open = async |token: &str| {
        let mut request = streaming(app.request(Method::GET, "/api/v1/events", ""));
        request.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        router.clone().oneshot(request).await.unwrap()
    };
    let (first, second) = (open(&viewer).await, open(&viewer).await);
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(open(&viewer).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let other = open(&admin).await;
    assert_eq!(other.status(), StatusCode::OK);
    drop(first);
    // Its place is free as soon as its task has noticed.
    while open(&viewer).await.status() != StatusCode::OK {}
}

#[tokio::test]
async fn a_revoked_token_reads_no_further_event() {
    let mut app = TestApp::new().await;
    let admin = app.post("/api/v1/tokens", &json!({"name": "a", "role": "admin"})).await.expect(201);
    app.token = Some(admin["token"].as_str().unwrap().to_owned());
    let viewer = app.post("/api/v1/tokens", &json!({"name": "v", "role": "viewer"})).await.expect(201);
    // No beat comes in time to notice it.
    let beat = Duration::from_secs(3_600);
    let (_, router) = router(&app, ReaderBounds { beat, ..ReaderBounds::default() });
    let mut request = streaming(app.request(Method::GET, "/api/v1/events", ""));
    let bearer = format!("Bearer {}", viewer["token"].as_str().unwrap());
    request.headers_mut().insert(header::AUTHORIZATION, bearer.parse().unwrap());
    let body = router.clone().oneshot(request).await.unwrap().into_body();
    let mut stream = Stream { body, text: String::new() };
    app.delete(&format!("/api/v1/tokens/{}", viewer["id"].as_str().unwrap())).await;
    app.report(&entry(1, "order.created")).await;
    let told = stream.next_told().await.unwrap();
    assert!(told.is("dropped") && told.data()["reason"] == "the token was revoked", "{told:?}");
}

#[tokio::test]
async fn a_stream_does_not_outlive_its_token() {
    let mut app = TestApp::new().await;
    let admin = app.post("/api/v1/tokens", &json!({"name": "a", "role": "admin"})).await.expect(201);
    app.token = Some(admin["token"].as_str().unwrap().to_owned());
    let viewer = app.post("/api/v1/tokens", &json!({"name": "v", "role": "viewer"})).await.expect(201);
    let (_, router) = router(&app, ReaderBounds { beat: Duration::ZERO, ..ReaderBounds::default() });
    let mut request = streaming(app.request(Method::GET, "/api/v1/events", ""));
    let bearer = format!("Bearer {}", viewer["token"].as_str().unwrap());
    request.headers_mut().insert(header::AUTHORIZATION, bearer.parse().unwrap());
    let body = router.clone().oneshot(request).await.unwrap().into_body();
    let mut stream = Stream { body, text: String::new() };
    // Another of the same name and role is another token.
    app.post("/api/v1/tokens", &json!({"name": "v", "role": "viewer"})).await.expect(201);
    let id = viewer["id"].as_str().unwrap();
    app.delete(&format!("/api/v1/tokens/{id}")).await;
    let told = stream.next_told().await.unwrap();
    assert!(told.is("dropped") && told.data()["reason"] == "the token was revoked", "{told:?}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_does_not_outlive_its_session() {
    let app = TestApp::new().await;
    let admin = app.token_of("admin").await;
    let (here, elsewhere) = (Browser::default(), Browser::default());
    here.sign_in(&app, &admin).await;
    elsewhere.sign_in(&app, &admin).await;
    let (_, router) = router(&app, ReaderBounds { beat: Duration::ZERO, ..ReaderBounds::default() });
    let mut request = streaming(app.request(Method::GET, "/api/v1/events", ""));
    let cookie = format!("lazaret_session={}", here.cookie("lazaret_session").unwrap());
    request.headers_mut().insert(header::COOKIE, cookie.parse().unwrap());
    let answer = router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut stream = Stream { body: answer.into_body(), text: String::new() };
    elsewhere.submit(&app, "/settings", "/sign-out-everywhere", &[]).await;
    let told = stream.next_told().await.unwrap();
    assert!(told.is("dropped") && told.data()["reason"] == "session expired", "{told:?}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn the_end_of_the_server_ends_streams_at_once() {
    let app = TestApp::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let inner = Arc::clone(&app.app);
    let server = tokio::spawn(async move {
        lazaret_server::serve::accept(&inner, listener, async { drop(ended.await) }).await;
    });
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
    let mut head = [0; 12];
    socket.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    end.send(()).unwrap();
    // Well below the time that other requests are given.
    tokio::time::timeout(Duration::from_secs(10), server).await.expect("it ends soon").unwrap();
    let mut rest = String::new();
    socket.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the stream is ended, not cut: {rest}");
}
