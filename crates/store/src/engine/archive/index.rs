//! The index of the archive: one row for each letter that is there, as it was when it went, and where its lives are.

use lazaret_core::id::{FileId, LetterId};

use crate::StoreError;
use crate::archive::{Archived, FileRow};
use crate::engine::letters::{self, LETTERS};
use crate::seam::{Conn, Row, Sql, Table, binds, sql, table};

pub(crate) const ARCHIVE: Table = table!("archive" as "l": "entry", "removed_at", "removed_by", "reason");

pub(crate) const FILE_ROWS: Table = table!("archive_rows" as "r": "file", "row", "first_life", "last_life");

/// The columns that `read` reads, in its order.
pub(crate) const ARCHIVED_COLUMNS: &str = sql!("{}, f.incident, {}, {}", LETTERS, ARCHIVE, FILE_ROWS).sqlite;

/// What the index `l` is joined with to be read. Of the rows in files only the one that holds the last life is joined.
pub(crate) const ARCHIVED_JOINS: &str = "
  join fingerprints f on f.fingerprint = l.fingerprint
  left join archive_rows r on r.letter = l.id and r.last_life = l.life and not l.waiting";

pub(crate) fn read(row: &Row<'_>) -> Result<Archived, StoreError> {
    Ok(Archived {
        letter: letters::letter(row)?,
        entry: row.get("entry")?,
        removed_at: row.get("removed_at")?,
        removed_by: row.get("removed_by")?,
        reason: row.get("reason")?,
        file: match row.get::<Option<FileId>>("file")? {
            Some(_) => Some(file_row(row)?),
            None => None,
        },
    })
}

pub(super) fn file_row(row: &Row<'_>) -> Result<FileRow, StoreError> {
    Ok(FileRow {
        file: row.get("file")?,
        row: row.get("row")?,
        first_life: row.get("first_life")?,
        last_life: row.get("last_life")?,
    })
}

const LETTER: Sql = sql!(
    "
select {}, f.incident, {}, {}
  from archive l
  join fingerprints f on f.fingerprint = l.fingerprint
  left join archive_rows r on r.letter = l.id and r.last_life = l.life and not l.waiting
 where l.id = $1",
    LETTERS,
    ARCHIVE,
    FILE_ROWS
);

pub(crate) async fn letter(conn: &mut impl Conn, id: LetterId) -> Result<Option<Archived>, StoreError> {
    conn.query_opt(&LETTER, binds![id], read).await
}

const OLDER_LIVES: Sql = sql!(
    "
select {}
  from archive_rows r
 where r.letter = $1
 order by r.first_life",
    FILE_ROWS
);

pub(super) async fn older_lives(conn: &mut impl Conn, id: LetterId) -> Result<Vec<FileRow>, StoreError> {
    conn.query(&OLDER_LIVES, binds![id], file_row).await
}
