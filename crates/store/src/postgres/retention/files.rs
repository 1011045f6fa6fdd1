//! Files of the archive as the store knows them: their names, how far each has come, and which letters stand in which row.

use lazaret_core::id::{FileId, LetterId};
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::insert::column;
use super::super::rows::unknown;
use super::super::trash::drop_content;
use super::super::writer::Write;
use crate::StoreError;
use crate::archive::{ArchiveFile, FileRow, FileState, ShelvedRow, WrittenFile};
use crate::failure::FailurePoint;

fn uid(id: FileId) -> Uid {
    Uid(*id.bytes())
}

const OPEN: &str = "
insert into archive_files (id, path, state, opened_at)
values ($1, $2, $3, $4)
on conflict (id) do nothing";

pub(super) async fn open(write: &Write, id: FileId, path: &str, at: Time) -> Result<(), StoreError> {
    let state = FileState::Writing.name();
    write.conn.execute(OPEN, &[&uid(id), &clean(path), &state, &At(at)]).await?;
    Ok(())
}

const WRITTEN: &str = "
update archive_files
   set state = $3, letters = $4, bytes = $5, sha256 = $6, first_died_at = $7, last_died_at = $8, checked_at = $9,
       problem = null
 where id = $1
   and state = $2";

pub(super) async fn written(
    write: &Write,
    id: FileId,
    file: &WrittenFile,
    at: Time,
) -> Result<(), StoreError> {
    let moved = write
        .conn
        .execute(
            WRITTEN,
            &[
                &uid(id),
                &FileState::Writing.name(),
                &FileState::Written.name(),
                &(file.letters as i64),
                &(file.bytes as i64),
                &file.sha256.as_slice(),
                &file.first_died_at.map(At),
                &file.last_died_at.map(At),
                &At(at),
            ],
        )
        .await?;
    expect_one(moved, id, "being written")
}

fn expect_one(moved: u64, id: FileId, state: &str) -> Result<(), StoreError> {
    match moved {
        1 => Ok(()),
        _ => Err(StoreError::Corrupt(format!("file {id} of the archive is not {state}"))),
    }
}

/// Whoever restores a letter of these, or is told of it, has its key: that letter is theirs.
const FREE: &str = "
select id
  from letter_keys
 where id = any($1)
 order by key, generation
   for no key update skip locked";

/// A letter that came back, or came back and went again, has another entry or waits no more.
const SHELVE: &str = "
with shelved as (update archive a
                    set waiting = false
                   from unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[])
                     as m (letter, entry, row, first_life, last_life)
                  where a.id = m.letter
                    and a.entry = m.entry
                    and a.waiting
                returning a.id, m.row, m.first_life, m.last_life)
insert into archive_rows (letter, first_life, last_life, file, row, attempts)
select s.id, s.first_life, s.last_life, $1, s.row,
       (select coalesce(string_agg(t.identity, ''::bytea order by t.ordinal), ''::bytea)
          from trash_attempts t
         where t.letter = s.id)
  from shelved s
returning letter, first_life, last_life,
          (select array[min(v.life), max(v.life)]
             from trash_lives v
            where v.letter = archive_rows.letter)";

const STATE: &str = "
select state
  from archive_files
 where id = $1
   for key share";

/// Puts letters that wait on record as those of a file, and drops their content.
pub(super) async fn shelve(write: &Write, file: FileId, rows: &[ShelvedRow]) -> Result<u64, StoreError> {
    // Content goes only for what was read back: a file that may not be there holds nothing.
    let state = write.conn.query_opt(STATE, &[&uid(file)]).await?;
    let state = state.map(|row| row.cell::<String>(0)).transpose()?;
    if state.as_deref() != Some(FileState::Written.name()) {
        return Err(StoreError::Corrupt(format!("file {file} of the archive is not verified")));
    }
    let all = column(rows, |row| Uid(*row.letter.bytes()));
    let mut free: Vec<[u8; 16]> = Vec::with_capacity(rows.len());
    for row in write.conn.query(FREE, &[&all]).await? {
        free.push(row.id(0)?);
    }
    free.sort_unstable();
    let rows: Vec<&ShelvedRow> =
        rows.iter().filter(|row| free.binary_search(row.letter.bytes()).is_ok()).collect();
    let shelved = write
        .conn
        .query(
            SHELVE,
            &[
                &uid(file),
                &column(&rows, |row| Uid(*row.letter.bytes())),
                &column(&rows, |row| row.entry),
                &column(&rows, |row| row.row as i64),
                &column(&rows, |row| row.first_life as i32),
                &column(&rows, |row| row.last_life as i32),
            ],
        )
        .await?;
    write.failures.at(FailurePoint::Shelve)?;
    let shelved: Vec<Uid> = shelved.iter().map(shelved_letter).collect::<Result<_, _>>()?;
    if !shelved.is_empty() {
        drop_content(&write.conn, &shelved).await?;
    }
    Ok(shelved.len() as u64)
}

