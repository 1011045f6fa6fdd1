//! What was decided on one letter: here, one by one or as one of many, and in the store it came from.

use lazaret_core::id::LetterId;
use lazaret_core::limits;

use crate::StoreError;
use crate::seam::{Conn, Row, Sql, binds, sql};
use crate::transfer::DecisionRecord;

pub(crate) const DECISIONS: Sql = sql!(
    "
select at, action, actor, role, reason, operation, false as imported
  from audit
 where letter = $1
 union all
select a.at, a.action, a.actor, a.role, a.reason, a.operation, false
  from selections s{sqlite  indexed by selections_by_letter}
 {sqlite cross }join audit a on a.operation = s.operation
 where s.letter = $1
   and s.outcome = 'done'
   and a.operation is not null
 union all
select last_at, 'replay', 'rule:' || rule, 'system', 'replay ' || count, null, false
  from replays
 where letter = $1
 union all
select at, action, actor, role, reason, operation, true
  from past_decisions
 where letter = $1
 order by at, imported desc
 limit $2"
);

pub(crate) fn read(row: &Row<'_>) -> Result<DecisionRecord, StoreError> {
    Ok(DecisionRecord {
        at: row.get("at")?,
        action: row.get("action")?,
        actor: row.get("actor")?,
        role: row.get("role")?,
        reason: row.get("reason")?,
        operation: row.get("operation")?,
        imported: row.get("imported")?,
    })
}

/// Decisions on a letter, oldest first. Of what a replay rule did, the last time is told, and how often it did it.
pub(crate) async fn of_letter(
    conn: &mut impl Conn,
    letter: LetterId,
) -> Result<Vec<DecisionRecord>, StoreError> {
    conn.query(&DECISIONS, binds![letter, limits::DECISIONS_SHOWN_MAX], read).await
}
