//! A receiver on loopback that answers 200, and a sink that posts to it over connections that it keeps.

use std::sync::Arc;

use async_trait::async_trait;
use lazaret_sources::sink::{Delivery, Sink, Sunk};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// Posts events to the receiver.
#[derive(Debug)]
pub struct HttpSink {
    address: String,
    free: Mutex<Vec<BufReader<TcpStream>>>,
}

impl HttpSink {
    /// Starts a receiver and connects to it.
    pub async fn start(connections: usize) -> Arc<HttpSink> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        let mut free = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(&address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            free.push(BufReader::new(stream));
        }
        Arc::new(HttpSink { address, free: Mutex::new(free) })
    }
}

#[async_trait]
impl Sink for HttpSink {
    fn name(&self) -> &str {
        "http"
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    async fn deliver(&self, delivery: &Delivery) -> Sunk {
        let Some(mut stream) = self.free.lock().await.pop() else { return Sunk::Unsent };
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\ncontent-type: {}\r\nidempotency-key: {}\r\ncontent-length: {}\r\n\r\n",
            self.address,
            delivery.content_type,
            delivery.idempotency_key,
            delivery.body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(&delivery.body);
        stream.write_all(&request).await.unwrap();
        let mut line = String::new();
        let mut is_taken = false;
        while stream.read_line(&mut line).await.unwrap() > 2 {
            is_taken |= line.starts_with("HTTP/1.1 200");
            line.clear();
        }
        self.free.lock().await.push(stream);
        assert!(is_taken);
        Sunk::Delivered
    }
}

async fn serve(stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut stream = BufReader::new(stream);
    let mut body = Vec::new();
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            match stream.read_line(&mut line).await {
                Ok(0) | Err(_) => return,
                Ok(2) => break,
                Ok(_) => {}
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    }
}
