//! Rows of the letters table and the values they hold.

use lazaret_core::letter::Letter;
use rusqlite::Row;

use super::counters::Counted;
use crate::StoreError;
use crate::engine::letters;
use crate::seam;

pub(super) use crate::engine::letters::{
    LETTER_COLUMNS, parse_class as class, parse_place as place, parse_status as status, unknown,
};

pub(super) fn letter(row: &Row<'_>) -> Result<Letter, StoreError> {
    letters::letter(&seam::Row::of_sqlite(row))
}

/// The columns that `counted` reads, in its order.
pub(super) const COUNTED_COLUMNS: &str =
    "source, queue, type, error_type, class, fingerprint, aggregate, status";

/// Reads what a letter counts under, from the column `from` on.
pub(super) fn counted(row: &Row<'_>, from: usize) -> Result<Counted, StoreError> {
    Ok(Counted {
        source: row.get(from)?,
        queue: row.get(from + 1)?,
        letter_type: row.get(from + 2)?,
        error_type: row.get(from + 3)?,
        class: class(&row.get::<_, String>(from + 4)?)?.name(),
        fingerprint: row.get(from + 5)?,
        aggregate: row.get(from + 6)?,
        status: status(&row.get::<_, String>(from + 7)?)?,
    })
}
