//! Capture: batches of prepared letters become rows, each a new letter, a new life or a duplicate.
//!
//! New letters of all batches are stored together, by a few statements. Those whose key is known go one by one.

mod meet;
mod stored;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{try_join, try_join3};
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Admitted, Outcome, Receipt, SourceWord};
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::time::Time;

use super::PostgresStore;
use super::cell::{At, Cells, Uid};
use super::conn::Conn;
use super::counters::{Counted, Flow};
use super::events::{self, NewEvent};
use super::extract::Extract;
use super::failure::{Kind, kind_of};
use super::holds::standing::{self, Arrived};
use super::incidents::{self, Opening};
use super::retention::meet::meet_archived;
use super::rows;
use super::writer::Write;
use crate::StoreError;
use crate::failure::FailurePoint;
use crate::moves::Move;
use crate::packing::Prepared;

pub(super) use meet::meet;
pub(super) use stored::{ADD_LIVES, NewAttempt, NewLife, add_attempts, add_lives, chunks, column};

/// One captured message with everything done to it that needs no database.
#[derive(Debug)]
pub(super) struct Incoming {
    pub prepared: Prepared,
    extract: Extract,
    bare: AtomicBool,
}

impl Incoming {
    pub fn new(admitted: Admitted) -> Result<Incoming, StoreError> {
        let prepared = Prepared::new(admitted)?;
        let extract = Extract::of(&prepared.admitted);
        Ok(Incoming { prepared, extract, bare: AtomicBool::new(false) })
    }

    /// Whether it goes without what was taken out of it for people who ask the database.
    pub fn is_bare(&self) -> bool {
        self.bare.load(Ordering::Relaxed)
    }

    pub fn make_bare(&self) {
        self.bare.store(true, Ordering::Relaxed);
    }

    /// What was taken out of it, unless it goes without.
    fn extract(&self) -> Option<&Extract> {
        (!self.is_bare()).then_some(&self.extract)
    }
}

const LETTERS_AWAY: &str = "
select id
  from archive
 where key = any($1)";

/// Captures a batch. A letter that dies again while it is archived comes back into a month that may have been taken away
/// since: then that month is made, and all done again.
pub(super) async fn capture(store: &PostgresStore, batch: Vec<Incoming>) -> Result<Vec<Receipt>, StoreError> {
    let batch = Arc::new(batch);
    let moments = || batch.iter().map(|one| one.prepared.admitted.id.at());
    store.months.ensure(&store.lanes, moments()).await?;
    match store.months.after(store.writer.capture(Arc::clone(&batch)).await) {
        Err(error) if kind_of(&error) == Kind::NoMonth => {
            let keys = batch.iter().map(|one| one.prepared.admitted.key).collect();
            let away = months_away(store, keys).await?;
            store.months.ensure(&store.lanes, moments().chain(away)).await?;
            store.months.after(store.writer.capture(Arc::clone(&batch)).await)
        }
        result => result,
    }
}

/// When the letters were created that are archived under these keys.
pub(super) async fn months_away(
    store: &PostgresStore,
    keys: Vec<CaptureKey>,
) -> Result<Vec<Time>, StoreError> {
    let find = async |conn: &Conn, keys: &Vec<CaptureKey>| {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.0.as_slice()).collect();
        let found = conn.query(LETTERS_AWAY, &[&keys]).await?;
        found.iter().map(|row| Ok(LetterId::from_bytes(row.id(0)?).at())).collect()
    };
    store.readers.read(keys, |conn, keys| Box::pin(find(conn, keys))).await
}

/// Stores batches; one message that fails fails all. The receipts of each batch come back in its order.
pub(super) async fn insert(
    write: &mut Write,
    batches: &[&[Incoming]],
) -> Result<Vec<Vec<Receipt>>, StoreError> {
    let all: Vec<&Incoming> = batches.iter().flat_map(|batch| batch.iter()).collect();
    let created = if write.holds.knows_standing() {
        add_keys(write, &all).await?
    } else {
        // Asked behind the keys on the same way: nobody waits for it.
        let (created, found) = try_join(add_keys(write, &all), standing::in_force(&write.conn)).await?;
        write.holds.know(found);
        created
    };
    write.failures.at(FailurePoint::InsertLetter)?;
    let new: Vec<New<'_>> = all
        .iter()
        .filter(|one| created.contains(one.prepared.admitted.id.bytes()))
        .map(|incoming| New { incoming, previous: None })
        .collect();
    lock_known(write, &all, &created).await?;
    create(write, &new).await?;
    let mut receipts = Vec::with_capacity(all.len());
    for incoming in all {
        let letter = incoming.prepared.admitted.id;
        receipts.push(match created.contains(letter.bytes()) {
            true => Receipt { letter, outcome: Outcome::Created },
            false => insert_known(write, incoming).await?,
        });
    }
    let mut receipts = receipts.into_iter();
    Ok(batches.iter().map(|batch| receipts.by_ref().take(batch.len()).collect()).collect())
}

