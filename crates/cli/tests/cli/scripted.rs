//! A server that answers by a script, for what a real one does only on its worst days: streams that break, lines that
//! are changed on the way, answers that never end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};

/// What one connection does after its request was read.
pub type Act = Box<dyn FnOnce(&mut TcpStream) + Send>;

/// A server that takes one connection for each act and then no more.
pub struct Scripted {
    pub url: String,
    requests: Receiver<String>,
}

impl Scripted {
    pub fn start(acts: Vec<Act>) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for act in acts {
                let (mut stream, _) = listener.accept().unwrap();
                seen.send(read_request(&stream)).unwrap();
                act(&mut stream);
            }
        });
        Scripted { url, requests }
    }

    /// The next request, its head in lower case and its body as it came.
    pub fn request(&self) -> String {
        self.requests.recv().unwrap()
    }
}

/// Answers with this content and closes the connection, which is the only end the content has.
pub fn answer(status: &str, media_type: &str, content: &str) -> Act {
    let text =
        format!("HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\nconnection: close\r\n\r\n{content}");
    Box::new(move |stream| {
        // A client may leave before it has read everything.
        stream.write_all(text.as_bytes()).ok();
    })
}

fn read_request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap() == 0 {
            return head;
        }
    }
    let mut head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    head.push_str(&String::from_utf8(body).unwrap());
    head
}
