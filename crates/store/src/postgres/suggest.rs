//! Values that occur, for whoever types a filter: from the counters, from an index, or from the newest letters.

use std::collections::HashMap;

use lazaret_core::class::ErrorClass;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;

use super::cell::Cells;
use super::conn::Conn;
use super::counters::Dimension;
use crate::StoreError;
use crate::search::{SuggestKey, Suggestion};

/// Asked within a snapshot.
pub(super) async fn suggest(
    conn: &Conn,
    key: SuggestKey,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    // No value holds a NUL, and none can be bound.
    if prefix.contains('\0') {
        return Ok(Vec::new());
    }
    match key {
        SuggestKey::Source => counted(conn, Dimension::Source, prefix, limit).await,
        SuggestKey::Queue => counted(conn, Dimension::Queue, prefix, limit).await,
        SuggestKey::Type => counted(conn, Dimension::Type, prefix, limit).await,
        SuggestKey::ErrorType => counted(conn, Dimension::ErrorType, prefix, limit).await,
        SuggestKey::Aggregate => counted(conn, Dimension::Aggregate, prefix, limit).await,
        SuggestKey::Class => {
            let known = counted(conn, Dimension::Class, prefix, ErrorClass::ALL.len()).await?;
            Ok(of_closed_set(ErrorClass::ALL.map(ErrorClass::name), prefix, &known, limit))
        }
        SuggestKey::Status => {
            let known = statuses(conn).await?;
            Ok(of_closed_set(Status::ALL.map(Status::name), prefix, &known, limit))
        }
        SuggestKey::Subscriber => distinct(conn, "subscriber_id", prefix, limit).await,
        SuggestKey::Tenant => distinct(conn, "tenant", prefix, limit).await,
        SuggestKey::Code => newest(conn, prefix, limit).await,
    }
}

const COUNTED: &str = "
select c.value, sum(c.letters)::bigint as n
  from (select value, letters
          from counters
         where dimension = $1
           and value >= $2
           and value < $3
         order by value, term
         limit $4) c
 group by c.value
having sum(c.letters) > 0
 order by n desc, c.value
 limit $5";

async fn counted(
    conn: &Conn,
    dimension: Dimension,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    let (read_max, limit) = (limits::SUGGEST_COUNTERS_MAX as i64, limit as i64);
    let rows = conn.query(COUNTED, &[&dimension.name(), &prefix, &behind(prefix), &read_max, &limit]).await?;
    let mut suggestions = Vec::with_capacity(rows.len());
    for row in rows {
        let value: String = row.cell(0)?;
        // An empty value is no help to anyone who types.
        if !value.is_empty() {
            suggestions.push(Suggestion { value, letters: Some(row.count(1)?) });
        }
    }
    Ok(suggestions)
}

/// The first text behind all that begin with `prefix`, in the order of their bytes. No column holds this character.
fn behind(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}

const STATUSES: &str = "
select term, letters
  from counters
 where dimension = $1
   and value = ''
 order by term
 limit 100";

async fn statuses(conn: &Conn) -> Result<Vec<Suggestion>, StoreError> {
    let rows = conn.query(STATUSES, &[&Dimension::All.name()]).await?;
    rows.iter().map(|row| Ok(Suggestion { value: row.cell(0)?, letters: Some(row.count(1)?) })).collect()
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

/// Jumps from value to value along an index, one further than asked for: the first may be empty.
async fn distinct(
    conn: &Conn,
    column: &str,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    let sql = format!(
        "with recursive found (value, n) as (
           (select {column}, 1::bigint
              from dead_letter_queue
             where {column} >= $1
               and {column} < $2
             order by {column}
             limit 1)
           union all
           select (select l.{column}
                     from dead_letter_queue l
                    where l.{column} > f.value
                      and l.{column} < $2
                    order by l.{column}
                    limit 1), f.n + 1
             from found f
            where f.value is not null
              and f.n <= $3)
         select value
           from found
          where value <> ''
          order by value
          limit $3"
    );
    let rows = conn.query(&sql, &[&prefix, &behind(prefix), &(limit as i64)]).await?;
    rows.iter().map(|row| Ok(Suggestion { value: row.cell(0)?, letters: None })).collect()
}

const NEWEST_CODES: &str = "
select error_code
  from dead_letter_queue
 order by died_at desc, id desc
 limit $1";

/// Nothing counts codes: what the newest letters have is what somebody at the filter is after.
async fn newest(conn: &Conn, prefix: &str, limit: usize) -> Result<Vec<Suggestion>, StoreError> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for row in conn.query(NEWEST_CODES, &[&(limits::SUGGEST_LETTERS_MAX as i64)]).await? {
        if let Some(code) = row.cell::<Option<String>>(0)?
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
