//! Regrouping: lives get the fingerprints of new rules, batch by batch, and incidents keep their ids.
//!
//! Letters move by their present life; earlier lives stay as they were judged. Every batch is written while nobody else
//! writes, in any instance, so what it has looked at stays so until its commit. It asks for all of its lives at once
//! and moves them at once: the others wait.

mod settle;

use std::collections::{HashMap, HashSet};

use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::id::LetterId;
use lazaret_core::time::Time;

use super::cell::{At, Cells, Uid};
use super::conn::Conn;
use super::counters::Counted;
use super::rows;
use super::writer::Write;
use crate::StoreError;
use crate::packing::{json, open_error};
use crate::regroup::{NewGrouping, OldGrouping, Progress, RegroupBatch, Regrouping, Stage};
use settle::{Pointers, Turn, merge_emptied, settle};

const PROGRESS: &str = "select value from meta where key = 'regrouping'";

async fn progress(conn: &Conn) -> Result<Progress, StoreError> {
    let Some(row) = conn.query_opt(PROGRESS, &[]).await? else { return Ok(Progress::default()) };
    serde_json::from_str(row.cell(0)?)
        .map_err(|error| StoreError::Corrupt(format!("the state of regrouping cannot be read: {error}")))
}

/// The revision of the rules that all fingerprints are by, if no other one is on its way.
pub(super) async fn settled_revision(conn: &Conn) -> Result<Option<String>, StoreError> {
    let progress = progress(conn).await?;
    Ok(if progress.towards.is_none() { Some(progress.reached) } else { None })
}

/// Sees to it that lives are regrouped that come back from the trash: the rules may have changed while they were away,
/// and a regrouping that is on its way may have passed them by. Their places are given at the commit, behind all that
/// are there now. So the work goes back to its first stage, which ends with a look at how many there are then.
pub(super) async fn catch_up(write: &Write, grouped_by: Option<&str>, at: Time) -> Result<(), StoreError> {
    // Nobody regroups meanwhile, but another letter may come back in another instance.
    write.conn.query_opt("select 1 from meta where key = 'regrouping' for no key update", &[]).await?;
    let mut progress = progress(&write.conn).await?;
    match (&progress.towards, progress.stage) {
        (None, _) if grouped_by == Some(progress.reached.as_str()) => return Ok(()),
        // All that is there at its end is looked at.
        (Some(_), Stage::Lives) => return Ok(()),
        (Some(_), Stage::Stragglers) => {}
        (None, _) | (Some(_), Stage::Emptied) => {
            if progress.towards.is_none() {
                progress.towards = Some(progress.reached.clone());
                progress.begun_at = at.ms();
            }
            progress.position = last_life(&write.conn).await?;
            progress.bound = progress.position;
        }
    }
    progress.stage = Stage::Lives;
    keep(write, &progress).await
}

const KEEP: &str = "
insert into meta (key, value)
values ('regrouping', $1)
on conflict (key) do update set value = excluded.value";

async fn keep(write: &Write, progress: &Progress) -> Result<(), StoreError> {
    write.conn.execute(KEEP, &[&json(progress)?]).await?;
    Ok(())
}

async fn last_life(conn: &Conn) -> Result<i64, StoreError> {
    conn.query_one("select lives from positions", &[]).await?.cell(0)
}

async fn report(conn: &Conn, progress: Progress) -> Result<Regrouping, StoreError> {
    let total = last_life(conn).await?.max(0) as u64;
    Ok(Regrouping { reached: progress.reached, towards: progress.towards, done: progress.done, total })
}

/// Says how far it has come, and sets out for a revision that is neither reached nor on its way.
pub(super) async fn begin(write: &mut Write, revision: &str, at: Time) -> Result<Regrouping, StoreError> {
    let mut progress = progress(&write.conn).await?;
    let aim = progress.towards.as_ref().unwrap_or(&progress.reached);
    if aim != revision {
        progress = progress.set_out(revision, last_life(&write.conn).await?, at);
        keep(write, &progress).await?;
    }
    report(&write.conn, progress).await
}

/// How far it has come, without setting out. Asked within a snapshot.
pub(super) async fn seen(conn: &Conn) -> Result<Regrouping, StoreError> {
    report(conn, progress(conn).await?).await
}

/// Lives by their positions, `v`, that are still their letters' present ones, `l`. `offset` keeps the tables from being
/// read whole to be joined: each life is one row of them.
const PRESENT_LIVES: &str = "
  from life_positions p
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
                     offset 0) l";

fn next_lives() -> String {
    format!(
        "select p.position, l.source, l.queue, l.type, l.tenant, v.fingerprint, a.error_type, a.error_code, a.message,
                a.detail
         {PRESENT_LIVES}
          cross join lateral (select error_type, error_code, message, detail
                                from attempts
                               where letter = p.letter
                                 and ordinal = v.fatal
                              offset 0) a
          where p.position > $1
            and p.position <= $2
          order by p.position
          limit $3"
    )
}

/// Asked within a snapshot.
pub(super) async fn old(conn: &Conn, lives: usize) -> Result<Vec<OldGrouping>, StoreError> {
    let progress = progress(conn).await?;
    if progress.towards.is_none() {
        return Ok(Vec::new());
    }
    let mut old = Vec::new();
    for row in conn.query(&next_lives(), &[&progress.position, &progress.bound, &(lives as i64)]).await? {
        let (error, _) = open_error(row.cell(6)?, row.cell(7)?, row.cell(8)?, row.cell(9)?)?;
        old.push(OldGrouping {
            position: row.cell(0)?,
            source: row.cell(1)?,
            queue: row.cell(2)?,
            letter_type: row.cell(3)?,
            tenant: row.cell(4)?,
            fingerprint: Fingerprint::stored(row.cell(5)?),
            error,
        });
    }
    Ok(old)
}

