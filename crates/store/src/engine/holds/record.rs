//! Holds as they are read: one, those in order, those that something is to be done with, and whether the rows agree.

use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::hold::HoldRecord;
use crate::seam::{Conn, Row, Sql, Table, binds, sql, table};

pub(in crate::engine) const HOLDS: Table = table!(
    "holds" as "h": "id", "state", "standing", "filter", "letter", "reason", "held_by", "held_at", "until", "released_by",
    "released_at", "release_reason", "letters"
);

fn read(row: &Row<'_>) -> Result<HoldRecord, StoreError> {
    Ok(HoldRecord {
        id: row.get("id")?,
        state: row.get("state")?,
        standing: row.get("standing")?,
        filter: row.get("filter")?,
        letter: row.get("letter")?,
        reason: row.get("reason")?,
        held_by: row.get("held_by")?,
        held_at: row.get("held_at")?,
        until: row.get("until")?,
        released_by: row.get("released_by")?,
        released_at: row.get("released_at")?,
        release_reason: row.get("release_reason")?,
        letters: row.get("letters")?,
    })
}

/// Parses the filter of a hold. One that cannot be read is an error: to go on would let letters go that are held.
pub(crate) fn parse_filter(hold: HoldId, text: &str) -> Result<Filter, StoreError> {
    Filter::from_text(text)
        .map_err(|error| StoreError::Corrupt(format!("the filter of hold {hold} cannot be read: {error}")))
}

const ONE: Sql = sql!("select {} from holds h where h.id = $1", HOLDS);

pub(super) async fn one(conn: &mut impl Conn, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
    conn.query_opt(&ONE, binds![id], read).await
}

const PAGE: Sql = sql!(
    "
select {}
  from holds h{sqlite  indexed by holds_by_time}
 where (h.held_at, h.id) < (coalesce((select b.held_at from holds b where b.id = $1), $2), $1)
 order by h.held_at desc, h.id desc
 limit $3",
    HOLDS
);

const PAGE_IN_FORCE: Sql = sql!(
    "
select {}
  from holds h{sqlite  indexed by holds_in_force}
 where h.state <> 'released'
   and (h.held_at, h.id) < (coalesce((select b.held_at from holds b where b.id = $1), $2), $1)
 order by h.held_at desc, h.id desc
 limit $3",
    HOLDS
);

/// The last placed first, behind one.
pub(super) async fn page(
    conn: &mut impl Conn,
    before: Option<HoldId>,
    ended: bool,
    limit: usize,
) -> Result<Vec<HoldRecord>, StoreError> {
    let sql = if ended { &PAGE } else { &PAGE_IN_FORCE };
    let last = HoldId::from_bytes([u8::MAX; 16]);
    let (id, at) = before.map_or((last, Time::from_ms(i64::MAX)), |id| (id, id.at()));
    conn.query(sql, binds![id, at, limit], read).await
}

const DUE: Sql = sql!(
    "
select {}
  from holds h
 where h.id in (select id
                  from holds{sqlite  indexed by holds_unfinished}
                 where state in ('placing', 'releasing')
                 union all
                select id
                  from holds{sqlite  indexed by holds_by_end}
                 where state = 'standing'
                   and until <= $1)
 order by h.held_at, h.id
 limit $2",
    HOLDS
);

/// Those that end by themselves by then, and those that have letters left to mark or free; oldest first.
pub(super) async fn due(conn: &mut impl Conn, at: Time) -> Result<Vec<HoldRecord>, StoreError> {
    conn.query(&DUE, binds![at, limits::HOLDS_DUE_MAX], read).await
}

const OF_LETTER: Sql = sql!(
    "
select {}
  from hold_letters u
  join holds h on h.id = u.hold
 where u.letter = $1
 order by h.held_at, h.id
 limit $2",
    HOLDS
);

/// Those that a letter is under, oldest first.
pub(super) async fn of_letter(conn: &mut impl Conn, letter: LetterId) -> Result<Vec<HoldRecord>, StoreError> {
    conn.query(&OF_LETTER, binds![letter, limits::HOLDS_SHOWN_MAX], read).await
}

const LETTERS: Sql = sql!(
    "
select letter
  from hold_letters{sqlite  indexed by hold_letters_by_hold}
 where hold = $1
   and letter > $2
 order by letter
 limit $3"
);

/// Letters under a hold, by id, behind one.
pub(super) async fn letters(
    conn: &mut impl Conn,
    id: HoldId,
    after: Option<LetterId>,
    limit: usize,
) -> Result<Vec<LetterId>, StoreError> {
    let after = after.unwrap_or(LetterId::from_bytes([0; 16]));
    conn.query(&LETTERS, binds![id, after, limit], |row| row.get("letter")).await
}

/// Numbers that are not those of their rows, letters that are under a hold that is over, letters that do not show what
/// they are under, and holds of letters that are not there.
const CONTRADICTIONS: Sql = sql!(
    "
with shown as (select letter, held_at, held_by, reason
                 from (select u.letter, h.held_at, h.held_by, h.reason,
                              row_number() over (partition by u.letter order by h.held_at, h.id) as age
                         from hold_letters u
                         join holds h on h.id = u.hold) aged
                where age = 1),
     kept as (select id, held_at, held_by, hold_reason
                from dead_letter_queue{sqlite  indexed by letters_held}
               where held_at is not null
               union all
              select id, held_at, held_by, hold_reason
                from archive
               where held_at is not null
                 and place = $1)
select (select count(*)
          from holds h
          left join (select hold, count(*) as letters
                       from hold_letters
                      group by hold) u on u.hold = h.id
         where h.letters <> coalesce(u.letters, 0))
     + (select count(*)
          from hold_letters u
          join holds h on h.id = u.hold
         where h.state = 'released')
     + (select count(*)
          from kept k
          full join shown s on s.letter = k.id
         where k.id is null
            or s.letter is null
            or k.held_at <> s.held_at
            or coalesce(k.held_by, '') <> s.held_by
            or coalesce(k.hold_reason, '') <> s.reason) as wrong"
);

/// How much of what is kept of holds contradicts itself.
pub(crate) async fn count_contradictions(conn: &mut impl Conn) -> Result<u64, StoreError> {
    conn.query_one(&CONTRADICTIONS, binds![Place::Archived], |row| row.get("wrong")).await
}
