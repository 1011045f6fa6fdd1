//! Statistics from the counters, and the ledger from counters or rows.

use std::collections::BTreeMap;

use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::counters::Dimension;
use super::rows;
use crate::StoreError;
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
    let only = match of {
        StatsOf::All => None,
        StatsOf::Only(status) => Some(status.name()),
    };
    let by = |dimension: Dimension| -> Result<Vec<(String, u64)>, StoreError> {
        let mut statement = conn.prepare_cached(BY_VALUE)?;
        let values = statement
            .query_map((dimension.name(), only, limits::STATS_VALUES_MAX as i64), |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))
            })?
            .collect::<Result<_, _>>()?;
        Ok(values)
    };
    let by_status: BTreeMap<&'static str, u64> =
        terms(conn)?.into_iter().map(|(status, letters)| (status.name(), letters)).collect();
    let total =
        by_status.iter().filter(|(name, _)| only.is_none_or(|only| only == **name)).map(|(_, n)| n).sum();
    let end = |direction: &str| -> Result<Option<Time>, StoreError> {
        let (index, guard) = match only {
            Some(_) => ("letters_by_status", "where status = ?1"),
            None => ("letters_by_death", "where ?1 is null"),
        };
        let sql = format!(
            "select died_at from dead_letter_queue indexed by {index} {guard} order by died_at {direction} limit 1"
        );
        let ms: Option<i64> = conn.prepare_cached(&sql)?.query_row([only], |row| row.get(0)).optional()?;
        Ok(ms.map(Time::from_ms))
    };
    let stats = Stats {
        total,
        by_status,
        by_source: by(Dimension::Source)?,
        by_queue: by(Dimension::Queue)?,
        by_type: by(Dimension::Type)?,
        by_error_type: by(Dimension::ErrorType)?,
        by_class: by(Dimension::Class)?,
        oldest_at: end("asc")?,
        newest_at: end("desc")?,
    };
    drop(snapshot);
    Ok(stats)
}

/// Live letters by status, from the counters.
fn terms(conn: &Connection) -> Result<Vec<(Status, u64)>, StoreError> {
    let mut statement = conn
        .prepare_cached("select letters from counters where dimension = ?1 and value = '' and term = ?2")?;
    Status::ALL
        .into_iter()
        .map(|status| {
            let letters: Option<i64> =
                statement.query_row((Dimension::All.name(), status.name()), |row| row.get(0)).optional()?;
            Ok((status, letters.unwrap_or(0).max(0) as u64))
        })
        .collect()
}

pub(super) fn ledger(conn: &Connection, by: LedgerBy) -> Result<Ledger, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let statuses = match by {
        LedgerBy::Counters => terms(conn)?,
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
        ledger.wrong_counters = wrong_counters(conn)?;
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
    Ok(wrong as u64)
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
