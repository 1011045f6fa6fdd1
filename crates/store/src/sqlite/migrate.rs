//! Migrations: forward only, numbered, each in its own transaction, never edited once they are out.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Transaction};

use super::Mode;
use crate::StoreError;
use crate::copy::{Schema, require_schema};

/// In order; the number in the name is the format of the store after it.
const MIGRATIONS: &[(u32, &str)] = &[
    (1, include_str!("migrations/0001_letters.sql")),
    (2, include_str!("migrations/0002_understand.sql")),
    (3, include_str!("migrations/0003_regrouping.sql")),
    (4, include_str!("migrations/0004_jobs.sql")),
    (5, include_str!("migrations/0005_trash.sql")),
    (6, include_str!("migrations/0006_workers.sql")),
    (7, include_str!("migrations/0007_redrive.sql")),
    (8, include_str!("migrations/0008_retention.sql")),
    (9, include_str!("migrations/0009_sessions.sql")),
    (10, include_str!("migrations/0010_run_minutes.sql")),
    (11, include_str!("migrations/0011_audit_questions.sql")),
    (12, include_str!("migrations/0012_claim_fences.sql")),
    (13, include_str!("migrations/0013_incident_gate.sql")),
    (14, include_str!("migrations/0014_kept_attempts.sql")),
    (15, include_str!("migrations/0015_known_deaths.sql")),
    (16, include_str!("migrations/0016_origins.sql")),
    (17, include_str!("migrations/0017_job_requests.sql")),
    (18, include_str!("migrations/0018_listed.sql")),
    (19, include_str!("migrations/0019_key_index.sql")),
    (20, include_str!("migrations/0020_alerts.sql")),
];

/// Marks the file as ours: "LZRT".
const APPLICATION_ID: i32 = 0x4c5a_5254;

/// Reads the format of the store, or says why it must not be touched. Writes nothing: the file may be somebody else's.
pub(super) fn recognise(conn: &Connection, path: &Path) -> Result<u32, StoreError> {
    let application: i32 = match conn.query_row("pragma application_id", [], |row| row.get(0)) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            return Err(StoreError::Foreign(path.to_owned()));
        }
        other => other?,
    };
    let found: u32 = conn.query_row("pragma user_version", [], |row| row.get(0))?;
    let tables: u32 = conn.query_row("select count(*) from sqlite_schema", [], |row| row.get(0))?;
    let fresh = application == 0 && found == 0 && tables == 0;
    if !fresh && application != APPLICATION_ID {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    let known = newest();
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    Ok(found)
}

/// Brings the store from the format that was found to the newest, if it is whole.
pub(crate) fn migrate(conn: &mut Connection, found: u32) -> Result<(), StoreError> {
    if found > 0 {
        require_schema(found, &expected_schema(found)?, &schema(conn)?)?;
    }
    for (number, sql) in MIGRATIONS.iter().filter(|(number, _)| *number > found) {
        apply(conn, *number, sql)?.commit()?;
        tracing::info!(format = number, "the store was brought to format {number}");
    }
    Ok(())
}

/// Takes one step without committing it.
fn apply<'a>(conn: &'a mut Connection, number: u32, sql: &str) -> Result<Transaction<'a>, StoreError> {
    let step = conn.transaction()?;
    step.execute_batch(sql)?;
    step.pragma_update(None, "application_id", APPLICATION_ID)?;
    step.pragma_update(None, "user_version", number)?;
    Ok(step)
}

/// Takes the steps up to a format and breaks off in the middle of the next one, as a process does that is killed.
#[cfg(feature = "testing")]
pub(crate) fn migrate_killed(path: &Path, to: u32) -> Result<(), StoreError> {
    let mut conn = Connection::open(path)?;
    let found = recognise(&conn, path)?;
    for (number, sql) in MIGRATIONS.iter().filter(|(number, _)| (found + 1..=to + 1).contains(number)) {
        let step = apply(&mut conn, *number, sql)?;
        if *number <= to {
            step.commit()?;
        }
    }
    Ok(())
}

/// The newest format.
pub(crate) fn newest() -> u32 {
    MIGRATIONS.last().map_or(0, |(number, _)| *number)
}

/// The tables and columns of a format, as its migrations make them.
pub(crate) fn expected_schema(format: u32) -> Result<Schema, StoreError> {
    let conn = Connection::open_in_memory()?;
    for (_, sql) in MIGRATIONS.iter().filter(|(number, _)| *number <= format) {
        conn.execute_batch(sql)?;
    }
    schema(&conn)
}

