//! Failed deliveries of outbox relays, kept until their row is delivered or they are too old.

use std::collections::HashMap;

use lazaret_core::attempt::Attempt;
use lazaret_core::key::CaptureKey;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::key_rows;
use crate::StoreError;
use crate::packing::open_error;
use crate::seam::{Conn, Row, Sql, Table, Tx, Value, binds, sql, table};
use crate::source_store::PackedTry;

pub(in crate::engine) const TRIES: Table = table!(
    "relay_tries" as "t": "key", "at", "duration_ms", "error_type", "error_code", "message", "detail"
);

const KEEP: Sql = sql!(
    "
insert into relay_tries (key, at, duration_ms, error_type, error_code, message, detail)
{sqlite values ($1, $2, $3, $4, $5, $6, $7)}{postgres select t.key, t.at, t.duration_ms, t.error_type, t.error_code, t.message, t.detail
  from unnest($1::bytea[], $2::timestamptz[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bytea[])
    as t (key, at, duration_ms, error_type, error_code, message, detail)}
    on conflict (key, at) do nothing"
);

const FORGET_OLD: Sql = sql!("delete from relay_tries where at < $1");

pub(super) async fn keep(
    tx: &mut impl Tx,
    tries: &[PackedTry],
    forget_before: Time,
) -> Result<(), StoreError> {
    let row = |PackedTry { key, at, attempt }: &'_ PackedTry| -> Vec<Value<'static>> {
        vec![
            Value::from(key.0),
            Value::from(*at),
            Value::from(attempt.duration_ms),
            Value::from(attempt.error_type.clone()),
            Value::from(attempt.error_code.clone()),
            Value::from(attempt.message.clone()),
            Value::from(attempt.detail.clone()),
        ]
    };
    tx.execute_rows(&KEEP, &tries.iter().map(row).collect::<Vec<_>>()).await?;
    tx.execute(&FORGET_OLD, binds![forget_before]).await?;
    Ok(())
}

const FORGET: Sql = sql!(
    "
delete from relay_tries
 where key = {sqlite $1}{postgres any($1::bytea[])}"
);

pub(super) async fn forget(tx: &mut impl Tx, keys: &[CaptureKey]) -> Result<(), StoreError> {
    tx.execute_rows(&FORGET, &key_rows(keys)).await?;
    Ok(())
}

/// The newest tries of each key, newest first.
const OF_KEYS: Sql = sql!(
    "
select {}
  from {sqlite relay_tries t
 where t.key = $1
 order by t.at desc
 limit $2}{postgres unnest($1::bytea[], $2::bigint[]) as k (key, most)
 cross join lateral (select * from relay_tries r where r.key = k.key order by r.at desc limit k.most) t
 order by t.at desc}",
    TRIES
);

/// The tries of each key, oldest first.
pub(super) async fn of_keys(
    conn: &mut impl Conn,
    keys: &[CaptureKey],
) -> Result<Vec<Vec<Attempt>>, StoreError> {
    let mut rows = key_rows(keys);
    rows.iter_mut().for_each(|row| row.push(Value::from(limits::ATTEMPTS_MAX)));
    let mut found: HashMap<[u8; 32], Vec<Attempt>> = HashMap::new();
    for (key, attempt) in conn.query_rows(&OF_KEYS, &rows, read).await? {
        found.entry(key).or_default().push(attempt);
    }
    let oldest_first = |key: &CaptureKey| {
        let mut tries = found.get(&key.0).cloned().unwrap_or_default();
        tries.reverse();
        tries
    };
    Ok(keys.iter().map(oldest_first).collect())
}

fn read(row: &Row<'_>) -> Result<([u8; 32], Attempt), StoreError> {
    let (key, at, duration_ms) = (row.get("key")?, row.get("at")?, row.get("duration_ms")?);
    let (error_type, code, message) = (row.get("error_type")?, row.get("error_code")?, row.get("message")?);
    let detail: Option<Vec<u8>> = row.get("detail")?;
    let (error, extra) = open_error(error_type, code, message, detail.as_deref())?;
    Ok((key, Attempt { at: Some(at), duration_ms, error, extra }))
}
