//! One decision on many letters: a few statements, however many they are.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::{Next, Standing, Status};
use lazaret_core::time::Time;

use super::super::cell::{At, Bind, Cells, Uid};
use super::super::conn::Conn;
use super::super::counters::Counted;
use super::super::events;
use super::super::jobs::follow::{Jobs, follow, lock_jobs, withdraw};
use super::super::jobs::retry::{Asked, Retried, retry_held};
use super::super::redrives::doors::{self, Door};
use super::super::rows;
use super::super::trash::{self, Carried};
use super::super::writer::Write;
use super::{Mark, carry_out, count, emit, ends, set};
use crate::StoreError;
use crate::decision::{Decided, Decision, Verb};
use crate::engine::holds;

/// What a decision did to one letter of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::postgres) enum Listed {
    Decided(Decided),
    /// It is not in the life that was listed.
    OtherLife,
    /// The hold that it was to come under is over.
    HoldEnded,
}

/// Carries a decision out on letters that were listed in a life, and tells of each; the answers come in their order.
pub(in crate::postgres) async fn carry_out_all(
    write: &mut Write,
    letters: &[(LetterId, u32)],
    decision: &Decision,
    operation: OperationId,
) -> Result<Vec<Listed>, StoreError> {
    if decision.verb == Verb::Restore {
        return restore_all(write, letters, decision, operation).await;
    }
    if decision.verb == Verb::Hold && !holds::is_in_force(write, operation).await? {
        return Ok(vec![Listed::HoldEnded; letters.len()]);
    }
    let ids: Vec<LetterId> = letters.iter().map(|(letter, _)| *letter).collect();
    let jobs = match decision.verb {
        Verb::Hold | Verb::Release => Jobs::new(),
        Verb::Delete => {
            trash::lock_keys_of(&write.conn, &ids).await?;
            lock_jobs(write, &ids).await?
        }
        Verb::Resolve | Verb::Discard | Verb::Reopen | Verb::Retry | Verb::Restore => {
            lock_jobs(write, &ids).await?
        }
    };
    let held = lock_letters(write, &ids).await?;
    let mut listed = Vec::with_capacity(letters.len());
    let mut going = Vec::new();
    for (letter, life) in letters {
        let Some((now, standing)) = held.get(letter) else {
            listed.push(Listed::Decided(Decided::Unknown));
            continue;
        };
        listed.push(match standing.after(decision.verb.action()) {
            // A letter is kept in whatever life it is.
            _ if now != life && decision.verb != Verb::Hold => Listed::OtherLife,
            Err(refused) => Listed::Decided(Decided::Refused(refused)),
            Ok(_) => {
                going.push((*letter, *standing));
                Listed::Decided(Decided::Done)
            }
        });
    }
    let carried = carry_out_held(write, &going, &jobs, decision, operation).await?;
    if decision.verb == Verb::Retry {
        let done = going.iter().zip(&carried).filter(|(_, carried)| carried.decided == Decided::Done);
        let done: Vec<LetterId> = done.map(|((letter, _), _)| *letter).collect();
        events::note_all(write, decision.verb.event(), &done).await?;
        let by = (&decision.actor, decision.reason.as_deref());
        doors::record(write, Door::Operation(operation), done, by, decision.at)?;
    }
    let mut carried = carried.into_iter();
    for ((letter, _), listed) in letters.iter().zip(&mut listed) {
        if *listed == Listed::Decided(Decided::Done)
            && let Some(carried) = carried.next()
        {
            if carried.decided == Decided::Done {
                emit(write, *letter, decision, Some(operation), &carried)?;
            }
            *listed = Listed::Decided(carried.decided);
        }
    }
    if decision.verb == Verb::Hold {
        hold_gone(write, letters, &mut listed, decision, operation).await?;
    }
    Ok(listed)
}

/// Holds letters that are no longer live, one by one: few went since they were listed.
async fn hold_gone(
    write: &mut Write,
    letters: &[(LetterId, u32)],
    listed: &mut [Listed],
    decision: &Decision,
    operation: OperationId,
) -> Result<(), StoreError> {
    for ((letter, _), listed) in letters.iter().zip(listed) {
        if *listed != Listed::Decided(Decided::Unknown) {
            continue;
        }
        let decided = holds::hold_moved(write, *letter, decision, operation).await?;
        if decided == Decided::Done {
            emit(write, *letter, decision, Some(operation), &Carried::only(Decided::Done))?;
        }
        *listed = Listed::Decided(decided);
    }
    Ok(())
}

