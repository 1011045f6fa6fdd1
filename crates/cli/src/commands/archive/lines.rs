//! Answers that come line by line while the server works.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::client::streaming::Stream;
use crate::failure::Failure;
use crate::transfer::LineCutter;

pub const NDJSON: &str = "application/x-ndjson";

/// The server reads one file between two lines, which may be large and far away.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Reads lines to the end and hands each on, with its text.
pub async fn read<T: DeserializeOwned>(
    mut stream: Stream,
    mut take: impl FnMut(T, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut cutter = LineCutter::default();
    while let Some(bytes) = stream.next(PAUSE_MAX).await? {
        let lines = cutter.take(&bytes).map_err(|_| Failure::failed("response line too long"))?;
        for line in lines {
            let text = String::from_utf8_lossy(&line);
            let read =
                serde_json::from_str(&text).map_err(|_| Failure::failed("unexpected response line"))?;
            take(read, &text)?;
        }
    }
    Ok(())
}
