//! Taking letters of a run to be sent: as many as its pace allows, heads of lanes alone, in the order of the run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lazaret_core::gate::{Governance, Passed, Shut};
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::{Action, Refused, Standing};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;
use rusqlite::OptionalExtension;
use serde_json::json;

use super::super::events::{self, NewEvent};
use super::super::jobs::follow::{Retried, retry};
use super::super::rows;
use super::super::verdicts::{Mark, apply};
use super::super::writer::Write;
use super::doors::hold;
use super::outcomes::{Listed, Shifts, Turn};
use crate::StoreError;
use crate::claim::ClaimStep;
use crate::decision::Decided;
use crate::engine::incidents::letter_cause;
use crate::engine::redrives::plan::groups;
use crate::engine::redrives::row::{self, Run};
use crate::job::SOURCE;
use crate::redrive::{Group, GroupVerdict, Next, Taken, first_shut, refused_at_claim};
use crate::seam::ready;

/// What one look is about.
struct Look {
    run: Run,
    /// Where the letters of each group go, and how they passed the gate.
    destinations: HashMap<u32, (Passed, String)>,
    lease_until: Time,
    at: Time,
}

/// Takes the next letters of a run.
pub(super) fn take(
    write: &mut Write,
    id: RedriveId,
    limit: u32,
    lease_until: Time,
    at: Time,
) -> Result<Next, StoreError> {
    let Some(run) = ready(row::find(write, id))? else { return Ok(Next::default()) };
    if !run.state().claims() {
        return Ok(Next::default());
    }
    let options = run.redrive.options;
    let granted = options.pace.take(run.spent_until_us, at, limit.min(options.batch_size));
    if granted.letters == 0 {
        return Ok(Next { next_at: granted.next_at, ..Next::default() });
    }
    let groups = ready(groups(write, id))?;
    // The run is stopped when it is tended; until then nothing more leaves it.
    if run.redrive.break_glass.is_none() && first_shut(&groups).is_some() {
        return Ok(Next::default());
    }
    let spent = run.spent_until_us;
    let look = Look { destinations: destinations(groups), run, lease_until, at };
    let (next, used) = take_some(write, &look, granted.letters)?;
    if used > 0 {
        // What was allowed and not used is not spent.
        let spent = options.pace.take(spent, at, used).spent_until_us;
        write
            .conn
            .prepare_cached("update redrives set spent_until_us = ?2 where id = ?1")?
            .execute((id.bytes(), spent))?;
    }
    Ok(next)
}

fn destinations(groups: Vec<Group>) -> HashMap<u32, (Passed, String)> {
    let goes = |group: Group| match group.verdict {
        Some(GroupVerdict::Goes { passed, destination }) => Some((group.number, (passed, destination))),
        Some(GroupVerdict::Shut(_) | GroupVerdict::NoWayBack(_) | GroupVerdict::BodyMissing(_)) | None => {
            None
        }
    };
    groups.into_iter().filter_map(goes).collect()
}

/// Takes up to so many letters, and says how many of the pace's tokens that used. Letters that moved cost none, so
/// there may be more looks than one, but not without end.
fn take_some(write: &mut Write, look: &Look, allowed: u32) -> Result<(Next, u32), StoreError> {
    let mut next = Next::default();
    let mut shifts = Shifts::default();
    let until = Instant::now() + Duration::from_millis(limits::DECISION_MS_MAX);
    let (mut used, mut looked_at) = (0, 0);
    'looks: while used < allowed && looked_at < limits::REDRIVE_BATCH_MAX {
        let heads = heads(write, look, allowed - used)?;
        if heads.is_empty() {
            break;
        }
        for head in heads {
            // The arguments of jobs may be large; a claim always takes the same short time.
            if next.put_back > 0 && Instant::now() > until {
                break 'looks;
            }
            looked_at += 1;
            match take_one(write, look, &head, &mut shifts)? {
                Took::Claimed(taken) => next.taken.push(*taken),
                Took::PutBack => next.put_back += 1,
                Took::Skipped => {
                    next.skipped += 1;
                    continue;
                }
            }
            used += 1;
        }
    }
    shifts.flush(write, look.at)?;
    Ok((next, used))
}

/// A letter whose turn it is.
struct Head {
    listed: Listed,
    letter: LetterId,
    life: u32,
    group: u32,
}

/// A letter is passed over while another of its lane is out, whatever run that belongs to.
const HEADS: &str = "
select t.ordinal, t.letter, t.life, t.grp, t.lane
  from redrive_letters t indexed by redrive_letters_next
 where t.redrive = ?1
   and t.outcome = 'waiting'
   and t.head = 1
   and (t.lane is null or not exists (select 1 from claims c indexed by claims_by_lane where c.lane = t.lane))
 order by t.rank, t.ordinal
 limit ?2";

const CANARIES: &str = "
select t.ordinal, t.letter, t.life, t.grp, t.lane
  from redrive_letters t indexed by redrive_letters_canaries
 where t.redrive = ?1
   and t.canary = 1
   and t.outcome = 'waiting'
   and t.head = 1
   and (t.lane is null or not exists (select 1 from claims c indexed by claims_by_lane where c.lane = t.lane))
 order by t.rank, t.ordinal
 limit ?2";

