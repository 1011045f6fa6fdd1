//! Alerts: what fires, who takes care of it, silences, and the notifications that were sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use bytes::Bytes;
use http::StatusCode;
use lazaret_core::alert::{Alert, AlertState, Matchers, Silence};
use lazaret_core::duration::Length;
use lazaret_core::id::{AlertId, SilenceId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::alert_store::{SilenceRecord, StoredNotification};
use serde::Serialize;
use utoipa::ToSchema;

use super::fields::{Fields, bad};
use super::guard::{RequestId, actor};
use super::letters::{Pairs, parse_limit, unknown_parameter};
use super::problem::{Code, Problem};
use crate::access::Caller;
use crate::alerts::deliver;
use crate::app::App;
use crate::raw_json::shown;

#[derive(Serialize, ToSchema)]
pub(crate) struct AlertList {
    /// Firing alerts first, the most severe of them first; then pending and resolved ones.
    pub items: Vec<AlertBody>,
}

#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlertBody {
    pub id: String,
    /// pending, firing, acknowledged, silenced or resolved
    #[schema(value_type = String)]
    pub state: &'static str,
    pub rule: String,
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// info, warning or critical
    #[schema(value_type = String)]
    pub severity: &'static str,
    /// all, type, queue, source, aggregate, tenant, incident or check
    #[schema(value_type = String)]
    pub scope: &'static str,
    pub subject: String,
    pub labels: BTreeMap<String, String>,
    pub summary: String,
    pub value: f64,
    /// What `value` counts.
    #[schema(value_type = String)]
    pub unit: &'static str,
    /// Letters, or occurrences, since it fired.
    pub count: u64,
    /// Since when the value is too high.
    pub since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fired_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident_id: Option<String>,
    /// The newest letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_id: Option<String>,
    #[schema(value_type = String)]
    pub next_step: &'static str,
    /// The page that shows it.
    pub page: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SilenceList {
    pub items: Vec<SilenceBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SilenceBody {
    pub id: String,
    pub matchers: String,
    pub reason: String,
    pub created_by: String,
    pub created_at: String,
    pub starts_at: String,
    pub ends_at: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct NotificationList {
    pub items: Vec<NotificationBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotificationBody {
    pub id: String,
    pub receiver: String,
    /// waiting, delivered or failed
    #[schema(value_type = String)]
    pub state: &'static str,
    pub attempts: u32,
    pub title: String,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Lists alerts, those that fire first.
#[utoipa::path(
    get,
    path = "/api/v1/alerts",
    tag = "alerts",
    params(("limit" = Option<u32>, Query, description = "1 to 500, 50 unless given")),
    responses((status = 200, body = AlertList))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<AlertList>, Problem> {
    let limit = limit(pairs)?;
    let now = app.clock.now();
    let silences = silences_in_force(&app, now).await?;
    let mut alerts = app.store.alerts(limit).await?;
    // What was never above its threshold is only being counted.
    alerts.retain(|alert| alert.state != AlertState::Resolved || alert.resolved_at.is_some());
    alerts.sort_by_key(|alert| (alert.state != AlertState::Firing, std::cmp::Reverse(alert.severity)));
    let items = alerts.iter().map(|alert| AlertBody::new(alert, &silences, now)).collect();
    Ok(Json(AlertList { items }))
}

async fn silences_in_force(app: &App, now: Time) -> Result<Vec<Silence>, Problem> {
    let records = app.store.silences(now).await?;
    let silence = |it: SilenceRecord| Silence {
        id: it.id,
        matchers: it.matchers,
        starts_at: it.starts_at,
        ends_at: it.ends_at,
    };
    Ok(records.into_iter().map(silence).collect())
}

fn limit(pairs: Pairs) -> Result<usize, Problem> {
    let mut limit = limits::PAGE_ROWS;
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "limit" => limit = parse_limit(&value, limits::PAGE_ROWS_MAX)?,
            _ => return Err(unknown_parameter(&key, &["limit"])),
        }
    }
    Ok(limit)
}

impl AlertBody {
    pub fn new(alert: &Alert, silences: &[Silence], now: Time) -> AlertBody {
        let silenced = silences.iter().any(|silence| silence.mutes(alert, now));
        let state = match alert.state {
            AlertState::Firing if silenced => "silenced",
            AlertState::Firing if alert.ack.is_some() => "acknowledged",
            state => state.name(),
        };
        let labels = alert.labels().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let page = match (alert.label("page"), alert.incident, alert.key.scope.name()) {
            (Some(page), _, _) => page.to_owned(),
            (None, Some(incident), _) => format!("/incidents/{incident}"),
            (None, None, scope @ ("type" | "queue" | "source" | "aggregate" | "tenant")) => {
                let filter = format!("{scope}:\"{}\" status:pending", alert.key.subject.replace('"', ""));
                format!("/letters?q={}", crate::web::format::encoded(&filter))
            }
            (None, None, _) => "/alerts".to_owned(),
        };
        let text = |at: Time| at.to_string();
        AlertBody {
            id: alert.id().to_string(),
            state,
            rule: alert.rule.clone(),
            kind: alert.key.kind.name(),
            severity: alert.severity.name(),
            scope: alert.key.scope.name(),
            subject: alert.key.subject.clone(),
            labels: labels.filter(|(name, _)| name != "page").collect(),
            summary: alert.summary.clone(),
            value: alert.value,
            unit: alert.key.kind.unit(),
            count: alert.count,
            since: text(alert.since),
            fired_at: alert.fired_at.map(text),
            resolved_at: alert.resolved_at.map(text),
            acknowledged_by: alert.ack.as_ref().map(|ack| ack.by.clone()),
            acknowledged_at: alert.ack.as_ref().map(|ack| text(ack.at)),
            reason: alert.ack.as_ref().and_then(|ack| ack.reason.clone()),
            incident_id: alert.incident.map(|id| id.to_string()),
            sample_id: alert.sample.map(|id| id.to_string()),
            next_step: alert.key.kind.next_step(),
            page,
        }
    }
}

/// Acknowledges a firing alert: it is not repeated until it resolves.
#[utoipa::path(
    post,
    path = "/api/v1/alerts/{id}/acknowledge",
    tag = "alerts",
    params(("id" = String, Path)),
    request_body(content = Option<Object>, description = "`{\"reason\": \"…\"}`; may be empty"),
    responses((status = 200, body = AlertBody), (status = 404, description = "not_found: no such alert fires"))
)]
pub(crate) async fn acknowledge(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<AlertBody>, Problem> {
    let Path(id) = id?;
    let id = AlertId::parse(&id)?;
    let mut fields = Fields::read(&body?)?;
    let reason = fields.reason("reason")?;
    fields.end()?;
    let now = app.clock.now();
    let alert = app.store.acknowledge_alert(id, reason, actor(&caller, &request), now).await?;
    let Some(alert) = alert else {
        return Err(Problem::new(Code::NotFound, format!("no alert {id} fires"))
            .hint("GET /api/v1/alerts or `lazaret alerts list` lists them"));
    };
    let silences = silences_in_force(&app, now).await?;
    Ok(Json(AlertBody::new(&alert, &silences, now)))
}

/// Sends a test notification to a receiver, or to all of them, and says what came of it.
#[utoipa::path(
    post,
    path = "/api/v1/alerts/test",
    tag = "alerts",
    request_body(content = Option<Object>, description = "`{\"receiver\": \"ops\"}`; all receivers unless given"),
    responses((status = 200, body = NotificationList), (status = 404, description = "not_found: no such receiver"))
)]
pub(crate) async fn test(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<NotificationList>, Problem> {
    let mut fields = Fields::read(&body?)?;
    let receiver = fields.text("receiver")?;
    fields.end()?;
    let mut receivers = app.config.alerts.receiver_names();
    if let Some(only) = &receiver {
        receivers.retain(|name| name == only);
        if receivers.is_empty() {
            let known = app.config.alerts.receiver_names().join(", ");
            return Err(Problem::new(Code::NotFound, format!("there is no receiver `{}`", shown(only)))
                .hint(format!("known: {known}; [alerts.receivers.NAME] adds one")));
        }
    }
    let ids = deliver::queue_tests(&app, &receivers, &caller.name).await?;
    deliver::deliver(&app).await?;
    let mut items = Vec::new();
    for id in ids {
        items.extend(app.store.notification(id).await?.map(NotificationBody::from));
    }
    Ok(Json(NotificationList { items }))
}

/// Lists the newest notifications.
#[utoipa::path(
    get,
    path = "/api/v1/notifications",
    tag = "alerts",
    params(("limit" = Option<u32>, Query, description = "1 to 500, 50 unless given")),
    responses((status = 200, body = NotificationList))
)]
pub(crate) async fn notifications(
    State(app): State<Arc<App>>,
    pairs: Pairs,
) -> Result<Json<NotificationList>, Problem> {
    let found = app.store.notifications(limit(pairs)?).await?;
    Ok(Json(NotificationList { items: found.into_iter().map(NotificationBody::from).collect() }))
}

