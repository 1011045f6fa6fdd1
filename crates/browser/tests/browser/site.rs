//! A site of one page, whatever the address.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

pub struct Site {
    pub url: String,
}

impl Site {
    /// Serves it until the tests are over. Styles in attributes are forbidden, others are not.
    pub fn start(page: &'static str) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                // Each in a thread of its own: a browser opens connections long before it has something to ask.
                std::thread::spawn(move || answer(stream, page));
            }
        });
        Site { url }
    }
}

fn answer(mut stream: TcpStream, page: &str) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(request)) = lines.next() else { return };
    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    let (status, body) = if request.contains("favicon") { ("204 No Content", "") } else { ("200 OK", page) };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         content-security-policy: script-src-elem 'unsafe-inline'; style-src-attr 'none'\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    // A browser that has gone needs no answer.
    stream.write_all(answer.as_bytes()).ok();
}
