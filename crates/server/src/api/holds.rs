//! Holds: placed on one letter, by a filter or standing; listed, shown and released.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use lazaret_core::cursor::{self, RawKey};
use lazaret_core::duration::Length;
use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldRecord, HoldState, NewHold};

use super::fields::{Fields, bad};
use super::guard::{RequestId, actor};
use super::letters::{Pairs, once, parse_limit, read_filter, unknown_parameter};
use super::problem::{Code, Located, Problem};
use super::reveal::may_ask;
use super::wire::hold::{HoldDetail, HoldList, HoldRecordBody};
use crate::access::Caller;
use crate::app::App;
use crate::holds;
use crate::raw_json::shown;
use crate::redaction::Masker;

/// The numbers of these lists among those that have cursors.
const HOLDS: u8 = 60;
const LETTERS: u8 = 61;

/// Places a hold: nothing removes, archives or discards its letters until it ends.
#[utoipa::path(
    post,
    path = "/api/v1/holds",
    tag = "holds",
    request_body(content = Object, description = "`{\"letterId\": id}`, `{\"filter\": {…}, \"count\": n}` for the letters that match now, or `{\"filter\": {…}, \"standing\": true}` to include future matches (`\"all\": true` instead of a filter selects all letters); `reason`; `until`, a time or a duration such as `365d`"),
    responses(
        (status = 201, body = HoldRecordBody, description = "Placed on all letters; see Location"),
        (status = 202, body = HoldRecordBody, description = "Placed; matching letters are still being processed"),
        (status = 400, description = "reason_required, filter_required, bad_filter, bad_id or bad_request: `field` says which"),
        (status = 404, description = "not_found: there is no such letter"),
        (status = 409, description = "count_mismatch: nothing was held; too_many_holds")
    )
)]
pub(crate) async fn place(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Located<HoldRecordBody>, Problem> {
    let at = app.clock.now();
    let mut fields = Fields::read(&body?)?;
    let on = read_on(&mut fields, at)?;
    match &on {
        HoldOn::Letter(_) => {}
        HoldOn::Filter { filter, .. } | HoldOn::Standing(filter) => may_ask(&app, &caller, filter)?,
    }
    let reason = read_reason(&mut fields)?;
    let until = read_until(&mut fields, at)?;
    fields.end()?;
    let id = HoldId::mint(at, app.entropy.take()?);
    let by = actor(&caller, &request);
    match holds::place(&app, NewHold { id, on: on.clone(), reason, until, by, at }).await? {
        HoldPlaced::Placed => {}
        HoldPlaced::Unknown => return Err(unknown_letter(&on)),
        HoldPlaced::Count(count) => return Err(wrong_count(count, &on)),
        HoldPlaced::TooMany => {
            let max = limits::STANDING_HOLDS_MAX;
            return Err(Problem::new(Code::TooManyHolds, format!("maximum of {max} standing holds reached"))
                .hint("release one, or merge filters: each is evaluated for every new letter"));
        }
    }
    let hold = found(&app, id).await?;
    let status = if hold.state == HoldState::Placing { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    let location = HeaderValue::from_str(&format!("/api/v1/holds/{id}"))
        .unwrap_or(HeaderValue::from_static("/api/v1/holds"));
    Ok((status, [(header::LOCATION, location)], Json(shown_hold(&app, hold))))
}

/// What is to be held; exactly one way of saying it.
fn read_on(fields: &mut Fields, now: Time) -> Result<HoldOn, Problem> {
    let letter = fields.text("letterId")?;
    let filter = fields.take("filter");
    let all = fields.flag("all")?.unwrap_or(false);
    let count = fields.count("count")?;
    let standing = fields.flag("standing")?.unwrap_or(false);
    if let Some(letter) = letter {
        if filter.is_some() || all || count.is_some() || standing {
            return Err(bad("letterId", "conflicts with filter, all, count and standing"));
        }
        let id = LetterId::parse(&letter)
            .map_err(|error| Problem::new(Code::BadId, error.to_string()).with("field", "letterId"))?;
        return Ok(HoldOn::Letter(id));
    }
    let filter = match filter {
        Some(filter) => read_filter(&filter)?,
        None => Filter::default(),
    };
    match (filter.spares_nothing(Action::Hold, now), all) {
        (false, false) | (true, true) => {}
        (true, false) => {
            return Err(Problem::filter_required(&filter).hint(
                r#"send {"letterId":"…"}, {"filter":{"tenant":"acme"},"count":12} or {"filter":{"tenant":"acme"},"standing":true}"#,
            ));
        }
        (false, true) => return Err(bad("all", "conflicts with a filter")),
    }
    match (count, standing) {
        (Some(expected), false) => Ok(HoldOn::Filter { filter, expected }),
        (None, true) => Ok(HoldOn::Standing(filter)),
        (Some(_), true) => Err(bad("count", "conflicts with standing")
            .hint("a standing hold includes future matches: the count is unknown")),
        (None, false) => Err(bad("count", "is missing").hint(
            "get the count with POST /api/v1/dead-letters/count; or send \"standing\": true to include future matches",
        )),
    }
}

fn read_reason(fields: &mut Fields) -> Result<String, Problem> {
    let max = limits::HOLD_REASON_CHARS_MAX;
    match fields.reason("reason")? {
        Some(reason) if reason.chars().count() > max => {
            Err(bad("reason", format!("is longer than {max} characters")))
        }
        Some(reason) => Ok(reason),
        None => Err(Problem::new(Code::ReasonRequired, "reason required")
            .with("field", "reason")
            .hint(r#"send {"reason":"…"}: it is shown to whoever releases the hold"#)),
    }
}

/// When it ends by itself: a time, or a length from now.
fn read_until(fields: &mut Fields, now: Time) -> Result<Option<Time>, Problem> {
    let Some(text) = fields.text("until")? else { return Ok(None) };
    let until = match (Time::parse(&text), Length::parse(&text)) {
        (Ok(time), _) => time,
        (Err(_), Ok(length)) => now.plus_ms(length.ms()),
        (Err(_), Err(_)) => {
            return Err(bad("until", format!("`{}` is neither a time nor a duration", shown(&text)))
                .hint("such as 2027-12-31T00:00:00Z or 365d; months and years have no fixed length"));
        }
    };
    if until <= now {
        return Err(
            bad("until", format!("is in the past: it is {now} now")).hint("omit it for a hold without end")
        );
    }
    Ok(Some(until))
}

fn unknown_letter(on: &HoldOn) -> Problem {
    match on {
        HoldOn::Letter(id) => Problem::no_letter(id),
        HoldOn::Filter { .. } | HoldOn::Standing(_) => Problem::new(Code::NotFound, "no letter matches"),
    }
}

fn wrong_count(count: u64, on: &HoldOn) -> Problem {
    let expected = match on {
        HoldOn::Filter { expected, .. } => *expected,
        HoldOn::Letter(_) | HoldOn::Standing(_) => 0,
    };
    Problem::new(Code::CountMismatch, format!("{count} letters match, expected {expected}: nothing was held"))
        .with("count", count)
        .with("expectedCount", expected)
        .hint("check the current count, then send it")
}

async fn found(app: &App, id: HoldId) -> Result<HoldRecord, Problem> {
    app.store.hold(id).await?.ok_or_else(|| {
        Problem::new(Code::NotFound, format!("hold {id} not found"))
            .hint("find holds with GET /api/v1/holds?ended=true or `lazaret holds --ended`")
    })
}

/// Lists holds, the last placed first; those that ended only when asked for.
#[utoipa::path(
    get,
    path = "/api/v1/holds",
    tag = "holds",
    params(
        ("ended" = Option<bool>, Query, description = "Include released and expired holds"),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, body = HoldList), (status = 400, description = "bad_request or bad_cursor"))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<HoldList>, Problem> {
    let (mut limit, mut cursor, mut ended) = (None, None, None);
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "ended" => once(&mut ended, "ended", parse_flag("ended", &value)?)?,
            "limit" => once(&mut limit, "limit", parse_limit(&value, limits::PAGE_ROWS_MAX)?)?,
            "cursor" if value.is_empty() => {}
            "cursor" => once(&mut cursor, "cursor", value)?,
            _ => return Err(unknown_parameter(&key, &["ended", "limit", "cursor"])),
        }
    }
    let (limit, ended) = (limit.unwrap_or(limits::PAGE_ROWS), ended.unwrap_or(false));
    let hash = [u8::from(ended); 8];
    let before = match cursor {
        Some(text) => Some(HoldId::from_bytes(cursor::open(&text, HOLDS, hash)?.id)),
        None => None,
    };
    let mut holds = app.store.holds(before, ended, limit + 1).await?;
    let more = holds.len() > limit;
    holds.truncate(limit);
    let next_cursor = holds
        .last()
        .filter(|_| more)
        .map(|last| cursor::seal(HOLDS, hash, RawKey { value: 0, id: *last.id.bytes() }));
    Ok(Json(HoldList { items: holds.into_iter().map(|hold| shown_hold(&app, hold)).collect(), next_cursor }))
}

pub(crate) fn parse_flag(key: &str, value: &str) -> Result<bool, Problem> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Problem::new(
            Code::BadRequest,
            format!("{key} must be true or false, got `{}`", shown(value)),
        )),
    }
}

