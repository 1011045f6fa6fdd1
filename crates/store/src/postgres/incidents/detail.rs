//! One incident with what is known of its cause and its reach.

use std::collections::HashMap;

use lazaret_core::fingerprint::{Fingerprint, Parts};
use lazaret_core::id::IncidentId;
use lazaret_core::limits;

use super::super::cell::{Cells, Uid, clean_opt};
use super::super::conn::Conn;
use super::super::counters::Dimension;
use super::super::filter::IS_IN_USE;
use super::list::{newest_fingerprints, of_ids};
use super::record::{fixes, rcas, record};
use crate::StoreError;
use crate::incident::{Affected, Incident, IncidentDetail, Similar};

/// Asked within a snapshot.
pub(in super::super) async fn detail(
    conn: &Conn,
    id: IncidentId,
) -> Result<Option<IncidentDetail>, StoreError> {
    let Some(incident) = of_ids(conn, &[id]).await?.pop() else { return Ok(None) };
    let fingerprints = fingerprints(conn, id).await?;
    let affected = affected(conn, id).await?;
    let similar = match fingerprints.first() {
        Some((_, parts)) => similar(conn, &incident, parts).await?,
        None => Vec::new(),
    };
    let record = record(conn, id).await?;
    Ok(Some(IncidentDetail { incident, fingerprints, affected, similar, record }))
}

const FINGERPRINTS: &str = "
select f.fingerprint, f.parts
  from fingerprints f
  left join lateral (select true as used from counters where dimension = $3 and value = f.fingerprint limit 1) c on true
 where f.incident = $1
 order by c.used nulls last, f.first_seen_at desc, f.fingerprint
 limit $2";

async fn fingerprints(conn: &Conn, id: IncidentId) -> Result<Vec<(Fingerprint, Parts)>, StoreError> {
    let limit = limits::INCIDENT_FINGERPRINTS_SHOWN as i64;
    let dimension = Dimension::Fingerprint.name();
    let mut fingerprints = Vec::new();
    for row in conn.query(FINGERPRINTS, &[&Uid(*id.bytes()), &limit, &dimension]).await? {
        let parts = Parts::from_json(row.cell(1)?).unwrap_or_default();
        fingerprints.push((Fingerprint::stored(row.cell(0)?), parts));
    }
    Ok(fingerprints)
}

/// The newest of each fingerprint first, so that the index gives them and the rest is never read.
fn newest_letters() -> String {
    format!(
        "select l.queue, l.type, l.subscriber_id, l.aggregate, l.tenant, l.class
           from fingerprints f
          cross join lateral (select queue, type, subscriber_id, aggregate, tenant, class, died_at, id
                                from dead_letter_queue
                               where fingerprint = f.fingerprint
                               order by died_at desc, id desc
                               limit $2) l
          where f.incident = $1
            and {IS_IN_USE}
          order by l.died_at desc, l.id desc
          limit $2"
    )
}

/// Counted over the newest letters and not kept: a counter for each order of each incident would cost every capture.
async fn affected(conn: &Conn, id: IncidentId) -> Result<Affected, StoreError> {
    let mut counts: [HashMap<String, u64>; 6] = Default::default();
    let limit = limits::AFFECTED_LETTERS_MAX as i64;
    let rows = conn.query(&newest_letters(), &[&Uid(*id.bytes()), &limit]).await?;
    for row in &rows {
        for (at, counts) in counts.iter_mut().enumerate() {
            let Some(value) = row.cell::<Option<&str>>(at)? else { continue };
            match counts.get_mut(value) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(value.to_owned(), 1);
                }
            }
        }
    }
    let [queues, types, subscribers, aggregates, tenants, classes] = counts.map(largest);
    Ok(Affected { over: rows.len() as u64, queues, types, subscribers, aggregates, tenants, classes })
}

fn largest(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut values: Vec<_> = counts.into_iter().collect();
    values.sort_by(|(one, n), (other, m)| m.cmp(n).then_with(|| one.cmp(other)));
    values.truncate(limits::AFFECTED_VALUES_MAX);
    values
}

/// Incidents that may look alike: of the same error, of the same frame, or simply recent.
const ALIKE: &str = "
select id from (select id from incidents
                 where error_type = $2 and merged_into is null order by last_seen_at desc, id desc limit $4) e
union
select id from (select id from incidents
                 where frame = $3 and merged_into is null order by last_seen_at desc, id desc limit $4) f
union
select id from (select id from incidents
                 where merged_into is null order by last_seen_at desc, id desc limit $4) r
except
select $1::uuid";

async fn similar(conn: &Conn, incident: &Incident, parts: &Parts) -> Result<Vec<Similar>, StoreError> {
    let frame = clean_opt(parts.frames.first().map(String::as_str));
    let limit = limits::SIMILAR_CANDIDATES_MAX as i64;
    let found =
        conn.query(ALIKE, &[&Uid(*incident.id.bytes()), &incident.error_type, &frame, &limit]).await?;
    let candidates: Vec<IncidentId> =
        found.iter().map(|row| row.id(0).map(IncidentId::from_bytes)).collect::<Result<_, _>>()?;
    let mut alike: Vec<(IncidentId, f64)> = newest_fingerprints(conn, &candidates)
        .await?
        .into_iter()
        .map(|(id, (_, other))| (id, parts.similarity(&other)))
        .filter(|(_, likeness)| *likeness >= limits::SIMILAR_LIKENESS_MIN)
        .collect();
    alike.sort_by(|(one, a), (other, b)| b.total_cmp(a).then_with(|| other.cmp(one)));
    alike.truncate(limits::SIMILAR_INCIDENTS_MAX);
    let ids: Vec<IncidentId> = alike.iter().map(|(id, _)| *id).collect();
    let mut found: HashMap<IncidentId, Incident> =
        of_ids(conn, &ids).await?.into_iter().map(|incident| (incident.id, incident)).collect();
    let mut similar = Vec::with_capacity(alike.len());
    for (id, likeness) in alike {
        if let Some(incident) = found.remove(&id) {
            let (rca, fix) = (rcas(conn, id).await?.pop(), fixes(conn, id).await?.pop());
            similar.push(Similar { incident, likeness, rca, fix });
        }
    }
    Ok(similar)
}
