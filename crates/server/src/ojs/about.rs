//! What this server is, what it can do, and whether it can do it now.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Answer, VERSION};
use crate::app::App;

/// When this process began to serve.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Notes the time, unless it was noted before.
pub(super) fn begin() {
    LazyLock::force(&STARTED);
}

/// How long this process has served.
pub(super) fn uptime() -> Duration {
    STARTED.elapsed()
}

/// Both documents' names for everything, so that any client finds its own.
pub(super) async fn manifest(State(app): State<Arc<App>>) -> Response {
    let body = json!({
        "specversion": VERSION,
        "ojs_version": VERSION,
        "implementation": {
            "name": "lazaret",
            "version": env!("CARGO_PKG_VERSION"),
            "language": "rust",
        },
        "conformance_level": 1,
        "conformance_tier": "runtime",
        "protocols": ["http"],
        "backend": app.config.store.name(),
        "capabilities": {
            "dead_letter": true,
            "delayed_jobs": true,
            "job_ttl": true,
            "priority_queues": true,
            "batch_enqueue": true,
            "pause_resume": true,
            "cron_jobs": false,
            "unique_jobs": false,
            "workflows": false,
            "rate_limiting": false,
            "schema_validation": false,
        },
        // A list of names: one client reads nothing else.
        "extensions": ["dead-letter", "admin-api", "worker-batch"],
        "endpoints": {
            "base_url": "/ojs/v1",
            "manifest": "/ojs/manifest",
            "health": "/ojs/v1/health",
        },
    });
    Answer(StatusCode::OK, body).into_response()
}

/// Asks the store whether it could keep a job now.
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    let uptime_s = uptime().as_secs();
    let asked = Instant::now();
    let ready = app.store.ready().await;
    let latency_ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
    let body = |status: &str| -> Value {
        json!({
            "status": status,
            "version": VERSION,
            "uptime_seconds": uptime_s,
            "backend": {"type": app.config.store.name(), "status": status, "latency_ms": latency_ms},
        })
    };
    match ready {
        Ok(()) => Answer(StatusCode::OK, body("ok")).into_response(),
        Err(error) => {
            tracing::warn!(%error, "the store is not ready");
            Answer(StatusCode::SERVICE_UNAVAILABLE, body("unhealthy")).into_response()
        }
    }
}
