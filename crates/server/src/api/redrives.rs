//! Redrives: planned, launched, watched, and what people do to them while they run.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use lazaret_core::cursor::{self, RawKey};
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RedriveKind, RunState};
use lazaret_store::redrive::{ByPerson, Redrive, RedriveQuery, RunStep};
use sha2::{Digest, Sha256};

use super::fields::{Fields, bad, word};
use super::guard::{RequestId, actor};
use super::letters::{Pairs, once, parse_limit, unknown_parameter};
use super::problem::{Code, Located, Problem};
use super::redrive_request::{Moment, read_pace, read_plan, take_wanted};
use super::reveal::may_ask;
use super::wire::redrive::{RedriveBody, RedriveLetterBody, RedriveLetterList, RedriveList};
use crate::access::{Caller, Permission};
use crate::app::App;
use crate::raw_json::shown;
use crate::redaction::Masker;
use crate::redrive::{self, Glass, LaunchRequest, NotRedriven, PlanRequest, Selection};

/// The numbers of these lists among those that have cursors.
const REDRIVES: u8 = 50;
const LETTERS: u8 = 51;

/// A redrive with its address.
pub(crate) type Answered = Result<Located<RedriveBody>, Problem>;

/// Says what would happen, and sends nothing.
#[utoipa::path(
    post,
    path = "/api/v1/redrives/plan",
    tag = "redrives",
    request_body(content = Object, description = "`{\"filter\": {…}}`, `{\"letters\": [id, …]}` or `{\"all\": true, \"expectedCount\": n}`; `reason`, `expectedCount`, `pace` (letters per minute, \"unlimited\" or \"critical\"), `canary`, `canaryTimeout`, `canaryAssumed`, `stopPercent`, `stopOf`, `quiet`, and `reprocessingOptions` with `batchSize`, `concurrency`, `filterCriteria`, `prioritization`"),
    responses(
        (status = 201, body = RedriveBody),
        (status = 400, description = "filter_required, bad_filter, bad_id or bad_request: `field` says which"),
        (status = 409, description = "count_mismatch"),
        (status = 422, description = "too_broad")
    )
)]
pub(crate) async fn plan(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    body: Result<Bytes, BytesRejection>,
) -> Answered {
    let asked = read_plan(Fields::read(&body?)?)?;
    match &asked.selection {
        Selection::Filter(filter) => may_ask(&app, &caller, filter)?,
        Selection::Letters(_) | Selection::All { .. } => {}
    }
    let request = PlanRequest {
        selection: asked.selection,
        expected: asked.expected,
        wanted: asked.wanted,
        reason: asked.reason,
        by: actor(&caller, &request),
    };
    let planned = redrive::plan(&app, request).await?;
    let location = location(planned.redrive.id);
    let body = hidden(&app, RedriveBody::new(planned.redrive, Some(planned.plan)));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(body)))
}

/// Launches a plan, if as many letters would go as its count says.
#[utoipa::path(
    post,
    path = "/api/v1/redrives",
    tag = "redrives",
    request_body(content = Object, description = "`{\"planId\": id, \"count\": n}`, and overrides of planned options; `breakGlass` with a reason is the emergency override, for administrators"),
    responses(
        (status = 202, body = RedriveBody, description = "Running in the background; see Location"),
        (status = 400, description = "bad_request: `field` says which; break_glass: the reason is too short"),
        (status = 403, description = "break_glass: only an administrator may"),
        (status = 404, description = "not_found"),
        (status = 409, description = "count_mismatch, redrive_state, plan_expired, no_way_back, rca_required, fix_required, decision_required or poison")
    )
)]
pub(crate) async fn launch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    body: Result<Bytes, BytesRejection>,
) -> Answered {
    let mut fields = Fields::read(&body?)?;
    let id = RedriveId::parse(&fields.needed_text("planId")?)
        .map_err(|error| Problem::new(Code::BadId, error.to_string()).with("field", "planId"))?;
    let Some(count) = fields.count("count")? else {
        return Err(fields
            .missing("count")
            .hint("it is `count` of the plan: the number of selected letters"));
    };
    let (wanted, _) = take_wanted(&mut fields, Moment::Launch)?;
    let break_glass = fields.reason("breakGlass")?;
    fields.end()?;
    let by = actor(&caller, &request);
    let request = LaunchRequest { count, wanted, break_glass, glass: glass(&caller), by };
    let redrive = redrive::launch(&app, id, request).await?;
    Ok(accepted(&app, redrive, StatusCode::ACCEPTED))
}

