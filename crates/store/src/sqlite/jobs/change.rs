//! One move of a job, with its letter, its queue's counts and its events: all of it, or nothing.

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::gate::{Governance, Passed, Shut};
use lazaret_core::id::{IncidentId, JobId, LetterId, RedriveId};
use lazaret_core::job::Job;
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::{Action, Refused};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use super::super::audit::{self, NewEntry};
use super::super::events::{self, NewEvent};
use super::super::insert;
use super::super::redrives::doors::{self, Door, Passage};
use super::super::redrives::outcomes;
use super::super::verdicts::{Mark, apply};
use super::super::writer::Write;
use super::queues::Depths;
use super::row::{self, Packed};
use super::{live_letter, tell};
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::Decided;
use crate::engine::incidents::letter_cause;
use crate::job::{ByHand, Changed, JobChange, JobEvent, LetterEffect, key_of};
use crate::packing::Prepared;
use crate::redrive::LetterCause;
use crate::seam::ready;

/// A change with everything done to it that needs no database.
pub(in crate::sqlite) struct Move {
    version: u64,
    after: Packed,
    key: CaptureKey,
    letter: Effect,
    events: Vec<JobEvent>,
    by: Option<ByHand>,
    at: Time,
}

/// What becomes of the letter.
pub(super) enum Effect {
    None,
    Die(Box<Prepared>),
    Redrive(LetterId, Governance),
    Confirm { evidence: &'static str },
    SettleElsewhere { evidence: &'static str },
    End { evidence: &'static str },
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
                Effect::Die(Box::new(Prepared::new(*admitted)?))
            }
            LetterEffect::Redrive(letter, governance) => Effect::Redrive(letter, governance),
            LetterEffect::Confirm { evidence } => Effect::Confirm { evidence },
            LetterEffect::SettleElsewhere { evidence } => Effect::SettleElsewhere { evidence },
            LetterEffect::End { evidence } => Effect::End { evidence },
        };
        let after = Packed::new(change.after)?;
        Ok(Move { version, after, key, letter, events: change.events, by: change.by, at: change.at })
    }
}

pub(in crate::sqlite) fn change(write: &mut Write, change: &Move) -> Result<Changed, StoreError> {
    let job = &change.after.job;
    let before = row::standing(&write.conn, job.id)?;
    if before.as_ref().map_or(0, |before| before.version) != change.version {
        return Ok(Changed::Stale);
    }
    let cause = match &change.letter {
        Effect::Redrive(letter, governance) => match ask_gate(write, *letter, *governance)? {
            Ok(cause) => cause,
            Err((shut, incident)) => return Ok(Changed::Shut(shut, incident)),
        },
        Effect::None
        | Effect::Die(_)
        | Effect::Confirm { .. }
        | Effect::SettleElsewhere { .. }
        | Effect::End { .. } => None,
    };
    // The letter first: it may refuse, and nothing has been written then.
    match take_effect(write, job, &change.key, &change.letter, change.at)? {
        Effected::Done => {}
        Effected::Gone => return Ok(Changed::Stale),
        Effected::Refused(refused) => return Ok(Changed::Refused(refused)),
    }
    let mut redrive = None;
    if let Effect::Redrive(letter, _) = change.letter {
        let nobody = Actor { name: BY.into(), role: "system".into(), request: None };
        let (by, reason) = match &change.by {
            Some(by) => (&by.actor, by.reason.as_deref()),
            None => (&nobody, None),
        };
        let passage = Passage { door: Door::Single, by, reason, governed: cause.as_ref(), at: change.at };
        redrive = Some(doors::record(write, letter, &passage)?);
    }
    if !row::put(write, &change.after, change.version)? {
        return Err(StoreError::Corrupt(format!("job {} moved while it was held still", job.id)));
    }
    let mut depths = Depths::default();
    if let Some(before) = before {
        depths.add(&before.queue, before.state, -1);
    }
    depths.add(&job.queue, job.state, 1);
    depths.defer(write, change.at);
    tell(write, job.id, &change.events, change.at)?;
    if let Effect::End { evidence: "expired" } = change.letter {
        write.tally.note_job("job.expired", &job.queue, &job.job_type);
    }
    if let Some(by) = &change.by {
        put_on_record(write, job.id, change, by, redrive)?;
    }
    Ok(Changed::Done)
}

/// Asks the gate for a letter as it is now: its cause if it passes under the RCA, nothing if it passes freely. One that is
/// gone is found to be so when it is moved.
fn ask_gate(
    write: &mut Write,
    letter: LetterId,
    governance: Governance,
) -> Result<Result<Option<LetterCause>, (Shut, IncidentId)>, StoreError> {
    let Some(cause) = ready(letter_cause(write, letter))? else { return Ok(Ok(None)) };
    Ok(match cause.pass(governance) {
        Ok(Passed::Governed) => Ok(Some(cause)),
        Ok(Passed::Freely) => Ok(None),
        Err(shut) => Err((shut, cause.incident)),
    })
}

