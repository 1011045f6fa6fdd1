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

use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::counters::Dimension;
use super::super::events::{self, NewEvent};
use super::super::incidents::{self, Opening};
use super::super::writer::Write;
use super::Moved;
use crate::StoreError;
use crate::regroup::NewGrouping;

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

const POINTED: &str = "
select fingerprint, incident, case when heir_for = $2 then heir end, coalesce(used_for = $2, false)
  from fingerprints
 where fingerprint = any($1)";

const KEEP_HEIRS: &str = "
update fingerprints f
   set heir = h.heir, heir_for = $3
  from unnest($1::text[], $2::text[]) as h (fingerprint, heir)
 where f.fingerprint = h.fingerprint";

const KEEP_USED: &str = "
update fingerprints
   set used_for = $2
 where fingerprint = any($1)";

impl<'a> Pointers<'a> {
    pub async fn of(conn: &Conn, lives: &[NewGrouping], turn: Turn<'a>) -> Result<Pointers<'a>, StoreError> {
        let all = lives.iter().flat_map(|life| [life.old.as_str(), life.grouping.fingerprint.as_str()]);
        let asked: BTreeSet<&str> = all.collect();
        let mut pointers =
            Pointers { turn, known: HashMap::new(), heirs: BTreeMap::new(), used: BTreeSet::new() };
        pointers.ask(conn, &asked.into_iter().collect::<Vec<_>>()).await?;
        Ok(pointers)
    }

    async fn ask(&mut self, conn: &Conn, fingerprints: &[&str]) -> Result<(), StoreError> {
        for fingerprint in fingerprints {
            self.known.insert((*fingerprint).to_owned(), None);
        }
        for row in conn.query(POINTED, &[&fingerprints, &self.turn.marks]).await? {
            let incident = IncidentId::from_bytes(row.id(1)?);
            self.known
                .insert(row.cell(0)?, Some(Pointed { incident, heir: row.cell(2)?, used: row.cell(3)? }));
        }
        Ok(())
    }

    async fn find(&mut self, conn: &Conn, fingerprint: &str) -> Result<Option<Pointed>, StoreError> {
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
    pub async fn keep(self, conn: &Conn) -> Result<(), StoreError> {
        let (old, heirs): (Vec<String>, Vec<String>) = self.heirs.into_iter().unzip();
        if !old.is_empty() {
            conn.execute(KEEP_HEIRS, &[&old, &heirs, &self.turn.marks]).await?;
        }
        let used: Vec<String> = self.used.into_iter().collect();
        if !used.is_empty() {
            conn.execute(KEEP_USED, &[&used, &self.turn.marks]).await?;
        }
        Ok(())
    }
}

/// Sees to it that the new fingerprint of a life has an incident of its own, the old one's where nobody else took it.
pub(super) async fn settle(
    write: &mut Write,
    pointers: &mut Pointers<'_>,
    moved: &Moved,
    life: &NewGrouping,
) -> Result<(), StoreError> {
    let (old, new) = (life.old.as_str(), life.grouping.fingerprint.as_str());
    let Some(past) = pointers.find(&write.conn, old).await? else {
        return Err(StoreError::Corrupt(format!("the fingerprint {old} has no incident")));
    };
    let first = past.heir.is_none();
    if first {
        pointers.inherit(old, new);
    }
    // What an old fingerprint hands on is free unless it goes on under the new rules itself.
    let free = (first && old != new && !past.used).then_some(past.incident);
    match pointers.find(&write.conn, new).await? {
        Some(Pointed { used: true, .. }) => return Ok(()),
        Some(present) => settle_known(write, pointers, moved, life, (present, free)).await?,
        None => match free {
            Some(incident) => {
                point(write, &life.grouping, incident, pointers.turn.at).await?;
                pointers.point(new, incident);
                describe(write, incident, &life.grouping).await?;
            }
            None => {
                split(write, moved, life, past.incident, pointers.turn).await?;
                pointers.point(new, life.incident);
            }
        },
    }
    pointers.make_used(new);
    Ok(())
}

/// A fingerprint that was there before comes up by the new rules for the first time.
async fn settle_known(
    write: &mut Write,
    pointers: &mut Pointers<'_>,
    moved: &Moved,
    life: &NewGrouping,
    (present, free): (Pointed, Option<IncidentId>),
) -> Result<(), StoreError> {
    let new = life.grouping.fingerprint.as_str();
    let turn = pointers.turn;
    let taken = match &present.heir {
        Some(heir) if heir != new => {
            let heir = pointers.find(&write.conn, heir).await?;
            heir.is_some_and(|heir| heir.incident == present.incident)
        }
        Some(_) | None => false,
    };
    // Capture opened it since the rules changed, and now it turns out that people know the cause already.
    let is_news = opened_at(&write.conn, present.incident).await? >= turn.begun_at;
    match free.filter(|free| *free != present.incident) {
        Some(free) if taken || is_news => {
            repoint(write, new, present.incident, free).await?;
            pointers.point(new, free);
            describe(write, free, &life.grouping).await?;
            if !is_pointed_to(&write.conn, present.incident).await? {
                merge(write, present.incident, free, turn.at).await?;
            }
        }
        Some(_) | None if taken => {
            incidents::open_unpointed(write, &opening(moved, life)).await?;
            repoint(write, new, present.incident, life.incident).await?;
            pointers.point(new, life.incident);
            tell_split(write, life.incident, present.incident, turn.at)?;
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

/// Lives that were one group are two: this part gets an incident of its own.
async fn split(
    write: &mut Write,
    moved: &Moved,
    life: &NewGrouping,
    from: IncidentId,
    turn: Turn<'_>,
) -> Result<(), StoreError> {
    let opening = opening(moved, life);
    incidents::open_missing(write, &[opening]).await?;
    incidents::tell_opened(write, &opening)?;
    tell_split(write, life.incident, from, turn.at)
}

fn tell_split(write: &mut Write, id: IncidentId, from: IncidentId, at: Time) -> Result<(), StoreError> {
    let detail = Some(format!("{{\"from\":\"{from}\"}}"));
    let split = NewEvent { at, kind: "incident.split", incident: Some(id), detail, ..NewEvent::default() };
    events::add(write, &split)
}

async fn opened_at(conn: &Conn, id: IncidentId) -> Result<Time, StoreError> {
    conn.query_one("select opened_at from incidents where id = $1", &[&Uid(*id.bytes())]).await?.time(0)
}

const IS_POINTED_TO: &str = "select exists (select 1 from fingerprints where incident = $1)";

async fn is_pointed_to(conn: &Conn, incident: IncidentId) -> Result<bool, StoreError> {
    conn.query_one(IS_POINTED_TO, &[&Uid(*incident.bytes())]).await?.cell(0)
}

const POINT: &str = "
insert into fingerprints (fingerprint, incident, first_seen_at, parts)
values ($1, $2, $3, $4)";

/// Writes down that a new fingerprint belongs to an incident that is there.
async fn point(write: &Write, grouping: &Grouping, incident: IncidentId, at: Time) -> Result<(), StoreError> {
    let (fingerprint, parts) = (grouping.fingerprint.as_str(), grouping.parts.to_json());
    write.conn.execute(POINT, &[&fingerprint, &Uid(*incident.bytes()), &At(at), &clean(&parts)]).await?;
    Ok(())
}

const SUMS_OF: &str = "
select coalesce(sum(letters), 0)::bigint, coalesce(sum(letters) filter (where term = any($3)), 0)::bigint
  from counters
 where dimension = $1
   and value = $2";

const REPOINT: &str = "
update fingerprints
   set incident = $2
 where fingerprint = $1";

const TAKE_SUMS: &str = "
update incidents
   set letters = letters - $2, unsettled = unsettled - $3
 where id = $1
returning last_seen_at";

const ADD_SUMS: &str = "
update incidents
   set letters = letters + $2, unsettled = unsettled + $3, last_seen_at = greatest(last_seen_at, $4)
 where id = $1";

/// Hands a fingerprint, and with it the letters that have it, from one incident to another. What this commit has
/// tallied so far is added where the fingerprint points at its end.
async fn repoint(
    write: &Write,
    fingerprint: &str,
    from: IncidentId,
    to: IncidentId,
) -> Result<(), StoreError> {
    let conn = &write.conn;
    let waiting = [Status::Pending.name(), Status::Reprocessing.name()];
    let row =
        conn.query_one(SUMS_OF, &[&Dimension::Fingerprint.name(), &fingerprint, &waiting.as_slice()]).await?;
    let (letters, unsettled): (i64, i64) = (row.cell(0)?, row.cell(1)?);
    let (from, to) = (Uid(*from.bytes()), Uid(*to.bytes()));
    conn.execute(REPOINT, &[&fingerprint, &to]).await?;
    let seen_at = conn.query_one(TAKE_SUMS, &[&from, &letters, &unsettled]).await?.time(0)?;
    conn.execute(ADD_SUMS, &[&to, &letters, &unsettled, &At(seen_at)]).await?;
    Ok(())
}

const DESCRIBE: &str = "
update incidents
   set title = $2, template = $3, frame = $4
 where id = $1";

async fn describe(write: &Write, id: IncidentId, grouping: &Grouping) -> Result<(), StoreError> {
    let parts = &grouping.parts;
    let frame = clean_opt(parts.frames.first().map(String::as_str));
    let (title, template) = (parts.title(), clean(&parts.template));
    write.conn.execute(DESCRIBE, &[&Uid(*id.bytes()), &clean(&title), &template, &frame]).await?;
    Ok(())
}

/// Incidents without letters, all of whose fingerprints came to nothing or to another incident's.
const EMPTIED: &str = "
select i.id, n.incident
  from fingerprints f
  join fingerprints n on n.fingerprint = f.heir
  join incidents i on i.id = f.incident
 where f.heir is not null
   and f.heir_for = $1
   and n.incident <> f.incident
   and i.letters = 0
   and i.merged_into is null
 order by f.fingerprint
 limit $2";

/// Says of incidents that were left without letters where these are; says how many it was.
pub(super) async fn merge_emptied(write: &mut Write, marks: &str, at: Time) -> Result<u64, StoreError> {
    let limit = limits::INCIDENTS_MERGED_PER_WRITE as i64;
    let mut merged = 0;
    for row in write.conn.query(EMPTIED, &[&marks, &limit]).await? {
        let (from, into) = (IncidentId::from_bytes(row.id(0)?), IncidentId::from_bytes(row.id(1)?));
        merged += merge(write, from, into, at).await?;
    }
    Ok(merged)
}

const MERGED: &str = "
update incidents
   set state = $3, merged_into = $2
 where id = $1
   and letters = 0
   and merged_into is null";

const SURVIVOR: &str = "select merged_into from incidents where id = $1";

const MERGED_ALONG: &str = "
update incidents
   set merged_into = $2
 where merged_into = $1";

/// Says of an incident without letters where these are, unless it says so already.
async fn merge(write: &mut Write, from: IncidentId, into: IncidentId, at: Time) -> Result<u64, StoreError> {
    // Whoever follows the name of a survivor finds letters, not another incident without any.
    let survivor = write.conn.query_one(SURVIVOR, &[&Uid(*into.bytes())]).await?.id_opt(0)?;
    let into = survivor.map_or(into, IncidentId::from_bytes);
    if into == from {
        return Ok(0);
    }
    let (from_id, into_id) = (Uid(*from.bytes()), Uid(*into.bytes()));
    let done = write.conn.execute(MERGED, &[&from_id, &into_id, &IncidentState::Closed.name()]).await?;
    if done > 0 {
        // Whoever was merged into the one that goes is found with the other.
        write.conn.execute(MERGED_ALONG, &[&from_id, &into_id]).await?;
        let detail = Some(format!("{{\"into\":\"{into}\"}}"));
        let event =
            NewEvent { at, kind: "incident.merged", incident: Some(from), detail, ..NewEvent::default() };
        events::add(write, &event)?;
    }
    Ok(done)
}
