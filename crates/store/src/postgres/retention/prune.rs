//! Letters that limits push out: who may go, and taking them away.
//!
//! Nobody waits for a prune but whoever is told of one of its letters, and it waits for nobody: what somebody else holds
//! is left for the next time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::lifecycle::{Action, Place, Standing};
use lazaret_core::limits;
use lazaret_core::retention::PruningPolicy;
use lazaret_core::time::Time;

use super::super::audit::{self, NewEntry};
use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::counters::Counted;
use super::super::events::{self, NewEvent};
use super::super::jobs::follow::lock_free_jobs;
use super::super::rows;
use super::super::trash::{Leaving, Outlet, Removal, take_away};
use super::super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::failure::FailurePoint;
use crate::moves::Move;
use crate::retention::{
    Prunable, PrunableKey, PrunableQuery, PruneBatch, PruneLetter, Pruned, PrunedQueue, QueueStanding,
};

/// Those that are free are read off their index alone; of the others there are few.
const QUEUE_STANDINGS: &str = "
select source, queue, status, sum(letters)::bigint, sum(held)::bigint, min(oldest_at)
  from (select source, queue, status, count(*) as letters, 0::bigint as held, min(retention_at) as oldest_at
          from dead_letter_queue
         where held_at is null
         group by source, queue, status
         union all
        select source, queue, status, count(*), count(*), null
          from dead_letter_queue
         where held_at is not null
         group by source, queue, status) as counted
 group by source, queue, status
 order by source, queue, status";

pub(super) async fn queue_standings(conn: &Conn) -> Result<Vec<QueueStanding>, StoreError> {
    let mut standings = Vec::new();
    for row in conn.query(QUEUE_STANDINGS, &[]).await? {
        standings.push(QueueStanding {
            source: row.cell(0)?,
            queue: row.cell(1)?,
            status: rows::status(row.cell(2)?)?,
            letters: row.count(3)?,
            held: row.count(4)?,
            oldest_at: row.time_opt(5)?,
        });
    }
    Ok(standings)
}

/// A list `r` of letters that somebody planned to put back, or is putting back.
const UNFINISHED: &str = "
(r.launched_at is not null and r.finished_at is null and (r.kind <> 'single' or r.plan is not null)
 or r.state in ('planning', 'planned'))";

/// What has to hold of a letter `d` that may go.
const MAY_GO: &str = "
d.status = $3
and d.held_at is null
and d.retention_at <= $4
and (d.retention_at, d.id) > ($5, $6)";

/// The first of each queue, by its index, and of these the first. `offset` keeps the lists of redrives from being read
/// whole to be joined.
fn from_queues(planned: &str) -> String {
    format!(
        "select d.id, d.created_at, d.died_at, d.retention_at, d.source, d.queue, d.type, d.life
           from unnest($1::text[], $2::text[]) as q (source, queue)
          cross join lateral (select d.id, d.created_at, d.died_at, d.retention_at, d.source, d.queue, d.type, d.life
                                from dead_letter_queue d
                               where d.source = q.source
                                 and d.queue = q.queue
                                 and {MAY_GO} {planned}
                               order by d.retention_at, d.id
                               limit $7) d
          order by d.retention_at, d.id
          limit $7"
    )
}

fn unplanned() -> String {
    format!(
        "and not exists (select 1
                           from redrive_letters w
                           join redrives r on r.id = w.redrive
                          where w.letter = d.id
                            and w.outcome = 'waiting'
                            and {UNFINISHED}
                         offset 0)"
    )
}

/// Those that stand in a plan are found by the plan: there are far fewer of them than letters.
fn from_plans() -> String {
    format!(
        "select d.id, d.created_at, d.died_at, d.retention_at, d.source, d.queue, d.type, d.life
           from (select distinct w.letter
                   from redrives r
                   join redrive_letters w on w.redrive = r.id and w.outcome = 'waiting'
                  where {UNFINISHED}) p
          cross join lateral (select d.id, d.created_at, d.died_at, d.retention_at, d.source, d.queue, d.type, d.life
                                from dead_letter_queue d
                               where d.id = p.letter
                                 and d.created_at = uuid_time(p.letter)
                                 and {MAY_GO}
                              offset 0) d
          where (d.source, d.queue) in (select source, queue from unnest($1::text[], $2::text[]) as q (source, queue))
          order by d.retention_at, d.id
          limit $7"
    )
}

fn prunable_sql(planned: Option<bool>) -> String {
    let first = match planned {
        None => from_queues(""),
        Some(false) => from_queues(&unplanned()),
        Some(true) => from_plans(),
    };
    format!(
        "select l.id, l.retention_at, l.source, l.queue, l.type, greatest(l.created_at, l.died_at, v.captured_at)
           from ({first}) l
           left join lives v on v.letter = l.id and v.life = l.life
          order by l.retention_at, l.id"
    )
}

