//! The letters of an operation: found in order of death, and decided many at once.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use lazaret_core::filter::{Bounds, Filter, When};
use lazaret_core::id::{LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::PostgresStore;
use super::cell::{Cells, Uid};
use super::conn::{Binds, Conn};
use super::failure::{Kind, kind_of, of_search};
use super::filter::Where;
use super::letters;
use super::verdicts::{Listed, carry_out_all};
use super::writer::Write;
use crate::StoreError;
use crate::decision::{Decided, Decision, Operation, Verb};
use crate::engine::holds;
use crate::engine::operations::{self, DeathKey, FrozenChunk, MatchingChunk, moves_content};

/// Letters whose jobs one commit puts back; more than of other decisions, because a few statements do it for all.
const RETRIED_PER_WRITE: usize = 1_000;

/// Letters that one commit decides.
const fn rows_per_write(verb: Verb) -> usize {
    match verb {
        Verb::Retry => RETRIED_PER_WRITE,
        Verb::Resolve
        | Verb::Discard
        | Verb::Reopen
        | Verb::Hold
        | Verb::Release
        | Verb::Delete
        | Verb::Restore => limits::DECISION_ROWS_PER_WRITE,
    }
}

/// A place in the order of deaths.
pub(super) type Key = (Time, [u8; 16]);

/// A letter that dies between two chunks moves behind the place reached and is met again; it stays listed as it was.
const SELECT_LETTERS: &str = "
insert into selections (operation, ordinal, letter, life)
select $1, $2 + row_number() over (order by n.n), n.letter, n.life
  from unnest($3::uuid[], $4::integer[]) with ordinality as n (letter, life, n)
 where not exists (select 1
                     from selections s
                    where s.operation = $1
                      and s.letter = n.letter)";

/// Lists the next letters that match, in order of death behind a place.
pub(super) async fn select_chunk(
    write: &Write,
    operation: &Operation,
    filter: &Filter,
    last: Option<DeathKey>,
) -> Result<FrozenChunk, StoreError> {
    let conn = &write.conn;
    let last = last.map(|(died_at, letter)| (died_at, *letter.bytes()));
    let Chunk { letters, end, complete } = match filter.needs_content() {
        false => matching(conn, filter, operation.opened_at, last, limits::FREEZE_ROWS_PER_WRITE).await?,
        true => looked_into(conn, filter, operation.opened_at, last).await?,
    };
    let ids: Vec<Uid> = letters.iter().map(|(_, letter, _)| Uid(*letter)).collect();
    let lives: Vec<i32> = letters.iter().map(|(_, _, life)| *life).collect();
    let listed = operation.total as i64;
    let key = Uid(*operation.id.bytes());
    let added = conn.execute(SELECT_LETTERS, &[&key, &listed, &ids, &lives]).await?;
    let end = end.map(|(died_at, letter)| (died_at, LetterId::from_bytes(letter)));
    Ok(FrozenChunk { added, end, complete })
}

/// Some letters of a list that is being frozen.
pub(super) struct Chunk {
    /// When it died, the letter, its life.
    pub letters: Vec<(Time, [u8; 16], i32)>,
    /// The last one that was looked at, matching or not.
    pub end: Option<Key>,
    /// Whether there are no more behind it.
    pub complete: bool,
}

/// The next letters that a filter finds by columns alone.
pub(super) async fn matching(
    conn: &Conn,
    filter: &Filter,
    opened_at: Time,
    last: Option<Key>,
    limit: usize,
) -> Result<Chunk, StoreError> {
    let mut binds = Binds::default();
    let asked = Where::of(conn, filter, opened_at, &mut binds).await?;
    let from = letters::from(conn, &asked, &mut binds).await?;
    let opened = binds.time(opened_at);
    let mut sql = format!(
        "select l.died_at, l.id, l.life
           from {from}
          where {}
            and l.created_at <= {opened}",
        asked.sql
    );
    if let Some((died_at, id)) = last {
        let (died_at, id) = (binds.time(died_at), binds.id(id));
        sql.push_str(&format!(" and (l.died_at, l.id) > ({died_at}, {id})"));
    }
    let mark = binds.long(limit as i64);
    sql.push_str(&format!(" order by l.died_at, l.id limit {mark}"));
    let mut letters = Vec::new();
    // It is somebody's search, although it is done by a write.
    for row in conn.ask(&sql, &binds).await.map_err(of_search)? {
        letters.push((row.time(0)?, row.id(1)?, row.cell(2)?));
    }
    let end = letters.last().map(|(died_at, letter, _)| (*died_at, *letter));
    let complete = letters.len() < limit;
    Ok(Chunk { letters, end, complete })
}

const CONTENTS: &str = "
select w.n, v.content_type, v.headers, v.body
  from unnest($1::uuid[], $2::integer[]) with ordinality as w (letter, life, n)
  join lives v on v.letter = w.letter and v.life = w.life
 order by w.n";

/// The next letters that hold what a filter asks for, as far as the time allows to look into them.
pub(super) async fn looked_into(
    conn: &Conn,
    filter: &Filter,
    opened_at: Time,
    last: Option<Key>,
) -> Result<Chunk, StoreError> {
    let until = Instant::now() + Duration::from_millis(limits::FREEZE_SCAN_MS_MAX);
    let mut chunk = Chunk { letters: Vec::new(), end: last, complete: false };
    while !chunk.complete && chunk.letters.len() < limits::FREEZE_ROWS_PER_WRITE {
        // As many as are read without waste if the time is over in their middle.
        let stretch =
            matching(conn, filter, opened_at, chunk.end, limits::SCAN_LETTERS_PER_READ as usize).await?;
        let ids: Vec<Uid> = stretch.letters.iter().map(|(_, letter, _)| Uid(*letter)).collect();
        let lives: Vec<i32> = stretch.letters.iter().map(|(_, _, life)| *life).collect();
        let mut contents = pin!(conn.stream(CONTENTS, &[&ids, &lives]).await?);
        for ((died_at, id, life), n) in stretch.letters.into_iter().zip(1_i64..) {
            let row = contents.try_next().await?;
            let Some(row) = row.filter(|row| row.cell::<i64>(0).is_ok_and(|found| found == n)) else {
                let letter = LetterId::from_bytes(id);
                return Err(StoreError::Corrupt(format!("life {life} of letter {letter} is missing")));
            };
            if filter.matches_content(&letters::envelope(&row, 1)?) {
                chunk.letters.push((died_at, id, life));
            }
            chunk.end = Some((died_at, id));
            if Instant::now() > until {
                return Ok(chunk);
            }
        }
        chunk.complete = stretch.complete;
    }
    Ok(chunk)
}

/// Decides the next chunk of an operation.
pub(super) async fn work_on(
    store: &PostgresStore,
    id: OperationId,
    at: Time,
) -> Result<Operation, StoreError> {
    let work = || {
        store.writer.write_long(limits::DECISION_ROWS_PER_WRITE, (id, at), |write, asked| {
            Box::pin(operations::work(write, asked.0, asked.1))
        })
    };
    match store.months.after(work().await) {
        // What comes back may be of a month that was empty without it.
        Err(error) if kind_of(&error) == Kind::NoMonth => {
            let next = store.readers.read(id, |conn, asked| Box::pin(next_moments(conn, *asked))).await?;
            store.months.ensure(&store.lanes, next.into_iter()).await?;
            store.months.after(work().await)
        }
        result => result,
    }
}

const NEXT: &str = "
select s.letter
  from operations o
  join selections s on s.operation = o.id and s.ordinal > o.done + o.skipped
 where o.id = $1
 order by s.ordinal
 limit $2";

/// When the letters were created that are decided next.
async fn next_moments(conn: &Conn, id: OperationId) -> Result<Vec<Time>, StoreError> {
    let next = conn.query(NEXT, &[&Uid(*id.bytes()), &(limits::DECISION_ROWS_PER_WRITE as i64)]).await?;
    next.iter().map(|row| Ok(LetterId::from_bytes(row.id(0)?).at())).collect()
}

const UNDECIDED: &str = "
select ordinal, letter, life
  from selections
 where operation = $1
   and ordinal > $2
 order by ordinal
 limit $3";

const OUTCOMES: &str = "
update selections s
   set outcome = o.outcome
  from unnest($2::bigint[], $3::text[]) as o (ordinal, outcome)
 where s.operation = $1
   and s.ordinal = o.ordinal";

/// Decides the next letters of an operation, many at once.
pub(super) async fn decide_chunk(
    write: &mut Write,
    operation: &Operation,
    decision: &Decision,
) -> Result<(u64, u64), StoreError> {
    let id = operation.id;
    if operation.verb == Verb::Hold {
        holds::open_for_operation(write, id).await?;
    }
    let key = Uid(*id.bytes());
    let decided = (operation.done + operation.skipped) as i64;
    let limit = rows_per_write(operation.verb) as i64;
    let chunk = write.conn.query(UNDECIDED, &[&key, &decided, &limit]).await?;
    let letters: Vec<(LetterId, u32)> = chunk
        .iter()
        .map(|row| Ok((LetterId::from_bytes(row.id(1)?), row.small(2)?)))
        .collect::<Result<_, StoreError>>()?;
    let listed = carry_out_in_time(write, &letters, decision, id).await?;
    let ordinals: Vec<i64> =
        chunk.iter().take(listed.len()).map(|row| row.cell(0)).collect::<Result<_, _>>()?;
    let done = listed.iter().filter(|one| **one == Listed::Decided(Decided::Done)).count() as u64;
    let outcomes: Vec<String> = listed.iter().map(outcome).collect();
    write.conn.execute(OUTCOMES, &[&key, &ordinals, &outcomes]).await?;
    Ok((done, listed.len() as u64 - done))
}

/// Letters whose content is moved at once, before it is asked how long it took.
const MOVED_AT_ONCE: usize = 50;

/// Decides letters, all of them unless what they hold is moved and takes too long; the answers are of the first ones.
async fn carry_out_in_time(
    write: &mut Write,
    letters: &[(LetterId, u32)],
    decision: &Decision,
    operation: OperationId,
) -> Result<Vec<Listed>, StoreError> {
    let at_once = if moves_content(decision.verb) { MOVED_AT_ONCE } else { letters.len().max(1) };
    let until = Instant::now() + Duration::from_millis(limits::DECISION_MS_MAX);
    let mut listed = Vec::with_capacity(letters.len());
    for letters in letters.chunks(at_once) {
        if !listed.is_empty() && Instant::now() > until {
            break;
        }
        listed.extend(carry_out_all(write, letters, decision, operation).await?);
    }
    Ok(listed)
}

/// Why a letter was skipped, if it was not decided.
fn outcome(listed: &Listed) -> String {
    match listed {
        Listed::Decided(Decided::Done) => "done".into(),
        Listed::Decided(Decided::Refused(refused)) => refused.to_string(),
        Listed::Decided(Decided::Unknown) => "the letter is gone".into(),
        Listed::Decided(Decided::NoWayBack) => "its source takes nothing back".into(),
        Listed::Decided(Decided::Replaced) => "another letter has taken its key".into(),
        Listed::OtherLife => "the letter died again meanwhile".into(),
        Listed::HoldEnded => "the hold was released meanwhile".into(),
    }
}

/// Finds the next letters for a standing hold, in order of death.
pub(super) async fn find_to_hold(
    conn: &Conn,
    filter: &Filter,
    held_at: Time,
    last: Option<DeathKey>,
) -> Result<MatchingChunk, StoreError> {
    let (filter, any_time, most) =
        (fixed(filter, held_at), Time::from_ms(i64::MAX), limits::DECISION_ROWS_PER_WRITE);
    let last = last.map(|(died_at, letter)| (died_at, *letter.bytes()));
    let mut chunk = match filter.needs_content() {
        false => matching(conn, &filter, any_time, last, most).await?,
        true => looked_into(conn, &filter, any_time, last).await?,
    };
    if chunk.letters.len() > most {
        chunk.letters.truncate(most);
        chunk.end = chunk.letters.last().map(|(died_at, letter, _)| (*died_at, *letter));
        chunk.complete = false;
    }
    Ok(MatchingChunk {
        letters: chunk.letters.iter().map(|(_, letter, _)| LetterId::from_bytes(*letter)).collect(),
        end: chunk.end.map(|(died_at, letter)| (died_at, LetterId::from_bytes(letter))),
        complete: chunk.complete,
    })
}

/// The filter as it was meant when the hold was placed: times no longer move with the clock.
fn fixed(filter: &Filter, held_at: Time) -> Filter {
    let died = filter.died(held_at);
    Filter {
        since: died.from.map(When::At),
        until: died.until.map(When::At),
        age: Bounds::default(),
        ..filter.clone()
    }
}

/// How long a count may take that sees every letter.
const COUNT_MAX: Duration = Duration::from_secs(60);

/// Counts the letters created by then that match; exactly, unless they are both more than expected and many.
pub(super) async fn count_created_by(
    store: &PostgresStore,
    filter: Filter,
    at: Time,
    expected: u64,
) -> Result<u64, StoreError> {
    let enough = expected.max(limits::COUNT_ROWS_MAX) + 1;
    if !filter.needs_content() {
        return store
            .readers
            .snapshot_within(COUNT_MAX, (filter, at, enough), |conn, asked| {
                Box::pin(count_rows(conn, &asked.0, asked.1, asked.2))
            })
            .await;
    }
    let (mut found, mut last) = (0, None);
    loop {
        let chunk = store
            .readers
            .read((filter.clone(), at, last), |conn, asked| {
                Box::pin(looked_into(conn, &asked.0, asked.1, asked.2))
            })
            .await?;
        found += chunk.letters.len() as u64;
        last = chunk.end;
        if chunk.complete || found >= enough {
            return Ok(found);
        }
    }
}

async fn count_rows(conn: &Conn, filter: &Filter, at: Time, enough: u64) -> Result<u64, StoreError> {
    let mut binds = Binds::default();
    let asked = Where::of(conn, filter, at, &mut binds).await?;
    let from = letters::from(conn, &asked, &mut binds).await?;
    let (at, limit) = (binds.time(at), binds.long(enough as i64));
    let sql = format!(
        "select count(*)
           from (select 1 from {from} where {} and l.created_at <= {at} limit {limit}) found",
        asked.sql
    );
    conn.ask(&sql, &binds).await?.first().map_or(Ok(0), |row| row.count(0))
}
