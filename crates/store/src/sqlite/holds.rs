//! Holds where SQLite differs: numbers are written at once, and the writer knows the standing holds by heart.

pub(super) mod standing;

use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::letter::Letter;
use lazaret_core::time::Time;

use super::writer::Write;
use crate::StoreError;
use crate::decision::Decision;
use crate::engine::holds;
use crate::seam::ready;

/// Adds to the number of letters under a hold.
pub(super) fn count(write: &Write, hold: HoldId, by: i64) -> Result<(), StoreError> {
    let mut statement = write.conn.prepare_cached("update holds set letters = letters + ?2 where id = ?1")?;
    statement.execute((hold.bytes(), by))?;
    Ok(())
}

const END: &str = "
update holds
   set state = 'released', released_by = coalesce(released_by, ?2), released_at = coalesce(released_at, ?3),
       release_reason = iif(released_at is null, ?4, release_reason)
 where id = ?1
   and state <> 'released'";

/// Ends a hold that was on one letter, which is free.
pub(super) fn end(write: &Write, hold: HoldId, decision: &Decision) -> Result<(), StoreError> {
    let binds = (hold.bytes(), &decision.actor.name, decision.at.ms(), &decision.reason);
    write.conn.prepare_cached(END)?.execute(binds)?;
    Ok(())
}

/// Notes that an operation has held all its letters.
pub(super) fn end_placing(write: &Write, operation: OperationId) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached("update holds set state = 'standing' where id = ?1 and state = 'placing'")?
        .execute([operation.bytes()])?;
    Ok(())
}

/// Sees to a letter that is live again: it is under the holds that it was under, and under those that stand for letters
/// to come.
pub(super) fn came_back(write: &mut Write, letter: LetterId, at: Time) -> Result<(), StoreError> {
    ready(holds::show(write, &[letter], Some(at)))?;
    standing::catch(write, letter, at)
}

/// Sees to a letter that was put in as it was elsewhere. The hold that it came with is one on this letter here.
pub(super) fn imported(write: &mut Write, letter: &Letter, at: Time) -> Result<(), StoreError> {
    if let Some(hold) = &letter.hold {
        ready(holds::add_imported(write, &[(letter.id, hold)]))?;
    }
    standing::catch(write, letter.id, at)
}

/// Forgets all of them.
pub(super) fn empty(write: &Write) -> Result<(), StoreError> {
    write.conn.execute_batch("delete from hold_letters; delete from holds;")?;
    write.standing.change();
    Ok(())
}
