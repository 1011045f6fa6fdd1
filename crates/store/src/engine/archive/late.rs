//! Attempts of archived letters: those that were reported before, and those that are reported while it is archived.
//!
//! What is in a file cannot be changed, and what waits may be on its way into one. So attempts that come late are kept
//! beside the letter, and added to it when it comes back.

use std::collections::HashSet;

use lazaret_core::attempt::Attempt;
use lazaret_core::id::LetterId;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::packing::{PreparedAttempt, open_error};
use crate::page::LifeAttempt;
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};

pub(crate) const LATE: Table = table!(
    "archive_attempts": "life", "at", "duration_ms", "error_type", "error_code", "message", "detail"
);

const ADD: Sql = sql!(
    "
insert into archive_attempts (letter, identity, {})
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (letter, identity) do nothing",
    LATE
);

/// Keeps an attempt of an archived letter.
pub(crate) async fn add(
    tx: &mut impl Tx,
    letter: LetterId,
    life: u32,
    attempt: &PreparedAttempt,
) -> Result<(), StoreError> {
    let PreparedAttempt { identity, at, duration_ms, error_type, error_code, message, detail } = attempt;
    let (identity, at) = (identity.0.as_slice(), at.map(Time::from_ms));
    let (code, detail) = (error_code.as_deref(), detail.as_deref());
    tx.execute(&ADD, binds![letter, identity, life, at, *duration_ms, error_type, code, message, detail])
        .await?;
    Ok(())
}

const READ: Sql = sql!(
    "
select {}
  from archive_attempts
 where letter = $1
 order by late",
    LATE
);

/// The attempts that were reported of an archived letter, numbered from 1.
pub(super) async fn attempts(conn: &mut impl Conn, letter: LetterId) -> Result<Vec<LifeAttempt>, StoreError> {
    let read = |row: &Row<'_>| {
        let (life, at, duration_ms) = (row.get("life")?, row.get("at")?, row.get("duration_ms")?);
        let (error_type, code, message) =
            (row.get("error_type")?, row.get("error_code")?, row.get("message")?);
        let detail: Option<Vec<u8>> = row.get("detail")?;
        let (error, extra) = open_error(error_type, code, message, detail.as_deref())?;
        Ok(LifeAttempt { ordinal: 0, life, attempt: Attempt { at, duration_ms, error, extra } })
    };
    let found = conn.query(&READ, binds![letter], read).await?;
    Ok((1..).zip(found).map(|(ordinal, late)| LifeAttempt { ordinal, ..late }).collect())
}

/// Ordinals go on behind those of the letter, and behind those that stand in files.
const BRING: Sql = sql!(
    "
insert into attempts (letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail)
select {sqlite l}{postgres a}.letter,
       ({sqlite max}{postgres greatest}(
          (select coalesce(max(ordinal), 0) from attempts where letter = {sqlite l.letter}{postgres $1}),
          (select coalesce(sum(length(attempts)), 0) / 16 from archive_rows where letter = $1))
         + row_number() over (order by a.late)){postgres ::integer},
       a.life, a.identity, a.at, a.duration_ms, a.error_type, a.error_code, a.message, a.detail
  from archive_attempts a
  {sqlite join dead_letter_queue l on l.id = a.letter}
 where a.letter = $1"
);

/// Adds late attempts to a letter that is live again. They leave the archive with it.
pub(crate) async fn bring(tx: &mut impl Tx, letter: LetterId) -> Result<(), StoreError> {
    tx.execute(&BRING, binds![letter]).await?;
    Ok(())
}

/// Attempts of lives that stand in files, in the order of their ordinals, sixteen bytes each.
const AWAY: Sql = sql!(
    "
select attempts
  from archive_rows
 where letter = $1
 order by first_life"
);

/// The identities of attempts that stand in files; the first one has the ordinal 1.
pub(crate) async fn away(conn: &mut impl Conn, letter: LetterId) -> Result<Vec<[u8; 16]>, StoreError> {
    let mut identities = Vec::new();
    for bytes in conn.query(&AWAY, binds![letter], |row| row.get::<Vec<u8>>("attempts")).await? {
        let (whole, rest) = bytes.as_chunks::<16>();
        if !rest.is_empty() {
            return Err(StoreError::Corrupt(format!(
                "what is known of attempts of letter {letter} is cut off"
            )));
        }
        identities.extend_from_slice(whole);
    }
    Ok(identities)
}

const IN_STORE: Sql = sql!(
    "
select a.identity
  from trash t
  join trash_attempts a on a.letter = t.{sqlite letter}{postgres id}
 where t.id = $1
 union all
select identity
  from archive_attempts
 where letter = $1"
);

/// The identities of all attempts that were reported of an archived letter.
pub(crate) async fn known(conn: &mut impl Conn, letter: LetterId) -> Result<HashSet<[u8; 16]>, StoreError> {
    let mut known: HashSet<[u8; 16]> = away(conn, letter).await?.into_iter().collect();
    known.extend(conn.query(&IN_STORE, binds![letter], |row| row.get::<[u8; 16]>("identity")).await?);
    Ok(known)
}
