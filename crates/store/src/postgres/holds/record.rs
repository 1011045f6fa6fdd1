//! Reading holds and the letters under them.

use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::rows::unknown;
use crate::StoreError;
use crate::hold::{HoldRecord, HoldState};

/// The columns that `read` reads, in its order. The alias `h` is the holds.
const COLUMNS: &str = "
h.id, h.state, h.standing, h.filter, h.letter, h.reason, h.held_by, h.held_at, h.until, h.released_by, h.released_at,
h.release_reason, h.letters";

fn read(row: &Row) -> Result<HoldRecord, StoreError> {
    let state: &str = row.cell(1)?;
    Ok(HoldRecord {
        id: HoldId::from_bytes(row.id(0)?),
        state: HoldState::parse(state).ok_or_else(|| unknown("hold's state", state))?,
        standing: row.cell(2)?,
        filter: row.cell(3)?,
        letter: row.id_opt(4)?.map(LetterId::from_bytes),
        reason: row.cell(5)?,
        held_by: row.cell(6)?,
        held_at: row.time(7)?,
        until: row.time_opt(8)?,
        released_by: row.cell(9)?,
        released_at: row.time_opt(10)?,
        release_reason: row.cell(11)?,
        letters: row.count(12)?,
    })
}

pub(in crate::postgres) async fn one(conn: &Conn, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
    let sql = format!("select {COLUMNS} from holds h where h.id = $1");
    conn.query_opt(&sql, &[&Uid(*id.bytes())]).await?.map(|row| read(&row)).transpose()
}

/// The last placed first, behind one.
pub(in crate::postgres) async fn page(
    conn: &Conn,
    before: Option<HoldId>,
    ended: bool,
    limit: usize,
) -> Result<Vec<HoldRecord>, StoreError> {
    let only = if ended { "true" } else { "h.state <> 'released'" };
    let sql = format!(
        "select {COLUMNS}
           from holds h
          where {only}
            and (h.held_at, h.id) < (coalesce((select b.held_at from holds b where b.id = $1), $2), $1)
          order by h.held_at desc, h.id desc
          limit $3"
    );
    let (id, at) = before.map_or(([u8::MAX; 16], Time::from_ms(i64::MAX)), |id| (*id.bytes(), id.at()));
    conn.query(&sql, &[&Uid(id), &At(at), &(limit as i64)]).await?.iter().map(read).collect()
}

/// Those that are to be worked on, and those whose time is over; the first placed first.
pub(in crate::postgres) async fn due(conn: &Conn, at: Time) -> Result<Vec<HoldRecord>, StoreError> {
    let sql = format!(
        "select {COLUMNS}
           from holds h
          where h.id in (select id
                           from holds
                          where state in ('placing', 'releasing')
                          union all
                         select id
                           from holds
                          where state = 'standing'
                            and until <= $1)
          order by h.held_at, h.id
          limit $2"
    );
    conn.query(&sql, &[&At(at), &(limits::HOLDS_DUE_MAX as i64)]).await?.iter().map(read).collect()
}

/// The holds that a letter is under, oldest first.
pub(in crate::postgres) async fn of_letter(
    conn: &Conn,
    letter: LetterId,
) -> Result<Vec<HoldRecord>, StoreError> {
    let sql = format!(
        "select {COLUMNS}
           from hold_letters u
           join holds h on h.id = u.hold
          where u.letter = $1
          order by h.held_at, h.id
          limit $2"
    );
    let limit = limits::HOLDS_SHOWN_MAX as i64;
    conn.query(&sql, &[&Uid(*letter.bytes()), &limit]).await?.iter().map(read).collect()
}

const LETTERS: &str = "
select letter
  from hold_letters
 where hold = $1
   and ($2::uuid is null or letter > $2)
 order by letter
 limit $3";

/// Letters under a hold, by id, behind one.
pub(in crate::postgres) async fn letters(
    conn: &Conn,
    id: HoldId,
    after: Option<LetterId>,
    limit: usize,
) -> Result<Vec<LetterId>, StoreError> {
    let after = after.map(|letter| Uid(*letter.bytes()));
    let found = conn.query(LETTERS, &[&Uid(*id.bytes()), &after, &(limit as i64)]).await?;
    found.iter().map(|row| Ok(LetterId::from_bytes(row.id(0)?))).collect()
}

/// Numbers that are not those of their rows, letters that are under a hold that is over, letters that do not show what
/// they are under, and holds of letters that are not there.
const WRONG: &str = "
with shown as (select distinct on (u.letter) u.letter, h.held_at, h.held_by, h.reason
                 from hold_letters u
                 join holds h on h.id = u.hold
                order by u.letter, h.held_at, h.id),
     kept as (select id, held_at, held_by, hold_reason
                from dead_letter_queue
               union all
              select id, held_at, held_by, hold_reason
                from archive
               where place = $1)
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
            or k.held_at is distinct from s.held_at
            or coalesce(k.held_by, '') <> coalesce(s.held_by, '')
            or coalesce(k.hold_reason, '') <> coalesce(s.reason, ''))";

/// How much of what is kept of holds contradicts itself.
pub(in crate::postgres) async fn wrong(conn: &Conn) -> Result<u64, StoreError> {
    conn.query_one(WRONG, &[&Place::Archived.name()]).await?.count(0)
}
