//! Placing holds: on one letter, on the letters that a filter finds, or on those and all to come.
//!
//! Placing a hold that is there already changes nothing: whoever was not answered asks again.

use std::sync::Arc;

use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId, OperationId};
use lazaret_core::letter::Hold;
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::{add_hold_event, put_under, record, show};
use crate::audit::NewEntry;
use crate::decision::{Decision, Expected, NewOperation, Operation, OperationState, Verb};
use crate::engine::operations;
use crate::hold::{HoldOn, HoldPlaced, HoldState, NewHold};
use crate::seam::{Backend, Lane, Sql, Tx, Value, binds, sql};
use crate::{Store, StoreError};

pub(super) async fn place<S: Backend + Store>(store: &S, hold: NewHold) -> Result<HoldPlaced, StoreError> {
    match hold.on.clone() {
        HoldOn::Letter(letter) => {
            store
                .write(Lane::Letter(letter), (hold, letter), |tx, (hold, letter)| {
                    Box::pin(place_on_letter(tx, hold, *letter))
                })
                .await
        }
        HoldOn::Filter { filter, expected } => place_on_list(store, hold, filter, expected).await,
        // Nobody is storing a letter just now that has not been told of it.
        HoldOn::Standing(filter) => {
            store
                .write(Lane::Alone(1), (hold, filter.to_string()), |tx, (hold, filter)| {
                    Box::pin(place_standing(tx, hold, filter))
                })
                .await
        }
    }
}

const ADD: Sql = sql!(
    "
insert into holds (id, state, standing, filter, letter, reason, held_by, held_at, until)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
);

/// A hold that is about to be written.
pub(super) struct NewRecord<'a> {
    pub id: HoldId,
    pub state: HoldState,
    pub standing: bool,
    pub filter: Option<&'a str>,
    pub letter: Option<LetterId>,
    pub reason: &'a str,
    pub by: &'a str,
    pub at: Time,
    pub until: Option<Time>,
}

impl<'a> NewRecord<'a> {
    fn of(hold: &'a NewHold, state: HoldState) -> NewRecord<'a> {
        NewRecord {
            id: hold.id,
            state,
            standing: false,
            filter: None,
            letter: None,
            reason: &hold.reason,
            by: &hold.by.name,
            at: hold.at,
            until: hold.until,
        }
    }

    pub async fn add(&self, tx: &mut impl Tx) -> Result<(), StoreError> {
        let values = binds![
            self.id,
            self.state,
            self.standing,
            self.filter,
            self.letter,
            self.reason,
            self.by,
            self.at,
            self.until,
        ];
        tx.execute(&ADD, values).await?;
        Ok(())
    }
}

const ADD_OWN: Sql = sql!(
    "
insert into holds (id, state, standing, letter, reason, held_by, held_at, letters)
{sqlite values ($1, 'standing', 0, $2, $3, $4, $5, 1)}{postgres select s.id, 'standing', false, s.letter, s.reason, s.by, s.at, 1
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) as s (id, letter, reason, by, at)}"
);

const ADD_OWN_LETTER: Sql = sql!(
    "
insert into hold_letters (hold, letter)
{sqlite values ($1, $2)}{postgres select s.id, s.letter
  from unnest($1::uuid[], $2::uuid[]) as s (id, letter)}"
);

/// Gives letters that were held where they come from a hold of their own, which their columns tell of already.
pub(crate) async fn add_imported(tx: &mut impl Tx, letters: &[(LetterId, &Hold)]) -> Result<(), StoreError> {
    let (mut holds, mut under) = (Vec::with_capacity(letters.len()), Vec::with_capacity(letters.len()));
    for (letter, Hold { at, by, reason }) in letters {
        let id = HoldId::mint(*at, tx.entropy()?);
        holds.push(vec![
            Value::from(id),
            Value::from(*letter),
            Value::from(reason),
            Value::from(by),
            Value::from(*at),
        ]);
        under.push(vec![Value::from(id), Value::from(*letter)]);
    }
    tx.execute_rows(&ADD_OWN, &holds).await?;
    tx.execute_rows(&ADD_OWN_LETTER, &under).await?;
    Ok(())
}

