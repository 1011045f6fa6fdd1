//! Placing holds: on one letter, on the letters that a filter finds, or on those and all to come.

use std::sync::Arc;
use std::time::Duration;

use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::letter::Hold;
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::super::PostgresStore;
use super::super::audit::{self, NewEntry};
use super::super::cell::{At, Cells, Uid, clean};
use super::super::conn::{Binds, Conn};
use super::super::filter::Where;
use super::super::insert::column;
use super::super::letters;
use super::super::operations::looked_into;
use super::super::writer::Write;
use super::verbs::find;
use super::{record, show, tell};
use crate::StoreError;
use crate::decision::{Decision, Expected, NewOperation, Operation, OperationState, Verb};
use crate::engine::operations;
use crate::hold::{HoldOn, HoldPlaced, HoldState, NewHold};

/// Placing one that is there already changes nothing: whoever was not answered asks again.
pub(in crate::postgres) async fn place(
    store: &PostgresStore,
    hold: NewHold,
) -> Result<HoldPlaced, StoreError> {
    match &hold.on {
        HoldOn::Letter(letter) => {
            let letter = *letter;
            let placing = store.writer.write_of(letter, (hold, letter), |write, asked| {
                Box::pin(place_on_letter(write, &asked.0, asked.1))
            });
            placing.await
        }
        HoldOn::Filter { filter, expected } => {
            let (filter, expected) = (filter.clone(), *expected);
            place_on_list(store, hold, filter, expected).await
        }
        // Nobody is storing a letter just now that has not been told of it.
        HoldOn::Standing(filter) => {
            let filter = filter.to_string();
            let placing = store.writer.write_alone(1, (hold, filter), |write, asked| {
                Box::pin(place_standing(write, &asked.0, &asked.1))
            });
            placing.await
        }
    }
}

/// A hold on one letter.
pub(super) struct Single<'a> {
    pub id: HoldId,
    pub letter: LetterId,
    pub reason: &'a str,
    pub by: &'a str,
    pub at: Time,
    pub until: Option<Time>,
}

const ADD_SINGLE: &str = "
insert into holds (id, state, standing, letter, reason, held_by, held_at, until, letters)
select s.id, 'standing', false, s.letter, s.reason, s.by, s.at, s.until, 1
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
    as s (id, letter, reason, by, at, until)";

const ADD_SINGLE_LETTER: &str = "
insert into hold_letters (letter, hold)
select s.letter, s.id
  from unnest($1::uuid[], $2::uuid[]) as s (id, letter)";

/// Adds holds on letters that are held still; what is seen of them there is up to the caller.
pub(super) async fn add_single(write: &Write, holds: &[Single<'_>]) -> Result<(), StoreError> {
    let ids = column(holds, |hold| Uid(*hold.id.bytes()));
    let letters = column(holds, |hold| Uid(*hold.letter.bytes()));
    write
        .conn
        .execute(
            ADD_SINGLE,
            &[
                &ids,
                &letters,
                &column(holds, |hold| clean(hold.reason)),
                &column(holds, |hold| clean(hold.by)),
                &column(holds, |hold| At(hold.at)),
                &column(holds, |hold| hold.until.map(At)),
            ],
        )
        .await?;
    write.conn.execute(ADD_SINGLE_LETTER, &[&ids, &letters]).await?;
    Ok(())
}

/// Gives letters that were held where they come from a hold of their own, which their columns tell of already.
pub(in crate::postgres) async fn imported(
    write: &Write,
    letters: &[(LetterId, &Hold)],
) -> Result<(), StoreError> {
    if letters.is_empty() {
        return Ok(());
    }
    let mut holds = Vec::with_capacity(letters.len());
    for (letter, Hold { at, by, reason }) in letters {
        let id = HoldId::mint(*at, write.entropy.take()?);
        holds.push(Single { id, letter: *letter, reason, by, at: *at, until: None });
    }
    add_single(write, &holds).await
}

async fn is_there(conn: &Conn, id: HoldId) -> Result<bool, StoreError> {
    Ok(record::one(conn, id).await?.is_some())
}

async fn place_on_letter(
    write: &mut Write,
    hold: &NewHold,
    letter: LetterId,
) -> Result<HoldPlaced, StoreError> {
    if is_there(&write.conn, hold.id).await? {
        return Ok(HoldPlaced::Placed);
    }
    match find(write, letter).await? {
        Some(standing) if standing.after(Action::Hold).is_ok() => {}
        Some(_) | None => return Ok(HoldPlaced::Unknown),
    }
    let NewHold { id, reason, until, by, at, on: _ } = hold;
    let single = Single { id: *id, letter, reason, by: &by.name, at: *at, until: *until };
    add_single(write, &[single]).await?;
    show(write, &[letter], Some(*at)).await?;
    tell(write, Verb::Hold, letter, *id, &by.name, *at)?;
    enter(write, hold, Some(letter), None, 1)?;
    Ok(HoldPlaced::Placed)
}

fn enter(
    write: &mut Write,
    hold: &NewHold,
    letter: Option<LetterId>,
    filter: Option<&str>,
    count: u64,
) -> Result<(), StoreError> {
    let entry = NewEntry {
        at: hold.at,
        actor: &hold.by,
        action: Verb::Hold.name(),
        letter,
        operation: None,
        incident: None,
        redrive: None,
        filter,
        count,
        reason: Some(&hold.reason),
    };
    audit::add(write, &entry)
}

const ADD: &str = "
insert into holds (id, state, standing, filter, reason, held_by, held_at, until)
values ($1, $2, $3, $4, $5, $6, $7, $8)";

/// Whether a hold is also for letters to come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Listed,
    ToCome,
}

