//! Over a real socket: bodies that come too slowly or break off, and an end that loses nothing.

use std::sync::Arc;
use std::time::Duration;

use lazaret_server::config::{Config, LimitsConfig};
use lazaret_store::sqlite::Mode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::rig::TestApp;
use super::web::between;

struct Served {
    app: TestApp,
    address: std::net::SocketAddr,
    end: tokio::sync::oneshot::Sender<()>,
    server: tokio::task::JoinHandle<()>,
}

async fn serve() -> Served {
    let limits = LimitsConfig { body_pause_ms_max: 200, request_ms_max: 5_000, ..LimitsConfig::default() };
    let app = TestApp::with(Config { limits, ..Config::default() }, Mode::Real).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel();
    let inner = Arc::clone(&app.app);
    let server = tokio::spawn(async move {
        lazaret_server::serve::accept(&inner, listener, async { drop(ended.await) }).await;
    });
    Served { app, address, end, server }
}

async fn begin(served: &Served, length: usize, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST /api/v1/dead-letters HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut text)).await.unwrap().unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_body_that_stalls_is_given_up_with_a_reason() {
    let served = serve().await;
    let stream = begin(&served, 100, "{\"eventId\":").await;
    let text = answer(stream).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    assert!(text.contains("\"code\":\"timeout\""), "{text}");
    served.app.check().await;
}

#[tokio::test]
async fn a_body_that_breaks_off_keeps_nothing() {
    let served = serve().await;
    let mut stream = begin(&served, 100, "{\"eventId\":\"e\",\"originalEvent\":{}}").await;
    stream.shutdown().await.unwrap();
    let text = answer(stream).await;
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");
    let ledger = served.app.get("/api/v1/ledger?recount=true").await.expect(200);
    assert_eq!(ledger["captured"], 0);
}

#[tokio::test]
async fn what_was_accepted_is_finished_at_the_end() {
    let served = serve().await;
    let body = "{\"eventId\":\"e\",\"originalEvent\":{}}";
    let mut stream = begin(&served, body.len(), &body[..10]).await;
    // One whole request on another connection: the first one's head has been read by then.
    let other = begin(&served, body.len(), body).await;
    assert!(answer(other).await.starts_with("HTTP/1.1 200"));
    served.end.send(()).unwrap();
    stream.write_all(&body.as_bytes()[10..]).await.unwrap();
    let text = answer(stream).await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    served.server.await.unwrap();
    assert!(TcpStream::connect(served.address).await.is_err(), "nobody is let in after the end");
    served.app.check().await;
}

/// Sends a wrong token from an address of this machine, as a browser would, and gives the first line of the answer.
async fn guess(served: &Served, from: &str) -> String {
    let connect = async || {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(served.address).await.unwrap()
    };
    let head = "Host: 127.0.0.1\r\nCookie: lazaret_visitor=v\r\nConnection: close\r\n";
    let mut stream = connect().await;
    stream.write_all(format!("GET /sign-in HTTP/1.1\r\n{head}\r\n").as_bytes()).await.unwrap();
    let page = answer(stream).await;
    let csrf = between(&page, "name=\"csrf\" value=\"", "\"").unwrap();
    let body = format!("csrf={csrf}&token=lzr_wrong");
    let form = "Content-Type: application/x-www-form-urlencoded";
    let length = body.len();
    let mut stream = connect().await;
    let text = format!("POST /sign-in HTTP/1.1\r\n{head}{form}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    answer(stream).await.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn whoever_guesses_is_known_by_the_address_of_the_connection() {
    let served = serve().await;
    served.app.token_of("admin").await;
    for _ in 0..4 {
        assert_eq!(guess(&served, "127.0.0.2").await, "HTTP/1.1 401 Unauthorized");
    }
    assert_eq!(guess(&served, "127.0.0.2").await, "HTTP/1.1 429 Too Many Requests");
    assert_eq!(guess(&served, "127.0.0.1").await, "HTTP/1.1 401 Unauthorized");
}
