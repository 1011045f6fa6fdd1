//! Replays: what a standing rule finds to put back, and the putting back.
//!
//! A rule looks at pending letters of jobs in the order of their deaths, by an index that holds no others. What it has
//! put back as often as it may stays pending for good, so each rule remembers in memory how far it has come and goes on
//! from there: letters that it cannot put back are met once in a round and not at every look. A round ends after a while
//! and whenever letters come to wait again by hand, because those may lie behind the place reached.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lazaret_core::filter::Filter;
use lazaret_core::gate::pass_rule;
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};
use serde_json::json;

use super::audit::{self, NewEntry};
use super::events::{self, NewEvent};
use super::filter::Where;
use super::incidents;
use super::jobs::follow::retry;
use super::redrives::doors::{self, Door, Passage};
use super::scan::Scanner;
use super::writer::{Write, Writer};
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::{Decided, Verb};
use crate::job::SOURCE;
use crate::replay::{Replay, ReplayQuery, Replayed, RuleRecord};

/// A place in the order of deaths.
type Key = (i64, [u8; 16]);

/// How far each rule has come. Lost with the process, which only costs a round.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<HashMap<String, Round>>);

/// One walk of a rule through the letters.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// What was asked; a rule that asks for something else begins anew.
    filter: Filter,
    max_replays: u32,
    begun_at: Time,
    /// Everything up to here was looked at and not given.
    place: Option<Key>,
    /// Letters behind it that could not be put back.
    passed: Arc<HashSet<LetterId>>,
}

impl Round {
    fn new(query: &ReplayQuery) -> Round {
        Round {
            filter: lasting(&query.filter),
            max_replays: query.max_replays,
            begun_at: query.now,
            place: None,
            passed: Arc::default(),
        }
    }

    fn is_of(&self, query: &ReplayQuery) -> bool {
        let age = query.now.since(self.begun_at);
        (0..limits::REPLAY_ROUND_MS).contains(&age)
            && self.max_replays == query.max_replays
            && self.filter == lasting(&query.filter)
    }
}

/// A filter without the end of its range: that moves on with the clock, and a place is never behind it.
fn lasting(filter: &Filter) -> Filter {
    let mut filter = filter.clone();
    filter.until = None;
    filter.age.min = None;
    filter
}

impl Rounds {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Round>> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// The round that a rule is in, or a new one.
    pub fn enter(&self, query: &ReplayQuery) -> Round {
        let mut all = self.all();
        if let Some(round) = all.get(&query.rule).filter(|round| round.is_of(query)) {
            return round.clone();
        }
        if all.len() >= limits::REPLAY_RULES_REMEMBERED_MAX {
            all.clear();
        }
        let round = Round::new(query);
        all.insert(query.rule.clone(), round.clone());
        round
    }

    /// Notes how far a look has come, unless the round has ended meanwhile.
    pub fn reach(&self, rule: &str, from: &Round, place: Option<Key>) {
        // Each round has a set of its own, which tells it from any other.
        if let Some(round) = self.all().get_mut(rule)
            && Arc::ptr_eq(&round.passed, &from.passed)
        {
            round.place = round.place.max(place);
        }
    }

    /// Remembers letters that could not be put back: they must not be given again and again in place of others.
    pub fn pass(&self, replay: &Replay, outcomes: &[Replayed]) {
        let mut all = self.all();
        let Some(round) = all.get_mut(&replay.rule) else { return };
        for ((letter, _), outcome) in replay.letters.iter().zip(outcomes) {
            let stays = matches!(outcome, Replayed::Refused(_) | Replayed::NoWayBack);
            if stays && round.passed.len() < limits::REPLAY_LETTERS_PASSED_MAX {
                Arc::make_mut(&mut round.passed).insert(*letter);
            }
        }
    }