/// Whether the caller may pass the gate by force.
pub(crate) fn glass(caller: &Caller) -> Glass {
    if caller.role.may(Permission::Administer) { Glass::InReach } else { Glass::OutOfReach }
}

/// A redrive with its address.
pub(crate) fn accepted(app: &App, redrive: Redrive, status: StatusCode) -> Located<RedriveBody> {
    let location = location(redrive.id);
    (status, [(header::LOCATION, location)], Json(hidden(app, RedriveBody::whole(redrive))))
}

/// As it is shown: another person may have planned it, with words that are not for everyone.
fn hidden(app: &App, mut body: RedriveBody) -> RedriveBody {
    body.hide(&Masker::new(&app.redactor));
    body
}

fn location(id: RedriveId) -> HeaderValue {
    HeaderValue::from_str(&format!("/api/v1/redrives/{id}"))
        .unwrap_or(HeaderValue::from_static("/api/v1/redrives"))
}

/// Lists redrives of every kind, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/redrives",
    tag = "redrives",
    params(
        ("state" = Option<String>, Query, description = "planning, planned, canary, running, paused, verifying, done, stopped or cancelled; comma-separated or repeated"),
        ("kind" = Option<String>, Query, description = "single, bulk, rule or plan; comma-separated or repeated"),
        ("incident" = Option<String>, Query, description = "Redrives with letters of this incident"),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, body = RedriveList), (status = 400, description = "bad_request, bad_id or bad_cursor"))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<RedriveList>, Problem> {
    let (mut limit, mut cursor, mut incident) = (None, None, None);
    let mut query = RedriveQuery::default();
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "state" => {
                add(&mut query.states, "state", &value, RunState::parse, &RunState::ALL.map(RunState::name))?
            }
            "kind" => add(
                &mut query.kinds,
                "kind",
                &value,
                RedriveKind::parse,
                &RedriveKind::ALL.map(RedriveKind::name),
            )?,
            "incident" => once(&mut incident, "incident", IncidentId::parse(&value)?)?,
            "limit" => once(&mut limit, "limit", parse_limit(&value, limits::PAGE_ROWS_MAX)?)?,
            "cursor" if value.is_empty() => {}
            "cursor" => once(&mut cursor, "cursor", value)?,
            _ => return Err(unknown_parameter(&key, &["state", "kind", "incident", "limit", "cursor"])),
        }
    }
    let limit = limit.unwrap_or(limits::PAGE_ROWS);
    query.incident = incident;
    let hash = hash(&query);
    if let Some(text) = cursor {
        query.before = Some(RedriveId::from_bytes(cursor::open(&text, REDRIVES, hash)?.id));
    }
    query.limit = limit + 1;
    let mut redrives = app.store.redrives(query).await?;
    let more = redrives.len() > limit;
    redrives.truncate(limit);
    let next_cursor = redrives
        .last()
        .filter(|_| more)
        .map(|last| cursor::seal(REDRIVES, hash, RawKey { value: 0, id: *last.id.bytes() }));
    let masker = Masker::new(&app.redactor);
    let mut items: Vec<RedriveBody> =
        redrives.into_iter().map(|redrive| RedriveBody::new(redrive, None)).collect();
    items.iter_mut().for_each(|item| item.hide(&masker));
    Ok(Json(RedriveList { items, next_cursor }))
}

