//! Clients that work on jobs over HTTP, each on a connection of its own, each waiting for its answer before it asks
//! again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use lazaret_server::app::App;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::sample::{Bed, bed};

pub const QUEUE: &str = "bench";

/// A server on a fresh store, or one that only sends back what it gets.
pub struct Served {
    pub address: SocketAddr,
    pub bed: Option<Bed>,
    end: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Served {
    pub async fn start() -> Served {
        let bed = bed().await;
        let served = Served::of(bed.app.clone()).await;
        Served { bed: Some(bed), ..served }
    }

    /// A server for an app whose store is somebody else's to close.
    pub async fn of(app: Arc<App>) -> Served {
        let (listener, address) = listen().await;
        let (end, ended) = oneshot::channel::<()>();
        let server = tokio::spawn(async move {
            lazaret_server::serve::accept(&app, listener, async { drop(ended.await) }).await;
        });
        Served { address, bed: None, end, server }
    }

    /// The framework alone.
    pub async fn start_echo() -> Served {
        let (listener, address) = listen().await;
        let (end, ended) = oneshot::channel::<()>();
        let router = Router::new().route("/ojs/v1/jobs", post(|body: Bytes| async move { body }));
        let server = tokio::spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(async { drop(ended.await) });
            served.await.expect("the echo is served");
        });
        Served { address, bed: None, end, server }
    }

    /// Commits so far.
    pub fn commits(&self) -> u64 {
        self.bed.as_ref().map_or(0, |bed| *bed.app.store.changes().borrow())
    }

    /// Tells of each commit.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.bed.as_ref().expect("it has a store").app.store.changes()
    }

    pub async fn stop(self) {
        self.end.send(()).ok();
        self.server.await.expect("the server ends well");
        if let Some(bed) = self.bed {
            bed.app.store.close().await.expect("the store closes");
        }
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback can be listened on");
    let address = listener.local_addr().expect("it has an address");
    (listener, address)
}

/// A connection that is kept.
pub struct Line {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Line {
    pub async fn open(address: SocketAddr) -> Line {
        let stream = TcpStream::connect(address).await.expect("the server is there");
        stream.set_nodelay(true).expect("the option is known");
        Line { stream, answer: Vec::with_capacity(4_096) }
    }

    /// Sends a body and gives that of the answer.
    pub async fn post(&mut self, path: &str, body: &str) -> &[u8] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.expect("it is taken");
        self.answer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.answer).await.expect("an answer comes");
            assert!(read > 0, "the server closed the connection");
            let Some(end) = self.answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&self.answer[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("it has a length");
            let whole = end + 4 + length.parse::<usize>().expect("a number");
            while self.answer.len() < whole {
                let read = self.stream.read_buf(&mut self.answer).await.expect("the rest comes");
                assert!(read > 0, "the server closed the connection");
            }
            assert!(head.starts_with("http/1.1 20"), "{}", String::from_utf8_lossy(&self.answer));
            return &self.answer[end + 4..];
        }
    }
}

/// What some clients did.
#[derive(Default)]
pub struct Done {
    pub jobs: usize,
    pub requests: usize,
    pub took: Duration,
    /// Of a push, an acknowledgement or a failure, in no order.
    pub waits: Vec<Duration>,
    pub fetch_waits: Vec<Duration>,
    /// Ids of the jobs that were fetched and not ended.
    pub held: Vec<String>,
}

impl Done {
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.took.as_secs_f64()
    }

    /// What several groups of clients did at the same time.
    pub fn joined(parts: Vec<Done>) -> Done {
        let mut sum = Done::default();
        for done in parts {
            sum.jobs += done.jobs;
            sum.requests += done.requests;
            sum.took = sum.took.max(done.took);
            sum.waits.extend(done.waits);
            sum.fetch_waits.extend(done.fetch_waits);
            sum.held.extend(done.held);
        }
        sum
    }
}

/// Milliseconds that so large a share of the waits was below.
pub fn at(waits: &mut [Duration], share: f64) -> f64 {
    waits.sort();
    waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
}

/// Pushes jobs one by one.
pub async fn push(address: SocketAddr, clients: usize, jobs: usize) -> Done {
    // Made before the clock starts: clients and server share the cores.
    let bodies: Arc<Vec<String>> = Arc::new((0..jobs).map(job).collect());
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut all = JoinSet::new();
    for _ in 0..clients {
        let (bodies, next) = (Arc::clone(&bodies), Arc::clone(&next));
        all.spawn(async move {
            let mut line = Line::open(address).await;
            let mut waits = Vec::new();
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = Instant::now();
                line.post("/ojs/v1/jobs", body).await;
                waits.push(sent.elapsed());
            }
            waits
        });
    }
    let waits = all.join_all().await.concat();
    Done { jobs, requests: jobs, took: started.elapsed(), waits, ..Done::default() }
}

