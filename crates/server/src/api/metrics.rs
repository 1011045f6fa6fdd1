//! `/metrics`, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use http::header;

use super::problem::Problem;
use crate::app::App;
use crate::metrics;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Gives all metrics in the text format of Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    responses((status = 200, content_type = "text/plain", body = String))
)]
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
) -> Result<([(header::HeaderName, &'static str); 1], String), Problem> {
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics::text(&app).await?))
}