pub(super) async fn prunable(conn: &Conn, query: &PrunableQuery) -> Result<Vec<Prunable>, StoreError> {
    let queues: BTreeSet<(&str, &str)> = query
        .queues
        .iter()
        .map(|(source, queue)| (source.as_str(), queue.as_str()))
        // No queue has a NUL in its name, and none can be bound.
        .filter(|(source, queue)| !source.contains('\0') && !queue.contains('\0'))
        .collect();
    let (sources, queues): (Vec<&str>, Vec<&str>) = queues.into_iter().unzip();
    let (at, id) = query
        .after
        .map_or((Time::from_ms(i64::MIN), [0; 16]), |last| (last.retention_at, *last.letter.bytes()));
    let binds = (query.status.name(), At(query.until), At(at), Uid(id), query.limit as i64);
    let found = conn
        .query(
            &prunable_sql(query.planned),
            &[&sources, &queues, &binds.0, &binds.1, &binds.2, &binds.3, &binds.4],
        )
        .await?;
    let mut prunable = Vec::with_capacity(found.len());
    for row in &found {
        prunable.push(Prunable {
            key: PrunableKey { retention_at: row.time(1)?, letter: LetterId::from_bytes(row.id(0)?) },
            source: row.cell(2)?,
            queue: row.cell(3)?,
            letter_type: row.cell(4)?,
            since: row.time(5)?,
        });
    }
    Ok(prunable)
}

/// Letters that are taken away at once, before it is asked how long it took.
const AT_ONCE: usize = 25;

const BYTES: &str = "
select letter, sum(body_bytes)::bigint
  from lives
 where letter = any($1)
 group by letter";

/// Takes letters away, as many as the time allows; of large ones only a few.
pub(super) async fn prune(write: &mut Write, batch: &PruneBatch) -> Result<Pruned, StoreError> {
    // What is out there is never taken away, and nothing else asks for it.
    if Standing::live(batch.status).after(Action::Prune).is_err() {
        return Ok(Pruned { queues: Vec::new(), looked_at: batch.letters.len() });
    }
    let until = Instant::now() + Duration::from_millis(limits::PRUNE_MS_MAX);
    let mut bytes: HashMap<LetterId, usize> = HashMap::new();
    for row in write.conn.query(BYTES, &[&uids(&batch.letters)]).await? {
        bytes.insert(LetterId::from_bytes(row.id(0)?), row.count(1)? as usize);
    }
    let (mut gone, mut moved) = (Gone::default(), 0);
    let mut left = batch.letters.as_slice();
    while !left.is_empty() {
        let enough = moved >= limits::CONTENT_BYTES_DROPPED_PER_WRITE || Instant::now() > until;
        if enough && left.len() < batch.letters.len() {
            break;
        }
        let (chunk, rest) = left.split_at(fitting(left, &bytes));
        prune_at_once(write, batch, chunk, &mut gone).await?;
        write.failures.at(FailurePoint::Prune)?;
        moved += chunk.iter().filter_map(|one| bytes.get(&one.letter)).sum::<usize>();
        left = rest;
    }
    let looked_at = batch.letters.len() - left.len();
    Ok(Pruned { queues: gone.tell(write, batch)?, looked_at })
}

fn uids(letters: &[PruneLetter]) -> Vec<Uid> {
    letters.iter().map(|one| Uid(*one.letter.bytes())).collect()
}

/// How many of the letters are taken away at once: of large ones only a few.
fn fitting(letters: &[PruneLetter], bytes: &HashMap<LetterId, usize>) -> usize {
    let mut sum = 0;
    let fits = |one: &&PruneLetter| {
        sum += bytes.get(&one.letter).copied().unwrap_or(0);
        sum <= limits::CONTENT_BYTES_DROPPED_PER_WRITE
    };
    letters.iter().take(AT_ONCE).take_while(fits).count().max(1)
}

const FREE_KEYS: &str = "
select id
  from letter_keys
 where id = any($1)
   and place = $2
 order by key, generation
   for no key update skip locked";

/// The statement asks for everything that may have changed since the letter was looked at.
const HOLD_FREE: &str = "
select l.id, greatest(l.created_at, l.died_at, v.captured_at)
  from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) as m (letter, begun_at, retention_at)
  join dead_letter_queue l on l.id = m.letter and l.created_at = m.begun_at
  left join lives v on v.letter = l.id and v.life = l.life
 where l.status = $4
   and l.held_at is null
   and l.retention_at = m.retention_at
 order by l.id
   for update of l skip locked";