async fn place_on_letter(
    tx: &mut impl Tx,
    hold: &NewHold,
    letter: LetterId,
) -> Result<HoldPlaced, StoreError> {
    if record::one(tx, hold.id).await?.is_some() {
        return Ok(HoldPlaced::Placed);
    }
    match tx.lock_standing(letter).await? {
        Some(standing) if standing.after(Action::Hold).is_ok() => {}
        Some(_) | None => return Ok(HoldPlaced::Unknown),
    }
    NewRecord { letter: Some(letter), ..NewRecord::of(hold, HoldState::Standing) }.add(tx).await?;
    put_under(tx, &[(letter, hold.id)]).await?;
    show(tx, &[letter], Some(hold.at)).await?;
    add_hold_event(tx, Verb::Hold, letter, hold.id, &hold.by.name, hold.at)?;
    tx.add_audit(&NewEntry { letter: Some(letter), ..entry(hold) })?;
    Ok(HoldPlaced::Placed)
}

fn entry(hold: &NewHold) -> NewEntry<'_> {
    NewEntry { reason: Some(&hold.reason), ..NewEntry::new(&hold.by, Verb::Hold.name(), hold.at) }
}

const COUNT_STANDING: Sql = sql!(
    "
select count(*) as holds
  from holds{sqlite  indexed by holds_catching}
 where standing{sqlite  = 1}
   and state in ('placing', 'standing')"
);

async fn place_standing(tx: &mut impl Tx, hold: &NewHold, filter: &str) -> Result<HoldPlaced, StoreError> {
    if record::one(tx, hold.id).await?.is_some() {
        return Ok(HoldPlaced::Placed);
    }
    let others: u64 = tx.query_one(&COUNT_STANDING, &[], |row| row.get("holds")).await?;
    if others >= limits::STANDING_HOLDS_MAX as u64 {
        return Ok(HoldPlaced::TooMany);
    }
    let record = NewRecord::of(hold, HoldState::Placing);
    NewRecord { standing: true, filter: Some(filter), ..record }.add(tx).await?;
    tx.standing_holds_changed();
    // How many it will hold nobody knows.
    tx.add_audit(&NewEntry { filter: Some(filter), count: 0, ..entry(hold) })?;
    Ok(HoldPlaced::Placed)
}

/// Lists the letters as an operation does, under the hold's own id: what is worked off on the list is to hold them, and the
/// history of each tells of it. What moves afterwards is held all the same.
async fn place_on_list<S: Backend + Store>(
    store: &S,
    hold: NewHold,
    filter: Filter,
    expected: u64,
) -> Result<HoldPlaced, StoreError> {
    let (id, at) = (OperationId::from_bytes(*hold.id.bytes()), hold.at);
    let hold = Arc::new(hold);
    let asked = (Arc::clone(&hold), filter.clone(), expected);
    let is_new = store.write(Lane::Quick(1), asked, |tx, (hold, filter, expected)| {
        Box::pin(open(tx, hold, filter, *expected))
    });
    if !is_new.await? {
        return Ok(HoldPlaced::Placed);
    }
    let frozen = loop {
        let lane = Lane::Long(limits::FREEZE_ROWS_PER_WRITE);
        let frozen =
            store.write(lane, (id, Arc::clone(&hold)), |tx, (id, hold)| Box::pin(freeze(tx, *id, hold)));
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
    let counted = store.count_created_by(filter, at, expected).await?;
    Ok(HoldPlaced::Count(counted.max(frozen.total)))
}

/// Opens the operation of a hold; false if somebody asked for the same hold before, and was not answered.
async fn open(tx: &mut impl Tx, hold: &NewHold, filter: &Filter, expected: u64) -> Result<bool, StoreError> {
    if record::one(tx, hold.id).await?.is_some() {
        return Ok(false);
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
    operations::open(tx, &NewOperation { id, decision, filter: filter.clone(), expected }).await?;
    Ok(true)
}

/// Lists the next letters; with the last of them the hold is in force.
async fn freeze(tx: &mut impl Tx, id: OperationId, hold: &NewHold) -> Result<Operation, StoreError> {
    let frozen = operations::freeze(tx, id).await?;
    let state = match frozen.state {
        OperationState::Freezing | OperationState::Refused => return Ok(frozen),
        OperationState::Working => HoldState::Placing,
        OperationState::Done => HoldState::Standing,
    };
    NewRecord { filter: Some(&frozen.filter), ..NewRecord::of(hold, state) }.add(tx).await?;
    Ok(frozen)
}
