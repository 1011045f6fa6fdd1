//! Requests that may be sent twice are sent again while the server is busy and says when to come back.

use std::time::Duration;

use reqwest::StatusCode;

use super::{Answer, Client, ClientError, Content, Problem};

/// A busy server is asked again this often, and never waited for longer than this.
const TRIES_MAX: u32 = 6;
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Client {
    /// Posts what changes nothing when it is taken twice; `busy` is told each refusal before the wait.
    pub async fn post_patiently(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        content: Content,
        mut busy: impl FnMut(&Problem),
    ) -> Result<Answer, ClientError> {
        let mut tries = 0;
        loop {
            let again = Content { media_type: content.media_type, bytes: content.bytes.clone() };
            let (wait, problem) = match self.post(path, query, again).await {
                Err(ClientError::Refused(problem)) if tries < TRIES_MAX => match busy_for(&problem) {
                    Some(wait) => (wait, problem),
                    None => return Err(ClientError::Refused(problem)),
                },
                answered => return answered,
            };
            tries += 1;
            busy(&problem);
            tokio::time::sleep(wait).await;
        }
    }
}

/// How long a server that is only busy wants to be left alone.
fn busy_for(problem: &Problem) -> Option<Duration> {
    let is_busy = problem.status == StatusCode::SERVICE_UNAVAILABLE;
    problem.retry_after.filter(|_| is_busy).map(|wait| wait.min(WAIT_MAX))
}
