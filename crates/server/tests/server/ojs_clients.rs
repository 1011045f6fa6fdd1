//! The known clients of the Open Job Specification, over a socket: what each sends, and what it reads of the answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::ojs_dead_letter::dead;
use super::rig::TestApp;

/// A server that listens, and the rig that shares its store and clock.
struct Served {
    app: TestApp,
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve() -> Served {
    let app = TestApp::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let inner = Arc::clone(&app.app);
    let server = tokio::spawn(async move {
        lazaret_server::serve::accept(&inner, listener, std::future::pending()).await;
    });
    Served { app, address, server }
}

/// Status, head and body of an answer.
struct Heard {
    status: u16,
    head: String,
    body: Value,
}

impl Served {
    async fn send(&self, request: &str, headers: &str, body: &str) -> Heard {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let text = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}{length}\r\n{body}",
            self.address
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() };
        Heard { status, head: head.to_ascii_lowercase(), body }
    }

    /// An answer that has to be as the specification has it.
    async fn ok(&self, request: &str, headers: &str, body: &str) -> Value {
        let heard = self.send(request, headers, body).await;
        assert_eq!(heard.status, 200, "{request}: {}", heard.body);
        assert!(heard.head.contains("content-type: application/openjobspec+json"), "{}", heard.head);
        heard.body
    }
}

const OURS: &str = "Content-Type: application/openjobspec+json\r\nAccept: application/openjobspec+json\r\nOJS-Version: 1.0\r\n";
const JSON: &str = "Content-Type: application/json\r\nAccept: application/json\r\n";

#[tokio::test]
async fn the_python_client() {
    let served = serve().await;
    let (one, two) = (dead(&served.app, "q", "t", "E").await, dead(&served.app, "q", "t", "E").await);
    let page = served.ok("GET /ojs/v1/dead-letter?limit=50&offset=0&queue=q", OURS, "").await;
    assert_eq!((&page["jobs"][0]["id"], &page["pagination"]["total"]), (&json!(two), &json!(2)));
    let retried = served.ok(&format!("POST /ojs/v1/dead-letter/{one}/retry"), OURS, "").await;
    assert_eq!((&retried["job"]["id"], &retried["job"]["state"]), (&json!(one), &json!("available")));
    let deleted = served.ok(&format!("DELETE /ojs/v1/dead-letter/{two}"), OURS, "").await;
    assert_eq!(deleted, json!({"deleted": true, "job_id": two}));
}

#[tokio::test]
async fn the_javascript_client() {
    let served = serve().await;
    let one = dead(&served.app, "q", "t", "E").await;
    let page = served.ok("GET /ojs/v1/dead-letter", OURS, "").await;
    let listed = &page["jobs"][0];
    for name in ["id", "type", "queue", "args", "discarded_at"] {
        assert!(!listed[name].is_null(), "{name}: {listed}");
    }
    assert!(listed["error"]["code"].is_string() && listed["error"]["message"].is_string(), "{listed}");
    assert!(
        listed["timeout_ms"].is_u64() && listed.get("timeout").is_none(),
        "it takes timeout for milliseconds"
    );
    let encoded: String =
        one.chars().map(|c| if c == '-' { "%2D".to_owned() } else { c.to_string() }).collect();
    served.ok(&format!("POST /ojs/v1/dead-letter/{encoded}/retry"), OURS, "{}").await;
    let two = dead(&served.app, "r", "t", "E").await;
    served.ok(&format!("DELETE /ojs/v1/dead-letter/{two}"), OURS, "").await;
}

#[tokio::test]
async fn the_rust_client() {
    let served = serve().await;
    let one = dead(&served.app, "q", "t", "E").await;
    let page = served.ok("GET /ojs/v1/dead-letter?queue=q&limit=10&offset=0", OURS, "").await;
    for name in ["total", "limit", "offset"] {
        assert!(page["pagination"][name].is_u64(), "{name}: {page}");
    }
    assert!(page["pagination"]["has_more"].is_boolean());
    assert!(page["jobs"][0]["error"]["type"].is_string(), "it refuses the whole list without");
    let manifest = served.ok("GET /ojs/manifest", OURS, "").await;
    assert!(manifest["extensions"].as_array().unwrap().iter().all(Value::is_string), "{manifest}");
    // A bare job at the top, for get and retry and cancel.
    let shown = served.ok(&format!("GET /ojs/v1/jobs/{one}"), OURS, "").await;
    let retried = served.ok(&format!("POST /ojs/v1/dead-letter/{one}/retry"), OURS, "").await;
    let cancelled = served.ok(&format!("DELETE /ojs/v1/jobs/{one}"), OURS, "").await;
    for (job, state) in [(shown, "discarded"), (retried, "available"), (cancelled, "cancelled")] {
        assert_eq!((&job["id"], &job["state"]), (&json!(one), &json!(state)));
    }
    let two = dead(&served.app, "q", "t", "E").await;
    served.ok(&format!("DELETE /ojs/v1/dead-letter/{two}"), OURS, "").await;
}

