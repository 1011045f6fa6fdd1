//! Holding and freeing letters by a decision, one by one or by a list.

use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::lifecycle::{Action, Refused};

use super::place::NewRecord;
use super::{put_under, show};
use crate::StoreError;
use crate::decision::{Decided, Decision};
use crate::hold::HoldState;
use crate::seam::{Conn, Row, Sql, Tx, binds, sql};

/// Asks whether a letter may be held or freed; otherwise says how it stands. The letter is locked.
async fn may(tx: &mut impl Tx, letter: LetterId, action: Action) -> Result<Decided, StoreError> {
    Ok(match tx.lock_standing(letter).await? {
        None => Decided::Unknown,
        Some(standing) if standing.after(action).is_err() => Decided::Refused(Refused { action, standing }),
        Some(_) => Decided::Done,
    })
}

/// Puts a hold of its own on a letter.
pub(crate) async fn hold(
    tx: &mut impl Tx,
    letter: LetterId,
    decision: &Decision,
) -> Result<Decided, StoreError> {
    let decided = may(tx, letter, Action::Hold).await?;
    if decided == Decided::Done {
        let record = NewRecord {
            id: HoldId::mint(decision.at, tx.entropy()?),
            state: HoldState::Standing,
            standing: false,
            filter: None,
            letter: Some(letter),
            reason: decision.reason.as_deref().unwrap_or_default(),
            by: &decision.actor.name,
            at: decision.at,
            until: None,
        };
        record.add(tx).await?;
        put_under(tx, &[(letter, record.id)]).await?;
        show(tx, &[letter], Some(decision.at)).await?;
    }
    Ok(decided)
}

/// Frees a letter from all its holds.
pub(crate) async fn release(
    tx: &mut impl Tx,
    letter: LetterId,
    decision: &Decision,
) -> Result<Decided, StoreError> {
    let decided = may(tx, letter, Action::Release).await?;
    if decided == Decided::Done {
        release_listed(tx, &[letter], decision).await?;
    }
    Ok(decided)
}

const HOLDS_OF: Sql = sql!(
    "
select u.hold, h.letter is not null as of_one, count(*) as letters
  from hold_letters u
  join holds h on h.id = u.hold
 where u.letter {any $1}
 group by u.hold, h.letter is not null"
);

const LEAVE_ALL: Sql = sql!("delete from hold_letters where letter {any $1}");

/// Frees locked letters from all their holds. One that was on the letter alone is over.
pub(crate) async fn release_listed(
    tx: &mut impl Tx,
    letters: &[LetterId],
    decision: &Decision,
) -> Result<(), StoreError> {
    let read = |row: &Row<'_>| -> Result<(HoldId, bool, i64), StoreError> {
        Ok((row.get("hold")?, row.get("of_one")?, row.get("letters")?))
    };
    let holds = tx.query(&HOLDS_OF, binds![letters], read).await?;
    tx.execute(&LEAVE_ALL, binds![letters]).await?;
    for (hold, of_one, letters) in holds {
        tx.count_held(hold, -letters).await?;
        if of_one {
            tx.end_hold(hold, decision).await?;
        }
    }
    show(tx, letters, Some(decision.at)).await?;
    Ok(())
}

const OF_OPERATION: Sql = sql!(
    "
insert into holds (id, state, standing, filter, reason, held_by, held_at)
select id, 'standing', {sqlite 0}{postgres false}, filter, coalesce(reason, ''), actor, opened_at
  from operations
 where id = $1
on conflict (id) do nothing"
);

/// Sees to it that an operation that holds letters has its hold.
pub(crate) async fn open_for_operation(tx: &mut impl Tx, operation: OperationId) -> Result<(), StoreError> {
    tx.execute(&OF_OPERATION, binds![operation]).await?;
    Ok(())
}

const IN_FORCE: Sql = sql!("select 1 as one from holds where id = $1 and state in ('placing', 'standing')");

/// Whether the hold of an operation is in force. If so it is until the commit: such a hold ends only while nobody else
/// writes.
pub(crate) async fn is_in_force(conn: &mut impl Conn, operation: OperationId) -> Result<bool, StoreError> {
    Ok(conn.query_opt(&IN_FORCE, binds![operation], |_| Ok(())).await?.is_some())
}

/// Puts locked letters under the one hold of an operation.
pub(crate) async fn hold_listed(
    tx: &mut impl Tx,
    letters: &[LetterId],
    decision: &Decision,
    operation: OperationId,
) -> Result<(), StoreError> {
    let hold = HoldId::from_bytes(*operation.bytes());
    let under: Vec<(LetterId, HoldId)> = letters.iter().map(|letter| (*letter, hold)).collect();
    put_under(tx, &under).await?;
    show(tx, letters, Some(decision.at)).await?;
    Ok(())
}

/// Puts a letter under the hold of an operation, wherever it went since it was listed.
pub(crate) async fn hold_moved(
    tx: &mut impl Tx,
    letter: LetterId,
    decision: &Decision,
    operation: OperationId,
) -> Result<Decided, StoreError> {
    let decided = may(tx, letter, Action::Hold).await?;
    if decided == Decided::Done {
        hold_listed(tx, &[letter], decision, operation).await?;
    }
    Ok(decided)
}
