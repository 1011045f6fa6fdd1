//! Holds: placed on letters, shown on them, and asked for letters that come in.
//!
//! What a letter's own columns say of a hold is the oldest of `hold_letters`, written by whoever changes those with the
//! letter held still. Whether a hold is in force is read without a lock: a hold that several letters may come under is
//! placed for good and ended only while nobody else writes.

mod place;
pub(super) mod record;
pub(super) mod standing;
mod totals;
mod verbs;
pub(super) mod work;

use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::lifecycle::Place;
use lazaret_core::time::Time;

use super::cell::{At, Bind, Cells, Uid};
use super::conn::Conn;
use super::events::{self, NewEvent};
use super::writer::Write;
use crate::StoreError;
use crate::decision::Verb;

pub(super) use place::{imported, place};
pub(super) use standing::came_back;
pub(super) use totals::Totals;
pub(super) use verbs::{hold, hold_all, hold_gone, open_for, release, release_all, stands};

const ADD_LETTERS: &str = "
insert into hold_letters (letter, hold)
select u.letter, u.hold
  from unnest($1::uuid[], $2::uuid[]) as u (letter, hold)
on conflict (letter, hold) do nothing
returning letter, hold";

/// Puts letters that are held still under holds; returns those that were not yet. The holds' numbers follow at the end of
/// the transaction.
async fn put_under(
    write: &mut Write,
    under: &[(LetterId, HoldId)],
) -> Result<Vec<(LetterId, HoldId)>, StoreError> {
    let letters: Vec<Uid> = under.iter().map(|(letter, _)| Uid(*letter.bytes())).collect();
    let holds: Vec<Uid> = under.iter().map(|(_, hold)| Uid(*hold.bytes())).collect();
    let mut added = Vec::with_capacity(under.len());
    for row in write.conn.query(ADD_LETTERS, &[&letters, &holds]).await? {
        let (letter, hold) = (LetterId::from_bytes(row.id(0)?), HoldId::from_bytes(row.id(1)?));
        write.holds.count(hold, 1);
        added.push((letter, hold));
    }
    Ok(added)
}

/// The oldest hold of each letter, or nothing.
const OLDEST: &str = "
select m.letter, m.begun_at, o.held_at, o.held_by, o.reason
  from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at)
  left join lateral (select h.held_at, h.held_by, h.reason
                       from hold_letters u
                       join holds h on h.id = u.hold
                      where u.letter = m.letter
                      order by h.held_at, h.id
                      limit 1) o on true";

/// Writes on letters that are held still which hold they are under, the oldest of all; returns those that are free. A
/// letter counts as changed at `at`, if that is told.
pub(super) async fn show(
    write: &Write,
    letters: &[LetterId],
    at: Option<Time>,
) -> Result<Vec<LetterId>, StoreError> {
    if letters.is_empty() {
        return Ok(Vec::new());
    }
    let live = format!(
        "update dead_letter_queue l
            set held_at = s.held_at, held_by = s.held_by, hold_reason = s.reason,
                updated_at = coalesce($3, l.updated_at)
           from ({OLDEST}) s
          where l.id = s.letter
            and l.created_at = s.begun_at
        returning l.id, l.held_at is null"
    );
    let mut shown = write_shown(&write.conn, &live, letters, &[&at.map(At)]).await?;
    if shown.len() < letters.len() {
        let archived = format!(
            "update archive a
                set held_at = s.held_at, held_by = s.held_by, hold_reason = s.reason
               from ({OLDEST}) s
              where a.id = s.letter
                and a.place = $3
            returning a.id, a.held_at is null"
        );
        shown.extend(write_shown(&write.conn, &archived, letters, &[&Place::Archived.name()]).await?);
    }
    Ok(shown.into_iter().filter(|(_, free)| *free).map(|(letter, _)| letter).collect())
}

async fn write_shown(
    conn: &Conn,
    sql: &str,
    letters: &[LetterId],
    more: &[Bind<'_>],
) -> Result<Vec<(LetterId, bool)>, StoreError> {
    let (ids, begun_at): (Vec<Uid>, Vec<At>) =
        letters.iter().map(|letter| (Uid(*letter.bytes()), At(letter.at()))).unzip();
    let mut binds: Vec<Bind<'_>> = vec![&ids, &begun_at];
    binds.extend(more);
    let rows = conn.query(sql, &binds).await?;
    rows.iter().map(|row| Ok((LetterId::from_bytes(row.id(0)?), row.cell(1)?))).collect()
}

/// Tells of a letter that came under a hold, or of one that is free.
fn tell(
    write: &mut Write,
    verb: Verb,
    letter: LetterId,
    hold: HoldId,
    by: &str,
    at: Time,
) -> Result<(), StoreError> {
    let event = NewEvent {
        at,
        kind: verb.event(),
        letter: Some(letter),
        actor: Some(by),
        detail: Some(format!("{{\"hold\":\"{hold}\"}}")),
        ..NewEvent::default()
    };
    events::add(write, &event)
}
