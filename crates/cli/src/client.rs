//! The server over HTTP: one request, one answer, and what a refusal says.
//!
//! Never prints; never shows the token, not even in `Debug`.

mod ojs;
mod patience;
pub mod streaming;

use std::fmt;
use std::time::Duration;

use lazaret_server::access::NO_TOKEN_IN_FORCE;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::{Exit, Failure};
use crate::gate;
use crate::output::escape;

/// Loopback and local networks answer at once; more than this is a wrong address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A little more than the server allows a request, so that the server's own answer comes first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(150);

/// Text that a foreign server may put into our errors.
const QUOTED_CHARS_MAX: usize = 200;

#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

/// A body with its content type.
#[derive(Debug)]
pub struct Content {
    pub media_type: &'static str,
    pub bytes: bytes::Bytes,
}

impl Content {
    pub fn json(value: &serde_json::Value) -> Content {
        Content { media_type: "application/json", bytes: value.to_string().into() }
    }
}

/// An answer that is not a refusal.
#[derive(Debug)]
pub struct Answer {
    pub bytes: bytes::Bytes,
    url: Url,
}

impl Answer {
    pub fn text(&self) -> Result<&str, ClientError> {
        std::str::from_utf8(&self.bytes).map_err(|_| ClientError::Foreign { url: self.url.clone() })
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.bytes).map_err(|_| ClientError::Foreign { url: self.url.clone() })
    }
}

/// What the server says when it refuses; texts are already harmless for a terminal.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub code: String,
    pub message: String,
    hint: Option<String>,
    /// How long the server asks us to wait before we try again.
    pub retry_after: Option<Duration>,
    /// How many letters match, where that was the problem.
    pub count: Option<u64>,
    /// Ids of incidents that block the redrive.
    incidents: Vec<String>,
    /// Letters that an import took in, and recognised, before it broke off.
    pub created: u64,
    pub known: u64,
}

impl Problem {
    /// The server's hint, or ours where the server speaks of requests and we of commands.
    fn hint(&self) -> Option<String> {
        if let Some(hint) = self.gate_hint() {
            return Some(hint);
        }
        match (self.code.as_str(), self.count) {
            ("unauthorized", _)
                if !self.hint.as_ref().is_some_and(|hint| hint.starts_with(NO_TOKEN_IN_FORCE)) =>
            {
                Some("pass --token or LAZARET_TOKEN; create a token with `lazaret token new`".into())
            }
            ("forbidden", _) => Some("use a token with a sufficient role: --token or LAZARET_TOKEN".into()),
            ("count_mismatch", Some(count)) if self.message.contains("of the archive") => {
                Some(format!("preview with `lazaret archive ls`, then pass --expect {count}"))
            }
            ("count_mismatch", Some(count)) => {
                Some(format!("preview with `lazaret ls`, then pass --expect {count}"))
            }
            (_, _) => self.hint.clone(),
        }
    }

    /// The command that opens a gate that is shut.
    fn gate_hint(&self) -> Option<String> {
        let (first, others) = self.incidents.split_first()?;
        let command = gate::command(&self.code, first)?;
        let purpose = gate::purpose(&self.code);
        Some(match others.len() {
            0 => format!("{purpose}: {command}"),
            1 => format!("{purpose}: {command}; also for {}", others[0]),
            more => format!("{purpose}: {command}; also for {more} more: {}", others.join(", ")),
        })
    }
}

#[derive(Debug)]
pub enum ClientError {
    /// Start the server, or name another address.
    Unreachable {
        url: Url,
        source: reqwest::Error,
    },
    /// Try again: the connection broke or the answer did not come in time.
    Lost {
        url: Url,
        source: reqwest::Error,
    },
    /// Try again: nothing came for longer than there ever is silence.
    Silent {
        url: Url,
        waited: Duration,
    },
    /// Whatever answers there does not speak our API.
    Foreign {
        url: Url,
    },
    Refused(Box<Problem>),
}

impl Client {
    pub fn new(url: &str, token: Option<&str>) -> Result<Client, Failure> {
        let base = base_url(url)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("lazaret/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(token)?);
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        if base.scheme() == "http" {
            // Otherwise a machine without root certificates could not even talk to itself.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            Failure::failed(format!("cannot prepare the connection: {}", root_cause(&error)))
                .hint("HTTPS requires the system's root certificates (ca-certificates)")
        })?;
        Ok(Client { http, base })
    }

    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, ClientError> {
        self.send(self.http.get(api_url(&self.base, path, query)), None).await
    }

