//! A dead row: what becomes of it as a captured message, and whether its death is a new one.

use bytes::Bytes;
use lazaret_core::attempt::LetterError;
use lazaret_core::envelope::Envelope;
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::Row;

use super::config::OutboxConfig;
use super::db::cell;
use super::table::{PayloadType, Table};
use crate::{Arrival, Receipt, SourceError};

/// What tells one death of a row from another. It is kept with the letter, in what was reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadRow {
    /// The row's version: it changes with every update, and with nothing else but a dump that was restored.
    pub version: String,
    pub retry_count: u32,
    pub last_error: Option<String>,
    pub processed_at: Option<Time>,
}

/// A row as it was captured last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownRow {
    pub row: DeadRow,
    /// Whether the row was in another status since: its letter is reprocessing, or was resolved because the row had
    /// been processed.
    pub was_elsewhere: bool,
}

/// Whether a dead row died anew. A row that was merely touched has not: somebody wrote a note into it, or restored a
/// dump.
pub fn judge_row(known: Option<&KnownRow>, row: &DeadRow) -> SourceWord {
    let Some(known) = known else { return SourceWord::Silent };
    if known.row.version == row.version {
        return SourceWord::SameDeath;
    }
    let looks_the_same = known.row.retry_count == row.retry_count
        && known.row.last_error == row.last_error
        && known.row.processed_at == row.processed_at;
    if !known.was_elsewhere && looks_the_same { SourceWord::SameDeath } else { SourceWord::NewDeath }
}

/// What is kept of a row beside the letter's own fields.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reported {
    table: String,
    row_version: String,
    retry_count: u32,
    last_error: Option<String>,
    processed_at: Option<String>,
    /// When the event was written. Letters that were captured before this was kept do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    /// Every column but the payload, under its own name; nothing if that was too much.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<Box<RawValue>>,
}

impl DeadRow {
    /// Reads what was kept with a letter (`Captured::reported`).
    pub fn of_reported(reported: &str) -> Option<DeadRow> {
        let kept: Reported = serde_json::from_str(reported).ok()?;
        Some(DeadRow {
            version: kept.row_version,
            retry_count: kept.retry_count,
            last_error: kept.last_error,
            processed_at: kept.processed_at.and_then(|at| Time::parse(&at).ok()),
        })
    }
}

/// The row as JSON text that was kept with a letter.
pub(super) fn kept_row(reported: &str) -> Option<Box<RawValue>> {
    serde_json::from_str::<Reported>(reported).ok()?.row
}

/// A dead row in the version in which it was handed over: what an arrival is acknowledged by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RowVersion {
    pub key: String,
    /// Tells one death of the row from another.
    pub version: String,
}

impl RowVersion {
    /// The version comes first: it is a number of PostgreSQL's, and a key may hold anything.
    pub fn receipt(&self) -> Receipt {
        Receipt::new(format!("{} {}", self.version, self.key))
    }

    /// Reads a receipt; nothing of one that another source made.
    pub fn read(receipt: &Receipt) -> Option<RowVersion> {
        let (version, key) = receipt.text().split_once(' ')?;
        Some(RowVersion { key: key.to_owned(), version: version.to_owned() })
    }
}

/// Makes a captured message of a row that `Statements::fetch` gave.
pub(super) fn arrival(row: &Row, table: &Table, config: &OutboxConfig) -> Result<Arrival, SourceError> {
    let key: String = cell(row, 0)?;
    let last_error: Option<String> = cell(row, 10)?;
    let dead = DeadRow {
        version: cell(row, 1)?,
        retry_count: count(cell(row, 8)?).unwrap_or(0),
        last_error,
        processed_at: cell::<Option<i64>>(row, 11)?.map(Time::from_ms),
    };
    let created_at = cell::<Option<i64>>(row, 12)?.map(Time::from_ms);
    let aggregate_type: Option<String> = cell(row, 3)?;
    let (content_type, body) = payload(row, 5, table.payload)?;
    let headers = aggregate_type.map(|of| vec![("aggregate_type".to_owned(), of.into())]).unwrap_or_default();
    let captured = Captured {
        source: config.name.clone(),
        message_id: key.clone(),
        letter_type: cell::<Option<String>>(row, 2)?.unwrap_or_default(),
        queue: config.table.to_string(),
        subscriber: config.subscriber.clone(),
        tenant: cell(row, 7)?,
        aggregate: cell(row, 4)?,
        schema_version: cell(row, 6)?,
        envelope: Envelope::seal(body, content_type, headers),
        error: dead.last_error.as_deref().map(told).unwrap_or_default(),
        attempts: Vec::new(),
        retry_count: dead.retry_count,
        max_retries: count(cell(row, 9)?),
        died_at: dead.processed_at,
        mark: None,
        word: SourceWord::Silent,
        reported: Some(reported(&dead, config.table.to_string(), created_at, cell(row, 13)?)),
    };
    let receipt = RowVersion { key, version: dead.version }.receipt();
    Ok(Arrival { captured, receipt })
}

fn reported(dead: &DeadRow, table: String, created_at: Option<Time>, row: Option<String>) -> String {
    let row = row.filter(|row| row.len() <= limits::OUTBOX_ROW_BYTES_MAX);
    let kept = Reported {
        table,
        row_version: dead.version.clone(),
        retry_count: dead.retry_count,
        last_error: dead.last_error.clone(),
        processed_at: dead.processed_at.map(|at| at.to_string()),
        created_at: created_at.map(|at| at.to_string()),
        row: row.and_then(|row| RawValue::from_string(row).ok()),
    };
    serde_json::to_string(&kept).expect("texts and numbers are JSON")
}

