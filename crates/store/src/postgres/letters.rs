//! Reading letters: pages, counts, histories, originals.

use std::time::Duration;

use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::envelope::Envelope;
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::letter::Letter;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::cell::{At, Cells, Uid};
use super::conn::{Binds, Conn};
use super::counters::Dimension;
use super::decisions;
use super::filter::Where;
use super::rows::{self, LETTER_COLUMNS};
use super::scan;
use crate::engine::letters::{ATTEMPTS, LIVES};
use crate::packing::{open_body, open_headers, open_origin};
use crate::page::{LetterHistory, LetterPage, Life, LifeAttempt, Original, PageQuery, Total};
use crate::{StoreError, engine, seam};

pub(super) async fn list(conn: &Conn, query: &PageQuery) -> Result<LetterPage, StoreError> {
    let mut page = if query.filter.needs_content() {
        scan::page(conn, query).await?
    } else {
        indexed_page(conn, query).await?
    };
    let whole = query.after.is_none() && page.next.is_none();
    page.total = match page.scan {
        Some(_) if whole => Total::Exact(page.letters.len() as u64),
        Some(_) => {
            let limit = Duration::from_millis(limits::SCAN_COUNT_MS_MAX);
            at_least(
                scan::total(conn, &query.filter, query.now, limit, limits::COUNT_ROWS_MAX).await?,
                page.letters.len(),
            )
        }
        None => total(conn, &query.filter, query.now, limits::COUNT_ROWS_MAX).await?,
    };
    Ok(page)
}

/// A count that stopped early is no less than what is on the page.
fn at_least(total: Total, shown: usize) -> Total {
    match total {
        Total::Exact(count) => Total::Exact(count),
        Total::AtLeast(count) => Total::AtLeast(count.max(shown as u64)),
    }
}

async fn indexed_page(conn: &Conn, query: &PageQuery) -> Result<LetterPage, StoreError> {
    let PageQuery { filter, now, sort, after, .. } = query;
    let asked =
        Asked { filter, now: *now, sort: *sort, after: *after, rows: query.limit as i64 + 1, only: None };
    let mut letters = page_rows(conn, &asked).await?;
    let more = letters.len() > query.limit;
    letters.truncate(query.limit);
    let next = letters.last().filter(|_| more).map(|letter| key(query.sort, letter));
    Ok(LetterPage { letters, total: Total::Exact(0), next, scan: None })
}

/// Where the next page begins if this letter is the last one of a page.
pub(super) fn key(sort: Sort, letter: &Letter) -> LastKey {
    LastKey { at: if is_by_death(sort) { letter.died_at } else { letter.created_at }, id: letter.id }
}

const fn is_by_death(sort: Sort) -> bool {
    match sort {
        Sort::DiedAtDesc | Sort::DiedAtAsc => true,
        Sort::CreatedAtDesc | Sort::CreatedAtAsc => false,
    }
}

/// The letters that come next: those behind a key, at most `rows` of them, and `only` those if they are known already.
pub(super) struct Asked<'a> {
    pub filter: &'a Filter,
    pub now: Time,
    pub sort: Sort,
    pub after: Option<LastKey>,
    pub rows: i64,
    pub only: Option<&'a [LetterId]>,
}

/// Fetches letters in order. What only the content tells is not asked here.
pub(super) async fn page_rows(conn: &Conn, asked: &Asked<'_>) -> Result<Vec<Letter>, StoreError> {
    let (sql, binds) = page_sql(conn, asked).await?;
    conn.ask(&sql, &binds).await?.iter().map(rows::letter).collect()
}

async fn page_sql(conn: &Conn, asked: &Asked<'_>) -> Result<(String, Binds), StoreError> {
    let mut binds = Binds::default();
    let filter = Where::of(conn, asked.filter, asked.now, &mut binds).await?;
    let from = from(conn, &filter, &mut binds).await?;
    let mut sql = format!(
        "select {LETTER_COLUMNS}
           from {from}
           join fingerprints f on f.fingerprint = l.fingerprint
          where {}",
        filter.sql
    );
    if let Some(only) = asked.only {
        sql.push_str(&format!(" and {}", among(only, &mut binds)));
    }
    if let Some(last) = asked.after {
        let (at, id) = (binds.time(last.at), binds.id(*last.id.bytes()));
        sql.push_str(&match asked.sort {
            Sort::DiedAtDesc => format!(" and (l.died_at, l.id) < ({at}, {id})"),
            Sort::DiedAtAsc => format!(" and (l.died_at, l.id) > ({at}, {id})"),
            // The time says no more than the id, but it names the months that need not be read.
            Sort::CreatedAtDesc => format!(" and l.id < {id} and l.created_at <= {at}"),
            Sort::CreatedAtAsc => format!(" and l.id > {id} and l.created_at >= {at}"),
        });
    }
    let order = match asked.sort {
        Sort::DiedAtDesc => "l.died_at desc, l.id desc",
        Sort::DiedAtAsc => "l.died_at, l.id",
        Sort::CreatedAtDesc => "l.id desc",
        Sort::CreatedAtAsc => "l.id",
    };
    let limit = binds.long(asked.rows);
    sql.push_str(&format!(" order by {order} limit {limit}"));
    Ok((sql, binds))
}

