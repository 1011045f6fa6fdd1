//! Holds: who keeps which letters, and the letters that are under each.
//!
//! What a letter shows of its hold is the oldest of `hold_letters`, written by the commit that changes those with the letter
//! locked, and by nothing else: a letter that shows none is under none. The statements that remove letters ask what it
//! shows. Whether a hold is in force is read without a lock: a hold that several letters may come under is placed for good
//! and ended only while nobody else writes. Standing holds are asked for letters that come in by the stores themselves.

mod place;
mod record;
mod verbs;
mod work;

use async_trait::async_trait;
use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::lifecycle::Place;
use lazaret_core::time::Time;

use crate::audit::Actor;
use crate::decision::Verb;
use crate::event::NewEvent;
use crate::hold::{HoldPlaced, HoldRecord, Holds, NewHold};
use crate::seam::{Backend, Row, Sql, Tx, Value, View, sql};
use crate::{Store, StoreError};

pub(crate) use place::add_imported;
#[cfg(feature = "testing")]
pub(super) use record::HOLDS;
pub(crate) use record::{count_contradictions, parse_filter};
pub(crate) use verbs::{
    hold, hold_listed, hold_moved, is_in_force, open_for_operation, release, release_listed,
};

#[async_trait]
impl<S: Backend + Store> Holds for S {
    async fn place_hold(&self, hold: NewHold) -> Result<HoldPlaced, StoreError> {
        place::place(self, hold).await
    }

    async fn work_hold(&self, id: HoldId, at: Time) -> Result<bool, StoreError> {
        let more = work::work(self, id, at).await?;
        self.after_decision(Verb::Release);
        Ok(more)
    }