/// Adds the words of one parameter, each once and in order: said otherwise it is the same question.
fn add<T: Ord + Copy>(
    values: &mut Vec<T>,
    key: &str,
    text: &str,
    parse: impl Fn(&str) -> Option<T>,
    known: &[&str],
) -> Result<(), Problem> {
    for name in text.split(',') {
        let value = parse(name.trim()).ok_or_else(|| {
            Problem::new(Code::BadRequest, format!("unknown {key} `{}`", shown(name)))
                .hint(format!("known: {}", known.join(", ")))
        })?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.sort_unstable();
    Ok(())
}

fn hash(query: &RedriveQuery) -> [u8; 8] {
    let mut digest = Sha256::new();
    for state in &query.states {
        digest.update(state.name());
        digest.update([0]);
    }
    digest.update([1]);
    for kind in &query.kinds {
        digest.update(kind.name());
        digest.update([0]);
    }
    if let Some(incident) = &query.incident {
        digest.update(incident.bytes());
    }
    cut(digest)
}

fn cut(digest: Sha256) -> [u8; 8] {
    let mut hash = [0; 8];
    hash.copy_from_slice(&digest.finalize()[..8]);
    hash
}

pub(crate) fn parse_redrive(id: Result<Path<String>, PathRejection>) -> Result<RedriveId, Problem> {
    let Path(text) = id?;
    Ok(RedriveId::parse(&text)?)
}

/// Shows one redrive: its plan, how it goes, and where its letters stand.
#[utoipa::path(
    get,
    path = "/api/v1/redrives/{id}",
    tag = "redrives",
    params(("id" = String, Path)),
    responses((status = 200, body = RedriveBody), (status = 404, description = "not_found"))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<RedriveBody>, Problem> {
    let id = parse_redrive(id)?;
    match app.store.redrive(id).await? {
        Some(redrive) => {
            let body = hidden(&app, RedriveBody::whole(redrive));
            Ok(Json(body))
        }
        None => Err(redrive::NotRedriven::Unknown(id).into()),
    }
}

/// Lists the letters of a redrive and what became of each.
#[utoipa::path(
    get,
    path = "/api/v1/redrives/{id}/letters",
    tag = "redrives",
    params(
        ("id" = String, Path),
        ("outcome" = Option<String>, Query, description = "waiting, out, sent, unknown, succeeded, assumed, ended, failed, relapsed, skipped, lane_blocked or cancelled"),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, body = RedriveLetterList), (status = 400, description = "bad_request or bad_cursor"), (status = 404, description = "not_found"))
)]
pub(crate) async fn letters(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Json<RedriveLetterList>, Problem> {
    let id = parse_redrive(id)?;
    let (mut limit, mut cursor, mut outcome) = (None, None, None);
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "outcome" => {
                let known = Outcome::ALL.map(Outcome::name);
                once(&mut outcome, "outcome", word("outcome", &value, Outcome::parse, &known)?)?;
            }
            "limit" => once(&mut limit, "limit", parse_limit(&value, limits::PAGE_ROWS_MAX)?)?,
            "cursor" if value.is_empty() => {}
            "cursor" => once(&mut cursor, "cursor", value)?,
            _ => return Err(unknown_parameter(&key, &["outcome", "limit", "cursor"])),
        }
    }
    if app.store.redrive(id).await?.is_none() {
        return Err(redrive::NotRedriven::Unknown(id).into());
    }
    let limit = limit.unwrap_or(limits::PAGE_ROWS);
    let mut digest = Sha256::new();
    digest.update(id.bytes());
    digest.update(outcome.map_or("", Outcome::name));
    let hash = cut(digest);
    let after = match cursor {
        Some(text) => cursor::open(&text, LETTERS, hash)?.value.max(0).unsigned_abs(),
        None => 0,
    };
    let mut letters = app.store.redrive_letters(id, outcome, after, limit + 1).await?;
    let more = letters.len() > limit;
    letters.truncate(limit);
    let next_cursor = letters.last().filter(|_| more).map(|last| {
        let value = i64::try_from(last.ordinal).unwrap_or(i64::MAX);
        cursor::seal(LETTERS, hash, RawKey { value, id: *last.letter.bytes() })
    });
    let masker = Masker::new(&app.redactor);
    let mut items: Vec<RedriveLetterBody> = letters.into_iter().map(RedriveLetterBody::from).collect();
    items.iter_mut().for_each(|item| item.hide(&masker));
    Ok(Json(RedriveLetterList { items, next_cursor }))
}

