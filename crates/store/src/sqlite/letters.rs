//! Reading letters: pages, counts, histories, originals.

use std::time::Duration;

use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::letter::Letter;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::bodies;
use super::counters::Dimension;
use super::decisions;
use super::filter::Where;
use super::readers::snapshot;
use super::rows::{self, LETTER_COLUMNS};
use super::scan::{Candidates, Scanner};
use crate::engine::letters::{ATTEMPTS, LIVES};
use crate::packing::open_origin;
use crate::page::{LetterHistory, LetterPage, Life, LifeAttempt, Original, PageQuery, Total};
use crate::{StoreError, engine, seam};

pub(super) fn list(conn: &Connection, query: &PageQuery) -> Result<LetterPage, StoreError> {
    // One snapshot for the page and its total.
    let snapshot = snapshot(conn)?;
    let filter = Where::of(conn, &query.filter, query.now)?;
    let mut page = if query.filter.needs_content() {
        scanned_page(conn, query, &filter)?
    } else {
        indexed_page(conn, query, &filter)?
    };
    let whole = query.after.is_none() && page.next.is_none();
    page.total = match page.scan {
        Some(_) if whole => Total::Exact(page.letters.len() as u64),
        Some(_) => {
            let limit = Duration::from_millis(limits::SCAN_COUNT_MS_MAX);
            at_least(
                scanned_total(conn, &query.filter, &filter, limit, limits::COUNT_ROWS_MAX)?,
                page.letters.len(),
            )
        }
        None => total(conn, &query.filter, &filter, limits::COUNT_ROWS_MAX)?,
    };
    drop(snapshot);
    Ok(page)
}

/// A count that stopped early is no less than what is on the page.
fn at_least(total: Total, shown: usize) -> Total {
    match total {
        Total::Exact(count) => Total::Exact(count),
        Total::AtLeast(count) => Total::AtLeast(count.max(shown as u64)),
    }
}

fn indexed_page(conn: &Connection, query: &PageQuery, filter: &Where) -> Result<LetterPage, StoreError> {
    let (sql, binds) = page_sql(conn, query, filter, query.limit as i64 + 1)?;
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut letters: Vec<Letter> = Vec::with_capacity(query.limit + 1);
    while let Some(row) = found.next()? {
        letters.push(rows::letter(row)?);
    }
    let more = letters.len() > query.limit;
    letters.truncate(query.limit);
    let next = letters.last().filter(|_| more).map(|letter| key(query, letter));
    Ok(LetterPage { letters, total: Total::Exact(0), next, scan: None })
}

/// A page of letters whose content has to be looked at: it ends when it is full or when the time is over.
fn scanned_page(conn: &Connection, query: &PageQuery, filter: &Where) -> Result<LetterPage, StoreError> {
    let (sql, binds) = page_sql(conn, query, filter, limits::SCAN_LETTERS_MAX)?;
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut scanner = Scanner::new(conn, &query.filter, query.scan_max);
    let mut letters: Vec<Letter> = Vec::new();
    let mut last = None;
    while let Some(row) = found.next()? {
        if letters.len() == query.limit || scanner.is_over() {
            let cut_short = letters.len() < query.limit;
            return Ok(LetterPage {
                letters,
                total: Total::Exact(0),
                next: last,
                scan: Some(scanner.told(cut_short)),
            });
        }
        let letter = rows::letter(row)?;
        last = Some(key(query, &letter));
        if scanner.holds(row.get(31)?, letter.life)? {
            letters.push(letter);
        }
    }
    Ok(LetterPage { letters, total: Total::Exact(0), next: None, scan: Some(scanner.told(false)) })
}

/// Where the next page begins if this letter is the last one of a page.
fn key(query: &PageQuery, letter: &Letter) -> LastKey {
    LastKey { at: if is_by_death(query.sort) { letter.died_at } else { letter.created_at }, id: letter.id }
}

const fn is_by_death(sort: Sort) -> bool {
    match sort {
        Sort::DiedAtDesc | Sort::DiedAtAsc => true,
        Sort::CreatedAtDesc | Sort::CreatedAtAsc => false,
    }
}

