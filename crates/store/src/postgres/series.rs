//! Lines of inflow and outflow, read from the points that are kept as letters move.

use futures_util::future::try_join_all;
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::cell::{Cells, Uid};
use super::conn::Conn;
use super::counters::Dimension;
use super::writer::Write;
use crate::StoreError;
use crate::series::{Line, Point, SeriesBy, SeriesOf, SeriesQuery, Step};

/// Asked within a snapshot. Lines are asked for at once: nobody waits for the answer to the one before.
pub(super) async fn lines(conn: &Conn, query: &SeriesQuery) -> Result<Vec<Line>, StoreError> {
    match &query.of {
        SeriesOf::All => {
            Ok(vec![line(conn, query, Dimension::All, vec![String::new()], String::new()).await?])
        }
        SeriesOf::Values(by, values) => of_values(conn, query, dimension(*by), values).await,
        SeriesOf::Largest(by, count) => {
            let values = largest(conn, query, dimension(*by), *count).await?;
            of_values(conn, query, dimension(*by), &values).await
        }
        SeriesOf::Incidents(ids) => try_join_all(ids.iter().map(|id| of_incident(conn, query, *id))).await,
    }
}

const fn dimension(by: SeriesBy) -> Dimension {
    match by {
        SeriesBy::Source => Dimension::Source,
        SeriesBy::Queue => Dimension::Queue,
        SeriesBy::Type => Dimension::Type,
    }
}

async fn of_values(
    conn: &Conn,
    query: &SeriesQuery,
    dimension: Dimension,
    values: &[String],
) -> Result<Vec<Line>, StoreError> {
    let lines = values.iter().map(|value| line(conn, query, dimension, vec![value.clone()], value.clone()));
    try_join_all(lines).await
}

async fn of_incident(conn: &Conn, query: &SeriesQuery, id: IncidentId) -> Result<Line, StoreError> {
    let fingerprints = fingerprints(conn, id).await?;
    line(conn, query, Dimension::Fingerprint, fingerprints, id.to_string()).await
}

const POINTS: &str = "
select minute, sum(arrived)::bigint, sum(departed)::bigint
  from flows
 where dimension = $1
   and value = any($2)
   and step = $3
   and minute >= $4
   and minute < $5
 group by minute
 order by minute
 limit $6";

/// One line over some values of a dimension.
async fn line(
    conn: &Conn,
    query: &SeriesQuery,
    dimension: Dimension,
    mut values: Vec<String>,
    name: String,
) -> Result<Line, StoreError> {
    // No value holds a NUL, and none can be bound.
    values.retain(|value| !value.contains('\0'));
    let (from, until) = range(query);
    let (step, limit) = (query.step.minutes() as i32, limits::SERIES_POINTS_MAX as i64);
    let rows = conn.query(POINTS, &[&dimension.name(), &values, &step, &from, &until, &limit]).await?;
    let mut points = Vec::with_capacity(rows.len());
    for row in rows {
        let (minute, arrived, departed): (i64, i64, i64) = (row.cell(0)?, row.cell(1)?, row.cell(2)?);
        if (arrived, departed) != (0, 0) {
            points.push(Point {
                at: Time::from_minute(minute),
                arrived: arrived.max(0) as u64,
                departed: departed.max(0) as u64,
            });
        }
    }
    Ok(Line { value: name, points })
}

/// The minutes of the first step, and of the one behind the last.
fn range(query: &SeriesQuery) -> (i64, i64) {
    let last = query.until.plus_ms(-1).minute();
    (query.step.floor(query.from.minute()), query.step.floor(last).saturating_add(query.step.minutes()))
}

const LARGEST: &str = "
select value
  from flows
 where dimension = $1
   and step = $2
   and minute >= $3
   and minute < $4
 group by value
 order by sum(arrived) desc, value
 limit $5";

async fn largest(
    conn: &Conn,
    query: &SeriesQuery,
    dimension: Dimension,
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let (from, until) = range(query);
    let (step, count) = (query.step.minutes() as i32, count as i64);
    let rows = conn.query(LARGEST, &[&dimension.name(), &step, &from, &until, &count]).await?;
    rows.iter().map(|row| row.cell(0)).collect()
}

const FINGERPRINTS: &str = "
select fingerprint
  from fingerprints
 where incident = $1
 order by fingerprint";

async fn fingerprints(conn: &Conn, id: IncidentId) -> Result<Vec<String>, StoreError> {
    let rows = conn.query(FINGERPRINTS, &[&Uid(*id.bytes())]).await?;
    rows.iter().map(|row| row.cell(0)).collect()
}

/// A point that somebody writes just now is left for the next time: waiting for it could end in a circle.
const PRUNE: &str = "
with old as (select dimension, value, step, minute
               from flows
              where step = $1
                and minute < $2
              order by minute
              limit $3
                for update skip locked)
delete from flows f
 using old o
 where f.dimension = o.dimension
   and f.value = o.value
   and f.step = o.step
   and f.minute = o.minute";

/// Forgets the oldest minutes; the hours tell of them.
pub(super) async fn prune(write: &mut Write, before: Time) -> Result<u64, StoreError> {
    let (step, limit) = (Step::Minute.minutes() as i32, limits::FLOWS_PRUNED_PER_WRITE as i64);
    write.conn.execute(PRUNE, &[&step, &before.minute(), &limit]).await
}
