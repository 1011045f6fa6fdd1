//! Lines of inflow and outflow, read from the points that are kept as letters move.

use std::collections::BTreeMap;

use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::counters::Dimension;
use super::writer::Write;
use crate::StoreError;
use crate::series::{Line, Point, SeriesBy, SeriesOf, SeriesQuery, Step};

pub(super) fn lines(conn: &Connection, query: &SeriesQuery) -> Result<Vec<Line>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let lines = match &query.of {
        SeriesOf::All => vec![line(conn, query, Dimension::All, &[""], String::new())?],
        SeriesOf::Values(by, values) => of_values(conn, query, dimension(*by), values)?,
        SeriesOf::Largest(by, count) => {
            let values = largest(conn, query, dimension(*by), *count)?;
            of_values(conn, query, dimension(*by), &values)?
        }
        SeriesOf::Incidents(ids) => {
            let mut lines = Vec::with_capacity(ids.len());
            for id in ids {
                let fingerprints = fingerprints(conn, *id)?;
                let fingerprints: Vec<&str> = fingerprints.iter().map(String::as_str).collect();
                lines.push(line(conn, query, Dimension::Fingerprint, &fingerprints, id.to_string())?);
            }
            lines
        }
    };
    drop(snapshot);
    Ok(lines)
}

const fn dimension(by: SeriesBy) -> Dimension {
    match by {
        SeriesBy::Source => Dimension::Source,
        SeriesBy::Queue => Dimension::Queue,
        SeriesBy::Type => Dimension::Type,
    }
}

fn of_values(
    conn: &Connection,
    query: &SeriesQuery,
    dimension: Dimension,
    values: &[String],
) -> Result<Vec<Line>, StoreError> {
    values.iter().map(|value| line(conn, query, dimension, &[value.as_str()], value.clone())).collect()
}

const POINTS: &str = "
select minute, arrived, departed
  from flows
 where dimension = ?1
   and value = ?2
   and step = ?3
   and minute >= ?4
   and minute < ?5
 order by minute
 limit ?6";

/// One line over some values of a dimension.
fn line(
    conn: &Connection,
    query: &SeriesQuery,
    dimension: Dimension,
    values: &[&str],
    name: String,
) -> Result<Line, StoreError> {
    let mut sums: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let mut statement = conn.prepare_cached(POINTS)?;
    let (from, until) = range(query);
    for value in values {
        let mut found = statement.query((
            dimension.name(),
            value,
            query.step.minutes(),
            from,
            until,
            limits::SERIES_POINTS_MAX as i64,
        ))?;
        while let Some(row) = found.next()? {
            let sum = sums.entry(row.get(0)?).or_default();
            sum.0 += row.get::<_, i64>(1)?;
            sum.1 += row.get::<_, i64>(2)?;
        }
    }
    let points =
        sums.into_iter().filter(|(_, sum)| *sum != (0, 0)).map(|(minute, (arrived, departed))| Point {
            at: Time::from_minute(minute),
            arrived: arrived.max(0) as u64,
            departed: departed.max(0) as u64,
        });
    Ok(Line { value: name, points: points.collect() })
}

/// The minutes of the first step, and of the one behind the last.
fn range(query: &SeriesQuery) -> (i64, i64) {
    let last = query.until.plus_ms(-1).minute();
    (query.step.floor(query.from.minute()), query.step.floor(last).saturating_add(query.step.minutes()))
}

const LARGEST: &str = "
select value
  from flows
 where dimension = ?1
   and step = ?2
   and minute >= ?3
   and minute < ?4
 group by value
 order by sum(arrived) desc, value
 limit ?5";

fn largest(
    conn: &Connection,
    query: &SeriesQuery,
    dimension: Dimension,
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let (from, until) = range(query);
    let mut statement = conn.prepare_cached(LARGEST)?;
    let values = statement
        .query_map((dimension.name(), query.step.minutes(), from, until, count as i64), |row| row.get(0))?;
    Ok(values.collect::<Result<_, _>>()?)
}

fn fingerprints(conn: &Connection, id: IncidentId) -> Result<Vec<String>, StoreError> {
    let mut statement =
        conn.prepare_cached("select fingerprint from fingerprints where incident = ?1 order by fingerprint")?;
    let found = statement.query_map([id.bytes()], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

const PRUNE: &str = "
delete from flows
 where (dimension, value, step, minute) in (select dimension, value, step, minute
                                              from flows indexed by flows_by_age
                                             where step = ?1
                                               and minute < ?2
                                             order by minute
                                             limit ?3)";

/// Forgets the oldest minutes; the hours tell of them.
pub(super) fn prune(write: &Write, before: Time) -> Result<u64, StoreError> {
    let pruned = write.conn.prepare_cached(PRUNE)?.execute((
        Step::Minute.minutes(),
        before.minute(),
        limits::FLOWS_PRUNED_PER_WRITE as i64,
    ))?;
    Ok(pruned as u64)
}
