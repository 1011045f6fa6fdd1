//! Who stands where letters are to be put, and taking the keys of those in whose way nobody stands.

use std::collections::{BTreeMap, HashMap, HashSet};

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Place;
use lazaret_core::time::Time;

use super::super::cell::{Cells, Uid};
use super::super::conn::Conn;
use super::super::insert::{LOOKS_MAX, lock_keys};
use super::super::jobs::follow::{named_job, with_rows};
use super::super::rows;
use super::super::writer::Write;
use super::Packed;
use crate::StoreError;
use crate::transfer::Imported;

/// A key on its way into the store, and which letter of the batch it is of.
struct Taking {
    generation: u32,
    id: LetterId,
    index: usize,
}

/// Says of each letter what becomes of it, and takes the keys of those that are to be created. Another instance may
/// take the same key now: then this waits for it, and looks again.
pub(super) async fn take_keys(write: &Write, letters: &[Packed]) -> Result<Vec<Imported>, StoreError> {
    let mut taken: HashSet<usize> = HashSet::new();
    let keys: Vec<&CaptureKey> = letters.iter().map(|packed| &packed.import.exported.key).collect();
    lock_keys(&write.conn, &keys).await?;
    for _ in 0..LOOKS_MAX {
        let mut here = Here::look(&write.conn, letters).await?;
        for index in &taken {
            here.add(&letters[*index]);
        }
        let mut outcomes = Vec::with_capacity(letters.len());
        let mut taking: BTreeMap<[u8; 32], Taking> = BTreeMap::new();
        for (index, packed) in letters.iter().enumerate() {
            if taken.contains(&index) {
                outcomes.push(Imported::Created);
                continue;
            }
            outcomes.push(match here.meet(packed) {
                Met::Nobody { generation } => {
                    let id = packed.letter().id;
                    taking.insert(packed.import.exported.key.0, Taking { generation, id, index });
                    here.add(packed);
                    Imported::Created
                }
                Met::Itself => Imported::Known,
                Met::Earlier => Imported::Behind,
                Met::Other(other) => Imported::Conflict(other),
            });
        }
        let got = add_keys(write, &taking).await?;
        if got.len() == taking.len() {
            return Ok(outcomes);
        }
        taken.extend(taking.values().filter(|one| got.contains(&one.id)).map(|one| one.index));
    }
    Err(StoreError::Corrupt("the keys of letters that were to be imported lead nowhere".into()))
}

const ADD_KEYS: &str = "
insert into letter_keys (key, generation, id, place)
select k.key, k.generation, k.id, $4
  from unnest($1::bytea[], $2::integer[], $3::uuid[]) as k (key, generation, id)
on conflict do nothing
returning id";

/// Takes keys, in their order; returns whose could be taken.
async fn add_keys(
    write: &Write,
    taking: &BTreeMap<[u8; 32], Taking>,
) -> Result<HashSet<LetterId>, StoreError> {
    if taking.is_empty() {
        return Ok(HashSet::new());
    }
    let keys: Vec<&[u8]> = taking.keys().map(|key| key.as_slice()).collect();
    let generations: Vec<i32> = taking.values().map(|one| one.generation as i32).collect();
    let ids: Vec<Uid> = taking.values().map(|one| Uid(*one.id.bytes())).collect();
    let rows = write.conn.query(ADD_KEYS, &[&keys, &generations, &ids, &Place::Live.name()]).await?;
    rows.iter().map(|row| row.id(0).map(LetterId::from_bytes)).collect()
}

/// Who stands where a letter is to be put.
enum Met {
    Nobody {
        generation: u32,
    },
    /// As far along, or further.
    Itself,
    /// The letter as it was before.
    Earlier,
    Other(LetterId),
}

/// What is here of the letters of a batch.
struct Here {
    by_id: HashMap<LetterId, Known>,
    by_key: HashMap<[u8; 32], Newest>,
    /// Jobs that are there without their letters.
    jobs: HashSet<JobId>,
}

/// The job that an imported letter is of.
pub(super) fn job_of(packed: &Packed) -> Option<JobId> {
    let letter = packed.letter();
    named_job(&letter.source, &letter.event_id, &packed.import.exported.key)
}

/// The newest letter under a key.
struct Newest {
    id: LetterId,
    place: Place,
    generation: u32,
}

struct Known {
    key: [u8; 32],
    /// Its life and when it was changed last; nothing if only its key is kept.
    at: Option<(u32, Time)>,
}

/// `offset` keeps the letters from being read whole to be joined: each is one row of one month.
const BY_ID: &str = "
select k.id, k.key, l.life, l.updated_at
  from letter_keys k
  left join lateral (select life, updated_at
                       from dead_letter_queue
                      where id = k.id
                        and created_at = uuid_time(k.id)
                     offset 0) l on true
 where k.id = any($1)";

const BY_KEY: &str = "
select distinct on (key) key, generation, id, place
  from letter_keys
 where key = any($1)
 order by key, place = 'deleted', generation desc";

impl Here {
    async fn look(conn: &Conn, letters: &[Packed]) -> Result<Here, StoreError> {
        let ids: Vec<Uid> = letters.iter().map(|packed| Uid(*packed.letter().id.bytes())).collect();
        let keys: Vec<&[u8]> = letters.iter().map(|packed| packed.import.exported.key.0.as_slice()).collect();
        let mut here = Here { by_id: HashMap::new(), by_key: HashMap::new(), jobs: HashSet::new() };
        // Keys first: a letter that comes in between is then seen by its id, and not taken for another one.
        for row in conn.query(BY_KEY, &[&keys]).await? {
            let (id, place) = (LetterId::from_bytes(row.id(2)?), rows::place(row.cell(3)?)?);
            here.by_key.insert(row.bytes(0)?, Newest { id, place, generation: row.small(1)? });
        }
        for row in conn.query(BY_ID, &[&ids]).await? {
            let at = match (row.cell::<Option<i32>>(2)?, row.time_opt(3)?) {
                (Some(life), Some(updated_at)) => Some((life.max(0) as u32, updated_at)),
                (_, _) => None,
            };
            here.by_id.insert(LetterId::from_bytes(row.id(0)?), Known { key: row.bytes(1)?, at });
        }
        let jobs: Vec<JobId> = letters.iter().filter_map(job_of).collect();
        here.jobs = with_rows(conn, &jobs).await?;
        Ok(here)
    }

    fn meet(&self, packed: &Packed) -> Met {
        let (letter, key) = (packed.letter(), &packed.import.exported.key.0);
        if let Some(known) = self.by_id.get(&letter.id) {
            return match known.at {
                Some(at) if known.key == *key => {
                    if at >= (letter.life, letter.updated_at) {
                        Met::Itself
                    } else {
                        Met::Earlier
                    }
                }
                Some(_) | None => Met::Other(letter.id),
            };
        }
        let generation = match self.by_key.get(key) {
            None => 1,
            Some(newest) => match newest.place {
                Place::Deleted => newest.generation + 1,
                Place::Live | Place::Archived => return Met::Other(newest.id),
            },
        };
        match job_of(packed) {
            Some(job) if self.jobs.contains(&job) => Met::Other(letter.id),
            Some(_) | None => Met::Nobody { generation },
        }
    }

    /// Notes a letter of the batch: another one may come under the same id or key.
    fn add(&mut self, packed: &Packed) {
        let (letter, key) = (packed.letter(), packed.import.exported.key.0);
        let at = Some((letter.life, letter.updated_at));
        self.by_id.insert(letter.id, Known { key, at });
        self.by_key.insert(key, Newest { id: letter.id, place: Place::Live, generation: 1 });
    }
}
