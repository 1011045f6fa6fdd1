//! Attempts that are reported of a letter while it is archived.
//!
//! What is in a file cannot be changed, and what waits may be on its way into one. So these attempts are kept beside the
//! letter, and added to it when it comes back.

use lazaret_core::attempt::Attempt;
use lazaret_core::id::LetterId;
use lazaret_core::time::Time;
use rusqlite::Connection;

use crate::StoreError;
use crate::packing::{PreparedAttempt, open_error};
use crate::page::LifeAttempt;

const ADD: &str = "
insert into archive_attempts (letter, life, identity, at, duration_ms, error_type, error_code, message, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    on conflict (letter, identity) do nothing";

/// Keeps an attempt of an archived letter.
pub(super) fn add(
    conn: &Connection,
    letter: LetterId,
    life: u32,
    attempt: &PreparedAttempt,
) -> Result<(), StoreError> {
    conn.prepare_cached(ADD)?.execute((
        letter.bytes(),
        life,
        attempt.identity.0,
        attempt.at,
        attempt.duration_ms,
        &attempt.error_type,
        &attempt.error_code,
        &attempt.message,
        &attempt.detail,
    ))?;
    Ok(())
}

/// What tells the attempts apart that were reported of an archived letter.
pub(super) fn identities(conn: &Connection, letter: LetterId) -> Result<Vec<[u8; 16]>, StoreError> {
    let mut statement = conn.prepare_cached("select identity from archive_attempts where letter = ?1")?;
    let found = statement.query_map([letter.bytes()], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

const READ: &str = "
select life, at, duration_ms, error_type, error_code, message, detail
  from archive_attempts
 where letter = ?1
 order by late";

/// The attempts that were reported of an archived letter, numbered from 1.
pub(super) fn read(conn: &Connection, letter: LetterId) -> Result<Vec<LifeAttempt>, StoreError> {
    let mut statement = conn.prepare_cached(READ)?;
    let mut rows = statement.query([letter.bytes()])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        let detail: Option<Vec<u8>> = row.get(6)?;
        let (error, extra) = open_error(row.get(3)?, row.get(4)?, row.get(5)?, detail.as_deref())?;
        let attempt = Attempt {
            at: row.get::<_, Option<i64>>(1)?.map(Time::from_ms),
            duration_ms: row.get::<_, Option<i64>>(2)?.map(|ms| ms as u64),
            error,
            extra,
        };
        attempts.push(LifeAttempt { ordinal: attempts.len() as u32 + 1, life: row.get(0)?, attempt });
    }
    Ok(attempts)
}

/// Ordinals go on behind those of the letter, and behind those that stand in files.
const BRING: &str = "
insert into attempts (letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail)
select l.letter,
       max((select coalesce(max(ordinal), 0) from attempts where letter = l.letter),
           (select coalesce(sum(length(attempts)), 0) / 16 from archive_rows where letter = l.id))
         + row_number() over (order by a.late),
       a.life, a.identity, a.at, a.duration_ms, a.error_type, a.error_code, a.message, a.detail
  from archive_attempts a
  join dead_letter_queue l on l.id = a.letter
 where a.letter = ?1";

/// Adds them to a letter that is among the live ones again. They leave the archive with it.
pub(in crate::sqlite) fn bring(conn: &Connection, letter: LetterId) -> Result<(), StoreError> {
    conn.prepare_cached(BRING)?.execute([letter.bytes()])?;
    Ok(())
}