async fn prune_at_once(
    write: &mut Write,
    batch: &PruneBatch,
    letters: &[PruneLetter],
    gone: &mut Gone,
) -> Result<(), StoreError> {
    let free = write.conn.query(FREE_KEYS, &[&uids(letters), &Place::Live.name()]).await?;
    let free: HashSet<[u8; 16]> = free.iter().map(|row| row.id(0)).collect::<Result<_, _>>()?;
    let free: Vec<LetterId> =
        letters.iter().map(|one| one.letter).filter(|id| free.contains(id.bytes())).collect();
    let (ids, jobs) = lock_free_jobs(write, &free).await?;
    if ids.is_empty() {
        return Ok(());
    }
    let free: Vec<&PruneLetter> = letters.iter().filter(|one| ids.contains(&one.letter)).collect();
    let uids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    let begun_at: Vec<At> = ids.iter().map(|id| At(id.at())).collect();
    let retention_at: Vec<At> = free.iter().map(|one| At(one.retention_at)).collect();
    let status = batch.status.name();
    let mut since: HashMap<LetterId, Time> = HashMap::new();
    for row in write.conn.query(HOLD_FREE, &[&uids, &begun_at, &retention_at, &status]).await? {
        since.insert(LetterId::from_bytes(row.id(0)?), row.time(1)?);
    }
    let leaving: Vec<Leaving> = free
        .iter()
        .filter_map(|one| {
            // Taken out, because one that is asked for twice goes once.
            let outlet = outlet(one, since.remove(&one.letter)?, batch.at);
            Some(Leaving { letter: one.letter, status: batch.status, outlet })
        })
        .collect();
    let of_jobs: Vec<JobId> = leaving.iter().filter_map(|one| jobs.get(&one.letter).copied()).collect();
    let reason = batch.limit.name();
    let removal = Removal { by: LAZARET, at: batch.at, reason, removal: "pruned" };
    let removed = take_away(write, &leaving, &of_jobs, &removal).await?;
    let outlets: HashMap<LetterId, Outlet> = leaving.iter().map(|one| (one.letter, one.outlet)).collect();
    for (letter, counted) in removed {
        gone.add(write, outlets.get(&letter).copied().unwrap_or(Outlet::Gone), counted);
    }
    Ok(())
}

/// Inside the floor nothing is destroyed, whatever the policy says.
fn outlet(one: &PruneLetter, since: Time, at: Time) -> Outlet {
    match one.policy {
        PruningPolicy::Delete if since.plus_ms(one.min_age.ms()) <= at => Outlet::Gone,
        PruningPolicy::Delete | PruningPolicy::Archive => Outlet::Archived,
    }
}

/// What a commit took away, by source and queue.
#[derive(Default)]
struct Gone(BTreeMap<(String, String), (u64, u64)>);

/// Who prunes.
const LAZARET: &str = "lazaret";

const PRUNED: &str = "dead_letter.pruned";

impl Gone {
    fn add(&mut self, write: &mut Write, outlet: Outlet, counted: Counted) {
        let Counted { source, queue, letter_type, .. } = counted;
        let (archived, deleted) = self.0.entry((source.clone(), queue.clone())).or_default();
        match outlet {
            Outlet::Archived | Outlet::Deleted => *archived += 1,
            Outlet::Gone => *deleted += 1,
        }
        write.tally.note(Move { kind: PRUNED, source, queue, letter_type, rule: String::new() });
    }

    /// Tells of it, once for each queue: there may be a hundred thousand letters.
    fn tell(self, write: &mut Write, batch: &PruneBatch) -> Result<Vec<PrunedQueue>, StoreError> {
        let reason = batch.limit.name();
        let actor = Actor { name: LAZARET.into(), role: "system".into(), request: None };
        let mut queues = Vec::with_capacity(self.0.len());
        for ((source, queue), (archived, deleted)) in self.0 {
            let detail = serde_json::json!({
                "source": source,
                "queue": queue,
                "reason": reason,
                "archived": archived,
                "deleted": deleted,
            });
            let event = NewEvent {
                at: batch.at,
                kind: PRUNED,
                actor: Some(LAZARET),
                detail: Some(detail.to_string()),
                ..NewEvent::default()
            };
            events::add(write, &event)?;
            let of = Filter {
                source: Patterns::only(&source),
                queue: Patterns::only(&queue),
                ..Filter::default()
            };
            let entry = NewEntry {
                filter: Some(&of.to_string()),
                count: archived + deleted,
                reason: Some(reason),
                ..NewEntry::new(&actor, Action::Prune.name(), batch.at)
            };
            audit::add(write, &entry)?;
            queues.push(PrunedQueue { source, queue, archived, deleted });
        }
        Ok(queues)
    }
}
