//! Letters leave the store for a verified file: which row of it holds each is put on record, and their content is dropped.

use lazaret_core::id::{FileId, LetterId};
use tokio_postgres::Row;

use super::super::cell::{Cells, Uid};
use super::super::insert::column;
use super::super::trash::drop_content;
use super::super::writer::Write;
use crate::StoreError;
use crate::archive::{FileState, ShelvedRow};
use crate::failure::FailurePoint;

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
    let state = write.conn.query_opt(STATE, &[&Uid(*file.bytes())]).await?;
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
                &Uid(*file.bytes()),
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
