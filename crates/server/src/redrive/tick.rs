//! Runs at work: each look moves them on by what became of their letters and sends the next.
//!
//! Any number of instances look after the same runs. The store says who may send what.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use lazaret_core::id::RedriveId;
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_store::StoreError;
use lazaret_store::redrive::{Expired, Redrive, SendOutcome, Taken};
use tokio::task::JoinSet;

use super::load::{Back, Lease, load};
use super::send::{Looked, Sending, Settled, write_down};
use super::verify::verify;
use crate::app::App;
use crate::operations::Progress;

/// Looks once after every run that has not ended.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    let mut moved = look_after_claims(app).await?;
    let runs = app.store.unfinished_redrives(limits::REDRIVES_RUNNING_MAX).await?;
    let looks = join_all(runs.iter().filter(|run| needs_look(run)).map(|run| drive(app, run.id))).await;
    for looked in looks {
        moved |= looked?.moved;
    }
    Ok(if moved { Progress::More } else { Progress::Idle })
}

/// Whether something can happen to a run by itself.
pub(crate) fn needs_look(run: &Redrive) -> bool {
    let some = |outcome: Outcome| run.letters.get(&outcome).is_some_and(|letters| *letters > 0);
    match run.state {
        // One that is cancelled is looked after until nothing of it is out.
        RunState::Canary | RunState::Running | RunState::Verifying | RunState::Cancelled => true,
        RunState::Paused | RunState::Stopped => some(Outcome::Sent),
        RunState::Planning | RunState::Planned | RunState::Done => false,
    }
}

/// Looks after one run until there is nothing to do for now.
pub(crate) async fn drive(app: &App, id: RedriveId) -> Result<Looked, StoreError> {
    let Some(run) = tended(app, id).await? else { return Ok(Looked::default()) };
    let verified = verify(app, &run).await?;
    let before = run.state;
    let mut looked = match run.state.claims() {
        true => Sending::new(app, run).go().await?,
        false => Looked::default(),
    };
    looked.moved |= verified;
    if looked.moved {
        let after = tended(app, id).await?;
        if let Some(run) = after.filter(|run| run.state != before) {
            tracing::info!(redrive.id = %id, "redrive {id} is {}", run.state);
        }
    }
    Ok(looked)
}

/// How many steps of its own a run can take without anything else happening: all sent, done.
const OWN_STEPS_MAX: usize = 4;

/// Moves a run on as far as it goes by itself.
pub(super) async fn tended(app: &App, id: RedriveId) -> Result<Option<Redrive>, StoreError> {
    let mut run = app.store.tend_redrive(id, app.clock.now()).await?;
    for _ in 0..OWN_STEPS_MAX {
        if !run.as_ref().is_some_and(may_end) {
            break;
        }
        run = app.store.tend_redrive(id, app.clock.now()).await?;
    }
    Ok(run)
}

/// Whether nothing of it waits or is under way, and it is not at its end.
fn may_end(run: &Redrive) -> bool {
    let goes = run.state.claims() || run.state == RunState::Verifying;
    goes && run.letters.iter().all(|(outcome, letters)| *letters == 0 || !outcome.is_open())
}

/// Looks after claims whose holder did not act in time: what was never sent waits again, what may have been is sent again
/// under the same key where the destination deduplicates, and is unknown elsewhere. An unknown letter stays its holder's to
/// settle: nobody else sends it, so an answer that comes late is still the answer.
pub(crate) async fn look_after_claims(app: &App) -> Result<bool, StoreError> {
    let expired = app.store.expired_claims(app.clock.now(), limits::EXPIRED_CLAIMS_PER_LOOK).await?;
    let mut by_run: BTreeMap<RedriveId, (Vec<Settled>, Vec<Expired>)> = BTreeMap::new();
    let moved = !expired.is_empty();
    for one in expired {
        let (settled, again) = by_run.entry(one.run).or_default();
        let destination = app.destinations.by_name(&one.taken.destination);
        let deduplicates = destination.is_ok_and(|named| named.recognises(one.begun_at, app.clock.now()));
        match (one.sending, deduplicates) {
            (false, _) => {
                if let Some(taken) = renew(app, one, Lease::from_now(app)).await? {
                    settled.push((taken.fence(), SendOutcome::Unsent));
                }
            }
            (true, true) => again.push(one),
            (true, false) => settled.push((one.taken.fence(), unknown())),
        }
    }
    let mut to_send = Vec::new();
    for (run, (settled, again)) in by_run {
        write_down(app, run, settled).await?;
        to_send.push((run, again));
    }
    // Sending may take long, and nobody else's claims should wait for it.
    for (run, again) in to_send {
        send_again(app, run, again).await?;
    }
    Ok(moved)
}

/// Takes an expired claim over, unless its holder moved it or another instance was first.
async fn renew(app: &App, expired: Expired, lease: Lease) -> Result<Option<Taken>, StoreError> {
    app.store.renew_claim(expired, lease.until, app.clock.now()).await
}

fn unknown() -> SendOutcome {
    SendOutcome::Unknown { why: "the sender stopped before the response arrived".to_owned() }
}

/// Repeats sends whose outcome is unknown, under their keys. One that cannot be repeated now keeps its claim, and is
/// repeated when the lease is over: given back, it would be sent under another key.
async fn send_again(app: &App, run: RedriveId, again: Vec<Expired>) -> Result<(), StoreError> {
    let Some(redrive) = app.store.redrive(run).await? else { return Ok(()) };
    let stop = app.stopping();
    for chunk in again.chunks(redrive.options.concurrency.max(1) as usize) {
        if *stop.borrow() {
            return Ok(());
        }
        let lease = Lease::from_now(app);
        let mut ours = Vec::with_capacity(chunk.len());
        for expired in chunk {
            ours.extend(renew(app, expired.clone(), lease).await?);
        }
        let (ready, mut settled) = load(app, run, redrive.edit, ours, lease).await?;
        // They were sent once already: that they cannot be read now does not make them failed.
        settled.retain(|(_, outcome)| *outcome != SendOutcome::Unsent);
        settled.iter_mut().for_each(|(_, outcome)| *outcome = unknown());
        let mut out: JoinSet<Back> = JoinSet::new();
        for one in ready {
            out.spawn(one.send(app.clock.clone()));
        }
        while let Some(one) = out.join_next().await {
            match one {
                Ok(Back { settled: (_, SendOutcome::Unsent), .. }) => {}
                Ok(Back { settled: one, .. }) => settled.push(one),
                Err(error) => tracing::error!(error = %error, "outcome unknown: sending was interrupted"),
            }
        }
        write_down(app, run, settled).await?;
    }
    Ok(())
}

/// Ends plans that nobody launched in time.
pub async fn drop_plans(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let opened_before = app.clock.now().plus_ms(-limits::PLAN_AGE_MS_MAX);
    let dropped = app.store.drop_plans(opened_before).await?;
    Ok(if dropped > 0 { Progress::More } else { Progress::Idle })
}
