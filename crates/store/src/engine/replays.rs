//! Replays: the letters a replay rule finds, and their redrive.
//!
//! A rule looks at pending letters of jobs in the order of their deaths, by an index that holds no others. What it has
//! replayed as often as it may stays pending for good, so each rule remembers in memory how far it has come and goes on
//! from there: letters that it cannot replay are met once in a round and not at every look. A round ends after a while
//! and whenever letters come to wait again by hand, because those may lie behind the place reached. Where any instance may
//! have made them wait, they are counted in the store.

mod put_back;
mod rounds;

use std::sync::Arc;

use async_trait::async_trait;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::engine::operations::DeathKey;
use crate::replay::{Replay, ReplayQuery, Replayed, Replays, RuleRecord};
use crate::seam::{Backend, Conn, Lane, Row, Sql, Tx, View, binds, sql};

pub(crate) use rounds::{Round, Rounds};

#[async_trait]
impl<S: Backend> Replays for S {
    async fn replayable(&self, query: ReplayQuery) -> Result<Vec<(LetterId, u32)>, StoreError> {
        let asked = Arc::new((self.rounds().enter(&query), query));
        let look = self
            .read(View::Snapshot, Arc::clone(&asked), |conn, asked| {
                Box::pin(look(conn, &asked.1, &asked.0, limits::REPLAY_LETTERS_LOOKED_AT_MAX))
            })
            .await?;
        self.rounds().reach(&asked.1.rule, &asked.0, &look);
        Ok(look.letters)
    }

    async fn replay(&self, replay: Replay) -> Result<Vec<Replayed>, StoreError> {
        let asked = Arc::new(replay);
        let mut outcomes = Vec::with_capacity(asked.letters.len());
        while outcomes.len() < asked.letters.len() {
            let from = outcomes.len();
            let lane = Lane::Long((asked.letters.len() - from).min(limits::COMMIT_LETTERS_MAX));
            let put = self
                .write(lane, (Arc::clone(&asked), from), |tx, (asked, from)| {
                    Box::pin(put_back::replay(tx, asked, asked.letters.get(*from..).unwrap_or_default()))
                })
                .await?;
            outcomes.extend(put);
        }
        self.rounds().pass(&asked, &outcomes);
        Ok(outcomes)
    }

    async fn rule_records(&self) -> Result<Vec<RuleRecord>, StoreError> {
        self.read(View::Newest, (), |conn, ()| Box::pin(records(conn))).await
    }

    async fn switch_rule(&self, rule: String, enabled: bool, by: Actor, at: Time) -> Result<(), StoreError> {
        self.write(Lane::Quick(1), (rule, enabled, by, at), |tx, (rule, enabled, by, at)| {
            Box::pin(switch(tx, rule, *enabled, by, *at))
        })
        .await
    }
}

/// What one look found.
#[derive(Debug)]
pub(crate) struct Look {
    pub letters: Vec<(LetterId, u32)>,
    /// How far the rule has come.
    pub place: Option<DeathKey>,
    /// How many letters have come to wait again by hand, ever.
    pub waiting_again: u64,
}

/// A letter that a rule may still replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub key: DeathKey,
    pub life: u32,
}

/// SQLite has one process, which ends the rounds itself.
const WAITING_AGAIN: Sql =
    sql!("{sqlite select 0 as waiting_again}{postgres select waiting_again from positions}");

