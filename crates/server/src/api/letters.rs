//! Finding letters: lists, counts, the whole entry, the exact bytes. Reading parameters, as every list does it.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use lazaret_core::cursor::{self, Sort};
use lazaret_core::filter::{Filter, When};
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_store::page::{Original, PageQuery};
use serde_json::Value;

use super::archive::{no_live_letter, whole_history, whole_original};
use super::groups;
use super::holds;
use super::problem::{Code, Problem};
use super::retry::edits_of;
use super::wire::archive::OlderLivesBody;
use super::wire::edit::Bodies;
use super::wire::entry::{Beside, LetterEntry};
use super::wire::redrive::LetterRedriveBody;
use super::wire::{BodyIndexBody, LetterList, LetterSummary, ScanBody, TotalBody, hex};
use crate::app::App;
use crate::raw_json::shown;

/// Query parameters as they came, in order.
pub(super) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

const PAGE_KEYS: [&str; 3] = ["sort", "limit", "cursor"];

/// Lists letters, newest death first.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters",
    tag = "letters",
    params(
        ("q" = Option<String>, Query, description = "The filter in its text form, such as `queue:billing type:invoice.* error:Timeout since:24h`"),
        ("queue" = Option<String>, Query), ("type" = Option<String>, Query), ("errorType" = Option<String>, Query),
        ("class" = Option<String>, Query), ("code" = Option<String>, Query), ("status" = Option<String>, Query),
        ("source" = Option<String>, Query), ("incident" = Option<String>, Query),
        ("subscriber" = Option<String>, Query), ("aggregate" = Option<String>, Query),
        ("tenant" = Option<String>, Query), ("eventId" = Option<String>, Query), ("held" = Option<bool>, Query),
        ("since" = Option<String>, Query, description = "RFC 3339, or a length of time ago such as `24h`"),
        ("until" = Option<String>, Query), ("age" = Option<String>, Query), ("retryCount" = Option<String>, Query),
        ("text" = Option<String>, Query, description = "Words that begin words of type, error type or message"),
        ("body" = Option<String>, Query, description = "Words that begin words of the body or of header values"),
        ("contains" = Option<String>, Query, description = "A text that stands in the body"),
        ("path" = Option<String>, Query, description = "A JSON path into the body, such as `$.customer.id=4711`"),
        ("headerPath" = Option<String>, Query, description = "A JSON path into the headers"),
        ("sort" = Option<String>, Query, description = "-diedAt (default), diedAt, -createdAt or createdAt"),
        ("limit" = Option<u32>, Query, description = "1 to 500, 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
    ),
    responses((status = 200, body = LetterList), (status = 400, description = "bad_filter, bad_cursor or bad_request"))
)]
pub(super) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<LetterList>, Problem> {
    let Query(pairs) = pairs?;
    let (page, asked): (Vec<_>, Vec<_>) =
        pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).partition(|(key, _)| PAGE_KEYS.contains(key));
    let filter = Filter::from_query(asked.iter().copied())?;
    let (mut sort, mut limit, mut after) = (Sort::default(), limits::PAGE_ROWS, None);
    for (key, value) in page {
        match key {
            "sort" => sort = parse_sort(value)?,
            "limit" => limit = parse_limit(value, limits::PAGE_ROWS_MAX)?,
            _ => after = Some(value).filter(|cursor| !cursor.is_empty()),
        }
    }
    let hash = filter.hash();
    let after = after.map(|text| cursor::decode(text, sort, hash)).transpose()?;
    let now = app.clock.now();
    let page =
        app.store.list(PageQuery { filter, now, sort, limit, after, scan_max: PageQuery::SCAN_MAX }).await?;
    // Whoever waited for letters to be opened wants to know when that will be over.
    let body_index = match page.scan {
        Some(_) => Some(BodyIndexBody::of(&app, now).await?),
        None => None,
    };
    Ok(Json(LetterList {
        items: page.letters.iter().map(LetterSummary::from).collect(),
        total: page.total.into(),
        next_cursor: page.next.map(|last| cursor::encode(sort, hash, last)),
        scan: page.scan.map(ScanBody::from),
        body_index,
    }))
}

fn parse_sort(value: &str) -> Result<Sort, Problem> {
    Sort::parse(value).ok_or_else(|| {
        let known: Vec<&str> = Sort::ALL.into_iter().map(Sort::name).collect();
        Problem::new(Code::BadRequest, format!("sort `{}` is unknown", shown(value)))
            .hint(format!("known: {}", known.join(", ")))
    })
}

/// A number of rows; more than there may be is brought down, nonsense is refused.
pub(super) fn parse_limit(value: &str, max: usize) -> Result<usize, Problem> {
    match value.parse::<u64>() {
        Ok(limit) if limit > 0 => Ok(usize::try_from(limit).unwrap_or(max).min(max)),
        Ok(_) | Err(_) => Err(Problem::new(
            Code::BadRequest,
            format!("limit must be a number from 1 to {max}, got `{}`", shown(value)),
        )),
    }
}

