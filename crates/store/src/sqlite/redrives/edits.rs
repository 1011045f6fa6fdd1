//! Letters as people changed them before sending: kept beside the original, which stays as it is.

use lazaret_core::header::headers_to_json;
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::writer::Write;
use crate::StoreError;
use crate::packing::{open_headers, unpack};
use crate::redrive::Edit;

const HAS_LIFE: &str = "
select v.life
  from dead_letter_queue l
  join lives v on v.letter = l.letter
 where l.id = ?1
   and v.life = ?2";

const ADD: &str = "
insert into edits (letter, number, life, body, content_type, headers, destination, author, reason, at)
select ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
  from edits
 where letter = ?1
returning number";

/// Keeps a changed copy whose body is packed already.
pub(super) fn add(
    write: &Write,
    letter: LetterId,
    edit: &Edit,
    packed: &[u8],
) -> Result<Option<u32>, StoreError> {
    let known: Option<u32> = write
        .conn
        .prepare_cached(HAS_LIFE)?
        .query_row((letter.bytes(), edit.life), |row| row.get(0))
        .optional()?;
    if known.is_none() {
        return Ok(None);
    }
    let number = write.conn.prepare_cached(ADD)?.query_row(
        (
            letter.bytes(),
            edit.life,
            packed,
            &edit.content_type,
            headers_to_json(&edit.headers),
            &edit.destination,
            &edit.author,
            &edit.reason,
            edit.at.ms(),
        ),
        |row| row.get(0),
    )?;
    Ok(Some(number))
}

const EDITS: &str = "
select number, life, body, content_type, headers, destination, author, reason, at
  from edits
 where letter = ?1
 order by number
 limit ?2";

pub(super) fn all(conn: &Connection, letter: LetterId) -> Result<Vec<Edit>, StoreError> {
    let mut statement = conn.prepare_cached(EDITS)?;
    let mut found = statement.query((letter.bytes(), limits::PAGE_ROWS_MAX as i64))?;
    let mut edits = Vec::new();
    while let Some(row) = found.next()? {
        let (packed, headers): (Vec<u8>, String) = (row.get(2)?, row.get(4)?);
        edits.push(Edit {
            number: row.get(0)?,
            life: row.get(1)?,
            body: unpack(&packed)?,
            content_type: row.get(3)?,
            headers: open_headers(Some(&headers))?,
            destination: row.get(5)?,
            author: row.get(6)?,
            reason: row.get(7)?,
            at: Time::from_ms(row.get(8)?),
        });
    }
    Ok(edits)
}