/// Writes who asked for a change. A job that has no letter is named as letters are found: by the id of the message.
fn put_on_record(
    write: &Write,
    job: JobId,
    change: &Move,
    by: &ByHand,
    redrive: Option<RedriveId>,
) -> Result<(), StoreError> {
    let letter = live_letter(&write.keys, &write.conn, &change.key)?;
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

/// What came of an effect.
pub(super) enum Effected {
    Done,
    /// The letter that was to be moved is not the job's any more.
    Gone,
    Refused(Refused),
}

/// Whoever settles a letter because its job has ended.
const BY: &str = "source:jobs";

pub(super) fn take_effect(
    write: &mut Write,
    job: &Job,
    key: &CaptureKey,
    effect: &Effect,
    at: Time,
) -> Result<Effected, StoreError> {
    let id = job.id;
    match effect {
        Effect::None => Ok(Effected::Done),
        Effect::Die(prepared) => {
            insert::insert_one(write, prepared)?;
            Ok(Effected::Done)
        }
        Effect::Redrive(letter, _) => redrive(write, id, key, *letter, at),
        // Only a job that left the dead letter has a letter that is out: most jobs need not be looked up.
        Effect::Confirm { .. } | Effect::End { .. } if job.re_enqueued_at.is_none() => Ok(Effected::Done),
        Effect::Confirm { evidence } => settle(write, id, key, Ending::Confirmed, evidence, at),
        Effect::SettleElsewhere { evidence } => settle(write, id, key, Ending::Elsewhere, evidence, at),
        Effect::End { evidence } => settle(write, id, key, Ending::Otherwise, evidence, at),
    }
}

/// The job's pending letter goes out with the job: from now on a death of the job is a relapse.
fn redrive(
    write: &mut Write,
    job: JobId,
    key: &CaptureKey,
    letter: LetterId,
    at: Time,
) -> Result<Effected, StoreError> {
    if live_letter(&write.keys, &write.conn, key)? != Some(letter) {
        return Ok(Effected::Gone);
    }
    match apply(write, letter, Action::Redrive, Mark::Sends, at)? {
        Decided::Done => {}
        Decided::Refused(refused) => return Ok(Effected::Refused(refused)),
        Decided::Unknown | Decided::NoWayBack | Decided::Replaced => return Ok(Effected::Gone),
    }
    tell_of_letter(write, job, letter, "dead_letter.retried", at)?;
    events::note(write, "dead_letter.retried", letter, "")?;
    Ok(Effected::Done)
}

/// How a letter ends with its job.
#[derive(Clone, Copy)]
enum Ending {
    Confirmed,
    /// The work was done although the letter was pending.
    Elsewhere,
    Otherwise,
}

/// Moves the letter if it is in the state that such an end is about.
fn settle(
    write: &mut Write,
    job: JobId,
    key: &CaptureKey,
    ending: Ending,
    evidence: &str,
    at: Time,
) -> Result<Effected, StoreError> {
    let Some(letter) = live_letter(&write.keys, &write.conn, key)? else { return Ok(Effected::Done) };
    let by_source = |strategy| (strategy, BY.to_owned());
    let (action, outcome, (strategy, by), kind) = match ending {
        Ending::Confirmed => {
            let decided = outcomes::decided_by(write, letter)?;
            let decided = decided.unwrap_or_else(|| by_source(Strategy::ManualRetry));
            (Action::Confirm, Outcome::Succeeded, decided, "dead_letter.resolved")
        }
        Ending::Elsewhere => {
            let decided = by_source(Strategy::ManualResolution);
            (Action::SettleElsewhere, Outcome::Succeeded, decided, "dead_letter.resolved")
        }
        Ending::Otherwise => {
            let decided = by_source(Strategy::Discard);
            (Action::EndWithoutDeadLetter, Outcome::Ended, decided, "dead_letter.discarded")
        }
    };
    let mark = Mark::Ends { strategy, by: &by, notes: Some(evidence) };
    match apply(write, letter, action, mark, at)? {
        Decided::Done => {
            outcomes::left(write, letter, outcome, evidence, at)?;
            tell_of_letter(write, job, letter, kind, at)?;
        }
        // It stands otherwise, so this run was not its.
        Decided::Refused(_) | Decided::Unknown | Decided::NoWayBack | Decided::Replaced => {}
    }
    Ok(Effected::Done)
}

fn tell_of_letter(
    write: &Write,
    job: JobId,
    letter: LetterId,
    kind: &'static str,
    at: Time,
) -> Result<(), StoreError> {
    let event = NewEvent { at, kind, letter: Some(letter), job: Some(job), ..NewEvent::default() };
    events::add(write, &event)
}