/// Counts the letters that a filter matches.
#[utoipa::path(
    post,
    path = "/api/v1/dead-letters/count",
    tag = "letters",
    request_body(content = Object, description = "The filter as JSON, such as `{\"queue\":\"billing\"}` or `{\"q\":\"queue:billing\"}`; `{}` counts all"),
    responses((status = 200, body = TotalBody), (status = 400, description = "bad_filter or bad_json"))
)]
pub(super) async fn count(
    State(app): State<Arc<App>>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<TotalBody>, Problem> {
    let Json(body) = body?;
    let filter = read_filter(&body)?;
    let total = app.store.count(filter, app.clock.now()).await?;
    Ok(Json(total.into()))
}

/// A filter in JSON, or its text form under `q`.
pub(super) fn read_filter(body: &Value) -> Result<Filter, Problem> {
    let Some(object) = body.as_object() else {
        return Err(Problem::new(Code::BadFilter, "the filter must be an object")
            .hint(r#"such as {"queue":"billing"} or {"q":"queue:billing since:24h"}"#));
    };
    match (object.get("q"), object.len()) {
        (Some(Value::String(text)), 1) => Ok(Filter::from_text(text)?),
        (Some(_), 1) => Err(Problem::new(Code::BadFilter, "q must be a text")),
        (Some(_), _) => {
            Err(Problem::new(Code::BadFilter, "q stands alone: put the other keys into its text"))
        }
        (None, _) => Ok(Filter::from_json(body)?),
    }
}

pub(super) fn parse_id(path: Result<Path<String>, PathRejection>) -> Result<LetterId, Problem> {
    let Path(text) = path?;
    Ok(LetterId::parse(&text)?)
}

/// Shows one letter whole.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters/{id}",
    tag = "letters",
    params(
        ("id" = String, Path),
        ("older" = Option<bool>, Query, description = "With lives and attempts that stand in files of the archive; `olderLives` says whether there are any"),
    ),
    responses(
        (status = 200, body = LetterEntry),
        (status = 404, description = "not_found: it never was here, or it is in the archive, where `archive` says"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Json<LetterEntry>, Problem> {
    let id = parse_id(id)?;
    let mut older = None;
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "older" => once(&mut older, "older", holds::parse_flag("older", &value)?)?,
            _ => return Err(unknown_parameter(&key, &["older"])),
        }
    }
    let history = match older {
        Some(true) => whole_history(&app, id).await?,
        Some(false) | None => app.store.history(id).await?,
    };
    let Some(history) = history else { return Err(no_live_letter(&app, id).await) };
    let Some(original) = app.store.original(id, Some(history.letter.life)).await? else {
        return Err(no_live_letter(&app, id).await);
    };
    let older_lives = app.store.older_lives(id).await?;
    let beside = Beside {
        redrives: app.store.redrives_of(id).await?.into_iter().map(LetterRedriveBody::from).collect(),
        edits: edits_of(&app, id, Bodies::LeftOut).await?,
        holds: holds::of_letter(&app, id).await?,
        older_lives: older_lives.into_iter().map(|row| OlderLivesBody::new(id, row)).collect(),
    };
    Ok(Json(LetterEntry::new(history, original, beside, |subject| groups::group(&app, subject))))
}

/// Gives the exact bytes of the original.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters/{id}/body",
    tag = "letters",
    params(("id" = String, Path), ("life" = Option<u32>, Query, description = "The present life unless given; an older one may be read from the archive")),
    responses(
        (status = 200, description = "The bytes as they were captured, with their SHA-256 in `Lazaret-Sha256`", content_type = "application/octet-stream"),
        (status = 404, description = "not_found"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(super) async fn body(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let id = parse_id(id)?;
    let life = parse_life(pairs)?;
    if let Some(original) = whole_original(&app, id, life).await? {
        return Ok(body_response(original));
    }
    Err(match (life, app.store.history(id).await?) {
        (Some(life), Some(_)) => Problem::new(Code::NotFound, format!("letter {id} has no life {life}")),
        (Some(_) | None, _) => no_live_letter(&app, id).await,
    })
}

/// Which life is asked for, where nothing else can be.
pub(super) fn parse_life(pairs: Pairs) -> Result<Option<u32>, Problem> {
    let mut life = None;
    for (key, value) in pairs?.0 {
        if key != "life" {
            return Err(unknown_parameter(&key, &["life"]));
        }
        let number = value.parse::<u32>();
        life = Some(number.map_err(|_| Problem::new(Code::BadRequest, "life must be a number"))?);
    }
    Ok(life)
}

/// The exact bytes, as a stranger's have to be sent.
pub(super) fn body_response(original: Original) -> Response {
    let envelope = &original.envelope;
    let content_type = HeaderValue::from_str(envelope.content_type())
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, content_type),
        // The bytes are a stranger's: a browser shall neither show nor guess them.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (HeaderName::from_static("lazaret-sha256"), text_header(&hex(envelope.sha256()))),
        (HeaderName::from_static("lazaret-life"), text_header(&original.life.to_string())),
    ];
    (headers, envelope.body().clone()).into_response()
}

fn text_header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// Refuses a parameter that means nothing here, so that a slip does not widen what is asked.
pub(super) fn unknown_parameter(key: &str, known: &[&str]) -> Problem {
    let problem = Problem::new(Code::BadRequest, format!("the parameter `{}` is unknown", shown(key)));
    match known {
        [] => problem.hint("no parameters are taken here"),
        known => problem.hint(format!("known: {}", known.join(", "))),
    }
}

/// Takes a parameter that may be given once; of two, either could be the one that was meant.
pub(super) fn once<T>(slot: &mut Option<T>, key: &str, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        Some(_) => Err(Problem::new(Code::BadRequest, format!("{key} is given twice"))),
        None => Ok(()),
    }
}

/// Reads `since` or `until` as the filter does: RFC 3339, or a length of time ago.
pub(super) fn parse_when(key: &'static str, value: &str) -> Result<When, Problem> {
    let filter = Filter::from_query([(key, value)])
        .map_err(|error| Problem::new(Code::BadRequest, error.to_string()))?;
    filter.since.or(filter.until).ok_or_else(|| Problem::new(Code::BadRequest, format!("{key} is no time")))
}