/// Adds a hold on what a filter finds.
async fn add(
    write: &Write,
    hold: &NewHold,
    state: HoldState,
    reach: Reach,
    filter: &str,
) -> Result<(), StoreError> {
    write
        .conn
        .execute(
            ADD,
            &[
                &Uid(*hold.id.bytes()),
                &state.name(),
                &(reach == Reach::ToCome),
                &clean(filter),
                &clean(&hold.reason),
                &clean(&hold.by.name),
                &At(hold.at),
                &hold.until.map(At),
            ],
        )
        .await?;
    Ok(())
}

const STANDING: &str = "
select count(*)
  from holds
 where standing
   and state in ('placing', 'standing')";

async fn place_standing(write: &mut Write, hold: &NewHold, filter: &str) -> Result<HoldPlaced, StoreError> {
    if is_there(&write.conn, hold.id).await? {
        return Ok(HoldPlaced::Placed);
    }
    if write.conn.query_one(STANDING, &[]).await?.count(0)? >= limits::STANDING_HOLDS_MAX as u64 {
        return Ok(HoldPlaced::TooMany);
    }
    add(write, hold, HoldState::Placing, Reach::ToCome, filter).await?;
    enter(write, hold, None, Some(filter), 0)?;
    Ok(HoldPlaced::Placed)
}

/// Takes the letters down as an operation does, under the hold's own id: what is worked off on the list is to hold them,
/// and the history of each tells of it. What moves afterwards is held all the same.
async fn place_on_list(
    store: &PostgresStore,
    hold: NewHold,
    filter: Filter,
    expected: u64,
) -> Result<HoldPlaced, StoreError> {
    let (id, at) = (OperationId::from_bytes(*hold.id.bytes()), hold.at);
    let hold = Arc::new(hold);
    let asked = (Arc::clone(&hold), filter.clone(), expected);
    let opened =
        store.writer.write(1, asked, |write, asked| Box::pin(open(write, &asked.0, &asked.1, asked.2)));
    if opened.await? == Opened::Before {
        return Ok(HoldPlaced::Placed);
    }
    let frozen = loop {
        let weight = limits::FREEZE_ROWS_PER_WRITE;
        let asked = (id, Arc::clone(&hold));
        let frozen =
            store.writer.write_long(weight, asked, |write, asked| Box::pin(freeze(write, asked.0, &asked.1)));
        let frozen = frozen.await?;
        match frozen.state {
            OperationState::Freezing => {}
            OperationState::Working | OperationState::Done => return Ok(HoldPlaced::Placed),
            OperationState::Refused => break frozen,
        }
    };
    operations::drop_lists(store).await?;
    if frozen.total <= expected {
        return Ok(HoldPlaced::Count(frozen.total));
    }
    // The list ended as soon as it was too long.
    count(store, &filter, at, expected).await.map(HoldPlaced::Count)
}

/// Whether somebody asked for the same hold before, and was not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    Now,
    Before,
}

async fn open(
    write: &mut Write,
    hold: &NewHold,
    filter: &Filter,
    expected: u64,
) -> Result<Opened, StoreError> {
    if is_there(&write.conn, hold.id).await? {
        return Ok(Opened::Before);
    }
    let decision = Decision {
        verb: Verb::Hold,
        actor: hold.by.clone(),
        reason: Some(hold.reason.clone()),
        at: hold.at,
        from: None,
        floor_ms: None,
    };
    let id = OperationId::from_bytes(*hold.id.bytes());
    let expected = Expected::Exactly(expected);
    let operation = NewOperation { id, decision, filter: filter.clone(), expected };
    operations::open(write, &operation).await?;
    Ok(Opened::Now)
}

/// Takes down the next letters; with the last of them the hold is in force.
async fn freeze(write: &mut Write, id: OperationId, hold: &NewHold) -> Result<Operation, StoreError> {
    let frozen = operations::freeze(write, id).await?;
    let state = match frozen.state {
        OperationState::Freezing | OperationState::Refused => return Ok(frozen),
        OperationState::Working => HoldState::Placing,
        OperationState::Done => HoldState::Standing,
    };
    add(write, hold, state, Reach::Listed, &frozen.filter).await?;
    Ok(frozen)
}

/// How long a count may take that sees every letter.
const COUNT_MAX: Duration = Duration::from_secs(60);

/// How many letters match that were there; exactly, unless they are both more than expected and many.
async fn count(store: &PostgresStore, filter: &Filter, at: Time, expected: u64) -> Result<u64, StoreError> {
    let enough = expected.max(limits::COUNT_ROWS_MAX) + 1;
    if !filter.needs_content() {
        return store
            .readers
            .snapshot_within(COUNT_MAX, (filter.clone(), at, enough), |conn, asked| {
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
