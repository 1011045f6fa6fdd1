//! Incidents: opened with their first letter, added up as letters move, read for lists and pages.

mod alike;
mod cause;
mod detail;
mod record;
mod step;

use std::collections::{BTreeMap, HashMap};

use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::{Fingerprint, Grouping};
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, IncidentState, LetterMoves};
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row};

use super::counters::Dimension;
use super::events::{self, NewEvent};
use super::filter::glob;
use super::rows;
use super::writer::Write;
use crate::StoreError;
use crate::incident::{Incident, IncidentCounts, IncidentKey, IncidentPage, IncidentQuery, IncidentSort};
pub(super) use cause::letter_cause;
pub(super) use detail::detail;
pub(super) use record::{Entry, category, fix_kind, note};
pub(super) use step::{happen, step};

/// The first letter of a fingerprint.
pub(super) struct Opening<'a> {
    pub id: IncidentId,
    pub at: Time,
    pub grouping: &'a Grouping,
    pub error_type: &'a str,
    pub class: ErrorClass,
}

const OPEN: &str = "
insert into incidents (id, state, opened_at, type, error_type, title, template, class, frame, last_seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?3)";

/// Opens an incident together with its fingerprint, and tells of it.
pub(super) fn open(write: &Write, opening: &Opening<'_>) -> Result<(), StoreError> {
    open_unpointed(write, opening)?;
    point(write, opening.grouping, opening.id, opening.at)
}

/// The same for a fingerprint that is there already and is pointed to it by the caller.
pub(super) fn open_unpointed(write: &Write, opening: &Opening<'_>) -> Result<(), StoreError> {
    let Opening { id, at, grouping, error_type, class } = opening;
    let parts = &grouping.parts;
    let error_type = if error_type.is_empty() { &parts.error_type } else { *error_type };
    write.conn.prepare_cached(OPEN)?.execute((
        id.bytes(),
        IncidentState::Open.name(),
        at.ms(),
        &parts.letter_type,
        error_type,
        parts.title(),
        &parts.template,
        class.name(),
        parts.frames.first(),
    ))?;
    note(write, *id, &Entry { at: *at, kind: IncidentState::Open.name(), by: None, text: None })?;
    let detail = Some(serde_json::json!({"title": parts.title()}).to_string());
    events::add(
        write,
        &NewEvent { at: *at, kind: "incident.opened", incident: Some(*id), detail, ..NewEvent::default() },
    )
}

const POINT: &str = "
insert into fingerprints (fingerprint, incident, first_seen_at, parts)
values (?1, ?2, ?3, ?4)";

/// Writes down that a fingerprint belongs to an incident.
pub(super) fn point(
    write: &Write,
    grouping: &Grouping,
    incident: IncidentId,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.prepare_cached(POINT)?.execute((
        grouping.fingerprint.as_str(),
        incident.bytes(),
        at.ms(),
        grouping.parts.to_json(),
    ))?;
    Ok(())
}

/// The incident that a fingerprint belongs to.
pub(super) fn of_fingerprint(conn: &Connection, fingerprint: &str) -> Result<Option<IncidentId>, StoreError> {
    let known = conn
        .prepare_cached("select incident from fingerprints where fingerprint = ?1")?
        .query_row([fingerprint], |row| row.get(0).map(IncidentId::from_bytes))
        .optional()?;
    Ok(known)
}

/// What a commit changes in the sums of an incident.
#[derive(Default)]
pub(super) struct Sums {
    letters: i64,
    unsettled: i64,
    pub seen_at: Option<Time>,
    /// The last death of a letter that no run had put back.
    pub died_at: Option<Time>,
}

impl Sums {
    pub fn add(&mut self, status: &str, by: i64) {
        self.letters += by;
        if Status::parse(status).is_some_and(waits) {
            self.unsettled += by;
        }
    }
}

