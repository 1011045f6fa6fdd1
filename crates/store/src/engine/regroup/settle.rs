//! Who has which incident under new rules.
//!
//! A fingerprint has two parts to play: as an old one it hands its incident to the first fingerprint that comes out of
//! it, its heir, which may be itself; as a new one it needs an incident of its own. No two new ones come to share an
//! incident unless their old ones did. An incident that is empty in the end says where its letters went.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lazaret_core::fingerprint::Grouping;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::Moved;
use crate::StoreError;
use crate::engine::dimension::Dimension;
use crate::engine::incidents::Opening;
use crate::event::NewEvent;
use crate::regroup::NewGrouping;
use crate::seam::{Conn, Row, Sql, Tx, Value, binds, sql};

/// In which run of regrouping and when a life is settled.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub marks: &'a str,
    pub begun_at: Time,
    pub at: Time,
}

/// What is known of a fingerprint under the rules that are on their way.
#[derive(Clone)]
struct Pointed {
    incident: IncidentId,
    /// The first fingerprint that came out of this one.
    heir: Option<String>,
    /// Whether some life has this one by the new rules.
    used: bool,
}

/// What is known of the fingerprints of a batch: asked for at once, kept up to date here, and what is new of heirs and
/// use written at once in the end.
pub(super) struct Pointers<'a> {
    turn: Turn<'a>,
    known: HashMap<String, Option<Pointed>>,
    heirs: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

const POINTED: Sql = sql!(
    "
select fingerprint, incident, case when heir_for = $2 then heir end as heir, coalesce(used_for = $2, false) as used
  from fingerprints
 where fingerprint {any $1}"
);

const KEEP_HEIRS: Sql = sql!(
    "
update fingerprints{postgres  f
   set heir = h.heir, heir_for = h.marks
  from unnest($1::text[], $2::text[], $3::text[]) as h (fingerprint, heir, marks)
 where f.fingerprint = h.fingerprint}{sqlite 
   set heir = $2, heir_for = $3
 where fingerprint = $1}"
);

const KEEP_USED: Sql = sql!("update fingerprints set used_for = $2 where fingerprint {any $1}");

impl<'a> Pointers<'a> {
    pub async fn of(
        conn: &mut impl Conn,
        lives: &[NewGrouping],
        turn: Turn<'a>,
    ) -> Result<Pointers<'a>, StoreError> {
        let all = lives.iter().flat_map(|life| [life.old.as_str(), life.grouping.fingerprint.as_str()]);
        let asked: BTreeSet<&str> = all.collect();
        let mut pointers =
            Pointers { turn, known: HashMap::new(), heirs: BTreeMap::new(), used: BTreeSet::new() };
        pointers.ask(conn, &asked.into_iter().collect::<Vec<_>>()).await?;
        Ok(pointers)
    }

    async fn ask(&mut self, conn: &mut impl Conn, fingerprints: &[&str]) -> Result<(), StoreError> {
        for fingerprint in fingerprints {
            self.known.insert((*fingerprint).to_owned(), None);
        }
        let read = |row: &Row<'_>| {
            let fingerprint: String = row.get("fingerprint")?;
            let (incident, heir, used) = (row.get("incident")?, row.get("heir")?, row.get("used")?);
            Ok((fingerprint, Some(Pointed { incident, heir, used })))
        };
        let values = binds![fingerprints.to_vec(), self.turn.marks];
        self.known.extend(conn.query(&POINTED, values, read).await?);
        Ok(())
    }

    async fn find(&mut self, conn: &mut impl Conn, fingerprint: &str) -> Result<Option<Pointed>, StoreError> {
        if !self.known.contains_key(fingerprint) {
            self.ask(conn, &[fingerprint]).await?;
        }
        Ok(self.known.get(fingerprint).cloned().flatten())
    }

    fn inherit(&mut self, old: &str, new: &str) {
        if let Some(Some(pointed)) = self.known.get_mut(old) {
            pointed.heir = Some(new.to_owned());
        }
        self.heirs.insert(old.to_owned(), new.to_owned());
    }

    fn make_used(&mut self, fingerprint: &str) {
        if let Some(Some(pointed)) = self.known.get_mut(fingerprint) {
            pointed.used = true;
        }
        self.used.insert(fingerprint.to_owned());
    }

    /// Notes that a fingerprint points to another incident now, or to its first one.
    fn point(&mut self, fingerprint: &str, incident: IncidentId) {
        match self.known.get_mut(fingerprint) {
            Some(Some(pointed)) => pointed.incident = incident,
            Some(None) | None => {
                let first = Pointed { incident, heir: None, used: false };
                self.known.insert(fingerprint.to_owned(), Some(first));
            }
        }
    }

    /// Writes who has become an heir and who is in use.
    pub async fn keep(self, tx: &mut impl Tx) -> Result<(), StoreError> {
        let marks = self.turn.marks;
        let rows: Vec<Vec<Value<'_>>> = self
            .heirs
            .iter()
            .map(|(old, heir)| vec![Value::from(old), Value::from(heir), Value::from(marks)])
            .collect();
        tx.execute_rows(&KEEP_HEIRS, &rows).await?;
        let used: Vec<String> = self.used.into_iter().collect();
        if !used.is_empty() {
            tx.execute(&KEEP_USED, binds![used, marks]).await?;
        }
        Ok(())
    }
}

