//! Letters that wait in the trash for a file of the archive.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use lazaret_core::envelope::Envelope;
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::limits;

use super::super::cell::{Cells, Uid};
use super::super::conn::Conn;
use super::super::decisions;
use super::super::letters::{self, ATTEMPT_COLUMNS, LIFE_COLUMNS, LIFE_COLUMNS_COUNT};
use super::index;
use crate::StoreError;
use crate::archive::{Entry, Waiting, WaitingLetter};
use crate::page::{Life, LifeAttempt};
use crate::transfer::Exported;

const WAITING: &str = "
select count(*), coalesce(sum(bytes), 0)::bigint, min(removed_at)
  from archive
 where waiting";

pub(super) async fn waiting(conn: &Conn) -> Result<Waiting, StoreError> {
    let row = conn.query_one(WAITING, &[]).await?;
    Ok(Waiting { letters: row.count(0)?, bytes: row.count(1)?, since: row.time_opt(2)? })
}

/// Those that come next, as many as are read at once; at least one.
const NEXT: &str = "
select id
  from (select id, entry, bytes, sum(bytes) over (order by entry) as so_far
          from (select id, entry, bytes
                  from archive
                 where waiting
                   and entry > $1
                 order by entry
                 limit $2) as next) as weighed
 where so_far - bytes < $3::bigint
 order by entry";

/// Asked within a snapshot.
pub(super) async fn page(
    conn: &Conn,
    after: Option<Entry>,
    limit: usize,
) -> Result<Vec<WaitingLetter>, StoreError> {
    let bytes = limits::ARCHIVE_BYTES_PER_READ as i64;
    let limit = limit.min(limits::ARCHIVE_LETTERS_PER_READ) as i64;
    let next = conn.query(NEXT, &[&after.unwrap_or(0), &limit, &bytes]).await?;
    let ids: Vec<Uid> = next.iter().map(|row| row.cell(0)).collect::<Result<_, _>>()?;
    whole(conn, &ids).await
}

const IS_WAITING: &str = "select id from archive where id = $1 and waiting";

/// Asked within a snapshot.
pub(super) async fn one(conn: &Conn, letter: LetterId) -> Result<Option<WaitingLetter>, StoreError> {
    let found = conn.query(IS_WAITING, &[&Uid(*letter.bytes())]).await?;
    let ids: Vec<Uid> = found.iter().map(|row| row.cell(0)).collect::<Result<_, _>>()?;
    Ok(whole(conn, &ids).await?.pop())
}

const SENT: &str = "
select a.id, a.key, t.ever_sent or t.sent_at is not null
  from archive a
  join trash t on t.id = a.id
 where a.id = any($1)";

/// Letters with everything that is kept of them, in the order in which they went.
async fn whole(conn: &Conn, ids: &[Uid]) -> Result<Vec<WaitingLetter>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut sent: HashMap<LetterId, (CaptureKey, bool)> = HashMap::new();
    for row in conn.query(SENT, &[&ids]).await? {
        sent.insert(LetterId::from_bytes(row.id(0)?), (CaptureKey(row.bytes(1)?), row.cell(2)?));
    }
    let mut lives = lives(conn, ids).await?;
    let mut attempts = attempts(conn, ids).await?;
    let on_record = index::by_ids(conn, ids).await?;
    let taken = on_record.iter().map(|archived| decisions::of_letter(conn, archived.letter.id));
    let mut whole = Vec::with_capacity(on_record.len());
    let taken = try_join_all(taken).await?;
    for (archived, decisions) in on_record.into_iter().zip(taken) {
        let letter = archived.letter.id;
        let missing = || StoreError::Corrupt(format!("letter {letter} is not where it should be kept"));
        let (key, ever_sent) = sent.remove(&letter).ok_or_else(missing)?;
        let exported = Exported {
            letter: archived.letter.clone(),
            key,
            ever_sent,
            lives: lives.remove(&letter).ok_or_else(missing)?,
            attempts: attempts.remove(&letter).ok_or_else(missing)?,
            decisions,
        };
        whole.push(WaitingLetter { archived, exported });
    }
    Ok(whole)
}

async fn lives(conn: &Conn, ids: &[Uid]) -> Result<HashMap<LetterId, Vec<(Life, Envelope)>>, StoreError> {
    const FROM: usize = LIFE_COLUMNS_COUNT;
    let sql = format!(
        "select {LIFE_COLUMNS}, content_type, headers, body, letter
           from trash_lives
          where letter = any($1)
          order by letter, life"
    );
    let mut lives: HashMap<LetterId, Vec<(Life, Envelope)>> = HashMap::new();
    for row in conn.query(&sql, &[&ids]).await? {
        let letter = LetterId::from_bytes(row.id(FROM + 3)?);
        let life = letters::life(&row)?;
        let envelope = letters::envelope(&row, FROM)?
            .with_origin(life.origin.clone())
            .with_body_missing(life.body_missing.clone());
        if *envelope.sha256() != life.sha256 {
            return Err(StoreError::Corrupt(format!(
                "the body of letter {letter}, life {}, does not have its hash",
                life.life
            )));
        }
        lives.entry(letter).or_default().push((life, envelope));
    }
    Ok(lives)
}

async fn attempts(conn: &Conn, ids: &[Uid]) -> Result<HashMap<LetterId, Vec<LifeAttempt>>, StoreError> {
    let sql = format!(
        "select {ATTEMPT_COLUMNS}, letter
           from trash_attempts
          where letter = any($1)
          order by letter, ordinal"
    );
    let mut attempts: HashMap<LetterId, Vec<LifeAttempt>> = HashMap::new();
    for row in conn.query(&sql, &[&ids]).await? {
        let letter = LetterId::from_bytes(row.id(letters::ATTEMPT_COLUMNS_COUNT)?);
        attempts.entry(letter).or_default().push(letters::attempt(&row)?);
    }
    Ok(attempts)
}
