//! Another configuration while the server runs: in force for the next request, or refused whole.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http::Method;
use http_body_util::BodyExt;
use lazaret_server::config::{self, Config, LogFormat, Overrides};
use lazaret_server::operations::Progress;
use lazaret_server::reload::{Live, Reloading, reload};
use lazaret_server::{regroup, search};
use lazaret_store::search::BodyIndex;
use lazaret_store::{Regroupings, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::rig::TestApp;

/// A server whose configuration is a file that can be written anew.
struct Reloaded {
    app: TestApp,
    live: Arc<Live>,
    folder: TempDir,
    levels: Arc<Mutex<Vec<String>>>,
}

impl Reloaded {
    async fn new() -> Reloaded {
        let app = TestApp::new().await;
        let live = Live::new(Arc::clone(&app.app));
        Reloaded { app, live, folder: tempfile::tempdir().unwrap(), levels: Arc::default() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("lazaret.toml")
    }

    async fn take(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
        let (file, levels) = (self.file(), Arc::clone(&self.levels));
        let reloading = Reloading {
            load: Arc::new(move || config::load(Some(&file), [], Overrides::default())),
            set_log_level: Arc::new(move |level: &str| {
                levels.lock().unwrap().push(level.to_owned());
                Ok(())
            }),
        };
        reload(&self.live, &reloading).await;
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut request = self.app.request(method, path, text);
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        let answer = self.live.router().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    /// Reports a letter and shows it.
    async fn letter(&self, event: &str, letter_type: &str) -> Value {
        let (status, answer) =
            self.send(Method::POST, "/api/v1/dead-letters", Some(&entry(event, letter_type))).await;
        assert_eq!(status, 200, "{answer}");
        self.show(answer["items"][0]["id"].as_str().unwrap()).await
    }

    async fn show(&self, id: &str) -> Value {
        self.send(Method::GET, &format!("/api/v1/dead-letters/{id}"), None).await.1
    }
}

fn entry(event: &str, letter_type: &str) -> Value {
    json!({
        "eventId": event,
        "originalEvent": {"pattern": letter_type, "body": format!("needle-{event}")},
        "error": {"type": "Strange", "message": "as ordered"},
    })
}

const BUSINESS: &str = "[[class_rules]]\nclass = 'business'\nerror_type = 'Strange'\n";

#[tokio::test]
async fn the_next_letter_is_judged_by_the_new_rules() {
    let server = Reloaded::new().await;
    assert_eq!(server.letter("e-1", "a.one").await["class"], "unknown");
    server.take(BUSINESS).await;
    assert_eq!(server.letter("e-2", "a.one").await["class"], "business");
    server.take("").await;
    assert_eq!(server.letter("e-3", "a.one").await["class"], "unknown");
    server.app.check().await;
}

#[tokio::test]
async fn a_bad_file_is_refused_whole() {
    let server = Reloaded::new().await;
    server.take(&format!("allowed_hosts = ['127.0.0.1:7070']\n{BUSINESS}")).await;
    for bad in ["[limits]\nconnections_max = 0\n", "lisen = 1\n", "not toml", "allowed_hosts = [1]\n"] {
        server.take(bad).await;
        assert_eq!(server.live.app().config.allowed_hosts, ["127.0.0.1:7070"], "{bad}");
    }
    assert_eq!(server.letter("e", "a.one").await["class"], "business");
    std::fs::remove_file(server.file()).unwrap();
    assert!(server.live.app().config.class_rules.len() == 1);
}

#[tokio::test]
async fn what_needs_a_restart_stays_and_the_rest_changes() {
    let server = Reloaded::new().await;
    server
        .take(
            "listen = '127.0.0.1:1'\ndata = 'elsewhere'\n[log]\nlevel = 'debug'\nformat = 'json'\n\
             [limits]\nbody_bytes_max = '5MiB'\n[search]\nbodies = false\n[events]\nkeep = 2000\n\
             [sources.billing]\nkind = 'report'\n",
        )
        .await;
    let app = server.live.app();
    let old = Config::default();
    assert_eq!((&app.config.listen, &app.config.data), (&old.listen, &old.data));
    assert_eq!(app.config.log.format, LogFormat::Text);
    assert_eq!(app.config.limits.body_bytes_max, 5 << 20);
    assert_eq!((app.config.search.bodies, app.config.events.keep), (false, 2_000));
    assert_eq!(*server.levels.lock().unwrap(), ["debug"]);
    let path = "/api/v1/dead-letters?source=billing";
    let (status, answer) = server.send(Method::POST, path, Some(&entry("e", "a.one"))).await;
    assert_eq!(status, 200, "{answer}");
    // The level is not set again when it has not changed.
    server.take("[log]\nlevel = 'debug'\n").await;
    assert_eq!(server.levels.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_next_request_on_an_open_connection_sees_the_new_configuration() {
    let server = Reloaded::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let live = Arc::clone(&server.live);
    let serving = tokio::spawn(async move {
        lazaret_server::serve::accept_live(&live, listener, async { drop(ended.await) }).await;
    });
    let mut socket = TcpStream::connect(address).await.unwrap();
    assert_eq!(status(&mut socket).await, "421");
    server.take("allowed_hosts = ['b.example.org']\n").await;
    assert_eq!(status(&mut socket).await, "200");
    drop(socket);
    end.send(()).unwrap();
    serving.await.unwrap();
}

/// The status of one request for a host that is not always served.
async fn status(socket: &mut TcpStream) -> String {
    socket.write_all(b"GET /health/live HTTP/1.1\r\nHost: b.example.org\r\n\r\n").await.unwrap();
    let mut text = Vec::new();
    // The answers are small and come whole with their last byte.
    while !text.ends_with(b"}") {
        let mut bytes = [0; 1024];
        let read = socket.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(text).unwrap().split(' ').nth(1).unwrap().to_owned()
}

const ONE_GROUP: &str = "[[fingerprint_rules]]\nname = 'all of a'\ntype = 'a.*'\ngroup = 'a'\n";

#[tokio::test]
async fn changed_rules_group_new_letters_at_once_and_old_ones_by_and_by() {
    let server = Reloaded::new().await;
    let one = server.letter("e-1", "a.one").await;
    let two = server.letter("e-2", "a.two").await;
    let other = server.letter("e-3", "b.one").await;
    assert_ne!(one["incidentId"], two["incidentId"]);
    while regroup::tick(&server.live.app()).await.unwrap() == Progress::More {}
    server.take(ONE_GROUP).await;
    let three = server.letter("e-4", "a.three").await;
    while regroup::tick(&server.live.app()).await.unwrap() == Progress::More {}
    let incident = async |letter: &Value| {
        let shown = server.show(letter["id"].as_str().unwrap()).await;
        (shown["fingerprint"].clone(), shown["incidentId"].clone())
    };
    let group = incident(&three).await;
    assert_eq!(group.0, three["fingerprint"]);
    assert_eq!(incident(&one).await, group);
    assert_eq!(incident(&two).await, group);
    assert_eq!(incident(&other).await, (other["fingerprint"].clone(), other["incidentId"].clone()));
    let state = server.app.store.regrouped().await.unwrap();
    assert_eq!((state.towards, state.reached), (None, server.live.app().groups().revision()));
    server.app.check().await;
}

#[tokio::test]
async fn bodies_are_put_into_the_index_behind_capture_unless_that_is_off() {
    let server = Reloaded::new().await;
    server.take("[search]\nbodies = false\n").await;
    for n in 0..3 {
        server.letter(&format!("e-{n}"), "a.one").await;
    }
    assert_eq!(search::tick(&server.live.app()).await.unwrap(), Progress::Idle);
    server.take("").await;
    while search::tick(&server.live.app()).await.unwrap() == Progress::More {}
    let index = server.app.store.body_index().await.unwrap();
    assert_eq!(index, BodyIndex { indexed: 3, behind: 0, behind_since: None });
}

#[tokio::test]
async fn letters_go_where_the_newest_configuration_says() {
    let server = Reloaded::new().await;
    let way = || server.live.app().destinations.of("report", None).map(|named| named.address());
    assert!(way().unwrap_err().to_string().contains("no destination is configured for source report"));
    server.take("[sources.report.destination]\nurl = 'https://a.example.org/in'\n").await;
    assert_eq!(way().unwrap(), "https://a.example.org/in");
    // One that is refused changes nothing.
    server.take("[sources.report.destination]\nurl = 'https://127.0.0.1/in'\n").await;
    assert_eq!(way().unwrap(), "https://a.example.org/in");
    server.take("").await;
    assert!(way().is_err());
}
