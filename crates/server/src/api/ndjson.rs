//! A request's body read line by line, within bounds, never held as a whole.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::Serialize;

use super::patience::TooSlow;
use super::problem::{Code, Problem, too_large};

/// The content types that mean lines of JSON.
pub(crate) const MEDIA_TYPES: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// The lines of a body as they arrive.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Body,
    bounds: LineBounds,
    bytes: usize,
    /// What has arrived and was not given out.
    open: BytesMut,
    /// How much of it is known to hold no end of a line.
    searched: usize,
    ended: bool,
}

/// How much is read before it is too much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineBounds {
    pub bytes_max: usize,
    pub line_bytes_max: usize,
}

impl Lines {
    pub fn new(body: Body, bounds: LineBounds) -> Lines {
        Lines { body, bounds, bytes: 0, open: BytesMut::new(), searched: 0, ended: false }
    }

    /// The next line, which may be blank; what stands behind the last end of a line is a line as well.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            if let Some(end) = self.open[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.open.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.open.len();
            if self.open.len() > self.bounds.line_bytes_max {
                return Err(Problem::new(Code::TooLarge, "line exceeds the maximum entry size"));
            }
            if self.ended {
                let rest = self.open.split().freeze();
                self.searched = 0;
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), Problem> {
        let Some(frame) = self.body.frame().await else {
            self.ended = true;
            return Ok(());
        };
        // Trailers are no content.
        let Ok(data) = frame.map_err(|error| half_sent(&error))?.into_data() else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > self.bounds.bytes_max {
            return Err(Problem::new(Code::TooLarge, "stream exceeds the maximum size"));
        }
        self.open.extend_from_slice(&data);
        Ok(())
    }
}

/// A value as a line of an answer.
pub(crate) fn line(value: &impl Serialize) -> Bytes {
    // Our own shapes have texts for keys and cannot fail; a blank line is passed over by whoever reads lines.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

/// Why a body ended before its end.
pub(crate) fn half_sent(error: &(dyn std::error::Error + 'static)) -> Problem {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<TooSlow>() {
            return Problem::new(Code::Timeout, "body received too slowly")
                .hint("no response was sent: send it again");
        }
        if error.is::<http_body_util::LengthLimitError>() {
            return too_large();
        }
        cause = error.source();
    }
    Problem::new(Code::BadRequest, "body truncated").hint("send it again; known entries are recognised")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(pieces: &[&'static str], bounds: LineBounds) -> Vec<Result<String, &'static str>> {
        let pieces = pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes())));
        let body = Body::from_stream(futures_util::stream::iter(pieces.collect::<Vec<_>>()));
        let mut lines = Lines::new(body, bounds);
        let mut read = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(Ok(String::from_utf8_lossy(&line).trim_end().to_owned())),
                Ok(None) => return read,
                Err(_) => {
                    read.push(Err("refused"));
                    return read;
                }
            }
        }
    }

    #[tokio::test]
    async fn lines_come_out_however_the_body_was_cut() {
        let bounds = LineBounds { bytes_max: 100, line_bytes_max: 10 };
        let ok = |texts: &[&str]| texts.iter().map(|text| Ok((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(lines(&["a\nb", "b\n", "", "\nc"], bounds).await, ok(&["a", "bb", "", "c"]));
        assert_eq!(lines(&["a\r\n"], bounds).await, ok(&["a"]));
        assert_eq!(lines(&[], bounds).await, []);
        let long = lines(&["a\n", "01234", "567890\n"], bounds).await;
        assert_eq!(long, [Ok("a".to_owned()), Ok("01234567890".to_owned())], "whole within one piece more");
        assert_eq!(lines(&["a\n", "01234567890", "x\n"], bounds).await, [Ok("a".to_owned()), Err("refused")]);
        let tight = LineBounds { bytes_max: 5, line_bytes_max: 10 };
        assert_eq!(lines(&["a\n", "b\nc\n"], tight).await, [Ok("a".to_owned()), Err("refused")]);
    }
}
