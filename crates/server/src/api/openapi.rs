//! The OpenAPI document, made from the handlers and served with the API.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use super::{
    admin, alerts, archive, audit, decisions, events, holds, incident_steps, incidents, letters, metrics,
    progress, receipts, redrives, report, retention, retry, rules, run_series, series, source_queues,
    sources, stats, suggest, transfer,
};
use crate::access::{self, Permission};

/// Describes the routes that a verb has: on one letter, and by filter.
macro_rules! decision_docs {
    ($($verb:ident, $one:literal, $many:literal, $does:literal;)*) => {
        mod docs {
            $(
                pub mod $verb {
                    use super::super::super::wire::{LetterSummary, OperationBody};

                    #[doc = concat!($does, " one letter.")]
                    #[utoipa::path(
                        post,
                        path = $one,
                        tag = "decisions",
                        operation_id = concat!(stringify!($verb), "_letter"),
                        params(("id" = String, Path)),
                        request_body(content = Option<Object>, description = "`{\"reason\": \"…\"}`; optional except for a hold"),
                        responses((status = 200, body = LetterSummary), (status = 404, description = "not_found"), (status = 409, description = "not_allowed"))
                    )]
                    #[allow(dead_code, reason = "only its description is used: the handler serves all verbs")]
                    pub fn one() {}

                    #[doc = concat!($does, " all letters that match, if they are as many as expected.")]
                    #[utoipa::path(
                        post,
                        path = $many,
                        tag = "decisions",
                        operation_id = concat!(stringify!($verb), "_letters"),
                        request_body(content = Object, description = "`{\"filter\": {…}, \"expectedCount\": 12, \"reason\": \"…\"}`, or `{\"all\": true, \"expectedCount\": 12}`"),
                        responses(
                            (status = 200, body = OperationBody, description = "Done within the call"),
                            (status = 202, body = OperationBody, description = "Running in the background; see Location"),
                            (status = 400, description = "filter_required, bad_filter, reason_required or bad_request"),
                            (status = 409, description = "count_mismatch: nothing was changed")
                        )
                    )]
                    #[allow(dead_code, reason = "only its description is used: the handler serves all verbs")]
                    pub fn many() {}
                }
            )*
        }
    };
}

decision_docs! {
    resolve, "/api/v1/dead-letters/{id}/resolve", "/api/v1/dead-letters/resolve", "Marks as resolved";
    discard, "/api/v1/dead-letters/{id}/discard", "/api/v1/dead-letters/discard", "Discards";
    reopen, "/api/v1/dead-letters/{id}/reopen", "/api/v1/dead-letters/reopen", "Reopens";
    hold, "/api/v1/dead-letters/{id}/hold", "/api/v1/dead-letters/hold", "Places a legal hold on";
    release, "/api/v1/dead-letters/{id}/release", "/api/v1/dead-letters/release", "Releases the hold on";
    delete, "/api/v1/dead-letters/{id}/delete", "/api/v1/dead-letters/delete", "Deletes, which can be undone for as long as the content is kept,";
}

/// Describes what is done to a run.
macro_rules! step_docs {
    ($($step:ident, $path:literal, $does:literal, $body:literal;)*) => {
        mod steps {
            $(
                #[doc = $does]
                #[utoipa::path(
                    post,
                    path = $path,
                    tag = "redrives",
                    operation_id = concat!(stringify!($step), "_redrive"),
                    params(("id" = String, Path)),
                    request_body(content = Option<Object>, description = $body),
                    responses(
                        (status = 200, body = super::super::wire::redrive::RedriveBody),
                        (status = 400, description = "bad_request: `field` says which"),
                        (status = 404, description = "not_found"),
                        (status = 409, description = "redrive_state: its state does not allow it; to resume also rca_required, fix_required, decision_required or poison")
                    )
                )]
                #[allow(dead_code, reason = "only its description is used: the handler serves all steps")]
                pub fn $step() {}
            )*
        }
    };
}

