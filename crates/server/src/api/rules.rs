//! Replay rules: what they are about, what they have done, and switching them.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use lazaret_store::page::Total;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::guard::{RequestId, actor};
use super::problem::{Code, Problem};
use crate::access::Caller;
use crate::app::App;
use crate::raw_json::shown;
use crate::replay::{self, RuleState};

#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayRuleList {
    pub items: Vec<ReplayRuleBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayRuleBody {
    pub name: String,
    /// The filter for letters, as everywhere.
    #[schema(value_type = Object)]
    pub filter: Value,
    /// How long a letter lies before it is put back, from its last death.
    pub delay: String,
    /// How often the rule puts one letter back.
    pub max_replays: u32,
    pub enabled: bool,
    /// `configuration`, or `switch` if a person switched it.
    #[schema(value_type = String)]
    pub enabled_by: &'static str,
    /// Why it does nothing although it is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub blocked: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// infrastructure or contract
    #[schema(value_type = String)]
    pub category: &'static str,
    /// Letters put back so far.
    pub replayed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_replayed_at: Option<String>,
    /// Pending letters that match, due or not, and those that were put back as often as they may.
    pub waiting: u64,
    /// There are more than `waiting` says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waiting_is_at_least: bool,
}

/// Lists the replay rules of the configuration, in the order in which they take their turns.
#[utoipa::path(
    get,
    path = "/api/v1/rules/replay",
    tag = "rules",
    responses((status = 200, body = ReplayRuleList))
)]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Json<ReplayRuleList>, Problem> {
    let mut items = Vec::new();
    for state in replay::rules(&app).await? {
        items.push(body(&app, state).await?);
    }
    Ok(Json(ReplayRuleList { items }))
}

/// Enables a replay rule, whatever the configuration says.
#[utoipa::path(
    post,
    path = "/api/v1/rules/replay/{name}/enable",
    tag = "rules",
    params(("name" = String, Path)),
    responses((status = 200, body = ReplayRuleBody), (status = 404, description = "not_found"))
)]
pub(crate) async fn enable(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    request: Extension<RequestId>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<ReplayRuleBody>, Problem> {
    switch(app, caller, request, name, true).await
}

/// Disables a replay rule, whatever the configuration says.
#[utoipa::path(
    post,
    path = "/api/v1/rules/replay/{name}/disable",
    tag = "rules",
    params(("name" = String, Path)),
    responses((status = 200, body = ReplayRuleBody), (status = 404, description = "not_found"))
)]
pub(crate) async fn disable(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    request: Extension<RequestId>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<ReplayRuleBody>, Problem> {
    switch(app, caller, request, name, false).await
}

async fn switch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    name: Result<Path<String>, PathRejection>,
    enabled: bool,
) -> Result<Json<ReplayRuleBody>, Problem> {
    let Path(name) = name?;
    let Some(state) = replay::switch(&app, &name, enabled, actor(&caller, &request)).await? else {
        let detail = format!("unknown replay rule `{}`", shown(&name));
        return Err(Problem::new(Code::NotFound, detail)
            .hint("list rules with GET /api/v1/rules/replay; define them in the configuration"));
    };
    Ok(Json(body(&app, state).await?))
}

async fn body(app: &App, state: RuleState) -> Result<ReplayRuleBody, Problem> {
    let (waiting, waiting_is_at_least) = match replay::waiting(app, &state.rule).await? {
        Total::Exact(letters) => (letters, false),
        Total::AtLeast(letters) => (letters, true),
    };
    let RuleState { rule, enabled, enabled_by, blocked, replayed, last_replayed_at } = state;
    Ok(ReplayRuleBody {
        filter: rule.filter.to_json(),
        delay: rule.delay.to_string(),
        max_replays: rule.max_replays,
        enabled,
        enabled_by: enabled_by.name(),
        blocked,
        cause: rule.cause,
        category: rule.category.name(),
        replayed,
        last_replayed_at: last_replayed_at.map(|at| at.to_string()),
        waiting,
        waiting_is_at_least,
        name: rule.name,
    })
}
