//! What sources that live elsewhere ask of letters, and say of them.

use std::collections::HashMap;

use async_trait::async_trait;
use lazaret_core::attempt::Attempt;
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::cell::{At, Cells, Uid};
use super::conn::Conn;
use super::events::{self, NewEvent};
use super::verdicts::{Mark, apply};
use super::writer::Write;
use super::{PostgresStore, rows, tries};
use crate::StoreError;
use crate::decision::{Decided, Verb};
use crate::packing::open_text;
use crate::source_store::{FailedTry, KnownLetter, SettledElsewhere, SourceStore, left_source, pack_tries};

#[async_trait]
impl SourceStore for PostgresStore {
    async fn known_letters(&self, keys: Vec<CaptureKey>) -> Result<Vec<Option<KnownLetter>>, StoreError> {
        self.readers.read(keys, |conn, keys| Box::pin(known(conn, keys))).await
    }

    async fn remember_deaths(&self, deaths: Vec<(CaptureKey, String)>) -> Result<(), StoreError> {
        let weight = deaths.len().min(limits::COMMIT_LETTERS_MAX);
        self.writer.write_long(weight, deaths, |write, deaths| Box::pin(remember_deaths(write, deaths))).await
    }

    async fn settle_elsewhere(&self, settled: SettledElsewhere) -> Result<Decided, StoreError> {
        self.writer.write_of(settled.letter, settled, |write, settled| Box::pin(settle(write, settled))).await
    }

    async fn keep_tries(&self, failed: Vec<FailedTry>, forget_before: Time) -> Result<(), StoreError> {
        let packed = pack_tries(&failed)?;
        let weight = packed.len().min(limits::COMMIT_LETTERS_MAX);
        self.writer
            .write_long(weight, (packed, forget_before), |write, asked| {
                Box::pin(tries::keep(write, &asked.0, asked.1))
            })
            .await
    }

    async fn forget_tries(&self, keys: Vec<CaptureKey>) -> Result<(), StoreError> {
        let weight = keys.len().min(limits::COMMIT_LETTERS_MAX);
        self.writer.write_long(weight, keys, |write, keys| Box::pin(tries::forget(write, keys))).await
    }

    async fn tries_of(&self, keys: Vec<CaptureKey>) -> Result<Vec<Vec<Attempt>>, StoreError> {
        self.readers.read(keys, |conn, keys| Box::pin(tries::read(conn, keys))).await
    }
}

fn known_sql() -> String {
    let left_source = left_source();
    format!(
        "select k.key, k.id, k.place, k.death, v.reported, coalesce({left_source}, false)
           from (select distinct on (key) key, id, place, death
                   from letter_keys
                  where key = any($1::bytea[])
                  order by key, place = 'deleted', generation desc) k
           left join dead_letter_queue l on l.id = k.id and l.created_at = uuid_time(k.id)
           left join lives v on v.letter = l.id and v.life = l.life"
    )
}

const REMEMBER_DEATHS: &str = "
update letter_keys k
   set death = n.death
  from (select distinct on (k.key) k.key, k.generation, m.death
          from unnest($1::bytea[], $2::text[]) as m (key, death)
          join letter_keys k on k.key = m.key
         order by k.key, k.place = 'deleted', k.generation desc) n
 where k.key = n.key
   and k.generation = n.generation
   and k.death is distinct from n.death";

async fn known(conn: &Conn, keys: &[CaptureKey]) -> Result<Vec<Option<KnownLetter>>, StoreError> {
    let bytes: Vec<&[u8]> = keys.iter().map(|key| key.0.as_slice()).collect();
    let mut found: HashMap<Vec<u8>, KnownLetter> = HashMap::new();
    for row in conn.query(&known_sql(), &[&bytes]).await? {
        let known = KnownLetter {
            letter: LetterId::from_bytes(row.id(1)?),
            place: rows::place(row.cell(2)?)?,
            death: row.cell(3)?,
            reported: row.cell::<Option<&[u8]>>(4)?.map(open_text).transpose()?,
            left_source: row.cell(5)?,
        };
        found.insert(row.cell::<&[u8]>(0)?.to_vec(), known);
    }
    Ok(keys.iter().map(|key| found.get(key.0.as_slice()).cloned()).collect())
}

async fn remember_deaths(write: &Write, deaths: &[(CaptureKey, String)]) -> Result<(), StoreError> {
    let keys: Vec<&[u8]> = deaths.iter().map(|(key, _)| key.0.as_slice()).collect();
    let deaths: Vec<&str> = deaths.iter().map(|(_, death)| death.as_str()).collect();
    write.conn.execute(REMEMBER_DEATHS, &[&keys, &deaths]).await?;
    Ok(())
}

const LIFE: &str = "select life from dead_letter_queue where id = $1 and created_at = $2 for update";

pub(super) async fn settle(write: &mut Write, settled: &SettledElsewhere) -> Result<Decided, StoreError> {
    let letter = settled.letter;
    let row = write.conn.query_opt(LIFE, &[&Uid(*letter.bytes()), &At(letter.at())]).await?;
    let life: Option<u32> = row.map(|row| row.small(0)).transpose()?;
    if life != Some(settled.life) {
        return Ok(Decided::Unknown);
    }
    let (by, notes) = (settled.by.as_str(), Some(settled.notes.as_str()));
    let ends = Mark::Ends { strategy: Strategy::ManualResolution, by, notes };
    let decided = apply(write, letter, Action::SettleElsewhere, ends, settled.at).await?;
    if decided == Decided::Done {
        let event = NewEvent {
            at: settled.at,
            kind: Verb::Resolve.event(),
            letter: Some(letter),
            actor: Some(by),
            ..NewEvent::default()
        };
        events::add(write, &event)?;
    }
    Ok(decided)
}
