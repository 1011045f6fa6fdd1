//! A real HTTP receiver on loopback, which letters are put back to. It records every request and answers by a rule.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::running::{Desk, Server};

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Received {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

type Rule = Box<dyn Fn(&Received) -> u16 + Send + Sync>;

pub struct Receiver {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Seen>,
    /// Told of every request that came and of every connection that ended.
    changed: Condvar,
    rule: Mutex<Rule>,
}

#[derive(Default)]
struct Seen {
    received: Vec<Received>,
    /// Connections that are not closed.
    open: usize,
}

/// How long something is waited for that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

impl Receiver {
    /// Answers everything with 204 until it is told otherwise.
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let rule: Rule = Box::new(|_| 204);
        let shared =
            Arc::new(Shared { seen: Mutex::default(), changed: Condvar::new(), rule: Mutex::new(rule) });
        let receiver = Receiver { url, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                shared.seen.lock().unwrap().open += 1;
                std::thread::spawn(move || {
                    answer(stream.unwrap(), &shared);
                    shared.seen.lock().unwrap().open -= 1;
                    shared.changed.notify_all();
                });
            }
        });
        receiver
    }

    pub fn answers(&self, rule: impl Fn(&Received) -> u16 + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// Everything that came so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.seen.lock().unwrap().received.clone()
    }

    /// Waits until so many more have come.
    pub fn wait_for_more(&self, more: usize) {
        let goal = self.shared.seen.lock().unwrap().received.len() + more;
        self.wait(&format!("{more} more"), |seen| seen.received.len() >= goal);
    }

    /// Waits until everybody who sent something has gone, and so all that they sent is written down.
    pub fn wait_until_alone(&self) {
        self.wait("nobody", |seen| seen.open == 0);
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let seen = self.shared.seen.lock().unwrap();
        let (seen, waited) =
            self.shared.changed.wait_timeout_while(seen, PATIENCE, |seen| !is_so(seen)).unwrap();
        let (came, open) = (seen.received.len(), seen.open);
        assert!(!waited.timed_out(), "waiting for {what}: {came} came, {open} connections are open");
    }

    /// A server whose reported letters go back here. `settings` is more of `[sources.report]`.
    pub fn server(&self, settings: &str) -> Server {
        let desk = Desk::new();
        let url = &self.url;
        let text = format!(
            "[sources.report]\n{settings}\n[sources.report.destination]\nurl = \"{url}\"\nallow_private = true\n"
        );
        desk.file("lazaret.toml", &text);
        Server::start_on(desk)
    }
}

/// Answers requests of one connection until it is closed.
fn answer(stream: TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let status = shared.rule.lock().unwrap()(&request);
        let is_last = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        shared.seen.lock().unwrap().received.push(request);
        shared.changed.notify_all();
        let head = format!("HTTP/1.1 {status} Answered\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(head.as_bytes()).is_err() || is_last {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut headers = Vec::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Received { headers, body: String::from_utf8(body).unwrap() })
}
