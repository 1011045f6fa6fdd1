//! Letters that wait in the trash for a file of the archive, whole.

use std::collections::HashMap;

use lazaret_core::envelope::Envelope;
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::limits;

use super::index;
use super::index::{ARCHIVE, FILE_ROWS};
use crate::StoreError;
use crate::archive::{Archived, Entry, Waiting, WaitingLetter};
use crate::engine::decisions;
use crate::engine::letters::{self, ATTEMPTS, LETTERS, LIVES};
use crate::page::{Life, LifeAttempt};
use crate::seam::{Conn, Row, Sql, binds, sql};
use crate::transfer::Exported;

const WAITING: Sql = sql!(
    "
select count(*) as letters, coalesce(sum(bytes), 0){postgres ::bigint} as bytes, min(removed_at) as since
  from archive{sqlite  indexed by archive_waiting}
 where waiting{sqlite  = 1}"
);

pub(super) async fn waiting(conn: &mut impl Conn) -> Result<Waiting, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(Waiting { letters: row.get("letters")?, bytes: row.get("bytes")?, since: row.get("since")? })
    };
    conn.query_one(&WAITING, &[], read).await
}

/// Those that come next, as many as are read at once; at least one.
const NEXT: Sql = sql!(
    "
select id
  from (select id, entry, bytes, sum(bytes) over (order by entry) as so_far
          from (select id, entry, bytes
                  from archive{sqlite  indexed by archive_waiting}
                 where waiting{sqlite  = 1}
                   and entry > $1
                 order by entry
                 limit $2) as next) as weighed
 where so_far - bytes < $3{postgres ::bigint}
 order by entry"
);

/// The next ones in the order in which they went; fewer than asked for if they are large. Asked within a snapshot.
pub(super) async fn page(
    conn: &mut impl Conn,
    after: Option<Entry>,
    limit: usize,
) -> Result<Vec<WaitingLetter>, StoreError> {
    let limit = limit.min(limits::ARCHIVE_LETTERS_PER_READ);
    let values = binds![after.unwrap_or(Entry::MIN), limit, limits::ARCHIVE_BYTES_PER_READ];
    let next: Vec<LetterId> = conn.query(&NEXT, values, |row| row.get("id")).await?;
    whole(conn, &next).await
}

/// One waiting letter, whole. Asked within a snapshot.
pub(super) async fn letter(conn: &mut impl Conn, id: LetterId) -> Result<Option<WaitingLetter>, StoreError> {
    Ok(whole(conn, &[id]).await?.pop())
}

/// Nothing is known of the sending of a letter that is not in the trash.
const ON_RECORD: Sql = sql!(
    "
select {}, f.incident, {}, {}, l.key, t.ever_sent or t.sent_at is not null as was_sent
  from archive l
  join fingerprints f on f.fingerprint = l.fingerprint
  left join archive_rows r on r.letter = l.id and r.last_life = l.life and not l.waiting
  left join trash t on t.id = l.id
 where l.id {any $1}
   and l.waiting
 order by l.entry",
    LETTERS,
    ARCHIVE,
    FILE_ROWS
);

/// Those of the letters that wait, with everything that is kept of them, in the order in which they went.
async fn whole(conn: &mut impl Conn, ids: &[LetterId]) -> Result<Vec<WaitingLetter>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let read = |row: &Row<'_>| -> Result<(Archived, [u8; 32], Option<bool>), StoreError> {
        Ok((index::read(row)?, row.get("key")?, row.get("was_sent")?))
    };
    let on_record = conn.query(&ON_RECORD, binds![ids], read).await?;
    let mut lives = trashed_lives(conn, ids).await?;
    let mut attempts = trashed_attempts(conn, ids).await?;
    let mut whole = Vec::with_capacity(on_record.len());
    for (archived, key, was_sent) in on_record {
        let id = archived.letter.id;
        let missing = || StoreError::Corrupt(format!("letter {id} is not where it should wait for its file"));
        let exported = Exported {
            letter: archived.letter.clone(),
            key: CaptureKey(key),
            ever_sent: was_sent.ok_or_else(missing)?,
            lives: lives.remove(&id).ok_or_else(missing)?,
            attempts: attempts.remove(&id).ok_or_else(missing)?,
            decisions: decisions::of_letter(conn, id).await?,
        };
        whole.push(WaitingLetter { archived, exported });
    }
    Ok(whole)
}

const TRASHED_LIVES: Sql = sql!(
    "
select t.id, {}, v.headers, v.body
  from trash t
  join trash_lives v on v.letter = t.{sqlite letter}{postgres id}
 where t.id {any $1}
 order by t.id, v.life",
    LIVES
);

async fn trashed_lives(
    conn: &mut impl Conn,
    ids: &[LetterId],
) -> Result<HashMap<LetterId, Vec<(Life, Envelope)>>, StoreError> {
    let read = |row: &Row<'_>| {
        let (id, life) = (row.get("id")?, letters::life(row)?);
        let envelope = letters::original(row, id, &life)?;
        Ok((id, (life, envelope)))
    };
    Ok(by_letter(conn.query(&TRASHED_LIVES, binds![ids], read).await?))
}

const TRASHED_ATTEMPTS: Sql = sql!(
    "
select t.id, {}
  from trash t
  join trash_attempts a on a.letter = t.{sqlite letter}{postgres id}
 where t.id {any $1}
 order by t.id, a.ordinal",
    ATTEMPTS
);

async fn trashed_attempts(
    conn: &mut impl Conn,
    ids: &[LetterId],
) -> Result<HashMap<LetterId, Vec<LifeAttempt>>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get("id")?, letters::attempt(row)?));
    Ok(by_letter(conn.query(&TRASHED_ATTEMPTS, binds![ids], read).await?))
}

fn by_letter<T>(rows: Vec<(LetterId, T)>) -> HashMap<LetterId, Vec<T>> {
    let mut by_letter: HashMap<LetterId, Vec<T>> = HashMap::new();
    for (letter, one) in rows {
        by_letter.entry(letter).or_default().push(one);
    }
    by_letter
}
