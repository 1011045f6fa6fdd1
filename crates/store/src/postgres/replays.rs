//! Replays: what a standing rule finds to put back, and the putting back.
//!
//! A rule looks at pending letters of jobs in the order of their deaths, by an index that holds no others. What it has
//! put back as often as it may stays pending for good, so each rule remembers in memory how far it has come and goes on
//! from there: letters that it cannot put back are met once in a round and not at every look. A round ends after a while
//! and whenever letters come to wait again by hand, because those may lie behind the place reached. Any instance may
//! have made them wait, so they are counted in the store.

mod rounds;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use lazaret_core::filter::Filter;
use lazaret_core::gate::pass_rule;
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::json;

use super::PostgresStore;
use super::audit::{self, NewEntry};
use super::cell::{At, Cells, Uid, clean};
use super::conn::{Binds, Conn};
use super::events::{self, NewEvent};
use super::filter::Where;
use super::incidents;
use super::jobs::retry::{Asked, retry_all};
use super::redrives::doors::{self, Door};
use super::writer::Write;
use super::{letters, scan};
use crate::StoreError;
use crate::audit::Actor;
use crate::decision::Decided;
use crate::job::SOURCE;
use crate::moves::Move;
use crate::replay::{Replay, ReplayQuery, Replayed, RuleRecord};
use rounds::Round;

pub(super) use rounds::Rounds;

/// A place in the order of deaths.
type Key = (i64, [u8; 16]);

/// What one look found.
#[derive(Debug)]
struct Look {
    letters: Vec<(LetterId, u32)>,
    /// How far the rule has come.
    place: Option<Key>,
    /// How many letters have come to wait again by hand, ever.
    waiting_again: u64,
}

/// A letter that a rule has not put back as often as it may.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: Key,
    life: u32,
}

impl Candidate {
    fn letter(&self) -> LetterId {
        LetterId::from_bytes(self.key.1)
    }
}

/// Letters that a rule may put back now.
pub(super) async fn replayable(
    store: &PostgresStore,
    query: ReplayQuery,
) -> Result<Vec<(LetterId, u32)>, StoreError> {
    let asked = Arc::new((store.rounds.enter(&query), query));
    let look = store
        .readers
        .snapshot(Arc::clone(&asked), |conn, asked| {
            Box::pin(look(conn, &asked.1, &asked.0, limits::REPLAY_LETTERS_LOOKED_AT_MAX))
        })
        .await?;
    store.rounds.reach(&asked.1.rule, &asked.0, &look);
    Ok(look.letters)
}

/// Looks at the next letters of a round, at most `rows` of them.
async fn look(conn: &Conn, query: &ReplayQuery, round: &Round, rows: usize) -> Result<Look, StoreError> {
    let seen = conn.query_one("select waiting_again from positions", &[]).await?;
    let waiting_again = seen.count(0)?;
    let round = round.as_of(waiting_again);
    let reach = reach(query);
    let end = window_end(conn, round.place, rows).await?;
    // Whatever is left of them after what was passed over is enough.
    let enough = match query.filter.needs_content() {
        true => rows,
        false => query.limit + round.passed.len() + 1,
    };
    let mut found = candidates(conn, query, (round.place, end), enough).await?;
    let complete = found.len() < enough;
    found.retain(|candidate| !round.passed.contains(&candidate.letter()));
    let (given, looked_at) = holding(conn, &query.filter, &found, query.limit).await?;
    let reached = match given.first() {
        // What is given is not passed.
        Some(first) => Some(before(first.key)),
        None if complete && looked_at == found.len() => Some(end.unwrap_or(reach)),
        None => found[..looked_at].last().map(|last| last.key),
    };
    Ok(Look {
        letters: given.iter().map(|given| (given.letter(), given.life)).collect(),
        place: round.place.max(reached.map(|reached| reached.min(reach))),
        waiting_again,
    })
}

/// The place just before another one.
fn before((died_at, id): Key) -> Key {
    match u128::from_be_bytes(id).checked_sub(1) {
        Some(id) => (died_at, id.to_be_bytes()),
        None => (died_at.saturating_sub(1), [u8::MAX; 16]),
    }
}

/// No place lies behind this: letters that died later are too young for the rule, or may not be committed yet.
fn reach(query: &ReplayQuery) -> Key {
    let settled = query.now.plus_ms(-limits::REPLAY_UNSETTLED_MS);
    let until = query.filter.died(query.now).until.map_or(settled, |until| until.min(settled));
    (until.ms().saturating_sub(1), [u8::MAX; 16])
}

