//! Serving: opens the store, listens, and ends without losing what was accepted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use lazaret_core::limits;
use lazaret_sources::SourceError;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::Mode;
use lazaret_store::{DAMAGED_HINT, StoreError};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

use crate::access::Reach;
use crate::app::App;
use crate::audit::{self, KeyError};
use crate::clock::Clock;
use crate::config::{Config, PostgresUrl, StoreUrl};
use crate::net::{host_of, is_loopback};
use crate::reload::{Live, Reloading};
use crate::run;
use crate::stores;
use crate::tokens::TokenRefused;

/// Why the server did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot use {store}")]
    Shared {
        store: PostgresUrl,
        #[source]
        source: StoreError,
    },
    #[error(transparent)]
    Token(#[from] TokenRefused),
    #[error(transparent)]
    AuditKey(#[from] KeyError),
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{address} can be reached from other machines, and there is no token that would keep them out")]
    Unguarded { address: String },
    #[error("test mode serves on loopback only, not on {address}")]
    TestModeAbroad { address: String },
    #[error("signals cannot be waited for")]
    Signals(#[source] std::io::Error),
    #[error("source {name} is not as it is configured: {why}")]
    Source { name: String, why: String },
}

impl ServeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::Store(StoreError::Held { .. }) => {
                Some("stop the other one, or choose another store with --data or --store".into())
            }
            ServeError::Store(StoreError::TooNew { .. }) => {
                Some("run the newer lazaret, or choose another folder with --data".into())
            }
            ServeError::Store(StoreError::ReadOnly | StoreError::Path { .. }) => {
                Some("make the folder writable, or choose another with --data".into())
            }
            ServeError::Store(StoreError::Full) => Some("make room on the disk".into()),
            ServeError::Store(StoreError::Damaged { .. }) => Some(DAMAGED_HINT.into()),
            ServeError::Store(StoreError::Foreign(_)) => Some("choose another folder with --data".into()),
            ServeError::Store(StoreError::WrongMode(_)) => {
                Some("choose another folder with --data; test mode has its own stores".into())
            }
            ServeError::Store(_) | ServeError::Signals(_) => None,
            ServeError::Shared { source, .. } => PostgresStore::hint(source).map(str::to_owned),
            ServeError::Token(refused) => refused.hint().map(str::to_owned),
            ServeError::AuditKey(error) => error.hint(),
            ServeError::Listen { .. } => Some(
                "is another server there? choose another address with --listen, or port 0 for any".into(),
            ),
            ServeError::Unguarded { .. } => Some(
                "create a token first: lazaret token new --name me --role admin; or listen on 127.0.0.1"
                    .into(),
            ),
            ServeError::Source { name, .. } => {
                Some(format!("repair [sources.{name}], or make the table with `lazaret outbox init {name}`"))
            }
            ServeError::TestModeAbroad { .. } => Some("use --listen 127.0.0.1:0".into()),
        }
    }
}

/// Serves until a signal asks for the end; what was accepted by then is finished. A hangup takes the configuration
/// anew, or is the end as well where there is none to take. `beside` runs until the app stops, or ends earlier.
pub async fn serve<Beside>(
    config: Config,
    mode: Mode,
    reloading: Option<Reloading>,
    beside: impl FnOnce(Arc<App>) -> Beside,
    announce: impl FnOnce(SocketAddr) + Send,
) -> Result<(), ServeError>
where
    Beside: Future<Output = ()> + Send + 'static,
{
    let mut signals = Signals::listen()?;
    let opened = stores::open(&config, mode).await?;
    let key = audit::prepare(&config, opened.store.as_ref()).await?;
    let clock = Clock::of(opened.store.as_ref(), Clock::System).await?;
    let app = App::new(Arc::clone(&opened.store), config, clock, mode == Mode::Test).await?;
    let app = Arc::new(app.with_audit_key(key));
    check_doors(&app)?;
    check_sources(&app).await?;
    let address = app.config.listen.clone();
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(&app.config.listen).await.map_err(failed.clone())?;
    let bound = listener.local_addr().map_err(failed)?;
    opened.hold(&app, bound).await?;
    greet(&app, bound);
    app.store.drop_unfrozen(opened.abandoned_before(app.clock.now())).await?;
    opened.end_leases(app.clock.now()).await?;
    link_audit(&app).await;
    let live = Live::new(Arc::clone(&app));
    let mut loops = run::start(&live);
    if let Some(reloading) = reloading
        && let Some(hangup) = signals.take_hangup()
    {
        loops.spawn(run::reload_on_hangup(Arc::clone(&live), reloading, hangup));
    }
    loops.spawn(beside(Arc::clone(&app)));
    announce(bound);
    accept_live(&live, listener, signals.ended()).await;
    loops.join_all().await;
    link_audit(&app).await;
    app.store.close().await?;
    tracing::info!("stopped");
    Ok(())
}