/// The query for the rows of a page, at most `rows` of them.
fn page_sql(
    conn: &Connection,
    query: &PageQuery,
    filter: &Where,
    rows: i64,
) -> Result<(String, Vec<Value>), StoreError> {
    let (order, after) = match query.sort {
        Sort::DiedAtDesc => ("l.died_at desc, l.id desc", "(l.died_at, l.id) < (?, ?)"),
        Sort::DiedAtAsc => ("l.died_at, l.id", "(l.died_at, l.id) > (?, ?)"),
        Sort::CreatedAtDesc => ("l.id desc", "l.id < ?"),
        Sort::CreatedAtAsc => ("l.id", "l.id > ?"),
    };
    let by_death = is_by_death(query.sort);
    let From { table, words, mut binds } = From::of(conn, &query.filter, filter, by_death)?;
    let mut sql = format!(
        "select {LETTER_COLUMNS}, l.letter
           from {table}
           join fingerprints f on f.fingerprint = l.fingerprint
          where {words} {}",
        filter.sql
    );
    binds.extend(filter.binds.iter().cloned());
    if let Some(last) = query.after {
        sql.push_str(&format!(" and {after}"));
        if by_death {
            binds.push(Value::Integer(last.at.ms()));
        }
        binds.push(Value::Blob(last.id.bytes().to_vec()));
    }
    sql.push_str(&format!(" order by {order} limit ?"));
    binds.push(Value::Integer(rows));
    Ok((sql, binds))
}

/// Where letters are looked for: the table driven by the right index, and the conditions that search for words.
struct From {
    table: String,
    words: String,
    binds: Vec<Value>,
}

impl From {
    fn of(conn: &Connection, filter: &Filter, sql: &Where, by_death: bool) -> Result<From, StoreError> {
        let index = if by_death { sql.index } else { "sqlite_autoindex_dead_letter_queue_1" };
        let mut from = From {
            table: format!("dead_letter_queue l indexed by {index}"),
            words: String::new(),
            binds: Vec::new(),
        };
        let mut fewest = i64::MAX;
        if let Some(words) = &sql.words {
            from.words
                .push_str("l.letter in (select rowid from letter_words where letter_words match ?) and ");
            from.binds.push(Value::Text(words.clone()));
            fewest = conn
                .prepare_cached(
                    "select count(*) from (select rowid from letter_words where letter_words match ?1 limit ?2)",
                )?
                .query_row((words, limits::WORD_ROWS_SORTED_MAX + 1), |row| row.get(0))?;
        }
        if let Some(candidates) = Candidates::of(conn, filter)? {
            from.words.push_str(&candidates.sql);
            from.binds.extend(candidates.binds);
            fewest = fewest.min(candidates.count);
        }
        // Few letters are found by their words and then sorted; many are met in order and asked for their words.
        if fewest <= limits::WORD_ROWS_SORTED_MAX {
            from.table = "dead_letter_queue l not indexed".into();
        }
        Ok(from)
    }
}

/// Counts up to so many.
pub(super) fn count(conn: &Connection, filter: &Filter, now: Time, most: u64) -> Result<Total, StoreError> {
    let snapshot = snapshot(conn)?;
    let sql = Where::of(conn, filter, now)?;
    let total = if filter.needs_content() {
        scanned_total(conn, filter, &sql, Duration::from_millis(limits::COUNT_MS_MAX), most)?
    } else {
        total(conn, filter, &sql, most)?
    };
    drop(snapshot);
    Ok(total)
}

/// Counts by looking into letters, as far as the time allows.
fn scanned_total(
    conn: &Connection,
    filter: &Filter,
    sql: &Where,
    limit: Duration,
    most: u64,
) -> Result<Total, StoreError> {
    let From { table, words, mut binds } = From::of(conn, filter, sql, true)?;
    let text = format!("select l.letter, l.life from {table} where {words} {} limit ?", sql.sql);
    binds.extend(sql.binds.iter().cloned());
    binds.push(Value::Integer(limits::SCAN_LETTERS_MAX));
    let mut statement = conn.prepare_cached(&text)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut scanner = Scanner::new(conn, filter, limit);
    let mut count = 0;
    while let Some(row) = found.next()? {
        if scanner.is_over() || count == most {
            return Ok(Total::AtLeast(count));
        }
        count += u64::from(scanner.holds(row.get(0)?, row.get(1)?)?);
    }
    Ok(if scanner.letters() < limits::SCAN_LETTERS_MAX as u64 {
        Total::Exact(count)
    } else {
        Total::AtLeast(count)
    })
}

