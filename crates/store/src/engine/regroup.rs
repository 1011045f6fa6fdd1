//! Regrouping: lives get the fingerprints of new rules, batch by batch, and incidents keep their ids.
//!
//! Letters move by their present life; earlier lives stay as they were judged. Every batch is written while nobody else
//! writes, in any instance, so what it has looked at stays so until its commit. It asks for all of its lives at once
//! and moves them at once: the others wait.

mod settle;

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::id::LetterId;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::engine::dimension::Counted;
use crate::packing::{json, open_error};
use crate::regroup::{NewGrouping, OldGrouping, Progress, RegroupBatch, Regrouping, Regroupings, Stage};
use crate::seam::{Backend, Conn, Lane, Row, Sql, Tx, Value, View, binds, sql};
use settle::{Pointers, Turn, merge_emptied, settle};

#[async_trait]
impl<S: Backend> Regroupings for S {
    async fn regrouping(&self, revision: String, at: Time) -> Result<Regrouping, StoreError> {
        let seen = self.regrouped().await?;
        // Asked every few seconds: only setting out is worth a write.
        if *seen.towards.as_ref().unwrap_or(&seen.reached) == revision {
            return Ok(seen);
        }
        self.write(Lane::Alone(1), (revision, at), |tx, (revision, at)| Box::pin(begin(tx, revision, *at)))
            .await
    }

    async fn regrouped(&self) -> Result<Regrouping, StoreError> {
        self.read(View::Snapshot, (), |conn, ()| Box::pin(seen(conn))).await
    }

    async fn old_groupings(&self, lives: usize) -> Result<Vec<OldGrouping>, StoreError> {
        self.read(View::Snapshot, lives, |conn, lives| Box::pin(old(conn, *lives))).await
    }

    async fn regroup(&self, batch: RegroupBatch) -> Result<Regrouping, StoreError> {
        self.write(Lane::Alone(batch.lives.len()), batch, |tx, batch| Box::pin(regroup(tx, batch))).await
    }
}

const PROGRESS: Sql = sql!("select value from meta where key = 'regrouping'");

pub(crate) async fn progress(conn: &mut impl Conn) -> Result<Progress, StoreError> {
    let text: Option<String> = conn.query_opt(&PROGRESS, &[], |row| row.get("value")).await?;
    text.map_or(Ok(Progress::default()), |text| Progress::parse(&text))
}

const KEEP: Sql = sql!(
    "
insert into meta (key, value)
values ('regrouping', $1)
on conflict (key) do update set value = excluded.value"
);

pub(crate) async fn keep(tx: &mut impl Tx, progress: &Progress) -> Result<(), StoreError> {
    tx.execute(&KEEP, binds![json(progress)?]).await?;
    Ok(())
}

const LAST_LIFE: Sql = sql!(
    "
{sqlite select coalesce(max(rowid), 0) as last from lives}{postgres select lives as last from positions}"
);

/// The place of the last life in the order of capture.
pub(crate) async fn last_life(conn: &mut impl Conn) -> Result<i64, StoreError> {
    conn.query_one(&LAST_LIFE, &[], |row| row.get("last")).await
}

async fn report(conn: &mut impl Conn, progress: Progress) -> Result<Regrouping, StoreError> {
    let total = last_life(conn).await?.max(0) as u64;
    Ok(Regrouping { reached: progress.reached, towards: progress.towards, done: progress.done, total })
}

/// Says how far it has come, and sets out for a revision that is neither reached nor on its way.
async fn begin(tx: &mut impl Tx, revision: &str, at: Time) -> Result<Regrouping, StoreError> {
    let mut progress = progress(tx).await?;
    let aim = progress.towards.as_ref().unwrap_or(&progress.reached);
    if aim != revision {
        progress = progress.set_out(revision, last_life(tx).await?, at);
        keep(tx, &progress).await?;
    }
    report(tx, progress).await
}

/// How far it has come, without setting out. Asked within a snapshot.
async fn seen(conn: &mut impl Conn) -> Result<Regrouping, StoreError> {
    let progress = progress(conn).await?;
    report(conn, progress).await
}

