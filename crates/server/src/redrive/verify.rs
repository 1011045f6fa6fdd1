//! Letters that were sent and not heard of since: looked up at their destination, or assumed to have succeeded once it
//! has been quiet for long enough.
//!
//! A look verifies a bounded number of letters and goes on behind them with the next one, so that every letter of a run
//! is looked up however many there are. What is remembered in between is only where to go on and when each letter was
//! first seen taken: a process that starts begins anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::redrive::{GroupVerdict, Redrive, SendOutcome, SentLetter};

use super::load::full_message_id;
use super::send::{Settled, write_down};
use crate::app::App;
use crate::destination::{Destination, SentCopy, Silence, Verified, Way};

/// How far the verification of each run has come.
#[derive(Debug, Default)]
pub struct Verifications(Mutex<HashMap<RedriveId, Progress>>);

#[derive(Debug, Default)]
struct Progress {
    /// The ordinal that the next look goes on behind.
    after: u64,
    /// When letters were first seen taken whose success shows by silence only.
    taken_at: HashMap<LetterId, Time>,
}

impl Verifications {
    fn take(&self, run: RedriveId) -> Progress {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&run).unwrap_or_default()
    }

    fn put(&self, run: RedriveId, progress: Progress) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(run, progress);
    }
}

/// Looks up letters of a run that were sent; says whether some moved.
pub(super) async fn verify(app: &App, run: &Redrive) -> Result<bool, StoreError> {
    let mut progress = app.verifications.take(run.id);
    if run.letters.get(&Outcome::Sent).is_none_or(|sent| *sent == 0) {
        return Ok(false);
    }
    let destinations = destinations(app, run).await?;
    let (mut moved, mut looked_up) = (false, 0);
    while !destinations.is_empty() && looked_up < limits::REDRIVE_VERIFIED_PER_LOOK {
        let page = app.store.sent_letters(run.id, progress.after, limits::PAGE_ROWS_MAX).await?;
        looked_up += page.len();
        let is_last = page.len() < limits::PAGE_ROWS_MAX;
        progress.after = if is_last { 0 } else { page.last().map_or(0, |last| last.ordinal) };
        let settled = settle_page(app, run, &destinations, &page, &mut progress).await?;
        moved |= write_down(app, run.id, settled).await? > 0;
        if is_last {
            break;
        }
    }
    app.verifications.put(run.id, progress);
    Ok(moved)
}

/// What the destinations of a page of letters show of them, where that settles them.
async fn settle_page(
    app: &App,
    run: &Redrive,
    destinations: &BTreeMap<u32, Arc<dyn Destination>>,
    page: &[SentLetter],
    progress: &mut Progress,
) -> Result<Vec<Settled>, StoreError> {
    let mut settled = Vec::new();
    for (group, destination) in destinations {
        let letters: Vec<&SentLetter> = page.iter().filter(|sent| sent.group == *group).collect();
        if letters.is_empty() {
            continue;
        }
        let mut copies = Vec::with_capacity(letters.len());
        for sent in &letters {
            copies.push(sent_copy(app, run, destination.as_ref(), sent).await?);
        }
        for (sent, verified) in letters.into_iter().zip(destination.verify(&copies).await) {
            if let Some(outcome) = outcome(run, sent, verified, progress, app.clock.now()) {
                progress.taken_at.remove(&sent.claim.letter);
                settled.push((sent.claim.clone(), outcome));
            }
        }
    }
    Ok(settled)
}

/// What a letter has come to, if that shows.
fn outcome(
    run: &Redrive,
    sent: &SentLetter,
    verified: Verified,
    progress: &mut Progress,
    now: Time,
) -> Option<SendOutcome> {
    match verified {
        Verified::Succeeded { evidence, .. } => Some(SendOutcome::Delivered { evidence, handle: None }),
        Verified::Lost(why) => Some(SendOutcome::Lost { why }),
        Verified::Taken(Silence::Succeeds { after_ms }) => {
            let quiet_ms = run.options.quiet_ms.max(i64::try_from(after_ms).unwrap_or(i64::MAX));
            let taken_at = *progress.taken_at.entry(sent.claim.letter).or_insert(now);
            (now.since(taken_at) >= quiet_ms).then_some(SendOutcome::Assumed)
        }
        Verified::Taken(Silence::SaysNothing) | Verified::NotYet => {
            progress.taken_at.remove(&sent.claim.letter);
            None
        }
    }
}

/// The destinations of a run by group. Jobs are not among them: they tell themselves what becomes of them.
async fn destinations(app: &App, run: &Redrive) -> Result<BTreeMap<u32, Arc<dyn Destination>>, StoreError> {
    let mut destinations = BTreeMap::new();
    for group in app.store.redrive_groups(run.id).await? {
        let Some(GroupVerdict::Goes { destination, .. }) = group.verdict else { continue };
        if let Ok(Way::Out(out)) = app.destinations.by_name(&destination).map(|named| named.way) {
            destinations.insert(group.number, out);
        }
    }
    Ok(destinations)
}

async fn sent_copy(
    app: &App,
    run: &Redrive,
    destination: &dyn Destination,
    sent: &SentLetter,
) -> Result<SentCopy, StoreError> {
    let message_id = match destination.by_message_id() {
        true => full_message_id(app, sent.claim.letter, &sent.event_id).await?,
        false => String::new(),
    };
    Ok(SentCopy {
        letter: sent.claim.letter,
        life: sent.life,
        redrive: run.id,
        message_id,
        idempotency_key: sent.claim.idempotency_key.clone(),
        handle: sent.handle.clone(),
        sent_at: sent.sent_at,
    })
}
