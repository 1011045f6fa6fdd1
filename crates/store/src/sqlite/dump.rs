//! All tables as text, for tests: a row that was forgotten, or a counter that drifted, shows up in a diff.

use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::writer::Write;
use super::{holds, numbers};
use crate::StoreError;

/// Every table, in the order of the migrations. A new one has to be put here or the tests say so.
const TABLES: [&str; 48] = [
    "dead_letter_queue",
    "letter_keys",
    "key_index",
    "lives",
    "attempts",
    "incidents",
    "fingerprints",
    "counters",
    "flows",
    "claims",
    "operations",
    "selections",
    "audit",
    "events",
    "tokens",
    "past_decisions",
    "jobs",
    "job_requests",
    "queues",
    "trash",
    "trash_lives",
    "trash_attempts",
    "workers",
    "replays",
    "replay_rules",
    "rcas",
    "fixes",
    "incident_timeline",
    "redrives",
    "redrive_groups",
    "redrive_letters",
    "send_numbers",
    "edits",
    "archive_files",
    "archive",
    "archive_rows",
    "holds",
    "hold_letters",
    "sessions",
    "run_minutes",
    "archive_attempts",
    "relay_tries",
    "alerts",
    "alert_groups",
    "silences",
    "notifications",
    "alert_progress",
    "meta",
];

/// Ids and keys become `#1`, `#2`, … in the order in which they are met, so that two runs read alike.
pub(super) fn dump(conn: &Connection) -> Result<String, StoreError> {
    let mut text = String::new();
    let mut names: HashMap<Vec<u8>, usize> = HashMap::new();
    for table in TABLES {
        text.push_str(&format!("{table}\n"));
        let mut statement = conn.prepare(&format!("select * from {table}"))?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut lines = Vec::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mut cells = Vec::new();
            for (at, column) in columns.iter().enumerate() {
                match row.get_ref(at)? {
                    ValueRef::Null => {}
                    ValueRef::Integer(number) => cells.push(format!("{column}={number}")),
                    ValueRef::Real(number) => cells.push(format!("{column}={number}")),
                    ValueRef::Text(text) => cells.push(format!("{column}={}", String::from_utf8_lossy(text))),
                    ValueRef::Blob(bytes)
                        if matches!(column.as_str(), "body" | "detail" | "reported" | "request") =>
                    {
                        cells.push(format!("{column}=<{} bytes>", bytes.len()));
                    }
                    ValueRef::Blob(bytes) => {
                        let next = names.len() + 1;
                        let number = names.entry(bytes.to_vec()).or_insert(next);
                        cells.push(format!("{column}=#{number}"));
                    }
                }
            }
            lines.push(format!("  {}\n", cells.join(" ")));
        }
        // Tables keyed by a hash come in the order of the hash, which says nothing.
        lines.sort();
        text.extend(lines);
    }
    let indexed: i64 = conn.query_row("select count(*) from letter_words", [], |row| row.get(0))?;
    text.push_str(&format!("letter_words\n  {indexed} letters\n"));
    Ok(text)
}

/// Forgets everything but the tokens, who is signed in with them, and how the store was made; says which life was the last.
pub(super) fn empty(write: &mut Write) -> Result<i64, StoreError> {
    write.conn.execute_batch(
        "delete from rcas; delete from fixes; delete from incident_timeline; delete from run_minutes;
         delete from redrive_letters; delete from redrive_groups; delete from redrives; delete from send_numbers; delete from edits;
         delete from archive_rows; delete from archive_attempts; delete from archive; delete from relay_tries; delete from archive_files;
         delete from trash_attempts; delete from trash_lives; delete from trash;
         delete from selections; delete from operations; delete from claims; delete from attempts; delete from lives;
         delete from dead_letter_queue; delete from letter_keys; delete from key_index; delete from fingerprints; delete from incidents;
         delete from letter_words; delete from counters; delete from flows; delete from events; delete from audit; delete from past_decisions;
         delete from jobs; delete from queues; delete from workers; delete from replays; delete from replay_rules;",
    )?;
    holds::empty(write)?;
    numbers::keep(write)?;
    // Reports that share this commit were tallied but not written yet.
    write.tally.begin_anew();
    Ok(write.numbers.last_life())
}
