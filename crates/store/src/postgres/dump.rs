//! All tables as text, for tests: a row that was forgotten, or a counter that drifted, shows up in a diff.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::cell::Cells;
use super::conn::Conn;
use super::writer::Write;
use crate::StoreError;

/// Every table and what its rows are told apart by, in the order of the migrations. A new one has to be put here or the
/// tests say so.
const TABLES: [(&str, &str); 50] = [
    ("dead_letter_queue", "id"),
    ("letter_keys", "id"),
    ("lives", "letter, life"),
    ("life_positions", "position"),
    ("attempts", "letter, ordinal"),
    ("incidents", "id"),
    ("fingerprints", "fingerprint"),
    ("counters", "dimension, value, term"),
    ("flows", "dimension, value, step, minute"),
    ("claims", "letter"),
    ("operations", "id"),
    ("selections", "operation, ordinal"),
    ("audit", "position"),
    ("events", "position"),
    ("tokens", "id"),
    ("past_decisions", "letter, ordinal"),
    ("body_words", "letter, life"),
    ("body_words_reached", "one"),
    ("jobs", "job"),
    ("queues", "name"),
    ("workers", "name"),
    ("replays", "letter, rule"),
    ("replay_rules", "rule"),
    ("trash", "id"),
    ("trash_lives", "letter, life"),
    ("trash_attempts", "letter, ordinal"),
    ("rcas", "incident, revision"),
    ("fixes", "incident, number"),
    ("incident_timeline", "incident, ordinal"),
    ("redrives", "id"),
    ("redrive_groups", "redrive, number"),
    ("redrive_letters", "redrive, ordinal"),
    ("send_numbers", "letter, life"),
    ("edits", "letter, number"),
    ("archive_files", "id"),
    ("archive", "entry"),
    ("archive_rows", "letter, first_life"),
    ("holds", "id"),
    ("hold_letters", "letter, hold"),
    ("sessions", "hash"),
    ("run_minutes", "redrive, minute"),
    ("archive_attempts", "late"),
    ("relay_tries", "key, at"),
    ("alerts", "id"),
    ("alert_groups", "key"),
    ("silences", "id"),
    ("notifications", "id"),
    ("alert_progress", "one"),
    ("positions", "one"),
    ("meta", "key"),
];

/// Ids and keys become `#1`, `#2`, … in the order in which they are met, so that two runs read alike.
pub(super) async fn dump(conn: &Conn) -> Result<String, StoreError> {
    let mut text = String::new();
    let mut names: HashMap<Vec<u8>, usize> = HashMap::new();
    for (table, order) in TABLES {
        text.push_str(&format!("{table}\n"));
        let mut lines = Vec::new();
        for row in conn.ask(&format!("select * from {table} order by {order}"), &Default::default()).await? {
            lines.push(format!("  {}\n", line(&row, &mut names)?));
        }
        lines.sort();
        text.extend(lines);
    }
    Ok(text)
}

fn line(row: &Row, names: &mut HashMap<Vec<u8>, usize>) -> Result<String, StoreError> {
    let mut cells = Vec::new();
    for (at, column) in row.columns().iter().enumerate() {
        let name = column.name();
        let value = match column.type_() {
            &Type::UUID => row.id_opt(at)?.map(|id| masked(&id, names)),
            &Type::BYTEA => row.cell::<Option<&[u8]>>(at)?.map(|bytes| match name {
                "body" | "detail" | "reported" => format!("<{} bytes>", bytes.len()),
                _ => masked(bytes, names),
            }),
            &Type::TIMESTAMPTZ => row.time_opt(at)?.map(|time| time.ms().to_string()),
            &Type::BOOL => row.cell::<Option<bool>>(at)?.map(|yes| yes.to_string()),
            &Type::INT4 => row.cell::<Option<i32>>(at)?.map(|number| number.to_string()),
            &Type::INT8 => row.cell::<Option<i64>>(at)?.map(|number| number.to_string()),
            &Type::JSONB | &Type::TS_VECTOR => {
                row.cell::<Option<Size>>(at)?.map(|size| format!("<{} bytes>", size.0))
            }
            _ => row.cell::<Option<String>>(at)?,
        };
        if let Some(value) = value {
            cells.push(format!("{name}={value}"));
        }
    }
    Ok(cells.join(" "))
}

fn masked(bytes: &[u8], names: &mut HashMap<Vec<u8>, usize>) -> String {
    let next = names.len() + 1;
    format!("#{}", names.entry(bytes.to_vec()).or_insert(next))
}

/// How long a value is that is not looked into.
struct Size(usize);

impl<'a> tokio_postgres::types::FromSql<'a> for Size {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Size, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Size(raw.len()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

const EMPTY: &str = "
delete from hold_letters; delete from holds; delete from archive_rows; delete from archive; delete from relay_tries; delete from archive_files;
delete from run_minutes; delete from redrive_letters; delete from redrive_groups; delete from redrives;
delete from send_numbers; delete from edits; delete from rcas; delete from fixes; delete from incident_timeline;
delete from selections; delete from operations; delete from claims; delete from attempts; delete from lives;
delete from life_positions; delete from dead_letter_queue; delete from letter_keys; delete from fingerprints;
delete from incidents; delete from counters; delete from flows; delete from events; delete from audit;
delete from past_decisions; delete from trash_attempts; delete from trash_lives; delete from trash; delete from jobs;
delete from queues; delete from body_words; delete from workers; delete from replays; delete from replay_rules;
update body_words_reached set position = 0, lives = 0";

/// Forgets everything but the tokens, who is signed in with them, how the store was made, and which positions were
/// given. Nobody else writes meanwhile.
pub(super) async fn empty(write: &mut Write) -> Result<(), StoreError> {
    write.conn.batch(EMPTY).await
}