/// Whether something is still to happen to letters of this status.
const fn waits(status: Status) -> bool {
    match status {
        Status::Pending | Status::Reprocessing => true,
        Status::Resolved | Status::Discarded => false,
    }
}

/// An incident that has letters is listed, whatever took its letters over before.
const ADD_SUMS: &str = "
update incidents
   set letters = letters + ?2, unsettled = unsettled + ?3, last_seen_at = max(last_seen_at, ?4),
       merged_into = iif(letters + ?2 > 0, null, merged_into)
 where id = (select incident from fingerprints where fingerprint = ?1)
returning id, state, unsettled, fix_at, fix_disproved, title";

/// An incident after its letters moved.
struct Summed {
    state: String,
    unsettled: i64,
    fix: FixStanding,
    title: String,
    died_at: Option<Time>,
}

/// Adds what the letters of a commit did to their incidents, and moves those that this opens, closes or brings back.
pub(super) fn add_sums(write: &Write, sums: HashMap<&str, Sums>, at: Time) -> Result<(), StoreError> {
    let mut moved: HashMap<[u8; 16], Summed> = HashMap::new();
    for (fingerprint, Sums { letters, unsettled, seen_at, died_at }) in sums {
        let seen_at = seen_at.unwrap_or_default();
        let found = write
            .conn
            .prepare_cached(ADD_SUMS)?
            .query_row((fingerprint, letters, unsettled, seen_at.ms()), |row| {
                let summed = Summed {
                    state: row.get(1)?,
                    unsettled: row.get(2)?,
                    fix: fix_standing(row.get(3)?, row.get(4)?),
                    title: row.get(5)?,
                    died_at,
                };
                Ok((row.get::<_, [u8; 16]>(0)?, summed))
            })
            .optional()?;
        let Some((id, mut summed)) = found else {
            return Err(StoreError::Corrupt(format!("the fingerprint {fingerprint} has no incident")));
        };
        // Two fingerprints of one incident may move in one commit: the last sum is the true one, the latest death too.
        summed.died_at = summed.died_at.max(moved.get(&id).and_then(|before| before.died_at));
        moved.insert(id, summed);
    }
    for (id, summed) in moved {
        let state = self::state(&summed.state)?;
        let moves = LetterMoves { relapsed: false, last_death: summed.died_at, unsettled: summed.unsettled };
        let mut from = state;
        for to in state.after_letters(summed.fix, moves) {
            if to != from {
                let change = Change { from, to, title: &summed.title, by: None, text: None };
                change_state(write, IncidentId::from_bytes(id), &change, at)?;
                from = to;
            }
        }
    }
    Ok(())
}

/// The standing of a fix as it is kept: its time, and whether a regression disproved it.
pub(super) fn fix_standing(fix_at: Option<i64>, disproved: bool) -> FixStanding {
    match (disproved, fix_at) {
        (true, _) => FixStanding::Disproved,
        (false, Some(fix_at)) => FixStanding::Named(Time::from_ms(fix_at)),
        (false, None) => FixStanding::None,
    }
}

/// A move of an incident, as it is told.
struct Change<'a> {
    from: IncidentState,
    to: IncidentState,
    title: &'a str,
    by: Option<&'a str>,
    text: Option<&'a str>,
}

const CHANGE_STATE: &str = "
update incidents
   set state = ?3
 where id = ?1
   and state = ?2";

const DISPROVE_FIX: &str = "
update incidents
   set fix_at = null, fix_kind = null, fix_disproved = 1
 where id = ?1";

