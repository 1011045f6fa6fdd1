//! Files of the archive: their names before they are written, what they hold, and which letters stand in them.

use lazaret_core::id::{FileId, LetterId};
use lazaret_core::time::Time;

use super::index::{FILE_ROWS, file_row};
use crate::StoreError;
use crate::archive::{ArchiveFile, FileRow, FileState, WrittenFile};
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};

pub(crate) const FILES: Table = table!(
    "archive_files": "id", "path", "state", "letters", "bytes", "sha256", "first_died_at", "last_died_at", "opened_at",
    "checked_at", "problem"
);

fn read(row: &Row<'_>) -> Result<ArchiveFile, StoreError> {
    Ok(ArchiveFile {
        id: row.get("id")?,
        path: row.get("path")?,
        state: row.get("state")?,
        letters: row.get("letters")?,
        bytes: row.get("bytes")?,
        sha256: row.get::<Option<_>>("sha256")?.unwrap_or_default(),
        first_died_at: row.get("first_died_at")?,
        last_died_at: row.get("last_died_at")?,
        opened_at: row.get("opened_at")?,
        checked_at: row.get("checked_at")?,
        problem: row.get("problem")?,
    })
}

const OPEN: Sql = sql!(
    "
insert into archive_files (id, path, state, opened_at)
values ($1, $2, $3, $4)
on conflict (id) do nothing"
);

pub(super) async fn open(tx: &mut impl Tx, id: FileId, path: &str, at: Time) -> Result<(), StoreError> {
    tx.execute(&OPEN, binds![id, path, FileState::Writing, at]).await?;
    Ok(())
}

const WRITTEN: Sql = sql!(
    "
update archive_files
   set state = $3, letters = $4, bytes = $5, sha256 = $6, first_died_at = $7, last_died_at = $8, checked_at = $9,
       problem = null
 where id = $1
   and state = $2"
);

pub(super) async fn written(
    tx: &mut impl Tx,
    id: FileId,
    file: &WrittenFile,
    at: Time,
) -> Result<(), StoreError> {
    let WrittenFile { letters, bytes, sha256, first_died_at, last_died_at } = file;
    let (from, to) = (FileState::Writing, FileState::Written);
    let values = binds![id, from, to, *letters, *bytes, sha256, *first_died_at, *last_died_at, at];
    expect_one(tx.execute(&WRITTEN, values).await?, id, "being written")
}

const KEPT: Sql = sql!(
    "
update archive_files
   set state = $3
 where id = $1
   and state = $2"
);

pub(super) async fn kept(tx: &mut impl Tx, id: FileId) -> Result<(), StoreError> {
    let changed = tx.execute(&KEPT, binds![id, FileState::Written, FileState::Kept]).await?;
    expect_one(changed, id, "written")
}

fn expect_one(changed: u64, id: FileId, state: &str) -> Result<(), StoreError> {
    match changed {
        1 => Ok(()),
        _ => Err(StoreError::Corrupt(format!("file {id} of the archive is not {state}"))),
    }
}

const DROP: Sql = sql!(
    "
delete from archive_files
 where id = $1
   and not exists (select 1 from archive_rows where file = $1)"
);

/// Drops a file of which nothing is on record; false if something is.
pub(super) async fn drop_unrecorded(tx: &mut impl Tx, id: FileId) -> Result<bool, StoreError> {
    tx.execute(&DROP, binds![id]).await?;
    Ok(file(tx, id).await?.is_none())
}

const CHECKED: Sql = sql!(
    "
update archive_files
   set checked_at = $2, problem = $3
 where id = $1"
);

pub(super) async fn checked(
    tx: &mut impl Tx,
    id: FileId,
    problem: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    tx.execute(&CHECKED, binds![id, at, problem]).await?;
    Ok(())
}

const PAGE: Sql = sql!(
    "
select {}
  from archive_files
 where $1{postgres ::uuid} is null
    or id > $1
 order by id
 limit $2",
    FILES
);

/// Files behind an id. Ids are minted in the order of time, so this is the order in which the files were opened.
pub(super) async fn page(
    conn: &mut impl Conn,
    after: Option<FileId>,
    limit: usize,
) -> Result<Vec<ArchiveFile>, StoreError> {
    conn.query(&PAGE, binds![after, limit], read).await
}

const FILE: Sql = sql!(
    "
select {}
  from archive_files
 where id = $1",
    FILES
);

pub(super) async fn file(conn: &mut impl Conn, id: FileId) -> Result<Option<ArchiveFile>, StoreError> {
    conn.query_opt(&FILE, binds![id], read).await
}

/// There is one at a time, and one for each crash that nobody has cleared up after.
const UNFINISHED: Sql = sql!(
    "
select {}
  from archive_files{sqlite  indexed by archive_files_unfinished}
 where state <> 'kept'
 order by id
 limit 1000",
    FILES
);

pub(super) async fn unfinished(conn: &mut impl Conn) -> Result<Vec<ArchiveFile>, StoreError> {
    conn.query(&UNFINISHED, &[], read).await
}

const ROWS: Sql = sql!(
    "
select r.letter, {}
  from archive_rows r{sqlite  indexed by archive_rows_by_file}
 where r.file = $1
 order by r.row",
    FILE_ROWS
);

pub(super) async fn rows(conn: &mut impl Conn, id: FileId) -> Result<Vec<(LetterId, FileRow)>, StoreError> {
    conn.query(&ROWS, binds![id], |row| Ok((row.get("letter")?, file_row(row)?))).await
}
