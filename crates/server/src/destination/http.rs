//! A receiver over HTTP: one POST for each letter, with the original's exact bytes.
//!
//! What is definite and what is unknown is decided here. Only a connection that was never made and a whole answer are
//! definite; whatever happens in between may have reached the receiver. Never shows a credential, and never follows a
//! redirect: letters go where the configuration says.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lazaret_core::attempt::LetterError;
use lazaret_core::limits;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Response, StatusCode, Url};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::address::{self, Forbidden, Lookup};
use super::{Destination, Outgoing, Refusal, Route, Sent, SentCopy, Silence, Verified, headers};
use crate::clock::Clock;
use crate::config::{DestinationConfig, Success};

/// Values that are shorter are no secrets, and hiding them would spoil what is told.
const HIDDEN_CHARS_MIN: usize = 4;

const MASK: &str = "***";

/// Sends letters to one address.
pub struct HttpDestination {
    config: DestinationConfig,
    http: reqwest::Client,
    /// One for each letter that may be under way.
    connections: Semaphore,
    /// What must not be repeated if the receiver does.
    hidden: Vec<String>,
    clock: Clock,
}

/// Whom we believe that they are who they say.
#[derive(Clone, Debug)]
pub struct Tls {
    roots: Arc<RootCertStore>,
}

impl Tls {
    /// The machine's authorities, or those that `SSL_CERT_FILE` names.
    pub fn of_the_machine() -> Tls {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Tls { roots: Arc::new(roots) }
    }

    /// What a client of ours agrees to.
    pub(crate) fn client(&self) -> Result<ClientConfig, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?;
        Ok(builder.with_root_certificates(Arc::clone(&self.roots)).with_no_client_auth())
    }
}

impl HttpDestination {
    /// Prepares connections and makes none. Says why it could not, without credentials.
    pub fn new(config: DestinationConfig, tls: &Tls, clock: Clock) -> Result<HttpDestination, String> {
        address::check(&config).map_err(|forbidden| forbidden.to_string())?;
        if config.url.secret().scheme() == "https" && tls.roots.is_empty() {
            return Err("HTTPS requires the system's root certificates (ca-certificates)".to_owned());
        }
        let connect_ms = limits::DESTINATION_CONNECT_MS_MAX.min(config.timeout_ms / 2).max(1);
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.client()?)
            // A proxy would connect to addresses that nobody has checked.
            .no_proxy()
            .dns_resolver(Lookup { allow_private: config.allow_private })
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .user_agent(concat!("lazaret/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_millis(connect_ms))
            .timeout(Duration::from_millis(config.timeout_ms))
            .pool_max_idle_per_host(config.connections_max)
            .pool_idle_timeout(Duration::from_millis(limits::DESTINATION_IDLE_MS))
            .build()
            .map_err(|error| format!("connections cannot be set up: {}", root_cause(&error)))?;
        let hidden = hidden(&config, &http);
        Ok(HttpDestination {
            connections: Semaphore::new(config.connections_max),
            config,
            http,
            hidden,
            clock,
        })
    }

    /// Sends one body once, signed if there is a secret.
    pub(crate) async fn post(&self, headers: HeaderMap, body: &Bytes) -> Sent {
        self.post_to(self.config.url.secret().clone(), headers, body).await
    }

    /// Sends one body once to another path of the same host, signed if there is a secret.
    pub(crate) async fn post_to(&self, url: Url, mut headers: HeaderMap, body: &Bytes) -> Sent {
        let wait = Duration::from_millis(limits::DESTINATION_WAIT_MS);
        let Ok(Ok(_permit)) = timeout(wait, self.connections.acquire()).await else {
            let busy = self.config.connections_max;
            return Sent::Unsent(format!("concurrency limit reached: {busy} letters in flight"));
        };
        if let Some(secret) = &self.config.secret {
            headers::sign(&mut headers, secret, self.clock.now(), body);
        }
        let request = self.http.post(url).headers(headers).body(body.clone());
        match request.send().await {
            Ok(answer) => self.answered(answer).await,
            Err(error) => self.unanswered(&error),
        }
    }

    /// What an answer means, once it is whole.
    async fn answered(&self, mut answer: Response) -> Sent {
        let status = answer.status();
        let body = match read(&mut answer).await {
            Ok(body) => body,
            Err(error) => {
                return Sent::Unknown(format!("response {status} truncated: {}", self.cause(&error)));
            }
        };
        if status.is_success() {
            return match self.config.success {
                Success::Response => Sent::Delivered { evidence: "delivered", handle: None },
                Success::Receipt => Sent::Taken { handle: None },
            };
        }
        // Whoever says this does not know either what the receiver behind it has done.
        if matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) {
            return Sent::Unknown(format!("a gateway answered {status}; the receiver may have the letter"));
        }
        let mut message = format!("{} answered {status}", self.config.url);
        if status.is_redirection() {
            message.push_str(", and redirects are not followed");
        }
        let said = self.excerpt(&body);
        if !said.is_empty() {
            message.push_str(": ");
            message.push_str(&said);
        }
        let code = Some(status.as_u16().to_string());
        let error =
            LetterError { error_type: "HttpAnswer".to_owned(), code, message, ..LetterError::default() };
        Sent::Refused(Box::new(Refusal { status: Some(status.as_u16()), error }))
    }