/// Letters that are named; the times of the first and last one name the months that need not be read.
fn among(only: &[LetterId], binds: &mut Binds) -> String {
    let (Some(first), Some(last)) = (only.iter().min(), only.iter().max()) else { return "false".into() };
    let (from, to) = (binds.time(first.at()), binds.time(last.at()));
    let ids = binds.ids(only.iter().map(|id| *id.bytes()).collect());
    format!("l.id = any({ids}) and l.created_at between {from} and {to}")
}

/// Where letters are looked for. Few are found by their words and then sorted; many are met in order and asked for
/// their words. PostgreSQL cannot tell which it will be, because it knows little of how words begin.
pub(super) async fn from(conn: &Conn, asked: &Where, binds: &mut Binds) -> Result<String, StoreError> {
    let Some(words) = &asked.words else { return Ok("dead_letter_queue l".into()) };
    let mark = binds.text(words.clone());
    // Neither is folded into the question around it: `offset 0` keeps the first apart, and an index knows the bare
    // column alone.
    let holds = match are_few(conn, words).await? {
        true => format!("words @@ {mark}::tsquery offset 0"),
        false => format!("(words || ''::tsvector) @@ {mark}::tsquery"),
    };
    Ok(format!("(select * from dead_letter_queue where {holds}) l"))
}

async fn are_few(conn: &Conn, words: &str) -> Result<bool, StoreError> {
    let mut binds = Binds::default();
    let (mark, limit) = (binds.text(words), binds.long(limits::WORD_ROWS_SORTED_MAX + 1));
    let sql = format!(
        "select count(*)
           from (select 1 from dead_letter_queue where words @@ {mark}::tsquery limit {limit}) hits"
    );
    Ok(number(&conn.ask(&sql, &binds).await?)? <= limits::WORD_ROWS_SORTED_MAX as u64)
}

/// The one number that a question is answered by.
fn number(rows: &[tokio_postgres::Row]) -> Result<u64, StoreError> {
    rows.first().map_or(Ok(0), |row| row.count(0))
}

/// Counts up to so many.
pub(super) async fn count(conn: &Conn, filter: &Filter, now: Time, most: u64) -> Result<Total, StoreError> {
    if filter.needs_content() {
        scan::total(conn, filter, now, Duration::from_millis(limits::COUNT_MS_MAX), most).await
    } else {
        total(conn, filter, now, most).await
    }
}

/// Exact where a counter answers or few match, else "at least".
async fn total(conn: &Conn, filter: &Filter, now: Time, most: u64) -> Result<Total, StoreError> {
    if let Some(total) = counted(conn, filter).await? {
        return Ok(Total::Exact(total));
    }
    let mut binds = Binds::default();
    let asked = Where::of(conn, filter, now, &mut binds).await?;
    let from = from(conn, &asked, &mut binds).await?;
    // As many rows as tell whether there are more.
    let limit = binds.long(i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1));
    let sql = format!("select count(*) from (select 1 from {from} where {} limit {limit}) found", asked.sql);
    let count = number(&conn.ask(&sql, &binds).await?)?;
    Ok(if count > most { Total::AtLeast(most) } else { Total::Exact(count) })
}