    async fn release_hold(
        &self,
        id: HoldId,
        reason: Option<String>,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError> {
        work::release(self, id, reason, by, at).await
    }

    async fn due_holds(&self, at: Time) -> Result<Vec<HoldRecord>, StoreError> {
        self.read(View::Newest, at, |conn, at| Box::pin(record::due(conn, *at))).await
    }

    async fn holds(
        &self,
        before: Option<HoldId>,
        ended: bool,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError> {
        self.read(View::Newest, (before, ended, limit), |conn, (before, ended, limit)| {
            Box::pin(record::page(conn, *before, *ended, *limit))
        })
        .await
    }

    async fn hold(&self, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
        self.read(View::Newest, id, |conn, id| Box::pin(record::one(conn, *id))).await
    }

    async fn hold_letters(
        &self,
        id: HoldId,
        after: Option<LetterId>,
        limit: usize,
    ) -> Result<Vec<LetterId>, StoreError> {
        self.read(View::Newest, (id, after, limit), |conn, (id, after, limit)| {
            Box::pin(record::letters(conn, *id, *after, *limit))
        })
        .await
    }

    async fn holds_of(&self, letter: LetterId) -> Result<Vec<HoldRecord>, StoreError> {
        self.read(View::Newest, letter, |conn, letter| Box::pin(record::of_letter(conn, *letter))).await
    }
}

const PUT_UNDER: Sql = sql!(
    "
insert into hold_letters (letter, hold)
{sqlite values ($1, $2)}{postgres select u.letter, u.hold
  from unnest($1::uuid[], $2::uuid[]) as u (letter, hold)}
on conflict (letter, hold) do nothing
returning letter, hold"
);

/// Puts locked letters under holds; returns those that were not yet.
pub(crate) async fn put_under(
    tx: &mut impl Tx,
    under: &[(LetterId, HoldId)],
) -> Result<Vec<(LetterId, HoldId)>, StoreError> {
    let rows: Vec<Vec<Value<'_>>> =
        under.iter().map(|(letter, hold)| vec![Value::from(*letter), Value::from(*hold)]).collect();
    let added: Vec<(LetterId, HoldId)> =
        tx.query_rows(&PUT_UNDER, &rows, |row| Ok((row.get("letter")?, row.get("hold")?))).await?;
    for chunk in added.chunk_by(|(_, one), (_, other)| one == other) {
        if let Some((_, hold)) = chunk.first() {
            tx.count_held(*hold, chunk.len() as i64).await?;
        }
    }
    Ok(added)
}

const SHOW_LIVE: Sql = sql!(
    "
update dead_letter_queue{postgres  l}
   set {sqlite (held_at, held_by, hold_reason) = (select h.held_at, h.held_by, h.reason
                                               from hold_letters u
                                               join holds h on h.id = u.hold
                                              where u.letter = $1
                                              order by h.held_at, h.id
                                              limit 1), updated_at = coalesce($3, updated_at)
 where id = $1
returning id, held_at is null as is_free}{postgres held_at = o.held_at, held_by = o.held_by, hold_reason = o.reason,
       updated_at = coalesce(m.changed_at, l.updated_at)
  from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) as m (letter, begun_at, changed_at)
  left join lateral (select h.held_at, h.held_by, h.reason
                       from hold_letters u
                       join holds h on h.id = u.hold
                      where u.letter = m.letter
                      order by h.held_at, h.id
                      limit 1) o on true
 where l.id = m.letter
   and l.created_at = m.begun_at
returning l.id, l.held_at is null as is_free}"
);

const SHOW_ARCHIVED: Sql = sql!(
    "
update archive{postgres  a}
   set {sqlite (held_at, held_by, hold_reason) = (select h.held_at, h.held_by, h.reason
                                               from hold_letters u
                                               join holds h on h.id = u.hold
                                              where u.letter = $1
                                              order by h.held_at, h.id
                                              limit 1)
 where id = $1
   and place = $2
returning id, held_at is null as is_free}{postgres held_at = o.held_at, held_by = o.held_by, hold_reason = o.reason
  from unnest($1::uuid[], $2::text[]) as m (letter, place)
  left join lateral (select h.held_at, h.held_by, h.reason
                       from hold_letters u
                       join holds h on h.id = u.hold
                      where u.letter = m.letter
                      order by h.held_at, h.id
                      limit 1) o on true
 where a.id = m.letter
   and a.place = m.place
returning a.id, a.held_at is null as is_free}"
);

/// Writes on locked letters, wherever they are, which hold they are under, the oldest of all; returns those that are free. A
/// letter counts as changed at `at`, if that is told.
pub(crate) async fn show(
    tx: &mut impl Tx,
    letters: &[LetterId],
    at: Option<Time>,
) -> Result<Vec<LetterId>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get("id")?, row.get("is_free")?));
    let live: Vec<Vec<Value<'_>>> = letters
        .iter()
        .map(|letter| vec![Value::from(*letter), Value::from(letter.at()), Value::from(at)])
        .collect();
    let mut shown: Vec<(LetterId, bool)> = tx.query_rows(&SHOW_LIVE, &live, read).await?;
    if shown.len() < letters.len() {
        let archived: Vec<Vec<Value<'_>>> =
            letters.iter().map(|letter| vec![Value::from(*letter), Value::from(Place::Archived)]).collect();
        shown.extend(tx.query_rows(&SHOW_ARCHIVED, &archived, read).await?);
    }
    Ok(shown.into_iter().filter(|(_, is_free)| *is_free).map(|(letter, _)| letter).collect())
}

/// Adds the event of a letter that came under a hold, or that is free.
pub(crate) fn add_hold_event(
    tx: &mut impl Tx,
    verb: Verb,
    letter: LetterId,
    hold: HoldId,
    by: &str,
    at: Time,
) -> Result<(), StoreError> {
    tx.add_event(&NewEvent {
        at,
        kind: verb.event(),
        letter: Some(letter),
        actor: Some(by),
        detail: Some(format!("{{\"hold\":\"{hold}\"}}")),
        ..NewEvent::default()
    })
}
