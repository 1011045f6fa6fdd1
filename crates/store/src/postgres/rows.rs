//! Rows of the letters table and the values they hold.

use lazaret_core::letter::Letter;
use tokio_postgres::Row;

use super::cell::Cells;
use super::counters::Counted;
use crate::StoreError;
use crate::engine::letters;
use crate::seam;

pub(super) use crate::engine::letters::{
    LETTER_COLUMNS, parse_class as class, parse_place as place, parse_status as status, unknown,
};

/// How many columns `LETTER_COLUMNS` are.
pub(super) const LETTER_COLUMNS_COUNT: usize = 31;

pub(super) fn letter(row: &Row) -> Result<Letter, StoreError> {
    letters::letter(&seam::Row::of_postgres(row))
}

/// The columns that `counted` reads, in its order.
pub(super) const COUNTED_COLUMNS: &str =
    "source, queue, type, error_type, class, fingerprint, aggregate, status";

/// Reads what a letter counts under, from the column `from` on.
pub(super) fn counted(row: &Row, from: usize) -> Result<Counted, StoreError> {
    Ok(Counted {
        source: row.cell(from)?,
        queue: row.cell(from + 1)?,
        letter_type: row.cell(from + 2)?,
        error_type: row.cell(from + 3)?,
        class: class(&row.cell::<String>(from + 4)?)?.name(),
        fingerprint: row.cell(from + 5)?,
        aggregate: row.cell(from + 6)?,
        status: status(&row.cell::<String>(from + 7)?)?,
    })
}
