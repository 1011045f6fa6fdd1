//! Deleted letters whose content is kept for a while.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lazaret_core::cursor::{self, RawKey};
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::trash::Trashed;
use serde::Serialize;
use utoipa::ToSchema;

use super::letters::{Pairs, parse_limit, unknown_parameter};
use super::problem::Problem;
use crate::app::App;

/// The number of this list among those that have cursors.
const ORDER: u8 = 40;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrashList {
    /// The last deleted first.
    pub items: Vec<TrashedBody>,
    pub next_cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrashedBody {
    pub letter_id: String,
    pub source: String,
    pub queue: String,
    #[serde(rename = "type")]
    pub letter_type: String,
    pub event_id: String,
    pub error_type: String,
    pub error_message: String,
    /// What it was when it was deleted, and will be again.
    #[schema(value_type = String)]
    pub status: &'static str,
    pub died_at: String,
    pub deleted_at: String,
    pub deleted_by: String,
    /// Its content is kept until then at least.
    pub kept_until: String,
}

/// Lists deleted letters that can be restored, the last deleted first.
#[utoipa::path(
    get,
    path = "/api/v1/trash",
    tag = "letters",
    params(
        ("limit" = Option<u32>, Query, description = "1 to 500, 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before")
    ),
    responses((status = 200, body = TrashList), (status = 400, description = "bad_cursor or bad_request"))
)]
pub(super) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<TrashList>, Problem> {
    let (mut limit, mut before) = (limits::PAGE_ROWS, None);
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "limit" => limit = parse_limit(&value, limits::PAGE_ROWS_MAX)?,
            "cursor" if value.is_empty() => {}
            "cursor" => {
                let last = cursor::open(&value, ORDER, [0; 8])?;
                before = Some((Time::from_ms(last.value), LetterId::from_bytes(last.id)));
            }
            _ => return Err(unknown_parameter(&key, &["limit", "cursor"])),
        }
    }
    let mut trashed = app.store.trash(before, limit + 1).await?;
    let more = trashed.len() > limit;
    trashed.truncate(limit);
    let next_cursor = trashed.last().filter(|_| more).map(|last| {
        cursor::seal(ORDER, [0; 8], RawKey { value: last.deleted_at.ms(), id: *last.letter.bytes() })
    });
    Ok(Json(TrashList { items: trashed.into_iter().map(TrashedBody::from).collect(), next_cursor }))
}

impl From<Trashed> for TrashedBody {
    fn from(trashed: Trashed) -> TrashedBody {
        TrashedBody {
            letter_id: trashed.letter.to_string(),
            source: trashed.source,
            queue: trashed.queue,
            letter_type: trashed.letter_type,
            event_id: trashed.event_id,
            error_type: trashed.error_type,
            error_message: trashed.error_message,
            status: trashed.status.name(),
            died_at: trashed.died_at.to_string(),
            deleted_at: trashed.deleted_at.to_string(),
            deleted_by: trashed.deleted_by,
            kept_until: trashed.kept_until.to_string(),
        }
    }
}
