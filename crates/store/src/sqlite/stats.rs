//! Statistics from the counters, and the ledger from counters or rows.

use std::collections::BTreeMap;

use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::counters::Dimension;
use super::holds;
use super::keys;
use super::retention::recount;
use super::rows;
use crate::StoreError;
use crate::job::SOURCE;
use crate::stats::{Ledger, LedgerBy, Stats, StatsOf};

const BY_VALUE: &str = "
select value, sum(letters) as n
  from counters
 where dimension = ?1
   and (?2 is null or term = ?2)
 group by value
having n > 0
 order by n desc, value
 limit ?3";

pub(super) fn stats(conn: &Connection, of: StatsOf) -> Result<Stats, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let stats = match of {
        StatsOf::All => of_letters(conn, None)?,
        StatsOf::Only(status) => of_letters(conn, Some(status))?,
        StatsOf::Jobs(status) => of_jobs(conn, status)?,
    };
    drop(snapshot);
    Ok(stats)
}

fn of_letters(conn: &Connection, only: Option<Status>) -> Result<Stats, StoreError> {
    let by = |dimension| by_value(conn, dimension, only);
    let by_status = by_status(conn, Dimension::All, "")?;
    let total = by_status.iter().filter(|(name, _)| only.is_none_or(|only| only.name() == **name));
    let end = |direction| match only {
        Some(status) => death(conn, "letters_by_status", "status = ?1", &[status.name()], direction),
        None => death(conn, "letters_by_death", "1", &[], direction),
    };
    Ok(Stats {
        total: total.map(|(_, letters)| letters).sum(),
        by_source: by(Dimension::Source)?,
        by_queue: by(Dimension::Queue)?,
        by_type: by(Dimension::Type)?,
        by_error_type: by(Dimension::ErrorType)?,
        by_class: by(Dimension::Class)?,
        oldest_at: end("asc")?,
        newest_at: end("desc")?,
        by_status,
    })
}

/// Letters of jobs, which are counted and found by themselves.
fn of_jobs(conn: &Connection, status: Status) -> Result<Stats, StoreError> {
    let by = |dimension| by_value(conn, dimension, Some(status));
    let by_status = by_status(conn, Dimension::Source, SOURCE)?;
    let end = |direction| death(conn, "letters_of_jobs", OF_JOBS, &[status.name()], direction);
    Ok(Stats {
        total: by_status.get(status.name()).copied().unwrap_or(0),
        by_queue: by(Dimension::JobQueue)?,
        by_type: by(Dimension::JobType)?,
        by_error_type: by(Dimension::JobErrorType)?,
        oldest_at: end("asc")?,
        newest_at: end("desc")?,
        by_status,
        ..Stats::default()
    })
}

/// The source is not bound: the index holds no others, and SQLite has to see that.
const OF_JOBS: &str = "source = 'jobs' and status = ?1";

fn by_value(
    conn: &Connection,
    dimension: Dimension,
    only: Option<Status>,
) -> Result<Vec<(String, u64)>, StoreError> {
    let binds = (dimension.name(), only.map(Status::name), limits::STATS_VALUES_MAX as i64);
    let mut statement = conn.prepare_cached(BY_VALUE)?;
    let values = statement.query_map(binds, |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
    Ok(values.collect::<Result<_, _>>()?)
}

/// The first or the last death of the letters that an index holds.
fn death(
    conn: &Connection,
    index: &str,
    guard: &str,
    binds: &[&str],
    direction: &str,
) -> Result<Option<Time>, StoreError> {
    let sql = death_sql(index, guard, direction);
    let mut statement = conn.prepare_cached(&sql)?;
    let ms: Option<i64> =
        statement.query_row(rusqlite::params_from_iter(binds), |row| row.get(0)).optional()?;
    Ok(ms.map(Time::from_ms))
}

fn death_sql(index: &str, guard: &str, direction: &str) -> String {
    format!(
        "select died_at
           from dead_letter_queue indexed by {index}
          where {guard}
            and listed = 1
          order by died_at {direction}
          limit 1"
    )
}

/// Live letters by status, from the counters of one value.
fn terms(conn: &Connection, dimension: Dimension, value: &str) -> Result<Vec<(Status, u64)>, StoreError> {
    let mut statement = conn
        .prepare_cached("select letters from counters where dimension = ?1 and value = ?2 and term = ?3")?;
    Status::ALL
        .into_iter()
        .map(|status| {
            let letters: Option<i64> =
                statement.query_row((dimension.name(), value, status.name()), |row| row.get(0)).optional()?;
            Ok((status, letters.unwrap_or(0).max(0) as u64))
        })
        .collect()
}

fn by_status(
    conn: &Connection,
    dimension: Dimension,
    value: &str,
) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    Ok(terms(conn, dimension, value)?.into_iter().map(|(status, letters)| (status.name(), letters)).collect())
}

