//! Health, statistics and the ledger.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lazaret_core::lifecycle::Status;
use lazaret_store::stats::{Ledger, LedgerBy, StatsOf};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::letters::{Pairs, unknown_parameter};
use super::problem::{Code, Problem};
use crate::app::App;
use crate::raw_json::shown;

/// Whether the process answers.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200)))]
pub(crate) async fn live() -> Json<Value> {
    Json(json!({"status": "live"}))
}

/// Whether a letter could be stored now; `leads` says whether this instance does the periodic work.
#[utoipa::path(get, path = "/health/ready", tag = "health", responses((status = 200), (status = 503)))]
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    app.store.ready().await?;
    Ok(Json(json!({"status": "ready", "leads": app.store.leads()})))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatsBody {
    pub total: u64,
    #[schema(value_type = Object)]
    pub by_status: Value,
    #[schema(value_type = Object)]
    pub by_source: LargestFirst,
    #[schema(value_type = Object)]
    pub by_queue: LargestFirst,
    #[schema(value_type = Object)]
    pub by_type: LargestFirst,
    #[schema(value_type = Object)]
    pub by_error_type: LargestFirst,
    #[schema(value_type = Object)]
    pub by_class: LargestFirst,
    /// Deaths of letters, not captures.
    pub oldest_at: Option<String>,
    pub newest_at: Option<String>,
}

/// An object whose order means something: people read it from the top.
pub(crate) struct LargestFirst(Vec<(String, u64)>);

impl LargestFirst {
    /// How many there are of a value; none if it is not among the largest.
    pub fn get(&self, value: &str) -> u64 {
        self.0.iter().find(|(known, _)| known == value).map_or(0, |(_, letters)| *letters)
    }
}

impl Serialize for LargestFirst {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(value, letters)| (value, letters)))
    }
}

/// Counts letters by what tells them apart; the largest 1,000 values each.
#[utoipa::path(
    get,
    path = "/api/v1/stats",
    tag = "letters",
    params(("status" = Option<String>, Query, description = "Only letters of this status")),
    responses((status = 200, body = StatsBody))
)]
pub(crate) async fn stats(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<StatsBody>, Problem> {
    let mut of = StatsOf::All;
    for (key, value) in pairs?.0 {
        if key != "status" {
            return Err(unknown_parameter(&key, &["status"]));
        }
        let status = Status::parse(&value).ok_or_else(|| {
            Problem::new(Code::BadRequest, format!("unknown status `{}`", shown(&value)))
                .hint("known: pending, reprocessing, resolved, discarded")
        })?;
        of = StatsOf::Only(status);
    }
    let stats = app.store.stats(of).await?;
    Ok(Json(StatsBody {
        total: stats.total,
        by_status: json!(stats.by_status),
        by_source: LargestFirst(stats.by_source),
        by_queue: LargestFirst(stats.by_queue),
        by_type: LargestFirst(stats.by_type),
        by_error_type: LargestFirst(stats.by_error_type),
        by_class: LargestFirst(stats.by_class),
        oldest_at: stats.oldest_at.map(|at| at.to_string()),
        newest_at: stats.newest_at.map(|at| at.to_string()),
    }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LedgerBody {
    pub captured: u64,
    pub pending: u64,
    pub reprocessing: u64,
    pub resolved: u64,
    pub discarded: u64,
    pub archived: u64,
    pub pruned: u64,
    pub deleted: u64,
    /// Captured less all terms: zero, or something is wrong.
    pub difference: i64,
    pub recounted: bool,
    /// Counters that differ from the rows; only after a recount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong_counters: Option<u64>,
    /// Live letters that are in no listed incident, or unsettled in a closed one; only after a recount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlisted_letters: Option<u64>,
}

/// Shows that everything captured is accounted for.
#[utoipa::path(
    get,
    path = "/api/v1/ledger",
    tag = "letters",
    params(("recount" = Option<bool>, Query, description = "Recount the rows instead of reading the counters")),
    responses((status = 200, body = LedgerBody))
)]
pub(crate) async fn ledger(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<LedgerBody>, Problem> {
    let mut by = LedgerBy::Counters;
    for (key, value) in pairs?.0 {
        by = match (key.as_str(), value.as_str()) {
            ("recount", "true") => LedgerBy::Recount,
            ("recount", "false") => LedgerBy::Counters,
            ("recount", _) => return Err(Problem::new(Code::BadRequest, "recount must be true or false")),
            _ => return Err(unknown_parameter(&key, &["recount"])),
        };
    }
    let ledger = app.store.ledger(by).await?;
    Ok(Json(LedgerBody::new(ledger, by)))
}

impl LedgerBody {
    pub fn new(ledger: Ledger, by: LedgerBy) -> LedgerBody {
        LedgerBody {
            captured: ledger.captured,
            pending: ledger.pending,
            reprocessing: ledger.reprocessing,
            resolved: ledger.resolved,
            discarded: ledger.discarded,
            archived: ledger.archived,
            pruned: ledger.pruned,
            deleted: ledger.deleted,
            difference: ledger.difference(),
            recounted: by == LedgerBy::Recount,
            wrong_counters: (by == LedgerBy::Recount).then_some(ledger.wrong_counters),
            unlisted_letters: (by == LedgerBy::Recount).then_some(ledger.unlisted),
        }
    }
}
