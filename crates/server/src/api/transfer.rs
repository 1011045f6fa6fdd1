//! Letters out of this store and into another: `GET /api/v1/export` and `POST /api/v1/import`.
//!
//! An export that is not whole must never look so: it ends with a line over all lines before it, or breaks off.

mod export;
mod import;
pub(crate) mod letter;
mod line;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Query, Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream;
use http::{HeaderValue, header};
use lazaret_core::filter::Filter;
use lazaret_store::audit::Act;

use super::guard::{RequestId, actor};
use super::letters::{Pairs, unknown_parameter};
use super::ndjson::{LineBounds, Lines, MEDIA_TYPES};
use super::problem::{Code, Problem, chain};
use crate::access::Caller;
use crate::app::App;
use crate::raw_json::shown;
use export::Export;
use import::{Import, ImportBody};

/// Gives letters whole, with nothing masked, oldest death first: one line each, then a line over all of them.
///
/// What dies while it is being read may be missing, or be there twice.
#[utoipa::path(
    get,
    path = "/api/v1/export",
    tag = "transfer",
    params(
        ("q" = Option<String>, Query, description = "The filter in its text form; its keys are taken as well, as in lists. Everything unless given"),
    ),
    responses(
        (status = 200, content_type = "application/x-ndjson", body = String,
         description = "Lines of `{\"sha256\":\"…\",\"letter\":{…}}`, the last `{\"sha256\":\"…\",\"end\":{\"letters\":12}}`. Without that line it is not whole"),
        (status = 400, description = "bad_filter")
    )
)]
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let filter = Filter::from_query(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))?;
    // Nothing in it is masked, so that another store gets the letters as they are: who took them is put on record.
    let act = Act::Export { filter: filter.to_string() };
    app.store.note_act(act, actor(&caller, &request), app.clock.now()).await?;
    let mut export = Export::new(app, filter);
    // Before the head is sent, a failure can still be told as a problem.
    let first = export.next().await?;
    let rest = stream::try_unfold(export, |mut export| async move {
        match export.next().await {
            Ok(Some(lines)) => Ok(Some((lines, export))),
            Ok(None) => Ok(None),
            Err(error) => {
                tracing::error!(
                    error = %chain(&error),
                    letters = export.letters(),
                    "an export broke off after {} letters",
                    export.letters()
                );
                Err(error)
            }
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        // The content is strangers': a browser shall neither show nor guess it.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"letters.ndjson\"")),
    ];
    let body = Body::from_stream(stream::iter(first.map(Ok)).chain(rest));
    Ok((headers, body).into_response())
}

/// Takes letters of an export as they were, with their history. What is here already stays as it is.
#[utoipa::path(
    post,
    path = "/api/v1/import",
    tag = "transfer",
    request_body(description = "Lines of an export, at most 10,000 letters", content((String = "application/x-ndjson"))),
    responses(
        (status = 200, body = ImportBody),
        (status = 413, description = "too_large: the letters of the lines before are kept"),
        (status = 415, description = "unsupported_media_type"),
        (status = 503, description = "store_busy, store_full or store_unavailable: the letters of the lines before are kept")
    )
)]
pub(crate) async fn import(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(id): Extension<RequestId>,
    pairs: Pairs,
    request: Request,
) -> Result<Json<ImportBody>, Problem> {
    if let Some((key, _)) = pairs?.0.first() {
        return Err(unknown_parameter(key, &[]));
    }
    let content_type = request.headers().get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or(""));
    let media_type = content_type.unwrap_or(MEDIA_TYPES[0]).split(';').next().unwrap_or("").trim();
    if !MEDIA_TYPES.contains(&media_type.to_ascii_lowercase().as_str()) {
        return Err(Problem::new(
            Code::UnsupportedMediaType,
            format!("unsupported content type `{}`", shown(media_type)),
        )
        .hint("send application/x-ndjson"));
    }
    let bytes_max = app.config.limits.ndjson_bytes_max;
    // A letter with many lives has a long line; what bounds the stream bounds it as well.
    let bounds = LineBounds { bytes_max, line_bytes_max: bytes_max };
    let mut lines = Lines::new(request.into_body(), bounds);
    let mut import = Import::new(app, actor(&caller, &id));
    while let Some(line) = lines.next().await.map_err(|problem| import.broken(problem))? {
        import.add(line).await?;
    }
    import.finish().await.map(Json)
}
