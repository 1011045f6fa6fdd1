//! Holds as they are read: one, those in order, those that something is to be done with, and whether the rows agree.

use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::StoreError;
use crate::hold::{HoldRecord, HoldState};
use crate::sqlite::rows::unknown;

/// The columns that `read` reads, in its order. The alias `h` is the table of holds.
const COLUMNS: &str = "
h.id, h.state, h.standing, h.filter, h.letter, h.reason, h.held_by, h.held_at, h.until, h.released_by, h.released_at,
h.release_reason, h.letters";

fn read(row: &Row<'_>) -> Result<HoldRecord, StoreError> {
    let state: String = row.get(1)?;
    Ok(HoldRecord {
        id: HoldId::from_bytes(row.get(0)?),
        state: HoldState::parse(&state).ok_or_else(|| unknown("hold's state", &state))?,
        standing: row.get(2)?,
        filter: row.get(3)?,
        letter: row.get::<_, Option<[u8; 16]>>(4)?.map(LetterId::from_bytes),
        reason: row.get(5)?,
        held_by: row.get(6)?,
        held_at: Time::from_ms(row.get(7)?),
        until: row.get::<_, Option<i64>>(8)?.map(Time::from_ms),
        released_by: row.get(9)?,
        released_at: row.get::<_, Option<i64>>(10)?.map(Time::from_ms),
        release_reason: row.get(11)?,
        letters: row.get::<_, i64>(12)?.max(0) as u64,
    })
}

fn all(conn: &Connection, sql: &str, binds: impl Params) -> Result<Vec<HoldRecord>, StoreError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = statement.query(binds)?;
    let mut records = Vec::new();
    while let Some(row) = found.next()? {
        records.push(read(row)?);
    }
    Ok(records)
}

pub(in crate::sqlite) fn one(conn: &Connection, id: HoldId) -> Result<Option<HoldRecord>, StoreError> {
    let sql = format!("select {COLUMNS} from holds h where h.id = ?1");
    Ok(all(conn, &sql, [id.bytes()])?.pop())
}

/// The last placed first.
pub(in crate::sqlite) fn page(
    conn: &Connection,
    before: Option<HoldId>,
    ended: bool,
    limit: usize,
) -> Result<Vec<HoldRecord>, StoreError> {
    let (at, id) = match before {
        None => (i64::MAX, [u8::MAX; 16]),
        Some(id) => {
            let at = conn
                .prepare_cached("select held_at from holds where id = ?1")?
                .query_row([id.bytes()], |row| row.get(0))
                .optional()?;
            (at.unwrap_or_else(|| id.at().ms()), *id.bytes())
        }
    };
    all(conn, page_sql(ended).as_str(), (at, id, limit as i64))
}

fn page_sql(ended: bool) -> String {
    let (index, only) = match ended {
        true => ("holds_by_time", "1"),
        false => ("holds_in_force", "h.state <> 'released'"),
    };
    format!(
        "select {COLUMNS}
           from holds h indexed by {index}
          where {only}
            and (h.held_at, h.id) < (?1, ?2)
          order by h.held_at desc, h.id desc
          limit ?3"
    )
}

/// Those that end by themselves by then, and those that have letters left to mark or free; oldest first.
pub(in crate::sqlite) fn due(conn: &Connection, at: Time) -> Result<Vec<HoldRecord>, StoreError> {
    let sql = format!(
        "select {COLUMNS}
           from holds h
          where h.id in (select id
                           from holds indexed by holds_unfinished
                          where state in ('placing', 'releasing')
                          union all
                         select id
                           from holds indexed by holds_by_end
                          where state = 'standing'
                            and until <= ?1)
          order by h.held_at, h.id
          limit ?2"
    );
    all(conn, &sql, (at.ms(), limits::HOLDS_DUE_MAX as i64))
}

/// Those that a letter is under, oldest first.
pub(in crate::sqlite) fn of_letter(
    conn: &Connection,
    letter: LetterId,
) -> Result<Vec<HoldRecord>, StoreError> {
    let sql = format!(
        "select {COLUMNS}
           from hold_letters u
           join holds h on h.id = u.hold
          where u.letter = ?1
          order by h.held_at, h.id
          limit ?2"
    );
    all(conn, &sql, (letter.bytes(), limits::HOLDS_SHOWN_MAX as i64))
}

const LETTERS: &str = "
select letter
  from hold_letters indexed by hold_letters_by_hold
 where hold = ?1
   and letter > ?2
 order by letter
 limit ?3";

/// Letters under a hold, by id.
pub(in crate::sqlite) fn letters(
    conn: &Connection,
    id: HoldId,
    after: Option<LetterId>,
    limit: usize,
) -> Result<Vec<LetterId>, StoreError> {
    let after: &[u8] = after.as_ref().map_or(&[], |letter| letter.bytes());
    let mut statement = conn.prepare_cached(LETTERS)?;
    let letters =
        statement.query_map((id.bytes(), after, limit as i64), |row| row.get(0).map(LetterId::from_bytes))?;
    Ok(letters.collect::<Result<_, _>>()?)
}

/// What letters show of their holds.
const SHOWN: &str = "
select id, held_at, coalesce(held_by, ''), coalesce(hold_reason, '')
  from dead_letter_queue indexed by letters_held
 where held_at is not null
 union all
select id, held_at, coalesce(held_by, ''), coalesce(hold_reason, '')
  from archive
 where held_at is not null";

/// What they have to show.
const HELD: &str = "
select letter, held_at, held_by, reason
  from (select u.letter, h.held_at, h.held_by, h.reason,
               row_number() over (partition by u.letter order by h.held_at, h.id) as place
          from hold_letters u
          join holds h on h.id = u.hold)
 where place = 1";

const MISCOUNTED: &str = "
select count(*)
  from holds h
  left join (select hold, count(*) as letters from hold_letters group by hold) u on u.hold = h.id
 where h.letters <> coalesce(u.letters, 0)
    or (h.state = 'released' and h.letters <> 0)";

/// How many letters show another hold than they are under, and how many holds count other letters than are under them.
pub(in crate::sqlite) fn wrong(conn: &Connection) -> Result<i64, StoreError> {
    let sql = format!(
        "select (select count(*) from (select * from ({SHOWN}) except {HELD}))
              + (select count(*) from ({HELD} except select * from ({SHOWN})))
              + ({MISCOUNTED})"
    );
    Ok(conn.query_row(&sql, [], |row| row.get(0))?)
}
