//! A proxy before a PostgreSQL that can fall silent: connections stay open, and nothing is answered.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;

/// Passes bytes on in both directions, unless it is silent: then it keeps them.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    silent: watch::Sender<bool>,
}

impl Proxy {
    /// Listens on loopback for the server whose address this is.
    pub async fn start(url: &str) -> Proxy {
        let (host, database) = url
            .strip_prefix("postgres://postgres@")
            .and_then(|rest| rest.split_once('/'))
            .expect("an address of a test's server");
        let socket = format!("{}/.s.PGSQL.5432", host.replace("%2F", "/"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let silent = watch::Sender::new(false);
        let hears = silent.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&socket).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(pass_on(from_client, to_server, hears.clone()));
                tokio::spawn(pass_on(from_server, to_client, hears.clone()));
            }
        });
        Proxy { url: format!("postgres://postgres@127.0.0.1:{port}/{database}"), silent }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn fall_silent(&self) {
        self.silent.send_replace(true);
    }

    pub fn answer_again(&self) {
        self.silent.send_replace(false);
    }
}

async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut silent: watch::Receiver<bool>,
) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if silent.wait_for(|silent| !silent).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