#[tokio::test]
async fn the_command_line_of_the_specification() {
    let served = serve().await;
    let old = dead(&served.app, "q", "t", "E").await;
    served.app.pass(8 * 86_400_000);
    let one = dead(&served.app, "r", "u", "F").await;
    let page = served.ok("GET /ojs/v1/dead-letter?limit=25", OURS, "").await;
    assert_eq!((&page["total"], &page["pagination"]["total"]), (&json!(2), &json!(2)));
    for name in ["id", "type", "queue", "attempt", "discarded_at"] {
        assert!(!page["jobs"][0][name].is_null(), "{name}: {page}");
    }
    let stats = served.ok("GET /ojs/v1/dead-letter/stats", OURS, "").await;
    assert_eq!(stats["total"], 2);
    assert_eq!((&stats["by_queue"], &stats["by_type"]), (&json!({"q": 1, "r": 1}), &json!({"t": 1, "u": 1})));
    let purged = served.ok("POST /ojs/v1/dead-letter/purge?older_than=7d", OURS, "").await;
    assert_eq!(purged["deleted"], 1);
    let everything = served.send("POST /ojs/v1/dead-letter/purge", OURS, "").await;
    assert_eq!((everything.status, &everything.body["error"]["code"]), (400, &json!("filter_required")));
    served.ok(&format!("POST /ojs/v1/dead-letter/{one}/retry"), OURS, "").await;
    let gone = served.send(&format!("DELETE /ojs/v1/dead-letter/{old}"), OURS, "").await;
    assert_eq!((gone.status, &gone.body["error"]["code"]), (404, &json!("not_found")));
    // The doctor looks there first.
    let wrong = served.send("GET /v1/dead-letter", OURS, "").await;
    assert_eq!(wrong.status, 404);
}

#[tokio::test]
async fn the_admin_pages() {
    let served = serve().await;
    let one = dead(&served.app, "q", "t", "E").await;
    let two = dead(&served.app, "q", "t", "E").await;
    let page = served.ok("GET /ojs/v1/admin/dead-letter?page=1&per_page=20&queue=q&type=t", JSON, "").await;
    assert_eq!((page["items"].as_array().unwrap().len(), &page["pagination"]["total"]), (2, &json!(2)));
    assert_eq!((&page["pagination"]["page"], &page["pagination"]["per_page"]), (&json!(1), &json!(20)));
    let stats = served.ok("GET /ojs/v1/admin/dead-letter/stats", JSON, "").await;
    assert_eq!((&stats["total"], &stats["by_queue"]), (&json!(2), &json!({"q": 2})));
    assert_eq!(stats["by_error_type"], json!({"E": 2}));
    assert!(stats["oldest_at"].is_string() && stats["newest_at"].is_string(), "{stats}");
    // The details come from the job, bare.
    let shown = served.ok(&format!("GET /ojs/v1/admin/jobs/{one}"), JSON, "").await;
    assert_eq!((&shown["id"], shown.get("job")), (&json!(one), None));
    assert_eq!(shown["errors"].as_array().unwrap().len(), 1);
    assert_eq!(shown["meta"]["k"], "v");
    assert!(shown["metadata"]["created_at"].is_string() && shown["metadata"]["discarded_at"].is_string());
    let missing = served.send("GET /ojs/v1/admin/jobs/none", JSON, "").await;
    assert_eq!(missing.status, 404);

    served.ok(&format!("POST /ojs/v1/admin/dead-letter/{one}/retry"), JSON, "").await;
    // It asks for everything without a filter, which is refused and says how to ask.
    let all =
        served.send("POST /ojs/v1/admin/dead-letter/retry", JSON, r#"{"filter":{},"confirm":true}"#).await;
    assert_eq!((all.status, &all.body["error"]["code"]), (400, &json!("filter_required")));
    let wish = r#"{"filter":{"queue":"q","state":"discarded"},"confirm":true}"#;
    let done = served.ok("POST /ojs/v1/admin/dead-letter/retry", JSON, wish).await;
    assert_eq!((&done["action"], &done["matched"]), (&json!("retry"), &json!(1)));
    assert_eq!((&done["succeeded"], &done["failed"]), (&json!(1), &json!(0)));
    let gone = served.send(&format!("DELETE /ojs/v1/admin/dead-letter/{two}"), JSON, "").await;
    assert_eq!(gone.status, 404);
    let three = dead(&served.app, "r", "t", "E").await;
    let deleted = served.send(&format!("DELETE /ojs/v1/admin/dead-letter/{three}"), JSON, "").await;
    assert_eq!((deleted.status, deleted.body), (204, Value::Null));
    let four = dead(&served.app, "r", "t", "E").await;
    served.app.pass(8 * 86_400_000);
    let wish = r#"{"older_than":"P7D","confirm":true}"#;
    let purged = served.ok("DELETE /ojs/v1/admin/dead-letter", JSON, wish).await;
    assert_eq!(purged["deleted"], 1, "{four}");
}
