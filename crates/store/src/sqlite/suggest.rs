//! Values that occur, for whoever types a filter: from the counters, from an index, or from the newest letters.

use std::collections::HashMap;

use lazaret_core::class::ErrorClass;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use rusqlite::{Connection, OptionalExtension};

use super::counters::Dimension;
use crate::StoreError;
use crate::search::{SuggestKey, Suggestion};

pub(super) fn suggest(
    conn: &Connection,
    key: SuggestKey,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    match key {
        SuggestKey::Source => counted(conn, Dimension::Source, prefix, limit),
        SuggestKey::Queue => counted(conn, Dimension::Queue, prefix, limit),
        SuggestKey::Type => counted(conn, Dimension::Type, prefix, limit),
        SuggestKey::ErrorType => counted(conn, Dimension::ErrorType, prefix, limit),
        SuggestKey::Aggregate => counted(conn, Dimension::Aggregate, prefix, limit),
        SuggestKey::Class => {
            let known = counted(conn, Dimension::Class, prefix, ErrorClass::ALL.len())?;
            Ok(of_closed_set(ErrorClass::ALL.map(ErrorClass::name), prefix, &known, limit))
        }
        SuggestKey::Status => {
            let known = statuses(conn)?;
            Ok(of_closed_set(Status::ALL.map(Status::name), prefix, &known, limit))
        }
        SuggestKey::Subscriber => distinct(conn, "subscriber_id", "letters_by_subscriber", prefix, limit),
        SuggestKey::Tenant => distinct(conn, "tenant", "letters_by_tenant", prefix, limit),
        SuggestKey::Code => newest(conn, prefix, limit),
    }
}

const COUNTED: &str = "
select value, sum(letters) as n
  from (select value, letters
          from counters
         where dimension = ?1
           and value >= ?2
           and value < ?3
         order by value
         limit ?4)
 group by value
having n > 0
 order by n desc, value
 limit ?5";

fn counted(
    conn: &Connection,
    dimension: Dimension,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    let mut statement = conn.prepare_cached(COUNTED)?;
    let read_max = limits::SUGGEST_COUNTERS_MAX as i64;
    let found = statement
        .query_map((dimension.name(), prefix, behind(prefix), read_max, limit as i64), |row| {
            Ok(Suggestion { value: row.get(0)?, letters: Some(row.get::<_, i64>(1)? as u64) })
        })?;
    Ok(found.filter(not_empty).collect::<Result<_, _>>()?)
}

/// An empty value is no help to anyone who types.
fn not_empty(found: &rusqlite::Result<Suggestion>) -> bool {
    found.as_ref().map_or(true, |suggestion| !suggestion.value.is_empty())
}

/// The first text behind all that begin with `prefix`, in the order of their bytes. No column holds this character.
fn behind(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}

fn statuses(conn: &Connection) -> Result<Vec<Suggestion>, StoreError> {
    let mut statement = conn
        .prepare_cached("select term, letters from counters where dimension = ?1 and value = '' limit 100")?;
    let found = statement.query_map([Dimension::All.name()], |row| {
        Ok(Suggestion { value: row.get(0)?, letters: Some(row.get::<_, i64>(1)?.max(0) as u64) })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Values of a closed set, also those that no letter has.
fn of_closed_set<const N: usize>(
    names: [&'static str; N],
    prefix: &str,
    known: &[Suggestion],
    limit: usize,
) -> Vec<Suggestion> {
    let letters = |name: &str| known.iter().find(|one| one.value == name).and_then(|one| one.letters);
    let mut suggestions: Vec<Suggestion> = names
        .into_iter()
        .filter(|name| name.starts_with(prefix))
        .map(|name| Suggestion { value: name.to_owned(), letters: Some(letters(name).unwrap_or(0)) })
        .collect();
    suggestions.sort_by_key(|suggestion| std::cmp::Reverse(suggestion.letters));
    suggestions.truncate(limit);
    suggestions
}

/// Jumps from value to value along an index.
fn distinct(
    conn: &Connection,
    column: &str,
    index: &str,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    let first = format!(
        "select {column} from dead_letter_queue indexed by {index}
          where listed = 1 and {column} is not null and {column} >= ?1 and {column} < ?2 order by {column} limit 1"
    );
    let next = first.replace(">= ?1", "> ?1");
    let end = behind(prefix);
    let mut suggestions: Vec<Suggestion> = Vec::new();
    let mut found: Option<String> =
        conn.prepare_cached(&first)?.query_row((prefix, &end), |row| row.get(0)).optional()?;
    while let Some(value) = found {
        if suggestions.len() == limit {
            break;
        }
        found = conn.prepare_cached(&next)?.query_row((&value, &end), |row| row.get(0)).optional()?;
        if !value.is_empty() {
            suggestions.push(Suggestion { value, letters: None });
        }
    }
    Ok(suggestions)
}

const NEWEST_CODES: &str = "
select error_code
  from dead_letter_queue indexed by letters_by_death
 where listed = 1
 order by died_at desc
 limit ?1";

/// Nothing counts codes: what the newest letters have is what somebody at the filter is after.
fn newest(conn: &Connection, prefix: &str, limit: usize) -> Result<Vec<Suggestion>, StoreError> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut statement = conn.prepare_cached(NEWEST_CODES)?;
    let found =
        statement.query_map([limits::SUGGEST_LETTERS_MAX as i64], |row| row.get::<_, Option<String>>(0))?;
    for code in found {
        if let Some(code) = code?
            && !code.is_empty()
            && code.starts_with(prefix)
        {
            *counts.entry(code).or_default() += 1;
        }
    }
    let mut codes: Vec<_> = counts.into_iter().collect();
    codes.sort_by(|(one, n), (other, m)| m.cmp(n).then_with(|| one.cmp(other)));
    codes.truncate(limit);
    Ok(codes.into_iter().map(|(value, _)| Suggestion { value, letters: None }).collect())
}
