//! Finding letters: lists, counts, the whole entry, the exact bytes. Reading parameters, as every list does it.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use lazaret_core::cursor::{self, Sort};
use lazaret_core::filter::{Filter, When};
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::redaction::{Redactor, Shown};
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
use crate::redaction::Masker;

/// Query parameters as they came, in order.
pub(crate) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

const PAGE_KEYS: [&str; 3] = ["sort", "limit", "cursor"];

/// Lists letters, newest death first.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters",
    tag = "letters",
    params(
        ("q" = Option<String>, Query, description = "Filter as text, such as `queue:billing type:invoice.* error:Timeout since:24h`"),
        ("queue" = Option<String>, Query), ("type" = Option<String>, Query), ("errorType" = Option<String>, Query),
        ("class" = Option<String>, Query), ("code" = Option<String>, Query), ("status" = Option<String>, Query),
        ("source" = Option<String>, Query), ("incident" = Option<String>, Query),
        ("subscriber" = Option<String>, Query), ("aggregate" = Option<String>, Query),
        ("tenant" = Option<String>, Query), ("eventId" = Option<String>, Query), ("held" = Option<bool>, Query),
        ("since" = Option<String>, Query, description = "RFC 3339 time or duration such as `24h`"),
        ("until" = Option<String>, Query), ("age" = Option<String>, Query), ("retryCount" = Option<String>, Query),
        ("text" = Option<String>, Query, description = "Word prefixes in type, error type or message"),
        ("body" = Option<String>, Query, description = "Word prefixes in the body or header values"),
        ("contains" = Option<String>, Query, description = "Substring of the body"),
        ("path" = Option<String>, Query, description = "JSON path in the body, such as `$.customer.id=4711`"),
        ("headerPath" = Option<String>, Query, description = "JSON path in the headers"),
        ("sort" = Option<String>, Query, description = "-diedAt (default), diedAt, -createdAt or createdAt"),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, body = LetterList), (status = 400, description = "bad_filter, bad_cursor or bad_request"))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<LetterList>, Problem> {
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
    let masker = Masker::new(&app.redactor);
    let items = page.letters.iter().map(|letter| LetterSummary::shown(letter, &masker)).collect();
    Ok(Json(LetterList {
        items,
        total: page.total.into(),
        next_cursor: page.next.map(|last| cursor::encode(sort, hash, last)),
        scan: page.scan.map(ScanBody::from),
        body_index,
    }))
}

fn parse_sort(value: &str) -> Result<Sort, Problem> {
    Sort::parse(value).ok_or_else(|| {
        let known: Vec<&str> = Sort::ALL.into_iter().map(Sort::name).collect();
        Problem::new(Code::BadRequest, format!("unknown sort `{}`", shown(value)))
            .hint(format!("known: {}", known.join(", ")))
    })
}