impl From<StoredNotification> for NotificationBody {
    fn from(stored: StoredNotification) -> NotificationBody {
        let payload: Option<crate::alerts::payload::Payload> = serde_json::from_str(&stored.payload).ok();
        NotificationBody {
            id: stored.id.to_string(),
            receiver: stored.receiver,
            state: stored.state.name(),
            attempts: stored.attempts,
            title: payload.map(|payload| payload.title).unwrap_or_default(),
            created_at: stored.created_at.to_string(),
            next_at: stored.ended_at.is_none().then(|| stored.next_at.to_string()),
            ended_at: stored.ended_at.map(|at| at.to_string()),
            error: stored.error,
        }
    }
}

/// Lists silences that are in force or to come.
#[utoipa::path(
    get,
    path = "/api/v1/silences",
    tag = "alerts",
    responses((status = 200, body = SilenceList))
)]
pub(crate) async fn silences(State(app): State<Arc<App>>) -> Result<Json<SilenceList>, Problem> {
    let items = app.store.silences(app.clock.now()).await?;
    Ok(Json(SilenceList { items: items.into_iter().map(SilenceBody::from).collect() }))
}

impl From<SilenceRecord> for SilenceBody {
    fn from(record: SilenceRecord) -> SilenceBody {
        SilenceBody {
            id: record.id.to_string(),
            matchers: record.matchers.to_string(),
            reason: record.reason,
            created_by: record.created_by,
            created_at: record.created_at.to_string(),
            starts_at: record.starts_at.to_string(),
            ends_at: record.ends_at.to_string(),
        }
    }
}