pub(super) async fn regroup(write: &mut Write, batch: &RegroupBatch) -> Result<Regrouping, StoreError> {
    let mut progress = progress(&write.conn).await?;
    // The rules may have changed again while this batch was worked out.
    if progress.towards.as_deref() != Some(batch.revision.as_str()) {
        return report(&write.conn, progress).await;
    }
    let marks = progress.marks(&batch.revision);
    let turn = Turn { marks: &marks, begun_at: Time::from_ms(progress.begun_at), at: batch.at };
    regroup_lives(write, batch, turn).await?;
    progress.done += batch.looked_at;
    match (batch.up_to, progress.stage) {
        (Some(position), _) => progress.position = position,
        (None, Stage::Lives) => {
            progress.stage = Stage::Stragglers;
            progress.bound = last_life(&write.conn).await?;
        }
        (None, Stage::Stragglers) => progress.stage = Stage::Emptied,
        (None, Stage::Emptied) => {
            if merge_emptied(write, &marks, batch.at).await? == 0 {
                progress = progress.arrive(&batch.revision);
            }
        }
    }
    keep(write, &progress).await?;
    report(&write.conn, progress).await
}

/// Settles each pair of fingerprints once, then moves the lives. Neither looks at what the other writes.
async fn regroup_lives(write: &mut Write, batch: &RegroupBatch, turn: Turn<'_>) -> Result<(), StoreError> {
    if batch.lives.is_empty() {
        return Ok(());
    }
    let mut found = find_lives(&write.conn, &batch.lives).await?;
    let mut pointers = Pointers::of(&write.conn, &batch.lives, turn).await?;
    let mut settled: HashSet<(&str, &str)> = HashSet::new();
    let mut moves: Vec<(Moved, &str)> = Vec::new();
    for life in &batch.lives {
        let (old, new) = (life.old.as_str(), life.grouping.fingerprint.as_str());
        let Some(moved) = found.remove(&life.position).filter(|moved| moved.fingerprint == old) else {
            continue;
        };
        if settled.insert((old, new)) {
            settle(write, &mut pointers, &moved, life).await?;
        }
        if old != new {
            moves.push((moved, new));
        }
    }
    pointers.keep(&write.conn).await?;
    move_lives(write, moves, batch.at).await
}

/// A life that may move.
struct Moved {
    letter: LetterId,
    life: i32,
    captured_at: Time,
    class: ErrorClass,
    fingerprint: String,
    counted: Counted,
}

/// Those of the lives that are still their letters' present ones, by their positions.
async fn find_lives(conn: &Conn, lives: &[NewGrouping]) -> Result<HashMap<i64, Moved>, StoreError> {
    let columns: Vec<String> =
        rows::COUNTED_COLUMNS.split(", ").map(|column| format!("l.{column}")).collect();
    let sql = format!(
        "select p.position, p.letter, p.life, v.captured_at, v.class, v.fingerprint, {}
         {PRESENT_LIVES}
          where p.position = any($1)",
        columns.join(", ")
    );
    let positions: Vec<i64> = lives.iter().map(|life| life.position).collect();
    let mut found = HashMap::with_capacity(lives.len());
    for row in conn.query(&sql, &[&positions]).await? {
        let moved = Moved {
            letter: LetterId::from_bytes(row.id(1)?),
            life: row.cell(2)?,
            captured_at: row.time(3)?,
            class: rows::class(row.cell(4)?)?,
            fingerprint: row.cell(5)?,
            counted: rows::counted(&row, 6)?,
        };
        found.insert(row.cell(0)?, moved);
    }
    Ok(found)
}

const MOVE_LIVES: &str = "
update lives v
   set fingerprint = m.fingerprint
  from unnest($1::uuid[], $2::integer[], $3::text[]) as m (letter, life, fingerprint)
 where v.letter = m.letter
   and v.life = m.life";

/// Their times name the months that need not be read; asked for by a list, they are found by their ids whatever else
/// the server thinks of the list.
const MOVE_LETTERS: &str = "
update dead_letter_queue l
   set fingerprint = m.fingerprint
  from unnest($1::uuid[], $2::text[]) as m (id, fingerprint)
 where l.id = m.id
   and l.id = any($1)
   and l.created_at between $3 and $4";

async fn move_lives(write: &mut Write, moves: Vec<(Moved, &str)>, at: Time) -> Result<(), StoreError> {
    let times = || moves.iter().map(|(moved, _)| At(moved.letter.at()));
    let (Some(from), Some(to)) = (times().min(), times().max()) else { return Ok(()) };
    let letters: Vec<Uid> = moves.iter().map(|(moved, _)| Uid(*moved.letter.bytes())).collect();
    let lives: Vec<i32> = moves.iter().map(|(moved, _)| moved.life).collect();
    let fingerprints: Vec<&str> = moves.iter().map(|(_, new)| *new).collect();
    write.conn.execute(MOVE_LIVES, &[&letters, &lives, &fingerprints]).await?;
    write.conn.execute(MOVE_LETTERS, &[&letters, &fingerprints, &from, &to]).await?;
    let tally = &mut write.tally;
    for (moved, new) in moves {
        tally.reflow(moved.captured_at.minute(), &moved.fingerprint, new);
        tally.vanish(&moved.counted);
        tally.appear(&Counted { fingerprint: new.to_owned(), ..moved.counted });
        tally.see(new, moved.captured_at);
        tally.at(at);
    }
    Ok(())
}
