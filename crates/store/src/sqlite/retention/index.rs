//! The index of the archive: one row for each letter that is there, as it was when it went.

use std::time::{Duration, Instant};

use lazaret_core::id::LetterId;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::filter::{ArchiveWhere, Driver};
use super::super::rows;
use super::super::trash::Removal;
use super::super::writer::Write;
use crate::StoreError;
use crate::archive::{ArchivePage, ArchiveQuery, Archived, Entry};
use crate::engine::archive::index::{ARCHIVED_COLUMNS, ARCHIVED_JOINS, read};
use crate::seam::Row;
use crate::search::Scan;

/// The columns of a live letter that the index keeps under the same names.
pub(super) const SAME: &str = "id, source, event_id, subscriber_id, tenant, type, queue, aggregate, schema_version,
error_type, error_code, error_message, class, fingerprint, retry_count, max_retries, status, life, ever_sent, held_at,
held_by, hold_reason, resolution_timestamp, resolution_strategy, resolved_by, resolution_notes, previous, created_at,
updated_at, died_at, retention_at";

/// Puts a letter into the index that is still among the live ones, under its number; its content waits in the trash.
pub(in crate::sqlite) fn add(
    write: &Write,
    row: i64,
    place: Place,
    since: Time,
    removal: &Removal<'_>,
) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached(&format!(
            "insert into archive ({SAME}, key, place, waiting, bytes, since, removed_at, removed_by, reason)
             select {SAME}, (select k.key from letter_keys k where k.id = dead_letter_queue.id), ?2, 1,
                    (select coalesce(sum(v.body_bytes), 0) from lives v where v.letter = ?1), ?3, ?4, ?5, ?6
               from dead_letter_queue
              where letter = ?1"
        ))?
        .execute((row, place.name(), since.ms(), removal.at.ms(), removal.by, removal.reason))?;
    Ok(())
}

fn archived_sql(from: &str) -> String {
    format!("select {ARCHIVED_COLUMNS} from {from} {ARCHIVED_JOINS}")
}

/// A letter as it was when it went; for events that tell of it.
pub(in crate::sqlite) fn letter(conn: &Connection, letter: LetterId) -> Result<Option<Letter>, StoreError> {
    let sql = format!("{} where l.id = ?1", archived_sql("archive l"));
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query([letter.bytes()])?;
    found.next()?.map(rows::letter).transpose()
}

/// Rows that one step of a search looks at, where no index answers.
const WINDOW: usize = 2_000;

pub(in crate::sqlite) fn page(conn: &Connection, query: &ArchiveQuery) -> Result<ArchivePage, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let asked = ArchiveWhere::of(conn, &query.filter, query.place, query.now)?;
    let before = query.before.unwrap_or(Entry::MAX);
    let page = match asked.answered {
        true => answered(conn, query, &asked, before)?,
        false => looked_for(conn, query, &asked, before)?,
    };
    drop(snapshot);
    Ok(page)
}

fn answered(
    conn: &Connection,
    query: &ArchiveQuery,
    asked: &ArchiveWhere,
    before: Entry,
) -> Result<ArchivePage, StoreError> {
    let mut letters = fetch(conn, asked, before, Entry::MIN, query.limit + 1)?;
    let more = letters.len() > query.limit;
    letters.truncate(query.limit);
    let next = letters.last().filter(|_| more).map(|last| last.entry);
    Ok(ArchivePage { letters, next, scan: None })
}

/// A page of rows that have to be looked at one by one: it ends when it is full or when the time is over.
fn looked_for(
    conn: &Connection,
    query: &ArchiveQuery,
    asked: &ArchiveWhere,
    mut before: Entry,
) -> Result<ArchivePage, StoreError> {
    let until = Instant::now() + Duration::from_millis(limits::SCAN_MS_MAX);
    let mut letters: Vec<Archived> = Vec::new();
    let mut scan = Scan { letters: 0, cut_short: false };
    loop {
        let (rows, last) = window(conn, asked, before)?;
        scan.letters += rows as u64;
        for archived in fetch(conn, asked, before, last, WINDOW)? {
            if !query.filter.matches(&archived.letter, query.now) {
                continue;
            }
            if letters.len() == query.limit {
                let next = letters.last().map(|last| last.entry);
                return Ok(ArchivePage { letters, next, scan: Some(scan) });
            }
            letters.push(archived);
        }
        if rows < WINDOW {
            return Ok(ArchivePage { letters, next: None, scan: Some(scan) });
        }
        before = last;
        if Instant::now() > until {
            scan.cut_short = true;
            return Ok(ArchivePage { letters, next: Some(last), scan: Some(scan) });
        }
    }
}

