//! The loops of sources: one for capture and one for the relay of each, restarted when its configuration changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lazaret_sources::{Backoff, Source, SourceError};
use tokio::task::{AbortHandle, JoinSet};

use super::{Looked, Running, capture_arrivals, look_after};
use crate::app::App;
use crate::reload::Live;

/// How long an instance that does not lead waits before it asks again.
const FOLLOW: Duration = Duration::from_secs(1);

/// How long a look rests between two pages, and between two rounds.
const BETWEEN_PAGES: Duration = Duration::from_millis(20);
const BETWEEN_ROUNDS: Duration = Duration::from_secs(10);

/// How long the deliveries of relays may take to end at a shutdown.
const RELAY_STOP: Duration = Duration::from_secs(10);

/// Starts what each source needs, ends what is no longer configured, until the end is asked for.
pub(crate) async fn supervise(live: Arc<Live>) {
    let mut stop = live.app().stopping();
    let mut reloads = live.changes();
    let mut tasks: JoinSet<()> = JoinSet::new();
    let mut going: BTreeMap<String, Started> = BTreeMap::new();
    while !*stop.borrow() {
        let app = live.app();
        let wanted: BTreeMap<String, Arc<Running>> =
            app.sources.iter().map(|(name, running)| (name.to_owned(), Arc::clone(running))).collect();
        going.retain(|name, started| {
            let stays = wanted.get(name).is_some_and(|wanted| Arc::ptr_eq(wanted, &started.running));
            if !stays {
                started.stop();
            }
            stays
        });
        for (name, running) in wanted {
            going.entry(name.clone()).or_insert_with(|| start(&mut tasks, &live, &name, running));
        }
        tokio::select! {
            _ = stop.changed() => {}
            () = reloads.changed() => {}
            // Those that ended were aborted, or the end is near.
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
    going.values().for_each(Started::stop);
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(RELAY_STOP, ended).await.is_err() {
        tracing::warn!(
            "deliveries of a relay did not end in time; their claims expire, and they are tried again"
        );
    }
    tasks.shutdown().await;
}

/// A source whose loops run.
struct Started {
    running: Arc<Running>,
    handles: Vec<AbortHandle>,
}

impl Started {
    /// Stopping capture in the middle loses nothing: what was not acknowledged comes again. A relay ends by itself once the
    /// outcomes of its deliveries are recorded.
    fn stop(&self) {
        self.handles.iter().for_each(AbortHandle::abort);
        if let Some(Ok(relay)) = &self.running.relay {
            relay.stop();
        }
    }
}

fn start(tasks: &mut JoinSet<()>, live: &Arc<Live>, name: &str, running: Arc<Running>) -> Started {
    let each = || (Arc::clone(live), name.to_owned(), Arc::clone(&running));
    let mut handles = Vec::new();
    let (live_, name_, running_) = each();
    handles.push(tasks.spawn(async move { captures(&live_, &name_, &running_).await }));
    let (live_, name_, running_) = each();
    handles.push(tasks.spawn(async move { looks(&live_, &name_, &running_).await }));
    if matches!(running.relay, Some(Ok(_))) {
        let (_, name_, running_) = each();
        tasks.spawn(async move { relays(&name_, &running_).await });
    }
    Started { running, handles }
}

/// Tells of a failure once, and of the same again only when it has passed meanwhile.
#[derive(Default)]
struct Told(Option<String>);

impl Told {
    fn failed(&mut self, name: &str, doing: &str, error: &impl ToString) {
        let text = error.to_string();
        if self.0.as_deref() != Some(text.as_str()) {
            tracing::warn!(source = name, "{doing} of {name} could not go on: {text}");
            self.0 = Some(text);
        }
    }

    fn worked(&mut self, name: &str, doing: &str) {
        if self.0.take().is_some() {
            tracing::info!(source = name, "{doing} of {name} goes on");
        }
    }
}

async fn captures(live: &Live, name: &str, running: &Running) {
    let (mut backoff, mut told) = (Backoff::default(), Told::default());
    loop {
        let app = live.app();
        if !leads(&app).await {
            tokio::time::sleep(FOLLOW).await;
            continue;
        }
        let pause = match running.outbox.next().await {
            Ok(arrivals) if arrivals.is_empty() => None,
            Ok(arrivals) => match capture_arrivals(&app, running, arrivals).await {
                Ok(_) => None,
                Err(error) => {
                    told.failed(name, "capture", &error);
                    Some(backoff.failed())
                }
            },
            Err(error) => {
                told.failed(name, "capture", &error);
                Some(backoff.failed())
            }
        };
        match pause {
            Some(pause) => tokio::time::sleep(pause).await,
            None => {
                backoff.worked();
                told.worked(name, "capture");
            }
        }
    }
}

async fn looks(live: &Live, name: &str, running: &Running) {
    let (mut backoff, mut told, mut looked) = (Backoff::default(), Told::default(), Looked::default());
    loop {
        let app = live.app();
        if !leads(&app).await {
            looked = Looked::default();
            tokio::time::sleep(FOLLOW).await;
            continue;
        }
        let pause = match look_after(&app, name, running, &mut looked).await {
            Ok(complete) => {
                backoff.worked();
                told.worked(name, "the look after rows");
                if complete { BETWEEN_ROUNDS } else { BETWEEN_PAGES }
            }
            Err(error) => {
                told.failed(name, "the look after rows", &error);
                looked = Looked::default();
                backoff.failed()
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn leads(app: &App) -> bool {
    // A store that cannot be asked cannot take what is captured either.
    app.store.lead().await.unwrap_or(false)
}

async fn relays(name: &str, running: &Running) {
    let Some(Ok(relay)) = &running.relay else { return };
    let (mut backoff, mut told) = (Backoff::default(), Told::default());
    while !relay.is_stopping() {
        match relay.tick().await {
            Ok(worked) => {
                running.worked(&worked);
                backoff.worked();
                told.worked(name, "the relay");
                tokio::select! {
                    () = relay.wait(&worked) => {}
                    () = relay.stopped() => {}
                }
            }
            Err(SourceError::Stopped(_)) => return,
            Err(error) => {
                told.failed(name, "the relay", &error);
                running.note(|so_far| so_far.relay_problem = Some(error.to_string()));
                let pause = backoff.failed();
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = relay.stopped() => {}
                }
            }
        }
    }
}
