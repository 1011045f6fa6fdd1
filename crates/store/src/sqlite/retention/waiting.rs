//! Letters that wait in the trash for a file of the archive, whole.

use lazaret_core::envelope::Envelope;
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::{bodies, decisions, letters};
use super::index;
use crate::StoreError;
use crate::archive::{Archived, Entry, Waiting, WaitingLetter};
use crate::page::Life;
use crate::transfer::Exported;

const WAITING: &str = "
select count(*), coalesce(sum(bytes), 0), min(removed_at)
  from archive indexed by archive_waiting
 where waiting = 1";

pub(in crate::sqlite) fn waiting(conn: &Connection) -> Result<Waiting, StoreError> {
    let (letters, bytes, since): (i64, i64, Option<i64>) =
        conn.prepare_cached(WAITING)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(Waiting { letters: letters as u64, bytes: bytes as u64, since: since.map(Time::from_ms) })
}

/// The next ones in the order in which they went; fewer than asked for if they are large.
pub(in crate::sqlite) fn letters(
    conn: &Connection,
    after: Option<Entry>,
    limit: usize,
) -> Result<Vec<WaitingLetter>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let sql = format!(
        "{}
          where l.waiting = 1
            and l.entry > ?1
          order by l.entry
          limit ?2",
        index::archived_sql("archive l indexed by archive_waiting")
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let limit = limit.min(limits::ARCHIVE_LETTERS_PER_READ);
    let mut found = statement.query((after.unwrap_or(Entry::MIN), limit as i64))?;
    let (mut letters, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        if bytes >= limits::ARCHIVE_BYTES_PER_READ as u64 {
            break;
        }
        let letter = whole(conn, index::read(row)?, CaptureKey(row.get(39)?), row.get(40)?)?;
        bytes += letter.exported.lives.iter().map(|(life, _)| life.body_bytes).sum::<u64>();
        letters.push(letter);
    }
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(letters)
}

pub(in crate::sqlite) fn letter(
    conn: &Connection,
    letter: LetterId,
) -> Result<Option<WaitingLetter>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let sql = format!("{} where l.waiting = 1 and l.id = ?1", index::archived_sql("archive l"));
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query([letter.bytes()])?;
    let whole = match found.next()? {
        Some(row) => Some(whole(conn, index::read(row)?, CaptureKey(row.get(39)?), row.get(40)?)?),
        None => None,
    };
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(whole)
}

/// A letter of the index with what waits of it in the trash.
fn whole(
    conn: &Connection,
    archived: Archived,
    key: CaptureKey,
    ever_sent: bool,
) -> Result<WaitingLetter, StoreError> {
    let id = archived.letter.id;
    let row: Option<i64> = conn
        .prepare_cached("select letter from trash where id = ?1")?
        .query_row([id.bytes()], |row| row.get(0))
        .optional()?;
    let Some(row) = row else {
        return Err(StoreError::Corrupt(format!("letter {id} is not where it should wait for its file")));
    };
    let mut lives = Vec::new();
    for life in letters::lives(conn, "trash_lives", row)? {
        let envelope = original(conn, id, row, &life)?;
        lives.push((life, envelope));
    }
    let exported = Exported {
        letter: archived.letter.clone(),
        key,
        ever_sent,
        lives,
        attempts: letters::attempts(conn, "trash_attempts", row)?,
        decisions: decisions::of_letter(conn, id)?,
    };
    Ok(WaitingLetter { archived, exported })
}

const ORIGINAL: &str = "
select content_type, headers, body
  from trash_lives
 where letter = ?1
   and life = ?2";

fn original(conn: &Connection, id: LetterId, row: i64, life: &Life) -> Result<Envelope, StoreError> {
    let mut statement = conn.prepare_cached(ORIGINAL)?;
    let mut found = statement.query((row, life.life))?;
    let envelope = match found.next()? {
        Some(row) => bodies::envelope(row, 0)?
            .with_origin(life.origin.clone())
            .with_body_missing(life.body_missing.clone()),
        None => return Err(StoreError::Corrupt(format!("life {} of letter {id} has no body", life.life))),
    };
    if *envelope.sha256() != life.sha256 {
        return Err(StoreError::Corrupt(format!(
            "the body of letter {id}, life {}, does not have its hash",
            life.life
        )));
    }
    Ok(envelope)
}
