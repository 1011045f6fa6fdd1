//! Putting letters back by a rule.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lazaret_core::gate::pass_rule;
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use serde_json::json;

use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::decision::Decided;
use crate::engine::incidents::letter_causes;
use crate::event::NewEvent;
use crate::job::SOURCE;
use crate::moves::Move;
use crate::replay::{Replay, Replayed};
use crate::seam::{Conn, Row, Sql, Tx, Value, binds, sql};

/// Puts the first of these letters back, each by itself, as many as one write may take time for; one audit entry tells of
/// all that were.
pub(super) async fn replay(
    tx: &mut impl Tx,
    replay: &Replay,
    letters: &[(LetterId, u32)],
) -> Result<Vec<Replayed>, StoreError> {
    let ids: Vec<LetterId> = letters.iter().map(|(letter, _)| *letter).collect();
    let mut found = lock_found(tx, &ids).await?;
    let counts = counts(tx, &ids, &replay.rule).await?;
    let causes = letter_causes(tx, &ids).await?;
    let gate = |letter: &LetterId| pass_rule(replay.category, causes.get(letter)?.cause).err();
    let until = Instant::now() + Duration::from_millis(limits::DECISION_MS_MAX);
    let mut outcomes = Vec::with_capacity(letters.len());
    let mut done: Vec<LetterId> = Vec::new();
    for (letter, life) in letters {
        // The arguments of jobs may be large.
        if !outcomes.is_empty() && Instant::now() > until {
            break;
        }
        let before = counts.get(letter).copied().unwrap_or_default();
        let outcome = match found.get(letter).filter(|found| found.life == *life && found.is_pending) {
            None => Replayed::Moved,
            Some(_) if before.by_rule >= u64::from(replay.max_replays) => Replayed::Spent,
            Some(found) => match gate(letter) {
                Some(shut) => Replayed::Shut(shut),
                None => replay_one(tx, replay, *letter, found, before.in_all + 1).await?,
            },
        };
        if outcome == Replayed::Done {
            found.remove(letter);
            done.push(*letter);
        }
        outcomes.push(outcome);
    }
    if !done.is_empty() {
        count(tx, replay, &done).await?;
        let actor = Actor { name: format!("rule:{}", replay.rule), role: "system".into(), request: None };
        let count = done.len() as u64;
        let redrive = tx.record_replays(&replay.rule, done, &actor, replay.at).await?;
        let entry = NewEntry::new(&actor, "replay", replay.at);
        tx.add_audit(&NewEntry { redrive: Some(redrive), count, ..entry })?;
    }
    Ok(outcomes)
}

/// A letter as it is found.
struct Found {
    life: u32,
    is_pending: bool,
    names_a_job: bool,
    queue: String,
    letter_type: String,
}

/// In the order of ids, so that two instances that replay the same letters cannot deadlock.
const LOCK_FOUND: Sql = sql!(
    "
select l.id, l.life, l.status, l.source, l.event_id, l.queue, l.type
  from {postgres unnest($1::uuid[]) as m (letter)
  join dead_letter_queue l on l.id = m.letter and l.created_at = uuid_time(m.letter)}{sqlite dead_letter_queue l
 where l.id {any $1}}
 order by l.id
{postgres    for no key update of l}"
);

/// Locks letters and their jobs until the commit. Jobs come before letters, as in every change of a job.
async fn lock_found(tx: &mut impl Tx, letters: &[LetterId]) -> Result<HashMap<LetterId, Found>, StoreError> {
    tx.lock_jobs_of(letters).await?;
    let read = |row: &Row<'_>| {
        let letter = row.get("id")?;
        let (life, status): (u32, Status) = (row.get("life")?, row.get("status")?);
        let (source, event): (String, String) = (row.get("source")?, row.get("event_id")?);
        let found = Found {
            life,
            is_pending: status == Status::Pending,
            names_a_job: source == SOURCE && JobId::parse(&event).is_ok(),
            queue: row.get("queue")?,
            letter_type: row.get("type")?,
        };
        Ok((letter, found))
    };
    Ok(tx.query(&LOCK_FOUND, binds![letters], read).await?.into_iter().collect())
}

async fn replay_one(
    tx: &mut impl Tx,
    replay: &Replay,
    letter: LetterId,
    found: &Found,
    number: u64,
) -> Result<Replayed, StoreError> {
    if !found.names_a_job {
        return Ok(Replayed::NoWayBack);
    }
    let marks = json!({
        "ojs.replay_count": number,
        "ojs.last_replayed_at": replay.at.to_string(),
        "ojs.replay_rule": replay.rule,
    });
    let with = Override { meta: Some(marks.to_string()), ..Override::default() };
    let (decided, job) = tx.retry_job(letter, &with, replay.at).await?;
    match decided {
        Decided::Done => {}
        Decided::Refused(refused) => return Ok(Replayed::Refused(refused)),
        Decided::Unknown => return Ok(Replayed::Moved),
        Decided::NoWayBack | Decided::Replaced => return Ok(Replayed::NoWayBack),
    }
    let kind = "dead_letter.replayed";
    let detail = json!({ "rule": replay.rule, "replay_count": number }).to_string();
    tx.add_event(&NewEvent {
        at: replay.at,
        kind,
        letter: Some(letter),
        job,
        detail: Some(detail),
        ..NewEvent::default()
    })?;
    tx.note_move(Move {
        kind,
        source: SOURCE.to_owned(),
        queue: found.queue.clone(),
        letter_type: found.letter_type.clone(),
        rule: replay.rule.clone(),
    });
    Ok(Replayed::Done)
}

/// How often a letter was replayed, by one rule and by any.
#[derive(Clone, Copy, Default)]
struct Counts {
    by_rule: u64,
    in_all: u64,
}

const COUNTS: Sql = sql!(
    "
select letter, coalesce(sum(count) filter (where rule = $2), 0){postgres ::bigint} as by_rule,
       sum(count){postgres ::bigint} as in_all
  from replays
 where letter {any $1}
 group by letter"
);

async fn counts(
    conn: &mut impl Conn,
    letters: &[LetterId],
    rule: &str,
) -> Result<HashMap<LetterId, Counts>, StoreError> {
    let read = |row: &Row<'_>| {
        Ok((row.get("letter")?, Counts { by_rule: row.get("by_rule")?, in_all: row.get("in_all")? }))
    };
    Ok(conn.query(&COUNTS, binds![letters, rule], read).await?.into_iter().collect())
}

const COUNT: Sql = sql!(
    "
insert into replays (letter, rule, count, last_at)
{sqlite values ($1, $2, 1, $3)}{postgres select d.letter, d.rule, 1, d.at
  from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as d (letter, rule, at)}
on conflict (letter, rule)
do update set count = replays.count + 1, last_at = excluded.last_at"
);

const COUNT_RULE: Sql = sql!(
    "
insert into replay_rules (rule, replayed, last_at)
values ($1, $2, $3)
on conflict (rule)
do update set replayed = replay_rules.replayed + excluded.replayed, last_at = excluded.last_at"
);

async fn count(tx: &mut impl Tx, replay: &Replay, done: &[LetterId]) -> Result<(), StoreError> {
    let row =
        |letter: &LetterId| vec![Value::from(*letter), Value::from(&replay.rule), Value::from(replay.at)];
    tx.execute_rows(&COUNT, &done.iter().map(row).collect::<Vec<_>>()).await?;
    tx.execute(&COUNT_RULE, binds![&replay.rule, done.len(), replay.at]).await?;
    Ok(())
}
