//! Letters as people changed them before sending: kept beside the original, which stays as it is.

use lazaret_core::header::headers_to_json;
use lazaret_core::id::LetterId;
use lazaret_core::limits;

use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::verdicts;
use super::super::writer::Write;
use crate::StoreError;
use crate::packing::{open_headers, unpack};
use crate::redrive::Edit;

const HAS_LIFE: &str = "
select life
  from lives
 where letter = $1
   and life = $2";

const ADD: &str = "
insert into edits (letter, number, life, body, content_type, headers, destination, author, reason, at)
select $1, coalesce(max(number), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9
  from edits
 where letter = $1
returning number";

/// Keeps a changed copy whose body is packed already. The letter is held, so numbers are given one after the other.
pub(super) async fn add(
    write: &Write,
    letter: LetterId,
    edit: &Edit,
    packed: &[u8],
) -> Result<Option<u32>, StoreError> {
    let key = Uid(*letter.bytes());
    let life = i32::try_from(edit.life).unwrap_or(i32::MAX);
    if verdicts::hold(write, &[letter]).await?.is_empty()
        || write.conn.query_opt(HAS_LIFE, &[&key, &life]).await?.is_none()
    {
        return Ok(None);
    }
    let headers = headers_to_json(&edit.headers);
    let added = write
        .conn
        .query_one(
            ADD,
            &[
                &key,
                &life,
                &packed,
                &clean(&edit.content_type),
                &headers,
                &clean_opt(edit.destination.as_deref()),
                &clean(&edit.author),
                &clean_opt(edit.reason.as_deref()),
                &At(edit.at),
            ],
        )
        .await?;
    added.small(0).map(Some)
}

const EDITS: &str = "
select number, life, body, content_type, headers, destination, author, reason, at
  from edits
 where letter = $1
 order by number
 limit $2";

pub(super) async fn all(conn: &Conn, letter: LetterId) -> Result<Vec<Edit>, StoreError> {
    let mut edits = Vec::new();
    for row in conn.query(EDITS, &[&Uid(*letter.bytes()), &(limits::PAGE_ROWS_MAX as i64)]).await? {
        edits.push(Edit {
            number: row.small(0)?,
            life: row.small(1)?,
            body: unpack(row.cell(2)?)?,
            content_type: row.cell(3)?,
            headers: open_headers(Some(row.cell(4)?))?,
            destination: row.cell(5)?,
            author: row.cell(6)?,
            reason: row.cell(7)?,
            at: row.time(8)?,
        });
    }
    Ok(edits)
}
