//! A real HTTP receiver on loopback, which letters are put back to. It records every request and answers by a rule.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

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
    received: Arc<Mutex<Vec<Received>>>,
    rule: Arc<Mutex<Rule>>,
}

impl Receiver {
    /// Answers everything with 204 until it is told otherwise.
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Receiver {
            url: format!("http://{}/events", listener.local_addr().unwrap()),
            received: Arc::default(),
            rule: Arc::new(Mutex::new(Box::new(|_| 204))),
        };
        let (received, rule) = (Arc::clone(&receiver.received), Arc::clone(&receiver.rule));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (received, rule) = (Arc::clone(&received), Arc::clone(&rule));
                std::thread::spawn(move || answer(stream.unwrap(), &received, &rule));
            }
        });
        receiver
    }

    pub fn answers(&self, rule: impl Fn(&Received) -> u16 + Send + Sync + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// Everything that came so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
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
fn answer(stream: TcpStream, received: &Mutex<Vec<Received>>, rule: &Mutex<Rule>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let status = rule.lock().unwrap()(&request);
        received.lock().unwrap().push(request);
        let head = format!("HTTP/1.1 {status} Answered\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(head.as_bytes()).is_err() {
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