/// Carries a decision out on letters that are held still, and that the machine lets go.
async fn carry_out_held(
    write: &mut Write,
    going: &[(LetterId, Standing)],
    jobs: &Jobs,
    decision: &Decision,
    operation: OperationId,
) -> Result<Vec<Carried>, StoreError> {
    let letters = || going.iter().map(|(letter, _)| *letter).collect::<Vec<LetterId>>();
    let all_done = || going.iter().map(|_| Carried::only(Decided::Done)).collect();
    let mark = match decision.verb {
        Verb::Resolve => ends(Strategy::ManualResolution, decision),
        Verb::Discard => ends(Strategy::Discard, decision),
        Verb::Reopen => Mark::Reopens,
        Verb::Hold => {
            holds::hold_listed(write, &letters(), decision, operation).await?;
            return Ok(all_done());
        }
        Verb::Release => {
            holds::release_listed(write, &letters(), decision).await?;
            return Ok(all_done());
        }
        Verb::Retry => {
            let with = Override::default();
            let asked: Vec<(Asked<'_>, Standing)> = going
                .iter()
                .map(|(letter, standing)| (Asked { letter: *letter, with: &with }, *standing))
                .collect();
            let retried = retry_held(write, &asked, jobs, decision.at).await?;
            let carried = |one: Retried| Carried { decided: one.decided, job: one.job, incident: None };
            return Ok(retried.into_iter().map(carried).collect());
        }
        Verb::Delete | Verb::Restore => {
            let incidents = trash::delete_held(write, going, jobs, decision).await?;
            let carried = |letter: &LetterId| Carried {
                decided: Decided::Done,
                job: jobs.get(letter).copied(),
                incident: incidents.get(letter).copied(),
            };
            return Ok(going.iter().map(|(letter, _)| carried(letter)).collect());
        }
    };
    let mut moves: BTreeMap<(Status, Status), Vec<LetterId>> = BTreeMap::new();
    for (letter, standing) in going {
        let Ok(Next::Moves { status, .. }) = standing.after(decision.verb.action()) else {
            return Err(StoreError::Corrupt(format!("letter {letter} is {standing} and can be decided")));
        };
        moves.entry((standing.status, status)).or_default().push(*letter);
    }
    for ((from, to), letters) in moves {
        move_all(write, &letters, from, to, mark, decision.at).await?;
    }
    let of_jobs = || going.iter().filter_map(|(letter, _)| Some((*letter, *jobs.get(letter)?)));
    match decision.verb {
        Verb::Resolve | Verb::Discard => withdraw(write, of_jobs().map(|(_, job)| job)).await?,
        Verb::Reopen => {
            for (letter, _) in of_jobs() {
                follow(write, letter, decision.at).await?;
            }
        }
        Verb::Hold | Verb::Release | Verb::Retry | Verb::Delete | Verb::Restore => {}
    }
    Ok(all_done())
}

/// Brings letters back that were listed before they were deleted, one by one: few are.
async fn restore_all(
    write: &mut Write,
    letters: &[(LetterId, u32)],
    decision: &Decision,
    operation: OperationId,
) -> Result<Vec<Listed>, StoreError> {
    let mut listed = Vec::with_capacity(letters.len());
    for (letter, life) in letters {
        listed.push(match trash::life(&write.conn, *letter).await? {
            None => Listed::Decided(Decided::Unknown),
            Some(now) if now != *life => Listed::OtherLife,
            Some(_) => Listed::Decided(carry_out(write, *letter, decision, Some(operation)).await?.0),
        });
    }
    Ok(listed)
}

/// In the order of ids, so that two instances that decide on the same letters never wait for each other in a circle.
const LOCK_LETTERS: &str = "
select l.id, l.life, l.status, l.place, l.held_at is not null
  from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at)
  join dead_letter_queue l on l.id = m.letter and l.created_at = m.begun_at
 order by l.id
   for no key update of l";

/// Locks letters until the commit; returns their lives and how they stand.
pub(in crate::postgres) async fn lock_letters(
    write: &Write,
    letters: &[LetterId],
) -> Result<HashMap<LetterId, (u32, Standing)>, StoreError> {
    let (ids, begun_at) = keys(letters.iter().copied());
    let mut held = HashMap::with_capacity(letters.len());
    for row in write.conn.query(LOCK_LETTERS, &[&ids, &begun_at]).await? {
        let standing = Standing {
            status: rows::status(row.cell(2)?)?,
            place: rows::place(row.cell(3)?)?,
            held: row.cell(4)?,
            content_kept: true,
        };
        held.insert(LetterId::from_bytes(row.id(0)?), (row.small(1)?, standing));
    }
    Ok(held)
}

/// What letters are found by.
fn keys(letters: impl Iterator<Item = LetterId>) -> (Vec<Uid>, Vec<At>) {
    letters.map(|letter| (Uid(*letter.bytes()), At(letter.at()))).unzip()
}

/// Moves letters that are held still from one state to another, with their counters.
pub(in crate::postgres) async fn move_all(
    write: &mut Write,
    letters: &[LetterId],
    from: Status,
    to: Status,
    mark: Mark<'_>,
    at: Time,
) -> Result<(), StoreError> {
    for counted in update(&write.conn, letters, from, to, mark, at).await? {
        count(write, counted, from, at);
    }
    Ok(())
}

async fn update(
    conn: &Conn,
    letters: &[LetterId],
    from: Status,
    to: Status,
    mark: Mark<'_>,
    at: Time,
) -> Result<Vec<Counted>, StoreError> {
    let (ids, begun_at) = keys(letters.iter().copied());
    let (from, to, at) = (from.name(), to.name(), At(at));
    let (set, marks) = set(mark);
    let mut binds: Vec<Bind<'_>> = vec![&ids, &begun_at, &from, &to, &at];
    binds.extend(marks.iter().map(|mark| mark.as_ref() as Bind<'_>));
    let sql = format!(
        "update dead_letter_queue l
            set status = $4, updated_at = $5 {set}
           from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at)
          where l.id = m.letter
            and l.created_at = m.begun_at
            and l.status = $3
        returning {}",
        rows::COUNTED_COLUMNS
    );
    let moved = conn.query(&sql, &binds).await?;
    if moved.len() != letters.len() {
        let count = letters.len();
        return Err(StoreError::Corrupt(format!("of {count} letters held still, {} moved", moved.len())));
    }
    moved.iter().map(|row| rows::counted(row, 0)).collect()
}