/// Exact where a counter answers or few match, else "at least".
fn total(conn: &Connection, filter: &Filter, sql: &Where, most: u64) -> Result<Total, StoreError> {
    if let Some(total) = counted(conn, filter)? {
        return Ok(Total::Exact(total));
    }
    let From { table, words, mut binds } = From::of(conn, filter, sql, true)?;
    let text = format!("select count(*) from (select 1 from {table} where {words} {} limit ?)", sql.sql);
    binds.extend(sql.binds.iter().cloned());
    binds.push(Value::Integer(one_more(most)));
    let count: i64 =
        conn.prepare_cached(&text)?.query_row(rusqlite::params_from_iter(binds), |row| row.get(0))?;
    let count = count as u64;
    Ok(if count > most { Total::AtLeast(most) } else { Total::Exact(count) })
}

/// As many rows as tell whether there are more than `most`.
fn one_more(most: u64) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1)
}

/// Answers from the counters, if the filter asks for no more than one value of one dimension, and for states.
fn counted(conn: &Connection, filter: &Filter) -> Result<Option<u64>, StoreError> {
    let mut rest = filter.clone();
    let status = std::mem::take(&mut rest.status);
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
    if !rest.is_empty() {
        return Ok(None);
    }
    let mut statement = conn.prepare_cached(
        "select term, letters from counters where dimension = ?1 and value = ?2 order by term limit 100",
    )?;
    let mut rows = statement.query((asked.0.name(), asked.1))?;
    let mut total = 0;
    while let Some(row) = rows.next()? {
        if status.allows(&rows::status(&row.get::<_, String>(0)?)?) {
            total += row.get::<_, i64>(1)?;
        }
    }
    Ok(Some(total.max(0) as u64))
}

pub(super) fn history(conn: &Connection, id: LetterId) -> Result<Option<LetterHistory>, StoreError> {
    let snapshot = snapshot(conn)?;
    let history = history_in(conn, id)?;
    drop(snapshot);
    Ok(history)
}

/// A letter with all its lives and attempts, within a snapshot that is open already.
pub(super) fn history_in(conn: &Connection, id: LetterId) -> Result<Option<LetterHistory>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select {LETTER_COLUMNS}, l.letter
           from dead_letter_queue l
           join fingerprints f on f.fingerprint = l.fingerprint
          where l.id = ?1"
    ))?;
    let mut found = statement.query([id.bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let letter = rows::letter(row)?;
    let number: i64 = row.get(31)?;
    let lives = lives(conn, number)?;
    let attempts = attempts(conn, number)?;
    let decisions = decisions::of_letter(conn, id)?;
    Ok(Some(LetterHistory { letter, lives, attempts, decisions }))
}

/// The lives of a live letter.
fn lives(conn: &Connection, letter: i64) -> Result<Vec<Life>, StoreError> {
    let mut statement = conn
        .prepare_cached(&format!("select {} from lives v where v.letter = ?1 order by v.life", LIVES.list))?;
    let mut rows = statement.query([letter])?;
    let mut lives = Vec::new();
    while let Some(row) = rows.next()? {
        lives.push(engine::letters::life(&seam::Row::of_sqlite(row))?);
    }
    Ok(lives)
}

/// The attempts of a live letter.
fn attempts(conn: &Connection, letter: i64) -> Result<Vec<LifeAttempt>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select {} from attempts a where a.letter = ?1 order by a.ordinal",
        ATTEMPTS.list
    ))?;
    let mut rows = statement.query([letter])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        attempts.push(engine::letters::attempt(&seam::Row::of_sqlite(row))?);
    }
    Ok(attempts)
}

const ORIGINAL: &str = "
select v.life, v.content_type, v.headers, v.body, v.sha256, v.origin, v.body_missing
  from dead_letter_queue l
  join lives v on v.letter = l.letter and v.life = coalesce(?2, l.life)
 where l.id = ?1";