/// Silences alerts that match, from now or from a later time on.
#[utoipa::path(
    post,
    path = "/api/v1/silences",
    tag = "alerts",
    request_body(content = Object, description = "`{\"matchers\": \"source=billing\", \"until\": \"2h\", \"reason\": \"…\"}`; `until` and `from` are times or lengths from now; a silence that begins later is a maintenance window"),
    responses(
        (status = 201, body = SilenceBody),
        (status = 400, description = "reason_required or bad_request: `field` says which")
    )
)]
pub(crate) async fn silence(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<SilenceBody>), Problem> {
    let now = app.clock.now();
    let mut fields = Fields::read(&body?)?;
    let text = fields.kept_text("matchers")?;
    let matchers = Matchers::parse(&text).map_err(|error| bad("matchers", error))?;
    if matchers.is_empty() {
        return Err(bad("matchers", "matches every alert").hint("such as source=billing or rule=spike"));
    }
    let from = moment(&mut fields, "from", now)?.unwrap_or(now);
    let until = moment(&mut fields, "until", now)?.ok_or_else(|| fields.missing("until"))?;
    let reason = fields.reason("reason")?;
    fields.end()?;
    let reason = reason.ok_or_else(|| {
        Problem::new(Code::ReasonRequired, "a silence needs a reason")
            .with("field", "reason")
            .hint("whoever wonders why nobody was notified has to find it")
    })?;
    if until <= from || until <= now {
        return Err(bad("until", "is over before the silence begins"));
    }
    if until.since(now) > limits::SILENCE_MS_MAX {
        return Err(bad("until", "is more than a year away"));
    }
    let record = SilenceRecord {
        id: SilenceId::mint(now, app.entropy.take()?),
        matchers,
        reason,
        created_by: caller.name.clone(),
        created_at: now,
        starts_at: from,
        ends_at: until,
    };
    if !app.store.add_silence(record.clone(), actor(&caller, &request)).await? {
        let max = limits::SILENCES_MAX;
        return Err(Problem::new(Code::BadRequest, format!("there are {max} silences already"))
            .hint("end one, or put two into one matcher"));
    }
    Ok((StatusCode::CREATED, Json(SilenceBody::from(record))))
}

/// A time, or a length from now.
fn moment(fields: &mut Fields, name: &'static str, now: Time) -> Result<Option<Time>, Problem> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    match (Time::parse(&text), Length::parse(&text)) {
        (Ok(time), _) => Ok(Some(time)),
        (Err(_), Ok(length)) => Ok(Some(now.plus_ms(length.ms()))),
        (Err(_), Err(_)) => Err(bad(name, format!("`{}` is neither a time nor a length", shown(&text)))
            .hint("such as 2027-12-31T00:00:00Z or 2h")),
    }
}

/// Ends a silence.
#[utoipa::path(
    delete,
    path = "/api/v1/silences/{id}",
    tag = "alerts",
    params(("id" = String, Path)),
    responses((status = 204), (status = 404, description = "not_found"))
)]
pub(crate) async fn unsilence(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Path(id) = id?;
    let id = SilenceId::parse(&id)?;
    match app.store.end_silence(id, actor(&caller, &request), app.clock.now()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::new(Code::NotFound, format!("silence {id} is not in force"))
            .hint("GET /api/v1/silences or `lazaret alerts silences` lists them")),
    }
}
