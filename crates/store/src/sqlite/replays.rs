//! Letters that a replay rule may put back, found and looked into.

use std::time::Duration;

use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::filter::Where;
use super::scan::Scanner;
use crate::StoreError;
use crate::engine::operations::DeathKey;
use crate::engine::replays::Candidate;
use crate::replay::ReplayQuery;

/// The letters of a round behind a place and up to another, in the order of their deaths, that the rule has not put back
/// as often as it may.
pub(super) fn candidates(
    conn: &Connection,
    query: &ReplayQuery,
    between: (Option<DeathKey>, Option<DeathKey>),
    rows: usize,
) -> Result<Vec<Candidate>, StoreError> {
    let (sql, binds) = candidates_sql(conn, query, between, rows)?;
    let mut statement = conn.prepare_cached(&sql)?;
    let found = statement.query_map(rusqlite::params_from_iter(binds), |row| {
        let key = (Time::from_ms(row.get(0)?), LetterId::from_bytes(row.get(1)?));
        Ok(Candidate { key, life: row.get(2)? })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn candidates_sql(
    conn: &Connection,
    query: &ReplayQuery,
    (from, end): (Option<DeathKey>, Option<DeathKey>),
    rows: usize,
) -> Result<(String, Vec<Value>), StoreError> {
    let filter = Where::of(conn, &query.filter, query.now)?;
    let words = match &filter.words {
        Some(_) => "l.letter in (select rowid from letter_words where letter_words match ?) and",
        None => "",
    };
    let mut sql = format!(
        "select l.died_at, l.id, l.life
           from dead_letter_queue l indexed by letters_of_jobs
          where l.source = 'jobs'
            and l.status = ?
            and {words} {}
            and coalesce((select r.count from replays r where r.letter = l.id and r.rule = ?), 0) < ?",
        filter.sql
    );
    let mut binds = vec![Value::Text(Status::Pending.name().into())];
    binds.extend(filter.words.into_iter().map(Value::Text));
    binds.extend(filter.binds);
    binds.extend([Value::Text(query.rule.clone()), Value::Integer(query.max_replays.into())]);
    for (comparison, key) in [(">", from), ("<=", end)] {
        if let Some((died_at, id)) = key {
            sql.push_str(&format!(" and (l.died_at, l.id) {comparison} (?, ?)"));
            binds.extend([Value::Integer(died_at.ms()), Value::Blob(id.bytes().to_vec())]);
        }
    }
    sql.push_str(" order by l.died_at, l.id limit ?");
    binds.push(Value::Integer(rows as i64));
    Ok((sql, binds))
}

/// The first candidates whose content is what the filter asks for, and how many were looked at for it: until there are
/// enough, or the time is over.
pub(super) fn match_content(
    conn: &Connection,
    filter: &Filter,
    candidates: &[Candidate],
    limit: usize,
) -> Result<(Vec<Candidate>, usize), StoreError> {
    let mut number = conn.prepare_cached("select letter from dead_letter_queue where id = ?1")?;
    let mut scanner = Scanner::new(conn, filter, Duration::from_millis(limits::REPLAY_SCAN_MS_MAX));
    let mut given = Vec::new();
    for (looked_at, candidate) in candidates.iter().enumerate() {
        if given.len() >= limit || scanner.is_over() {
            return Ok((given, looked_at));
        }
        let letter = number.query_row([candidate.key.1.bytes()], |row| row.get(0))?;
        if scanner.holds(letter, candidate.life)? {
            given.push(*candidate);
        }
    }
    Ok((given, candidates.len()))
}

#[cfg(test)]
mod tests;