/// The first candidates whose content is what the filter asks for, and how many were looked at for it: until there are
/// enough, or the time is over.
async fn holding(
    conn: &Conn,
    filter: &Filter,
    candidates: &[Candidate],
    limit: usize,
) -> Result<(Vec<Candidate>, usize), StoreError> {
    if !filter.needs_content() {
        let given = candidates[..candidates.len().min(limit)].to_vec();
        return Ok((given, candidates.len()));
    }
    let until = Instant::now() + Duration::from_millis(limits::REPLAY_SCAN_MS_MAX);
    let (mut given, mut looked_at) = (Vec::new(), 0);
    for stretch in candidates.chunks(limits::SCAN_LETTERS_PER_READ as usize) {
        let lives: Vec<(LetterId, u32)> = stretch.iter().map(|one| (one.letter(), one.life)).collect();
        let mut contents = pin!(scan::contents(conn, &lives).await?);
        for (candidate, n) in stretch.iter().zip(1_i64..) {
            // At least one is looked at, so that every look gets somewhere.
            if given.len() >= limit || (looked_at > 0 && Instant::now() > until) {
                return Ok((given, looked_at));
            }
            let row = contents.try_next().await?.filter(|row| row.cell::<i64>(0).is_ok_and(|of| of == n));
            let Some(row) = row else {
                let (letter, life) = (candidate.letter(), candidate.life);
                return Err(StoreError::Corrupt(format!("life {life} of letter {letter} is missing")));
            };
            looked_at += 1;
            if filter.matches_content(&letters::envelope(&row, 1)?) {
                given.push(*candidate);
            }
        }
    }
    Ok((given, looked_at))
}

/// The letters of a round behind a place and up to another, in the order of their deaths, that the rule has not put back
/// as often as it may.
async fn candidates(
    conn: &Conn,
    query: &ReplayQuery,
    between: (Option<Key>, Option<Key>),
    rows: usize,
) -> Result<Vec<Candidate>, StoreError> {
    let (sql, binds) = candidates_sql(conn, query, between, rows).await?;
    let mut found = Vec::new();
    for row in conn.ask(&sql, &binds).await? {
        found.push(Candidate { key: (row.time(0)?.ms(), row.id(1)?), life: row.small(2)? });
    }
    Ok(found)
}

async fn candidates_sql(
    conn: &Conn,
    query: &ReplayQuery,
    (from, end): (Option<Key>, Option<Key>),
    rows: usize,
) -> Result<(String, Binds), StoreError> {
    let mut binds = Binds::default();
    let filter = Where::of(conn, &query.filter, query.now, &mut binds).await?;
    let table = letters::from(conn, &filter, &mut binds).await?;
    let (pending, rule) = (binds.text(Status::Pending.name()), binds.text(clean(&query.rule)));
    let most = binds.long(i64::from(query.max_replays));
    // The source is not bound: the index holds no others, and PostgreSQL has to see that.
    let mut sql = format!(
        "select l.died_at, l.id, l.life
           from {table}
          where l.source = 'jobs'
            and l.status = {pending}
            and {}
            and coalesce((select r.count from replays r where r.letter = l.id and r.rule = {rule}), 0) < {most}",
        filter.sql
    );
    for (comparison, key) in [(">", from), ("<=", end)] {
        if let Some((died_at, id)) = key {
            let (died_at, id) = (binds.time(Time::from_ms(died_at)), binds.id(id));
            sql.push_str(&format!(" and (l.died_at, l.id) {comparison} ({died_at}, {id})"));
        }
    }
    let limit = binds.long(rows as i64);
    sql.push_str(&format!(" order by l.died_at, l.id limit {limit}"));
    Ok((sql, binds))
}

const WINDOW_END: &str = "
select l.died_at, l.id
  from dead_letter_queue l
 where l.source = 'jobs'
   and l.status = $1
   and (l.died_at, l.id) > ($2, $3)
 order by l.died_at, l.id
 limit 1 offset $4";

/// Where a look ends at the latest, whatever matches; nothing if so many letters are not left.
async fn window_end(conn: &Conn, from: Option<Key>, rows: usize) -> Result<Option<Key>, StoreError> {
    let (died_at, id) = from.unwrap_or((i64::MIN, [0; 16]));
    let (died_at, skipped) = (At(Time::from_ms(died_at)), rows.saturating_sub(1) as i64);
    let found = conn.query_opt(WINDOW_END, &[&Status::Pending.name(), &died_at, &Uid(id), &skipped]).await?;
    found.map(|row| Ok((row.time(0)?.ms(), row.id(1)?))).transpose()
}