fn heads(write: &Write, look: &Look, limit: u32) -> Result<Vec<Head>, StoreError> {
    let id = look.run.redrive.id;
    let sql = if look.run.state() == RunState::Canary { CANARIES } else { HEADS };
    let mut statement = write.conn.prepare_cached(sql)?;
    let found = statement.query_map((id.bytes(), limit), |row| {
        Ok(Head {
            listed: Listed {
                redrive: id,
                ordinal: row.get(0)?,
                outcome: Outcome::Waiting,
                lane: row.get(4)?,
            },
            letter: LetterId::from_bytes(row.get(1)?),
            life: row.get(2)?,
            group: row.get(3)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// What came of one letter.
enum Took {
    Claimed(Box<Taken>),
    PutBack,
    Skipped,
}

const STANDING: &str = "
select status, life, source, subscriber_id, held_at is not null
  from dead_letter_queue
 where id = ?1";

fn take_one(write: &mut Write, look: &Look, head: &Head, shifts: &mut Shifts) -> Result<Took, StoreError> {
    let found: Option<(String, u32, String, Option<String>, bool)> = write
        .conn
        .prepare_cached(STANDING)?
        .query_row([head.letter.bytes()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .optional()?;
    let Some((status, life, source, subscriber, held)) = found else {
        return skip(write, look, head, "the letter is gone", shifts);
    };
    if life != head.life {
        return skip(write, look, head, "the letter died again meanwhile", shifts);
    }
    let standing = Standing { held, ..Standing::live(rows::status(&status)?) };
    if let Err(refused) = standing.after(Action::Redrive) {
        return skip(write, look, head, &refused.to_string(), shifts);
    }
    let Some((passed, destination)) = look.destinations.get(&head.group) else {
        return skip(write, look, head, "its source takes nothing back", shifts);
    };
    if *passed == Passed::Governed
        && look.run.redrive.break_glass.is_none()
        && let Some(cause) = ready(letter_cause(write, head.letter))?
        && let Err(shut) = cause.pass(Governance::Required)
    {
        return refuse(write, look, head, shut, shifts);
    }
    match destination.as_str() {
        SOURCE => put_back(write, look, head, shifts),
        destination => {
            let taken = Taken {
                letter: head.letter,
                life,
                idempotency_key: String::new(),
                renewals: 0,
                destination: destination.to_owned(),
                source,
                subscriber,
            };
            claim(write, look, head, taken, shifts)
        }
    }
}

/// The gate is shut for the incident that the letter is in by now. What is behind it in its lane must not overtake it.
fn refuse(
    write: &Write,
    look: &Look,
    head: &Head,
    shut: Shut,
    shifts: &mut Shifts,
) -> Result<Took, StoreError> {
    let outcome = refused_at_claim(head.listed.lane.as_deref());
    shifts.shift(write, &head.listed, &Turn::new(outcome, Some(&shut.to_string()), look.at))?;
    Ok(Took::Skipped)
}

/// The letter moved before its turn: it is left alone, and the next of its lane may go.
fn skip(write: &Write, look: &Look, head: &Head, why: &str, shifts: &mut Shifts) -> Result<Took, StoreError> {
    shifts.shift(write, &head.listed, &Turn::new(Outcome::Skipped, Some(why), look.at))?;
    Ok(Took::Skipped)
}

fn claim(
    write: &mut Write,
    look: &Look,
    head: &Head,
    mut taken: Taken,
    shifts: &mut Shifts,
) -> Result<Took, StoreError> {
    let at = look.at;
    match apply(write, head.letter, Action::Redrive, Mark::Claims, at)? {
        Decided::Done => {}
        Decided::Refused(Refused { standing, .. }) => {
            return Err(StoreError::Corrupt(format!("letter {} became {standing} unseen", head.letter)));
        }
        Decided::Unknown | Decided::NoWayBack | Decided::Replaced => {
            return Err(StoreError::Corrupt(format!("letter {} went unseen", head.letter)));
        }
    }
    let run = look.run.redrive.id;
    taken.idempotency_key = hold(write, head.letter, run, ClaimStep::Claimed, Some(look.lease_until), at)?;
    let turn = Turn { key: Some(&taken.idempotency_key), ..Turn::new(Outcome::Out, None, at) };
    shifts.shift(write, &head.listed, &turn)?;
    Ok(Took::Claimed(Box::new(taken)))
}

/// Jobs have no sending that could fail: job, letter and outcome move in this commit.
fn put_back(write: &mut Write, look: &Look, head: &Head, shifts: &mut Shifts) -> Result<Took, StoreError> {
    let (at, run) = (look.at, look.run.redrive.id);
    let Retried { decided, job } = retry(write, head.letter, &Override::default(), at)?;
    match decided {
        Decided::Done => {}
        Decided::Refused(refused) => return skip(write, look, head, &refused.to_string(), shifts),
        Decided::Unknown => return skip(write, look, head, "the letter is gone", shifts),
        Decided::NoWayBack | Decided::Replaced => {
            return skip(write, look, head, "no job can be put back for it", shifts);
        }
    }
    let key = hold(write, head.letter, run, ClaimStep::Sent, None, at)?;
    let turn = Turn { key: Some(&key), sent_at: Some(at), ..Turn::new(Outcome::Sent, None, at) };
    shifts.shift(write, &head.listed, &turn)?;
    let event = NewEvent {
        at,
        kind: "dead_letter.retried",
        letter: Some(head.letter),
        job,
        actor: Some(&look.run.redrive.by.name),
        detail: Some(json!({ "redrive": run.to_string() }).to_string()),
        ..NewEvent::default()
    };
    events::add(write, &event)?;
    events::note(write, "dead_letter.retried", head.letter, "")?;
    Ok(Took::PutBack)
}
