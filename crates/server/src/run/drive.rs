//! The loop that looks after redrives, on every instance: each run is a task, so that a slow destination holds up nobody
//! but its own run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use lazaret_core::id::RedriveId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{IDLE, LOOK, REST};
use crate::app::App;
use crate::redrive::{self, Looked};
use crate::reload::Live;

/// A run that was looked after, and what the look came to.
type Driven = (RedriveId, Result<Looked, StoreError>);

/// Stands among the runs for the claims whose holder is gone; no redrive has this id.
const CLAIMS: [u8; 16] = [0; 16];

/// The runs that are being looked after, and when the others want to be.
#[derive(Default)]
struct Drives {
    tasks: JoinSet<Driven>,
    at_work: HashMap<RedriveId, tokio::task::Id>,
    next_at: HashMap<RedriveId, Time>,
    /// Those at work when all were looked at: what changed in between they may not have seen.
    missed: HashSet<RedriveId>,
    /// Whether letters moved, or a look failed, since all runs were last looked at.
    again: Option<Again>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Again {
    AtOnce,
    AfterRest,
}

pub(super) async fn redrives(live: Arc<Live>) {
    let (mut changes, mut stop) = {
        let app = live.app();
        (app.store.changes(), app.stopping())
    };
    let mut reloads = live.changes();
    let mut drives = Drives::default();
    while !*stop.borrow() {
        // Seen before looking, or a launch in between waits for the next change.
        changes.mark_unchanged();
        let app = live.app();
        if let Err(error) = drives.look(&app).await {
            tracing::warn!(error = %error, "redrives could not go on, trying again");
            drives.again = Some(Again::AfterRest);
        }
        let woken = async {
            tokio::select! {
                _ = stop.changed() => {}
                _ = changes.changed() => tokio::time::sleep(LOOK).await,
                () = reloads.changed() => {}
            }
        };
        drives.rest(|| app.clock.now(), woken).await;
    }
    // What is on its way is waited for; each run sees that the end is asked for and begins nothing.
    while let Some(driven) = drives.tasks.join_next_with_id().await {
        drives.ended(driven);
    }
}

impl Drives {
    /// Starts a task for each run that has none and may have something to do.
    async fn look(&mut self, app: &Arc<App>) -> Result<(), StoreError> {
        while let Some(driven) = self.tasks.try_join_next_with_id() {
            self.ended(driven);
        }
        self.again = None;
        // A task like a run: a destination that hangs must not keep all others waiting.
        let claims = RedriveId::from_bytes(CLAIMS);
        if self.at_work.contains_key(&claims) {
            self.missed.insert(claims);
        } else {
            let app = Arc::clone(app);
            let look = async move {
                let moved = redrive::look_after_claims(&app).await;
                (claims, moved.map(|moved| Looked { moved, ..Looked::default() }))
            };
            self.at_work.insert(claims, self.tasks.spawn(look).id());
        }
        let now = app.clock.now();
        let runs = app.store.unfinished_redrives(limits::REDRIVES_RUNNING_MAX).await?;
        self.next_at.retain(|id, next_at| *next_at > now && runs.iter().any(|run| run.id == *id));
        for run in runs.iter().filter(|run| redrive::needs_look(run)) {
            if self.at_work.contains_key(&run.id) {
                self.missed.insert(run.id);
                continue;
            }
            let (app, id) = (Arc::clone(app), run.id);
            let task = self.tasks.spawn(async move { (id, redrive::drive(&app, id).await) });
            self.at_work.insert(id, task.id());
        }
        Ok(())
    }

    fn ended(&mut self, driven: Result<(tokio::task::Id, Driven), tokio::task::JoinError>) {
        match driven {
            Ok((_, (id, looked))) => {
                self.at_work.remove(&id);
                if self.missed.remove(&id) {
                    self.again.get_or_insert(Again::AtOnce);
                }
                match looked {
                    Ok(Looked { moved, next_at }) => {
                        if moved {
                            self.again.get_or_insert(Again::AtOnce);
                        }
                        self.next_at.extend(next_at.map(|next_at| (id, next_at)));
                    }
                    Err(error) => {
                        tracing::warn!(redrive.id = %id, error = %error, "redrive {id} could not go on, trying again");
                        self.again = Some(Again::AfterRest);
                    }
                }
            }
            Err(error) => {
                tracing::error!(error = %error, "a redrive could not go on, trying again");
                self.at_work.retain(|_, task| *task != error.id());
                self.again = Some(Again::AfterRest);
            }
        }
    }

    /// Waits until there may be something to do. What has ended asks for another look only if it moved something, or
    /// missed one: looking again after every look would never end.
    async fn rest(&mut self, now: impl Fn() -> Time, woken: impl Future<Output = ()>) {
        let mut woken = std::pin::pin!(woken);
        let mut due = Instant::now() + self.wait(now());
        loop {
            tokio::select! {
                () = &mut woken => return,
                Some(driven) = self.tasks.join_next_with_id() => {
                    self.ended(driven);
                    due = due.min(Instant::now() + self.wait(now()));
                }
                () = tokio::time::sleep_until(due) => return,
            }
        }
    }

    /// How long nothing is known to be to do.
    fn wait(&self, now: Time) -> Duration {
        match self.again {
            Some(Again::AtOnce) => return Duration::ZERO,
            Some(Again::AfterRest) => return REST,
            None => {}
        }
        let next = self.next_at.values().min().map(|next_at| u64::try_from(next_at.since(now)).unwrap_or(0));
        // A pace of thousands a minute is not helped by a look for each of them.
        next.map_or(IDLE, |ms| Duration::from_millis(ms).max(LOOK)).min(IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::from_ms(0)
    }

    /// Drives with one look under way, which comes to this.
    fn looking(looked: Looked) -> Drives {
        let mut drives = Drives::default();
        let id = RedriveId::from_bytes(CLAIMS);
        let task = drives.tasks.spawn(async move { (id, Ok(looked)) });
        drives.at_work.insert(id, task.id());
        drives
    }

    /// Whether it looks again by itself within a moment, though nothing changes.
    async fn looks_again(mut drives: Drives) -> bool {
        let rest = drives.rest(now, std::future::pending());
        tokio::time::timeout(LOOK / 2, rest).await.is_ok()
    }

    #[tokio::test]
    async fn a_look_that_found_nothing_is_followed_by_a_rest() {
        assert!(!looks_again(looking(Looked::default())).await);
        let next_at = Some(Time::from_ms(60_000));
        assert!(!looks_again(looking(Looked { next_at, ..Looked::default() })).await);
    }

    #[tokio::test]
    async fn what_moved_or_was_missed_is_looked_at_again_at_once() {
        assert!(looks_again(looking(Looked { moved: true, ..Looked::default() })).await);
        let mut drives = looking(Looked::default());
        drives.missed.insert(RedriveId::from_bytes(CLAIMS));
        assert!(looks_again(drives).await);
    }
}
