//! Letters that a limit pushes out: what there is, what may go, and its going.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::{Action, Standing, Status};
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;
use lazaret_core::retention::{Limit, PruningPolicy};
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::super::audit::{self, NewEntry};
use super::super::counters::Counted;
use super::super::events::{self, NewEvent};
use super::super::trash::{self, Outlet, Removal};
use super::super::writer::Write;
use super::super::{numbers, rows};
use crate::StoreError;
use crate::audit::Actor;
use crate::failure::FailurePoint;
use crate::moves::Move;
use crate::retention::{
    Prunable, PrunableKey, PrunableQuery, PruneBatch, PruneLetter, Pruned, PrunedQueue, QueueStanding,
};

/// Letters that are held stand in an index of their own; the others are counted in the one by which they go.
const FREE: &str = "
select source, queue, status, count(*), min(retention_at)
  from dead_letter_queue indexed by letters_by_retention
 where held_at is null
 group by source, queue, status";

const HELD: &str = "
select source, queue, status, count(*)
  from dead_letter_queue indexed by letters_held
 where held_at is not null
 group by source, queue, status";

pub(in crate::sqlite) fn standings(conn: &Connection) -> Result<Vec<QueueStanding>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let mut standings: BTreeMap<(String, String, Status), QueueStanding> = BTreeMap::new();
    for (sql, held) in [(FREE, false), (HELD, true)] {
        let mut statement = conn.prepare_cached(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let (source, queue): (String, String) = (row.get(0)?, row.get(1)?);
            let status = rows::status(&row.get::<_, String>(2)?)?;
            let letters = row.get::<_, i64>(3)? as u64;
            let new = QueueStanding {
                source: source.clone(),
                queue: queue.clone(),
                status,
                letters: 0,
                held: 0,
                oldest_at: None,
            };
            let standing = standings.entry((source, queue, status)).or_insert(new);
            standing.letters += letters;
            if held {
                standing.held = letters;
            } else {
                standing.oldest_at = row.get::<_, Option<i64>>(4)?.map(Time::from_ms);
            }
        }
    }
    drop(snapshot);
    Ok(standings.into_values().collect())
}

/// A list that is not over holds the letter, and has not come to it.
const PLANNED: &str = "
exists (select 1
          from redrive_letters p indexed by redrive_letters_by_letter
          join redrives r on r.id = p.redrive
         where p.letter = l.id
           and p.outcome = ?7
           and r.finished_at is null)";

/// The next of one queue, in the order of going.
fn prunable_sql(planned: Option<bool>) -> String {
    let planned = match planned {
        Some(true) => format!("and {PLANNED}"),
        Some(false) => format!("and not {PLANNED}"),
        None => String::new(),
    };
    format!(
        "select l.retention_at, l.id, l.type, max(l.created_at, l.died_at, v.captured_at)
           from dead_letter_queue l indexed by letters_by_retention
           cross join lives v on v.letter = l.letter and v.life = l.life
          where l.source = ?1
            and l.queue = ?2
            and l.status = ?3
            and l.retention_at <= ?4
            and (l.retention_at, l.id) > (?5, ?6)
            and l.held_at is null {planned}
          order by l.retention_at, l.id
          limit ?8"
    )
}

pub(in crate::sqlite) fn prunable(
    conn: &Connection,
    query: &PrunableQuery,
) -> Result<Vec<Prunable>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let after = query.after.map_or((i64::MIN, [0; 16]), |key| (key.retention_at.ms(), *key.letter.bytes()));
    let mut all: Vec<Prunable> = Vec::new();
    let mut statement = conn.prepare_cached(&prunable_sql(query.planned))?;
    for (source, queue) in &query.queues {
        let mut found = statement.query((
            source,
            queue,
            query.status.name(),
            query.until.ms(),
            after.0,
            after.1,
            Outcome::Waiting.name(),
            query.limit as i64,
        ))?;
        while let Some(row) = found.next()? {
            all.push(Prunable {
                key: PrunableKey {
                    retention_at: Time::from_ms(row.get(0)?),
                    letter: LetterId::from_bytes(row.get(1)?),
                },
                source: source.clone(),
                queue: queue.clone(),
                letter_type: row.get(2)?,
                since: Time::from_ms(row.get(3)?),
            });
        }
        // What is behind so many others does not come before the next page, and there may be many queues.
        if all.len() > query.limit.saturating_mul(QUEUES_JOINED) {
            first(&mut all, query.limit);
        }
    }
    first(&mut all, query.limit);
    drop(statement);
    drop(snapshot);
    Ok(all)
}

/// Queues whose letters are gathered before those that come first are taken.
const QUEUES_JOINED: usize = 8;

fn first(letters: &mut Vec<Prunable>, limit: usize) {
    letters.sort_unstable_by_key(|letter| letter.key);
    letters.truncate(limit);
}

