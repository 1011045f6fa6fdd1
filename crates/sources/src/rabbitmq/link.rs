//! A connection to the broker: made when it is needed, given up when it is lost, and its state for health. Never shows a
//! credential.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::uri::{AMQPUri, SASLMechanism};
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event};
use lazaret_core::limits;

use super::config::{Auth, RabbitMqConfig, address};
use crate::SourceError;
use crate::connection::{ConnectionState, locked};

const CONNECTING: &str = "connecting to RabbitMQ";

/// One connection. A source has one to consume and one to publish: a broker that is short of memory stops reading from
/// publishers, and acknowledgements must not wait behind them.
pub(super) struct Link {
    config: RabbitMqConfig,
    purpose: &'static str,
    connected: tokio::sync::Mutex<Option<Connected>>,
    standing: Mutex<ConnectionState>,
}

struct Connected {
    connection: Arc<Connection>,
    /// What the client says about the connection: after some failures it answers nothing else.
    events: BoxStream<'static, Event>,
    is_unreadable: bool,
}

impl Link {
    pub fn new(config: RabbitMqConfig, purpose: &'static str) -> Link {
        Link { config, purpose, connected: tokio::sync::Mutex::default(), standing: Mutex::default() }
    }

    pub fn state(&self) -> ConnectionState {
        locked(&self.standing).clone()
    }

    pub fn request_ms_max(&self) -> u64 {
        self.config.request_ms_max
    }

    /// Notes whether the last call worked.
    pub fn note(&self, error: Option<&SourceError>) {
        let mut standing = locked(&self.standing);
        standing.set_connected(error.is_none());
        if let Some(error) = error {
            standing.last_error = Some(error.to_string());
        }
    }

    /// The connection, made anew if it was lost.
    pub async fn connection(&self) -> Result<Arc<Connection>, SourceError> {
        let mut slot = self.connected.lock().await;
        if let Some(connected) = slot.as_mut()
            && connected.connection.status().connected()
        {
            return Ok(Arc::clone(&connected.connection));
        }
        if slot.as_mut().is_some_and(Connected::is_unreadable) {
            *slot = None;
            return Err(SourceError::Unavailable { doing: CONNECTING, why: UNREADABLE.to_owned() });
        }
        *slot = None;
        let connection = Arc::new(self.connect().await?);
        let events = connection.events_listener().boxed();
        *slot = Some(Connected { connection: Arc::clone(&connection), events, is_unreadable: false });
        Ok(connection)
    }

    /// The error that is behind one: a message that cannot be read ends the connection without an answer.
    pub async fn cause(&self, error: SourceError) -> SourceError {
        let mut slot = self.connected.lock().await;
        match (error, slot.as_mut().is_some_and(Connected::is_unreadable)) {
            (SourceError::Unavailable { doing, .. }, true) => {
                *slot = None;
                SourceError::Unavailable { doing, why: UNREADABLE.to_owned() }
            }
            (error, _) => error,
        }
    }

    /// A channel of its own: what fails on it does not disturb others.
    pub async fn channel(&self) -> Result<Channel, SourceError> {
        let connection = self.connection().await?;
        self.answered("opening a channel", connection.create_channel()).await
    }

