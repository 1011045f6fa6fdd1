//! Regrouping of lives that come back from the trash.

use lazaret_core::time::Time;

use super::cell::Cells;
use super::conn::Conn;
use super::writer::Write;
use crate::StoreError;
use crate::engine::regroup::{keep, last_life, progress};
use crate::regroup::{Progress, Stage};

/// The revision that all lives are grouped by; nothing while some are not.
pub(super) async fn settled_revision(conn: &Conn) -> Result<Option<String>, StoreError> {
    let row = conn.query_opt("select value from meta where key = 'regrouping'", &[]).await?;
    let progress = row.map_or(Ok(Progress::default()), |row| Progress::parse(row.cell(0)?))?;
    Ok(progress.settled_revision())
}

/// Sees to it that lives are regrouped that come back from the trash: the rules may have changed while they were away,
/// and a regrouping that is on its way may have passed them by. Their places are given at the commit, behind all that
/// are there now. So the work goes back to its first stage, which ends with a look at how many there are then.
pub(super) async fn catch_up(
    write: &mut Write,
    grouped_by: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    // Nobody regroups meanwhile, but another letter may come back in another instance.
    write.conn.query_opt("select 1 from meta where key = 'regrouping' for no key update", &[]).await?;
    let mut progress = progress(write).await?;
    match (&progress.towards, progress.stage) {
        (None, _) if grouped_by == Some(progress.reached.as_str()) => return Ok(()),
        // All that is there at its end is looked at.
        (Some(_), Stage::Lives) => return Ok(()),
        (Some(_), Stage::Stragglers) => {}
        (None, _) | (Some(_), Stage::Emptied) => {
            if progress.towards.is_none() {
                progress.towards = Some(progress.reached.clone());
                progress.begun_at = at.ms();
            }
            progress.position = last_life(write).await?;
            progress.bound = progress.position;
        }
    }
    progress.stage = Stage::Lives;
    keep(write, &progress).await
}
