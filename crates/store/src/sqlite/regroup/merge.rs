//! Incidents that regrouping left without letters: each says where these are.

use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::super::events::{self, NewEvent};
use super::super::writer::Write;
use crate::StoreError;

/// Incidents without letters, all of whose fingerprints came to nothing or to another incident's.
const EMPTIED: &str = "
select i.id, n.incident
  from fingerprints f indexed by fingerprints_by_heir
  join fingerprints n on n.fingerprint = f.heir
  join incidents i on i.id = f.incident
 where f.heir is not null
   and f.heir_for = ?1
   and n.incident <> f.incident
   and i.letters = 0
   and i.merged_into is null
 order by f.fingerprint
 limit ?2";

const MERGED: &str = "
update incidents
   set state = ?3, merged_into = ?2
 where id = ?1
   and letters = 0
   and merged_into is null";

/// Says of incidents that were left without letters where these are; says how many it was.
pub(super) fn merge_emptied(write: &Write, marks: &str, at: Time) -> Result<usize, StoreError> {
    let emptied: Vec<([u8; 16], [u8; 16])> = write
        .conn
        .prepare_cached(EMPTIED)?
        .query_map((marks, limits::INCIDENTS_MERGED_PER_WRITE as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut merged = 0;
    for (from, into) in emptied {
        merged += merge(write, IncidentId::from_bytes(from), IncidentId::from_bytes(into), at)?;
    }
    Ok(merged)
}

/// Says of an incident without letters where these are, unless it says so already.
pub(super) fn merge(
    write: &Write,
    from: IncidentId,
    into: IncidentId,
    at: Time,
) -> Result<usize, StoreError> {
    // Whoever follows the name of a survivor finds letters, not another incident without any.
    let survivor: Option<[u8; 16]> = write
        .conn
        .prepare_cached("select merged_into from incidents where id = ?1")?
        .query_row([into.bytes()], |row| row.get(0))?;
    let into = survivor.map_or(into, IncidentId::from_bytes);
    if into == from {
        return Ok(0);
    }
    let closed = IncidentState::Closed.name();
    let done = write.conn.prepare_cached(MERGED)?.execute((from.bytes(), into.bytes(), closed))?;
    if done > 0 {
        // Whoever was merged into the one that goes is found with the other.
        write
            .conn
            .prepare_cached("update incidents set merged_into = ?2 where merged_into = ?1")?
            .execute((from.bytes(), into.bytes()))?;
        let detail = Some(format!("{{\"into\":\"{into}\"}}"));
        let event =
            NewEvent { at, kind: "incident.merged", incident: Some(from), detail, ..NewEvent::default() };
        events::add(write, &event)?;
    }
    Ok(done)
}