/// Puts letters back in as many writes as it takes, and remembers what could not be.
pub(super) async fn put_back(store: &PostgresStore, replay: Replay) -> Result<Vec<Replayed>, StoreError> {
    let asked = Arc::new(replay);
    let mut outcomes = Vec::with_capacity(asked.letters.len());
    while outcomes.len() < asked.letters.len() {
        let from = outcomes.len();
        let weight = (asked.letters.len() - from).min(limits::COMMIT_LETTERS_MAX);
        let put = store
            .writer
            .write_long(weight, (Arc::clone(&asked), from), |write, (asked, from)| {
                Box::pin(self::replay(write, asked, asked.letters.get(*from..).unwrap_or_default()))
            })
            .await?;
        outcomes.extend(put);
    }
    store.rounds.pass(&asked, &outcomes);
    Ok(outcomes)
}

/// Puts the first of these letters back, each by itself, as many as one write may take time for; one audit entry tells of
/// all that were.
async fn replay(
    write: &mut Write,
    replay: &Replay,
    letters: &[(LetterId, u32)],
) -> Result<Vec<Replayed>, StoreError> {
    let mut found = hold(write, letters).await?;
    let counts = counts(write, letters, &replay.rule).await?;
    let ids: Vec<LetterId> = letters.iter().map(|(letter, _)| *letter).collect();
    let causes = incidents::letter_causes(&write.conn, &ids).await?;
    let gate = |letter: &LetterId| pass_rule(replay.category, causes.get(letter)?.cause).err();
    let until = Instant::now() + Duration::from_millis(limits::DECISION_MS_MAX);
    let mut outcomes = Vec::with_capacity(letters.len());
    let mut done: Vec<Uid> = Vec::new();
    for (letter, life) in letters {
        // The arguments of jobs may be large.
        if !outcomes.is_empty() && Instant::now() > until {
            break;
        }
        let before = counts.get(letter).copied().unwrap_or_default();
        let outcome = match found.get(letter).filter(|found| found.life == *life && found.pending) {
            None => Replayed::Moved,
            Some(_) if before.by_rule >= u64::from(replay.max_replays) => Replayed::Spent,
            Some(found) => match gate(letter) {
                Some(shut) => Replayed::Shut(shut),
                None => replay_one(write, replay, *letter, found, before.in_all + 1).await?,
            },
        };
        if outcome == Replayed::Done {
            found.remove(letter);
            done.push(Uid(*letter.bytes()));
        }
        outcomes.push(outcome);
    }
    if !done.is_empty() {
        let (rule, at) = (clean(&replay.rule), At(replay.at));
        write.conn.execute(COUNT, &[&done, &rule, &at]).await?;
        write.conn.execute(COUNT_RULE, &[&rule, &(done.len() as i64), &at]).await?;
        let actor = Actor { name: format!("rule:{}", replay.rule), role: "system".into(), request: None };
        let letters = done.iter().map(|letter| LetterId::from_bytes(letter.0)).collect();
        let redrive = doors::record(write, Door::Rule(&replay.rule), letters, (&actor, None), replay.at)?;
        let entry = NewEntry {
            at: replay.at,
            actor: &actor,
            action: "replay",
            letter: None,
            operation: None,
            incident: None,
            redrive: Some(redrive),
            filter: None,
            count: done.len() as u64,
            reason: None,
        };
        audit::add(write, &entry)?;
    }
    Ok(outcomes)
}

/// A letter as it is found.
struct Found {
    life: u32,
    pending: bool,
    names_a_job: bool,
    queue: String,
    letter_type: String,
}

/// The jobs that letters name, by words that never change.
const NAMED: &str = "
select l.event_id
  from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at)
  join dead_letter_queue l on l.id = m.letter and l.created_at = m.begun_at
 where l.source = $3";

/// Jobs come before letters, as in every change of a job.
const LOCK_JOBS: &str = "
select job
  from jobs
 where id = any($1)
 order by id
   for no key update";

/// In the order of ids, so that two instances that put back the same letters never wait for each other in a circle.
const HOLD: &str = "
select l.id, l.life, l.status = $3, l.source, l.event_id, l.queue, l.type
  from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at)
  join dead_letter_queue l on l.id = m.letter and l.created_at = m.begun_at
 order by l.id
   for no key update of l";

