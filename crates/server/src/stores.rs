//! The store that a configuration names, opened. The rest of the server does not know which one it is.

pub mod copy;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazaret_core::time::Time;
use lazaret_store::folder::ServedAt;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::{Store, StoreError};

use crate::app::App;
use crate::config::{Config, REQUEST_MS_CEILING, StoreUrl};
use crate::serve::ServeError;

/// A store in use.
#[derive(Debug)]
pub struct Opened {
    pub store: Arc<dyn Store>,
    /// The same, if it belongs to this process alone.
    embedded: Option<Arc<SqliteStore>>,
}

/// Opens the store, making or updating it if need be.
pub async fn open(config: &Config, mode: Mode) -> Result<Opened, ServeError> {
    match &config.store {
        StoreUrl::Embedded => {
            let data = config.data.clone();
            let store = tokio::task::spawn_blocking(move || SqliteStore::open(&data, mode))
                .await
                .map_err(|_| StoreError::Unavailable { doing: "opening", source: None })??;
            let store = Arc::new(store);
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Store>, embedded: Some(store) })
        }
        StoreUrl::Postgres(url) => {
            let failed = |source| ServeError::Shared { store: url.clone(), source };
            let store = PostgresStore::open(url.secret(), mode).await.map_err(failed)?;
            Ok(Opened { store: Arc::new(store), embedded: None })
        }
    }
}

/// The address by which this machine reaches a server that may be bound to all addresses.
fn near(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

impl Opened {
    /// Marks the store as used by a server. An embedded one says in its folder which process serves it where, with a key
    /// that makes tokens; nobody copies a shared one meanwhile.
    pub(crate) async fn hold(&self, app: &App, bound: SocketAddr) -> Result<(), StoreError> {
        let Some(store) = &self.embedded else { return self.store.lead().await.map(drop) };
        let secret: [u8; 32] = app.entropy.take()?;
        let key = format!("lzf_{}", URL_SAFE_NO_PAD.encode(secret));
        app.access.set_folder_key(&key);
        let holder = format!("process {}, serving http://{bound}", std::process::id());
        store.describe_server(&holder, &ServedAt { url: format!("http://{}", near(bound)), key })
    }

    /// Lists opened before this time and not frozen belong to nobody any more. In a shared store another instance may be
    /// at it, for as long as a request can last.
    pub(crate) fn abandoned_before(&self, now: Time) -> Time {
        match self.embedded {
            Some(_) => now,
            None => now.plus_ms(-REQUEST_MS_CEILING.cast_signed()),
        }
    }
    /// Ends the leases that an earlier process left, so that its letters go on at once. In a shared store whoever holds
    /// them may live.
    pub(crate) async fn end_leases(&self, now: Time) -> Result<(), StoreError> {
        let Some(store) = &self.embedded else { return Ok(()) };
        let letters = store.end_leases(now).await?;
        if letters > 0 {
            tracing::info!(letters, "{letters} letters were on their way when the server ended; taken on");
        }
        Ok(())
    }
}
