//! One incident with all that its page shows.

use std::collections::HashMap;

use lazaret_core::fingerprint::{Fingerprint, Parts};
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use rusqlite::Connection;

use super::super::counters::Dimension;
use super::{COLUMNS, alike, read, record};
use crate::StoreError;
use crate::incident::{Affected, Incident, IncidentDetail};

pub(in super::super) fn detail(
    conn: &Connection,
    id: IncidentId,
) -> Result<Option<IncidentDetail>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let Some(incident) = one(conn, id)? else { return Ok(None) };
    let fingerprints = fingerprints(conn, id)?;
    let affected = affected(conn, id)?;
    let similar = match fingerprints.first() {
        Some((_, parts)) => alike::similar(conn, &incident, parts)?,
        None => Vec::new(),
    };
    let record = record::record(conn, id)?;
    drop(snapshot);
    Ok(Some(IncidentDetail { incident, fingerprints, affected, similar, record }))
}

pub(super) fn one(conn: &Connection, id: IncidentId) -> Result<Option<Incident>, StoreError> {
    let mut statement = conn.prepare_cached(&format!("select {COLUMNS} from incidents i where i.id = ?1"))?;
    let mut found = statement.query([id.bytes()])?;
    found.next()?.map(|row| read(conn, row)).transpose()
}

const FINGERPRINTS: &str = "
select f.fingerprint, f.parts
  from fingerprints f
 where f.incident = ?1
 order by exists (select 1 from counters c where c.dimension = ?3 and c.value = f.fingerprint) desc,
          f.first_seen_at desc, f.fingerprint
 limit ?2";

pub(super) fn fingerprints(
    conn: &Connection,
    id: IncidentId,
) -> Result<Vec<(Fingerprint, Parts)>, StoreError> {
    let mut statement = conn.prepare_cached(FINGERPRINTS)?;
    let found = statement.query_map(
        (id.bytes(), limits::INCIDENT_FINGERPRINTS_SHOWN as i64, Dimension::Fingerprint.name()),
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
    )?;
    let mut fingerprints = Vec::new();
    for pair in found {
        let (fingerprint, parts) = pair?;
        fingerprints.push((Fingerprint::stored(fingerprint), Parts::from_json(&parts).unwrap_or_default()));
    }
    Ok(fingerprints)
}

const IN_USE: &str = "
select f.fingerprint
  from fingerprints f
 where f.incident = ?1
   and exists (select 1 from dead_letter_queue l where l.fingerprint = f.fingerprint)
 order by f.first_seen_at desc, f.fingerprint
 limit ?2";

const NEWEST: &str = "
select died_at, id
  from dead_letter_queue indexed by letters_by_fingerprint
 where fingerprint = ?1
 order by died_at desc, id desc
 limit ?2";

/// The newest letters of an incident. Each fingerprint is asked by itself: together they would all be read and sorted.
fn newest(conn: &Connection, id: IncidentId) -> Result<Vec<[u8; 16]>, StoreError> {
    let mut newest: Vec<(i64, [u8; 16])> = Vec::new();
    let mut of_one = conn.prepare_cached(NEWEST)?;
    let mut statement = conn.prepare_cached(IN_USE)?;
    let mut fingerprints = statement.query((id.bytes(), limits::AFFECTED_FINGERPRINTS_MAX as i64))?;
    let limit = limits::AFFECTED_LETTERS_MAX;
    while let Some(row) = fingerprints.next()? {
        let fingerprint = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        for found in of_one.query_map((fingerprint, limit as i64), |row| Ok((row.get(0)?, row.get(1)?)))? {
            newest.push(found?);
        }
        newest.sort_unstable_by(|one, other| other.cmp(one));
        newest.truncate(limit);
    }
    Ok(newest.into_iter().map(|(_, id)| id).collect())
}

const VALUES: &str = "
select queue, type, subscriber_id, aggregate, tenant, class
  from dead_letter_queue
 where id = ?1";

/// Counted over the newest letters and not kept: a counter for each order of each incident would cost every capture.
fn affected(conn: &Connection, id: IncidentId) -> Result<Affected, StoreError> {
    let mut counts: [HashMap<String, u64>; 6] = Default::default();
    let newest = newest(conn, id)?;
    let mut statement = conn.prepare_cached(VALUES)?;
    for letter in &newest {
        let mut found = statement.query([letter])?;
        let Some(row) = found.next()? else { continue };
        for (at, counts) in counts.iter_mut().enumerate() {
            let Some(value) = row.get_ref(at)?.as_str_or_null().map_err(rusqlite::Error::from)? else {
                continue;
            };
            match counts.get_mut(value) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(value.to_owned(), 1);
                }
            }
        }
    }
    let [queues, types, subscribers, aggregates, tenants, classes] = counts.map(largest);
    let over = newest.len() as u64;
    Ok(Affected { over, queues, types, subscribers, aggregates, tenants, classes })
}

fn largest(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut values: Vec<_> = counts.into_iter().collect();
    values.sort_by(|(one, n), (other, m)| m.cmp(n).then_with(|| one.cmp(other)));
    values.truncate(limits::AFFECTED_VALUES_MAX);
    values
}