/// Holds letters and their jobs still until the commit.
async fn hold(write: &Write, letters: &[(LetterId, u32)]) -> Result<HashMap<LetterId, Found>, StoreError> {
    let (ids, begun_at): (Vec<Uid>, Vec<At>) =
        letters.iter().map(|(letter, _)| (Uid(*letter.bytes()), At(letter.at()))).unzip();
    let mut jobs = Vec::new();
    for row in write.conn.query(NAMED, &[&ids, &begun_at, &SOURCE]).await? {
        jobs.extend(JobId::parse(row.cell(0)?).ok().map(|job| Uid(*job.bytes())));
    }
    write.conn.execute(LOCK_JOBS, &[&jobs]).await?;
    let mut held = HashMap::with_capacity(letters.len());
    for row in write.conn.query(HOLD, &[&ids, &begun_at, &Status::Pending.name()]).await? {
        let (source, event): (&str, &str) = (row.cell(3)?, row.cell(4)?);
        let found = Found {
            life: row.small(1)?,
            pending: row.cell(2)?,
            names_a_job: source == SOURCE && JobId::parse(event).is_ok(),
            queue: row.cell(5)?,
            letter_type: row.cell(6)?,
        };
        held.insert(LetterId::from_bytes(row.id(0)?), found);
    }
    Ok(held)
}

async fn replay_one(
    write: &mut Write,
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
    let asked = [Asked { letter, with: &with }];
    let Some(retried) = retry_all(write, &asked, replay.at).await?.pop() else { return Ok(Replayed::Moved) };
    let job = retried.job;
    match retried.decided {
        Decided::Done => {}
        Decided::Refused(refused) => return Ok(Replayed::Refused(refused)),
        Decided::Unknown => return Ok(Replayed::Moved),
        Decided::NoWayBack | Decided::Replaced => return Ok(Replayed::NoWayBack),
    }
    let kind = "dead_letter.replayed";
    let detail = json!({ "rule": replay.rule, "replay_count": number });
    let event = NewEvent {
        at: replay.at,
        kind,
        letter: Some(letter),
        job,
        detail: Some(detail.to_string()),
        ..NewEvent::default()
    };
    events::add(write, &event)?;
    write.tally.note(Move {
        kind,
        source: SOURCE.to_owned(),
        queue: found.queue.clone(),
        letter_type: found.letter_type.clone(),
        rule: replay.rule.clone(),
    });
    Ok(Replayed::Done)
}

/// How often a letter was put back, by one rule and by any.
#[derive(Clone, Copy, Default)]
struct Counts {
    by_rule: u64,
    in_all: u64,
}

const COUNTS: &str = "
select letter, coalesce(sum(count) filter (where rule = $2), 0)::bigint, sum(count)::bigint
  from replays
 where letter = any($1)
 group by letter";

async fn counts(
    write: &Write,
    letters: &[(LetterId, u32)],
    rule: &str,
) -> Result<HashMap<LetterId, Counts>, StoreError> {
    let ids: Vec<Uid> = letters.iter().map(|(letter, _)| Uid(*letter.bytes())).collect();
    let mut counts = HashMap::new();
    for row in write.conn.query(COUNTS, &[&ids, &clean(rule)]).await? {
        let of = Counts { by_rule: row.count(1)?, in_all: row.count(2)? };
        counts.insert(LetterId::from_bytes(row.id(0)?), of);
    }
    Ok(counts)
}

const COUNT: &str = "
insert into replays (letter, rule, count, last_at)
select d.letter, $2, 1, $3
  from unnest($1::uuid[]) as d (letter)
on conflict (letter, rule)
do update set count = replays.count + 1, last_at = excluded.last_at";

const COUNT_RULE: &str = "
insert into replay_rules (rule, replayed, last_at)
values ($1, $2, $3)
on conflict (rule)
do update set replayed = replay_rules.replayed + excluded.replayed, last_at = excluded.last_at";

const RECORDS: &str = "
select rule, switched, replayed, last_at
  from replay_rules
 order by rule";

/// Every rule that did something or was switched, by name.
pub(super) async fn records(conn: &Conn) -> Result<Vec<RuleRecord>, StoreError> {
    let mut records = Vec::new();
    for row in conn.query(RECORDS, &[]).await? {
        let (replayed, last_at) = (row.count(2)?, row.time_opt(3)?);
        records.push(RuleRecord { rule: row.cell(0)?, switched: row.cell(1)?, replayed, last_at });
    }
    Ok(records)
}

const SWITCH: &str = "
insert into replay_rules (rule, switched)
values ($1, $2)
on conflict (rule)
do update set switched = excluded.switched";

pub(super) async fn switch(
    write: &mut Write,
    rule: &str,
    enabled: bool,
    by: &Actor,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.execute(SWITCH, &[&clean(rule), &enabled]).await?;
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