/// Sees to it that the new fingerprint of a life has an incident of its own, the old one's where nobody else took it.
pub(super) async fn settle(
    tx: &mut impl Tx,
    pointers: &mut Pointers<'_>,
    moved: &Moved,
    life: &NewGrouping,
) -> Result<(), StoreError> {
    let (old, new) = (life.old.as_str(), life.grouping.fingerprint.as_str());
    let Some(past) = pointers.find(tx, old).await? else {
        return Err(StoreError::Corrupt(format!("the fingerprint {old} has no incident")));
    };
    let first = past.heir.is_none();
    if first {
        pointers.inherit(old, new);
    }
    // What an old fingerprint hands on is free unless it goes on under the new rules itself.
    let free = (first && old != new && !past.used).then_some(past.incident);
    match pointers.find(tx, new).await? {
        Some(Pointed { used: true, .. }) => return Ok(()),
        Some(present) => settle_known(tx, pointers, moved, life, (present, free)).await?,
        None => match free {
            Some(incident) => {
                point(tx, &life.grouping, incident, pointers.turn.at).await?;
                pointers.point(new, incident);
                describe(tx, incident, &life.grouping).await?;
            }
            // Lives that were one group are two: this part gets an incident of its own.
            None => {
                tx.open_incident(&opening(moved, life)).await?;
                add_split(tx, life.incident, past.incident, pointers.turn.at)?;
                pointers.point(new, life.incident);
            }
        },
    }
    pointers.make_used(new);
    Ok(())
}

/// A fingerprint that was there before comes up by the new rules for the first time.
async fn settle_known(
    tx: &mut impl Tx,
    pointers: &mut Pointers<'_>,
    moved: &Moved,
    life: &NewGrouping,
    (present, free): (Pointed, Option<IncidentId>),
) -> Result<(), StoreError> {
    let new = life.grouping.fingerprint.as_str();
    let turn = pointers.turn;
    let taken = match &present.heir {
        Some(heir) if heir != new => {
            let heir = pointers.find(tx, heir).await?;
            heir.is_some_and(|heir| heir.incident == present.incident)
        }
        Some(_) | None => false,
    };
    // Capture opened it since the rules changed, and now it turns out that people know the cause already.
    let is_news = opened_at(tx, present.incident).await? >= turn.begun_at;
    match free.filter(|free| *free != present.incident) {
        Some(free) if taken || is_news => {
            repoint(tx, new, present.incident, free).await?;
            pointers.point(new, free);
            describe(tx, free, &life.grouping).await?;
            if !is_pointed_to(tx, present.incident).await? {
                merge(tx, present.incident, free, turn.at).await?;
            }
        }
        Some(_) | None if taken => {
            tx.open_unpointed_incident(&opening(moved, life)).await?;
            repoint(tx, new, present.incident, life.incident).await?;
            pointers.point(new, life.incident);
            add_split(tx, life.incident, present.incident, turn.at)?;
        }
        // Should it have been left without letters and merged, it is listed again with the letters that come.
        Some(_) | None => {}
    }
    Ok(())
}

fn opening<'a>(moved: &'a Moved, life: &'a NewGrouping) -> Opening<'a> {
    Opening {
        id: life.incident,
        at: moved.captured_at,
        grouping: &life.grouping,
        error_type: &moved.counted.error_type,
        class: moved.class,
    }
}

/// Adds the event of an incident that took over a part of another one's letters.
fn add_split(tx: &mut impl Tx, id: IncidentId, from: IncidentId, at: Time) -> Result<(), StoreError> {
    let detail = Some(format!("{{\"from\":\"{from}\"}}"));
    tx.add_event(&NewEvent { at, kind: "incident.split", incident: Some(id), detail, ..NewEvent::default() })
}

const OPENED_AT: Sql = sql!("select opened_at from incidents where id = $1");

async fn opened_at(conn: &mut impl Conn, id: IncidentId) -> Result<Time, StoreError> {
    conn.query_one(&OPENED_AT, binds![id], |row| row.get("opened_at")).await
}

const IS_POINTED_TO: Sql = sql!("select 1 as one from fingerprints where incident = $1 limit 1");

async fn is_pointed_to(conn: &mut impl Conn, incident: IncidentId) -> Result<bool, StoreError> {
    Ok(conn.query_opt(&IS_POINTED_TO, binds![incident], |_| Ok(())).await?.is_some())
}

const POINT: Sql = sql!(
    "
insert into fingerprints (fingerprint, incident, first_seen_at, parts)
values ($1, $2, $3, $4)"
);

