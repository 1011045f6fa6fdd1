//! Redrives and their letters, as lists show them.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::row::{self, COLUMNS, LETTER_COLUMNS, WIDTH};
use crate::StoreError;
use crate::claim::ClaimFence;
use crate::job::SOURCE;
use crate::redrive::{Redrive, RedriveLetter, RedriveQuery, SentLetter};

pub(super) fn one(conn: &Connection, id: RedriveId) -> Result<Option<Redrive>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let found = row::find(conn, id)?.map(|run| run.redrive);
    drop(snapshot);
    Ok(found)
}

/// The newest first.
pub(super) fn page(conn: &Connection, query: &RedriveQuery) -> Result<Vec<Redrive>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let mut conditions = vec!["1".to_owned()];
    let mut binds = Vec::new();
    for (column, values) in [
        ("state", query.states.iter().map(|state| state.name()).collect::<Vec<_>>()),
        ("kind", query.kinds.iter().map(|kind| kind.name()).collect()),
    ] {
        if !values.is_empty() {
            conditions.push(format!("r.{column} in ({})", vec!["?"; values.len()].join(", ")));
            binds.extend(values.into_iter().map(|value| Value::Text(value.to_owned())));
        }
    }
    if let Some(incident) = query.incident {
        conditions.push("r.id in (select g.redrive from redrive_groups g where g.incident = ?)".into());
        binds.push(Value::Blob(incident.bytes().to_vec()));
    }
    if let Some(before) = query.before {
        conditions.push("r.id < ?".into());
        binds.push(Value::Blob(before.bytes().to_vec()));
    }
    binds.push(Value::Integer(query.limit as i64));
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS} from redrives r where {} order by r.id desc limit ?",
        conditions.join(" and ")
    ))?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut page = Vec::new();
    while let Some(row) = found.next()? {
        page.push(row::read(conn, row)?.redrive);
    }
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(page)
}

/// Launched and not over, those that send first, then the oldest. A single retry of a job looks after itself, and a run that
/// stands still with nothing out needs no look.
pub(super) fn unfinished(conn: &Connection, limit: usize) -> Result<Vec<Redrive>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS}
           from redrives r indexed by redrives_unfinished
          where r.launched_at is not null
            and r.finished_at is null
            and (r.kind <> 'single' or r.plan is not null)
            and (r.state in ('canary', 'running', 'verifying', 'cancelled') or r.sent + r.out > 0)
          order by r.state in ('canary', 'running') desc, r.launched_at, r.id
          limit ?1"
    ))?;
    let mut found = statement.query([limit as i64])?;
    let mut unfinished = Vec::new();
    while let Some(row) = found.next()? {
        unfinished.push(row::read(conn, row)?.redrive);
    }
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(unfinished)
}

/// Letters of a redrive after an ordinal; refused ones are shown with their group.
pub(super) fn letters(
    conn: &Connection,
    id: RedriveId,
    outcome: Option<Outcome>,
    after: u64,
    limit: usize,
) -> Result<Vec<RedriveLetter>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let cancelled = row::find(conn, id)?.is_some_and(|run| run.state() == RunState::Cancelled);
    // Written out, because an index that holds only some outcomes is not used for one that is bound.
    let of = outcome.map_or("<> 'refused'".to_owned(), |outcome| format!("= '{}'", outcome.name()));
    let mut statement = conn.prepare_cached(&format!(
        "select {LETTER_COLUMNS}
           from redrive_letters t
          where t.redrive = ?1
            and t.ordinal > ?2
            and t.outcome {of}
          order by t.ordinal
          limit ?3"
    ))?;
    let mut found = statement.query((id.bytes(), after as i64, limit as i64))?;
    let mut letters = Vec::new();
    while let Some(row) = found.next()? {
        let letter = row::letter(row, 0)?;
        let turnless = cancelled && letter.outcome == Outcome::Waiting;
        letters.push(if turnless { RedriveLetter { outcome: Outcome::Cancelled, ..letter } } else { letter });
    }
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(letters)
}

const SENT: &str = "
select t.ordinal, t.grp, t.letter, c.idempotency_key, c.renewals, t.life, l.event_id, t.sent_at, t.handle
  from redrive_letters t
  join claims c on c.letter = t.letter and c.run = t.redrive and c.life = t.life
  join dead_letter_queue l on l.id = t.letter
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where t.redrive = ?1
   and t.ordinal > ?2
   and t.outcome = 'sent'
   and g.detail <> ?4
 order by t.ordinal
 limit ?3";

pub(super) fn sent(
    conn: &Connection,
    id: RedriveId,
    after: u64,
    limit: usize,
) -> Result<Vec<SentLetter>, StoreError> {
    let mut statement = conn.prepare_cached(SENT)?;
    let found = statement.query_map((id.bytes(), after as i64, limit as i64, SOURCE), |row| {
        Ok(SentLetter {
            ordinal: row.get::<_, i64>(0)? as u64,
            group: row.get(1)?,
            claim: ClaimFence {
                letter: LetterId::from_bytes(row.get(2)?),
                idempotency_key: row.get(3)?,
                renewals: row.get(4)?,
            },
            life: row.get(5)?,
            event_id: row.get(6)?,
            handle: row.get(8)?,
            sent_at: row.get::<_, Option<i64>>(7)?.map(Time::from_ms),
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// What every redrive made of a letter, newest first.
pub(super) fn of_letter(
    conn: &Connection,
    letter: LetterId,
) -> Result<Vec<(Redrive, RedriveLetter)>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let mut statement = conn.prepare_cached(&format!(
        "select {COLUMNS}, {LETTER_COLUMNS}
           from redrive_letters t indexed by redrive_letters_by_letter
           join redrives r on r.id = t.redrive
          where t.letter = ?1
            and t.outcome <> 'refused'
          order by t.redrive desc, t.ordinal desc
          limit ?2"
    ))?;
    let mut found = statement.query((letter.bytes(), limits::PAGE_ROWS as i64))?;
    let mut redrives = Vec::new();
    while let Some(row) = found.next()? {
        redrives.push((row::read(conn, row)?.redrive, row::letter(row, WIDTH)?));
    }
    drop(found);
    drop(statement);
    drop(snapshot);
    Ok(redrives)
}