fn parse_hold(id: Result<Path<String>, PathRejection>) -> Result<HoldId, Problem> {
    let Path(text) = id?;
    Ok(HoldId::parse(&text)?)
}

/// Shows one hold, with letters under it.
#[utoipa::path(
    get,
    path = "/api/v1/holds/{id}",
    tag = "holds",
    params(
        ("id" = String, Path),
        ("limit" = Option<u32>, Query, description = "Letters per page: 1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, body = HoldDetail), (status = 400, description = "bad_id, bad_request or bad_cursor"), (status = 404, description = "not_found"))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Json<HoldDetail>, Problem> {
    let id = parse_hold(id)?;
    let (mut limit, mut cursor) = (None, None);
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "limit" => once(&mut limit, "limit", parse_limit(&value, limits::PAGE_ROWS_MAX)?)?,
            "cursor" if value.is_empty() => {}
            "cursor" => once(&mut cursor, "cursor", value)?,
            _ => return Err(unknown_parameter(&key, &["limit", "cursor"])),
        }
    }
    let hold = found(&app, id).await?;
    let limit = limit.unwrap_or(limits::PAGE_ROWS);
    let mut hash = [0; 8];
    hash.copy_from_slice(&id.bytes()[8..]);
    let after = match cursor {
        Some(text) => Some(LetterId::from_bytes(cursor::open(&text, LETTERS, hash)?.id)),
        None => None,
    };
    let mut letters = app.store.hold_letters(id, after, limit + 1).await?;
    let more = letters.len() > limit;
    letters.truncate(limit);
    let next_cursor = letters
        .last()
        .filter(|_| more)
        .map(|last| cursor::seal(LETTERS, hash, RawKey { value: 0, id: *last.bytes() }));
    let mut items = Vec::with_capacity(letters.len());
    for letter in letters {
        // One that was freed in between is left out.
        items.extend(super::archive::summary(&app, letter).await?);
    }
    Ok(Json(HoldDetail { hold: shown_hold(&app, hold), items, next_cursor }))
}

