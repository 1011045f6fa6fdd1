//! `/api/v1` and the health routes: the router, and the layers that every request passes.

pub(crate) mod admin;
pub(crate) mod alerts;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod decisions;
pub(crate) mod events;
pub(crate) mod fields;
pub(crate) mod groups;
pub(crate) mod guard;
pub(crate) mod holds;
pub(crate) mod incident_steps;
pub(crate) mod incidents;
pub(crate) mod letters;
mod metrics;
mod ndjson;
pub mod openapi;
mod patience;
pub(crate) mod problem;
pub(crate) mod progress;
pub(crate) mod receipts;
pub(crate) mod redrive_problem;
pub(crate) mod redrive_request;
pub(crate) mod redrives;
mod report;
pub(crate) mod retention;
pub(crate) mod retry;
pub(crate) mod reveal;
pub(crate) mod rules;
pub(crate) mod run_series;
pub(crate) mod series;
pub(crate) mod source_queues;
pub(crate) mod sources;
pub(crate) mod stats;
pub(crate) mod suggest;
pub(crate) mod transfer;
pub(crate) mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware;
use axum::routing::{delete, get, post};
use lazaret_store::decision::Verb;

use crate::app::App;
use crate::{ojs, web};
use problem::Problem;

pub use problem::Code;

/// The whole service as a router.
pub fn router(app: Arc<App>) -> Router {
    let mut routes = Router::new()
        .route("/health/live", get(stats::live))
        .route("/health/ready", get(stats::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/api/openapi.json", get(openapi::document))
        .route("/api/v1/me", get(admin::me))
        .route("/api/v1/dead-letters", post(report::report).get(letters::list))
        .route("/api/v1/dead-letters/count", post(reveal::count))
        .route("/api/v1/dead-letters/{id}", get(reveal::letter))
        .route("/api/v1/dead-letters/{id}/body", get(reveal::body))
        .route("/api/v1/dead-letters/{id}/restore", post(decisions::restore))
        .route("/api/v1/dead-letters/{id}/retry", post(retry::retry))
        .route("/api/v1/dead-letters/{id}/edits", get(retry::edits))
        .route("/api/v1/operations/{id}", get(decisions::operation))
        .route("/api/v1/archive", get(archive::list))
        .route("/api/v1/archive/restore", post(archive::restore::restore_many))
        .route("/api/v1/archive/files", get(archive::files))
        .route("/api/v1/archive/verify", post(archive::verify::verify))
        .route("/api/v1/archive/{id}", get(reveal::archived))
        .route("/api/v1/archive/{id}/body", get(reveal::archived_body))
        .route("/api/v1/archive/{id}/restore", post(archive::restore::restore_one))
        .route("/api/v1/holds", get(holds::list).post(holds::place))
        .route("/api/v1/holds/{id}", get(holds::show))
        .route("/api/v1/holds/{id}/release", post(holds::release))
        .route("/api/v1/stats", get(stats::stats))
        .route("/api/v1/ledger", get(stats::ledger))
        .route("/api/v1/incidents", get(incidents::list))
        .route("/api/v1/incidents/{id}", get(incidents::show))
        .route("/api/v1/incidents/{id}/rca", post(incident_steps::diagnose))
        .route("/api/v1/incidents/{id}/rca.md", get(incident_steps::document))
        .route("/api/v1/incidents/{id}/fix", post(incident_steps::fix))
        .route("/api/v1/incidents/{id}/close", post(incident_steps::close))
        .route("/api/v1/incidents/{id}/assign", post(incident_steps::assign))
        .route("/api/v1/incidents/{id}/notes", post(incident_steps::note))
        .route("/api/v1/redrives/plan", post(redrives::plan))
        .route("/api/v1/redrives", post(redrives::launch).get(redrives::list))
        .route("/api/v1/redrives/{id}", get(redrives::show))
        .route("/api/v1/redrives/{id}/letters", get(redrives::letters))
        .route("/api/v1/redrives/{id}/series", get(run_series::series))
        .route("/api/v1/redrives/{id}/letters/{letter}/settle", post(redrives::settle))
        .route("/api/v1/receipts", post(receipts::receive))
        .route("/api/v1/sources", get(sources::list))
        .route("/api/v1/sources/{name}", get(sources::show))
        .route("/api/v1/sources/{name}/check", get(sources::check))
        .route("/api/v1/sources/{name}/queues", get(source_queues::list))
        .route("/api/v1/sources/{name}/topology", get(sources::topology).post(sources::apply_topology))
        .route("/api/v1/dead-letters/{id}/put-back", post(sources::put_back))
        .route("/api/v1/series", get(series::series))
        .route("/api/v1/suggest", get(suggest::suggest))
        .route("/api/v1/progress", get(progress::progress))
        .route("/api/v1/export", get(transfer::export))
        .route("/api/v1/import", post(transfer::import))
        .route("/api/v1/rules/replay", get(rules::list))
        .route("/api/v1/rules/replay/{name}/enable", post(rules::enable))
        .route("/api/v1/rules/replay/{name}/disable", post(rules::disable))
        .route("/api/v1/alerts", get(alerts::list))
        .route("/api/v1/alerts/test", post(alerts::test))
        .route("/api/v1/alerts/{id}/acknowledge", post(alerts::acknowledge))
        .route("/api/v1/silences", get(alerts::silences).post(alerts::silence))
        .route("/api/v1/silences/{id}", delete(alerts::unsilence))
        .route("/api/v1/notifications", get(alerts::notifications))
        .route("/api/v1/retention", get(retention::show))
        .route("/api/v1/prune", post(retention::prune))
        .route("/api/v1/audit", get(admin::audit))
        .route("/api/v1/audit/verify", get(audit::verify))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/tokens", get(admin::tokens).post(admin::create_token))
        .route("/api/v1/tokens/{id}", delete(admin::revoke_token));
    for verb in Verb::BY_FILTER {
        let name = verb.name();
        routes = routes
            .route(
                &format!("/api/v1/dead-letters/{name}"),
                post(move |state, caller, request, body| {
                    decisions::by_filter(verb, state, caller, request, body)
                }),
            )
            .route(
                &format!("/api/v1/dead-letters/{{id}}/{name}"),
                post(move |state, caller, request, id, body| {
                    decisions::by_id(verb, state, caller, request, id, body)
                }),
            );
    }
    for step in redrives::Step::ALL {
        routes = routes.route(
            &format!("/api/v1/redrives/{{id}}/{}", step.name()),
            post(move |state, caller, request, id, body| {
                redrives::step(step, state, caller, request, id, body)
            }),
        );
    }
    routes = ojs::add_to(routes);
    routes = web::add_to(routes);
    if app.test_mode {
        routes = routes.route("/test/reset", post(admin::reset));
    }
    routes
        .method_not_allowed_fallback(wrong_method)
        // Inside of the router, so that the route is known by its pattern.
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), guard::permit))
        .fallback(no_route)
        // One layer for everything else: each layer of a router is a box of its own that every request clones.
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::pass))
        .with_state(app)
}

async fn no_route(State(_): State<Arc<App>>) -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this address")
        .hint("the API is described at /api/openapi.json")
}

async fn wrong_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this address does not take this method")
        .hint("the API is described at /api/openapi.json")
}
