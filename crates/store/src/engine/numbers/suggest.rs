//! Values that occur, for whoever types a filter: from the counters, from an index, or from the newest letters.

use std::collections::HashMap;

use lazaret_core::class::ErrorClass;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;

use crate::StoreError;
use crate::engine::dimension::Dimension;
use crate::seam::{Conn, Row, Sql, binds, sql};
use crate::search::{SuggestKey, Suggestion};

/// Asked within a snapshot.
pub(super) async fn suggest(
    conn: &mut impl Conn,
    key: SuggestKey,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    // No value begins with what no column can hold.
    if conn.kept(prefix) != prefix {
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
            let known = conn.query(&STATUSES, binds![Dimension::All.name()], counted_value).await?;
            Ok(of_closed_set(Status::ALL.map(Status::name), prefix, &known, limit))
        }
        SuggestKey::Subscriber => distinct(conn, &SUBSCRIBERS, prefix, limit).await,
        SuggestKey::Tenant => distinct(conn, &TENANTS, prefix, limit).await,
        SuggestKey::Code => newest(conn, prefix, limit).await,
    }
}

const COUNTED: Sql = sql!(
    "
select c.value, sum(c.letters){postgres ::bigint} as letters
  from (select value, letters
          from counters
         where dimension = $1
           and value >= $2
           and value < $3
         order by value, term
         limit $4) c
 group by c.value
having sum(c.letters) > 0
 order by letters desc, c.value
 limit $5"
);

async fn counted(
    conn: &mut impl Conn,
    dimension: Dimension,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    let values = binds![dimension.name(), prefix, behind(prefix), limits::SUGGEST_COUNTERS_MAX, limit];
    let mut found = conn.query(&COUNTED, values, counted_value).await?;
    // An empty value is no help to anyone who types.
    found.retain(|suggestion| !suggestion.value.is_empty());
    Ok(found)
}

fn counted_value(row: &Row<'_>) -> Result<Suggestion, StoreError> {
    Ok(Suggestion { value: row.get("value")?, letters: Some(row.get("letters")?) })
}

/// The first text behind all that begin with `prefix`, in the order of their bytes. No column holds this character.
fn behind(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}

const STATUSES: Sql = sql!(
    "
select term as value, letters
  from counters
 where dimension = $1
   and value = ''
 order by term
 limit 100"
);

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
macro_rules! distinct {
    ($column:literal, $index:literal) => {
        sql!(concat!(
            "with recursive found (value, n) as (
               select * from (select ",
            $column,
            ", 1{postgres ::bigint}
                  from dead_letter_queue{sqlite  indexed by ",
            $index,
            "}
                 where ",
            $column,
            " >= $1
                   and ",
            $column,
            " < $2{sqlite 
                   and listed = 1}
                 order by ",
            $column,
            "
                 limit 1) as first
               union all
               select (select l.",
            $column,
            "
                         from dead_letter_queue l{sqlite  indexed by ",
            $index,
            "}
                        where l.",
            $column,
            " > f.value
                          and l.",
            $column,
            " < $2{sqlite 
                          and l.listed = 1}
                        order by l.",
            $column,
            "
                        limit 1), f.n + 1
                 from found f
                where f.value is not null
                  and f.n <= $3)
             select value
               from found
              where value <> ''
              order by value
              limit $3"
        ))
    };
}

const SUBSCRIBERS: Sql = distinct!("subscriber_id", "letters_by_subscriber");
const TENANTS: Sql = distinct!("tenant", "letters_by_tenant");

async fn distinct(
    conn: &mut impl Conn,
    sql: &Sql,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Suggestion>, StoreError> {
    let values = binds![prefix, behind(prefix), limit];
    conn.query(sql, values, |row| Ok(Suggestion { value: row.get("value")?, letters: None })).await
}

const NEWEST_CODES: Sql = sql!(
    "
select error_code
  from dead_letter_queue{sqlite  indexed by letters_by_death
 where listed = 1}
 order by died_at desc, id desc
 limit $1"
);

/// Nothing counts codes: what the newest letters have is what somebody at the filter is after.
async fn newest(conn: &mut impl Conn, prefix: &str, limit: usize) -> Result<Vec<Suggestion>, StoreError> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let read = |row: &Row<'_>| row.get::<Option<String>>("error_code");
    for code in
        conn.query(&NEWEST_CODES, binds![limits::SUGGEST_LETTERS_MAX], read).await?.into_iter().flatten()
    {
        if !code.is_empty() && code.starts_with(prefix) {
            *counts.entry(code).or_default() += 1;
        }
    }
    let mut codes: Vec<_> = counts.into_iter().collect();
    codes.sort_by(|(one, n), (other, m)| m.cmp(n).then_with(|| one.cmp(other)));
    codes.truncate(limit);
    Ok(codes.into_iter().map(|(value, _)| Suggestion { value, letters: None }).collect())
}