/// A number that is never negative; null stays null.
pub(super) fn count(number: Option<i64>) -> Option<u32> {
    number.map(|number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

/// The bytes of a payload as they are, and what they are.
pub(super) fn payload(row: &Row, at: usize, of: PayloadType) -> Result<(&'static str, Bytes), SourceError> {
    const JSON: &str = "application/json";
    Ok(match of {
        PayloadType::Json | PayloadType::Jsonb => {
            (JSON, cell::<Option<String>>(row, at)?.unwrap_or_default().into())
        }
        PayloadType::Bytes => {
            ("application/octet-stream", cell::<Option<Vec<u8>>>(row, at)?.unwrap_or_default().into())
        }
        PayloadType::Text => {
            let text = cell::<Option<String>>(row, at)?.unwrap_or_default();
            // Many keep their JSON in a text; receivers want to be told.
            let looks_so = text.trim_start().starts_with(['{', '[']);
            let is_json = looks_so && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            (if is_json { JSON } else { "text/plain; charset=utf-8" }, text.into())
        }
    })
}

/// An error as a relay of ours writes it into a row.
pub(super) fn written(error: &LetterError) -> String {
    match (error.error_type.as_str(), error.code.as_deref()) {
        ("", None) => error.message.clone(),
        ("", Some(code)) => format!("Error ({code}): {}", error.message),
        (of, None) => format!("{of}: {}", error.message),
        (of, Some(code)) => format!("{of} ({code}): {}", error.message),
    }
}

/// The same read back. What others wrote is a message, unless it begins like ours.
fn told(text: &str) -> LetterError {
    let whole = || LetterError { message: text.to_owned(), ..LetterError::default() };
    let Some((head, message)) = text.split_once(": ") else { return whole() };
    let (name, code) = match head.strip_suffix(')').and_then(|head| head.split_once(" (")) {
        Some((name, code)) => (name, Some(code)),
        None => (head, None),
    };
    let is_name = name.len() <= limits::NAME_IN_MESSAGE_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && name.chars().any(|c| c.is_ascii_lowercase());
    let is_code = |code: &str| !code.is_empty() && !code.contains([' ', '(', ')']);
    if !is_name || !code.is_none_or(is_code) {
        return whole();
    }
    let ends = ["Error", "Exception", "Timeout", "Refused", "Answer", "Failure", "Broken", "Allowed"];
    // A single word before a colon may be anything: only names of errors count.
    if code.is_none() && !ends.iter().any(|end| name.ends_with(end)) {
        return whole();
    }
    LetterError {
        error_type: name.to_owned(),
        code: code.map(str::to_owned),
        message: message.to_owned(),
        ..LetterError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: &str) -> DeadRow {
        DeadRow {
            version: version.to_owned(),
            retry_count: 5,
            last_error: Some("TimeoutError: late".to_owned()),
            processed_at: Some(Time::from_ms(1_000)),
        }
    }

    #[test]
    fn a_row_died_anew_only_if_it_was_elsewhere_or_tells_something_new() {
        use SourceWord::{NewDeath, SameDeath, Silent};
        let known = |was_elsewhere| KnownRow { row: row("7"), was_elsewhere };
        let changed = [
            DeadRow { retry_count: 3, ..row("8") },
            DeadRow { last_error: None, ..row("8") },
            DeadRow { processed_at: Some(Time::from_ms(2_000)), ..row("8") },
        ];
        assert_eq!(judge_row(None, &row("7")), Silent);
        for was_elsewhere in [false, true] {
            assert_eq!(judge_row(Some(&known(was_elsewhere)), &row("7")), SameDeath);
            for row in &changed {
                assert_eq!(judge_row(Some(&known(was_elsewhere)), row), NewDeath, "{row:?}");
            }
        }
        // Touched, or restored from a dump.
        assert_eq!(judge_row(Some(&known(false)), &row("8")), SameDeath);
        // Put back by us, and dead of the same.
        assert_eq!(judge_row(Some(&known(true)), &row("8")), NewDeath);
    }

    #[test]
    fn what_is_kept_with_a_letter_tells_the_death_again() {
        let kept = reported(
            &row("7"),
            "app.outbox".to_owned(),
            None,
            Some("{\"id\": 12345678901234567890}".to_owned()),
        );
        assert_eq!(DeadRow::of_reported(&kept), Some(row("7")));
        assert_eq!(kept_row(&kept).unwrap().get(), "{\"id\": 12345678901234567890}");
        let long = format!("[\"{}\"]", "x".repeat(limits::OUTBOX_ROW_BYTES_MAX));
        let kept = reported(&row("7"), "app.outbox".to_owned(), None, Some(long));
        assert_eq!(DeadRow::of_reported(&kept), Some(row("7")));
        assert!(kept_row(&kept).is_none());
        assert_eq!(DeadRow::of_reported("{}"), None);
    }

    #[test]
    fn an_error_that_a_relay_wrote_is_read_back() {
        let error = |of: &str, code: Option<&str>, message: &str| LetterError {
            error_type: of.to_owned(),
            code: code.map(str::to_owned),
            message: message.to_owned(),
            ..LetterError::default()
        };
        for written_error in [
            error("HttpAnswer", Some("503"), "https://x answered 503: busy (really): yes"),
            error("ConnectionRefused", None, "cannot connect to x: refused"),
            error("", None, "just a text"),
            error("", None, "order 7: not paid (again): stop"),
            error("", None, "Rollback: 3 rows"),
        ] {
            assert_eq!(told(&written(&written_error)), written_error);
        }
    }
}
