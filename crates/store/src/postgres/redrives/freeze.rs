//! Taking a list down chunk by chunk, in the order of deaths. Capture goes on in between.

use lazaret_core::filter::Filter;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::RunState;

use super::super::cell::{At, Cells, Uid};
use super::super::operations::{Chunk, looked_into, matching};
use super::super::writer::Write;
use super::open::{LISTED, List, candidates};
use crate::StoreError;
use crate::engine::redrives::row;

const FROZEN_SO_FAR: &str = "
select frozen_died_at, frozen_id
  from redrives
 where id = $1";

const FROZEN: &str = "
update redrives
   set frozen = $2, frozen_died_at = coalesce($3, frozen_died_at), frozen_id = coalesce($4, frozen_id)
 where id = $1";

const TOO_LARGE: &str = "
update redrives
   set frozen = true, state = $2, why = $3, finished_at = opened_at
 where id = $1";

/// How far a list has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Froze {
    More,
    Complete,
    /// It is given up; what was taken down is to be dropped.
    TooLarge,
}

/// Takes down the next chunk. A second instance waits for the first, and then goes on where that one ended.
pub(super) async fn freeze(write: &mut Write, id: RedriveId) -> Result<Froze, StoreError> {
    let run = row::lock_redrive(write, id).await?.ok_or_else(|| row::gone(id))?;
    let conn = &write.conn;
    if run.frozen || run.state() != RunState::Planning {
        return Ok(Froze::Complete);
    }
    let key = Uid(*id.bytes());
    let so_far = conn.query_one(FROZEN_SO_FAR, &[&key]).await?;
    let last = so_far.time_opt(0)?.zip(so_far.id_opt(1)?);
    let opened_at = run.redrive.opened_at;
    let Chunk { letters, end, complete } = match pending(id, &run.redrive.filter)? {
        None => Chunk { letters: Vec::new(), end: None, complete: true },
        Some(filter) if filter.needs_content() => looked_into(conn, &filter, opened_at, last).await?,
        Some(filter) => matching(conn, &filter, opened_at, last, limits::FREEZE_ROWS_PER_WRITE).await?,
    };
    let named: Vec<(LetterId, u32)> = letters
        .iter()
        .map(|(_, letter, life)| (LetterId::from_bytes(*letter), (*life).max(0) as u32))
        .collect();
    let found = candidates(conn, &named).await?;
    let (prioritization, total) = (run.redrive.options.prioritization, run.redrive.total);
    let list = List { redrive: id, prioritization, total };
    let listed = list.add(write, &found).await?;
    conn.execute(LISTED, &[&key, &(listed.added as i64)]).await?;
    let (died_at, letter) = (end.map(|(died_at, _)| At(died_at)), end.map(|(_, letter)| Uid(letter)));
    conn.execute(FROZEN, &[&key, &complete, &died_at, &letter]).await?;
    let Some(why) = too_large(total + listed.added, listed.groups) else {
        return Ok(if complete { Froze::Complete } else { Froze::More });
    };
    conn.execute(TOO_LARGE, &[&key, &RunState::Cancelled.name(), &why]).await?;
    Ok(Froze::TooLarge)
}

/// The filter of a redrive, of which only letters that wait are taken; nothing if it asks for none of those.
fn pending(id: RedriveId, text: &str) -> Result<Option<Filter>, StoreError> {
    let mut filter = Filter::from_text(text).map_err(|error| {
        StoreError::Corrupt(format!("the filter of redrive {id} cannot be read: {error}"))
    })?;
    if !filter.status.allows(&Status::Pending) {
        return Ok(None);
    }
    filter.status.include = [Status::Pending].into();
    filter.status.exclude.clear();
    Ok(Some(filter))
}

/// Why a list is not one that a person can look through.
fn too_large(total: u64, groups: usize) -> Option<String> {
    if total > limits::PLAN_LETTERS_MAX {
        return Some(format!("more than {} letters match; narrow the filter", limits::PLAN_LETTERS_MAX));
    }
    (groups > limits::PLAN_GROUPS_MAX).then(|| {
        format!(
            "the letters are of more than {} causes and subscribers; narrow the filter",
            limits::PLAN_GROUPS_MAX
        )
    })
}