    /// Ends all rounds if letters came to wait, or to be free, that may lie behind them.
    pub fn after(&self, verb: Verb) {
        match verb {
            Verb::Reopen | Verb::Restore | Verb::Release => self.end(),
            Verb::Resolve | Verb::Discard | Verb::Hold | Verb::Retry | Verb::Delete => {}
        }
    }

    pub fn end(&self) {
        self.all().clear();
    }
}

/// What one look found.
#[derive(Debug)]
pub(super) struct Look {
    pub letters: Vec<(LetterId, u32)>,
    /// How far the rule has come.
    pub place: Option<Key>,
}

/// Looks at the next letters of a round, at most `rows` of them.
pub(super) fn look(
    conn: &Connection,
    query: &ReplayQuery,
    round: &Round,
    rows: usize,
) -> Result<Look, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let end = window_end(conn, round.place, rows)?;
    let reach = reach(query);
    let (sql, binds) = candidates(conn, query, round.place, end)?;
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let scan_max = Duration::from_millis(limits::REPLAY_SCAN_MS_MAX);
    let mut scanner = Scanner::new(conn, &query.filter, scan_max);
    let (mut letters, mut place) = (Vec::new(), round.place);
    let mut complete = true;
    while let Some(row) = found.next()? {
        if letters.len() >= query.limit || scanner.is_over() {
            complete = false;
            break;
        }
        let (key, life): (Key, u32) = ((row.get(0)?, row.get(1)?), row.get(2)?);
        let letter = LetterId::from_bytes(key.1);
        let spent = row.get::<_, i64>(4)? >= i64::from(query.max_replays);
        let given = !spent
            && !round.passed.contains(&letter)
            && (!query.filter.needs_content() || scanner.holds(row.get(3)?, life)?);
        if given {
            letters.push((letter, life));
        } else if letters.is_empty() {
            place = place.max(Some(key.min(reach)));
        }
    }
    if complete && letters.is_empty() {
        place = place.max(Some(end.map_or(reach, |end| end.min(reach))));
    }
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(Look { letters, place })
}

/// No place lies behind this: letters that died later are too young for the rule, or may not be committed yet.
fn reach(query: &ReplayQuery) -> Key {
    let settled = query.now.plus_ms(-limits::REPLAY_UNSETTLED_MS);
    let until = query.filter.died(query.now).until.map_or(settled, |until| until.min(settled));
    (until.ms().saturating_sub(1), [u8::MAX; 16])
}

/// The letters of a round up to a place, in the order of their deaths, with how often the rule has put each back.
fn candidates(
    conn: &Connection,
    query: &ReplayQuery,
    from: Option<Key>,
    end: Option<Key>,
) -> Result<(String, Vec<Value>), StoreError> {
    let filter = Where::of(conn, &query.filter, query.now)?;
    let words = match &filter.words {
        Some(_) => "l.letter in (select rowid from letter_words where letter_words match ?) and",
        None => "",
    };
    let mut sql = format!(
        "select l.died_at, l.id, l.life, l.letter,
                coalesce((select r.count from replays r where r.letter = l.id and r.rule = ?), 0)
           from dead_letter_queue l indexed by letters_of_jobs
          where l.source = 'jobs'
            and l.status = ?
            and {words} {}",
        filter.sql
    );
    let mut binds = vec![Value::Text(query.rule.clone()), Value::Text(Status::Pending.name().into())];
    binds.extend(filter.words.into_iter().map(Value::Text));
    binds.extend(filter.binds);
    for (comparison, key) in [(">", from), ("<=", end)] {
        if let Some((died_at, id)) = key {
            sql.push_str(&format!(" and (l.died_at, l.id) {comparison} (?, ?)"));
            binds.extend([Value::Integer(died_at), Value::Blob(id.to_vec())]);
        }
    }
    sql.push_str(" order by l.died_at, l.id");
    Ok((sql, binds))
}

