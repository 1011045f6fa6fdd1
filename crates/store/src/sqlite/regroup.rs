//! Regrouping of lives that come back from the trash.

use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::writer::Write;
use crate::StoreError;
use crate::engine::regroup::{keep, last_life, progress};
use crate::regroup::{Progress, Stage};
use crate::seam::ready;

/// The revision that all lives are grouped by; nothing while some are not.
pub(super) fn settled_revision(conn: &Connection) -> Result<Option<String>, StoreError> {
    let text: Option<String> = conn
        .prepare_cached("select value from meta where key = 'regrouping'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let progress = text.map_or(Ok(Progress::default()), |text| Progress::parse(&text))?;
    Ok(progress.settled_revision())
}

/// Sees to it that lives are regrouped that come back from the trash, from the number `first` on: the rules may have
/// changed while they were away, and a regrouping that is on its way may have passed them by.
pub(super) fn catch_up(
    write: &mut Write,
    grouped_by: Option<&str>,
    first: i64,
    at: Time,
) -> Result<(), StoreError> {
    let mut progress = ready(progress(write))?;
    match (&progress.towards, progress.stage) {
        (None, _) if grouped_by == Some(progress.reached.as_str()) => return Ok(()),
        (None, _) => {
            progress.towards = Some(progress.reached.clone());
            progress.begun_at = at.ms();
            progress.position = first - 1;
            progress.stage = Stage::Stragglers;
        }
        // All that is there at its end is looked at.
        (Some(_), Stage::Lives) => return Ok(()),
        (Some(_), Stage::Stragglers) => {}
        (Some(_), Stage::Emptied) => {
            progress.position = first - 1;
            progress.stage = Stage::Stragglers;
        }
    }
    progress.bound = ready(last_life(write))?;
    ready(keep(write, &progress))
}
