//! Holding and freeing letters by a decision, one by one or by a list.

use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::lifecycle::{Action, Place, Refused, Standing};

use super::super::cell::{At, Bind, Cells, Uid};
use super::super::rows;
use super::super::trash::Carried;
use super::super::verdicts;
use super::super::writer::Write;
use super::place::{Single, add_single};
use super::{put_under, show};
use crate::StoreError;
use crate::decision::{Decided, Decision};

const LIVE: &str = "
select status, held_at is not null
  from dead_letter_queue
 where id = $1
   and created_at = $2
   for no key update";

const ARCHIVED: &str = "
select status, held_at is not null
  from archive
 where id = $1
   and place = $2
   for no key update";

/// How a letter stands, wherever it is; a live or archived one stands still until the commit.
pub(super) async fn find(write: &Write, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    let id = Uid(*letter.bytes());
    let (begun_at, archived) = (At(letter.at()), Place::Archived.name());
    let looks: [(&str, Place, [Bind<'_>; 2]); 2] =
        [(LIVE, Place::Live, [&id, &begun_at]), (ARCHIVED, Place::Archived, [&id, &archived])];
    // Between two looks it may be archived, or come back: whoever moves it is waited for by the second.
    for (sql, place, binds) in looks.iter().chain(&looks) {
        if let Some(row) = write.conn.query_opt(sql, binds).await? {
            let (status, held) = (rows::status(row.cell(0)?)?, row.cell(1)?);
            return Ok(Some(Standing { status, place: *place, held, content_kept: true }));
        }
    }
    verdicts::standing(write, letter).await
}

/// Asks whether a letter may be held or freed; otherwise says how it stands.
async fn may(write: &Write, letter: LetterId, action: Action) -> Result<Decided, StoreError> {
    Ok(match find(write, letter).await? {
        None => Decided::Unknown,
        Some(standing) if standing.after(action).is_err() => Decided::Refused(Refused { action, standing }),
        Some(_) => Decided::Done,
    })
}

/// Puts a hold of its own on a letter.
pub(in crate::postgres) async fn hold(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let decided = may(write, letter, Action::Hold).await?;
    if decided == Decided::Done {
        let id = HoldId::mint(decision.at, write.entropy.take()?);
        let reason = decision.reason.as_deref().unwrap_or_default();
        let hold = Single { id, letter, reason, by: &decision.actor.name, at: decision.at, until: None };
        add_single(write, &[hold]).await?;
        show(write, &[letter], Some(decision.at)).await?;
    }
    Ok(Carried::only(decided))
}

/// Frees a letter from all its holds.
pub(in crate::postgres) async fn release(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let decided = may(write, letter, Action::Release).await?;
    if decided == Decided::Done {
        release_all(write, &[letter], decision).await?;
    }
    Ok(Carried::only(decided))
}

const LEAVE_ALL: &str = "
with gone as (delete from hold_letters
               where letter = any($1)
           returning hold)
select g.hold, h.letter is not null, count(*)
  from gone g
  join holds h on h.id = g.hold
 group by g.hold, h.letter is not null";

/// Frees letters that are held still from all their holds. One that was on the letter alone is over.
pub(in crate::postgres) async fn release_all(
    write: &mut Write,
    letters: &[LetterId],
    decision: &Decision,
) -> Result<(), StoreError> {
    let ids: Vec<Uid> = letters.iter().map(|letter| Uid(*letter.bytes())).collect();
    for row in write.conn.query(LEAVE_ALL, &[&ids]).await? {
        let (hold, of_one, letters) = (HoldId::from_bytes(row.id(0)?), row.cell(1)?, row.cell::<i64>(2)?);
        write.holds.count(hold, -letters);
        if of_one {
            write.holds.end(hold, decision);
        }
    }
    show(write, letters, Some(decision.at)).await?;
    Ok(())
}

const OF_OPERATION: &str = "
insert into holds (id, state, standing, filter, reason, held_by, held_at)
select id, 'standing', false, filter, coalesce(reason, ''), actor, opened_at
  from operations
 where id = $1
on conflict (id) do nothing";

/// Sees to it that an operation that holds letters has its hold.
pub(in crate::postgres) async fn open_for(write: &Write, operation: OperationId) -> Result<(), StoreError> {
    write.conn.execute(OF_OPERATION, &[&Uid(*operation.bytes())]).await?;
    Ok(())
}

const STANDS: &str = "
select exists (select 1
                 from holds
                where id = $1
                  and state in ('placing', 'standing'))";

/// Whether the hold of an operation is in force. If so it is until the commit: such a hold ends only while nobody else
/// writes.
pub(in crate::postgres) async fn stands(write: &Write, operation: OperationId) -> Result<bool, StoreError> {
    write.conn.query_one(STANDS, &[&Uid(*operation.bytes())]).await?.cell(0)
}

/// Puts letters that are held still under the one hold of an operation.
pub(in crate::postgres) async fn hold_all(
    write: &mut Write,
    letters: &[LetterId],
    decision: &Decision,
    operation: OperationId,
) -> Result<(), StoreError> {
    let hold = HoldId::from_bytes(*operation.bytes());
    let under: Vec<(LetterId, HoldId)> = letters.iter().map(|letter| (*letter, hold)).collect();
    put_under(write, &under).await?;
    show(write, letters, Some(decision.at)).await?;
    Ok(())
}

/// Puts a letter under the hold of an operation that is no longer where it was listed: a hold is on it wherever it went.
pub(in crate::postgres) async fn hold_gone(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    operation: OperationId,
) -> Result<Decided, StoreError> {
    let decided = may(write, letter, Action::Hold).await?;
    if decided == Decided::Done {
        hold_all(write, &[letter], decision, operation).await?;
    }
    Ok(decided)
}