/// Moves an incident and tells of it. A regression voids the fix, so that no later move finds it in force.
fn change_state(write: &Write, id: IncidentId, change: &Change<'_>, at: Time) -> Result<(), StoreError> {
    let Change { from, to, title, by, text } = *change;
    write.conn.prepare_cached(CHANGE_STATE)?.execute((id.bytes(), from.name(), to.name()))?;
    if to == IncidentState::Regressed {
        write.conn.prepare_cached(DISPROVE_FIX)?.execute([id.bytes()])?;
    }
    note(write, id, &Entry { at, kind: to.name(), by, text })?;
    let kind = match to {
        IncidentState::Open => "incident.opened",
        IncidentState::Diagnosed => "incident.diagnosed",
        IncidentState::Fixed => "incident.fixed",
        IncidentState::Regressed => "incident.regressed",
        IncidentState::Closed => "incident.closed",
        // A redrive tells of these itself.
        IncidentState::Redriving | IncidentState::Verifying => return Ok(()),
    };
    let detail = Some(serde_json::json!({"from": from.name(), "title": title}).to_string());
    events::add(write, &NewEvent { at, kind, incident: Some(id), actor: by, detail, ..NewEvent::default() })
}

pub(super) fn state(text: &str) -> Result<IncidentState, StoreError> {
    IncidentState::parse(text).ok_or_else(|| rows::unknown("incident's state", text))
}

const COLUMNS: &str = "
i.id, i.state, i.opened_at, i.type, i.error_type, i.title, i.template, i.class, i.letters, i.last_seen_at,
i.merged_into, i.category, i.assignee";

fn read(conn: &Connection, row: &Row<'_>) -> Result<Incident, StoreError> {
    let id = IncidentId::from_bytes(row.get(0)?);
    Ok(Incident {
        id,
        fingerprint: newest_fingerprint(conn, id)?,
        title: row.get(5)?,
        state: state(&row.get::<_, String>(1)?)?,
        letter_type: row.get(3)?,
        error_type: row.get(4)?,
        template: row.get(6)?,
        class: rows::class(&row.get::<_, String>(7)?)?,
        analysed: row.get::<_, Option<String>>(11)?.as_deref().map(record::category).transpose()?,
        assignee: row.get(12)?,
        letters: row.get::<_, i64>(8)?.max(0) as u64,
        by_status: by_status(conn, id)?,
        first_seen_at: Time::from_ms(row.get(2)?),
        last_seen_at: Time::from_ms(row.get(9)?),
        merged_into: row.get::<_, Option<[u8; 16]>>(10)?.map(IncidentId::from_bytes),
    })
}

const NEWEST_FINGERPRINT: &str = "
select f.fingerprint
  from fingerprints f
 where f.incident = ?1
 order by exists (select 1 from counters c where c.dimension = ?2 and c.value = f.fingerprint) desc,
          f.first_seen_at desc, f.fingerprint
 limit 1";

fn newest_fingerprint(conn: &Connection, id: IncidentId) -> Result<Fingerprint, StoreError> {
    let text: Option<String> = conn
        .prepare_cached(NEWEST_FINGERPRINT)?
        .query_row((id.bytes(), Dimension::Fingerprint.name()), |row| row.get(0))
        .optional()?;
    Ok(Fingerprint::stored(text.unwrap_or_default()))
}

// Without `cross` SQLite begins with all counters of the dimension, for each incident of a page.
const BY_STATUS: &str = "
select c.term, sum(c.letters)
  from fingerprints f
 cross join counters c on c.dimension = ?2 and c.value = f.fingerprint
 where f.incident = ?1
 group by c.term
 limit 100";

fn by_status(conn: &Connection, id: IncidentId) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    let mut counts = BTreeMap::from(Status::ALL.map(|status| (status.name(), 0)));
    let mut statement = conn.prepare_cached(BY_STATUS)?;
    let mut found = statement.query((id.bytes(), Dimension::Fingerprint.name()))?;
    while let Some(row) = found.next()? {
        let status = rows::status(&row.get::<_, String>(0)?)?;
        counts.insert(status.name(), row.get::<_, i64>(1)?.max(0) as u64);
    }
    Ok(counts)
}