/// How many rows the next step looks at, and the last of them.
fn window(conn: &Connection, asked: &ArchiveWhere, before: Entry) -> Result<(usize, Entry), StoreError> {
    let Driver { condition, bind } = &asked.driver;
    let sql = format!(
        "select count(*), coalesce(min(entry), ?)
           from (select l.entry as entry
                   from {}
                  where {condition}
                    and l.entry < ?
                  order by l.entry desc
                  limit ?)",
        table(asked)
    );
    let mut binds = vec![Value::Integer(Entry::MIN)];
    binds.extend(bind.iter().cloned());
    binds.extend([Value::Integer(before), Value::Integer(WINDOW as i64)]);
    let (rows, last): (i64, Entry) = conn
        .prepare_cached(&sql)?
        .query_row(rusqlite::params_from_iter(binds), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((rows as usize, last))
}

fn table(asked: &ArchiveWhere) -> String {
    match asked.index {
        Some(index) => format!("archive l indexed by {index}"),
        None => "archive l not indexed".to_owned(),
    }
}

/// Rows that match, from `last` on and before another one, the newest first.
fn fetch(
    conn: &Connection,
    asked: &ArchiveWhere,
    before: Entry,
    last: Entry,
    limit: usize,
) -> Result<Vec<Archived>, StoreError> {
    let sql = format!(
        "{}
          where {}
            and l.entry < ?
            and l.entry >= ?
          order by l.entry desc
          limit ?",
        archived_sql(&table(asked)),
        asked.sql
    );
    let mut binds = asked.binds.clone();
    binds.extend([Value::Integer(before), Value::Integer(last), Value::Integer(limit as i64)]);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut letters = Vec::new();
    while let Some(row) = found.next()? {
        letters.push(read(&Row::of_sqlite(row))?);
    }
    Ok(letters)
}

#[cfg(test)]
mod tests {
    use lazaret_core::filter::Filter;

    use super::*;
    use crate::sqlite::migrate;

    #[test]
    fn a_page_is_fetched_in_order_by_the_index_of_its_filter() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        for (filter, place, index, answered) in [
            ("", None, "INTEGER PRIMARY KEY", true),
            ("", Some(Place::Deleted), "archive_by_place", true),
            ("queue:a", None, "archive_by_queue", true),
            ("queue:a", Some(Place::Archived), "archive_by_queue", false),
            ("type:a", None, "archive_by_type", true),
            ("error:a", None, "archive_by_error_type", true),
            ("source:a", None, "archive_by_source", true),
            ("event:a", None, "archive_by_event", true),
            ("source:a tenant:b", None, "archive_by_source", false),
            ("tenant:b", None, "INTEGER PRIMARY KEY", false),
            ("queue:a some words", None, "archive_by_queue", false),
            ("queue:a*", None, "INTEGER PRIMARY KEY", false),
        ] {
            let filter = Filter::from_text(filter).unwrap();
            let asked = ArchiveWhere::of(&conn, &filter, place, Time::from_ms(0)).unwrap();
            assert_eq!(asked.answered, answered, "{filter}");
            let sql = format!(
                "explain query plan {} where {} and l.entry < 9 order by l.entry desc limit 9",
                archived_sql(&table(&asked)),
                asked.sql
            );
            let mut statement = conn.prepare(&sql).unwrap();
            let binds = rusqlite::params_from_iter(asked.binds.iter());
            let steps: Vec<String> =
                statement.query_map(binds, |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
            assert!(steps[0].contains(index), "{filter}: {steps:?}");
            assert!(steps.iter().all(|step| !step.contains("TEMP B-TREE")), "{filter}: {steps:?}");
            assert!(steps.iter().all(|step| !step.starts_with("SCAN")), "{filter}: {steps:?}");
        }
    }
}