const COLUMNS: &str = "
select t.name, c.name
  from sqlite_schema t
  join pragma_table_info(t.name) c
 where t.type = 'table'";

/// All tables and columns that are there.
pub(super) fn schema(conn: &Connection) -> Result<Schema, StoreError> {
    let mut schema = Schema::new();
    let mut statement = conn.prepare(COLUMNS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        schema.entry(row.get(0)?).or_default().insert(row.get(1)?);
    }
    Ok(schema)
}

/// Writes down what a new store is for; one that was made for something else is not opened.
pub(super) fn keep_mode(conn: &Connection, mode: Mode) -> Result<(), StoreError> {
    let word = match mode {
        Mode::Real => "real",
        Mode::Test => "test",
    };
    conn.execute("insert into meta (key, value) values ('mode', ?1) on conflict (key) do nothing", [word])?;
    let kept: String = conn.query_row("select value from meta where key = 'mode'", [], |row| row.get(0))?;
    match (mode, kept == word) {
        (_, true) => Ok(()),
        (Mode::Test, false) => {
            Err(StoreError::WrongMode("this store was made for real use: test mode does not open it"))
        }
        (Mode::Real, false) => {
            Err(StoreError::WrongMode("this store was made in test mode: only test mode opens it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use lazaret_core::lifecycle::Status;

    use super::*;
    use crate::engine::numbers::ledger::count_misplaced;
    use crate::seam::ready;

    #[test]
    fn letters_deleted_before_there_was_an_archive_wait_for_their_file() {
        let mut conn = Connection::open_in_memory().unwrap();
        for (_, sql) in MIGRATIONS.iter().filter(|(number, _)| *number <= 7) {
            conn.execute_batch(sql).unwrap();
        }
        conn.execute_batch(
            "insert into incidents (id, state, opened_at, type, error_type)
             values (zeroblob(16), 'open', 0, '', '');
             insert into fingerprints (fingerprint, incident, first_seen_at) values ('v1:00', zeroblob(16), 0);",
        )
        .unwrap();
        for (n, deleted_at) in [(1_u8, 900), (2, 800)] {
            let (id, status) = ([n; 16], Status::Pending.name());
            conn.execute(
                "insert into letter_keys (key, generation, id, place, removed_at, removed_by, removal, removed_status)
                 values (?1, 1, ?2, 'deleted', ?3, 'ana', 'deleted', ?4)",
                ([n; 32], id, deleted_at, status),
            )
            .unwrap();
            conn.execute(
                "insert into trash (letter, id, source, event_id, type, queue, error_type, error_message, class,
                        fingerprint, retry_count, status, place, life, ever_sent, created_at, updated_at, died_at,
                        retention_at, deleted_at, deleted_by, kept_until)
                 values (?1, ?2, 's', 'e', 't', 'q', '', '', 'unknown', 'v1:00', 0, ?3, 'deleted', 2, 1, 100, 100, 90,
                         500, ?4, 'ana', 9999)",
                (n, id, status, deleted_at),
            )
            .unwrap();
            for (life, captured_at) in [(1, 100), (2, 500)] {
                conn.execute(
                    "insert into trash_lives (letter, life, captured_at, died_at, class, fingerprint, content_type, body,
                            body_bytes, sha256, fatal, retry_count)
                     values (?1, ?2, ?3, 90, 'unknown', 'v1:00', '', x'00', 7, zeroblob(32), 1, 0)",
                    (n, life, captured_at),
                )
                .unwrap();
            }
        }
        migrate(&mut conn, 7).unwrap();
        let mut statement = conn
            .prepare(
                "select id, place, waiting, bytes, life, since, removed_at, removed_by, reason from archive",
            )
            .unwrap();
        let rows = statement.query_map([], |row| {
            let what: ([u8; 16], String, bool, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let when: (u32, i64, i64, String, String) =
                (row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?);
            Ok((what, when))
        });
        let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
        let row = |n: u8, at| {
            (([n; 16], "deleted".to_owned(), true, 14), (2, 500, at, "ana".to_owned(), "deleted".to_owned()))
        };
        assert_eq!(rows, [row(2, 800), row(1, 900)], "in the order in which they were deleted");
        drop(statement);
        assert_eq!(ready(count_misplaced(&mut conn)).unwrap(), 0);
    }
}
