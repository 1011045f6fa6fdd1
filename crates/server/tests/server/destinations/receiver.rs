//! A receiver on loopback that is no HTTP server but a socket: it can stop at any byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// What is done once a request has come in whole.
#[derive(Clone, Debug)]
pub enum Reaction {
    /// Says these bytes and keeps the connection.
    Say(Vec<u8>),
    /// Says these bytes and ends the connection.
    SayAndClose(Vec<u8>),
    /// Says these bytes one by one.
    Drip(Vec<u8>),
    /// Says nothing and keeps the connection.
    Hang,
    /// Breaks the connection.
    Reset,
    /// Accepts once there is a permit.
    Hold(Arc<Semaphore>),
}

impl Reaction {
    pub fn answer(status: &str, body: &str) -> Reaction {
        Reaction::Say(answer(status, "", body))
    }
}

/// The bytes of an answer; `headers` are whole lines.
pub fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[derive(Clone, Debug)]
pub struct Request {
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// All values of a header.
    pub fn headers(&self, name: &str) -> Vec<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).collect()
    }

    /// The value of a header that is there once, or nothing.
    #[track_caller]
    pub fn header(&self, name: &str) -> String {
        let mut values = self.headers(name);
        assert!(values.len() < 2, "{name}: {values:?}");
        values.pop().unwrap_or_default()
    }
}

/// Ends with everything it serves when it is dropped.
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    reaction: Mutex<Reaction>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    busy: AtomicUsize,
    busiest: AtomicUsize,
}

impl Receiver {
    pub async fn new() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            reaction: Mutex::new(Reaction::answer("204 No Content", "")),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            busiest: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        let serving = Arc::clone(&shared);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                serving.connections.fetch_add(1, Ordering::SeqCst);
                connections.spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Receiver { address, shared, tasks }
    }

    /// Ends everything and waits until nobody listens any more.
    pub async fn leave(mut self) {
        self.tasks.shutdown().await;
    }

    pub fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn react(&self, reaction: Reaction) {
        *self.shared.reaction.lock().unwrap() = reaction;
    }

    pub fn reaction(&self) -> Reaction {
        self.shared.reaction.lock().unwrap().clone()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many connections were ever made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many requests are waiting for an answer now.
    pub fn busy(&self) -> usize {
        self.shared.busy.load(Ordering::SeqCst)
    }

    /// How many requests ever waited for an answer at once.
    pub fn busiest(&self) -> usize {
        self.shared.busiest.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut unread = Vec::new();
    while let Some(request) = read(&mut stream, &mut unread).await {
        shared.requests.lock().unwrap().push(request);
        let busy = shared.busy.fetch_add(1, Ordering::SeqCst) + 1;
        shared.busiest.fetch_max(busy, Ordering::SeqCst);
        let reaction = shared.reaction.lock().unwrap().clone();
        if matches!(reaction, Reaction::Hang) {
            // The other side loses patience and closes.
            stream.read_exact(&mut [0]).await.ok();
        }
        if let Reaction::Hold(permits) = &reaction {
            permits.acquire().await.unwrap().forget();
        }
        // Before the answer: whoever has it may send the next one at once.
        shared.busy.fetch_sub(1, Ordering::SeqCst);
        // The other side may have heard enough and left.
        match reaction {
            Reaction::Say(bytes) => stream.write_all(&bytes).await.ok(),
            Reaction::SayAndClose(bytes) => {
                stream.write_all(&bytes).await.ok();
                return;
            }
            Reaction::Drip(bytes) => {
                for byte in bytes {
                    stream.write_all(&[byte]).await.ok();
                    tokio::task::yield_now().await;
                }
                Some(())
            }
            Reaction::Hang => return,
            Reaction::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Reaction::Hold(_) => stream.write_all(&answer("204 No Content", "", "")).await.ok(),
        };
    }
}

/// The next whole request; nothing when the other side has closed, or does not speak HTTP.
async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<Request> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        // The first byte of a TLS handshake.
        if unread.first() == Some(&0x16) {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.ok();
            return None;
        }
        if let Some(end) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&unread[..end]).to_lowercase();
            let request = Request { head, body: Vec::new() };
            let length: usize = request.header("content-length").parse().unwrap();
            if unread.len() >= end + 4 + length {
                let body = unread[end + 4..end + 4 + length].to_vec();
                unread.drain(..end + 4 + length);
                return Some(Request { body, ..request });
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => unread.extend_from_slice(&buffer[..count]),
        }
    }
}