    /// Gets what is there now, where the same address would otherwise stream what comes.
    pub async fn poll(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, ClientError> {
        let request = self.http.get(api_url(&self.base, path, query));
        self.send(request.header(ACCEPT, "application/json"), None).await
    }

    pub async fn delete(&self, path: &[&str]) -> Result<Answer, ClientError> {
        self.send(self.http.delete(api_url(&self.base, path, &[])), None).await
    }

    pub async fn post(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        content: Content,
    ) -> Result<Answer, ClientError> {
        self.send(self.http.post(api_url(&self.base, path, query)), Some(content)).await
    }

    async fn send(
        &self,
        mut request: reqwest::RequestBuilder,
        content: Option<Content>,
    ) -> Result<Answer, ClientError> {
        if let Some(content) = content {
            request = request.header(CONTENT_TYPE, content.media_type).body(content.bytes);
        }
        let (http, request) = request.build_split();
        // All that is put into a request was checked before it came here.
        let request = request.map_err(|error| failed(&self.base, error))?;
        let url = request.url().clone();
        let response = http.execute(request).await.map_err(|error| failed(&url, error))?;
        let status = response.status();
        let headers = response.headers().clone();
        let bytes = response.bytes().await.map_err(|error| failed(&url, error))?;
        if !status.is_success() {
            return Err(refusal(&url, status, &headers, &bytes));
        }
        Ok(Answer { bytes, url })
    }
}

fn api_url(base: &Url, path: &[&str], query: &[(&str, &str)]) -> Url {
    let mut url = base.clone();
    // `base_url` lets only addresses through that can have a path.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(["api", "v1"]).extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

fn failed(url: &Url, error: reqwest::Error) -> ClientError {
    let url = url.clone();
    let source = error.without_url();
    if source.is_connect() {
        ClientError::Unreachable { url, source }
    } else {
        ClientError::Lost { url, source }
    }
}

/// Reads a problem document, or makes the best of what came instead.
fn refusal(url: &Url, status: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> ClientError {
    #[derive(Deserialize)]
    struct Document {
        code: String,
        title: Option<String>,
        detail: Option<String>,
        hint: Option<String>,
        count: Option<u64>,
        created: Option<u64>,
        known: Option<u64>,
        #[serde(default)]
        incidents: Vec<DocumentIncident>,
    }
    #[derive(Deserialize)]
    struct DocumentIncident {
        id: String,
    }
    let document = serde_json::from_slice::<Document>(bytes).or_else(|_| {
        let ojs::Refusal { error } = serde_json::from_slice(bytes)?;
        let (code, detail, hint) = (error.code, Some(error.message), error.hint);
        Ok::<Document, serde_json::Error>(Document {
            code,
            title: None,
            detail,
            hint,
            count: None,
            created: None,
            known: None,
            incidents: Vec::new(),
        })
    });
    let Ok(document) = document else {
        return ClientError::Foreign { url: url.clone() };
    };
    let message = document.detail.or(document.title).unwrap_or_else(|| status.to_string());
    let retry_after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    ClientError::Refused(Box::new(Problem {
        status,
        code: document.code,
        message: escape::line(&message),
        hint: document.hint.map(|hint| escape::line(&hint)),
        retry_after: retry_after.map(Duration::from_secs),
        count: document.count,
        created: document.created.unwrap_or(0),
        known: document.known.unwrap_or(0),
        incidents: document.incidents.iter().map(|incident| escape::line(&incident.id)).collect(),
    }))
}

fn headers(token: Option<&str>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
            Failure::misuse("the token contains invalid characters")
                .hint("a token is lzr_ and 43 letters and digits; check --token or LAZARET_TOKEN")
        })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn base_url(text: &str) -> Result<Url, Failure> {
    let example = "use an address such as http://127.0.0.1:7070 or https://lazaret.example.com";
    let shown: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let url: Url = text
        .parse()
        .map_err(|_| Failure::misuse(format!("`{shown}` is not a server address")).hint(example))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::misuse("the server address contains a user name or password")
            .hint("pass a token with --token or LAZARET_TOKEN instead"));
    }
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(Failure::misuse(format!("`{shown}` is not a server address")).hint(example));
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Where the request went, without what it asked.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

impl ClientError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ClientError::Unreachable { url, .. } if is_loopback(url) => {
                Some("is it running? start it with: lazaret serve".into())
            }
            ClientError::Unreachable { .. } => {
                Some("is it running, and is --url (LAZARET_URL) right?".into())
            }
            ClientError::Lost { .. } | ClientError::Silent { .. } => {
                Some("check the server log; it is unknown whether the request took effect".into())
            }
            ClientError::Foreign { .. } => {
                Some("is --url (LAZARET_URL) the address of a Lazaret server?".into())
            }
            ClientError::Refused(problem) => problem.hint(),
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            // What was typed was wrong; a body that is not JSON came from a file and is a failure.
            ClientError::Refused(problem)
                if problem.status == StatusCode::BAD_REQUEST && problem.code != "bad_json" =>
            {
                Exit::Misuse
            }
            ClientError::Refused(_)
            | ClientError::Unreachable { .. }
            | ClientError::Lost { .. }
            | ClientError::Silent { .. }
            | ClientError::Foreign { .. } => Exit::Failed,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Unreachable { url, source } => {
                write!(f, "cannot reach the server at {}: {}", origin(url), root_cause(source))
            }
            ClientError::Lost { url, source } if source.is_timeout() => {
                write!(f, "the server at {} timed out", origin(url))
            }
            ClientError::Lost { url, .. } => {
                write!(f, "lost the connection to the server at {}", origin(url))
            }
            ClientError::Silent { url, waited } => {
                write!(f, "no data from the server at {} for {} s", origin(url), waited.as_secs())
            }
            ClientError::Foreign { url } => {
                write!(f, "{} is not a Lazaret server", origin(url))
            }
            ClientError::Refused(problem) => f.write_str(&problem.message),
        }
    }
}

