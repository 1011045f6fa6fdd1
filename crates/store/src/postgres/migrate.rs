//! The store's format: numbered steps, applied at start by one instance while the others wait.

use std::path::PathBuf;
use std::time::Duration;

use lazaret_postgres::{Address, place};

use super::cell::Cells;
use super::conn::SCHEMA;
use super::copy::COLUMNS;
use super::session::Session;
use crate::StoreError;
use crate::copy::{Schema, require_schema, shared_schema};
use crate::sqlite::migrate::expected_schema;

/// The steps, in order; the same numbers as those of the embedded store.
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

/// Marks the schema as ours.
const APPLICATION: &str = "lazaret";

/// The oldest PostgreSQL that the tests run on.
const SERVER_VERSION_MIN: i32 = 150_000;

/// A step may have to rewrite a table.
const STEP_MAX: Duration = Duration::from_secs(600);

/// Brings the database to the newest format. Of instances that start at once the first one does it and the others find
/// it done. Says which format was found, and which one it has now.
pub(super) async fn migrate(address: &Address) -> Result<(u32, u32), StoreError> {
    let session = Session::open(address, STEP_MAX).await?;
    // First of all: without sessions nothing below means what it says.
    session.require_sessions(address).await?;
    check_server(&session).await?;
    // Waiting for the first one is not a lock that took too long. The lock ends with the session.
    session
        .batch(
            "set lock_timeout to 0;
             select pg_advisory_lock(hashtextextended('lazaret format', 0))",
        )
        .await?;
    let found = recognise(&session, address).await?;
    if found > 0 {
        require_schema(found, &shared_schema(found, expected_schema(found)?), &schema(&session).await?)?;
    }
    for (number, sql) in MIGRATIONS.iter().filter(|(number, _)| *number > found) {
        session.batch(&format!("{}; commit", step(*number, sql))).await?;
        tracing::info!(format = number, "the store was brought to format {number}");
    }
    Ok((found, newest()))
}

/// One step, which is not committed yet.
fn step(number: u32, sql: &str) -> String {
    format!(
        "begin;
         create schema if not exists {SCHEMA};
         {sql}
         insert into meta (key, value) values ('application', '{APPLICATION}'), ('format', '{number}')
         on conflict (key) do update set value = excluded.value"
    )
}

/// Takes the steps up to a format and breaks off in the middle of the next one, as a process does that is killed.
#[cfg(feature = "testing")]
pub(crate) async fn migrate_killed(url: &str, to: u32) -> Result<(), StoreError> {
    let address = Address::parse(url)?;
    let session = Session::open(&address, STEP_MAX).await?;
    session.batch("select pg_advisory_lock(hashtextextended('lazaret format', 0))").await?;
    let found = recognise(&session, &address).await?;
    for (number, sql) in MIGRATIONS.iter().filter(|(number, _)| (found + 1..=to + 1).contains(number)) {
        let commit = if *number <= to { "; commit" } else { "" };
        session.batch(&format!("{}{commit}", step(*number, sql))).await?;
    }
    Ok(())
}

/// All tables and columns that are there.
async fn schema(session: &Session) -> Result<Schema, StoreError> {
    let mut schema = Schema::new();
    for row in session.query(COLUMNS, &[]).await? {
        schema.entry(row.cell(0)?).or_default().insert(row.cell(1)?);
    }
    Ok(schema)
}

fn newest() -> u32 {
    MIGRATIONS.last().map_or(0, |(number, _)| *number)
}

async fn check_server(session: &Session) -> Result<(), StoreError> {
    const SERVER: &str =
        "select current_setting('server_version_num')::int, current_setting('server_encoding')";
    let row = session.query_one(SERVER, &[]).await?;
    let (version, encoding): (i32, String) = (row.cell(0)?, row.cell(1)?);
    if version < SERVER_VERSION_MIN {
        return Err(StoreError::Unfit(format!(
            "it is PostgreSQL {}, and 15 or newer is needed",
            version / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Unfit(format!("its encoding is {encoding}, and UTF8 is needed")));
    }
    Ok(())
}

/// Reads the format of the store, or says why it must not be touched. Writes nothing: the schema may be somebody
/// else's.
async fn recognise(session: &Session, address: &Address) -> Result<u32, StoreError> {
    const TABLES: &str = "
        select count(*), count(*) filter (where c.relname = 'meta')
          from pg_catalog.pg_class c
          join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where n.nspname = $1";
    let row = session.query_one(TABLES, &[&SCHEMA]).await?;
    let (tables, meta): (i64, i64) = (row.cell(0)?, row.cell(1)?);
    if tables == 0 {
        return Ok(0);
    }
    let foreign =
        || StoreError::Foreign(PathBuf::from(format!("schema {SCHEMA} of {}", place(&address.config))));
    if meta == 0 {
        return Err(foreign());
    }
    const KEPT: &str = "select (select value from meta where key = 'application'),
                               (select value from meta where key = 'format')";
    let row = session.query_one(KEPT, &[]).await.map_err(|_| foreign())?;
    let (application, format): (Option<String>, Option<String>) = (row.cell(0)?, row.cell(1)?);
    let found = format.and_then(|number| number.parse().ok());
    let (Some(APPLICATION), Some(found)) = (application.as_deref(), found) else { return Err(foreign()) };
    let known = newest();
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    Ok(found)
}
