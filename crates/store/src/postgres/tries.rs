//! Failed deliveries of outbox relays, kept until their row is delivered or they are too old.

use std::collections::HashMap;

use lazaret_core::attempt::Attempt;
use lazaret_core::key::CaptureKey;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::cell::{At, Cells};
use super::conn::Conn;
use super::insert::column;
use super::writer::Write;
use crate::StoreError;
use crate::packing::open_error;
use crate::source_store::PackedTry;

const KEEP: &str = "
insert into relay_tries (key, at, duration_ms, error_type, error_code, message, detail)
select t.key, t.at, t.duration_ms, t.error_type, t.error_code, t.message, t.detail
  from unnest($1::bytea[], $2::timestamptz[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bytea[])
    as t (key, at, duration_ms, error_type, error_code, message, detail)
    on conflict (key, at) do nothing";

pub(super) async fn keep(write: &Write, tries: &[PackedTry], forget_before: Time) -> Result<(), StoreError> {
    write
        .conn
        .execute(
            KEEP,
            &[
                &column(tries, |one| one.key.0.as_slice()),
                &column(tries, |one| At(one.at)),
                &column(tries, |one| one.attempt.duration_ms),
                &column(tries, |one| one.attempt.error_type.as_str()),
                &column(tries, |one| one.attempt.error_code.as_deref()),
                &column(tries, |one| one.attempt.message.as_str()),
                &column(tries, |one| one.attempt.detail.as_deref()),
            ],
        )
        .await?;
    write.conn.execute("delete from relay_tries where at < $1", &[&At(forget_before)]).await?;
    Ok(())
}

pub(super) async fn forget(write: &Write, keys: &[CaptureKey]) -> Result<(), StoreError> {
    let keys = column(keys, |key| key.0.as_slice());
    write.conn.execute("delete from relay_tries where key = any($1::bytea[])", &[&keys]).await?;
    Ok(())
}

const READ: &str = "
select k.key, t.at, t.duration_ms, t.error_type, t.error_code, t.message, t.detail
  from unnest($1::bytea[]) as k (key)
 cross join lateral (select * from relay_tries r where r.key = k.key order by r.at desc limit $2) t
 order by t.at";

pub(super) async fn read(conn: &Conn, keys: &[CaptureKey]) -> Result<Vec<Vec<Attempt>>, StoreError> {
    let bytes = column(keys, |key| key.0.as_slice());
    let mut found: HashMap<Vec<u8>, Vec<Attempt>> = HashMap::new();
    for row in conn.query(READ, &[&bytes, &(limits::ATTEMPTS_MAX as i64)]).await? {
        let (error, extra) = open_error(row.cell(3)?, row.cell(4)?, row.cell(5)?, row.cell(6)?)?;
        let duration_ms = row.cell::<Option<i64>>(2)?.map(|ms| ms as u64);
        let attempt = Attempt { at: Some(row.time(1)?), duration_ms, error, extra };
        found.entry(row.cell::<&[u8]>(0)?.to_vec()).or_default().push(attempt);
    }
    Ok(keys.iter().map(|key| found.get(key.0.as_slice()).cloned().unwrap_or_default()).collect())
}