/// The letter of a row that was put on record, if what waits of it is what was written.
fn shelved_letter(row: &Row) -> Result<Uid, StoreError> {
    let letter: Uid = row.cell(0)?;
    let (first, last): (i32, i32) = (row.cell(1)?, row.cell(2)?);
    let waiting: Vec<Option<i32>> = row.cell(3)?;
    if waiting != [Some(first), Some(last)] {
        let id = LetterId::from_bytes(letter.0);
        return Err(StoreError::Corrupt(format!(
            "lives {waiting:?} of letter {id} wait, but lives {first} to {last} were written"
        )));
    }
    Ok(letter)
}

const KEPT: &str = "
update archive_files
   set state = $3
 where id = $1
   and state = $2";

pub(super) async fn kept(write: &Write, id: FileId) -> Result<(), StoreError> {
    let (from, to) = (FileState::Written.name(), FileState::Kept.name());
    expect_one(write.conn.execute(KEPT, &[&uid(id), &from, &to]).await?, id, "written")
}

const DROP: &str = "
delete from archive_files
 where id = $1
   and not exists (select 1 from archive_rows where file = $1)";

const IS_KNOWN: &str = "select exists (select 1 from archive_files where id = $1)";

/// Forgets a file of which nothing is on record; says whether that is so.
pub(super) async fn forget(write: &Write, id: FileId) -> Result<bool, StoreError> {
    write.conn.execute(DROP, &[&uid(id)]).await?;
    let known: bool = write.conn.query_one(IS_KNOWN, &[&uid(id)]).await?.cell(0)?;
    Ok(!known)
}

const CHECKED: &str = "
update archive_files
   set checked_at = $2, problem = $3
 where id = $1";

pub(super) async fn checked(
    write: &Write,
    id: FileId,
    problem: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.execute(CHECKED, &[&uid(id), &At(at), &clean_opt(problem)]).await?;
    Ok(())
}

/// The columns that `read` reads, in its order.
const COLUMNS: &str = "
id, path, state, letters, bytes, sha256, first_died_at, last_died_at, opened_at, checked_at, problem";

fn read(row: &Row) -> Result<ArchiveFile, StoreError> {
    let state: &str = row.cell(2)?;
    let sha256 = match row.cell::<Option<&[u8]>>(5)? {
        Some(_) => row.bytes(5)?,
        None => [0; 32],
    };
    Ok(ArchiveFile {
        id: FileId::from_bytes(row.id(0)?),
        path: row.cell(1)?,
        state: FileState::parse(state).ok_or_else(|| unknown("state of a file", state))?,
        letters: row.count(3)?,
        bytes: row.count(4)?,
        sha256,
        first_died_at: row.time_opt(6)?,
        last_died_at: row.time_opt(7)?,
        opened_at: row.time(8)?,
        checked_at: row.time_opt(9)?,
        problem: row.cell(10)?,
    })
}

pub(super) async fn page(
    conn: &Conn,
    after: Option<FileId>,
    limit: usize,
) -> Result<Vec<ArchiveFile>, StoreError> {
    let sql = format!(
        "select {COLUMNS}
           from archive_files
          where $1::uuid is null
             or id > $1
          order by id
          limit $2"
    );
    conn.query(&sql, &[&after.map(uid), &(limit as i64)]).await?.iter().map(read).collect()
}

pub(super) async fn file(conn: &Conn, id: FileId) -> Result<Option<ArchiveFile>, StoreError> {
    let sql = format!("select {COLUMNS} from archive_files where id = $1");
    conn.query_opt(&sql, &[&uid(id)]).await?.as_ref().map(read).transpose()
}

/// There is one at a time unless somebody was killed.
const UNFINISHED_MAX: i64 = 1_000;

pub(super) async fn unfinished(conn: &Conn) -> Result<Vec<ArchiveFile>, StoreError> {
    let sql = format!(
        "select {COLUMNS} from archive_files where state <> 'kept' order by id limit {UNFINISHED_MAX}"
    );
    conn.query(&sql, &[]).await?.iter().map(read).collect()
}

const ROWS: &str = "
select letter, file, row, first_life, last_life
  from archive_rows
 where file = $1
 order by row";

pub(super) async fn rows(conn: &Conn, id: FileId) -> Result<Vec<(LetterId, FileRow)>, StoreError> {
    let found = conn.query(ROWS, &[&uid(id)]).await?;
    found.iter().map(|row| Ok((LetterId::from_bytes(row.id(0)?), file_row(row, 1)?))).collect()
}

/// Reads file, row, first and last life, from the column `from` on.
pub(super) fn file_row(row: &Row, from: usize) -> Result<FileRow, StoreError> {
    Ok(FileRow {
        file: FileId::from_bytes(row.id(from)?),
        row: row.count(from + 1)?,
        first_life: row.small(from + 2)?,
        last_life: row.small(from + 3)?,
    })
}
