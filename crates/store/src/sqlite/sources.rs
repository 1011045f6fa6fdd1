//! What sources that live elsewhere ask of letters, and say of them.

use std::sync::Arc;

use async_trait::async_trait;
use lazaret_core::attempt::Attempt;
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::Action;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::events::{self, NewEvent};
use super::keys::Keys;
use super::verdicts::{Mark, apply};
use super::writer::Write;
use super::{SqliteStore, rows, tries};
use crate::StoreError;
use crate::decision::{Decided, Verb};
use crate::packing::open_text;
use crate::source_store::{FailedTry, KnownLetter, SettledElsewhere, SourceStore, left_source, pack_tries};

#[async_trait]
impl SourceStore for SqliteStore {
    async fn known_letters(&self, keys: Vec<CaptureKey>) -> Result<Vec<Option<KnownLetter>>, StoreError> {
        let rows = Arc::clone(&self.keys);
        self.readers.read(move |conn| keys.iter().map(|key| known(&rows, conn, key)).collect()).await
    }

    async fn remember_deaths(&self, deaths: Vec<(CaptureKey, String)>) -> Result<(), StoreError> {
        self.writer.write(deaths.len(), move |write| remember_deaths(write, &deaths)).await
    }

    async fn settle_elsewhere(&self, settled: SettledElsewhere) -> Result<Decided, StoreError> {
        self.writer.write(1, move |write| settle(write, &settled)).await
    }

    async fn keep_tries(&self, failed: Vec<FailedTry>, forget_before: Time) -> Result<(), StoreError> {
        let packed = pack_tries(&failed)?;
        self.writer.write(packed.len(), move |write| tries::keep(write, &packed, forget_before)).await
    }

    async fn forget_tries(&self, keys: Vec<CaptureKey>) -> Result<(), StoreError> {
        self.writer.write(keys.len(), move |write| tries::forget(write, &keys)).await
    }

    async fn tries_of(&self, keys: Vec<CaptureKey>) -> Result<Vec<Vec<Attempt>>, StoreError> {
        self.readers.read(move |conn| keys.iter().map(|key| tries::read(conn, key)).collect()).await
    }
}

fn known_sql() -> String {
    let left_source = left_source();
    format!(
        "select k.id, k.place, k.death, v.reported, coalesce({left_source}, false)
           from letter_keys k
           left join dead_letter_queue l on l.id = k.id
           left join lives v on v.letter = l.letter and v.life = l.life
          where k.number = ?1"
    )
}

const REMEMBER_DEATH: &str = "
update letter_keys
   set death = ?2
 where number = ?1
   and death is not ?2";

fn known(keys: &Keys, conn: &Connection, key: &CaptureKey) -> Result<Option<KnownLetter>, StoreError> {
    let Some(row) = keys.latest(conn, key)? else { return Ok(None) };
    let mut statement = conn.prepare_cached(&known_sql())?;
    let mut found = statement.query([row.number])?;
    let Some(row) = found.next()? else { return Ok(None) };
    Ok(Some(KnownLetter {
        letter: LetterId::from_bytes(row.get(0)?),
        place: rows::place(&row.get::<_, String>(1)?)?,
        death: row.get(2)?,
        reported: row.get::<_, Option<Vec<u8>>>(3)?.map(|packed| open_text(&packed)).transpose()?,
        left_source: row.get(4)?,
    }))
}

fn remember_deaths(write: &Write, deaths: &[(CaptureKey, String)]) -> Result<(), StoreError> {
    let mut statement = write.conn.prepare_cached(REMEMBER_DEATH)?;
    for (key, death) in deaths {
        if let Some(row) = write.keys.latest(&write.conn, key)? {
            statement.execute((row.number, death))?;
        }
    }
    Ok(())
}

pub(super) fn settle(write: &mut Write, settled: &SettledElsewhere) -> Result<Decided, StoreError> {
    let life: Option<u32> = write
        .conn
        .prepare_cached("select life from dead_letter_queue where id = ?1")?
        .query_row([settled.letter.bytes()], |row| row.get(0))
        .optional()?;
    if life != Some(settled.life) {
        return Ok(Decided::Unknown);
    }
    let (by, notes) = (settled.by.as_str(), Some(settled.notes.as_str()));
    let ends = Mark::Ends { strategy: Strategy::ManualResolution, by, notes };
    let decided = apply(write, settled.letter, Action::SettleElsewhere, ends, settled.at)?;
    if decided == Decided::Done {
        let event = NewEvent {
            at: settled.at,
            kind: Verb::Resolve.event(),
            letter: Some(settled.letter),
            actor: Some(by),
            ..NewEvent::default()
        };
        events::add(write, &event)?;
    }
    Ok(decided)
}
