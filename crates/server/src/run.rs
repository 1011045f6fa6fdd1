//! The loops: each calls a tick until it is idle, then waits for a change or for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::App;
use crate::operations::{self, Progress};

/// How long a loop rests after a failure: a store that is away is not helped by being asked.
const REST: Duration = Duration::from_secs(1);

/// How long a loop waits when nothing changes, in case a change was missed.
const IDLE: Duration = Duration::from_secs(5);

/// How long a loop waits after a change before it looks.
const LOOK: Duration = Duration::from_millis(100);

/// Starts every loop; they end when `stop` turns true.
pub(crate) fn start(app: &Arc<App>, stop: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut loops = JoinSet::new();
    loops.spawn(work_operations(Arc::clone(app), stop.clone()));
    loops.spawn(reload_tokens(Arc::clone(app), stop.clone()));
    loops
}

async fn work_operations(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let mut changes = app.store.changes();
    while !*stop.borrow() {
        // Seen before looking, or an operation that is frozen in between waits for the next change.
        changes.mark_unchanged();
        let rest = match operations::tick(&app).await {
            Ok(Progress::More) => continue,
            Ok(Progress::Idle) => IDLE,
            Err(error) => {
                tracing::warn!(error = %error, "operations could not go on, trying again");
                REST
            }
        };
        tokio::select! {
            _ = stop.changed() => {}
            // Capture commits hundreds of times a second; looking a few times a second is enough.
            _ = changes.changed(), if rest == IDLE => tokio::time::sleep(LOOK).await,
            () = tokio::time::sleep(rest) => {}
        }
    }
}

async fn reload_tokens(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(IDLE) => {}
        }
        if let Err(error) = app.access.reload(app.store.as_ref()).await {
            // The tokens that are known stay in force.
            tracing::warn!(error = %error, "tokens could not be read anew");
        }
    }
}
