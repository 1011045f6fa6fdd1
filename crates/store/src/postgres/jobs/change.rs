//! One move of a job, with its letter, its queue's counts and its events: all of it, or nothing.
//!
//! The job's row comes first: whoever has written it over the version it was read in is the only one who moves its
//! letter. Where the letter may refuse, the row is locked first and written when it has not.

use std::sync::Arc;

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::gate::{Governance, Passed};
use lazaret_core::id::{JobId, LetterId, RedriveId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::Action;
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use super::super::PostgresStore;
use super::super::audit::{self, NewEntry};
use super::super::events::{self, NewEvent};
use super::super::failure::{Kind, kind_of};
use super::super::insert::{self, Incoming};
use super::super::redrives::doors::{self, Door};
use super::super::redrives::outcomes;
use super::super::verdicts::{Mark, apply};
use super::super::writer::Write;
use super::row::{self, Before, Packed};
use super::{live_letter, tell};
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::Decided;
use crate::engine::incidents::letter_cause;
use crate::job::{ByHand, Changed, JobChange, JobEvent, LetterEffect, key_of};
use crate::redrive::LetterCause;

/// A change with everything done to it that needs no database.
pub(in crate::postgres) struct Move {
    version: u64,
    after: Packed,
    key: CaptureKey,
    letter: Effect,
    events: Vec<JobEvent>,
    by: Option<ByHand>,
    at: Time,
}

/// What becomes of the letter.
enum Effect {
    None,
    Die(Box<Incoming>),
    Redrive(LetterId, Governance),
    Ends(Ending),
}

/// How a job ended whose letter may be out with it.
#[derive(Clone, Copy)]
pub(super) enum Ending {
    Confirmed {
        evidence: &'static str,
    },
    /// The work was done although the letter was pending.
    Elsewhere {
        evidence: &'static str,
    },
    Ended {
        evidence: &'static str,
    },
}

impl Move {
    pub fn new(change: JobChange) -> Result<Move, StoreError> {
        let (job, version) = change.before;
        if job != change.after.id {
            return Err(StoreError::Corrupt(format!("job {job} cannot become job {}", change.after.id)));
        }
        let key = key_of(job);
        let letter = match change.letter {
            LetterEffect::None => Effect::None,
            LetterEffect::Die(mut admitted) => {
                // A job's letter is found by the job's id alone, whatever tenant the message speaks of.
                admitted.key = key;
                Effect::Die(Box::new(Incoming::new(*admitted)?))
            }
            LetterEffect::Redrive(letter, governance) => Effect::Redrive(letter, governance),
            LetterEffect::Confirm { evidence } => Effect::Ends(Ending::Confirmed { evidence }),
            LetterEffect::SettleElsewhere { evidence } => Effect::Ends(Ending::Elsewhere { evidence }),
            LetterEffect::End { evidence } => Effect::Ends(Ending::Ended { evidence }),
        };
        let after = Packed::new(change.after)?;
        Ok(Move { version, after, key, letter, events: change.events, by: change.by, at: change.at })
    }

    /// When the letter is created that it makes, if it makes one.
    pub fn dies_at(&self) -> Option<Time> {
        match &self.letter {
            Effect::Die(incoming) => Some(incoming.prepared.admitted.id.at()),
            Effect::None | Effect::Redrive(..) | Effect::Ends(_) => None,
        }
    }
}

/// Makes a change. What dies by it is captured, and needs the partition of its month; if it was archived, that of the
/// month it was first captured in, which may have been taken away since.
pub(in crate::postgres) async fn carry_out(
    store: &PostgresStore,
    change: JobChange,
) -> Result<Changed, StoreError> {
    let packed = Arc::new(Move::new(change)?);
    store.months.ensure(&store.lanes, packed.dies_at().into_iter()).await?;
    let write = || {
        let packed = Arc::clone(&packed);
        store.writer.write(1, packed, |write, asked| Box::pin(self::change(write, asked)))
    };
    match store.months.after(write().await) {
        Err(error) if kind_of(&error) == Kind::NoMonth => {
            let away = insert::months_away(store, vec![packed.key]).await?;
            store.months.ensure(&store.lanes, packed.dies_at().into_iter().chain(away)).await?;
            store.months.after(write().await)
        }
        result => result,
    }
}

async fn change(write: &mut Write, change: &Move) -> Result<Changed, StoreError> {
    let job = &change.after.job;
    let mut governed = None;
    let put = match &change.letter {
        Effect::None => row::put(&write.conn, &change.after, change.version).await?,
        Effect::Redrive(letter, governance) => match redrive(write, change, *letter, *governance).await? {
            Ok((before, cause)) => {
                governed = cause;
                Some(before)
            }
            Err(changed) => return Ok(changed),
        },
        Effect::Die(incoming) => {
            let put = row::put(&write.conn, &change.after, change.version).await?;
            if put.is_some() {
                insert::insert_one(write, incoming).await?;
            }
            put
        }
        // Only a job that left the dead letter has a letter that is out: most jobs need not be looked up.
        Effect::Ends(Ending::Confirmed { .. } | Ending::Ended { .. }) if job.re_enqueued_at.is_none() => {
            row::put(&write.conn, &change.after, change.version).await?
        }
        Effect::Ends(ending) => {
            let (put, letter) = tokio::try_join!(biased;
                row::put(&write.conn, &change.after, change.version),
                live_letter(&write.conn, &change.key)
            )?;
            if let (Some(_), Some(letter)) = (&put, letter) {
                settle(write, job.id, letter, *ending, change.at).await?;
            }
            put
        }
    };
    let Some(before) = put else { return Ok(Changed::Stale) };
    let mut redriven = None;
    if let Effect::Redrive(letter, _) = change.letter {
        let nobody = Actor { name: BY.into(), role: "system".into(), request: None };
        let by = match &change.by {
            Some(by) => (&by.actor, by.reason.as_deref()),
            None => (&nobody, None),
        };
        redriven = Some(match governed {
            Some(cause) => doors::record_governed(write, letter, cause, by, change.at)?,
            None => doors::record(write, Door::Single, vec![letter], by, change.at)?,
        });
    }
    if let Some((queue, state)) = before {
        write.depths.add(&queue, state, -1, change.at);
    }
    write.depths.add(&job.queue, job.state, 1, change.at);
    tell(write, job.id, &change.events, change.at)?;
    if let Effect::Ends(Ending::Ended { evidence: "expired" }) = change.letter {
        write.tally.note_job("job.expired", &job.queue, &job.job_type);
    }
    if let Some(by) = &change.by {
        put_on_record(write, change, by, redriven).await?;
    }
    Ok(Changed::Done)
}

/// Writes who asked for a change. A job that has no letter is named as letters are found: by the id of the message.
async fn put_on_record(
    write: &mut Write,
    change: &Move,
    by: &ByHand,
    redrive: Option<RedriveId>,
) -> Result<(), StoreError> {
    let job = change.after.job.id;
    let letter = live_letter(&write.conn, &change.key).await?;
    let named = match letter {
        Some(_) => None,
        None => Some(Filter { event_id: Patterns::only(&job.to_string()), ..Filter::default() }.to_string()),
    };
    let entry = NewEntry {
        at: change.at,
        actor: &by.actor,
        action: by.action,
        letter,
        operation: None,
        incident: None,
        redrive,
        filter: named.as_deref(),
        count: 1,
        reason: by.reason.as_deref(),
    };
    audit::add(write, &entry)
}

/// The job's pending letter goes out with the job: from now on a death of the job is a relapse.
async fn redrive(
    write: &mut Write,
    change: &Move,
    letter: LetterId,
    governance: Governance,
) -> Result<Result<(Before, Option<LetterCause>), Changed>, StoreError> {
    let job = change.after.job.id;
    let (standing, live) =
        tokio::try_join!(biased; row::standing(&write.conn, job), live_letter(&write.conn, &change.key))?;
    // A letter that is not the job's any more was read too long ago, too.
    if standing.map_or(0, |standing| standing.version) != change.version || live != Some(letter) {
        return Ok(Err(Changed::Stale));
    }
    // The letter is judged by the incident that it is in now.
    let cause = letter_cause(write, letter).await?;
    let governed = match cause.as_ref().map(|cause| cause.pass(governance)) {
        Some(Ok(Passed::Governed)) => cause,
        Some(Ok(Passed::Freely)) | None => None,
        Some(Err(shut)) => {
            return Ok(Err(cause.map_or(Changed::Stale, |cause| Changed::Shut(shut, cause.incident))));
        }
    };
    match apply(write, letter, Action::Redrive, Mark::Sends, change.at).await? {
        Decided::Done => {}
        Decided::Refused(refused) => return Ok(Err(Changed::Refused(refused))),
        Decided::Unknown | Decided::NoWayBack | Decided::Replaced => return Ok(Err(Changed::Stale)),
    }
    tell_of_letter(write, job, letter, "dead_letter.retried", change.at)?;
    events::note(write, "dead_letter.retried", letter, "").await?;
    match row::put(&write.conn, &change.after, change.version).await? {
        Some(before) => Ok(Ok((before, governed))),
        None => Err(StoreError::Corrupt(format!("job {job} moved while it was held still"))),
    }
}

/// Whoever settles a letter because its job has ended.
const BY: &str = "source:jobs";

/// Moves the letter if it is in the state that such an end is about.
pub(super) async fn settle(
    write: &mut Write,
    job: JobId,
    letter: LetterId,
    ending: Ending,
    at: Time,
) -> Result<(), StoreError> {
    let by_source = |strategy| (strategy, BY.to_owned());
    let (action, outcome, (strategy, by), evidence) = match ending {
        Ending::Confirmed { evidence } => {
            let decided = outcomes::decided_by(&write.conn, letter).await?;
            let decided = decided.unwrap_or_else(|| by_source(Strategy::ManualRetry));
            (Action::Confirm, Outcome::Succeeded, decided, evidence)
        }
        Ending::Elsewhere { evidence } => {
            (Action::SettleElsewhere, Outcome::Succeeded, by_source(Strategy::ManualResolution), evidence)
        }
        Ending::Ended { evidence } => {
            (Action::EndWithoutDeadLetter, Outcome::Ended, by_source(Strategy::Discard), evidence)
        }
    };
    let kind = match ending {
        Ending::Confirmed { .. } | Ending::Elsewhere { .. } => "dead_letter.resolved",
        Ending::Ended { .. } => "dead_letter.discarded",
    };
    let mark = Mark::Ends { strategy, by: &by, notes: Some(evidence) };
    match apply(write, letter, action, mark, at).await? {
        Decided::Done => {
            outcomes::left(write, letter, outcome, evidence, at).await?;
            tell_of_letter(write, job, letter, kind, at)
        }
        // It stands otherwise, so this run was not its.
        Decided::Refused(_) | Decided::Unknown | Decided::NoWayBack | Decided::Replaced => Ok(()),
    }
}

fn tell_of_letter(
    write: &mut Write,
    job: JobId,
    letter: LetterId,
    kind: &'static str,
    at: Time,
) -> Result<(), StoreError> {
    let event = NewEvent { at, kind, letter: Some(letter), job: Some(job), ..NewEvent::default() };
    events::add(write, &event)
}
