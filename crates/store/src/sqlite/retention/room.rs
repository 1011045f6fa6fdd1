//! Room in the file that nothing stands in: given back to the machine a few pages at a time.

use std::time::{Duration, Instant};

use lazaret_core::limits;
use rusqlite::Connection;

use super::super::writer::Write;
use crate::StoreError;

/// Whether there are more free pages than are left for what comes next. Asked first by a reader: mostly there are not.
pub(in crate::sqlite) fn is_any(conn: &Connection) -> Result<bool, StoreError> {
    Ok(free_pages(conn)? > limits::ROOM_PAGES_KEPT)
}

fn free_pages(conn: &Connection) -> Result<i64, StoreError> {
    Ok(conn.prepare_cached("pragma freelist_count")?.query_row([], |row| row.get(0))?)
}

/// Gives some back; true while there is more.
pub(in crate::sqlite) fn give_back(write: &Write) -> Result<bool, StoreError> {
    let until = Instant::now() + Duration::from_millis(limits::ROOM_MS_MAX);
    while is_any(&write.conn)? && Instant::now() < until {
        let mut statement =
            write.conn.prepare_cached(&format!("pragma incremental_vacuum({PAGES_PER_LOOK})"))?;
        let mut pages = statement.query([])?;
        // Each row is a page: whoever does not ask for it does not get it moved.
        while pages.next()?.is_some() {}
    }
    is_any(&write.conn)
}

/// Pages that are moved before the clock is looked at.
const PAGES_PER_LOOK: i64 = 16;