const ADD_KEYS: &str = "
insert into letter_keys (key, generation, id, place)
select k.key, 1, k.id, $3
  from unnest($1::bytea[], $2::uuid[]) as k (key, id)
on conflict (key, generation) do nothing
returning id";

/// Takes the keys that nobody has, in the order of the keys; returns the ids of the letters that are new by that.
async fn add_keys(write: &Write, all: &[&Incoming]) -> Result<HashSet<[u8; 16]>, StoreError> {
    let mut first: BTreeMap<&[u8], Uid> = BTreeMap::new();
    for incoming in all {
        let admitted = &incoming.prepared.admitted;
        first.entry(admitted.key.0.as_slice()).or_insert(Uid(*admitted.id.bytes()));
    }
    if first.is_empty() {
        return Ok(HashSet::new());
    }
    let (keys, ids): (Vec<&[u8]>, Vec<Uid>) = first.into_iter().unzip();
    let rows = write.conn.query(ADD_KEYS, &[&keys, &ids, &Place::Live.name()]).await?;
    rows.iter().map(|row| row.id(0)).collect()
}

const LATEST_OF_KEYS: &str = "
select distinct on (key) key, id, place
  from letter_keys
 where key = any($1)
 order by key, place = 'deleted', generation desc";

const HOLD: &str = "
select id
  from dead_letter_queue
 where id = any($1)
   and created_at between $2 and $3
 order by id
   for no key update";

/// Holds the letters whose keys are known still, in the order of their ids, and before them the keys of those that are
/// away: each is looked at by itself later, and two instances that are told of the same ones would wait for each other in
/// a circle.
async fn lock_known(write: &Write, all: &[&Incoming], created: &HashSet<[u8; 16]>) -> Result<(), StoreError> {
    let admitted = all.iter().map(|one| &one.prepared.admitted);
    let keys: Vec<&[u8]> =
        admitted.filter(|one| !created.contains(one.id.bytes())).map(|one| one.key.0.as_slice()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let (mut ids, mut away) = (Vec::new(), Vec::new());
    for row in write.conn.query(LATEST_OF_KEYS, &[&keys]).await? {
        match rows::place(row.cell(2)?)? {
            Place::Live => ids.push(LetterId::from_bytes(row.id(1)?)),
            Place::Archived | Place::Deleted => away.push(CaptureKey(row.bytes(0)?)),
        }
    }
    if !away.is_empty() {
        lock_keys(&write.conn, &away.iter().collect::<Vec<_>>()).await?;
    }
    let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { return Ok(()) };
    let (from, to) = (At(first.at()), At(last.at()));
    let ids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    write.conn.execute(HOLD, &[&ids, &from, &to]).await?;
    Ok(())
}

const LATEST_OF_KEY: &str = "
select generation, id, place
  from letter_keys
 where key = $1
 order by place = 'deleted', generation desc
 limit 1";

/// The letter that a key stands for: its generation, id and place. That is the one that is not deleted, which after a
/// restore need not be the newest; else the newest.
pub(super) async fn latest_of_key(
    conn: &Conn,
    key: &CaptureKey,
) -> Result<Option<(u32, LetterId, Place)>, StoreError> {
    let Some(row) = conn.query_opt(LATEST_OF_KEY, &[&key.0.as_slice()]).await? else { return Ok(None) };
    Ok(Some((row.small(0)?, LetterId::from_bytes(row.id(1)?), rows::place(row.cell(2)?)?)))
}

pub(super) const LOCK_KEYS: &str = "
select 1
  from letter_keys
 where key = any($1)
 order by key, generation
   for no key update";

/// Holds keys that are known still until the commit. Whoever puts something in the place of a letter that is away, or
/// brings it back, does so before the last look at its key.
pub(super) async fn lock_keys(conn: &Conn, keys: &[&CaptureKey]) -> Result<(), StoreError> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.0.as_slice()).collect();
    conn.execute(LOCK_KEYS, &[&keys]).await?;
    Ok(())
}