/// Settles a letter of which nobody knows whether it was sent, by a person's word.
#[utoipa::path(
    post,
    path = "/api/v1/redrives/{id}/letters/{letter}/settle",
    tag = "redrives",
    params(("id" = String, Path), ("letter" = String, Path)),
    request_body(content = Object, description = "`{\"outcome\": \"sent\"}`: delivered, verification continues; `{\"outcome\": \"unclaim\"}`: not delivered, pending again"),
    responses(
        (status = 200, body = RedriveBody),
        (status = 400, description = "bad_request"),
        (status = 404, description = "not_found"),
        (status = 409, description = "not_allowed: the outcome is not unknown")
    )
)]
pub(crate) async fn settle(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<RedriveBody>, Problem> {
    let Path((id, letter)) = path?;
    let (id, letter) = (RedriveId::parse(&id)?, LetterId::parse(&letter)?);
    let mut fields = Fields::read(&body?)?;
    let said = |text: &str| match text {
        "sent" => Some(ByPerson::Sent),
        "unclaim" => Some(ByPerson::Unclaim),
        _ => None,
    };
    let said = word("outcome", &fields.needed_text("outcome")?, said, &["sent", "unclaim"])?;
    fields.end()?;
    let redrive = redrive::settle(&app, id, letter, said, actor(&caller, &request)).await?;
    Ok(Json(hidden(&app, RedriveBody::whole(redrive))))
}

/// What a person does to a run, by its name in the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Pause,
    Resume,
    Cancel,
    Pace,
}

impl Step {
    pub const ALL: [Step; 4] = [Step::Pause, Step::Resume, Step::Cancel, Step::Pace];

    pub const fn name(self) -> &'static str {
        match self {
            Step::Pause => "pause",
            Step::Resume => "resume",
            Step::Cancel => "cancel",
            Step::Pace => "pace",
        }
    }

    fn read(self, mut fields: Fields, caller: &Caller) -> Result<RunStep, Problem> {
        let step = match self {
            Step::Pause => {
                let reason = fields.reason("reason")?;
                RunStep::Pause(reason.unwrap_or_else(|| format!("paused by {}", caller.name)))
            }
            Step::Resume => RunStep::Resume,
            Step::Cancel => RunStep::Cancel(fields.reason("reason")?),
            Step::Pace => match fields.take("pace") {
                Some(pace) => RunStep::Pace(read_pace(&pace)?),
                None => {
                    return Err(bad("pace", "is missing").hint("such as 1000, \"unlimited\" or \"critical\""));
                }
            },
        };
        fields.end()?;
        Ok(step)
    }
}

pub(crate) async fn step(
    step: Step,
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<RedriveBody>, Problem> {
    let id = parse_redrive(id)?;
    let step = step.read(Fields::read(&body?)?, &caller)?;
    let by_force = step == RunStep::Resume
        && glass(&caller) == Glass::OutOfReach
        && app.store.redrive(id).await?.is_some_and(|redrive| redrive.break_glass.is_some());
    if by_force {
        // What an admin forced does not go on without one.
        return Err(NotRedriven::GlassForbidden.into());
    }
    let redrive = redrive::step(&app, id, step, actor(&caller, &request)).await?;
    Ok(Json(hidden(&app, RedriveBody::whole(redrive))))
}