/// Releases a hold: its letters are free unless another one is on them.
#[utoipa::path(
    post,
    path = "/api/v1/holds/{id}/release",
    tag = "holds",
    params(("id" = String, Path)),
    request_body(content = Object, description = "`{\"reason\": \"…\"}`"),
    responses(
        (status = 200, body = HoldRecordBody),
        (status = 202, body = HoldRecordBody, description = "Released; letters are still being processed"),
        (status = 400, description = "reason_required or bad_request"),
        (status = 404, description = "not_found"),
        (status = 409, description = "hold_ended: already released or expired")
    )
)]
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<HoldRecordBody>), Problem> {
    let id = parse_hold(id)?;
    let mut fields = Fields::read(&body?)?;
    let reason = fields.reason("reason")?;
    fields.end()?;
    let hold = found(&app, id).await?;
    let Some(reason) = reason else {
        return Err(Problem::new(Code::ReasonRequired, "reason required to release a hold")
            .with("field", "reason")
            .hint(r#"send {"reason":"…"}: it is recorded in the audit log"#));
    };
    if !holds::release(&app, &hold, Some(reason), actor(&caller, &request)).await? {
        let by = hold.released_by.unwrap_or_default();
        let at = hold.released_at.map(|at| format!(" at {at}")).unwrap_or_default();
        return Err(
            Problem::new(Code::HoldEnded, format!("hold {id} already ended{at}")).with("releasedBy", by)
        );
    }
    let hold = found(&app, id).await?;
    let status = if hold.state == HoldState::Releasing { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(shown_hold(&app, hold))))
}

/// The holds that a letter is under, oldest first.
pub(crate) async fn of_letter(app: &App, id: LetterId) -> Result<Vec<HoldRecordBody>, Problem> {
    let holds = app.store.holds_of(id).await?;
    Ok(holds.into_iter().map(HoldRecordBody::from).collect())
}

fn shown_hold(app: &App, hold: HoldRecord) -> HoldRecordBody {
    let mut body = HoldRecordBody::from(hold);
    body.hide(&Masker::new(&app.redactor));
    body
}