/// How often a key is looked up whose letter goes away meanwhile.
pub(super) const LOOKS_MAX: usize = 8;

const ADD_NEXT_KEY: &str = "
insert into letter_keys (key, generation, id, place)
values ($1, $2, $3, $4)
on conflict (key, generation) do nothing";

/// Stores a message whose key is known.
async fn insert_known(write: &mut Write, incoming: &Incoming) -> Result<Receipt, StoreError> {
    let admitted = &incoming.prepared.admitted;
    let mut held = false;
    for _ in 0..LOOKS_MAX {
        let Some((generation, id, place)) = latest_of_key(&write.conn, &admitted.key).await? else { break };
        match place {
            Place::Live => {
                if let Some(receipt) = meet(write, incoming, id, Place::Live).await? {
                    return Ok(receipt);
                }
            }
            Place::Archived | Place::Deleted if !held => {
                lock_keys(&write.conn, &[&admitted.key]).await?;
                held = true;
            }
            // A message that is still dead is no new death because its letter was deleted.
            Place::Deleted if admitted.captured.word == SourceWord::SameDeath => {
                note(write, &incoming.prepared, "duplicate");
                return Ok(Receipt { letter: id, outcome: Outcome::Duplicate });
            }
            Place::Deleted => {
                let (key, next) = (admitted.key.0.as_slice(), generation as i32 + 1);
                let id_here = Uid(*admitted.id.bytes());
                let added =
                    write.conn.execute(ADD_NEXT_KEY, &[&key, &next, &id_here, &Place::Live.name()]).await?;
                if added == 1 {
                    create(write, &[New { incoming, previous: Some(id) }]).await?;
                    return Ok(Receipt { letter: admitted.id, outcome: Outcome::Created });
                }
            }
            Place::Archived => {
                if let Some(receipt) = meet_archived(write, incoming, id).await? {
                    return Ok(receipt);
                }
            }
        }
    }
    Err(StoreError::Corrupt(format!("the key of letter {} leads nowhere", admitted.id)))
}

/// A letter that is about to be stored for the first time; its key is taken already.
pub(super) struct New<'a> {
    incoming: &'a Incoming,
    previous: Option<LetterId>,
}

impl New<'_> {
    fn prepared(&self) -> &Prepared {
        &self.incoming.prepared
    }
}

async fn create(write: &mut Write, new: &[New<'_>]) -> Result<(), StoreError> {
    if new.is_empty() {
        return Ok(());
    }
    let prepared: Vec<&Prepared> = new.iter().map(New::prepared).collect();
    let mut incidents = find_incidents(write, &prepared).await?;
    let lives: Vec<NewLife<'_>> = prepared.iter().map(|prepared| first_life(prepared)).collect();
    let attempts: Vec<NewAttempt<'_>> =
        prepared.iter().flat_map(|prepared| first_attempts(prepared)).collect();
    let conn = &write.conn;
    conn.prepare_all(&[stored::ADD_LETTERS, ADD_LIVES, stored::ADD_ATTEMPTS]).await?;
    // Sent one behind the other: PostgreSQL stores the first while the others are on their way.
    try_join3(stored::add_letters(conn, new), stored::put_lives(conn, &lives), add_attempts(conn, &attempts))
        .await?;
    stored::tell_lives(write, &lives);
    let mut arrived = Vec::with_capacity(prepared.len());
    for prepared in prepared {
        let admitted = &prepared.admitted;
        let counted = counted(prepared, Status::Pending);
        write.tally.appear(&counted);
        write.tally.flow(admitted.captured_at.minute(), Flow::Arrived, &counted);
        write.tally.see(&counted.fingerprint, admitted.captured_at);
        write.tally.die(&counted.fingerprint, admitted.died_at);
        let incident = incidents.tell(write, prepared)?;
        tell(write, prepared, "dead_letter.added", admitted.id, incident, 1)?;
        arrived.push((prepared, incident));
    }
    let arrived = arrived.into_iter().map(|(prepared, incident)| Arrived::new(prepared, incident));
    standing::catch(write, arrived).await
}

fn first_life(prepared: &Prepared) -> NewLife<'_> {
    let letter = prepared.admitted.id;
    NewLife { letter, life: 1, fatal: prepared.attempts.len() as u32, prepared }
}

