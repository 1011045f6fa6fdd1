//! The connection: opened on first use, reconnected by the client library, with its state for health. Never shows a credential.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use lazaret_core::limits;

use super::config::{Auth, JetStreamConfig};
use crate::SourceError;
use crate::connection::{ConnectionState, locked};

const CONNECTING: &str = "connecting to NATS";

/// Permission violations kept for doctor.
const DENIED_MAX: usize = 50;

/// The one connection of a source.
pub(super) struct Link {
    config: JetStreamConfig,
    client: tokio::sync::Mutex<Option<Client>>,
    state: Arc<Mutex<ConnectionState>>,
}

impl Link {
    pub fn new(config: JetStreamConfig) -> Link {
        Link { config, client: tokio::sync::Mutex::default(), state: Arc::default() }
    }

    pub fn state(&self) -> ConnectionState {
        locked(&self.state).clone()
    }

    /// Records the result of the last call: a silent server is noticed before the client library notices it.
    pub fn record_result(&self, error: Option<&SourceError>) {
        let mut state = locked(&self.state);
        state.set_connected(error.is_none());
        if let Some(error) = error {
            state.last_error = Some(error.to_string());
        }
    }

    /// The first server's address.
    pub fn address(&self) -> String {
        self.config.servers.first().cloned().unwrap_or_default()
    }

    /// Returns the connected client. While the connection is lost, the client library reconnects.
    pub async fn client(&self) -> Result<Client, SourceError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = &*slot {
            return match client.connection_state() {
                State::Connected => Ok(client.clone()),
                State::Pending | State::Disconnected => {
                    let why = locked(&self.state).last_error.clone();
                    let why = why.unwrap_or_else(|| "the connection was lost".to_owned());
                    Err(SourceError::Unavailable { doing: CONNECTING, why })
                }
            };
        }
        let connected = self.connect().await;
        let mut state = locked(&self.state);
        match &connected {
            Ok(client) => {
                state.set_connected(true);
                *slot = Some(client.clone());
            }
            Err(error) => {
                state.set_connected(false);
                state.last_error = Some(error.to_string());
            }
        }
        connected
    }

    async fn connect(&self) -> Result<Client, SourceError> {
        let options = self.options().await?;
        options.connect(self.config.servers.clone()).await.map_err(|error| connect_error(&error))
    }

    async fn options(&self) -> Result<ConnectOptions, SourceError> {
        let config = &self.config;
        let state = Arc::clone(&self.state);
        let mut options = ConnectOptions::new()
            .name(format!("lazaret {}", config.name))
            .connection_timeout(Duration::from_millis(limits::JETSTREAM_CONNECT_MS_MAX))
            .request_timeout(Some(Duration::from_millis(config.request_ms_max)))
            .ping_interval(Duration::from_millis(limits::JETSTREAM_PING_MS))
            .require_tls(config.tls.is_required)
            .event_callback(move |event| {
                on_event(&mut locked(&state), &event);
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
                // The error may quote the file's content.
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

/// Records an event of the client.
fn on_event(state: &mut ConnectionState, event: &Event) {
    match event {
        Event::Connected => state.set_connected(true),
        Event::Disconnected | Event::Closed => {
            state.set_connected(false);
            state.last_error = Some("the connection was lost".to_owned());
        }
        Event::ServerError(ServerError::AuthorizationViolation) => {
            state.last_error = Some(CREDENTIALS_REFUSED.to_owned());
        }
        Event::ServerError(ServerError::Other(why)) => {
            // "Permissions Violation for Publish to "…"": the request itself only times out.
            if why.to_ascii_lowercase().contains("permissions violation") && state.denied.len() < DENIED_MAX {
                state.denied.insert(why.clone());
            }
            state.last_error = Some(format!("server error: {why}"));
        }
        Event::ClientError(error) => state.last_error = Some(error.to_string()),
        Event::LameDuckMode
        | Event::Draining
        | Event::SlowConsumer(_)
        | Event::ServerError(ServerError::SlowConsumer(_)) => {}
    }
}

const CREDENTIALS_REFUSED: &str =
    "the server refused the credentials: repair auth (token, user and password, nkey or credentials file)";

/// Converts a connect error. What an operator can fix at the server is `Unavailable`.
fn connect_error(error: &ConnectError) -> SourceError {
    // Includes its source.
    let cause = error.to_string();
    // A certificate that either side refuses is an error of the stream; the server's refusal is an alert, such as "received fatal
    // alert: UnknownCA".
    let words = ["certificate", "tls", "handshake", "fatal alert"];
    let is_tls = words.iter().any(|word| cause.to_ascii_lowercase().contains(word));
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
            "connection timed out: check that the server runs and speaks NATS".to_owned()
        }
        ConnectErrorKind::Dns => format!("{cause}: repair servers"),
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects | ConnectErrorKind::ServerParse => {
            format!("{cause}: start the server, or repair servers")
        }
    };
    SourceError::Unavailable { doing: CONNECTING, why }
}

const TLS_HINT: &str = "repair tls (ca that signed the server's certificate, client certificate and key)";
