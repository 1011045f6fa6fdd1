//! Holds as the API shows them.

use lazaret_store::hold::HoldRecord;
use serde::Serialize;
use utoipa::ToSchema;

use super::LetterSummary;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoldRecordBody {
    pub id: String,
    /// placing, standing, releasing or released
    #[schema(value_type = String)]
    pub state: &'static str,
    /// letter, filter, or standing: one that also catches letters to come
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// The filter in its text form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The letter that it was placed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub letter_id: Option<String>,
    pub reason: String,
    pub by: String,
    pub at: String,
    /// When it ends by itself; null if somebody has to end it.
    pub until: Option<String>,
    /// How many letters are under it now.
    pub letters: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoldList {
    /// The last placed first.
    pub items: Vec<HoldRecordBody>,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// One hold with letters under it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoldDetail {
    #[serde(flatten)]
    pub hold: HoldRecordBody,
    /// Letters under it, oldest capture first.
    pub items: Vec<LetterSummary>,
    /// Pass it as `cursor` for more letters; null on the last page.
    pub next_cursor: Option<String>,
}

impl From<HoldRecord> for HoldRecordBody {
    fn from(hold: HoldRecord) -> HoldRecordBody {
        HoldRecordBody {
            id: hold.id.to_string(),
            state: hold.state.name(),
            kind: match (hold.standing, &hold.filter) {
                (true, _) => "standing",
                (false, Some(_)) => "filter",
                (false, None) => "letter",
            },
            filter: hold.filter,
            letter_id: hold.letter.map(|id| id.to_string()),
            reason: hold.reason,
            by: hold.held_by,
            at: hold.held_at.to_string(),
            until: hold.until.map(|at| at.to_string()),
            letters: hold.letters,
            released_by: hold.released_by,
            released_at: hold.released_at.map(|at| at.to_string()),
            release_reason: hold.release_reason,
        }
    }
}
