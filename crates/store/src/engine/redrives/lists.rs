//! Redrives and their letters, as lists show them. Asked within a snapshot.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};

use super::row::{self, REDRIVE_LETTERS, REDRIVES, Run, add_canaries};
use crate::StoreError;
use crate::claim::ClaimFence;
use crate::job::SOURCE;
use crate::redrive::{Redrive, RedriveLetter, RedriveQuery, SentLetter};
use crate::seam::{Conn, Query, Sql, binds, sql};

pub(super) async fn one(conn: &mut impl Conn, id: RedriveId) -> Result<Option<Redrive>, StoreError> {
    Ok(row::find(conn, id).await?.map(|run| run.redrive))
}

async fn complete(conn: &mut impl Conn, mut runs: Vec<Run>) -> Result<Vec<Redrive>, StoreError> {
    add_canaries(conn, &mut runs).await?;
    Ok(runs.into_iter().map(|run| run.redrive).collect())
}

/// One page, the newest first.
pub(super) async fn page(conn: &mut impl Conn, query: &RedriveQuery) -> Result<Vec<Redrive>, StoreError> {
    let mut asked = Query::new(format!("select {} from redrives r where true", REDRIVES.list));
    if !query.states.is_empty() {
        asked.bind(" and r.state {any $}", query.states.iter().map(|state| state.name()).collect::<Vec<_>>());
    }
    if !query.kinds.is_empty() {
        asked.bind(" and r.kind {any $}", query.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>());
    }
    if let Some(incident) = query.incident {
        asked.bind(" and r.id in (select g.redrive from redrive_groups g where g.incident = $)", incident);
    }
    if let Some(before) = query.before {
        asked.bind(" and r.id < $", before);
    }
    asked.bind(" order by r.id desc limit $", query.limit);
    let runs = conn.ask(&asked, row::read).await?;
    complete(conn, runs).await
}

const UNFINISHED: Sql = sql!(
    "
select {}
  from redrives r{sqlite  indexed by redrives_unfinished}
 where r.launched_at is not null
   and r.finished_at is null
   and (r.kind <> 'single' or r.plan is not null)
   and (r.state in ('canary', 'running', 'verifying', 'cancelled') or r.sent > 0 or r.out > 0)
 order by (r.state in ('canary', 'running')) desc, r.launched_at, r.id
 limit $1",
    REDRIVES
);

/// Launched, not over and with something to look after: those that send first, then the oldest. What stands still with
/// nothing out waits for a person, and a single retry of a job needs no driver.
pub(super) async fn unfinished(conn: &mut impl Conn, limit: usize) -> Result<Vec<Redrive>, StoreError> {
    let runs = conn.query(&UNFINISHED, binds![limit], row::read).await?;
    complete(conn, runs).await
}

/// Letters of a redrive after an ordinal; refused ones are shown with their group.
pub(super) async fn letters(
    conn: &mut impl Conn,
    id: RedriveId,
    outcome: Option<Outcome>,
    after: u64,
    limit: usize,
) -> Result<Vec<RedriveLetter>, StoreError> {
    let cancelled = row::find(conn, id).await?.is_some_and(|run| run.state() == RunState::Cancelled);
    let columns = REDRIVE_LETTERS.list;
    let mut asked = Query::new(format!("select {columns}, t.canary as is_canary from redrive_letters t"));
    asked.bind(" where t.redrive = $", id);
    asked.bind(" and t.ordinal > $", after);
    // Written out, because an index that holds only some outcomes is not used for one that is bound.
    match outcome {
        Some(outcome) => asked.push(&format!(" and t.outcome = '{}'", outcome.name())),
        None => asked.push(" and t.outcome <> 'refused'"),
    }
    asked.bind(" order by t.ordinal limit $", limit);
    let mut letters = conn.ask(&asked, row::letter).await?;
    if cancelled {
        for letter in letters.iter_mut().filter(|letter| letter.outcome == Outcome::Waiting) {
            letter.outcome = Outcome::Cancelled;
        }
    }
    Ok(letters)
}

const SENT: Sql = sql!(
    "
select t.ordinal, t.grp, t.letter, c.idempotency_key, c.renewals, t.life, l.event_id, t.sent_at, t.handle
  from redrive_letters t
  join claims c on c.letter = t.letter and c.run = t.redrive and c.life = t.life
  join dead_letter_queue l on l.id = t.letter{postgres  and l.created_at = uuid_time(t.letter)}
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where t.redrive = $1
   and t.ordinal > $2
   and t.outcome = 'sent'
   and g.detail <> $4
 order by t.ordinal
 limit $3"
);

/// Letters that were sent and are not settled.
pub(super) async fn sent(
    conn: &mut impl Conn,
    id: RedriveId,
    after: u64,
    limit: usize,
) -> Result<Vec<SentLetter>, StoreError> {
    conn.query(&SENT, binds![id, after, limit, SOURCE], |row| {
        Ok(SentLetter {
            ordinal: row.get("ordinal")?,
            group: row.get("grp")?,
            claim: ClaimFence {
                letter: row.get("letter")?,
                idempotency_key: row.get("idempotency_key")?,
                renewals: row.get("renewals")?,
            },
            life: row.get("life")?,
            event_id: row.get("event_id")?,
            sent_at: row.get("sent_at")?,
            handle: row.get("handle")?,
        })
    })
    .await
}

const OF_LETTER: Sql = sql!(
    "
select {}, {}, t.canary as is_canary
  from redrive_letters t{sqlite  indexed by redrive_letters_by_letter}
  join redrives r on r.id = t.redrive
 where t.letter = $1
   and t.outcome <> 'refused'
 order by t.redrive desc, t.ordinal desc
 limit $2",
    REDRIVES,
    REDRIVE_LETTERS
);

/// What every redrive made of a letter, newest first; of one that it joined twice, the last time first.
pub(super) async fn of_letter(
    conn: &mut impl Conn,
    letter: LetterId,
) -> Result<Vec<(Redrive, RedriveLetter)>, StoreError> {
    let read = |row: &crate::seam::Row<'_>| Ok((row::read(row)?, row::letter(row)?));
    let mut found = conn.query(&OF_LETTER, binds![letter, limits::PAGE_ROWS], read).await?;
    add_canaries(conn, found.iter_mut().map(|(run, _)| run)).await?;
    Ok(found.into_iter().map(|(run, letter)| (run.redrive, letter)).collect())
}
