//! A client on one kept connection that waits for each answer: as little work beside the server as HTTP allows.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};

use crate::failure::Failure;

/// Where the server is, and what every request says besides its body.
#[derive(Clone, Debug)]
pub struct Address {
    socket: SocketAddr,
    /// Lines of the head that are the same for all requests.
    head: String,
}

impl Address {
    /// Reads `http://host:port`. Encryption would be measured with the rest, so it is refused.
    pub async fn read(url: &str, token: Option<&str>) -> anyhow::Result<Address> {
        let plain = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let Some(host) = plain.filter(|host| !host.contains('/')) else {
            return Err(Failure::misuse(format!("`{url}` cannot be measured"))
                .hint("give the server itself, like http://127.0.0.1:7070, not a proxy with TLS or a path")
                .into());
        };
        let with_port = if host.rsplit(']').next().is_some_and(|rest| rest.contains(':')) {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let mut found = lookup_host(&with_port).await.with_context(|| format!("cannot find {host}"))?;
        let socket = found.next().with_context(|| format!("{host} has no address"))?;
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        Ok(Address { socket, head: format!("Host: {host}\r\n{token}Content-Type: application/json\r\n") })
    }
}

/// One connection.
#[derive(Debug)]
pub struct Line {
    stream: TcpStream,
    address: Address,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Line {
    pub async fn open(address: &Address) -> anyhow::Result<Line> {
        let stream = TcpStream::connect(address.socket).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        Ok(Line { stream, address: address.clone(), request: Vec::new(), answer: Vec::new() })
    }

    pub async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        self.ask("POST", path, body).await
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<&[u8]> {
        self.ask("GET", path, "").await
    }

    /// Sends a request and gives the body of the answer, which has to be a success.
    async fn ask(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        self.request.clear();
        let (head, length) = (&self.address.head, body.len());
        self.request.extend_from_slice(
            format!("{method} {path} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n").as_bytes(),
        );
        self.request.extend_from_slice(body.as_bytes());
        self.stream.write_all(&self.request).await.context("the server closed the connection")?;
        self.answer.clear();
        let head_end = loop {
            self.read_more().await?;
            if let Some(end) = self.answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = std::str::from_utf8(&self.answer[..head_end]).context("the answer is not HTTP")?;
        let success = head.starts_with("HTTP/1.1 2");
        let empty = head.starts_with("HTTP/1.1 204");
        let length = if empty { 0 } else { content_length(head).context("the answer has no length")? };
        let whole = head_end + length;
        while self.answer.len() < whole {
            self.read_more().await?;
        }
        if !success {
            let shown: String = String::from_utf8_lossy(&self.answer).chars().take(600).collect();
            bail!("{method} {path} was refused: {shown}");
        }
        Ok(&self.answer[head_end..whole])
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        match self.stream.read_buf(&mut self.answer).await.context("the answer could not be read")? {
            0 => bail!("the server closed the connection"),
            _ => Ok(()),
        }
    }
}

/// The length that a head states.
pub(super) fn content_length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_body_is_found_however_it_is_spelled() {
        assert_eq!(content_length("HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n"), Some(12));
        assert_eq!(content_length("HTTP/1.1 200 OK\r\nContent-Length:7\r\n\r\n"), Some(7));
        assert_eq!(content_length("HTTP/1.1 204 No Content\r\n\r\n"), None);
    }

    #[tokio::test]
    async fn only_a_plain_server_is_measured() {
        for bad in ["https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1:1/lazaret"] {
            assert!(Address::read(bad, None).await.is_err(), "{bad}");
        }
        assert!(Address::read("http://127.0.0.1:1/", Some("t")).await.is_ok());
        assert!(Address::read("http://[::1]:1", None).await.is_ok());
    }
}