/// Adds a new fingerprint to an incident that is there.
async fn point(
    tx: &mut impl Tx,
    grouping: &Grouping,
    incident: IncidentId,
    at: Time,
) -> Result<(), StoreError> {
    let values = binds![grouping.fingerprint.as_str(), incident, at, grouping.parts.to_json()];
    tx.execute(&POINT, values).await?;
    Ok(())
}

const SUMS_OF: Sql = sql!(
    "
select coalesce(sum(letters), 0){postgres ::bigint} as letters,
       coalesce(sum(letters) filter (where term {any $3}), 0){postgres ::bigint} as unsettled
  from counters
 where dimension = $1
   and value = $2"
);

const REPOINT: Sql = sql!("update fingerprints set incident = $2 where fingerprint = $1");

const TAKE_SUMS: Sql = sql!(
    "
update incidents
   set letters = letters - $2, unsettled = unsettled - $3
 where id = $1
returning last_seen_at"
);

const ADD_SUMS: Sql = sql!(
    "
update incidents
   set letters = letters + $2, unsettled = unsettled + $3,
       last_seen_at = {sqlite max}{postgres greatest}(last_seen_at, $4)
 where id = $1"
);

/// Hands a fingerprint, and with it the letters that have it, from one incident to another. What this commit has
/// tallied so far is added where the fingerprint points at its end.
async fn repoint(
    tx: &mut impl Tx,
    fingerprint: &str,
    from: IncidentId,
    to: IncidentId,
) -> Result<(), StoreError> {
    let unsettled = vec![Status::Pending.name(), Status::Reprocessing.name()];
    let values = binds![Dimension::Fingerprint.name(), fingerprint, unsettled];
    let read = |row: &Row<'_>| -> Result<(i64, i64), StoreError> {
        Ok((row.get("letters")?, row.get("unsettled")?))
    };
    let (letters, unsettled) = tx.query_one(&SUMS_OF, values, read).await?;
    tx.execute(&REPOINT, binds![fingerprint, to]).await?;
    let seen_at: Time =
        tx.query_one(&TAKE_SUMS, binds![from, letters, unsettled], |row| row.get("last_seen_at")).await?;
    tx.execute(&ADD_SUMS, binds![to, letters, unsettled, seen_at]).await?;
    Ok(())
}

const DESCRIBE: Sql = sql!("update incidents set title = $2, template = $3, frame = $4 where id = $1");

async fn describe(tx: &mut impl Tx, id: IncidentId, grouping: &Grouping) -> Result<(), StoreError> {
    let parts = &grouping.parts;
    tx.execute(&DESCRIBE, binds![id, parts.title(), &parts.template, parts.frames.first()]).await?;
    Ok(())
}

/// Incidents without letters, all of whose fingerprints came to nothing or to another incident's.
const EMPTIED: Sql = sql!(
    "
select i.id, n.incident
  from fingerprints f{sqlite  indexed by fingerprints_by_heir}
  join fingerprints n on n.fingerprint = f.heir
  join incidents i on i.id = f.incident
 where f.heir is not null
   and f.heir_for = $1
   and n.incident <> f.incident
   and i.letters = 0
   and i.merged_into is null
 order by f.fingerprint
 limit $2"
);

/// Merges incidents that were left without letters into those that have them; returns how many.
pub(super) async fn merge_emptied(tx: &mut impl Tx, marks: &str, at: Time) -> Result<u64, StoreError> {
    let values = binds![marks, limits::INCIDENTS_MERGED_PER_WRITE];
    let mut merged = 0;
    for (from, into) in tx.query(&EMPTIED, values, |row| Ok((row.get("id")?, row.get("incident")?))).await? {
        merged += merge(tx, from, into, at).await?;
    }
    Ok(merged)
}

const MERGED: Sql = sql!(
    "
update incidents
   set state = $3, merged_into = $2
 where id = $1
   and letters = 0
   and merged_into is null"
);

const SURVIVOR: Sql = sql!("select merged_into from incidents where id = $1");

const MERGED_ALONG: Sql = sql!("update incidents set merged_into = $2 where merged_into = $1");

/// Merges an incident without letters into another, unless it is merged already.
async fn merge(tx: &mut impl Tx, from: IncidentId, into: IncidentId, at: Time) -> Result<u64, StoreError> {
    // Whoever follows the name of a survivor finds letters, not another incident without any.
    let survivor: Option<IncidentId> =
        tx.query_one(&SURVIVOR, binds![into], |row| row.get("merged_into")).await?;
    let into = survivor.unwrap_or(into);
    if into == from {
        return Ok(0);
    }
    let done = tx.execute(&MERGED, binds![from, into, IncidentState::Closed]).await?;
    if done > 0 {
        // Whoever was merged into the one that goes is found with the other.
        tx.execute(&MERGED_ALONG, binds![from, into]).await?;
        let detail = Some(format!("{{\"into\":\"{into}\"}}"));
        let kind = "incident.merged";
        tx.add_event(&NewEvent { at, kind, incident: Some(from), detail, ..NewEvent::default() })?;
    }
    Ok(done)
}
