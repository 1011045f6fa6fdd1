//! The message index, kept in order in small steps.
//!
//! FTS5 merges the segments of its index by itself, some hundred pages in whichever commit makes it due. With a million letters
//! that takes more than half a second, and every capture behind that commit waits. So it is switched off, and each commit that
//! moves letters merges a few pages. FTS5 still merges a level that has come to sixteen segments, which does not happen then.

use lazaret_core::limits;
use rusqlite::{Connection, OptionalExtension};

use crate::StoreError;

/// Switches automatic merges off, unless they are. The index keeps that in the file.
pub(super) fn tune(conn: &Connection) -> Result<(), StoreError> {
    const KEPT: &str = "select v from letter_words_config where k = 'automerge'";
    let kept: Option<i64> = conn.query_row(KEPT, [], |row| row.get(0)).optional()?;
    if kept != Some(0) {
        conn.execute("insert into letter_words (letter_words, rank) values ('automerge', 0)", [])?;
    }
    Ok(())
}

/// Merges a few pages, if any are due.
pub(super) fn merge(conn: &Connection) -> Result<(), StoreError> {
    conn.prepare_cached("insert into letter_words (letter_words, rank) values ('merge', ?1)")?
        .execute([limits::WORD_PAGES_MERGED_PER_COMMIT])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ops::Range;

    use super::super::migrate;
    use super::*;

    const LETTERS: i64 = 30_000;
    const LETTERS_PER_COMMIT: i64 = 100;

    fn pages(conn: &Connection) -> HashSet<i64> {
        let mut statement = conn.prepare_cached("select id from letter_words_data").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// Pages that the largest commit added to the index while letters came and went, and pages that are left.
    fn written(tuned: bool) -> (usize, usize) {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        if tuned {
            tune(&conn).unwrap();
        }
        let mut seed = 1_u32;
        let mut text = || {
            let words = (0..12).map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                format!("w{}", (seed >> 16) % 20_000)
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let add =
            |row| conn.execute("insert into letter_words (rowid, words) values (?1, ?2)", (row, text()));
        let remove = |row| conn.execute("delete from letter_words where rowid = ?1", [row]);
        let most = commits(&conn, tuned, 0..LETTERS, add).max(commits(&conn, tuned, 0..LETTERS / 2, remove));
        (most, pages(&conn).len())
    }

    /// Does something to all rows, a few in each commit; returns the pages that the largest commit added.
    fn commits(
        conn: &Connection,
        tuned: bool,
        rows: Range<i64>,
        mut work: impl FnMut(i64) -> rusqlite::Result<usize>,
    ) -> usize {
        let mut most = 0;
        for first in rows.step_by(LETTERS_PER_COMMIT as usize) {
            let before = pages(conn);
            conn.execute_batch("begin").unwrap();
            for row in first..first + LETTERS_PER_COMMIT {
                work(row).unwrap();
            }
            if tuned {
                merge(conn).unwrap();
            }
            conn.execute_batch("commit").unwrap();
            most = most.max(pages(conn).difference(&before).count());
        }
        most
    }

    #[test]
    fn no_commit_merges_more_than_a_few_pages() {
        let ((by_itself, left_by_itself), (tuned, left)) = (written(false), written(true));
        // What a commit adds itself, and pages that each segment has beside its leaves, come on top.
        let bound = 3 * limits::WORD_PAGES_MERGED_PER_COMMIT as usize;
        assert!(by_itself > 4 * bound, "{by_itself} pages: FTS5 does better than it did");
        assert!(tuned <= bound, "{tuned} pages");
        assert!(left <= 2 * left_by_itself, "{left} pages, and {left_by_itself} without: it keeps up");
    }

    #[test]
    fn a_tuned_index_stays_so_and_finds_what_it_holds() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        tune(&conn).unwrap();
        let changes = conn.total_changes();
        tune(&conn).unwrap();
        assert_eq!(conn.total_changes(), changes);
        for row in 0..200 {
            conn.execute("insert into letter_words (rowid, words) values (?1, 'some words')", [row]).unwrap();
            merge(&conn).unwrap();
        }
        let found: i64 = conn
            .query_row("select count(*) from letter_words where letter_words match 'words'", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(found, 200);
    }
}
