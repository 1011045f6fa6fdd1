//! The connection: made when it is needed, kept by the client, and its state for health. Never shows a credential.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use lazaret_core::limits;

use super::config::{Auth, JetStreamConfig};
use crate::SourceError;
use crate::standing::{Standing, locked};

const CONNECTING: &str = "connecting to NATS";

/// Refused subjects that are remembered for the doctor.
const DENIED_MAX: usize = 50;

/// One connection that all work of a source shares.
pub(super) struct Link {
    config: JetStreamConfig,
    client: tokio::sync::Mutex<Option<Client>>,
    standing: Arc<Mutex<Standing>>,
}

impl Link {
    pub fn new(config: JetStreamConfig) -> Link {
        Link { config, client: tokio::sync::Mutex::default(), standing: Arc::default() }
    }

    pub fn standing(&self) -> Standing {
        locked(&self.standing).clone()
    }

    /// Notes whether the last call worked: hearing nothing is told before the client itself notices.
    pub fn note(&self, error: Option<&SourceError>) {
        let mut standing = locked(&self.standing);
        standing.turned(error.is_none());
        if let Some(error) = error {
            standing.last_error = Some(error.to_string());
        }
    }

    /// The first server's address.
    pub fn address(&self) -> String {
        self.config.servers.first().cloned().unwrap_or_default()
    }

    /// The client, connected now. While the connection is lost the client itself tries to make it again.
    pub async fn client(&self) -> Result<Client, SourceError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = &*slot {
            return match client.connection_state() {
                State::Connected => Ok(client.clone()),
                State::Pending | State::Disconnected => {
                    let why = locked(&self.standing).last_error.clone();
                    let why = why.unwrap_or_else(|| "the connection was lost".to_owned());
                    Err(SourceError::Unavailable { doing: CONNECTING, why })
                }
            };
        }
        let connected = self.connect().await;
        let mut standing = locked(&self.standing);
        match &connected {
            Ok(client) => {
                standing.turned(true);
                *slot = Some(client.clone());
            }
            Err(error) => {
                standing.turned(false);
                standing.last_error = Some(error.to_string());
            }
        }
        connected
    }

    async fn connect(&self) -> Result<Client, SourceError> {
        let options = self.options().await?;
        options.connect(self.config.servers.clone()).await.map_err(|error| refused(&error))
    }

    async fn options(&self) -> Result<ConnectOptions, SourceError> {
        let config = &self.config;
        let standing = Arc::clone(&self.standing);
        let mut options = ConnectOptions::new()
            .name(format!("lazaret {}", config.name))
            .connection_timeout(Duration::from_millis(limits::JETSTREAM_CONNECT_MS_MAX))
            .request_timeout(Some(Duration::from_millis(config.request_ms_max)))
            .ping_interval(Duration::from_millis(limits::JETSTREAM_PING_MS))
            .require_tls(config.tls.is_required)
            .event_callback(move |event| {
                heard(&mut locked(&standing), &event);
                std::future::ready(())
            });
        if let Some(ca) = &config.tls.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &config.tls.client {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(match &config.auth {
            Auth::None => options,
            Auth::Token(token) => options.token(token.reveal().to_owned()),
            Auth::User { user, password } => {
                options.user_and_password(user.clone(), password.reveal().to_owned())
            }
            Auth::Nkey(seed) => options.nkey(seed.reveal().to_owned()),
            Auth::CredentialsFile(path) => options.credentials_file(path).await.map_err(|error| {
                // The error may quote the file.
                let why = match error.kind() {
                    std::io::ErrorKind::NotFound => "does not exist",
                    std::io::ErrorKind::PermissionDenied => "may not be read",
                    _ => "is not a credentials file with a user's token and seed",
                };
                SourceError::Unfit(format!("the credentials file {} {why}: repair auth", path.display()))
            })?,
        })
    }
}

/// Takes an event of the client into account.
fn heard(standing: &mut Standing, event: &Event) {
    match event {
        Event::Connected => standing.turned(true),
        Event::Disconnected | Event::Closed => {
            standing.turned(false);
            standing.last_error = Some("the connection was lost".to_owned());
        }
        Event::ServerError(ServerError::AuthorizationViolation) => {
            standing.last_error = Some(CREDENTIALS_REFUSED.to_owned());
        }
        Event::ServerError(ServerError::Other(why)) => {
            // "Permissions Violation for Publish to "…"": the request that it answers only times out.
            if why.to_ascii_lowercase().contains("permissions violation")
                && standing.denied.len() < DENIED_MAX
            {
                standing.denied.insert(why.clone());
            }
            standing.last_error = Some(format!("the server says: {why}"));
        }
        Event::ClientError(error) => standing.last_error = Some(error.to_string()),
        Event::LameDuckMode
        | Event::Draining
        | Event::SlowConsumer(_)
        | Event::ServerError(ServerError::SlowConsumer(_)) => {}
    }
}

const CREDENTIALS_REFUSED: &str =
    "the server refused the credentials: repair auth (token, user and password, nkey or credentials file)";

/// Why no connection could be made. What passes when somebody repairs the server is unavailable.
fn refused(error: &ConnectError) -> SourceError {
    // Shows its cause as well.
    let cause = error.to_string();
    // A certificate that is refused comes as an error of the stream.
    let is_tls =
        ["certificate", "tls", "handshake"].iter().any(|word| cause.to_ascii_lowercase().contains(word));
    let why = match error.kind() {
        ConnectErrorKind::AuthorizationViolation => CREDENTIALS_REFUSED.to_owned(),
        ConnectErrorKind::Authentication => {
            return SourceError::Unfit(
                "the credentials cannot sign: repair the nkey seed or the credentials file".to_owned(),
            );
        }
        ConnectErrorKind::Tls => format!("{cause}: {TLS_HINT}"),
        ConnectErrorKind::Io if is_tls => format!("{cause}: {TLS_HINT}"),
        ConnectErrorKind::TimedOut => {
            "it did not answer in time: see that it runs and speaks NATS".to_owned()
        }
        ConnectErrorKind::Dns => format!("{cause}: repair servers"),
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects | ConnectErrorKind::ServerParse => {
            format!("{cause}: start the server, or repair servers")
        }
    };
    SourceError::Unavailable { doing: CONNECTING, why }
}

const TLS_HINT: &str = "repair tls (ca that signed the server's certificate, client certificate and key)";
