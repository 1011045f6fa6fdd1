//! How far the work behind the requests has come: indexing bodies, giving letters new groups.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::letters::{Pairs, unknown_parameter};
use super::problem::Problem;
use super::wire::BodyIndexBody;
use crate::app::App;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProgressBody {
    pub body_index: BodyIndexBody,
    pub regrouping: RegroupingBody,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RegroupingBody {
    /// The revision that every letter has by now.
    pub revision: String,
    /// The one that is on its way, if any.
    pub towards: Option<String>,
    /// Lives looked at on this way.
    pub done: u64,
    /// Lives there are.
    pub total: u64,
}

/// Tells how far the work behind the requests has come.
#[utoipa::path(
    get,
    path = "/api/v1/progress",
    tag = "health",
    responses((status = 200, body = ProgressBody))
)]
pub(crate) async fn progress(
    State(app): State<Arc<App>>,
    pairs: Pairs,
) -> Result<Json<ProgressBody>, Problem> {
    if let Some((key, _)) = pairs?.0.first() {
        return Err(unknown_parameter(key, &[]));
    }
    let now = app.clock.now();
    let body_index = BodyIndexBody::of(&app, now).await?;
    let regrouping = app.store.regrouped().await?;
    Ok(Json(ProgressBody {
        body_index,
        regrouping: RegroupingBody {
            revision: regrouping.reached,
            towards: regrouping.towards,
            done: regrouping.done,
            total: regrouping.total,
        },
    }))
}
