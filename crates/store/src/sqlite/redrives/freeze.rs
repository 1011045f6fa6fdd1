//! Taking a list down chunk by chunk, in the order of deaths. Capture goes on in between.

use std::time::Duration;

use lazaret_core::filter::Filter;
use lazaret_core::id::RedriveId;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::RunState;
use lazaret_core::time::Time;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::filter::Where;
use super::super::listing;
use super::super::operations::{Key, window_end};
use super::super::scan::Scanner;
use super::super::writer::Write;
use super::open::{CANDIDATE_COLUMNS, Candidate, List, Lister, candidate};
use crate::StoreError;
use crate::engine::redrives::row;
use crate::seam::ready;

const FROZEN_SO_FAR: &str = "select frozen_died_at, frozen_id from redrives where id = ?1";

const FROZEN: &str = "
update redrives
   set frozen = ?2, frozen_died_at = coalesce(?3, frozen_died_at), frozen_id = coalesce(?4, frozen_id)
 where id = ?1";

/// How far a list has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Froze {
    More,
    Complete,
    /// It is given up; what was taken down is to be dropped.
    TooLarge,
}

/// Takes down the next chunk.
pub(super) fn freeze(write: &mut Write, id: RedriveId) -> Result<Froze, StoreError> {
    listing::catch_up(write)?;
    let run = ready(row::expect(write, id))?;
    let conn = &write.conn;
    if run.frozen || run.state() != RunState::Planning {
        return Ok(Froze::Complete);
    }
    let mut filter = Filter::from_text(&run.redrive.filter).map_err(|error| {
        StoreError::Corrupt(format!("the filter of redrive {id} cannot be read: {error}"))
    })?;
    if filter.status.include.is_empty() && filter.status.exclude.is_empty() {
        filter.status.include.insert(Status::Pending);
    }
    let last = conn
        .prepare_cached(FROZEN_SO_FAR)?
        .query_row([id.bytes()], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get(1)?)))
        .map(|(died_at, letter): (_, Option<[u8; 16]>)| died_at.zip(letter))?;
    let chunk = matching(conn, &filter, run.redrive.opened_at, last)?;
    let list = List { redrive: id, opened_at: run.redrive.opened_at, total: run.redrive.total };
    let mut lister = Lister::new(write, &list, run.redrive.options.prioritization)?;
    for candidate in &chunk.letters {
        lister.add(candidate)?;
    }
    let (total, groups) = (lister.total, lister.groups());
    lister.finish()?;
    conn.prepare_cached(FROZEN)?.execute((
        id.bytes(),
        chunk.complete,
        chunk.end.map(|(died_at, _)| died_at),
        chunk.end.map(|(_, letter)| letter),
    ))?;
    let Some(why) = too_large(total, groups) else {
        return Ok(if chunk.complete { Froze::Complete } else { Froze::More });
    };
    conn.prepare_cached(
        "update redrives set frozen = 1, state = ?2, why = ?3, finished_at = ?4 where id = ?1",
    )?
    .execute((id.bytes(), RunState::Cancelled.name(), why, run.redrive.opened_at.ms()))?;
    Ok(Froze::TooLarge)
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

/// Some letters of a list.
struct Chunk {
    letters: Vec<Candidate>,
    /// The last one that was looked at, matching or not.
    end: Option<Key>,
    complete: bool,
}

fn matching(
    conn: &Connection,
    filter: &Filter,
    opened_at: Time,
    last: Option<Key>,
) -> Result<Chunk, StoreError> {
    let sql = Where::of(conn, filter, opened_at)?;
    let window_end = window_end(conn, &sql, last)?;
    let words = match &sql.words {
        Some(_) => "l.letter in (select rowid from letter_words where letter_words match ?) and",
        None => "",
    };
    let mut binds: Vec<Value> = sql.words.iter().cloned().map(Value::Text).collect();
    binds.extend(sql.binds.iter().cloned());
    let mut text = format!(
        "select {CANDIDATE_COLUMNS}
           from dead_letter_queue l indexed by {}
          where {words} {}
            and l.status = ?
            and l.created_at <= ?",
        sql.index, sql.sql
    );
    binds.extend([Value::Text(Status::Pending.name().into()), Value::Integer(opened_at.ms())]);
    for (comparison, key) in [(">", last), ("<=", window_end)] {
        if let Some((died_at, id)) = key {
            text.push_str(&format!(" and (l.died_at, l.id) {comparison} (?, ?)"));
            binds.extend([Value::Integer(died_at), Value::Blob(id.to_vec())]);
        }
    }
    text.push_str(" order by l.died_at, l.id");
    let mut statement = conn.prepare_cached(&text)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut scanner = Scanner::new(conn, filter, Duration::from_millis(limits::FREEZE_SCAN_MS_MAX));
    let mut chunk = Chunk { letters: Vec::new(), end: window_end, complete: window_end.is_none() };
    let mut looked_at = None;
    while let Some(row) = found.next()? {
        if scanner.is_over() {
            return Ok(Chunk { end: looked_at, complete: false, ..chunk });
        }
        let found = candidate(row)?;
        looked_at = Some((found.died_at, found.id));
        if !filter.needs_content() || scanner.holds(row.get(3)?, found.life)? {
            chunk.letters.push(found);
        }
    }
    Ok(chunk)
}
