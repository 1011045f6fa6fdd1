//! The server's door for jobs, which has addresses and refusals of its own.

use reqwest::Url;
use serde::Deserialize;

use super::{Answer, Client, ClientError, Content};

impl Client {
    pub async fn get_ojs(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, ClientError> {
        self.send(self.http.get(ojs_url(&self.base, path, query)), None).await
    }

    pub async fn post_ojs(&self, path: &[&str], content: Content) -> Result<Answer, ClientError> {
        self.send(self.http.post(ojs_url(&self.base, path, &[])), Some(content)).await
    }

    pub async fn delete_ojs(&self, path: &[&str]) -> Result<Answer, ClientError> {
        self.send(self.http.delete(ojs_url(&self.base, path, &[])), None).await
    }
}

fn ojs_url(base: &Url, path: &[&str], query: &[(&str, &str)]) -> Url {
    let mut url = base.clone();
    // `base_url` lets only addresses through that can have a path.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(["ojs", "v1"]).extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

/// What is said when something is refused there.
#[derive(Deserialize)]
pub(super) struct Refusal {
    pub error: RefusalError,
}

#[derive(Deserialize)]
pub(super) struct RefusalError {
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
}