    /// What it means that no answer came.
    fn unanswered(&self, error: &reqwest::Error) -> Sent {
        if error.is_connect() || error.is_builder() {
            let message = format!("cannot connect to {}: {}", self.config.url, self.cause(error));
            let error_type = connect_error(error).to_owned();
            let error = LetterError { error_type, message, ..LetterError::default() };
            return Sent::Refused(Box::new(Refusal { status: None, error }));
        }
        if error.is_timeout() {
            return Sent::Unknown(format!("no answer within {} ms", self.config.timeout_ms));
        }
        Sent::Unknown(format!("the connection broke before the answer: {}", self.cause(error)))
    }

    fn cause(&self, error: &reqwest::Error) -> String {
        if error.is_timeout() {
            "it took too long".to_owned()
        } else {
            self.without_secrets(&root_cause(error))
        }
    }

    /// The beginning of an answer as text.
    fn excerpt(&self, body: &[u8]) -> String {
        // First hidden, then cut: half a secret is still too much.
        let mut said = self.without_secrets(String::from_utf8_lossy(body).trim());
        said.truncate(said.floor_char_boundary(limits::ANSWER_BYTES_KEPT));
        said
    }

    fn without_secrets(&self, text: &str) -> String {
        self.hidden.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

#[async_trait]
impl Destination for HttpDestination {
    fn address(&self) -> String {
        self.config.url.to_string()
    }

    fn deduplicates(&self) -> bool {
        self.config.deduplicates
    }

    async fn route(&self, _: &Outgoing) -> Result<Route, String> {
        let url = self.config.url.secret();
        let host = url.host_str().unwrap_or_default();
        // An address in numbers was checked when this was made.
        if url.domain().is_some() {
            let lookup = Lookup { allow_private: self.config.allow_private };
            match timeout(Duration::from_millis(limits::DESTINATION_CONNECT_MS_MAX), lookup.addresses(host))
                .await
            {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(format!("cannot look up {host}: {error}")),
                Err(_) => return Err(format!("cannot look up {host}: it took too long")),
            }
        }
        Ok(Route { address: self.address(), also_reaches: Vec::new() })
    }

    fn headers(&self, outgoing: &Outgoing) -> Option<Vec<(String, String)>> {
        let sent = headers::of(outgoing);
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Some(sent.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect())
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        self.post(headers::of(outgoing), &outgoing.body).await
    }

    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified> {
        // It is asked only of letters that were taken, and for those a receipt was promised.
        vec![Verified::Taken(Silence::SaysNothing); sent.len()]
    }
}

impl fmt::Debug for HttpDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDestination").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Reads an answer to its end, or as much of it as anyone needs. Fails if it ends before its end.
async fn read(answer: &mut Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        body.extend_from_slice(&piece);
        if body.len() >= limits::ANSWER_BYTES_READ_MAX {
            break;
        }
    }
    Ok(body)
}

/// Why a connection was not made, as the type of an error.
fn connect_error(error: &reqwest::Error) -> &'static str {
    let causes = || std::iter::successors(error.source(), |&cause| cause.source());
    if causes().any(|cause| cause.is::<Forbidden>()) {
        return "AddressNotAllowed";
    }
    if error.is_dns() {
        return "DnsError";
    }
    if error.is_timeout() {
        return "ConnectTimeout";
    }
    if causes().any(is_tls) {
        return "TlsError";
    }
    let refused = |cause: &io::Error| cause.kind() == io::ErrorKind::ConnectionRefused;
    if causes().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(refused)) {
        return "ConnectionRefused";
    }
    "ConnectError"
}

/// An IO error hides what it was made of from those who ask for its source.
fn is_tls(cause: &(dyn Error + 'static)) -> bool {
    let Some(io) = cause.downcast_ref::<io::Error>() else { return cause.is::<rustls::Error>() };
    io.get_ref().is_some_and(|inner| is_tls(inner))
}

/// The last cause: the layers above it repeat it, or tell the address.
fn root_cause(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.last().map_or_else(|| "no cause is known".to_owned(), |cause| cause.to_string())
}

/// What a receiver knows of our credentials and might repeat in its answer, longest first.
fn hidden(config: &DestinationConfig, http: &reqwest::Client) -> Vec<String> {
    let url = config.url.secret();
    let mut hidden: Vec<String> = url.query_pairs().map(|(_, value)| value.into_owned()).collect();
    hidden.extend(config.secret.iter().map(|secret| secret.reveal().to_owned()));
    let request = http.post(url.clone()).build();
    let sent = request.ok().and_then(|request| request.headers().get(AUTHORIZATION).cloned());
    let basic = sent.as_ref().and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
    if let Some(basic) = basic {
        hidden.push(basic.to_owned());
        let decoded = STANDARD.decode(basic).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((user, password)) = decoded.as_deref().and_then(|text| text.split_once(':')) {
            hidden.extend([user.to_owned(), password.to_owned()]);
        }
    }
    hidden.retain(|value| value.chars().count() >= HIDDEN_CHARS_MIN);
    hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
    hidden
}