/// Lives, `v`, that are still their letters' present ones, `l`, by their places, `p.position`. On PostgreSQL `offset` keeps
/// the tables from being read whole to be joined: each life is one row of them.
macro_rules! of_present_lives {
    ($columns:literal, $more:literal) => {
        sql!(concat!(
            "
select ",
            $columns,
            "
  from {postgres life_positions p
 cross join lateral (select captured_at, class, fingerprint, fatal
                       from lives
                      where letter = p.letter
                        and life = p.life
                     offset 0) v
 cross join lateral (select source, queue, type, tenant, error_type, class, fingerprint, aggregate, status
                       from dead_letter_queue
                      where id = p.letter
                        and created_at = uuid_time(p.letter)
                        and life = p.life
                     offset 0) l}{sqlite lives v
  join dead_letter_queue l on l.letter = v.letter and l.life = v.life}",
            $more
        ))
    };
}

const NEXT_LIVES: Sql = of_present_lives!(
    "{postgres p.position}{sqlite v.rowid as position}, l.source, l.queue, l.type, l.tenant, v.fingerprint, a.error_type,
       a.error_code, a.message, a.detail",
    "{postgres 
 cross join lateral (select error_type, error_code, message, detail
                       from attempts
                      where letter = p.letter
                        and ordinal = v.fatal
                     offset 0) a
 where p.position > $1
   and p.position <= $2
 order by p.position}{sqlite 
  join attempts a on a.letter = v.letter and a.ordinal = v.fatal
 where v.rowid > $1
   and v.rowid <= $2
 order by v.rowid}
 limit $3"
);

/// The next lives of the regrouping that is on its way. Asked within a snapshot.
async fn old(conn: &mut impl Conn, lives: usize) -> Result<Vec<OldGrouping>, StoreError> {
    let progress = progress(conn).await?;
    if progress.towards.is_none() {
        return Ok(Vec::new());
    }
    conn.query(&NEXT_LIVES, binds![progress.position, progress.bound, lives], read_old).await
}

fn read_old(row: &Row<'_>) -> Result<OldGrouping, StoreError> {
    let detail: Option<Vec<u8>> = row.get("detail")?;
    let (error_type, code, message) = (row.get("error_type")?, row.get("error_code")?, row.get("message")?);
    let (error, _) = open_error(error_type, code, message, detail.as_deref())?;
    Ok(OldGrouping {
        position: row.get("position")?,
        source: row.get("source")?,
        queue: row.get("queue")?,
        letter_type: row.get("type")?,
        tenant: row.get("tenant")?,
        fingerprint: Fingerprint::stored(row.get("fingerprint")?),
        error,
    })
}

async fn regroup(tx: &mut impl Tx, batch: &RegroupBatch) -> Result<Regrouping, StoreError> {
    let mut progress = progress(tx).await?;
    // The rules may have changed again while this batch was worked out.
    if progress.towards.as_deref() != Some(batch.revision.as_str()) {
        return report(tx, progress).await;
    }
    let marks = progress.marks(&batch.revision);
    let turn = Turn { marks: &marks, begun_at: Time::from_ms(progress.begun_at), at: batch.at };
    regroup_lives(tx, batch, turn).await?;
    progress.done += batch.looked_at;
    match (batch.up_to, progress.stage) {
        (Some(position), _) => progress.position = position,
        (None, Stage::Lives) => {
            progress.stage = Stage::Stragglers;
            progress.bound = last_life(tx).await?;
        }
        (None, Stage::Stragglers) => progress.stage = Stage::Emptied,
        (None, Stage::Emptied) => {
            if merge_emptied(tx, &marks, batch.at).await? == 0 {
                progress = progress.arrive(&batch.revision);
            }
        }
    }
    keep(tx, &progress).await?;
    report(tx, progress).await
}