/// Pushes jobs quickly, for what is measured after it.
pub async fn fill(address: SocketAddr, jobs: usize) {
    let mut line = Line::open(address).await;
    let all: Vec<String> = (0..jobs).map(job).collect();
    for batch in all.chunks(500) {
        line.post("/ojs/v1/jobs/batch", &format!("{{\"jobs\":[{}]}}", batch.join(","))).await;
    }
}

/// How a run ends.
#[derive(Clone, Copy)]
pub enum End {
    /// It is not told: the jobs stay with who fetched them.
    Never,
    Ack,
    /// Into the dead letter, with a backtrace of 20 frames.
    Die,
}

impl End {
    fn request(self, id: &str) -> Option<(&'static str, String)> {
        match self {
            End::Never => None,
            End::Ack => {
                Some(("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{id}","result":{{"sent":true}}}}"#)))
            }
            End::Die => Some(("/ojs/v1/workers/nack", nack(id))),
        }
    }
}

/// Fetches `count` jobs at a time until there are none, and ends each.
pub async fn work(address: SocketAddr, clients: usize, count: usize, end: End) -> Done {
    let started = Instant::now();
    let mut all = JoinSet::new();
    for client in 0..clients {
        all.spawn(async move {
            let mut line = Line::open(address).await;
            let asked = format!(
                r#"{{"queues":["{QUEUE}"],"count":{count},"worker_id":"w{client}","visibility_timeout_ms":600000}}"#
            );
            let mut done = Done::default();
            loop {
                let sent = Instant::now();
                let ids = job_ids(line.post("/ojs/v1/workers/fetch", &asked).await);
                done.requests += 1;
                if ids.is_empty() {
                    return done;
                }
                done.fetch_waits.push(sent.elapsed());
                for id in ids {
                    done.jobs += 1;
                    let Some((path, body)) = end.request(&id) else {
                        done.held.push(id);
                        continue;
                    };
                    let sent = Instant::now();
                    line.post(path, &body).await;
                    done.requests += 1;
                    done.waits.push(sent.elapsed());
                }
            }
        });
    }
    let sum = Done::joined(all.join_all().await);
    Done { took: started.elapsed(), ..sum }
}

/// Ends jobs that were fetched before.
pub async fn end_all(address: SocketAddr, clients: usize, ids: Vec<String>, end: End) {
    let mut all = JoinSet::new();
    for some in ids.chunks(ids.len().div_ceil(clients)) {
        let some = some.to_vec();
        all.spawn(async move {
            let mut line = Line::open(address).await;
            for (path, body) in some.iter().filter_map(|id| end.request(id)) {
                line.post(path, &body).await;
            }
        });
    }
    all.join_all().await;
}

fn job_ids(answer: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(answer);
    let mark = r#""specversion":"1.0","id":""#;
    text.match_indices(mark).map(|(at, _)| text[at + mark.len()..][..36].to_owned()).collect()
}

/// A job of 1 KiB.
fn job(n: usize) -> String {
    let mix = |salt: u64| (n as u64 ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let noise: String = (0..42).map(|part| format!("{:016x}", mix(100 + part))).collect();
    format!(
        r#"{{"type":"invoice.send{}","args":[{{"order":"o-{}","customer":"c-{}","lines":[{{"sku":"A-100","count":2}},{{"sku":"B-{}","count":1}}],"note":"{noise}"}}],"options":{{"queue":"{QUEUE}","retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}}}"#,
        mix(1) % 12,
        mix(2) % 100_000,
        mix(3) % 10_000,
        mix(4) % 1_000,
    )
}

fn nack(id: &str) -> String {
    let mix = id.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let frames: Vec<String> = (0..20)
        .map(|frame| {
            let line = (mix % 3 + frame * 7) % 400;
            format!(r#""\tat com.shop.billing.Handler{0}.step{frame}(Handler{0}.java:{line})""#, frame % 4)
        })
        .collect();
    let error = ["SmtpTimeout", "OutOfStock", "NullPointer"][(mix % 3) as usize];
    format!(
        r#"{{"job_id":"{id}","error":{{"type":"com.shop.{error}","message":"billing call {} failed after 5000 ms: connection timed out","backtrace":[{}]}}}}"#,
        mix % 100_000,
        frames.join(",")
    )
}
