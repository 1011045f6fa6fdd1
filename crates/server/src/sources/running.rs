//! The loops of sources: capture, the look after rows, and each duty, restarted when the configuration changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lazaret_sources::{Arrival, Backoff, ChangeKind, Declare, Duty, SourceError};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::{Looked, NotLooked, Running, capture_and_pull, look_after, take_receipts};
use crate::app::App;
use crate::reload::Live;

/// How long an instance that does not lead waits before it asks again.
const FOLLOW: Duration = Duration::from_secs(1);

/// How long a look rests between two pages, and between two rounds.
const BETWEEN_PAGES: Duration = Duration::from_millis(20);
const BETWEEN_ROUNDS: Duration = Duration::from_secs(10);

/// How long duties that end by themselves may take for it at a shutdown.
const DUTY_STOP: Duration = Duration::from_secs(10);

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
            // Those that ended were stopped, or the end is near.
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
    going.values().for_each(Started::stop);
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(DUTY_STOP, ended).await.is_err() {
        tracing::warn!("relay deliveries timed out at shutdown; they are retried when their claims expire");
    }
    tasks.shutdown().await;
}

/// A source whose loops run.
struct Started {
    running: Arc<Running>,
    /// Capture and the look after rows. Stopping them in the middle loses nothing: what was not acknowledged comes again.
    handles: Vec<AbortHandle>,
    duties: Vec<(Arc<dyn Duty>, AbortHandle)>,
}

impl Started {
    fn stop(&self) {
        self.handles.iter().for_each(AbortHandle::abort);
        for (duty, handle) in &self.duties {
            if !duty.stop() {
                handle.abort();
            }
        }
    }
}

fn start(tasks: &mut JoinSet<()>, live: &Arc<Live>, name: &str, running: Arc<Running>) -> Started {
    let each = || (Arc::clone(live), name.to_owned(), Arc::clone(&running));
    let (declare, declared) = watch::channel(!running.declares_at_start());
    let mut handles = Vec::new();
    let (live_, name_, running_) = each();
    handles.push(tasks.spawn(async move { captures(&live_, &name_, &running_, &declare).await }));
    if running.outbox.is_some() {
        let (live_, name_, running_) = each();
        handles.push(tasks.spawn(async move { looks(&live_, &name_, &running_).await }));
    }
    if running.source.takes_receipts() {
        let ((live_, name_, running_), declared_) = (each(), declared.clone());
        handles.push(tasks.spawn(async move {
            if is_declared(declared_).await {
                receipts(&live_, &name_, &running_).await;
            }
        }));
    }
    let mut duties = Vec::new();
    for duty in &running.duties {
        let ((live_, name_, running_), duty_, declared_) = (each(), Arc::clone(duty), declared.clone());
        let task = async move {
            if is_declared(declared_).await {
                works(&live_, &name_, &running_, duty_.as_ref()).await;
            }
        };
        duties.push((Arc::clone(duty), tasks.spawn(task)));
    }
    Started { running, handles, duties }
}

/// Waits until the topology that the source needs was declared. False if capture, which declares it, was stopped before.
async fn is_declared(mut declared: watch::Receiver<bool>) -> bool {
    declared.wait_for(|is_declared| *is_declared).await.is_ok()
}

/// Tells of a failure once, and of the same again only when it has passed meanwhile.
#[derive(Default)]
struct Told(Option<String>);

impl Told {
    fn failed(&mut self, name: &str, doing: &str, error: &impl ToString) {
        let text = error.to_string();
        if self.0.as_deref() != Some(text.as_str()) {
            tracing::warn!(source = name, "{doing} of {name} failed: {text}");
            self.0 = Some(text);
        }
    }

    fn worked(&mut self, name: &str, doing: &str) {
        if self.0.take().is_some() {
            tracing::info!(source = name, "{doing} of {name} resumed");
        }
    }
}

async fn captures(live: &Live, name: &str, running: &Running, declared: &watch::Sender<bool>) {
    let (mut backoff, mut told) = (Backoff::default(), Told::default());
    let mut arrivals = Vec::new();
    loop {
        let app = live.app();
        if !running.source.is_shared() && !leads(&app).await {
            tokio::time::sleep(FOLLOW).await;
            continue;
        }
        match capture_once(&app, name, running, declared, std::mem::take(&mut arrivals)).await {
            Ok(next) => {
                arrivals = next;
                backoff.worked();
                told.worked(name, "capture");
            }
            Err(error) => {
                told.failed(name, "capture", &error);
                tokio::time::sleep(backoff.failed()).await;
            }
        }
    }
}

/// Stores some letters and returns what arrives next, once the topology is as configured.
async fn capture_once(
    app: &App,
    name: &str,
    running: &Running,
    declared: &watch::Sender<bool>,
    arrivals: Vec<Arrival>,
) -> Result<Vec<Arrival>, NotLooked> {
    let is_declared = *declared.borrow();
    if !is_declared {
        for change in running.source.declare(Declare::Apply).await? {
            let (subject, details) = (&change.subject, change.details.join(", "));
            match &change.kind {
                ChangeKind::Create | ChangeKind::Update => {
                    tracing::info!(source = name, details, "{} {subject}", change.kind.name());
                }
                ChangeKind::Blocked(why) => {
                    tracing::warn!(source = name, details, "{subject} is not as configured: {why}");
                }
            }
        }
        declared.send_replace(true);
    }
    capture_and_pull(app, running, arrivals).await
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

async fn receipts(live: &Live, name: &str, running: &Running) {
    let (mut backoff, mut told) = (Backoff::default(), Told::default());
    loop {
        match take_receipts(&live.app(), name, running).await {
            Ok(()) => {
                backoff.worked();
                told.worked(name, "receipts");
            }
            Err(error) => {
                told.failed(name, "receipts", &error);
                tokio::time::sleep(backoff.failed()).await;
            }
        }
    }
}

async fn leads(app: &App) -> bool {
    // A store that cannot be asked cannot take what is captured either.
    app.store.lead().await.unwrap_or(false)
}

/// Runs a duty until it stops by itself.
async fn works(live: &Live, name: &str, running: &Running, duty: &dyn Duty) {
    let (mut backoff, mut told) = (Backoff::default(), Told::default());
    let doing = duty.name();
    loop {
        if duty.is_leader_only() && !leads(&live.app()).await {
            tokio::time::sleep(FOLLOW).await;
            continue;
        }
        match duty.run_once().await {
            Ok(()) => {
                backoff.worked();
                told.worked(name, doing);
                running.note(|so_far| {
                    so_far.problems.remove(doing);
                });
            }
            Err(SourceError::Stopped(_)) => return,
            Err(error) => {
                told.failed(name, doing, &error);
                running.note(|so_far| {
                    so_far.problems.insert(doing, error.to_string());
                });
                tokio::time::sleep(backoff.failed()).await;
            }
        }
    }
}
