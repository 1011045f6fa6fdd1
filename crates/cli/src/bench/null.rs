//! A server that reads requests and answers at once, without storing anything: what clients and loopback cost alone.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::line::content_length;
use super::sample;

/// Serves until stdin ends, which is when the process that started it has ended.
pub async fn serve(announce: impl FnOnce(std::net::SocketAddr)) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?);
    let ended = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    let jobs = Arc::new(AtomicU64::new(0));
    let accepting = async {
        while let Ok((stream, _)) = listener.accept().await {
            let jobs = Arc::clone(&jobs);
            tokio::spawn(async move { answer_all(stream, &jobs).await });
        }
    };
    tokio::select! {
        _ = ended => {}
        () = accepting => {}
    }
    Ok(())
}

/// Answers the requests of one connection.
async fn answer_all(mut stream: TcpStream, jobs: &AtomicU64) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut request, mut answer) = (Vec::with_capacity(16 * 1024), Vec::with_capacity(16 * 1024));
    loop {
        let head_end = loop {
            if let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut request).await.ok()? == 0 {
                return None;
            }
        };
        let head = std::str::from_utf8(&request[..head_end]).ok()?;
        let whole = head_end + content_length(head).unwrap_or(0);
        let path = head.split(' ').nth(1)?.to_owned();
        while request.len() < whole {
            if stream.read_buf(&mut request).await.ok()? == 0 {
                return None;
            }
        }
        let body = body_for(&path, &request[head_end..whole], jobs);
        answer.clear();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        answer.extend_from_slice(head.as_bytes());
        answer.extend_from_slice(body.as_bytes());
        stream.write_all(&answer).await.ok()?;
        request.drain(..whole);
    }
}

/// An answer about as long as the real one.
fn body_for(path: &str, request: &[u8], jobs: &AtomicU64) -> String {
    match path {
        "/ojs/v1/workers/fetch" => {
            let asked: serde_json::Value = serde_json::from_slice(request).unwrap_or_default();
            let count = asked["count"].as_u64().unwrap_or(1).min(1_000);
            let first = jobs.fetch_add(count, Ordering::Relaxed);
            let mut body = String::from("{\"jobs\":[");
            for n in first..first + count {
                let comma = if n == first { "" } else { "," };
                let job = sample::job(n, "null");
                write!(body, "{comma}{{\"id\":\"00000000-0000-7000-8000-{n:012x}\",\"job\":{job}}}").ok();
            }
            body.push_str("]}");
            body
        }
        // A job is answered whole, and a failed one with its error twice.
        "/ojs/v1/jobs" | "/ojs/v1/workers/ack" => format!("{{\"job\":\"{}\"}}", "x".repeat(2_000)),
        "/ojs/v1/workers/nack" => format!("{{\"job\":\"{}\"}}", "x".repeat(5_000)),
        "/ojs/v1/jobs/batch" => format!("{{\"jobs\":\"{}\"}}", "x".repeat(request.len() * 3 / 2)),
        _ => String::from("{\"items\":[],\"matched\":0,\"succeeded\":0,\"failed\":0}"),
    }
}
