//! Answers without a foreseeable end, read piece by piece.
//!
//! The time of a whole request is not bounded here, because a stream may last for days; every wait for its next piece
//! is.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};

use super::{Client, ClientError, Content, api_url, failed, refusal};

/// Longer than any stream; the client's own limit would end it in the middle.
const STREAM_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The server begins to answer within the time it allows a request.
const BEGIN_TIMEOUT: Duration = super::REQUEST_TIMEOUT;

/// What is asked of a stream beside its address.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub media_type: &'static str,
    /// The last event that was read, for a stream that goes on.
    pub last_event: Option<&'a str>,
}

/// An answer whose content is still coming.
#[derive(Debug)]
pub struct Stream {
    response: reqwest::Response,
    url: Url,
}

impl Client {
    /// Asks for a stream and waits for its beginning; a refusal is told as for any other request.
    pub async fn stream(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        wanted: Wanted<'_>,
    ) -> Result<Stream, ClientError> {
        let url = api_url(&self.base, path, query);
        let mut request = self.http.get(url.clone());
        if let Some(last) = wanted.last_event {
            request = request.header(HeaderName::from_static("last-event-id"), last);
        }
        begin(request, url, wanted.media_type).await
    }

    /// Posts something that is answered by a stream.
    pub async fn post_for_stream(
        &self,
        path: &[&str],
        content: Content,
        media_type: &'static str,
    ) -> Result<Stream, ClientError> {
        let url = api_url(&self.base, path, &[]);
        let request =
            self.http.post(url.clone()).header(CONTENT_TYPE, content.media_type).body(content.bytes);
        begin(request, url, media_type).await
    }
}

async fn begin(
    request: reqwest::RequestBuilder,
    url: Url,
    media_type: &'static str,
) -> Result<Stream, ClientError> {
    let request = request.timeout(STREAM_MAX).header(ACCEPT, HeaderValue::from_static(media_type));
    let response = within(BEGIN_TIMEOUT, &url, request.send()).await?;
    let status = response.status();
    if !status.is_success() {
        let headers = response.headers().clone();
        let bytes = within(BEGIN_TIMEOUT, &url, response.bytes()).await?;
        return Err(refusal(&url, status, &headers, &bytes));
    }
    let content_type = response.headers().get(CONTENT_TYPE);
    let is_wanted = content_type
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(';').next().unwrap_or_default().trim() == media_type);
    if !is_wanted {
        return Err(ClientError::Foreign { url });
    }
    Ok(Stream { response, url })
}

impl Stream {
    /// The next piece, or nothing at the end. A stream that is silent for longer than `pause_max` is lost.
    pub async fn next(&mut self, pause_max: Duration) -> Result<Option<bytes::Bytes>, ClientError> {
        within(pause_max, &self.url, self.response.chunk()).await
    }
}

async fn within<T>(
    limit: Duration,
    url: &Url,
    answer: impl Future<Output = reqwest::Result<T>>,
) -> Result<T, ClientError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answered) => answered.map_err(|error| failed(url, error)),
        Err(_) => Err(ClientError::Silent { url: url.clone(), waited: limit }),
    }
}