const WINDOW_END: &str = "
select l.died_at, l.id
  from dead_letter_queue l indexed by letters_of_jobs
 where l.source = 'jobs'
   and l.status = ?1
   and l.listed = 1
   and (l.died_at, l.id) > (?2, ?3)
 order by l.died_at, l.id
 limit 1 offset ?4";

/// Where a look ends at the latest, whatever matches; nothing if so many letters are not left.
fn window_end(conn: &Connection, from: Option<Key>, rows: usize) -> Result<Option<Key>, StoreError> {
    let (died_at, id) = from.unwrap_or((i64::MIN, [0; 16]));
    let mut statement = conn.prepare_cached(WINDOW_END)?;
    let end = statement
        .query_row((Status::Pending.name(), died_at, id, rows.saturating_sub(1) as i64), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(end)
}

/// Puts letters back in as many writes as it takes.
pub(super) async fn replay_all(writer: &Writer, replay: &Arc<Replay>) -> Result<Vec<Replayed>, StoreError> {
    let mut outcomes = Vec::with_capacity(replay.letters.len());
    while outcomes.len() < replay.letters.len() {
        let (same, from) = (Arc::clone(replay), outcomes.len());
        let put_back =
            move |write: &mut Write| self::replay(write, &same, same.letters.get(from..).unwrap_or_default());
        outcomes.extend(writer.write(replay.letters.len() - from, put_back).await?);
    }
    Ok(outcomes)
}

/// Puts the first of these letters back, each by itself, as many as one write may take time for; one audit entry tells of
/// all that were.
pub(super) fn replay(
    write: &mut Write,
    replay: &Replay,
    letters: &[(LetterId, u32)],
) -> Result<Vec<Replayed>, StoreError> {
    let until = Instant::now() + Duration::from_millis(limits::DECISION_MS_MAX);
    let mut outcomes = Vec::with_capacity(letters.len());
    for (letter, life) in letters {
        // The arguments of jobs may be large.
        if !outcomes.is_empty() && Instant::now() > until {
            break;
        }
        outcomes.push(replay_one(write, replay, *letter, *life)?);
    }
    doors::leave(write, replay.at)?;
    let done = outcomes.iter().filter(|outcome| **outcome == Replayed::Done).count();
    if done > 0 {
        write.conn.prepare_cached(COUNT_RULE)?.execute((&replay.rule, done as i64, replay.at.ms()))?;
        let actor = rule_actor(&replay.rule);
        let entry = NewEntry {
            at: replay.at,
            actor: &actor,
            action: "replay",
            letter: None,
            operation: None,
            incident: None,
            redrive: doors::of_rule(write, &replay.rule, replay.at)?,
            filter: None,
            count: done as u64,
            reason: None,
        };
        audit::add(write, &entry)?;
    }
    Ok(outcomes)
}

/// Whom the audit log names when a rule acts.
fn rule_actor(rule: &str) -> Actor {
    Actor { name: format!("rule:{rule}"), role: "system".into(), request: None }
}

const FOUND: &str = "select source, event_id, status, life from dead_letter_queue where id = ?1";

fn replay_one(
    write: &mut Write,
    replay: &Replay,
    letter: LetterId,
    life: u32,
) -> Result<Replayed, StoreError> {
    let found: Option<(String, String, String, u32)> = write
        .conn
        .prepare_cached(FOUND)?
        .query_row([letter.bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((source, event, status, now)) = found else { return Ok(Replayed::Moved) };
    if now != life || status != Status::Pending.name() {
        return Ok(Replayed::Moved);
    }
    let counts = counts(write, letter, &replay.rule)?;
    if counts.by_rule >= u64::from(replay.max_replays) {
        return Ok(Replayed::Spent);
    }
    if let Some(cause) = incidents::letter_cause(&write.conn, letter)?
        && let Err(shut) = pass_rule(replay.category, cause.cause)
    {
        return Ok(Replayed::Shut(shut));
    }
    let job = if source == SOURCE { JobId::parse(&event).ok() } else { None };
    let Some(job) = job else { return Ok(Replayed::NoWayBack) };
    let number = counts.in_all + 1;
    let marks = json!({
        "ojs.replay_count": number,
        "ojs.last_replayed_at": replay.at.to_string(),
        "ojs.replay_rule": replay.rule,
    });
    let with = Override { meta: Some(marks.to_string()), ..Override::default() };
    match retry(write, letter, &with, replay.at)?.decided {
        Decided::Done => {}
        Decided::Refused(refused) => return Ok(Replayed::Refused(refused)),
        Decided::Unknown => return Ok(Replayed::Moved),
        Decided::NoWayBack | Decided::Replaced => return Ok(Replayed::NoWayBack),
    }
    let by = rule_actor(&replay.rule);
    let passage =
        Passage { door: Door::Rule(&replay.rule), by: &by, reason: None, governed: None, at: replay.at };
    doors::record(write, letter, &passage)?;
    write.conn.prepare_cached(COUNT)?.execute((letter.bytes(), &replay.rule, replay.at.ms()))?;
    let detail = json!({ "rule": replay.rule, "replay_count": number });
    let event = NewEvent {
        at: replay.at,
        kind: "dead_letter.replayed",
        letter: Some(letter),
        job: Some(job),
        detail: Some(detail.to_string()),
        ..NewEvent::default()
    };
    events::add(write, &event)?;
    events::note(write, "dead_letter.replayed", letter, &replay.rule)?;
    Ok(Replayed::Done)
}

/// How often a letter was put back, by one rule and by any.
struct Counts {
    by_rule: u64,
    in_all: u64,
}

const COUNTS: &str = "
select coalesce(sum(count) filter (where rule = ?2), 0), coalesce(sum(count), 0)
  from replays
 where letter = ?1";

fn counts(write: &Write, letter: LetterId, rule: &str) -> Result<Counts, StoreError> {
    let (by_rule, in_all): (i64, i64) = write
        .conn
        .prepare_cached(COUNTS)?
        .query_row((letter.bytes(), rule), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Counts { by_rule: by_rule as u64, in_all: in_all as u64 })
}

const COUNT: &str = "
insert into replays (letter, rule, count, last_at)
values (?1, ?2, 1, ?3)
on conflict (letter, rule)
do update set count = count + 1, last_at = excluded.last_at";

const COUNT_RULE: &str = "
insert into replay_rules (rule, replayed, last_at)
values (?1, ?2, ?3)
on conflict (rule)
do update set replayed = replayed + excluded.replayed, last_at = excluded.last_at";

const RECORDS: &str = "select rule, switched, replayed, last_at from replay_rules order by rule";

/// Every rule that did something or was switched, by name.
pub(super) fn records(conn: &Connection) -> Result<Vec<RuleRecord>, StoreError> {
    let mut statement = conn.prepare_cached(RECORDS)?;
    let rows = statement.query_map([], |row| {
        Ok(RuleRecord {
            rule: row.get(0)?,
            switched: row.get(1)?,
            replayed: row.get::<_, i64>(2)? as u64,
            last_at: row.get::<_, Option<i64>>(3)?.map(Time::from_ms),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

const SWITCH: &str = "
insert into replay_rules (rule, switched)
values (?1, ?2)
on conflict (rule)
do update set switched = excluded.switched";

pub(super) fn switch(
    write: &Write,
    rule: &str,
    enabled: bool,
    by: &Actor,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.prepare_cached(SWITCH)?.execute((rule, enabled))?;
    let entry = NewEntry {
        at,
        actor: by,
        action: if enabled { "rule_enabled" } else { "rule_disabled" },
        letter: None,
        operation: None,
        incident: None,
        redrive: None,
        filter: None,
        count: 1,
        reason: Some(rule),
    };
    audit::add(write, &entry)
}

#[cfg(test)]
mod tests;
