//! What was decided on one letter: here, one by one or as one of many, and in the store it came from.

use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::writer::Write;
use crate::StoreError;
use crate::transfer::DecisionRecord;

const DECISIONS: &str = "
select at, action, actor, role, reason, operation, 0 as imported
  from audit
 where letter = ?1
 union all
select a.at, a.action, a.actor, a.role, a.reason, a.operation, 0
  from selections s indexed by selections_by_letter
 cross join audit a on a.operation = s.operation
 where s.letter = ?1
   and s.outcome = 'done'
   and a.operation is not null
 union all
select last_at, 'replay', 'rule:' || rule, 'system', 'replay ' || count, null, 0
  from replays
 where letter = ?1
 union all
select at, action, actor, role, reason, operation, 1
  from past_decisions
 where letter = ?1
 order by at, imported desc
 limit ?2";

/// Oldest first. Of what a rule did the last time is told, and how often it did it.
pub(super) fn of_letter(conn: &Connection, letter: LetterId) -> Result<Vec<DecisionRecord>, StoreError> {
    let mut statement = conn.prepare_cached(DECISIONS)?;
    let found = statement.query_map((letter.bytes(), limits::DECISIONS_SHOWN_MAX as i64), |row| {
        Ok(DecisionRecord {
            at: Time::from_ms(row.get(0)?),
            action: row.get(1)?,
            actor: row.get(2)?,
            role: row.get(3)?,
            reason: row.get(4)?,
            operation: row.get::<_, Option<[u8; 16]>>(5)?.map(OperationId::from_bytes),
            imported: row.get(6)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

const ADD_PAST: &str = "
insert into past_decisions (letter, ordinal, at, action, actor, role, reason, operation)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// Keeps what was decided elsewhere apart from our own log, which tells only of what happened here.
pub(super) fn add_past(
    write: &Write,
    letter: LetterId,
    decisions: &[DecisionRecord],
) -> Result<(), StoreError> {
    let mut add = write.conn.prepare_cached(ADD_PAST)?;
    for (ordinal, decision) in (1_i64..).zip(decisions) {
        add.execute((
            letter.bytes(),
            ordinal,
            decision.at.ms(),
            &decision.action,
            &decision.actor,
            &decision.role,
            &decision.reason,
            decision.operation.as_ref().map(OperationId::bytes),
        ))?;
    }
    Ok(())
}
