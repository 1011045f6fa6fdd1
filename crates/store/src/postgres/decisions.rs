//! What was decided on one letter: here, one by one or as one of many, and in the store it came from.

use lazaret_core::id::LetterId;
use lazaret_core::limits;

use super::cell::{At, Uid, clean, clean_opt};
use super::conn::Conn;
use super::insert::{chunks, column};
use super::writer::Write;
use crate::StoreError;
use crate::engine::decisions::{DECISIONS, read};
use crate::seam::Row;
use crate::transfer::DecisionRecord;

/// Oldest first. Of what a rule did the last time is told, and how often it did it.
pub(super) async fn of_letter(conn: &Conn, letter: LetterId) -> Result<Vec<DecisionRecord>, StoreError> {
    let limit = limits::DECISIONS_SHOWN_MAX as i64;
    let found = conn.query(DECISIONS.postgres, &[&Uid(*letter.bytes()), &limit]).await?;
    found.iter().map(|row| read(&Row::of_postgres(row))).collect()
}

const ADD_PAST: &str = "
insert into past_decisions (letter, ordinal, at, action, actor, role, reason, operation)
select d.letter, d.ordinal, d.at, d.action, d.actor, d.role, d.reason, d.operation
  from unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[])
    as d (letter, ordinal, at, action, actor, role, reason, operation)";

/// Keeps what was decided elsewhere apart from our own log, which tells only of what happened here.
pub(super) async fn add_past(
    write: &Write,
    letters: &[(LetterId, &[DecisionRecord])],
) -> Result<(), StoreError> {
    let all: Vec<(LetterId, i32, &DecisionRecord)> = letters
        .iter()
        .flat_map(|(letter, past)| (1_i32..).zip(*past).map(|(ordinal, one)| (*letter, ordinal, one)))
        .collect();
    let bytes = |(_, _, one): &(LetterId, i32, &DecisionRecord)| {
        one.action.len() + one.actor.len() + one.role.len() + one.reason.as_ref().map_or(0, String::len)
    };
    for chunk in chunks(&all, bytes) {
        write
            .conn
            .execute(
                ADD_PAST,
                &[
                    &column(chunk, |(letter, _, _)| Uid(*letter.bytes())),
                    &column(chunk, |(_, ordinal, _)| *ordinal),
                    &column(chunk, |(_, _, one)| At(one.at)),
                    &column(chunk, |(_, _, one)| clean(&one.action)),
                    &column(chunk, |(_, _, one)| clean(&one.actor)),
                    &column(chunk, |(_, _, one)| clean(&one.role)),
                    &column(chunk, |(_, _, one)| clean_opt(one.reason.as_deref())),
                    &column(chunk, |(_, _, one)| one.operation.map(|id| Uid(*id.bytes()))),
                ],
            )
            .await?;
    }
    Ok(())
}