fn first_attempts(prepared: &Prepared) -> impl Iterator<Item = NewAttempt<'_>> {
    let letter = prepared.admitted.id;
    (1_u32..).zip(&prepared.attempts).map(move |(ordinal, attempt)| NewAttempt {
        letter,
        ordinal,
        life: 1,
        attempt,
    })
}

/// The incidents of a batch, and which of them are opened by it.
pub(super) struct Incidents<'a> {
    known: HashMap<String, IncidentId>,
    opened: HashMap<&'a str, Opening<'a>>,
}

impl Incidents<'_> {
    /// The incident of a letter; the first letter of an incident tells of its opening.
    fn tell(&mut self, write: &mut Write, prepared: &Prepared) -> Result<IncidentId, StoreError> {
        self.tell_of(write, prepared.admitted.grouping.fingerprint.as_str())
    }

    /// The incident of a fingerprint; the first letter of an incident tells of its opening.
    pub fn tell_of(&mut self, write: &mut Write, fingerprint: &str) -> Result<IncidentId, StoreError> {
        if let Some(opening) = self.opened.remove(fingerprint) {
            incidents::tell_opened(write, &opening)?;
        }
        self.known
            .get(fingerprint)
            .copied()
            .ok_or_else(|| StoreError::Corrupt(format!("the fingerprint {fingerprint} has no incident")))
    }
}

/// The incidents of the letters' fingerprints, opened now if these are the first letters of them.
async fn find_incidents<'a>(write: &Write, prepared: &[&'a Prepared]) -> Result<Incidents<'a>, StoreError> {
    let mut openings: BTreeMap<&str, Opening<'a>> = BTreeMap::new();
    for prepared in prepared {
        let admitted = &prepared.admitted;
        openings.entry(admitted.grouping.fingerprint.as_str()).or_insert(Opening {
            id: admitted.incident,
            at: admitted.captured_at,
            grouping: &admitted.grouping,
            error_type: &prepared.fatal().error_type,
            class: admitted.class,
        });
    }
    find_or_open(write, openings).await
}

/// The incidents of fingerprints, opened now if they have none.
pub(super) async fn find_or_open<'a>(
    write: &Write,
    mut openings: BTreeMap<&'a str, Opening<'a>>,
) -> Result<Incidents<'a>, StoreError> {
    let asked: Vec<&str> = openings.keys().copied().collect();
    let mut known = incidents::of_fingerprints(&write.conn, &asked).await?;
    openings.retain(|fingerprint, _| !known.contains_key(*fingerprint));
    if !openings.is_empty() {
        let missing: Vec<Opening<'_>> = openings.values().copied().collect();
        let taken: HashSet<String> = incidents::open_missing(write, &missing).await?.into_iter().collect();
        known = incidents::of_fingerprints(&write.conn, &asked).await?;
        openings.retain(|fingerprint, _| taken.contains(*fingerprint));
    }
    Ok(Incidents { known, opened: openings.into_iter().collect() })
}

fn counted(prepared: &Prepared, status: Status) -> Counted {
    let admitted = &prepared.admitted;
    let captured = &admitted.captured;
    Counted {
        source: captured.source.clone(),
        queue: captured.queue.clone(),
        letter_type: captured.letter_type.clone(),
        error_type: prepared.fatal().error_type.clone(),
        class: admitted.class.name(),
        fingerprint: admitted.grouping.fingerprint.as_str().to_owned(),
        aggregate: captured.aggregate.clone(),
        status,
    }
}

/// Counts it for whoever watches this instance.
pub(super) fn note(write: &mut Write, prepared: &Prepared, kind: &'static str) {
    let captured = &prepared.admitted.captured;
    write.tally.note(Move {
        kind,
        source: captured.source.clone(),
        queue: captured.queue.clone(),
        letter_type: captured.letter_type.clone(),
        rule: String::new(),
    });
}

fn tell(
    write: &mut Write,
    prepared: &Prepared,
    kind: &'static str,
    letter: LetterId,
    incident: IncidentId,
    life: u32,
) -> Result<(), StoreError> {
    note(write, prepared, kind);
    let detail = (life > 1).then(|| format!("{{\"life\":{life}}}"));
    let at = prepared.admitted.captured_at;
    let event =
        NewEvent { at, kind, letter: Some(letter), incident: Some(incident), detail, ..NewEvent::default() };
    events::add(write, &event)
}