async fn link_audit(app: &App) {
    if let Some(key) = &app.audit_key {
        audit::link_all(app.store.as_ref(), key).await;
    }
}

/// Anything but loopback needs a token, and test mode never leaves it.
fn check_doors(app: &App) -> Result<(), ServeError> {
    let address = app.config.listen.clone();
    if is_loopback(host_of(&address)) {
        return Ok(());
    }
    if app.test_mode {
        return Err(ServeError::TestModeAbroad { address });
    }
    if !app.access.has_tokens() {
        return Err(ServeError::Unguarded { address });
    }
    Ok(())
}

/// A table that does not fit is refused at once. One that cannot be reached may be there in a minute.
async fn check_sources(app: &App) -> Result<(), ServeError> {
    for (name, running) in app.sources.iter() {
        let Some(table) = &running.outbox else { continue };
        match table.outbox.bind().await {
            Ok(()) => {}
            Err(SourceError::Unfit(why)) => return Err(ServeError::Source { name: name.to_owned(), why }),
            Err(error) => tracing::warn!(source = name, "source {name} cannot be reached yet: {error}"),
        }
    }
    Ok(())
}

fn greet(app: &App, bound: SocketAddr) {
    let store = app.config.kept_in();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), store, %bound, "lazaret is starting");
    if app.test_mode {
        tracing::warn!("TEST MODE: anyone on this machine can empty this store with one request");
    }
    let reach = Reach::of_config(&app.config);
    if app.access.is_open(reach) {
        tracing::warn!(
            "no tokens exist: everyone on this machine may do everything; `lazaret token new` changes that"
        );
    } else if !app.access.has_tokens() {
        let flag = match &app.config.store {
            StoreUrl::Embedded => format!("--data {store}"),
            StoreUrl::Postgres(_) => "--store URL".to_owned(),
        };
        tracing::warn!(
            "no token is in force: every request is refused; make one on this machine with \
             `lazaret token new --name me --role admin {flag}`"
        );
    }
}

/// Accepts connections until `ended`, then waits for those that are open. Public for the bench.
pub async fn accept(app: &Arc<App>, listener: TcpListener, ended: impl Future<Output = ()>) {
    accept_live(&Live::new(Arc::clone(app)), listener, ended).await;
}

/// The same under whatever configuration is in force when a connection or a request comes in.
pub async fn accept_live(live: &Arc<Live>, listener: TcpListener, ended: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut ended = std::pin::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            () = make_room(live, &mut connections) => {}
        }
        let (stream, peer) = tokio::select! {
            () = &mut ended => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: others have to end before the next can begin.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let connection = graceful.watch(connection(stream, peer, Arc::clone(live)));
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    tracing::info!("shutting down: what was accepted is being finished");
    // Streams end by themselves now; the wait below would cut them off.
    live.app().stop();
    let limit = Duration::from_millis(limits::SHUTDOWN_MS_MAX);
    if tokio::time::timeout(limit, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}

/// Waits until another connection may be served.
async fn make_room(live: &Live, connections: &mut JoinSet<()>) {
    while connections.try_join_next().is_some() {}
    let mut reloads = live.changes();
    while connections.len() >= live.app().config.limits.connections_max {
        tokio::select! {
            _ = connections.join_next() => {}
            () = reloads.changed() => {}
        }
    }
}

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    live: Arc<Live>,
) -> impl GracefulConnection<Error = hyper::Error> + Send + 'static {
    // Small answers must not wait for more to come.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket option could not be set");
    }
    // Who takes no byte of an answer would keep its connection for ever.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(Duration::from_millis(limits::WRITE_MS_MAX)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits::HEAD_MS_MAX))
        .max_buf_size(64 * 1024)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            // The router is looked up for each request: one connection may see many configurations.
            service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(ConnectInfo(peer));
                live.router().oneshot(request)
            }),
        )
}

/// The signals that ask for the end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Absent once it is somebody else's to listen to.
    hangup: Option<Signal>,
}

impl Signals {
    /// Listens from here on: a signal that comes during the start is not lost.
    fn listen() -> Result<Signals, ServeError> {
        let signal = |kind| signal(kind).map_err(ServeError::Signals);
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: Some(signal(SignalKind::hangup())?),
        })
    }

    fn take_hangup(&mut self) -> Option<Signal> {
        self.hangup.take()
    }

    async fn ended(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether an address can be listened on, for those who have work to do before they serve.
pub async fn check_address(address: &str) -> Result<(), ServeError> {
    if !is_loopback(host_of(address)) {
        return Err(ServeError::TestModeAbroad { address: address.to_owned() });
    }
    let failed = |source| ServeError::Listen { address: address.to_owned(), source };
    TcpListener::bind(address).await.map(drop).map_err(failed)
}
