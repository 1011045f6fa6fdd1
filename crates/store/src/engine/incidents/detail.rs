//! One incident with what is known of its cause and its reach.

use std::collections::HashMap;

use lazaret_core::fingerprint::{Fingerprint, Parts};
use lazaret_core::id::IncidentId;
use lazaret_core::limits;

use super::list::{fingerprint, newest_fingerprints, of_ids};
use super::record::{fixes, rcas, record};
use crate::StoreError;
use crate::incident::{Affected, Incident, IncidentDetail, Similar};
use crate::seam::{Conn, Sql, binds, sql};

/// Asked within a snapshot.
pub(super) async fn detail(
    conn: &mut impl Conn,
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

const FINGERPRINTS: Sql = sql!(
    "
select f.fingerprint, f.parts
  from fingerprints f{postgres 
  left join lateral (select true as used
                       from counters
                      where dimension = 'fingerprint'
                        and value = f.fingerprint
                      limit 1) c on true}
 where f.incident = $1
 order by {sqlite exists (select 1
                            from counters c
                           where c.dimension = 'fingerprint'
                             and c.value = f.fingerprint) desc}{postgres c.used nulls last},
          f.first_seen_at desc, f.fingerprint
 limit $2"
);

async fn fingerprints(conn: &mut impl Conn, id: IncidentId) -> Result<Vec<(Fingerprint, Parts)>, StoreError> {
    conn.query(&FINGERPRINTS, binds![id, limits::INCIDENT_FINGERPRINTS_SHOWN], fingerprint).await
}

/// Counted over the newest letters and not kept: a counter for each order of each incident would cost every capture.
async fn affected(conn: &mut impl Conn, id: IncidentId) -> Result<Affected, StoreError> {
    let newest = conn.newest_of_incident(id, limits::AFFECTED_LETTERS_MAX).await?;
    let over = newest.len() as u64;
    let mut counts: [HashMap<String, u64>; 6] = Default::default();
    for values in newest {
        for (value, counts) in values.into_iter().zip(&mut counts) {
            if let Some(value) = value {
                *counts.entry(value).or_default() += 1;
            }
        }
    }
    let [queues, types, subscribers, aggregates, tenants, classes] = counts.map(largest);
    Ok(Affected { over, queues, types, subscribers, aggregates, tenants, classes })
}

fn largest(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut values: Vec<_> = counts.into_iter().collect();
    values.sort_by(|(one, n), (other, m)| m.cmp(n).then_with(|| one.cmp(other)));
    values.truncate(limits::AFFECTED_VALUES_MAX);
    values
}

/// Incidents that may look alike: of the same error, of the same frame, or simply recent.
const ALIKE: Sql = sql!(
    "
select id from (select id from incidents{sqlite  indexed by incidents_by_error_type}
                 where error_type = $2 and merged_into is null
                 order by last_seen_at desc{postgres , id desc} limit $4) e
union
select id from (select id from incidents{sqlite  indexed by incidents_by_frame}
                 where frame = $3 and merged_into is null
                 order by last_seen_at desc{postgres , id desc} limit $4) f
union
select id from (select id from incidents{sqlite  indexed by incidents_by_last_seen}
                 where merged_into is null
                 order by last_seen_at desc{postgres , id desc} limit $4) r
except
select $1{postgres ::uuid}"
);

async fn similar(
    conn: &mut impl Conn,
    incident: &Incident,
    parts: &Parts,
) -> Result<Vec<Similar>, StoreError> {
    let values =
        binds![incident.id, &incident.error_type, parts.frames.first(), limits::SIMILAR_CANDIDATES_MAX];
    let candidates: Vec<IncidentId> = conn.query(&ALIKE, values, |row| row.get("id")).await?;
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