/// A number of rows; more than there may be is brought down, nonsense is refused.
pub(crate) fn parse_limit(value: &str, max: usize) -> Result<usize, Problem> {
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
pub(crate) async fn count(
    State(app): State<Arc<App>>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<TotalBody>, Problem> {
    let Json(body) = body?;
    let filter = read_filter(&body)?;
    let total = app.store.count_all(filter, app.clock.now()).await?;
    Ok(Json(total.into()))
}

/// A filter in JSON, or its text form under `q`.
pub(crate) fn read_filter(body: &Value) -> Result<Filter, Problem> {
    let Some(object) = body.as_object() else {
        return Err(Problem::new(Code::BadFilter, "the filter must be an object")
            .hint(r#"such as {"queue":"billing"} or {"q":"queue:billing since:24h"}"#));
    };
    match (object.get("q"), object.len()) {
        (Some(Value::String(text)), 1) => Ok(Filter::from_text(text)?),
        (Some(_), 1) => Err(Problem::new(Code::BadFilter, "q must be a string")),
        (Some(_), _) => {
            Err(Problem::new(Code::BadFilter, "q conflicts with other keys: add them to its text"))
        }
        (None, _) => Ok(Filter::from_json(body)?),
    }
}

pub(crate) fn parse_id(path: Result<Path<String>, PathRejection>) -> Result<LetterId, Problem> {
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
        ("older" = Option<bool>, Query, description = "Include archived lives and attempts; `olderLives` tells whether there are any"),
        ("reveal" = Option<String>, Query, description = "Reason to reveal masked values, at least 10 characters; requires `reveal`, recorded in the audit log"),
    ),
    responses(
        (status = 200, body = LetterEntry),
        (status = 400, description = "bad_id, bad_request, or reason_required: the reason to reveal is too short"),
        (status = 403, description = "forbidden: the role may not reveal"),
        (status = 404, description = "not_found: unknown, or archived: see `archive`"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Json<LetterEntry>, Problem> {
    let id = parse_id(id)?;
    entry(&app, id, parse_lives(pairs)?, &app.redactor).await.map(Json)
}

/// Which lives of a letter are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lives {
    Kept,
    /// Those in files of the archive as well.
    All,
}

pub(crate) fn parse_lives(pairs: Pairs) -> Result<Lives, Problem> {
    let mut older = None;
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "older" => once(&mut older, "older", holds::parse_flag("older", &value)?)?,
            _ => return Err(unknown_parameter(&key, &["older", "reveal"])),
        }
    }
    Ok(if older == Some(true) { Lives::All } else { Lives::Kept })
}

/// One live letter whole, as a redactor lets it be seen.
pub(crate) async fn entry(
    app: &App,
    id: LetterId,
    lives: Lives,
    redactor: &Arc<Redactor>,
) -> Result<LetterEntry, Problem> {
    let history = match lives {
        Lives::All => whole_history(app, id).await?,
        Lives::Kept => app.store.history(id).await?,
    };
    let Some(history) = history else { return Err(no_live_letter(app, id).await) };
    let Some(original) = app.store.original(id, Some(history.letter.life)).await? else {
        return Err(no_live_letter(app, id).await);
    };
    let older_lives = app.store.older_lives(id).await?;
    let beside = Beside {
        redrives: app.store.redrives_of(id).await?.into_iter().map(LetterRedriveBody::from).collect(),
        edits: edits_of(app, id, Bodies::LeftOut, redactor).await?,
        holds: holds::of_letter(app, id).await?,
        older_lives: older_lives.into_iter().map(|row| OlderLivesBody::new(id, row)).collect(),
    };
    let entry = LetterEntry::new(history, original, beside, |subject| groups::group(app, subject));
    masked(entry, redactor).await
}

/// The entry with what is hidden masked. A body may have megabytes: too long for the threads that serve everyone.
pub(crate) async fn masked(mut entry: LetterEntry, redactor: &Arc<Redactor>) -> Result<LetterEntry, Problem> {
    let redactor = Arc::clone(redactor);
    let masking = tokio::task::spawn_blocking(move || {
        entry.hide(&Masker::new(&redactor));
        entry
    });
    masking.await.map_err(|_| Problem::new(Code::Internal, "letter could not be masked"))
}

/// Gives the bytes of the original: exactly, unless something in them is masked.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters/{id}/body",
    tag = "letters",
    params(
        ("id" = String, Path),
        ("life" = Option<u32>, Query, description = "Default: the current life; older lives may be read from the archive"),
        ("reveal" = Option<String>, Query, description = "Reason to reveal the exact bytes, at least 10 characters; requires `reveal`, recorded in the audit log"),
    ),
    responses(
        (status = 200, description = "Captured bytes, with their SHA-256 in `Lazaret-Sha256`. Masked bodies have `Lazaret-Redacted: true` instead", content_type = "application/octet-stream"),
        (status = 400, description = "bad_id, bad_request, or reason_required: the reason to reveal is too short"),
        (status = 403, description = "forbidden: the role may not reveal; withheld: a binary body cannot be masked"),
        (status = 404, description = "not_found"),
        (status = 410, description = "body_missing: the message expired before its body was read"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(crate) async fn body(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let id = parse_id(id)?;
    let original = found_original(&app, id, parse_life(pairs)?).await?;
    body_response(original, &app.redactor).await
}

/// The original of a life, wherever it stands.
pub(crate) async fn found_original(app: &App, id: LetterId, life: Option<u32>) -> Result<Original, Problem> {
    if let Some(original) = whole_original(app, id, life).await? {
        return Ok(original);
    }
    Err(match (life, app.store.history(id).await?) {
        (Some(life), Some(_)) => Problem::new(Code::NotFound, format!("letter {id} has no life {life}")),
        (Some(_) | None, _) => no_live_letter(app, id).await,
    })
}

/// Which life is asked for, where nothing else can be.
pub(crate) fn parse_life(pairs: Pairs) -> Result<Option<u32>, Problem> {
    let mut life = None;
    for (key, value) in pairs?.0 {
        if key != "life" {
            return Err(unknown_parameter(&key, &["life", "reveal"]));
        }
        let number = value.parse::<u32>();
        life = Some(number.map_err(|_| Problem::new(Code::BadRequest, "life must be a number"))?);
    }
    Ok(life)
}

/// The bytes as a redactor lets them be seen, sent as a stranger's have to be.
pub(crate) async fn body_response(original: Original, redactor: &Arc<Redactor>) -> Result<Response, Problem> {
    let (envelope, redactor) = (original.envelope, Arc::clone(redactor));
    if let Some(why) = envelope.body_missing() {
        return Err(Problem::new(Code::BodyMissing, format!("body missing: {}", redactor.text(why))));
    }
    let content_type = HeaderValue::from_str(envelope.content_type())
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    // A body may have megabytes: too long for the threads that serve everyone.
    let sha256 = text_header(&hex(envelope.sha256()));
    let masking = tokio::task::spawn_blocking(move || {
        match redactor.body(envelope.content_type(), envelope.body()) {
            Shown::Whole(_) => {
                Some((envelope.body().clone(), (HeaderName::from_static("lazaret-sha256"), sha256)))
            }
            // Their hash would be that of other bytes.
            Shown::Masked(text) => {
                let told = (HeaderName::from_static("lazaret-redacted"), HeaderValue::from_static("true"));
                Some((Bytes::from(text), told))
            }
            Shown::Withheld => None,
        }
    });
    let shown = masking.await.map_err(|_| Problem::new(Code::Internal, "body could not be masked"))?;
    let Some((bytes, told)) = shown else {
        return Err(Problem::new(Code::Withheld, "binary body withheld: it cannot be masked").hint(
            "reveal it with a reason: reveal=… in the query, or `lazaret show --body --reveal --reason …`",
        ));
    };
    let headers = [
        (header::CONTENT_TYPE, content_type),
        // The bytes are a stranger's: a browser shall neither show nor guess them.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        told,
        (HeaderName::from_static("lazaret-life"), text_header(&original.life.to_string())),
    ];
    Ok((headers, bytes).into_response())
}

fn text_header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// Refuses a parameter that means nothing here, so that a slip does not widen what is asked.
pub(crate) fn unknown_parameter(key: &str, known: &[&str]) -> Problem {
    let problem = Problem::new(Code::BadRequest, format!("unknown parameter `{}`", shown(key)));
    match known {
        [] => problem.hint("no parameters are accepted here"),
        known => problem.hint(format!("known: {}", known.join(", "))),
    }
}

/// Takes a parameter that may be given once; of two, either could be the one that was meant.
pub(crate) fn once<T>(slot: &mut Option<T>, key: &str, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        Some(_) => Err(Problem::new(Code::BadRequest, format!("{key} given twice"))),
        None => Ok(()),
    }
}

/// Reads `since` or `until` as the filter does: RFC 3339, or a length of time ago.
pub(crate) fn parse_when(key: &'static str, value: &str) -> Result<When, Problem> {
    let filter = Filter::from_query([(key, value)])
        .map_err(|error| Problem::new(Code::BadRequest, error.to_string()))?;
    filter
        .since
        .or(filter.until)
        .ok_or_else(|| Problem::new(Code::BadRequest, format!("{key} is not a time")))
}

#[cfg(test)]
mod tests {
    use lazaret_core::envelope::Envelope;
    use lazaret_core::redaction::Rules;

    use super::*;

    #[tokio::test]
    async fn a_body_that_is_no_text_is_withheld_until_it_is_revealed() {
        let original = |body: &'static [u8]| Original {
            life: 1,
            envelope: Envelope::seal(Bytes::from_static(body), "application/octet-stream", Vec::new()),
        };
        let masks = Arc::new(Redactor::new(Rules::default()));
        let withheld = body_response(original(b"\xff\x00"), &masks).await.map(|_| ()).unwrap_err();
        assert_eq!(withheld.status(), 403);
        let revealed = body_response(original(b"\xff\x00"), &Arc::new(Redactor::off())).await.unwrap();
        assert!(revealed.headers().contains_key("lazaret-sha256"));
        let plain = body_response(original(b"all is well"), &masks).await.unwrap();
        assert!(
            plain.headers().contains_key("lazaret-sha256")
                && !plain.headers().contains_key("lazaret-redacted")
        );
    }
}
