//! What the server says of the archive.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::search::Scan;
use super::{LetterError, SkippedLetter};

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ArchivePage {
    pub items: Vec<ArchivedLetter>,
    pub next_cursor: Option<String>,
    /// There if letters or files had to be opened.
    pub scan: Option<Scan>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedLetter {
    pub id: String,
    #[serde(rename = "type")]
    pub letter_type: String,
    pub queue: String,
    pub error: LetterError,
    pub status: String,
    /// Only whether there is one.
    pub hold: Option<Box<RawValue>>,
    pub archive: Removal,
}

/// How a letter came into the archive.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    pub removed_at: String,
    pub removed_by: String,
    pub reason: String,
    /// Nothing while it waits in the store.
    pub file: Option<FileRow>,
}

/// The same beside the whole letter.
#[derive(Deserialize, Debug)]
pub struct RemovalOf {
    pub archive: Removal,
}

/// Lives of a letter in a file.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct FileRow {
    pub file_id: String,
    pub row: u64,
    pub first_life: u64,
    pub last_life: u64,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct FilePage {
    pub items: Vec<File>,
    pub next_cursor: Option<String>,
    pub waiting: Waiting,
    pub place: Option<String>,
    pub failing_since: Option<String>,
    pub problem: Option<String>,
}

#[derive(Deserialize, Debug)]
pub struct Waiting {
    pub letters: u64,
    pub bytes: u64,
    pub since: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct File {
    pub id: String,
    pub path: String,
    pub state: String,
    pub letters: u64,
    pub bytes: u64,
    pub opened_at: String,
    pub checked_at: Option<String>,
    pub problem: Option<String>,
}

/// A line of a check: a file, the end, or why it broke off.
#[derive(Deserialize, Debug)]
pub struct CheckedLine {
    pub file: Option<File>,
    pub done: Option<u64>,
    pub of: Option<u64>,
    pub problem: Option<String>,
    pub end: Option<Verified>,
}

#[derive(Deserialize, Debug)]
pub struct Verified {
    pub files: u64,
    pub letters: u64,
    pub damaged: Vec<Damaged>,
}

#[derive(Deserialize, Debug)]
pub struct Damaged {
    pub path: String,
    pub problem: String,
}

/// A line of a restore by filter: how far it is, the end, or why it broke off.
#[derive(Deserialize, Debug)]
pub struct RestoreLine {
    pub done: Option<u64>,
    pub problem: Option<String>,
    pub end: Option<Restored>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    pub restored: u64,
    pub skipped: u64,
    #[serde(default)]
    pub skipped_letters: Vec<SkippedLetter>,
}
