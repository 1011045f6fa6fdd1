//! Holds where PostgreSQL differs: how letters are locked, numbers that are written at the end of a transaction, and
//! standing holds that any instance may place.

pub(super) mod standing;
mod totals;

use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::{Place, Standing};

use super::cell::{At, Bind, Cells, Uid};
use super::writer::Write;
use super::{rows, verdicts};
use crate::StoreError;

pub(super) use standing::came_back;
pub(super) use totals::Totals;

const LIVE: &str = "
select status, held_at is not null
  from dead_letter_queue
 where id = $1
   and created_at = $2
   for no key update";

const ARCHIVED: &str = "
select status, held_at is not null
  from archive
 where id = $1
   and place = $2
   for no key update";

/// Locks a live or archived letter until the commit and returns its standing; that of a deleted one is only read.
pub(super) async fn lock_standing(write: &Write, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    let id = Uid(*letter.bytes());
    let (begun_at, archived) = (At(letter.at()), Place::Archived.name());
    let looks: [(&str, Place, [Bind<'_>; 2]); 2] =
        [(LIVE, Place::Live, [&id, &begun_at]), (ARCHIVED, Place::Archived, [&id, &archived])];
    // Between two looks it may be archived, or come back: whoever moves it is waited for by the second.
    for (sql, place, binds) in looks.iter().chain(&looks) {
        if let Some(row) = write.conn.query_opt(sql, binds).await? {
            let (status, held) = (rows::status(row.cell(0)?)?, row.cell(1)?);
            return Ok(Some(Standing { status, place: *place, held, content_kept: true }));
        }
    }
    verdicts::standing(write, letter).await
}
