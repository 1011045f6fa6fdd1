//! Statistics from the counters.

use std::collections::BTreeMap;

use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::engine::dimension::Dimension;
use crate::job::SOURCE;
use crate::seam::{Conn, Row, Sql, binds, sql};
use crate::stats::{Stats, StatsOf};

/// Asked within a snapshot.
pub(super) async fn stats(conn: &mut impl Conn, of: StatsOf) -> Result<Stats, StoreError> {
    match of {
        StatsOf::All => of_letters(conn, None).await,
        StatsOf::Only(status) => of_letters(conn, Some(status)).await,
        StatsOf::Jobs(status) => of_jobs(conn, status).await,
    }
}

async fn of_letters(conn: &mut impl Conn, only: Option<Status>) -> Result<Stats, StoreError> {
    let by_status = by_status(conn, Dimension::All, "").await?;
    let total = by_status.iter().filter(|(name, _)| only.is_none_or(|only| only.name() == **name));
    let (oldest, newest) = match only {
        Some(_) => (&OLDEST_IN_STATUS, &NEWEST_IN_STATUS),
        None => (&OLDEST, &NEWEST),
    };
    Ok(Stats {
        total: total.map(|(_, letters)| letters).sum(),
        by_source: by_value(conn, Dimension::Source, only).await?,
        by_queue: by_value(conn, Dimension::Queue, only).await?,
        by_type: by_value(conn, Dimension::Type, only).await?,
        by_error_type: by_value(conn, Dimension::ErrorType, only).await?,
        by_class: by_value(conn, Dimension::Class, only).await?,
        oldest_at: death(conn, oldest, only).await?,
        newest_at: death(conn, newest, only).await?,
        by_status,
    })
}

/// Letters of jobs, which are counted and found by themselves.
async fn of_jobs(conn: &mut impl Conn, status: Status) -> Result<Stats, StoreError> {
    let only = Some(status);
    let by_status = by_status(conn, Dimension::Source, SOURCE).await?;
    Ok(Stats {
        total: by_status.get(status.name()).copied().unwrap_or(0),
        by_queue: by_value(conn, Dimension::JobQueue, only).await?,
        by_type: by_value(conn, Dimension::JobType, only).await?,
        by_error_type: by_value(conn, Dimension::JobErrorType, only).await?,
        oldest_at: death(conn, &OLDEST_OF_JOBS, only).await?,
        newest_at: death(conn, &NEWEST_OF_JOBS, only).await?,
        by_status,
        ..Stats::default()
    })
}

const BY_VALUE: Sql = sql!(
    "
select value, sum(letters){postgres ::bigint} as letters
  from counters
 where dimension = $1
   and ($2{postgres ::text} is null or term = $2)
 group by value
having sum(letters) > 0
 order by 2 desc, value
 limit $3"
);

async fn by_value(
    conn: &mut impl Conn,
    dimension: Dimension,
    only: Option<Status>,
) -> Result<Vec<(String, u64)>, StoreError> {
    let values = binds![dimension.name(), only, limits::STATS_VALUES_MAX];
    conn.query(&BY_VALUE, values, |row| Ok((row.get("value")?, row.get("letters")?))).await
}

/// The first or the last death of the letters that an index holds.
macro_rules! death {
    ($index:literal, $guard:literal, $direction:literal) => {
        sql!(concat!(
            "select died_at from dead_letter_queue{sqlite  indexed by ",
            $index,
            "} where ",
            $guard,
            "{sqlite  and listed = 1} order by died_at ",
            $direction,
            " limit 1"
        ))
    };
}

const OLDEST: Sql = death!("letters_by_death", "$1{postgres ::text} is null", "asc");
const NEWEST: Sql = death!("letters_by_death", "$1{postgres ::text} is null", "desc");
const OLDEST_IN_STATUS: Sql = death!("letters_by_status", "status = $1", "asc");
const NEWEST_IN_STATUS: Sql = death!("letters_by_status", "status = $1", "desc");
// The source is not bound: the index holds no others, and the database has to see that.
const OLDEST_OF_JOBS: Sql = death!("letters_of_jobs", "source = 'jobs' and status = $1", "asc");
const NEWEST_OF_JOBS: Sql = death!("letters_of_jobs", "source = 'jobs' and status = $1", "desc");

async fn death(conn: &mut impl Conn, sql: &Sql, only: Option<Status>) -> Result<Option<Time>, StoreError> {
    conn.query_opt(sql, binds![only], |row| row.get("died_at")).await
}

const TERMS: Sql = sql!("select term, letters from counters where dimension = $1 and value = $2 limit 100");

/// Live letters by status, from the counters of one value.
pub(super) async fn terms(
    conn: &mut impl Conn,
    dimension: Dimension,
    value: &str,
) -> Result<[(Status, u64); 4], StoreError> {
    let read = |row: &Row<'_>| Ok((row.get::<String>("term")?, row.get("letters")?));
    let kept: Vec<(String, u64)> = conn.query(&TERMS, binds![dimension.name(), value], read).await?;
    let letters = |status: Status| kept.iter().find(|(term, _)| term == status.name()).map(|(_, n)| *n);
    Ok(Status::ALL.map(|status| (status, letters(status).unwrap_or(0))))
}

async fn by_status(
    conn: &mut impl Conn,
    dimension: Dimension,
    value: &str,
) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    let terms = terms(conn, dimension, value).await?;
    Ok(terms.into_iter().map(|(status, letters)| (status.name(), letters)).collect())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::sqlite::migrate;

    #[test]
    fn deaths_are_found_at_the_ends_of_an_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        let ends = [
            ("letters_by_death", [OLDEST, NEWEST]),
            ("letters_by_status", [OLDEST_IN_STATUS, NEWEST_IN_STATUS]),
            ("letters_of_jobs", [OLDEST_OF_JOBS, NEWEST_OF_JOBS]),
        ];
        for (index, statements) in ends {
            for sql in statements {
                let mut statement = conn.prepare(&format!("explain query plan {}", sql.sqlite)).unwrap();
                let steps = statement.query_map(["x"], |row| row.get("detail")).unwrap();
                let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
                assert_eq!(steps.len(), 1, "{steps:?}");
                assert!(steps[0].contains(&format!("COVERING INDEX {index}")), "{steps:?}");
            }
        }
    }
}
