//! What the server answers, as far as the commands look into it. `--json` prints the answers themselves.

pub mod alert;
pub mod archive;
pub mod event;
pub mod hold;
pub mod import;
pub mod incident;
pub mod job;
pub mod redrive;
pub mod retention;
pub mod rules;
pub mod search;
pub mod source;

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use archive::FileRow;
use hold::HoldRecord;
use incident::Grouping;
use redrive::{LetterEdit, LetterRedrive};
use search::{BodyIndex, Scan};

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    pub items: Vec<LetterSummary>,
    pub total: u64,
    #[serde(default)]
    pub total_is_at_least: bool,
    pub next_cursor: Option<String>,
    /// There if the page had to look into letters.
    pub scan: Option<Scan>,
    pub body_index: Option<BodyIndex>,
}

/// The same page with its items as they were written.
#[derive(Deserialize, Debug)]
pub struct RawPage {
    pub items: Vec<Box<RawValue>>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct LetterSummary {
    pub id: String,
    pub event_id: String,
    pub source: String,
    #[serde(rename = "type")]
    pub letter_type: String,
    pub queue: String,
    pub subscriber_id: Option<String>,
    pub tenant_id: Option<String>,
    pub aggregate_id: Option<String>,
    pub schema_version: Option<String>,
    pub error: LetterError,
    pub class: String,
    pub category: Option<String>,
    pub retryable: Option<String>,
    pub fingerprint: Option<String>,
    pub incident_id: Option<String>,
    pub retry_count: u64,
    pub max_retries: Option<u64>,
    pub status: String,
    pub place: String,
    pub life: u64,
    pub hold: Option<Hold>,
    pub resolution: Option<Resolution>,
    pub previous_id: Option<String>,
    pub created_at: String,
    pub died_at: String,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct LetterError {
    #[serde(rename = "type", default)]
    pub error_type: Option<String>,
    pub code: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
    pub stack_trace: Option<String>,
    pub context: Option<Box<RawValue>>,
}

#[derive(Deserialize, Debug)]
pub struct Hold {
    pub at: String,
    pub by: String,
    pub reason: String,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    pub timestamp: String,
    pub strategy: String,
    pub resolved_by: Option<String>,
    pub notes: Option<String>,
}

/// What the whole letter has beside its summary; read from the same text, because raw JSON cannot be flattened.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct LetterRest {
    pub original_event: Option<Box<RawValue>>,
    /// Pairs of name and value, of the present life.
    pub headers: Option<Box<RawValue>>,
    /// Where the message came from at its broker.
    pub origin: Option<Box<RawValue>>,
    /// Why there is no body, if there is none.
    pub body_missing: Option<String>,
    #[serde(default)]
    pub retry_history: Vec<FailedRun>,
    #[serde(default)]
    pub lives: Vec<Life>,
    pub reported: Option<Box<RawValue>>,
    #[serde(default)]
    pub allowed_actions: Vec<String>,
    /// Oldest first.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    pub grouping: Option<Grouping>,
    /// Newest first.
    #[serde(default)]
    pub redrives: Vec<LetterRedrive>,
    /// Oldest first.
    #[serde(default)]
    pub edits: Vec<LetterEdit>,
    /// Oldest first.
    #[serde(default)]
    pub holds: Vec<HoldRecord>,
    /// Lives that stand in files of the archive.
    #[serde(default)]
    pub older_lives: Vec<FileRow>,
    /// Whether something in it is masked.
    #[serde(default)]
    pub redacted: bool,
}

/// Something that somebody decided about the letter.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub at: String,
    pub action: String,
    pub actor: String,
    pub role: Option<String>,
    pub reason: Option<String>,
    pub operation_id: Option<String>,
    /// Whether it was taken in another store and came with the letter.
    #[serde(default)]
    pub imported: bool,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct FailedRun {
    pub timestamp: Option<String>,
    pub error: LetterError,
    pub processing_duration: Option<u64>,
    pub life: Option<u64>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Life {
    pub life: u64,
    pub captured_at: String,
    pub died_at: String,
    pub class: String,
    pub content_type: String,
    pub body_bytes: u64,
    pub sha256: String,
    pub retry_count: u64,
    pub body_missing: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    pub total: u64,
    #[serde(default)]
    pub total_is_at_least: bool,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    pub total: u64,
    pub by_status: Ranking,
    #[serde(default)]
    pub by_source: Ranking,
    pub by_queue: Ranking,
    pub by_type: Ranking,
    pub by_error_type: Ranking,
    pub by_class: Ranking,
    pub oldest_at: Option<String>,
    pub newest_at: Option<String>,
}

/// Counts in the order of the answer, which has the largest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ranking(pub Vec<(String, u64)>);

impl<'de> Deserialize<'de> for Ranking {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ranking, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Ranking;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of counts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ranking, A::Error> {
                let mut counts = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    counts.push(entry);
                }
                Ok(Ranking(counts))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    pub captured: u64,
    pub pending: u64,
    pub reprocessing: u64,
    pub resolved: u64,
    pub discarded: u64,
    pub archived: u64,
    pub pruned: u64,
    pub deleted: u64,
    pub difference: i64,
    pub wrong_counters: Option<u64>,
    pub unlisted_letters: Option<u64>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: String,
    pub state: String,
    pub total: Option<u64>,
    pub done: u64,
    pub skipped: u64,
    #[serde(default)]
    pub skipped_letters: Vec<SkippedLetter>,
}

#[derive(Deserialize, Debug)]
pub struct SkippedLetter {
    pub id: String,
    pub reason: String,
}

/// What became of reported letters, one for each.
#[derive(Deserialize, Debug)]
pub struct Receipts {
    pub items: Vec<Receipt>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub id: Option<String>,
    pub event_id: Option<String>,
    pub result: String,
    pub error: Option<Box<RawValue>>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    pub items: Vec<AuditEntry>,
    pub next_before: Option<u64>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    pub at: String,
    pub actor: String,
    pub role: Option<String>,
    pub action: String,
    pub letter_id: Option<String>,
    pub operation_id: Option<String>,
    pub incident_id: Option<String>,
    pub redrive_id: Option<String>,
    pub filter: Option<String>,
    pub count: u64,
    pub reason: Option<String>,
}

#[derive(Deserialize, Debug)]
pub struct Tokens {
    pub items: Vec<Token>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    pub id: String,
    pub name: String,
    pub role: String,
    pub created_at: String,
    pub created_by: Option<String>,
    pub revoked_at: Option<String>,
}

/// A token just made, with its secret. It has no `Debug`, so that the secret cannot slip into a message.
#[derive(Deserialize)]
pub struct MintedToken {
    pub id: String,
    pub token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_keeps_the_order_of_the_answer() {
        let ranking: Ranking = serde_json::from_str(r#"{"z":9,"a":3,"m":1}"#).unwrap();
        assert_eq!(ranking, Ranking(vec![("z".into(), 9), ("a".into(), 3), ("m".into(), 1)]));
    }

    #[test]
    fn the_payload_of_a_letter_is_read_as_it_was_written() {
        let text = r#"{"originalEvent":{"amount":12345678901234567890.10},"allowedActions":["resolve"]}"#;
        let rest: LetterRest = serde_json::from_str(text).unwrap();
        assert_eq!(rest.original_event.unwrap().get(), r#"{"amount":12345678901234567890.10}"#);
    }
}
