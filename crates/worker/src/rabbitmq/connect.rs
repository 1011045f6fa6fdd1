//! Connections to the broker. No error names the user or the password.

use std::fmt;
use std::time::Duration;

use lapin::tcp::OwnedTLSConfig;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};

use super::WorkerError;

/// For a connection to be there.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// For the broker to take leave.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// How to connect.
#[derive(Clone)]
pub(crate) struct Connector {
    uri: AMQPUri,
    tls: OwnedTLSConfig,
    service: String,
}

impl Connector {
    pub(crate) fn new(url: &str, tls: OwnedTLSConfig, service: &str) -> Result<Connector, WorkerError> {
        // The parser's words may quote the address, and with it the password.
        let uri = url.parse().map_err(|_| WorkerError::Url)?;
        Ok(Connector { uri, tls, service: service.to_owned() })
    }

    /// Connects; `purpose` is shown in the broker's list of connections.
    pub(crate) async fn connect(&self, purpose: &str) -> Result<Connection, WorkerError> {
        let name = format!("{} ({purpose})", self.service);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let runtime = lapin::runtime::default_runtime().map_err(|source| self.failed(source))?;
        let connected =
            Connection::connect_uri_with_config(self.uri.clone(), properties, self.tls.clone(), runtime);
        match tokio::time::timeout(CONNECT_MAX, connected).await {
            Ok(connected) => connected.map_err(|source| self.failed(source)),
            Err(_) => Err(self.failed(std::io::Error::from(std::io::ErrorKind::TimedOut).into())),
        }
    }

    fn failed(&self, source: lapin::Error) -> WorkerError {
        WorkerError::Connect { address: self.address(), source }
    }

    /// The address without credentials.
    fn address(&self) -> String {
        let AMQPUri { scheme, authority, vhost, .. } = &self.uri;
        let scheme = match scheme {
            AMQPScheme::AMQP => "amqp",
            AMQPScheme::AMQPS => "amqps",
        };
        format!("{scheme}://{}:{}/{vhost}", authority.host, authority.port)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// Takes leave of the broker. One that does not answer is left without.
pub(crate) async fn close(connection: &Connection) {
    let closed = tokio::time::timeout(CLOSE_MAX, connection.close(200, "OK".into())).await;
    if let Ok(Err(error)) = closed {
        tracing::debug!("cannot close the connection: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_tells_the_credentials() {
        let connector = |url: &str| Connector::new(url, OwnedTLSConfig::default(), "billing");
        let good = connector("amqps://user:geheim@rabbit.example:5671/orders").unwrap();
        assert_eq!(good.address(), "amqps://rabbit.example:5671/orders");
        assert!(!format!("{good:?}").contains("geheim"));
        for bad in ["geheim", "http://user:geheim@host", "amqp://user:geheim@host:port", "user:geheim@host"] {
            let error = connector(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error}");
        }
    }
}