/// Takes letters away until the batch is over or has taken long enough; of large ones only a few.
pub(in crate::sqlite) fn prune(write: &mut Write, batch: &PruneBatch) -> Result<Pruned, StoreError> {
    if Standing::live(batch.status).after(Action::Prune).is_err() {
        return Ok(Pruned { queues: Vec::new(), looked_at: batch.letters.len() });
    }
    let until = Instant::now() + Duration::from_millis(limits::PRUNE_MS_MAX);
    let mut queues: BTreeMap<(String, String), PrunedQueue> = BTreeMap::new();
    let (mut looked_at, mut bytes) = (0, 0);
    for letter in &batch.letters {
        let enough = bytes >= limits::CONTENT_BYTES_DROPPED_PER_WRITE as u64 || Instant::now() > until;
        if looked_at > 0 && enough {
            break;
        }
        looked_at += 1;
        let Some((gone, outlet, weight)) = prune_one(write, letter, batch)? else { continue };
        bytes += weight;
        count(write, &mut queues, gone, outlet);
        write.failures.at(FailurePoint::Prune)?;
    }
    let queues: Vec<PrunedQueue> = queues.into_values().collect();
    if !queues.is_empty() {
        numbers::keep(write)?;
    }
    for queue in &queues {
        tell(write, queue, batch.limit, batch.at)?;
    }
    Ok(Pruned { queues, looked_at })
}

/// Takes one letter away, if it stands as it was found and nobody holds it; says where it went and what it weighed.
fn prune_one(
    write: &mut Write,
    letter: &PruneLetter,
    batch: &PruneBatch,
) -> Result<Option<(Counted, Outlet, u64)>, StoreError> {
    let id = letter.letter;
    let Some(leaving) = trash::leaving(&write.conn, id)? else { return Ok(None) };
    if leaving.held || leaving.status != batch.status || leaving.retention_at != letter.retention_at {
        return Ok(None);
    }
    let inside = leaving.since.plus_ms(letter.min_age.ms()) > batch.at;
    let (action, outlet) = match letter.policy {
        PruningPolicy::Delete if !inside => (Action::Prune, Outlet::Nowhere),
        PruningPolicy::Delete | PruningPolicy::Archive => (Action::Archive, Outlet::Archive),
    };
    let weight = trash::weight(&write.conn, &leaving)?;
    let removal = Removal { action, outlet, by: BY, reason: batch.limit.name(), at: batch.at };
    let (counted, _) = trash::take_away(write, id, &leaving, &removal)?;
    Ok(Some((counted, outlet, weight)))
}

/// Whoever does what nobody asked for.
const BY: &str = "lazaret";

const PRUNED: &str = "dead_letter.pruned";

fn count(
    write: &mut Write,
    queues: &mut BTreeMap<(String, String), PrunedQueue>,
    gone: Counted,
    outlet: Outlet,
) {
    let Counted { source, queue, letter_type, .. } = gone;
    let new = PrunedQueue { source: source.clone(), queue: queue.clone(), archived: 0, deleted: 0 };
    let pruned = queues.entry((source.clone(), queue.clone())).or_insert(new);
    match outlet {
        Outlet::Archive | Outlet::Bin => pruned.archived += 1,
        Outlet::Nowhere => pruned.deleted += 1,
    }
    write.tally.note(Move { kind: PRUNED, source, queue, letter_type, rule: String::new() });
}

/// One event and one entry of the audit log stand for all letters of a queue.
fn tell(write: &Write, queue: &PrunedQueue, limit: Limit, at: Time) -> Result<(), StoreError> {
    let detail = serde_json::json!({
        "source": queue.source,
        "queue": queue.queue,
        "reason": limit.name(),
        "archived": queue.archived,
        "deleted": queue.deleted,
    });
    let event = NewEvent {
        at,
        kind: PRUNED,
        actor: Some(BY),
        detail: Some(detail.to_string()),
        ..NewEvent::default()
    };
    events::add(write, &event)?;
    let filter = Filter {
        source: Patterns::only(&queue.source),
        queue: Patterns::only(&queue.queue),
        ..Filter::default()
    };
    let actor = Actor { name: BY.to_owned(), role: "system".to_owned(), request: None };
    let entry = NewEntry {
        filter: Some(&filter.to_string()),
        count: queue.archived + queue.deleted,
        reason: Some(limit.name()),
        ..NewEntry::new(&actor, Action::Prune.name(), at)
    };
    audit::add(write, &entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate;

    #[test]
    fn what_may_go_is_found_in_order_by_its_index() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        for planned in [None, Some(true), Some(false)] {
            let sql = format!("explain query plan {}", prunable_sql(planned));
            let mut statement = conn.prepare(&sql).unwrap();
            let binds = vec![0_i64; statement.parameter_count()];
            let steps: Vec<String> = statement
                .query_map(rusqlite::params_from_iter(binds), |row| row.get("detail"))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(
                steps[0].contains("letters_by_retention (source=? AND queue=? AND status=?"),
                "{steps:?}"
            );
            assert!(steps.iter().all(|step| !step.contains("TEMP B-TREE")), "{steps:?}");
            assert!(steps.iter().all(|step| !step.starts_with("SCAN")), "{steps:?}");
        }
    }

    #[test]
    fn letters_are_counted_without_their_rows() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        let mut statement = conn.prepare(&format!("explain query plan {FREE}")).unwrap();
        let steps: Vec<String> =
            statement.query_map([], |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
        assert!(steps[0].contains("COVERING INDEX letters_by_retention"), "{steps:?}");
        assert!(steps.iter().all(|step| !step.contains("TEMP B-TREE")), "{steps:?}");
    }
}
