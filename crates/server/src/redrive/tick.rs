//! Runs at work: each look moves them on by what became of their letters and sends the next.
//!
//! Any number of instances look after the same runs. The store says who may send what.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_store::StoreError;
use lazaret_store::redrive::{Expired, Redrive, SendOutcome, Taken};
use tokio::task::JoinSet;

use super::load::load;
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

/// Takes on claims whose holder is gone: what was never sent waits again, what may have been is sent again under the
/// same key where the destination knows a repetition, and is unknown elsewhere.
pub(crate) async fn look_after_claims(app: &App) -> Result<bool, StoreError> {
    let expired = app.store.expired_claims(app.clock.now(), limits::EXPIRED_CLAIMS_PER_LOOK).await?;
    let mut by_run: BTreeMap<RedriveId, (Vec<Settled>, Vec<Taken>)> = BTreeMap::new();
    let moved = !expired.is_empty();
    for Expired { run, taken, sending } in expired {
        let (settled, again) = by_run.entry(run).or_default();
        let known = app.destinations.by_name(&taken.destination).is_ok_and(|named| named.deduplicates());
        match (sending, known) {
            (false, _) => settled.push((taken.letter, SendOutcome::Unsent)),
            (true, true) => again.push(taken),
            (true, false) => settled.push((taken.letter, unknown())),
        }
    }
    let mut to_send = Vec::new();
    for (run, (settled, again)) in by_run {
        let ours = renewed(app, run, settled).await?;
        write_down(app, run, ours).await?;
        to_send.push((run, again));
    }
    // Sending may take long, and nobody else's claims should wait for it.
    for (run, again) in to_send {
        send_again(app, run, again).await?;
    }
    Ok(moved)
}

/// Those that are still without a holder, and ours now: another instance may have taken one on, and be sending it.
async fn renewed(app: &App, run: RedriveId, expired: Vec<Settled>) -> Result<Vec<Settled>, StoreError> {
    let now = app.clock.now();
    let lease_until = now.plus_ms(app.config.redrive.lease_ms.cast_signed());
    let mut ours = Vec::with_capacity(expired.len());
    for (letter, outcome) in expired {
        if app.store.renew_claim(run, letter, lease_until, now).await? {
            ours.push((letter, outcome));
        }
    }
    Ok(ours)
}

fn unknown() -> SendOutcome {
    SendOutcome::Unknown { why: "whoever sent it was gone before the answer came".to_owned() }
}

async fn send_again(app: &App, run: RedriveId, again: Vec<Taken>) -> Result<(), StoreError> {
    let Some(redrive) = app.store.redrive(run).await? else { return Ok(()) };
    let stop = app.stopping();
    for chunk in again.chunks(redrive.options.concurrency.max(1) as usize) {
        if *stop.borrow() {
            return Ok(());
        }
        let (now, mut ours) = (app.clock.now(), Vec::with_capacity(chunk.len()));
        let lease_until = now.plus_ms(app.config.redrive.lease_ms.cast_signed());
        for taken in chunk {
            if app.store.renew_claim(run, taken.letter, lease_until, now).await? {
                ours.push(taken.clone());
            }
        }
        let (ready, mut settled) = load(app, run, redrive.edit, ours, now).await?;
        // They were sent once already: that they cannot be now does not make them unsent.
        settled.iter_mut().for_each(|(_, outcome)| *outcome = unknown());
        let mut out: JoinSet<(LetterId, SendOutcome)> = JoinSet::new();
        for one in ready {
            out.spawn(one.send(app.clock.clone()));
        }
        while let Some(one) = out.join_next().await {
            match one {
                Ok(one) => settled.push(one),
                Err(error) => tracing::error!(error = %error, "a letter was lost sight of while it was sent"),
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
