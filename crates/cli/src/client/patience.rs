//! Requests that may be sent twice are sent again while the server is busy and says when to come back.

use std::time::Duration;

use reqwest::StatusCode;

use super::{Answer, Client, ClientError, Content, Problem};

/// A busy server is asked again this often, and never waited for longer than this.
const TRIES_MAX: u32 = 6;
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Client {
    /// Posts what changes nothing when it is taken twice; `busy` is called before each wait.
    pub async fn post_patiently(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        content: Content,
        busy: impl Fn(),
    ) -> Result<Answer, ClientError> {
        let mut tries = 0;
        loop {
            let again = Content { media_type: content.media_type, bytes: content.bytes.clone() };
            let wait = match self.post(path, query, again).await {
                Err(ClientError::Refused(Problem {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    retry_after: Some(wait),
                    ..
                })) if tries < TRIES_MAX => wait.min(WAIT_MAX),
                answered => return answered,
            };
            tries += 1;
            busy();
            tokio::time::sleep(wait).await;
        }
    }
}