pub(super) fn page(conn: &Connection, query: &IncidentQuery) -> Result<IncidentPage, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let (column, index) = match query.sort {
        IncidentSort::LastSeenDesc => ("last_seen_at", "incidents_by_last_seen"),
        IncidentSort::FirstSeenDesc => ("opened_at", "incidents_by_opening"),
        IncidentSort::LettersDesc => ("letters", "incidents_by_letters"),
        IncidentSort::UnsettledDesc => ("unsettled", "incidents_by_unsettled"),
    };
    let (conditions, mut binds) = conditions(query);
    let total: i64 = conn
        .prepare_cached(&format!("select count(*) from incidents i indexed by {index} where {conditions}"))?
        .query_row(rusqlite::params_from_iter(&binds), |row| row.get(0))?;
    let mut sql = format!(
        "select {COLUMNS}, i.{column}
           from incidents i indexed by {index}
          where {conditions}"
    );
    if let Some(after) = query.after {
        sql.push_str(&format!(" and (i.{column}, i.id) < (?, ?)"));
        binds.extend([Value::Integer(after.value), Value::Blob(after.id.bytes().to_vec())]);
    }
    sql.push_str(&format!(" order by i.{column} desc, i.id desc limit ?"));
    binds.push(Value::Integer(query.limit as i64 + 1));
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut incidents = Vec::new();
    let mut keys = Vec::new();
    while let Some(row) = found.next()? {
        let incident = read(conn, row)?;
        keys.push(IncidentKey { value: row.get(13)?, id: incident.id });
        incidents.push(incident);
    }
    let more = incidents.len() > query.limit;
    incidents.truncate(query.limit);
    keys.truncate(query.limit);
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(IncidentPage { incidents, total: total as u64, next: keys.last().copied().filter(|_| more) })
}

const COUNTS: &str = "
select state, count(*)
  from incidents
 where merged_into is null
 group by state";

pub(super) fn counts(conn: &Connection) -> Result<IncidentCounts, StoreError> {
    let mut statement = conn.prepare_cached(COUNTS)?;
    let mut found = statement.query(())?;
    let mut counts = IncidentCounts::new();
    while let Some(row) = found.next()? {
        counts.insert(state(&row.get::<_, String>(0)?)?, row.get::<_, i64>(1)?.max(0) as u64);
    }
    Ok(counts)
}

/// What a page asks of incidents, joined by `and`.
fn conditions(query: &IncidentQuery) -> (String, Vec<Value>) {
    let mut all = vec!["i.merged_into is null".to_owned()];
    let mut binds = Vec::new();
    if !query.states.is_empty() {
        all.push(format!("i.state in ({})", vec!["?"; query.states.len()].join(", ")));
        binds.extend(query.states.iter().map(|state| Value::Text(state.name().to_owned())));
    }
    for (column, pattern) in [("type", &query.letter_type), ("error_type", &query.error_type)] {
        if let Some(pattern) = pattern {
            all.push(format!("i.{column} glob ?"));
            binds.push(Value::Text(glob(pattern.text())));
        }
    }
    if let Some(class) = query.class {
        all.push("i.class = ?".to_owned());
        binds.push(Value::Text(class.name().to_owned()));
    }
    if let Some(text) = &query.text {
        all.push("instr(lower(i.title), lower(?)) > 0".to_owned());
        binds.push(Value::Text(text.clone()));
    }
    if let Some(since) = query.since {
        all.push("i.last_seen_at >= ?".to_owned());
        binds.push(Value::Integer(since.ms()));
    }
    (all.join(" and "), binds)
}

#[cfg(test)]
mod tests {
    use super::super::migrate;
    use super::*;

    #[test]
    fn the_counts_of_an_incident_are_found_by_its_fingerprints() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        let mut statement = conn.prepare(&format!("explain query plan {BY_STATUS}")).unwrap();
        let steps = statement.query_map((7, "fingerprint"), |row| row.get("detail")).unwrap();
        let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
        assert!(steps.iter().any(|step| step.contains("(dimension=? AND value=?)")), "{steps:?}");
    }
}
