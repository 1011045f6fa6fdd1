//! Moves of jobs, each with its letter, its queue's counts and its events: all of it, or nothing.
//!
//! The job's row comes first: whoever has written it over the version it was read in is the only one who moves its
//! letter. Where the letter may refuse, the row is locked first and written when it has not.

use std::collections::HashSet;
use std::sync::Arc;

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::gate::{Governance, Passed};
use lazaret_core::id::{JobId, LetterId, RedriveId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::{Action, Place};
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
use super::{letters_of, live_letter, tell};
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::Decided;
use crate::engine::incidents::letter_cause;
use crate::job::{ByHand, Changed, JobChange, JobEvent, LetterEffect, key_of};
use crate::redrive::LetterCause;

/// A change with everything done to it that needs no database.
pub(in crate::postgres) struct JobMove {
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

impl JobMove {
    pub fn new(change: JobChange) -> Result<JobMove, StoreError> {
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
        Ok(JobMove { version, after, key, letter, events: change.events, by: change.by, at: change.at })
    }

    /// The letter that it makes, if it makes one.
    pub fn dies(&self) -> Option<&Incoming> {
        match &self.letter {
            Effect::Die(incoming) => Some(incoming),
            Effect::None | Effect::Redrive(..) | Effect::Ends(_) => None,
        }
    }

    /// When the letter is created that it makes, if it makes one.
    fn dies_at(&self) -> Option<Time> {
        self.dies().map(|incoming| incoming.prepared.admitted.id.at())
    }

    /// How the job ended, if its letter may be out with it: only a job that left the dead letter has one that is out, so
    /// most jobs need not be looked up.
    fn ends_letter(&self) -> Option<Ending> {
        match self.letter {
            Effect::Ends(Ending::Confirmed { .. } | Ending::Ended { .. })
                if self.after.job.re_enqueued_at.is_none() =>
            {
                None
            }
            Effect::Ends(ending) => Some(ending),
            Effect::None | Effect::Die(_) | Effect::Redrive(..) => None,
        }
    }

    /// Whether it is written together with others: a person's decision and a letter that is sent are not.
    fn is_grouped(&self) -> bool {
        self.by.is_none() && !matches!(self.letter, Effect::Redrive(..))
    }
}

/// Makes a change. What dies by it is captured, and needs the partition of its month; if it was archived, that of the
/// month it was first captured in, which may have been taken away since.
pub(in crate::postgres) async fn carry_out(
    store: &PostgresStore,
    change: JobChange,
) -> Result<Changed, StoreError> {
    let packed = Arc::new(JobMove::new(change)?);
    store.months.ensure(&store.lanes, packed.dies_at().into_iter()).await?;
    let write = async || {
        let packed = Arc::clone(&packed);
        match packed.is_grouped() {
            true => store.writer.change(packed).await,
            false => {
                store.writer.write(1, packed, |write, asked| Box::pin(change_by_hand(write, asked))).await
            }
        }
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

/// Makes changes that are written together; the answers come in their order.
pub(in crate::postgres) async fn change_all(
    write: &mut Write,
    changes: &[&JobMove],
) -> Result<Vec<Changed>, StoreError> {
    let mut changed = vec![Changed::Stale; changes.len()];
    let mut open: Vec<usize> = (0..changes.len()).collect();
    // A statement writes a row once: what else is asked of the same job comes after it.
    while !open.is_empty() {
        let mut seen = HashSet::with_capacity(open.len());
        let (now, later): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|n| seen.insert(changes[*n].after.job.id));
        let moves: Vec<&JobMove> = now.iter().map(|n| changes[*n]).collect();
        for (n, done) in now.into_iter().zip(change_each(write, &moves).await?) {
            if done {
                changed[n] = Changed::Done;
            }
        }
        open = later;
    }
    Ok(changed)
}

/// Makes changes of different jobs; says of each whether the job stood as it was read.
async fn change_each(write: &mut Write, changes: &[&JobMove]) -> Result<Vec<bool>, StoreError> {
    let rows: Vec<(&Packed, u64)> = changes.iter().map(|change| (&change.after, change.version)).collect();
    let put = row::put_all(&write.conn, &rows).await?;
    let stood: Vec<bool> = put.iter().map(Option::is_some).collect();
    let done: Vec<(&JobMove, Before)> =
        changes.iter().zip(put).filter_map(|(change, before)| Some((*change, before?))).collect();
    let died: Vec<&[Incoming]> =
        done.iter().filter_map(|(change, _)| change.dies()).map(std::slice::from_ref).collect();
    if !died.is_empty() {
        insert::insert(write, &died).await?;
    }
    settle_all(write, done.iter().map(|(change, _)| *change)).await?;
    for (change, before) in done {
        count_and_tell(write, change, before)?;
    }
    Ok(stood)
}

/// Settles the letters of jobs that have ended.
async fn settle_all<'a>(
    write: &mut Write,
    changes: impl Iterator<Item = &'a JobMove>,
) -> Result<(), StoreError> {
    let ended: Vec<(&JobMove, Ending)> =
        changes.filter_map(|change| Some((change, change.ends_letter()?))).collect();
    if ended.is_empty() {
        return Ok(());
    }
    let keys: Vec<&CaptureKey> = ended.iter().map(|(change, _)| &change.key).collect();
    for (n, letter) in letters_of(&write.conn, &keys, &[Place::Live]).await? {
        let (change, ending) = &ended[n];
        settle(write, change.after.job.id, letter, *ending, change.at).await?;
    }
    Ok(())
}

/// Counts a job in its queue as it is now, and tells what happened to it.
fn count_and_tell(write: &mut Write, change: &JobMove, before: Before) -> Result<(), StoreError> {
    let job = &change.after.job;
    if let Some((queue, state)) = before {
        write.depths.add(&queue, state, -1, change.at);
    }
    write.depths.add(&job.queue, job.state, 1, change.at);
    tell(write, job.id, &change.events, change.at)?;
    if let Effect::Ends(Ending::Ended { evidence: "expired" }) = change.letter {
        write.tally.note_job("job.expired", &job.queue, &job.job_type);
    }
    Ok(())
}

/// Makes a change that a person asked for, or that sends a letter.
async fn change_by_hand(write: &mut Write, change: &JobMove) -> Result<Changed, StoreError> {
    let mut redriven = None;
    if let Effect::Redrive(letter, governance) = change.letter {
        let (before, governed) = match redrive(write, change, letter, governance).await? {
            Ok(sent) => sent,
            Err(changed) => return Ok(changed),
        };
        let nobody = Actor { name: BY.into(), role: "system".into(), request: None };
        let by = match &change.by {
            Some(by) => (&by.actor, by.reason.as_deref()),
            None => (&nobody, None),
        };
        redriven = Some(match governed {
            Some(cause) => doors::record_governed(write, letter, cause, by, change.at)?,
            None => doors::record(write, Door::Single, vec![letter], by, change.at)?,
        });
        count_and_tell(write, change, before)?;
    } else if change_each(write, &[change]).await? != [true] {
        return Ok(Changed::Stale);
    }
    if let Some(by) = &change.by {
        put_on_record(write, change, by, redriven).await?;
    }
    Ok(Changed::Done)
}

/// Writes who asked for a change. A job that has no letter is named as letters are found: by the id of the message.
async fn put_on_record(
    write: &mut Write,
    change: &JobMove,
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
    change: &JobMove,
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