    /// Waits for the broker's answer, and not for ever.
    pub async fn answered<T>(
        &self,
        doing: &'static str,
        answer: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, SourceError> {
        match tokio::time::timeout(Duration::from_millis(self.config.request_ms_max), answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(explained(doing, &error)),
            Err(_) => Err(SourceError::Unavailable { doing, why: "no answer in time".to_owned() }),
        }
    }

    /// Tries the servers in their order.
    async fn connect(&self) -> Result<Connection, SourceError> {
        let tls = self.tls()?;
        let mut last = SourceError::Unfit("servers is empty".to_owned());
        for server in &self.config.servers {
            let uri = self.uri(server)?;
            match self.connect_to(uri, tls.clone()).await {
                Ok(connection) => return Ok(connection),
                Err(why) => {
                    last = SourceError::Unavailable { doing: CONNECTING, why: format!("{server}: {why}") };
                }
            }
        }
        Err(last)
    }

    async fn connect_to(&self, uri: AMQPUri, tls: OwnedTLSConfig) -> Result<Connection, String> {
        let name = format!("lazaret {} {}", self.config.name, self.purpose);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        let connected = Connection::connect_uri_with_config(uri, properties, tls, runtime);
        match tokio::time::timeout(Duration::from_millis(limits::RABBITMQ_CONNECT_MS_MAX), connected).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.refused(&error)),
            Err(_) => Err("it did not answer in time: see that it runs and speaks AMQP 0-9-1".to_owned()),
        }
    }

    fn uri(&self, server: &str) -> Result<AMQPUri, SourceError> {
        let mut uri = address(server).map_err(|why| SourceError::Unfit(why.to_owned()))?;
        uri.vhost.clone_from(&self.config.vhost);
        uri.query.heartbeat = Some(limits::RABBITMQ_HEARTBEAT_S);
        match &self.config.auth {
            Auth::User { user, password } => {
                uri.authority.userinfo.username.clone_from(user);
                password.reveal().clone_into(&mut uri.authority.userinfo.password);
            }
            Auth::External => uri.query.auth_mechanism = Some(SASLMechanism::External),
        }
        Ok(uri)
    }

    fn tls(&self) -> Result<OwnedTLSConfig, SourceError> {
        let config = &self.config.tls;
        let cert_chain = match &config.ca {
            Some(ca) => Some(read_pem(ca)?),
            None => None,
        };
        let identity = match &config.client {
            Some((certificate, key)) => {
                let (pem, key) = (read_pem(certificate)?, read_pem(key)?);
                Some(OwnedIdentity::PKCS8 { pem: pem.into_bytes(), key: key.into_bytes() })
            }
            None => None,
        };
        Ok(OwnedTLSConfig { identity, cert_chain })
    }

    /// Why a server did not take the connection.
    fn refused(&self, error: &lapin::Error) -> String {
        let vhost = &self.config.vhost;
        if let ErrorKind::ProtocolError(protocol) = error.kind() {
            return match protocol.get_id() {
                403 => CREDENTIALS_REFUSED.to_owned(),
                530 => format!(
                    "the broker refused virtual host {vhost:?}: create it, permit it to the user, or repair vhost"
                ),
                _ => format!("the broker says: {}", protocol.get_message()),
            };
        }
        let cause = error.to_string();
        let lower = cause.to_ascii_lowercase();
        let is_tls = ["certificate", "tls", "handshake", "corrupt message", "decrypt"];
        match is_tls.iter().any(|word| lower.contains(word)) {
            true => format!("{cause}: {TLS_HINT}"),
            false => format!("{cause}: start the broker, or repair servers"),
        }
    }
}

const CREDENTIALS_REFUSED: &str =
    "the broker refused the credentials: repair auth (user and password, or the client certificate)";

const TLS_HINT: &str = "repair tls (ca that signed the broker's certificate, client certificate and key)";

fn read_pem(path: &Path) -> Result<String, SourceError> {
    std::fs::read_to_string(path).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "does not exist",
            std::io::ErrorKind::PermissionDenied => "may not be read",
            // The error may quote the file.
            _ => "is not a PEM file",
        };
        SourceError::Unfit(format!("{} {why}: repair tls", path.display()))
    })
}

impl Connected {
    /// Returns true if the client gave up because it could not read what the broker sent.
    fn is_unreadable(&mut self) -> bool {
        while let Some(Some(event)) = self.events.next().now_or_never() {
            if let Event::Error(error) = event {
                self.is_unreadable |= matches!(error.kind(), ErrorKind::ParsingError(_));
            }
        }
        self.is_unreadable
    }
}

/// What an error of the broker means to whoever called.
pub(super) fn explained(doing: &'static str, error: &lapin::Error) -> SourceError {
    if let ErrorKind::ProtocolError(protocol) = error.kind()
        && error.is_amqp_soft_error()
    {
        let code = Some(protocol.get_id().to_string());
        return SourceError::Refused { code, why: format!("{doing}: {}", protocol.get_message()) };
    }
    let why = match error.kind() {
        ErrorKind::ParsingError(_) => UNREADABLE.to_owned(),
        _ => error.to_string(),
    };
    SourceError::Unavailable { doing, why }
}

/// The client gives up the connection over such a message, whenever it is delivered.
const UNREADABLE: &str = "the broker delivered a message that cannot be read (a header whose name is not UTF-8, or of an unknown \
     type), which holds up everything behind it: take it from the head of its dead-letter queue by hand";
