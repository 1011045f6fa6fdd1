//! Operations: a selection frozen in chunks, then a decision worked off on it in chunks. The rows are the progress.
//!
//! Whoever freezes or works locks the operation's row from its first look to the commit: a second instance waits, and then
//! goes on where the first one ended. Which letters match, and how many are decided at once, is up to the stores.

use async_trait::async_trait;
use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::redrives::plan::drop_overdue;
use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::decision::{
    Decision, Expected, NewOperation, Operation, OperationState, Operations, Skipped, Verb,
};
use crate::redrive::Overdue;
use crate::seam::{Backend, Conn, Lane, Row, Sql, Table, Tx, View, binds, sql, table};

#[async_trait]
impl<S: Backend> Operations for S {
    async fn open_operation(&self, operation: NewOperation) -> Result<(), StoreError> {
        self.write(Lane::Quick(1), operation, |tx, operation| Box::pin(open(tx, operation))).await
    }

    async fn freeze(&self, operation: OperationId) -> Result<Operation, StoreError> {
        let lane = Lane::Long(limits::FREEZE_ROWS_PER_WRITE);
        let frozen = self.write(lane, operation, |tx, id| Box::pin(freeze(tx, *id))).await?;
        if frozen.state == OperationState::Refused {
            drop_lists(self).await?;
        }
        Ok(frozen)
    }

    async fn working_operations(&self, limit: usize) -> Result<Vec<OperationId>, StoreError> {
        self.read(View::Newest, limit, |conn, limit| Box::pin(working(conn, *limit))).await
    }

    async fn drop_unfrozen(&self, opened_before: Time) -> Result<u64, StoreError> {
        // Asked for every minute, so a reader looks first: mostly there is none.
        if !self
            .read(View::Newest, opened_before, |conn, before| Box::pin(is_unfrozen(conn, *before)))
            .await?
        {
            return Ok(0);
        }
        let ended = self
            .write(Lane::Quick(1), opened_before, |tx, before| Box::pin(end_unfrozen(tx, *before)))
            .await?;
        drop_lists(self).await?;
        Ok(ended + drop_overdue(self, Overdue::Abandoned(opened_before)).await?)
    }

    async fn operation(&self, id: OperationId) -> Result<Option<Operation>, StoreError> {
        self.read(View::Newest, id, |conn, id| Box::pin(operation(conn, *id))).await
    }

    async fn skipped(&self, id: OperationId, limit: usize) -> Result<Vec<Skipped>, StoreError> {
        self.read(View::Newest, (id, limit), |conn, (id, limit)| Box::pin(skipped(conn, *id, *limit))).await
    }
}