/// Its causes are in its text: the layers between us and the socket have nothing to say to a person.
impl std::error::Error for ClientError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str) -> ClientError {
        let url = "http://127.0.0.1:7070/".parse().unwrap();
        refusal(&url, StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn addresses_with_secrets_or_without_a_server_are_refused() {
        for bad in ["", "lazaret", "ftp://x", "http://u:p@x", "http://x/?a=b", "http://x#y", "file:///x"] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
        let message = base_url("http://user:secret@x").unwrap_err().to_string();
        assert!(!message.contains("secret"), "{message}");
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let is = |url: &str| is_loopback(&base_url(url).unwrap());
        assert!(is("http://127.0.0.1:7070") && is("http://localhost") && is("http://[::1]:7070"));
        assert!(!is("http://10.0.0.7:7070") && !is("https://localhost.example.com"));
    }

    #[test]
    fn a_problem_is_told_with_its_hint_and_without_harm() {
        let body =
            r#"{"code":"count_mismatch","title":"t","detail":"5 match\u001b[2J, not 3","hint":"pass 5"}"#;
        let error = refused(409, body);
        assert_eq!(error.to_string(), "5 match\\u{1b}[2J, not 3");
        assert_eq!((error.hint().as_deref(), error.exit()), (Some("pass 5"), Exit::Failed));
        assert_eq!(refused(400, r#"{"code":"bad_filter"}"#).exit(), Exit::Misuse);
        assert_eq!(refused(400, r#"{"code":"bad_json"}"#).exit(), Exit::Failed);
    }

    #[test]
    fn a_shut_gate_is_told_with_the_command_that_opens_it() {
        let body = r#"{"code":"rca_required","detail":"d","hint":"POST …","incidents":[{"id":"a","url":"u"},{"id":"b"}]}"#;
        let hint = "save the root cause: lazaret incident diagnose a; also for b";
        assert_eq!(refused(409, body).hint().as_deref(), Some(hint));
        let without = r#"{"code":"rca_required","detail":"d","hint":"look"}"#;
        assert_eq!(refused(409, without).hint().as_deref(), Some("look"));
    }

    #[test]
    fn a_refusal_of_the_door_for_jobs_is_understood() {
        let body = r#"{"error":{"code":"conflict","message":"is \u001b[2Jdone","hint":"look\nagain"}}"#;
        let error = refused(409, body);
        assert_eq!(error.to_string(), "is \\u{1b}[2Jdone");
        assert_eq!((error.hint().as_deref(), error.exit()), (Some("look\\nagain"), Exit::Failed));
    }

    #[test]
    fn an_answer_that_is_no_problem_document_is_foreign() {
        assert!(matches!(refused(502, "<html>bad gateway</html>"), ClientError::Foreign { .. }));
    }

    #[test]
    fn a_token_that_cannot_be_one_is_not_repeated() {
        let error = headers(Some("lzr_\nsecret")).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
        let sent = headers(Some("lzr_x")).unwrap();
        assert!(!format!("{sent:?}").contains("lzr_x"));
    }

    #[test]
    fn a_path_prefix_of_a_proxy_is_kept() {
        let base = base_url("http://x/lazaret/").unwrap();
        let url = api_url(&base, &["dead-letters"], &[("q", "queue:a b")]);
        assert_eq!(url.as_str(), "http://x/lazaret/api/v1/dead-letters?q=queue%3Aa+b");
    }
}