/// Settles each pair of fingerprints once, then moves the lives. Neither looks at what the other writes.
async fn regroup_lives(tx: &mut impl Tx, batch: &RegroupBatch, turn: Turn<'_>) -> Result<(), StoreError> {
    if batch.lives.is_empty() {
        return Ok(());
    }
    let mut found = find_lives(tx, &batch.lives).await?;
    let mut pointers = Pointers::of(tx, &batch.lives, turn).await?;
    let mut settled: HashSet<(&str, &str)> = HashSet::new();
    let mut moves: Vec<(Moved, &str)> = Vec::new();
    for life in &batch.lives {
        let (old, new) = (life.old.as_str(), life.grouping.fingerprint.as_str());
        let Some(moved) = found.remove(&life.position).filter(|moved| moved.fingerprint == old) else {
            continue;
        };
        if settled.insert((old, new)) {
            settle(tx, &mut pointers, &moved, life).await?;
        }
        if old != new {
            moves.push((moved, new));
        }
    }
    pointers.keep(tx).await?;
    move_lives(tx, moves, batch.at).await
}

/// A life that may move.
struct Moved {
    position: i64,
    letter: LetterId,
    life: u32,
    captured_at: Time,
    class: ErrorClass,
    fingerprint: String,
    counted: Counted,
}

const FIND_LIVES: Sql = of_present_lives!(
    "{postgres p.position, p.letter, p.life}{sqlite v.rowid as position, l.id as letter, v.life}, v.captured_at,
       v.class as class_then, v.fingerprint as fingerprint_then, l.source, l.queue, l.type, l.error_type, l.class,
       l.fingerprint, l.aggregate, l.status",
    "
 where {postgres p.position}{sqlite v.rowid} {any $1}"
);

/// Those of the lives that are still their letters' present ones, by their positions.
async fn find_lives(conn: &mut impl Conn, lives: &[NewGrouping]) -> Result<HashMap<i64, Moved>, StoreError> {
    let positions: Vec<i64> = lives.iter().map(|life| life.position).collect();
    let read = |row: &Row<'_>| {
        let position = row.get("position")?;
        let moved = Moved {
            position,
            letter: row.get("letter")?,
            life: row.get("life")?,
            captured_at: row.get("captured_at")?,
            class: row.get("class_then")?,
            fingerprint: row.get("fingerprint_then")?,
            counted: Counted::read(row)?,
        };
        Ok((position, moved))
    };
    Ok(conn.query(&FIND_LIVES, binds![positions], read).await?.into_iter().collect())
}

const MOVE_LIVES: Sql = sql!(
    "
update lives{postgres  v
   set fingerprint = m.fingerprint
  from unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[]) as m (letter, life, fingerprint, position)
 where v.letter = m.letter
   and v.life = m.life}{sqlite 
   set fingerprint = $3
 where rowid = $4}"
);

/// Their times name the months that need not be read; asked for by a list, they are found by their ids whatever else
/// the server thinks of the list.
const MOVE_LETTERS: Sql = sql!(
    "
update dead_letter_queue{postgres  l
   set fingerprint = m.fingerprint
  from unnest($1::uuid[], $2::text[]) as m (id, fingerprint)
 where l.id = m.id
   and l.id = any($1)
   and l.created_at between ($3::timestamptz[])[1] and ($4::timestamptz[])[1]}{sqlite 
   set fingerprint = $2
 where id = $1
   and $3 <= $4}"
);

async fn move_lives(tx: &mut impl Tx, moves: Vec<(Moved, &str)>, at: Time) -> Result<(), StoreError> {
    let times = || moves.iter().map(|(moved, _)| moved.letter.at());
    let (Some(from), Some(to)) = (times().min(), times().max()) else { return Ok(()) };
    let lives: Vec<Vec<Value<'_>>> = moves
        .iter()
        .map(|(moved, new)| {
            vec![
                Value::from(moved.letter),
                Value::from(moved.life),
                Value::from(*new),
                Value::from(moved.position),
            ]
        })
        .collect();
    let letters: Vec<Vec<Value<'_>>> = moves
        .iter()
        .map(|(moved, new)| {
            vec![Value::from(moved.letter), Value::from(*new), Value::from(from), Value::from(to)]
        })
        .collect();
    tx.execute_rows(&MOVE_LIVES, &lives).await?;
    tx.execute_rows(&MOVE_LETTERS, &letters).await?;
    for (moved, new) in &moves {
        tx.count_regrouped(&moved.counted, &moved.fingerprint, new, moved.captured_at, at);
    }
    Ok(())
}
