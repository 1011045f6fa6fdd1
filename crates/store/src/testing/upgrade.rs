//! Stores of earlier formats, made by the migrations themselves, and upgrades that are killed in the middle.

use std::path::Path;

use crate::{postgres, sqlite};

/// The newest format.
pub fn newest() -> u32 {
    sqlite::migrate::newest()
}

/// Brings a file to a format, and breaks off in the middle of the step behind it.
pub fn sqlite_killed_after(file: &Path, format: u32) {
    sqlite::migrate::migrate_killed(file, format).expect("the steps up to the format work");
}

/// Brings a database to a format, and breaks off in the middle of the step behind it.
pub async fn postgres_killed_after(url: &str, format: u32) {
    postgres::migrate::migrate_killed(url, format).await.expect("the steps up to the format work");
}

/// Turns the rows of jobs in a file of the newest format into rows of formats before 17.
pub fn sqlite_jobs_whole(file: &Path) {
    let conn = rusqlite::Connection::open(file).expect("the file opens");
    sqlite::copy::make_jobs_whole(&conn).expect("its jobs can be read");
}