/// Looks at the next letters of a round, at most `rows` of them. Asked within a snapshot.
pub(crate) async fn look(
    conn: &mut impl Conn,
    query: &ReplayQuery,
    round: &Round,
    rows: usize,
) -> Result<Look, StoreError> {
    let waiting_again = conn.query_one(&WAITING_AGAIN, &[], |row| row.get("waiting_again")).await?;
    let round = round.as_of(waiting_again);
    let reach = reach(query);
    let end = window_end(conn, round.place, rows).await?;
    // Whatever is left of them after what was passed over is enough.
    let enough = match query.filter.needs_content() {
        true => rows,
        false => query.limit + round.passed.len() + 1,
    };
    let mut found = conn.replay_candidates(query, (round.place, end), enough).await?;
    let complete = found.len() < enough;
    found.retain(|candidate| !round.passed.contains(&candidate.key.1));
    let (given, looked_at) = match query.filter.needs_content() {
        true => conn.match_content(&query.filter, &found, query.limit).await?,
        false => (found.iter().take(query.limit).copied().collect(), found.len()),
    };
    let reached = match given.first() {
        // What is given is not passed.
        Some(first) => Some(before(first.key)),
        None if complete && looked_at == found.len() => Some(end.unwrap_or(reach)),
        None => found[..looked_at].last().map(|last| last.key),
    };
    Ok(Look {
        letters: given.iter().map(|given| (given.key.1, given.life)).collect(),
        place: round.place.max(reached.map(|reached| reached.min(reach))),
        waiting_again,
    })
}

/// The place just before another one.
fn before((died_at, id): DeathKey) -> DeathKey {
    match u128::from_be_bytes(*id.bytes()).checked_sub(1) {
        Some(id) => (died_at, LetterId::from_bytes(id.to_be_bytes())),
        None => (died_at.plus_ms(-1), LetterId::from_bytes([u8::MAX; 16])),
    }
}

/// No place lies behind this: letters that died later are too young for the rule, or may not be committed yet.
pub(crate) fn reach(query: &ReplayQuery) -> DeathKey {
    let settled = query.now.plus_ms(-limits::REPLAY_UNSETTLED_MS);
    let until = query.filter.died(query.now).until.map_or(settled, |until| until.min(settled));
    (until.plus_ms(-1), LetterId::from_bytes([u8::MAX; 16]))
}

/// The source is not bound: the index holds no others, and the database has to see that.
pub(crate) const WINDOW_END: Sql = sql!(
    "
select l.died_at, l.id
  from dead_letter_queue l{sqlite  indexed by letters_of_jobs}
 where l.source = 'jobs'
   and l.status = $1{sqlite 
   and l.listed = 1}
   and (l.died_at, l.id) > ($2, $3)
 order by l.died_at, l.id
 limit 1 offset $4"
);

/// Where a look ends at the latest, whatever matches; nothing if so many letters are not left.
pub(crate) async fn window_end(
    conn: &mut impl Conn,
    from: Option<DeathKey>,
    rows: usize,
) -> Result<Option<DeathKey>, StoreError> {
    let (died_at, id) = from.unwrap_or((Time::from_ms(i64::MIN), LetterId::from_bytes([0; 16])));
    let values = binds![Status::Pending, died_at, id, rows.saturating_sub(1)];
    conn.query_opt(&WINDOW_END, values, |row| Ok((row.get("died_at")?, row.get("id")?))).await
}

const RECORDS: Sql = sql!("select rule, switched, replayed, last_at from replay_rules order by rule");

/// Every rule that did something or was switched, by name.
async fn records(conn: &mut impl Conn) -> Result<Vec<RuleRecord>, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(RuleRecord {
            rule: row.get("rule")?,
            switched: row.get("switched")?,
            replayed: row.get("replayed")?,
            last_at: row.get("last_at")?,
        })
    };
    conn.query(&RECORDS, &[], read).await
}

const SWITCH: Sql = sql!(
    "
insert into replay_rules (rule, switched)
values ($1, $2)
on conflict (rule)
do update set switched = excluded.switched"
);

async fn switch(tx: &mut impl Tx, rule: &str, enabled: bool, by: &Actor, at: Time) -> Result<(), StoreError> {
    tx.execute(&SWITCH, binds![rule, enabled]).await?;
    let action = if enabled { "rule_enabled" } else { "rule_disabled" };
    tx.add_audit(&NewEntry { reason: Some(rule), ..NewEntry::new(by, action, at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_before_another_is_the_last_before_it() {
        let key = |at, id: [u8; 16]| (Time::from_ms(at), LetterId::from_bytes(id));
        assert_eq!(before(key(7, [0; 16])), key(6, [u8::MAX; 16]));
        assert_eq!(before(key(7, 256_u128.to_be_bytes())), key(7, 255_u128.to_be_bytes()));
    }
}
