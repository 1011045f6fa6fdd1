//! Letters that a replay rule may put back, found and looked into.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;

use super::cell::{Cells, clean};
use super::conn::{Binds, Conn};
use super::filter::Where;
use super::{letters, scan};
use crate::StoreError;
use crate::engine::operations::DeathKey;
use crate::engine::replays::Candidate;
use crate::replay::ReplayQuery;

/// The letters of a round behind a place and up to another, in the order of their deaths, that the rule has not put back
/// as often as it may.
pub(super) async fn candidates(
    conn: &Conn,
    query: &ReplayQuery,
    between: (Option<DeathKey>, Option<DeathKey>),
    rows: usize,
) -> Result<Vec<Candidate>, StoreError> {
    let (sql, binds) = candidates_sql(conn, query, between, rows).await?;
    let mut found = Vec::new();
    for row in conn.ask(&sql, &binds).await? {
        let key = (row.time(0)?, LetterId::from_bytes(row.id(1)?));
        found.push(Candidate { key, life: row.small(2)? });
    }
    Ok(found)
}

async fn candidates_sql(
    conn: &Conn,
    query: &ReplayQuery,
    (from, end): (Option<DeathKey>, Option<DeathKey>),
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
            let (died_at, id) = (binds.time(died_at), binds.id(*id.bytes()));
            sql.push_str(&format!(" and (l.died_at, l.id) {comparison} ({died_at}, {id})"));
        }
    }
    let limit = binds.long(rows as i64);
    sql.push_str(&format!(" order by l.died_at, l.id limit {limit}"));
    Ok((sql, binds))
}

/// The first candidates whose content is what the filter asks for, and how many were looked at for it: until there are
/// enough, or the time is over.
pub(super) async fn match_content(
    conn: &Conn,
    filter: &Filter,
    candidates: &[Candidate],
    limit: usize,
) -> Result<(Vec<Candidate>, usize), StoreError> {
    let until = Instant::now() + Duration::from_millis(limits::REPLAY_SCAN_MS_MAX);
    let (mut given, mut looked_at) = (Vec::new(), 0);
    for stretch in candidates.chunks(limits::SCAN_LETTERS_PER_READ as usize) {
        let lives: Vec<(LetterId, u32)> = stretch.iter().map(|one| (one.key.1, one.life)).collect();
        let mut contents = pin!(scan::contents(conn, &lives).await?);
        for (candidate, n) in stretch.iter().zip(1_i64..) {
            // At least one is looked at, so that every look gets somewhere.
            if given.len() >= limit || (looked_at > 0 && Instant::now() > until) {
                return Ok((given, looked_at));
            }
            let row = contents.try_next().await?.filter(|row| row.cell::<i64>(0).is_ok_and(|of| of == n));
            let Some(row) = row else {
                let (letter, life) = (candidate.key.1, candidate.life);
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

#[cfg(test)]
mod tests;
