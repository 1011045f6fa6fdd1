//! What the server says of holds.

use serde::Deserialize;

use super::LetterSummary;

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HoldPage {
    pub items: Vec<HoldRecord>,
    pub next_cursor: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HoldRecord {
    pub id: String,
    pub state: String,
    /// letter, filter or standing
    pub kind: String,
    pub filter: Option<String>,
    pub letter_id: Option<String>,
    pub reason: String,
    pub by: String,
    pub at: String,
    pub until: Option<String>,
    pub letters: u64,
    pub released_by: Option<String>,
    pub released_at: Option<String>,
    pub release_reason: Option<String>,
}

/// Letters under a hold, read from the same text.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct HeldLetters {
    pub items: Vec<LetterSummary>,
    pub next_cursor: Option<String>,
}
