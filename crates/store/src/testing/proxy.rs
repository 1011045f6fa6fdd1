//! A proxy before a PostgreSQL that can fall silent: connections stay open, and nothing is answered.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;

/// Passes bytes on in both directions, unless it is silent: then it keeps them.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    silence: watch::Sender<Silence>,
}

/// Which connections nothing is passed on for.
#[derive(Default, Debug)]
struct Silence {
    all: bool,
    /// Connections that were made before this one, for good.
    before: u64,
    /// The number of the next connection.
    next: u64,
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
        let silence = watch::Sender::new(Silence::default());
        let (hears, counts) = (silence.subscribe(), silence.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&socket).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let mut number = 0;
                counts.send_modify(|silence| {
                    number = silence.next;
                    silence.next += 1;
                });
                tokio::spawn(pass_on(number, from_client, to_server, hears.clone()));
                tokio::spawn(pass_on(number, from_server, to_client, hears.clone()));
            }
        });
        Proxy { url: format!("postgres://postgres@127.0.0.1:{port}/{database}"), silence }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn fall_silent(&self) {
        self.silence.send_modify(|silence| silence.all = true);
    }

    pub fn answer_again(&self) {
        self.silence.send_modify(|silence| silence.all = false);
    }

    /// Falls silent for good on the connections that there are, as a firewall that forgot them. New ones are answered.
    pub fn forget_connections(&self) {
        self.silence.send_modify(|silence| silence.before = silence.next);
    }
}

async fn pass_on(
    number: u64,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut silence: watch::Receiver<Silence>,
) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let heard = silence.wait_for(|silence| !silence.all && number >= silence.before).await.is_ok();
        if !heard || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
