//! Incidents that look like another one, with what was found out about them.

use lazaret_core::fingerprint::Parts;
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use rusqlite::Connection;

use super::detail::{fingerprints, one};
use super::record;
use crate::StoreError;
use crate::incident::{Incident, Similar};

/// Incidents that may look alike: of the same error, of the same frame, or simply recent.
const ALIKE: &str = "
select id from (select id from incidents indexed by incidents_by_error_type
                 where error_type = ?2 and merged_into is null order by last_seen_at desc limit ?4)
union
select id from (select id from incidents indexed by incidents_by_frame
                 where frame = ?3 and merged_into is null order by last_seen_at desc limit ?4)
union
select id from (select id from incidents indexed by incidents_by_last_seen
                 where merged_into is null order by last_seen_at desc limit ?4)
except
select ?1";

pub(super) fn similar(
    conn: &Connection,
    incident: &Incident,
    parts: &Parts,
) -> Result<Vec<Similar>, StoreError> {
    let mut statement = conn.prepare_cached(ALIKE)?;
    let candidates = statement
        .query_map(
            (
                incident.id.bytes(),
                &incident.error_type,
                parts.frames.first(),
                limits::SIMILAR_CANDIDATES_MAX as i64,
            ),
            |row| row.get(0).map(IncidentId::from_bytes),
        )?
        .collect::<Result<Vec<_>, _>>()?;
    let mut alike = Vec::new();
    for id in candidates {
        if let Some((_, other)) = fingerprints(conn, id)?.first() {
            let likeness = parts.similarity(other);
            if likeness >= limits::SIMILAR_LIKENESS_MIN {
                alike.push((id, likeness));
            }
        }
    }
    alike.sort_by(|(one, a), (other, b)| b.total_cmp(a).then_with(|| other.cmp(one)));
    alike.truncate(limits::SIMILAR_INCIDENTS_MAX);
    let mut similar = Vec::new();
    for (id, likeness) in alike {
        if let Some(incident) = one(conn, id)? {
            let (rca, fix) = (record::rcas(conn, id)?.pop(), record::fixes(conn, id)?.pop());
            similar.push(Similar { incident, likeness, rca, fix });
        }
    }
    Ok(similar)
}