step_docs! {
    pause, "/api/v1/redrives/{id}/pause", "Pauses a run: letters in flight are verified, no more are sent.", "`{\"reason\": \"…\"}`; optional";
    resume, "/api/v1/redrives/{id}/resume", "Resumes a run.", "Nothing";
    cancel, "/api/v1/redrives/{id}/cancel", "Cancels a plan or a run: letters in flight are verified, the rest is not sent.", "`{\"reason\": \"…\"}`; optional";
    pace, "/api/v1/redrives/{id}/pace", "Changes the rate of a run.", "`{\"pace\": 1000}`, \"unlimited\" or \"critical\"";
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lazaret",
        description = "Dead-letter service: report, find, analyse and redrive failed messages.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        stats::live,
        stats::ready,
        metrics::metrics,
        document,
        admin::me,
        report::report,
        letters::list,
        letters::count,
        letters::show,
        letters::body,
        docs::resolve::one,
        docs::resolve::many,
        docs::discard::one,
        docs::discard::many,
        docs::reopen::one,
        docs::reopen::many,
        docs::hold::one,
        docs::hold::many,
        docs::release::one,
        docs::release::many,
        docs::delete::one,
        docs::delete::many,
        decisions::restore,
        retry::retry,
        retry::edits,
        decisions::operation,
        archive::list,
        archive::restore::restore_many,
        archive::files,
        archive::verify::verify,
        archive::show,
        archive::body,
        archive::restore::restore_one,
        holds::list,
        holds::place,
        holds::show,
        holds::release,
        stats::stats,
        stats::ledger,
        incidents::list,
        incidents::show,
        incident_steps::diagnose,
        incident_steps::document,
        incident_steps::fix,
        incident_steps::close,
        incident_steps::assign,
        incident_steps::note,
        redrives::plan,
        redrives::launch,
        redrives::list,
        redrives::show,
        redrives::letters,
        run_series::series,
        redrives::settle,
        steps::pause,
        steps::resume,
        steps::cancel,
        steps::pace,
        receipts::receive,
        series::series,
        sources::list,
        sources::show,
        sources::check,
        sources::topology,
        sources::apply_topology,
        source_queues::list,
        sources::put_back,
        suggest::suggest,
        progress::progress,
        transfer::export,
        transfer::import,
        rules::list,
        rules::enable,
        rules::disable,
        alerts::list,
        alerts::test,
        alerts::acknowledge,
        alerts::silences,
        alerts::silence,
        alerts::unsilence,
        alerts::notifications,
        retention::show,
        retention::prune,
        admin::audit,
        audit::verify,
        events::events,
        admin::tokens,
        admin::create_token,
        admin::revoke_token,
        admin::reset,
    )
)]
struct Document;

/// The document as a value.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    let problem: RefOr<Schema> = ObjectBuilder::new()
        .description(Some("Problem details (RFC 9457): `code` is stable, `hint` says what to do."))
        .property("type", ObjectBuilder::new().schema_type(Type::String))
        .property("title", ObjectBuilder::new().schema_type(Type::String))
        .property("status", ObjectBuilder::new().schema_type(Type::Integer))
        .property("code", ObjectBuilder::new().schema_type(Type::String))
        .property("detail", ObjectBuilder::new().schema_type(Type::String))
        .property("hint", ObjectBuilder::new().schema_type(Type::String))
        .required("code")
        .required("detail")
        .into();
    document.components.get_or_insert_default().schemas.insert(PROBLEM.to_owned(), problem);
    for (path, item) in &mut document.paths.paths {
        let PathItem { get, post, put, delete, .. } = item;
        for (method, operation) in [("GET", get), ("POST", post), ("PUT", put), ("DELETE", delete)] {
            if let Some(operation) = operation {
                describe_refusals(method, path, operation);
            }
        }
    }
    document
}

const PROBLEM: &str = "Problem";

/// Adds what any request of this kind can be refused with, and gives every refusal its body.
fn describe_refusals(method: &str, path: &str, operation: &mut Operation) {
    let mut common = vec![
        ("400", "bad_request: the request cannot be read"),
        ("408", "timeout: the request took too long"),
        ("421", "misdirected: unknown host"),
        ("500", "internal: a bug"),
        ("503", "unavailable: the store is unavailable; see Retry-After"),
    ];
    if access::permission(method, path) != Some(Permission::Open) {
        common.push(("401", "unauthorized: token required, unknown or revoked"));
        common.push(("403", "forbidden: the role may not do this; or foreign_origin"));
    }
    if path.contains('{') || method != "GET" {
        common.push(("404", "not_found: the object named in URL or body does not exist"));
    }
    if method != "GET" {
        common.push(("413", "too_large"));
        common.push(("415", "unsupported_media_type"));
    }
    let responses = &mut operation.responses.responses;
    for (status, description) in common {
        responses
            .entry(status.to_owned())
            .or_insert_with(|| ResponseBuilder::new().description(description).into());
    }
    for (status, response) in responses.iter_mut() {
        if let RefOr::T(response) = response
            && status.as_str() >= "400"
            && response.content.is_empty()
        {
            let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(PROBLEM))).build();
            response.content.insert("application/problem+json".to_owned(), body.into());
        }
    }
}

/// Gives this document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "administration", responses((status = 200)))]
pub(crate) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi())
}
