//! The body index: the words of bodies and headers, filled by a tick behind capture.
//!
//! It is never the truth: it names candidates, each of which is looked into, and lives that it does not hold yet are
//! looked into one by one. So it may lag, and searches still find the same letters.

use lazaret_core::filter::Filter;
use lazaret_core::filter::words::content_words;
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use tokio_postgres::Row;

use super::cell::{Cells, Uid};
use super::conn::{Binds, Conn};
use super::letters;
use super::writer::Write;
use crate::StoreError;
use crate::search::BodyIndex;

/// Held until the commit: two instances must not index the same lives.
const REACHED: &str = "
select position
  from body_words_reached
   for update";

const NEXT_LIVES: &str = "
select p.position, p.letter, p.life, v.content_type, v.headers, v.body
  from life_positions p
  join lives v on v.letter = p.letter and v.life = p.life
 where p.position > $1
   and p.position <= $2
 order by p.position
 limit $3";

const ADD_WORDS: &str = "
insert into body_words (letter, life, words)
select w.letter, w.life, array_to_tsvector(string_to_array(w.words, ' '))
  from unnest($1::uuid[], $2::integer[], $3::text[]) as w (letter, life, words)
on conflict (letter, life) do update set words = excluded.words";

const REACH: &str = "
update body_words_reached
   set position = $1, lives = lives + $2";

/// Puts the next lives into the index, at most `lives`.
pub(super) async fn index(write: &mut Write, lives: usize) -> Result<BodyIndex, StoreError> {
    let lives = lives.max(1);
    let reached: i64 = write.conn.query_one(REACHED, &[]).await?.cell(0)?;
    let newest: i64 = write.conn.query_one("select lives from positions", &[]).await?.cell(0)?;
    let rows = write.conn.query(NEXT_LIVES, &[&reached, &newest, &(lives as i64)]).await?;
    let read =
        tokio::task::spawn_blocking(move || rows.iter().map(Indexed::of).collect::<Result<Vec<_>, _>>());
    let next = read.await.unwrap_or_else(|error| {
        Err(StoreError::Unavailable { doing: "indexing bodies", source: Some(Box::new(error)) })
    })?;
    // Those that were deleted meanwhile are passed by.
    let reaches = next.last().filter(|_| next.len() >= lives).map_or(newest, |last| last.position);
    if !next.is_empty() {
        let letters: Vec<Uid> = next.iter().map(|one| Uid(*one.letter.bytes())).collect();
        let lives: Vec<i32> = next.iter().map(|one| one.life).collect();
        let words: Vec<Option<&str>> = next.iter().map(|one| one.words.as_deref()).collect();
        write.conn.execute(ADD_WORDS, &[&letters, &lives, &words]).await?;
    }
    if reaches > reached {
        write.conn.execute(REACH, &[&reaches, &(next.len() as i64)]).await?;
    }
    state(&write.conn).await
}

/// Bytes of words that one value of the index holds: PostgreSQL's end is a mebibyte, bookkeeping included.
const WORDS_BYTES_MAX: usize = 512 * 1024;

struct Indexed {
    position: i64,
    letter: LetterId,
    life: i32,
    /// Nothing if there are too many.
    words: Option<String>,
}

impl Indexed {
    fn of(row: &Row) -> Result<Indexed, StoreError> {
        let words = content_words(&letters::envelope(row, 3)?).join(" ");
        Ok(Indexed {
            position: row.cell(0)?,
            letter: LetterId::from_bytes(row.id(1)?),
            life: row.cell(2)?,
            words: (words.len() <= WORDS_BYTES_MAX).then_some(words),
        })
    }
}

const STATE: &str = "
select r.lives, p.lives - r.position,
       (select v.captured_at
          from life_positions l
          join lives v on v.letter = l.letter and v.life = l.life
         where l.position > r.position
         order by l.position
         limit 1)
  from body_words_reached r
 cross join positions p";

pub(super) async fn state(conn: &Conn) -> Result<BodyIndex, StoreError> {
    let row = conn.query_one(STATE, &[]).await?;
    Ok(BodyIndex { indexed: row.count(0)?, behind: row.count(1)?, behind_since: row.time_opt(2)? })
}

/// Letters that may hold all words of a filter. Nothing if no words are asked for, or if so many letters may hold them
/// that looking in order is quicker.
pub(super) async fn candidates(conn: &Conn, filter: &Filter) -> Result<Option<Vec<LetterId>>, StoreError> {
    if filter.body.is_empty() || state(conn).await?.behind > limits::CANDIDATES_MAX as u64 {
        return Ok(None);
    }
    let Some(words) = telling(conn, filter).await? else { return Ok(None) };
    let mut binds = Binds::default();
    let (mark, limit) = (binds.text(words), binds.long(limits::CANDIDATES_MAX + 1));
    let sql = format!(
        "select letter from body_words where words @@ {mark}::tsquery
          union
         select letter from body_words where words is null
          union
         select letter from life_positions
          where position > (select position from body_words_reached)
          limit {limit}"
    );
    let rows = conn.ask(&sql, &binds).await?;
    if rows.len() > limits::CANDIDATES_MAX as usize {
        return Ok(None);
    }
    rows.iter().map(|row| row.id(0).map(LetterId::from_bytes)).collect::<Result<_, _>>().map(Some)
}

/// How many lives match, counted up to one more than are worth it.
async fn hits(conn: &Conn, words: &str) -> Result<i64, StoreError> {
    let mut binds = Binds::default();
    let (mark, limit) = (binds.text(words), binds.long(limits::CANDIDATES_MAX + 1));
    let sql = format!(
        "select count(*) from (select 1 from body_words where words @@ {mark}::tsquery limit {limit}) hits"
    );
    conn.ask(&sql, &binds).await?.first().map_or(Ok(0), |row| row.cell(0))
}

/// The words that the index is asked for; every candidate is looked into anyway. What begins with a letter or two is in
/// every body and takes the index long, and so does the beginning of a word that is in most of them.
async fn telling(conn: &Conn, filter: &Filter) -> Result<Option<String>, StoreError> {
    let longest = filter.body.iter().map(str::len).max().unwrap_or(0);
    let mut words = Vec::new();
    for word in filter.body.iter().filter(|word| word.len() >= longest.min(limits::TELLING_WORD_BYTES)) {
        if hits(conn, &format!("'{word}'")).await? <= limits::CANDIDATES_MAX {
            words.push(format!("'{word}':*"));
        }
    }
    Ok(if words.is_empty() { None } else { Some(words.join(" & ")) })
}
