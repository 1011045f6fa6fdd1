//! Redrives and their letters, as lists show them. Asked within a snapshot.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RedriveKind, RunState};

use super::super::cell::{Cells, Uid};
use super::super::conn::{Binds, Conn};
use super::row::{self, COLUMNS, LETTER_COLUMNS, Run, WIDTH};
use crate::StoreError;
use crate::claim::ClaimFence;
use crate::job::SOURCE;
use crate::redrive::{Redrive, RedriveLetter, RedriveQuery, SentLetter};

pub(super) async fn one(conn: &Conn, id: RedriveId) -> Result<Option<Redrive>, StoreError> {
    Ok(row::find(conn, id).await?.map(|run| run.redrive))
}

fn redrives(runs: Vec<Run>) -> Vec<Redrive> {
    runs.into_iter().map(|run| run.redrive).collect()
}

/// The newest first.
pub(super) async fn page(conn: &Conn, query: &RedriveQuery) -> Result<Vec<Redrive>, StoreError> {
    let mut binds = Binds::default();
    let mut conditions = vec!["true".to_owned()];
    if !query.states.is_empty() {
        let states = binds.texts(query.states.iter().map(|state| RunState::name(*state).into()).collect());
        conditions.push(format!("r.state = any({states})"));
    }
    if !query.kinds.is_empty() {
        let kinds = binds.texts(query.kinds.iter().map(|kind| RedriveKind::name(*kind).into()).collect());
        conditions.push(format!("r.kind = any({kinds})"));
    }
    if let Some(incident) = query.incident {
        let incident = binds.id(*incident.bytes());
        conditions
            .push(format!("r.id in (select g.redrive from redrive_groups g where g.incident = {incident})"));
    }
    if let Some(before) = query.before {
        let before = binds.id(*before.bytes());
        conditions.push(format!("r.id < {before}"));
    }
    let limit = binds.long(query.limit as i64);
    let conditions = conditions.join(" and ");
    let sql = format!("select {COLUMNS} from redrives r where {conditions} order by r.id desc limit {limit}");
    let found = conn.ask(&sql, &binds).await?;
    Ok(redrives(row::read_all(conn, &found).await?))
}

/// Launched, not over and with something to look after: those that send first, then the oldest. What stands still with
/// nothing out waits for a person, and a single retry of a job looks after itself.
pub(super) async fn unfinished(conn: &Conn, limit: usize) -> Result<Vec<Redrive>, StoreError> {
    let sql = format!(
        "select {COLUMNS}
           from redrives r
          where r.launched_at is not null
            and r.finished_at is null
            and (r.kind <> 'single' or r.plan is not null)
            and (r.state in ('canary', 'running', 'verifying', 'cancelled') or r.sent > 0 or r.out > 0)
          order by (r.state in ('canary', 'running')) desc, r.launched_at, r.id
          limit $1"
    );
    let found = conn.query(&sql, &[&(limit as i64)]).await?;
    Ok(redrives(row::read_all(conn, &found).await?))
}

/// Letters of a redrive after an ordinal; refused ones are shown with their group.
pub(super) async fn letters(
    conn: &Conn,
    id: RedriveId,
    outcome: Option<Outcome>,
    after: u64,
    limit: usize,
) -> Result<Vec<RedriveLetter>, StoreError> {
    let cancelled = row::find(conn, id).await?.is_some_and(|run| run.state() == RunState::Cancelled);
    // The outcome is part of the statement: the index of open rows is of use to none that takes it as a parameter.
    let of_outcome = outcome.map_or("true".to_owned(), |outcome| format!("t.outcome = '{}'", outcome.name()));
    let sql = format!(
        "select {LETTER_COLUMNS}
           from redrive_letters t
          where t.redrive = $1
            and t.ordinal > $2
            and t.outcome <> 'refused'
            and {of_outcome}
          order by t.ordinal
          limit $3"
    );
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let found = conn.query(&sql, &[&Uid(*id.bytes()), &after, &(limit as i64)]).await?;
    let mut letters = Vec::with_capacity(found.len());
    for row in &found {
        let letter = row::letter(row, 0)?;
        let turnless = cancelled && letter.outcome == Outcome::Waiting;
        letters.push(if turnless { RedriveLetter { outcome: Outcome::Cancelled, ..letter } } else { letter });
    }
    Ok(letters)
}

const SENT: &str = "
select t.ordinal, t.grp, t.letter, c.idempotency_key, c.renewals, t.life, l.event_id, t.sent_at, t.handle
  from redrive_letters t
  join claims c on c.letter = t.letter and c.run = t.redrive and c.life = t.life
  join dead_letter_queue l on l.id = t.letter and l.created_at = uuid_time(t.letter)
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where t.redrive = $1
   and t.ordinal > $2
   and t.outcome = 'sent'
   and g.detail <> $4
 order by t.ordinal
 limit $3";

pub(super) async fn sent(
    conn: &Conn,
    id: RedriveId,
    after: u64,
    limit: usize,
) -> Result<Vec<SentLetter>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut sent = Vec::new();
    for row in conn.query(SENT, &[&Uid(*id.bytes()), &after, &(limit as i64), &SOURCE]).await? {
        sent.push(SentLetter {
            ordinal: row.count(0)?,
            group: row.small(1)?,
            claim: ClaimFence {
                letter: LetterId::from_bytes(row.id(2)?),
                idempotency_key: row.cell(3)?,
                renewals: row.small(4)?,
            },
            life: row.small(5)?,
            event_id: row.cell(6)?,
            handle: row.cell(8)?,
            sent_at: row.time_opt(7)?,
        });
    }
    Ok(sent)
}

/// What every redrive made of a letter, newest first.
pub(super) async fn of_letter(
    conn: &Conn,
    letter: LetterId,
) -> Result<Vec<(Redrive, RedriveLetter)>, StoreError> {
    let sql = format!(
        "select {COLUMNS}, {LETTER_COLUMNS}
           from redrive_letters t
           join redrives r on r.id = t.redrive
          where t.letter = $1
            and t.outcome <> 'refused'
          order by t.redrive desc, t.life desc
          limit $2"
    );
    let found = conn.query(&sql, &[&Uid(*letter.bytes()), &(limits::PAGE_ROWS as i64)]).await?;
    let mut of_letter = Vec::with_capacity(found.len());
    for (run, row) in row::read_all(conn, &found).await?.into_iter().zip(&found) {
        of_letter.push((run.redrive, row::letter(row, WIDTH)?));
    }
    Ok(of_letter)
}
