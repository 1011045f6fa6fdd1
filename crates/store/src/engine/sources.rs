//! What sources that live elsewhere ask of letters, and say of them.

mod tries;

use std::collections::HashMap;
use std::sync::LazyLock;

use async_trait::async_trait;
use lazaret_core::attempt::Attempt;
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::decision::{Decided, Verb};
use crate::engine::verdicts::Mark;
use crate::event::NewEvent;
use crate::packing::open_text;
use crate::seam::{Backend, Conn, Lane, Row, Sql, Tx, Value, View, binds, sql};
use crate::source_store::{FailedTry, KnownLetter, SettledElsewhere, SourceStore, left_source, pack_tries};

#[cfg(feature = "testing")]
pub(super) use tries::TRIES;

#[async_trait]
impl<S: Backend> SourceStore for S {
    async fn known_letters(&self, keys: Vec<CaptureKey>) -> Result<Vec<Option<KnownLetter>>, StoreError> {
        let finders = self.key_finders(keys.clone()).await?;
        self.read(View::Newest, (keys, finders), |conn, (keys, finders)| Box::pin(known(conn, keys, finders)))
            .await
    }

    async fn remember_deaths(&self, deaths: Vec<(CaptureKey, String)>) -> Result<(), StoreError> {
        let lane = Lane::Long(deaths.len().min(limits::COMMIT_LETTERS_MAX));
        let (keys, deaths): (Vec<CaptureKey>, Vec<String>) = deaths.into_iter().unzip();
        let finders = self.key_finders(keys).await?;
        self.write(lane, (finders, deaths), |tx, (finders, deaths)| {
            Box::pin(remember_deaths(tx, finders, deaths))
        })
        .await
    }

    async fn settle_elsewhere(&self, settled: SettledElsewhere) -> Result<Decided, StoreError> {
        self.write(Lane::Letter(settled.letter), settled, |tx, settled| Box::pin(settle(tx, settled))).await
    }

    async fn keep_tries(&self, failed: Vec<FailedTry>, forget_before: Time) -> Result<(), StoreError> {
        let packed = pack_tries(&failed)?;
        let lane = Lane::Long(packed.len().min(limits::COMMIT_LETTERS_MAX));
        self.write(lane, (packed, forget_before), |tx, (packed, before)| {
            Box::pin(tries::keep(tx, packed, *before))
        })
        .await
    }

    async fn forget_tries(&self, keys: Vec<CaptureKey>) -> Result<(), StoreError> {
        let lane = Lane::Long(keys.len().min(limits::COMMIT_LETTERS_MAX));
        self.write(lane, keys, |tx, keys| Box::pin(tries::forget(tx, keys))).await
    }

    async fn tries_of(&self, keys: Vec<CaptureKey>) -> Result<Vec<Vec<Attempt>>, StoreError> {
        self.read(View::Newest, keys, |conn, keys| Box::pin(tries::of_keys(conn, keys))).await
    }
}

/// One row of values for each key.
fn key_rows(keys: &[CaptureKey]) -> Vec<Vec<Value<'_>>> {
    keys.iter().map(|key| vec![Value::from(&key.0)]).collect()
}

/// The newest letter under each key, if possible one that is not deleted.
static KNOWN: LazyLock<Sql> = LazyLock::new(|| {
    let left_source = left_source();
    Sql::composed(format!(
        "select k.key, k.id, k.place, k.death, v.reported, coalesce({left_source}, false) as left_source
           from {{sqlite letter_keys}}{{postgres (select distinct on (key) key, id, place, death
                   from letter_keys
                  where key = any($1::bytea[])
                  order by key, place = 'deleted', generation desc)}} k
           left join dead_letter_queue l on l.id = k.id{{postgres  and l.created_at = uuid_time(k.id)}}
           left join lives v on v.letter = l.{{sqlite letter}}{{postgres id}} and v.life = l.life{{sqlite 
          where k.number = $1}}"
    ))
});

async fn known(
    conn: &mut impl Conn,
    keys: &[CaptureKey],
    finders: &[Value<'static>],
) -> Result<Vec<Option<KnownLetter>>, StoreError> {
    let rows: Vec<Vec<Value<'_>>> = finders.iter().map(|finder| vec![finder.clone()]).collect();
    let found: HashMap<[u8; 32], KnownLetter> =
        conn.query_rows(&KNOWN, &rows, read_known).await?.into_iter().collect();
    Ok(keys.iter().map(|key| found.get(&key.0).cloned()).collect())
}

fn read_known(row: &Row<'_>) -> Result<([u8; 32], KnownLetter), StoreError> {
    let key = row.get("key")?;
    let known = KnownLetter {
        letter: row.get("id")?,
        place: row.get("place")?,
        death: row.get("death")?,
        reported: row.get::<Option<Vec<u8>>>("reported")?.map(|packed| open_text(&packed)).transpose()?,
        left_source: row.get("left_source")?,
    };
    Ok((key, known))
}

const REMEMBER_DEATHS: Sql = sql!(
    "
update letter_keys{postgres  k
   set death = n.death
  from (select distinct on (k.key) k.key, k.generation, m.death
          from unnest($1::bytea[], $2::text[]) as m (key, death)
          join letter_keys k on k.key = m.key
         order by k.key, k.place = 'deleted', k.generation desc) n
 where k.key = n.key
   and k.generation = n.generation
   and k.death is distinct from n.death}{sqlite 
   set death = $2
 where number = $1
   and death is not $2}"
);

async fn remember_deaths(
    tx: &mut impl Tx,
    finders: &[Value<'static>],
    deaths: &[String],
) -> Result<(), StoreError> {
    let rows: Vec<Vec<Value<'_>>> =
        finders.iter().zip(deaths).map(|(finder, death)| vec![finder.clone(), Value::from(death)]).collect();
    tx.execute_rows(&REMEMBER_DEATHS, &rows).await?;
    Ok(())
}

const LOCK_LIFE: Sql = sql!(
    "
select life
  from dead_letter_queue
 where id = $1{postgres 
   and created_at = uuid_time($1)
   for update}"
);

/// Resolves a pending letter in the name of its source, unless it died again since the source was looked at.
pub(crate) async fn settle(tx: &mut impl Tx, settled: &SettledElsewhere) -> Result<Decided, StoreError> {
    let letter = settled.letter;
    let life: Option<u32> = tx.query_opt(&LOCK_LIFE, binds![letter], |row| row.get("life")).await?;
    if life != Some(settled.life) {
        return Ok(Decided::Unknown);
    }
    let mark = Mark::Ends {
        strategy: Strategy::ManualResolution,
        by: &settled.by,
        notes: Some(settled.notes.as_str()),
    };
    let decided = tx.apply(letter, Action::SettleElsewhere, mark, settled.at).await?;
    if decided == Decided::Done {
        tx.add_event(&NewEvent {
            at: settled.at,
            kind: Verb::Resolve.event(),
            letter: Some(letter),
            actor: Some(&settled.by),
            ..NewEvent::default()
        })?;
    }
    Ok(decided)
}
