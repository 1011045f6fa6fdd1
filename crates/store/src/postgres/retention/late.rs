//! Attempts that are reported of a letter while it is archived.
//!
//! What is in a file cannot be changed, and what waits may be on its way into one. So these attempts are kept beside the
//! letter, and added to it when it comes back.

use lazaret_core::attempt::Attempt;
use lazaret_core::id::LetterId;
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use crate::StoreError;
use crate::packing::{PreparedAttempt, open_error};
use crate::page::LifeAttempt;

const ADD: &str = "
insert into archive_attempts (letter, life, identity, at, duration_ms, error_type, error_code, message, detail)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (letter, identity) do nothing";

/// Keeps an attempt of an archived letter.
pub(super) async fn add(
    conn: &Conn,
    letter: LetterId,
    life: u32,
    attempt: &PreparedAttempt,
) -> Result<(), StoreError> {
    conn.execute(
        ADD,
        &[
            &Uid(*letter.bytes()),
            &(life as i32),
            &attempt.identity.0.as_slice(),
            &attempt.at.map(|ms| At(Time::from_ms(ms))),
            &attempt.duration_ms,
            &attempt.error_type,
            &attempt.error_code,
            &attempt.message,
            &attempt.detail,
        ],
    )
    .await?;
    Ok(())
}

/// What tells the attempts apart that were reported of an archived letter.
pub(super) async fn identities(conn: &Conn, letter: LetterId) -> Result<Vec<[u8; 16]>, StoreError> {
    let sql = "select identity from archive_attempts where letter = $1";
    conn.query(sql, &[&Uid(*letter.bytes())]).await?.iter().map(|row| row.bytes(0)).collect()
}

const READ: &str = "
select life, at, duration_ms, error_type, error_code, message, detail
  from archive_attempts
 where letter = $1
 order by late";

/// The attempts that were reported of an archived letter, numbered from 1.
pub(super) async fn read(conn: &Conn, letter: LetterId) -> Result<Vec<LifeAttempt>, StoreError> {
    let mut attempts = Vec::new();
    for row in conn.query(READ, &[&Uid(*letter.bytes())]).await? {
        let (error, extra) = open_error(row.cell(3)?, row.cell(4)?, row.cell(5)?, row.cell(6)?)?;
        let duration_ms = row.cell::<Option<i64>>(2)?.map(|ms| ms as u64);
        let attempt = Attempt { at: row.time_opt(1)?, duration_ms, error, extra };
        attempts.push(LifeAttempt { ordinal: attempts.len() as u32 + 1, life: row.small(0)?, attempt });
    }
    Ok(attempts)
}

/// Ordinals go on behind those of the letter, and behind those that stand in files.
const BRING: &str = "
insert into attempts (letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail)
select a.letter,
       (greatest((select coalesce(max(ordinal), 0) from attempts where letter = $1),
                 (select coalesce(sum(length(attempts)), 0) / 16 from archive_rows where letter = $1))
         + row_number() over (order by a.late))::integer,
       a.life, a.identity, a.at, a.duration_ms, a.error_type, a.error_code, a.message, a.detail
  from archive_attempts a
 where a.letter = $1";

/// Adds them to a letter that is among the live ones again. They leave the archive with it.
pub(super) async fn bring(conn: &Conn, letter: LetterId) -> Result<(), StoreError> {
    conn.execute(BRING, &[&Uid(*letter.bytes())]).await?;
    Ok(())
}