const OPEN: Sql = sql!(
    "
insert into operations (id, action, state, actor, reason, filter, expected, opened_at, at_most, role, request, floor_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
);

pub(crate) async fn open(tx: &mut impl Tx, operation: &NewOperation) -> Result<(), StoreError> {
    let NewOperation { id, decision, filter, expected } = operation;
    let values = binds![
        *id,
        decision.verb,
        OperationState::Freezing,
        &decision.actor.name,
        decision.reason.as_deref(),
        filter.to_string(),
        expected.number(),
        decision.at,
        matches!(expected, Expected::AtMost(_)),
        &decision.actor.role,
        decision.actor.request.as_deref(),
        decision.floor_ms,
    ];
    tx.execute(&OPEN, values).await?;
    Ok(())
}

pub(super) const OPERATIONS: Table = table!(
    "operations": "id", "action", "state", "actor", "reason", "filter", "expected", "total", "done", "skipped",
    "opened_at", "finished_at", "at_most", "floor_ms"
);

fn read(row: &Row<'_>) -> Result<Operation, StoreError> {
    let expected: u64 = row.get("expected")?;
    Ok(Operation {
        id: row.get("id")?,
        verb: row.get("action")?,
        state: row.get("state")?,
        actor: row.get("actor")?,
        reason: row.get("reason")?,
        filter: row.get("filter")?,
        total: row.get("total")?,
        done: row.get("done")?,
        skipped: row.get("skipped")?,
        opened_at: row.get("opened_at")?,
        finished_at: row.get("finished_at")?,
        expected: match row.get("at_most")? {
            true => Expected::AtMost(expected),
            false => Expected::Exactly(expected),
        },
        floor_ms: row.get("floor_ms")?,
    })
}

const FIND: Sql = sql!("select {} from operations where id = $1", OPERATIONS);

async fn operation(conn: &mut impl Conn, id: OperationId) -> Result<Option<Operation>, StoreError> {
    conn.query_opt(&FIND, binds![id], read).await
}

/// A place in the order of deaths.
pub(crate) type DeathKey = (Time, LetterId);

/// Some letters that match a filter, in order of death.
pub(crate) struct MatchingChunk {
    pub letters: Vec<LetterId>,
    /// The last one that was looked at, matching or not.
    pub end: Option<DeathKey>,
    /// Whether there are no more behind it.
    pub complete: bool,
}

const LOCK: Sql = sql!(
    "
select {}, frozen_died_at, frozen_id
  from operations
 where id = $1
{postgres for no key update}",
    OPERATIONS
);

/// Locks an operation until the commit; returns it, and how far it was frozen.
async fn lock_operation(
    tx: &mut impl Tx,
    id: OperationId,
) -> Result<(Operation, Option<DeathKey>), StoreError> {
    let values = binds![id];
    let found = tx.query_opt(&LOCK, values, |row| {
        let (operation, died_at) = (read(row)?, row.get::<Option<Time>>("frozen_died_at")?);
        Ok((operation, died_at.zip(row.get("frozen_id")?)))
    });
    found.await?.ok_or_else(|| StoreError::Corrupt(format!("operation {id} is gone")))
}

/// What a chunk of a list came to.
pub(crate) struct FrozenChunk {
    /// How many letters it added to the list.
    pub added: u64,
    /// The last letter that was looked at, matching or not.
    pub end: Option<DeathKey>,
    /// Whether there are no more behind it.
    pub complete: bool,
}

const FROZEN: Sql = sql!(
    "
update operations
   set total = $2, state = $3, frozen_died_at = coalesce($4, frozen_died_at), frozen_id = coalesce($5, frozen_id),
       finished_at = $6, left_over = $7
 where id = $1
returning {}",
    OPERATIONS
);

/// Takes down the next chunk in order of death, from where the last one ended.
pub(crate) async fn freeze(tx: &mut impl Tx, id: OperationId) -> Result<Operation, StoreError> {
    let (operation, last) = lock_operation(tx, id).await?;
    if operation.state != OperationState::Freezing {
        return Ok(operation);
    }
    let filter = Filter::from_text(&operation.filter).map_err(|error| {
        StoreError::Corrupt(format!("the filter of operation {id} cannot be read: {error}"))
    })?;
    let chunk = tx.select_chunk(&operation, &filter, last).await?;
    let total = operation.total + chunk.added;
    let state = operation.expected.after_chunk(total, chunk.complete);
    let ended = matches!(state, OperationState::Refused | OperationState::Done);
    let left_over = if state == OperationState::Refused { total } else { 0 };
    let values = binds![
        id,
        total,
        state,
        chunk.end.map(|(died_at, _)| died_at),
        chunk.end.map(|(_, letter)| letter),
        ended.then_some(operation.opened_at),
        left_over,
    ];
    let after = tx.query_one(&FROZEN, values, read).await?;
    if state != OperationState::Freezing {
        add_entry(tx, &operation, state, total).await?;
    }
    Ok(after)
}

const ASKED_BY: Sql = sql!("select role, request from operations where id = $1");

/// Puts an operation on record with the number of letters that were found, in the commit that decides whether it is carried
/// out: the log never shows a decision that was refused as one that was taken.
async fn add_entry(
    tx: &mut impl Tx,
    operation: &Operation,
    state: OperationState,
    count: u64,
) -> Result<(), StoreError> {
    let asked_by = |row: &Row<'_>| Ok((row.get::<Option<String>>("role")?, row.get("request")?));
    let (role, request) = tx.query_one(&ASKED_BY, binds![operation.id], asked_by).await?;
    let actor = Actor { name: operation.actor.clone(), role: role.unwrap_or_default(), request };
    let action = operation.audit_action(state);
    tx.add_audit(&NewEntry {
        operation: Some(operation.id),
        filter: Some(&operation.filter),
        count,
        reason: operation.reason.as_deref(),
        ..NewEntry::new(&actor, &action, operation.opened_at)
    })
}

const WORKED: Sql = sql!(
    "
update operations
   set done = done + $2, skipped = skipped + $3, state = $4, finished_at = $5
 where id = $1
returning {}",
    OPERATIONS
);

/// Decides the next chunk; a letter that cannot be decided is skipped with the reason.
pub(crate) async fn work(tx: &mut impl Tx, id: OperationId, at: Time) -> Result<Operation, StoreError> {
    let (operation, _) = lock_operation(tx, id).await?;
    if operation.state != OperationState::Working {
        return Ok(operation);
    }
    let decision = Decision {
        verb: operation.verb,
        actor: Actor { name: operation.actor.clone(), role: String::new(), request: None },
        reason: operation.reason.clone(),
        at,
        from: None,
        floor_ms: operation.floor_ms,
    };
    let (done, skipped) = tx.decide_chunk(&operation, &decision).await?;
    let finished = operation.done + operation.skipped + done + skipped >= operation.total;
    let state = if finished { OperationState::Done } else { OperationState::Working };
    if finished && operation.verb == Verb::Hold {
        tx.end_placing(id).await?;
    }
    tx.query_one(&WORKED, binds![id, done, skipped, state, finished.then_some(at)], read).await
}

/// Returns true if a verb moves what letters hold, so that a chunk may take as long as that is large.
pub(crate) const fn moves_content(verb: Verb) -> bool {
    match verb {
        Verb::Retry | Verb::Delete | Verb::Restore => true,
        Verb::Resolve | Verb::Discard | Verb::Reopen | Verb::Hold | Verb::Release => false,
    }
}

const WORKING: Sql = sql!(
    "
select id
  from operations{sqlite  indexed by operations_open}
 where state = 'working'
 order by opened_at, id
 limit $1"
);

async fn working(conn: &mut impl Conn, limit: usize) -> Result<Vec<OperationId>, StoreError> {
    conn.query(&WORKING, binds![limit], |row| row.get("id")).await
}

const IS_UNFROZEN: Sql = sql!(
    "
select exists (select 1 from operations where state = $1 and opened_at < $2)
    or exists (select 1 from operations where left_over > 0)
    or exists (select 1
                 from redrives
                where state in ('planning', 'planned')
                  and state = 'planning'
                  and updated_at < $2) as found"
);

async fn is_unfrozen(conn: &mut impl Conn, opened_before: Time) -> Result<bool, StoreError> {
    conn.query_one(&IS_UNFROZEN, binds![OperationState::Freezing, opened_before], |row| row.get("found"))
        .await
}

const END_UNFROZEN: Sql = sql!(
    "
update operations
   set state = $1, finished_at = $2, left_over = total
 where state = $3
   and opened_at < $2
returning {}",
    OPERATIONS
);

/// Who freezes one now has committed its chunk before this is done.
async fn end_unfrozen(tx: &mut impl Tx, opened_before: Time) -> Result<u64, StoreError> {
    let (refused, freezing) = (OperationState::Refused, OperationState::Freezing);
    let dropped = tx.query(&END_UNFROZEN, binds![refused, opened_before, freezing], read).await?;
    for operation in &dropped {
        add_entry(tx, operation, refused, operation.total).await?;
    }
    Ok(dropped.len() as u64)
}

/// Drops the lists of refused operations chunk by chunk: other writes come in between, and a caller that goes away leaves
/// the rest to the next one.
pub(crate) async fn drop_lists(store: &impl Backend) -> Result<(), StoreError> {
    let lane = Lane::Long(limits::FREEZE_ROWS_PER_WRITE);
    while store.write(lane, (), |tx, ()| Box::pin(drop_chunk(tx))).await? {}
    Ok(())
}

/// What somebody else drops now is theirs.
const LEFT_OVER: Sql = sql!(
    "
select id
  from operations{sqlite  indexed by operations_left_over}
 where left_over > 0
 order by opened_at, id
 limit 1
{postgres for update skip locked}"
);

const DROP_CHUNK: Sql = sql!(
    "
delete from selections
 where operation = $1
   and ordinal <= (select min(ordinal) - 1 + $2 from selections where operation = $1)"
);

const DROPPED: Sql = sql!(
    "
update operations
   set left_over = case when $2{postgres ::bigint} = 0 then 0 else left_over - $2 end
 where id = $1"
);

/// Drops a bounded part of a refused list; says whether there was one.
async fn drop_chunk(tx: &mut impl Tx) -> Result<bool, StoreError> {
    let left_over = tx.query_opt(&LEFT_OVER, &[], |row| row.get::<OperationId>("id")).await?;
    let Some(id) = left_over else { return Ok(false) };
    let dropped = tx.execute(&DROP_CHUNK, binds![id, limits::FREEZE_ROWS_PER_WRITE]).await?;
    tx.execute(&DROPPED, binds![id, dropped]).await?;
    Ok(true)
}

const SKIPPED: Sql = sql!(
    "
select letter, outcome
  from selections
 where operation = $1
   and outcome <> 'done'
 order by ordinal
 limit $2"
);

async fn skipped(conn: &mut impl Conn, id: OperationId, limit: usize) -> Result<Vec<Skipped>, StoreError> {
    conn.query(&SKIPPED, binds![id, limit], |row| {
        Ok(Skipped { letter: row.get("letter")?, reason: row.get("outcome")? })
    })
    .await
}