/// The one value of one dimension, and nothing but states beside it, that a filter asks for.
fn asked_of_counters(filter: &Filter) -> Option<(Dimension, String)> {
    let mut rest = filter.clone();
    rest.status = Default::default();
    let mut asked = (Dimension::All, String::new());
    for (dimension, patterns) in [
        (Dimension::Source, &mut rest.source),
        (Dimension::Queue, &mut rest.queue),
        (Dimension::Type, &mut rest.letter_type),
        (Dimension::ErrorType, &mut rest.error_type),
        (Dimension::Aggregate, &mut rest.aggregate),
    ] {
        let exact = patterns.include.first().and_then(|pattern| pattern.exact()).map(str::to_owned);
        if asked.0 == Dimension::All
            && patterns.include.len() == 1
            && patterns.exclude.is_empty()
            && let Some(value) = exact
        {
            asked = (dimension, value);
            *patterns = Default::default();
        }
    }
    if asked.0 == Dimension::All && rest.class.include.len() == 1 && rest.class.exclude.is_empty() {
        let class = std::mem::take(&mut rest.class).include.pop_first();
        asked = (Dimension::Class, class.map_or("", |class| class.name()).to_owned());
    }
    // No value holds a NUL, and none can be bound.
    (rest.is_empty() && !asked.1.contains('\0')).then_some(asked)
}

const COUNTED: &str = "
select term, letters
  from counters
 where dimension = $1
   and value = $2
 order by term
 limit 100";

/// Answers from the counters, if the filter asks for no more than one value of one dimension, and for states.
async fn counted(conn: &Conn, filter: &Filter) -> Result<Option<u64>, StoreError> {
    let Some((dimension, value)) = asked_of_counters(filter) else { return Ok(None) };
    let mut total = 0;
    for row in conn.query(COUNTED, &[&dimension.name(), &value]).await? {
        if filter.status.allows(&rows::status(row.cell(0)?)?) {
            total += row.cell::<i64>(1)?;
        }
    }
    Ok(Some(total.max(0) as u64))
}

/// Asked within a snapshot, or within a write.
pub(super) async fn history(conn: &Conn, id: LetterId) -> Result<Option<LetterHistory>, StoreError> {
    let sql = format!(
        "select {LETTER_COLUMNS}
           from dead_letter_queue l
           join fingerprints f on f.fingerprint = l.fingerprint
          where l.id = $1
            and l.created_at = $2"
    );
    let Some(row) = conn.query_opt(&sql, &[&Uid(*id.bytes()), &At(id.at())]).await? else { return Ok(None) };
    let letter = rows::letter(&row)?;
    let lives = lives(conn, id).await?;
    let attempts = attempts(conn, id).await?;
    let decisions = decisions::of_letter(conn, id).await?;
    Ok(Some(LetterHistory { letter, lives, attempts, decisions }))
}

pub(super) async fn lives(conn: &Conn, letter: LetterId) -> Result<Vec<Life>, StoreError> {
    let sql = format!("select {} from lives v where v.letter = $1 order by v.life", LIVES.list);
    let found = conn.query(&sql, &[&Uid(*letter.bytes())]).await?;
    found.iter().map(|row| engine::letters::life(&seam::Row::of_postgres(row))).collect()
}

pub(super) async fn attempts(conn: &Conn, letter: LetterId) -> Result<Vec<LifeAttempt>, StoreError> {
    let sql = format!("select {} from attempts a where a.letter = $1 order by a.ordinal", ATTEMPTS.list);
    let found = conn.query(&sql, &[&Uid(*letter.bytes())]).await?;
    found.iter().map(|row| engine::letters::attempt(&seam::Row::of_postgres(row))).collect()
}

const ORIGINAL: &str = "
select v.life, v.content_type, v.headers, v.body, v.sha256, v.origin, v.body_missing
  from dead_letter_queue l
  join lives v on v.letter = l.id and v.life = coalesce($3, l.life)
 where l.id = $1
   and l.created_at = $2";

pub(super) async fn original(
    conn: &Conn,
    id: LetterId,
    life: Option<u32>,
) -> Result<Option<Original>, StoreError> {
    let life = life.map(|life| i32::try_from(life).unwrap_or(i32::MAX));
    let found = conn.query_opt(ORIGINAL, &[&Uid(*id.bytes()), &At(id.at()), &life]).await?;
    let Some(row) = found else { return Ok(None) };
    let life = row.small(0)?;
    let envelope = envelope(&row, 1)?.with_origin(open_origin(row.cell(5)?)?).with_body_missing(row.cell(6)?);
    if *envelope.sha256() != row.bytes(4)? {
        return Err(StoreError::Corrupt(format!(
            "the body of letter {id}, life {life}, does not have its hash"
        )));
    }
    Ok(Some(Original { life, envelope }))
}

/// Reads an envelope from content type, headers and body, from the column `from` on; without its origin.
pub(super) fn envelope(row: &tokio_postgres::Row, from: usize) -> Result<Envelope, StoreError> {
    let content_type: String = row.cell(from)?;
    Ok(Envelope::seal(open_body(row.cell(from + 2)?)?, content_type, open_headers(row.cell(from + 1)?)?))
}
