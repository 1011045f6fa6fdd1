//! Failed deliveries of outbox relays, kept until their row is delivered or they are too old.

use lazaret_core::attempt::Attempt;
use lazaret_core::key::CaptureKey;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::writer::Write;
use crate::StoreError;
use crate::packing::open_error;
use crate::source_store::PackedTry;

const KEEP: &str = "
insert into relay_tries (key, at, duration_ms, error_type, error_code, message, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    on conflict (key, at) do nothing";

pub(super) fn keep(write: &Write, tries: &[PackedTry], forget_before: Time) -> Result<(), StoreError> {
    for PackedTry { key, at, attempt } in tries {
        write.conn.prepare_cached(KEEP)?.execute((
            key.0,
            at.ms(),
            attempt.duration_ms,
            &attempt.error_type,
            &attempt.error_code,
            &attempt.message,
            &attempt.detail,
        ))?;
    }
    write.conn.prepare_cached("delete from relay_tries where at < ?1")?.execute([forget_before.ms()])?;
    Ok(())
}

pub(super) fn forget(write: &Write, keys: &[CaptureKey]) -> Result<(), StoreError> {
    for key in keys {
        write.conn.prepare_cached("delete from relay_tries where key = ?1")?.execute([key.0])?;
    }
    Ok(())
}

const READ: &str = "
select at, duration_ms, error_type, error_code, message, detail
  from relay_tries
 where key = ?1
 order by at desc
 limit ?2";

pub(super) fn read(conn: &Connection, key: &CaptureKey) -> Result<Vec<Attempt>, StoreError> {
    let mut statement = conn.prepare_cached(READ)?;
    let mut rows = statement.query((key.0, limits::ATTEMPTS_MAX as i64))?;
    let mut tries = Vec::new();
    while let Some(row) = rows.next()? {
        let detail: Option<Vec<u8>> = row.get(5)?;
        let (error, extra) = open_error(row.get(2)?, row.get(3)?, row.get(4)?, detail.as_deref())?;
        tries.push(Attempt {
            at: Some(Time::from_ms(row.get(0)?)),
            duration_ms: row.get::<_, Option<i64>>(1)?.map(|ms| ms as u64),
            error,
            extra,
        });
    }
    tries.reverse();
    Ok(tries)
}
