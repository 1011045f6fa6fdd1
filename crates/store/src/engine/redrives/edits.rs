//! Letters as people changed them before sending: kept beside the original, which stays as it is.

use lazaret_core::header::headers_to_json;
use lazaret_core::id::LetterId;
use lazaret_core::limits;

use crate::StoreError;
use crate::packing::{open_headers, unpack};
use crate::redrive::Edit;
use crate::seam::{Conn, Sql, Table, Tx, binds, sql, table};

pub(crate) const EDITS: Table = table!(
    "edits": "number", "life", "body", "content_type", "headers", "destination", "author", "reason", "at"
);

/// The letter is locked, so that numbers are given one after the other.
const LOCK_LIFE: Sql = sql!(
    "
select v.life
  from dead_letter_queue l
  join lives v on v.letter = {sqlite l.letter}{postgres l.id}
 where l.id = $1{postgres  and l.created_at = uuid_time($1)}
   and v.life = $2
{postgres for no key update of l}"
);

const ADD: Sql = sql!(
    "
insert into edits (letter, {})
select $1, coalesce(max(number), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9
  from edits
 where letter = $1
returning number",
    EDITS
);

/// Keeps a changed copy whose body is packed already; nothing if there is no such life.
pub(super) async fn add(
    tx: &mut impl Tx,
    letter: LetterId,
    edit: &Edit,
    packed: &[u8],
) -> Result<Option<u32>, StoreError> {
    // A life beyond all numbers is none that there is.
    let life = i32::try_from(edit.life).unwrap_or(i32::MAX);
    if tx.query_opt(&LOCK_LIFE, binds![letter, life], |_| Ok(())).await?.is_none() {
        return Ok(None);
    }
    let headers = headers_to_json(&edit.headers);
    let values = binds![
        letter,
        life,
        packed,
        &edit.content_type,
        headers,
        edit.destination.as_deref(),
        &edit.author,
        edit.reason.as_deref(),
        edit.at,
    ];
    tx.query_one(&ADD, values, |row| row.get("number")).await.map(Some)
}

const ALL: Sql = sql!(
    "
select {}
  from edits
 where letter = $1
 order by number
 limit $2",
    EDITS
);

pub(super) async fn all(conn: &mut impl Conn, letter: LetterId) -> Result<Vec<Edit>, StoreError> {
    conn.query(&ALL, binds![letter, limits::PAGE_ROWS_MAX], |row| {
        Ok(Edit {
            number: row.get("number")?,
            life: row.get("life")?,
            body: unpack(&row.get::<Vec<u8>>("body")?)?,
            content_type: row.get("content_type")?,
            headers: open_headers(Some(&row.get::<String>("headers")?))?,
            destination: row.get("destination")?,
            author: row.get("author")?,
            reason: row.get("reason")?,
            at: row.get("at")?,
        })
    })
    .await
}
