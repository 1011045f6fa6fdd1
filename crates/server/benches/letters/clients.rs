//! One letter a request over HTTP, with 1, 16 and 64 clients, each waiting for its answer before it sends the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::floor;
use super::sample::{BATCH, Deaths, bed, entry};

const PER_CLIENTS: [(usize, usize); 3] = [(1, 1_000), (16, 10_000), (64, 20_000)];

pub async fn run() {
    println!("## One letter a request over HTTP, fsync on\n");
    println!("| clients | letters/s | p50 ms | p99 ms |\n|---|---|---|---|");
    for (clients, letters) in PER_CLIENTS {
        let (took, mut waits) = measure(clients, letters).await;
        waits.sort();
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!(
            "| {clients} | {:.0} | {:.2} | {:.2} |",
            letters as f64 / took.as_secs_f64(),
            at(0.5),
            at(0.99)
        );
    }
    let rows = floor::rows(&[(0..BATCH).map(|n| entry(n, Deaths::Now)).collect()]).await;
    let bare = floor::write_singly(&rows, 500);
    println!("| bare loop, no HTTP: a commit for each letter | {:.0} | | |\n", 500.0 / bare.as_secs_f64());
}

async fn measure(clients: usize, letters: usize) -> (Duration, Vec<Duration>) {
    let bed = bed().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback can be listened on");
    let address = listener.local_addr().expect("it has an address");
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let app = bed.app.clone();
    let server = tokio::spawn(async move {
        lazaret_server::serve::accept(&app, listener, async { drop(ended.await) }).await;
    });
    let next = Arc::new(AtomicUsize::new(0));
    // Made before the clock starts: clients and server share the cores.
    let entries: Arc<Vec<String>> = Arc::new((0..letters).map(|n| entry(n, Deaths::Now)).collect());
    let started = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (next, entries) = (Arc::clone(&next), Arc::clone(&entries));
        all.spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("the server is there");
            stream.set_nodelay(true).expect("the option is known");
            let mut waits = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= letters {
                    return waits;
                }
                let sent = Instant::now();
                send(&mut stream, &entries[n]).await;
                waits.push(sent.elapsed());
            }
        });
    }
    let waits = all.join_all().await.concat();
    let took = started.elapsed();
    end.send(()).ok();
    server.await.expect("the server ends well");
    bed.app.store.close().await.expect("the store closes");
    (took, waits)
}

async fn send(stream: &mut TcpStream, body: &str) {
    let request = format!(
        "POST /api/v1/dead-letters HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("the request is taken");
    let mut answer = Vec::with_capacity(1_024);
    loop {
        let read = stream.read_buf(&mut answer).await.expect("an answer comes");
        assert!(read > 0, "the server closed the connection");
        let text = String::from_utf8_lossy(&answer);
        let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("it has a length");
        if rest.len() >= length.parse::<usize>().expect("a number") {
            return;
        }
    }
}