pub(super) fn ledger(conn: &Connection, by: LedgerBy) -> Result<Ledger, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let statuses = match by {
        LedgerBy::Counters => terms(conn, Dimension::All, "")?,
        LedgerBy::Recount => recount(conn)?,
    };
    let mut ledger = Ledger::default();
    for (status, letters) in statuses {
        match status {
            Status::Pending => ledger.pending = letters,
            Status::Reprocessing => ledger.reprocessing = letters,
            Status::Resolved => ledger.resolved = letters,
            Status::Discarded => ledger.discarded = letters,
        }
    }
    let mut statement = conn.prepare_cached(
        "select place, removal, count(*) from letter_keys group by place, removal limit 100",
    )?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let (place, removal, keys): (String, Option<String>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let keys = keys as u64;
        ledger.captured += keys;
        match (rows::place(&place)?, removal.as_deref()) {
            (Place::Live, _) => {}
            (Place::Archived, _) => ledger.archived += keys,
            (Place::Deleted, Some("pruned")) => ledger.pruned += keys,
            (Place::Deleted, _) => ledger.deleted += keys,
        }
    }
    if by == LedgerBy::Recount {
        ledger.wrong_counters = wrong_counters(conn)? + recount::misplaced(conn)? + keys::wrong(conn)?;
        ledger.unlisted = unlisted(conn)?;
    }
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(ledger)
}

fn recount(conn: &Connection) -> Result<Vec<(Status, u64)>, StoreError> {
    let mut statement =
        conn.prepare_cached("select status, count(*) from dead_letter_queue group by status limit 100")?;
    let mut found = statement.query([])?;
    let mut counted = Vec::new();
    while let Some(row) = found.next()? {
        counted.push((rows::status(&row.get::<_, String>(0)?)?, row.get::<_, i64>(1)? as u64));
    }
    Ok(counted)
}

/// How many counters say something else than the rows.
fn wrong_counters(conn: &Connection) -> Result<u64, StoreError> {
    let mut wrong = 0_i64;
    for dimension in Dimension::ALL {
        let (name, column) = (dimension.name(), dimension.column());
        let rows = format!(
            "select {column} as value, status as term, count(*) as letters
               from dead_letter_queue
              where {column} is not null
              group by 1, 2"
        );
        let kept =
            format!("select value, term, letters from counters where dimension = '{name}' and letters <> 0");
        let sql = format!(
            "select (select count(*) from ({rows} except {kept})) + (select count(*) from ({kept} except {rows}))"
        );
        wrong += conn.query_row(&sql, [], |row| row.get::<_, i64>(0))?;
    }
    wrong +=
        conn.query_row(WRONG_INCIDENTS, (Status::Pending.name(), Status::Reprocessing.name()), |row| {
            row.get::<_, i64>(0)
        })?;
    wrong += holds::record::wrong(conn)?;
    Ok(wrong as u64)
}

/// The incident of a letter is found by its fingerprint; one that was merged into another is not listed.
const UNLISTED: &str = "
select count(*)
  from dead_letter_queue l
  left join fingerprints f on f.fingerprint = l.fingerprint
  left join incidents i on i.id = f.incident and i.merged_into is null
 where i.id is null
    or i.state = ?1 and l.status in (?2, ?3)";

/// How many live letters nobody finds by looking through the incidents.
fn unlisted(conn: &Connection) -> Result<u64, StoreError> {
    let names = (IncidentState::Closed.name(), Status::Pending.name(), Status::Reprocessing.name());
    Ok(conn.query_row(UNLISTED, names, |row| row.get::<_, i64>(0))? as u64)
}

/// Incidents whose sums are not those of their letters.
const WRONG_INCIDENTS: &str = "
select count(*)
  from incidents i
  left join (select f.incident as incident, count(*) as letters, sum(l.status in (?1, ?2)) as unsettled
               from dead_letter_queue l
               join fingerprints f on f.fingerprint = l.fingerprint
              group by f.incident) r on r.incident = i.id
 where i.letters <> coalesce(r.letters, 0)
    or i.unsettled <> coalesce(r.unsettled, 0)";

#[cfg(test)]
mod tests {
    use super::super::migrate;
    use super::*;

    #[test]
    fn deaths_are_found_at_the_ends_of_an_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        for (index, guard) in
            [("letters_by_death", "1"), ("letters_by_status", "status = ?1"), ("letters_of_jobs", OF_JOBS)]
        {
            for direction in ["asc", "desc"] {
                let sql = format!("explain query plan {}", death_sql(index, guard, direction));
                let mut statement = conn.prepare(&sql).unwrap();
                let binds = vec!["x"; statement.parameter_count()];
                let steps =
                    statement.query_map(rusqlite::params_from_iter(binds), |row| row.get("detail")).unwrap();
                let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
                assert_eq!(steps.len(), 1, "{steps:?}");
                assert!(steps[0].contains(&format!("COVERING INDEX {index}")), "{steps:?}");
            }
        }
    }
}
