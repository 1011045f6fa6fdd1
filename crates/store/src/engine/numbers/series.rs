//! Lines of inflow and outflow, read from the points that are kept as letters move.

use std::collections::HashMap;
use std::hash::Hash;

use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::engine::dimension::Dimension;
use crate::seam::{Conn, Row, Sql, Tx, binds, sql};
use crate::series::{Line, Point, SeriesBy, SeriesOf, SeriesQuery, Step};

/// Asked within a snapshot. All lines are read by one statement.
pub(super) async fn lines(conn: &mut impl Conn, query: &SeriesQuery) -> Result<Vec<Line>, StoreError> {
    match &query.of {
        SeriesOf::All => of_values(conn, query, Dimension::All, vec![String::new()]).await,
        SeriesOf::Values(by, values) => of_values(conn, query, dimension(*by), values.clone()).await,
        SeriesOf::Largest(by, count) => {
            let values = largest(conn, query, dimension(*by), *count).await?;
            of_values(conn, query, dimension(*by), values).await
        }
        SeriesOf::Incidents(ids) => of_incidents(conn, query, ids).await,
    }
}

const fn dimension(by: SeriesBy) -> Dimension {
    match by {
        SeriesBy::Source => Dimension::Source,
        SeriesBy::Queue => Dimension::Queue,
        SeriesBy::Type => Dimension::Type,
    }
}

const POINTS: Sql = sql!(
    "
select value, minute, arrived, departed
  from flows
 where dimension = $1
   and value {any $2}
   and step = $3
   and minute >= $4
   and minute < $5
 order by value, minute
 limit $6"
);

/// One line for each value of a dimension, in this order.
async fn of_values(
    conn: &mut impl Conn,
    query: &SeriesQuery,
    dimension: Dimension,
    values: Vec<String>,
) -> Result<Vec<Line>, StoreError> {
    // Nothing is counted under what no column can hold.
    let kept: Vec<&str> =
        values.iter().map(String::as_str).filter(|value| conn.kept(value) == *value).collect();
    let (from, until) = range(query);
    let limit = limits::SERIES_POINTS_MAX.saturating_mul(kept.len());
    let binds = binds![dimension.name(), kept, query.step.minutes(), from, until, limit];
    let read = |row: &Row<'_>| Ok((row.get::<String>("value")?, point(row)?));
    let points = by_line(conn.query(&POINTS, binds, read).await?);
    let line = |value: String| Line { points: points.get(&value).cloned().unwrap_or_default(), value };
    Ok(values.into_iter().map(line).collect())
}

const POINTS_OF_INCIDENTS: Sql = sql!(
    "
select f.incident, w.minute, sum(w.arrived){postgres ::bigint} as arrived, sum(w.departed){postgres ::bigint} as departed
  from fingerprints f
 {sqlite cross }join flows w on w.dimension = $1 and w.value = f.fingerprint and w.step = $3
 where f.incident {any $2}
   and w.minute >= $4
   and w.minute < $5
 group by f.incident, w.minute
 order by f.incident, w.minute
 limit $6"
);

/// One line for each incident, over all its fingerprints.
async fn of_incidents(
    conn: &mut impl Conn,
    query: &SeriesQuery,
    ids: &[IncidentId],
) -> Result<Vec<Line>, StoreError> {
    let (from, until) = range(query);
    let limit = limits::SERIES_POINTS_MAX.saturating_mul(ids.len());
    let binds = binds![Dimension::Fingerprint.name(), ids, query.step.minutes(), from, until, limit];
    let read = |row: &Row<'_>| Ok((row.get::<IncidentId>("incident")?, point(row)?));
    let points = by_line(conn.query(&POINTS_OF_INCIDENTS, binds, read).await?);
    let line =
        |id: &IncidentId| Line { value: id.to_string(), points: points.get(id).cloned().unwrap_or_default() };
    Ok(ids.iter().map(line).collect())
}

fn point(row: &Row<'_>) -> Result<Point, StoreError> {
    Ok(Point {
        at: Time::from_minute(row.get("minute")?),
        arrived: row.get("arrived")?,
        departed: row.get("departed")?,
    })
}

/// The points of each line at which something moved.
fn by_line<K: Eq + Hash>(points: Vec<(K, Point)>) -> HashMap<K, Vec<Point>> {
    let mut lines: HashMap<K, Vec<Point>> = HashMap::new();
    for (line, point) in points {
        if (point.arrived, point.departed) != (0, 0) {
            lines.entry(line).or_default().push(point);
        }
    }
    lines
}

/// The minutes of the first step, and of the one behind the last.
fn range(query: &SeriesQuery) -> (i64, i64) {
    let last = query.until.plus_ms(-1).minute();
    (query.step.floor(query.from.minute()), query.step.floor(last).saturating_add(query.step.minutes()))
}

const LARGEST: Sql = sql!(
    "
select value
  from flows
 where dimension = $1
   and step = $2
   and minute >= $3
   and minute < $4
 group by value
 order by sum(arrived) desc, value
 limit $5"
);

async fn largest(
    conn: &mut impl Conn,
    query: &SeriesQuery,
    dimension: Dimension,
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let (from, until) = range(query);
    let values = binds![dimension.name(), query.step.minutes(), from, until, count];
    conn.query(&LARGEST, values, |row| row.get("value")).await
}

/// A point that somebody writes just now is left for the next time: waiting for it could end in a circle.
const PRUNE: Sql = sql!(
    "
delete from flows
 where (dimension, value, step, minute) in (select dimension, value, step, minute
                                              from flows{sqlite  indexed by flows_by_age}
                                             where step = $1
                                               and minute < $2
                                             order by minute
                                             limit $3{postgres 
                                               for update skip locked})"
);

/// Deletes the oldest minutes; the hours still tell of them.
pub(super) async fn prune(tx: &mut impl Tx, before: Time) -> Result<u64, StoreError> {
    let values = binds![Step::Minute.minutes(), before.minute(), limits::FLOWS_PRUNED_PER_WRITE];
    tx.execute(&PRUNE, values).await
}