pub(super) fn original(
    conn: &Connection,
    id: LetterId,
    life: Option<u32>,
) -> Result<Option<Original>, StoreError> {
    let mut statement = conn.prepare_cached(ORIGINAL)?;
    let mut found = statement.query((id.bytes(), life))?;
    let Some(row) = found.next()? else { return Ok(None) };
    let life: u32 = row.get(0)?;
    let envelope = bodies::envelope(row, 1)?
        .with_origin(open_origin(row.get::<_, Option<String>>(5)?.as_deref())?)
        .with_body_missing(row.get(6)?);
    if *envelope.sha256() != row.get::<_, [u8; 32]>(4)? {
        return Err(StoreError::Corrupt(format!(
            "the body of letter {id}, life {life}, does not have its hash"
        )));
    }
    Ok(Some(Original { life, envelope }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate;

    fn new_query(filter: Filter, sort: Sort, after: Option<LastKey>) -> PageQuery {
        PageQuery { filter, now: Time::from_ms(0), sort, limit: 50, after, scan_max: PageQuery::SCAN_MAX }
    }

    /// The steps by which SQLite would fetch a page.
    fn plan(conn: &Connection, query: &PageQuery) -> Vec<String> {
        let filter = Where::of(conn, &query.filter, query.now).unwrap();
        let (sql, binds) = page_sql(conn, query, &filter, 51).unwrap();
        let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
        let steps = statement.query_map(rusqlite::params_from_iter(binds), |row| row.get("detail")).unwrap();
        steps.collect::<Result<_, _>>().unwrap()
    }

    fn new() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        conn.execute_batch(
            "insert into incidents (id, state, opened_at, type, error_type)
             values (x'019a8b1c7e0070008000000000000000', 'open', 0, '', '');
             insert into fingerprints (fingerprint, incident, first_seen_at)
             values ('v1:00', x'019a8b1c7e0070008000000000000000', 0);",
        )
        .unwrap();
        // A fingerprint that no letter has is not asked for.
        conn.execute(
            "insert into dead_letter_queue (id, source, event_id, type, queue, error_type, error_message, class,
                    fingerprint, retry_count, status, place, life, created_at, updated_at, died_at, retention_at)
             values (zeroblob(16), '', '', '', '', '', '', 'unknown', 'v1:00', 0, ?1, 'live', 1, 0, 0, 0, 0)",
            [lazaret_core::lifecycle::Status::Pending.name()],
        )
        .unwrap();
        conn
    }

    #[test]
    fn a_page_is_fetched_in_order_by_the_index_of_its_filter() {
        let conn = new();
        let last = LastKey { at: Time::from_ms(0), id: LetterId::from_bytes([0; 16]) };
        for (filter, index) in [
            ("", "letters_by_death"),
            ("queue:a", "letters_by_queue"),
            ("type:a", "letters_by_type"),
            ("error:a", "letters_by_error_type"),
            ("class:transient", "letters_by_class"),
            ("status:pending", "letters_by_status"),
            ("source:a", "letters_by_source"),
            ("source:a status:pending", "letters_by_source"),
            ("source:jobs", "letters_by_source"),
            ("source:jobs status:pending", "letters_of_jobs"),
            ("source:jobs status:pending,resolved", "letters_by_source"),
            ("source:jobs status:pending -type:b", "letters_of_jobs"),
            ("source:jobs status:pending queue:a", "letters_by_queue"),
            ("incident:019a8b1c-7e00-7000-8000-000000000000", "letters_by_fingerprint"),
            ("event:a", "letters_by_event"),
            ("subscriber:a", "letters_by_subscriber"),
            ("tenant:a", "letters_by_tenant"),
            ("aggregate:a", "letters_by_aggregate"),
            ("queue:a status:pending -type:b", "letters_by_queue"),
            ("queue:a*", "letters_by_death"),
        ] {
            for range in ["", " since:7d until:1d"] {
                for sort in [Sort::DiedAtDesc, Sort::DiedAtAsc] {
                    for after in [None, Some(last)] {
                        let filter = Filter::from_text(&format!("{filter}{range}")).unwrap();
                        let query = new_query(filter, sort, after);
                        let steps = plan(&conn, &query);
                        let named = |step: &String| step.split_whitespace().any(|word| word == index);
                        assert!(steps.iter().any(named), "{} {sort:?}: {steps:?}", query.filter);
                        assert!(
                            steps.iter().all(|step| in_order(step)),
                            "{} {sort:?}: {steps:?}",
                            query.filter
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_page_by_creation_is_fetched_in_order() {
        let conn = new();
        for filter in ["", "queue:a", "status:pending"] {
            for sort in [Sort::CreatedAtDesc, Sort::CreatedAtAsc] {
                let filter = Filter::from_text(filter).unwrap();
                let query = new_query(filter, sort, None);
                let steps = plan(&conn, &query);
                assert!(steps.iter().all(|step| in_order(step)), "{} {sort:?}: {steps:?}", query.filter);
            }
        }
    }

    /// Whether a step of a plan neither sorts nor reads a whole table.
    fn in_order(step: &str) -> bool {
        !step.contains("TEMP B-TREE") && (!step.starts_with("SCAN") || step.contains("USING INDEX"))
    }
}
