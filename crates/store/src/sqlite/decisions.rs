//! What was decided on one letter: here, one by one or as one of many, and in the store it came from.

use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::limits;
use rusqlite::Connection;

use super::writer::Write;
use crate::StoreError;
use crate::engine::decisions::{DECISIONS, read};
use crate::seam::Row;
use crate::transfer::DecisionRecord;

/// Oldest first. Of what a rule did the last time is told, and how often it did it.
pub(super) fn of_letter(conn: &Connection, letter: LetterId) -> Result<Vec<DecisionRecord>, StoreError> {
    let mut statement = conn.prepare_cached(DECISIONS.sqlite)?;
    let mut found = statement.query((letter.bytes(), limits::DECISIONS_SHOWN_MAX as i64))?;
    let mut decisions = Vec::new();
    while let Some(row) = found.next()? {
        decisions.push(read(&Row::of_sqlite(row))?);
    }
    Ok(decisions)
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
