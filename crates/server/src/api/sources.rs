//! Sources: what is configured, how each stands, and what a look from outside finds.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use lazaret_core::lifecycle::Status;
use lazaret_sources::outbox::{PutBack, RelayConfig, Worked};
use lazaret_sources::{ChangeKind, Declare, Duty, Finding, Source, SourceError};
use lazaret_store::audit::Act;
use lazaret_store::stats::StatsOf;
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::{RequestId, actor};
use super::letters::{Pairs, parse_id, unknown_parameter};
use super::problem::{Code, Problem};
use crate::access::Caller;
use crate::app::App;
use crate::config::SourceConfig;
use crate::raw_json::shown;
use crate::sources::{self, NotLooked, Running, RunningOutbox};

#[derive(Serialize, ToSchema)]
pub(crate) struct SourceList {
    /// By name; `jobs` is built in and always there.
    pub items: Vec<SourceBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceBody {
    pub name: String,
    /// jobs, report, outbox, jetstream or rabbitmq
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// required or optional
    #[schema(value_type = String)]
    pub governance: &'static str,
    /// Letters of it that wait.
    pub pending: u64,
    /// Where its letters go back to, without credentials; null if they have no way back of their own.
    pub address: Option<String>,
    /// How the connection to it stands; null for sources that programs report to.
    pub connection: Option<ConnectionBody>,
    /// What this instance does for it beside capture.
    pub duties: Vec<DutyBody>,
    /// What an outbox does; null for others.
    pub outbox: Option<OutboxBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectionBody {
    /// Whether this instance captures from it now: all do, or the leader alone.
    pub captures: bool,
    pub connected: bool,
    /// Since when it is connected, or not.
    pub since: Option<String>,
    pub last_error: Option<String>,
    /// How long the longest waiting message is dead that was found and not stored yet.
    pub lag_ms: u64,
    /// Dead messages that wait at the source to be captured.
    pub depth: Option<u64>,
    /// By how many messages the source's dead-letter queue grows per minute.
    pub growth_per_minute: Option<f64>,
    /// Messages that this instance has captured since it started.
    pub captured: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct DutyBody {
    /// relay, bridge, sweep or sampling
    #[schema(value_type = String)]
    pub name: &'static str,
    /// What it has done since the start, by name.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub counts: BTreeMap<&'static str, u64>,
    /// Why it could not go on last, if it cannot.
    pub problem: Option<String>,
}

impl DutyBody {
    /// The counts that say something.
    pub(crate) fn done(&self) -> impl Iterator<Item = (&'static str, &u64)> {
        self.counts.iter().filter(|(_, count)| **count > 0).map(|(name, count)| (*name, count))
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct TopologyBody {
    pub source: String,
    /// Whether the changes were made.
    pub applied: bool,
    /// What differs from the configuration, or did.
    pub changes: Vec<ChangeBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ChangeBody {
    /// Such as `stream DLQ`.
    pub subject: String,
    /// create, update or blocked
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// Why it cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub details: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutboxBody {
    pub table: String,
    /// Whether this instance captures from it now: one of several does.
    pub leads: bool,
    pub connected: bool,
    /// Since when it is connected, or not.
    pub since: Option<String>,
    pub last_error: Option<String>,
    /// How long the longest waiting row is dead that was found and not stored yet.
    pub lag_ms: u64,
    /// When all dead rows had been looked at last.
    pub swept_at: Option<String>,
    /// Rows that this instance has captured since it started.
    pub captured: u64,
    /// Letters that were resolved because the application processed their rows.
    pub settled_elsewhere: u64,
    /// Pending letters whose rows are gone, as the last whole look found.
    pub vanished: u64,
    /// The first of them.
    pub vanished_letters: Vec<String>,
    /// When the rows of all pending letters had been looked at last.
    pub looked_at: Option<String>,
    /// Null if the application delivers its events itself.
    pub relay: Option<RelayBody>,
}

/// What this instance's relay has done since it started.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RelayBody {
    pub sink: Option<String>,
    #[schema(value_type = String)]
    pub preset: &'static str,
    pub concurrency: u64,
    pub batch: u64,
    pub delivered: u64,
    pub retried: u64,
    pub died: u64,
    /// Rows that were stuck in processing and are tried again.
    pub taken_back: u64,
    pub problem: Option<String>,
    /// Rows that the database refuses to change, for example because of a trigger; at most 100.
    pub refused_rows: Vec<RefusedRowBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RefusedRowBody {
    pub row: String,
    pub reason: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CheckBody {
    pub source: String,
    /// The worst level: ok, warning or error.
    #[schema(value_type = String)]
    pub level: &'static str,
    pub findings: Vec<FindingBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FindingBody {
    #[schema(value_type = String)]
    pub level: &'static str,
    pub what: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PutBackBody {
    pub letter_id: String,
    /// made, or is_there if a row of that id is there already
    #[schema(value_type = String)]
    pub row: &'static str,
}

/// Lists sources and how they stand.
#[utoipa::path(get, path = "/api/v1/sources", tag = "sources", responses((status = 200, body = SourceList)))]
pub(crate) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<SourceList>, Problem> {
    if let Some((key, _)) = pairs?.0.first() {
        return Err(unknown_parameter(key, &[]));
    }
    let pending = pending(&app).await?;
    let mut items = vec![jobs(&app, &pending)];
    items.extend(app.config.sources.iter().map(|(name, config)| body(&app, name, config, &pending)));
    items.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(SourceList { items }))
}

/// Shows one source.
#[utoipa::path(
    get,
    path = "/api/v1/sources/{name}",
    tag = "sources",
    params(("name" = String, Path)),
    responses((status = 200, body = SourceBody), (status = 404, description = "not_found"))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<SourceBody>, Problem> {
    let Path(name) = name?;
    let pending = pending(&app).await?;
    if name == crate::jobs::SOURCE {
        return Ok(Json(jobs(&app, &pending)));
    }
    let config = app.config.sources.get(&name).ok_or_else(|| unknown(&app, &name))?;
    Ok(Json(body(&app, &name, config, &pending)))
}

/// Looks at everything that could be wrong with a source. Changes nothing.
#[utoipa::path(
    get,
    path = "/api/v1/sources/{name}/check",
    tag = "sources",
    params(("name" = String, Path)),
    responses((status = 200, body = CheckBody), (status = 404, description = "not_found"))
)]
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<CheckBody>, Problem> {
    let Path(name) = name?;
    let known = name == crate::jobs::SOURCE || app.config.sources.contains_key(&name);
    let findings = match app.sources.get(&name) {
        Some(running) => running.source.check().await,
        None if known => {
            vec![Finding::ok("letters are reported to this server: no connection to check")]
        }
        None => return Err(unknown(&app, &name)),
    };
    let level = findings.iter().map(|finding| finding.level).max().unwrap_or(lazaret_sources::Level::Ok);
    let findings = findings.into_iter().map(|Finding { level, what, hint }| FindingBody {
        level: level.name(),
        what,
        hint,
    });
    Ok(Json(CheckBody { source: name, level: level.name(), findings: findings.collect() }))
}

/// Shows what differs between the configured topology of a source and the one that is there. Changes nothing.
#[utoipa::path(
    get,
    path = "/api/v1/sources/{name}/topology",
    tag = "sources",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = TopologyBody),
        (status = 404, description = "not_found"),
        (status = 409, description = "no_way_back: the source does not match the configuration"),
        (status = 503, description = "source_unavailable: the source is unreachable")
    )
)]
pub(crate) async fn topology(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<TopologyBody>, Problem> {
    declare(&app, name?.0, Declare::DryRun).await
}

/// Makes the topology of a source as configured: streams, consumers, retry policies.
#[utoipa::path(
    post,
    path = "/api/v1/sources/{name}/topology",
    tag = "sources",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = TopologyBody),
        (status = 404, description = "not_found"),
        (status = 409, description = "no_way_back: the source does not match the configuration"),
        (status = 503, description = "source_unavailable: the source is unreachable")
    )
)]
pub(crate) async fn apply_topology(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<TopologyBody>, Problem> {
    let Path(name) = name?;
    // The broker is not in our transactions: recorded first, so that nothing is changed unrecorded.
    if app.sources.get(&name).is_some() {
        let act = Act::ApplyTopology { source: name.clone() };
        app.store.note_act(act, actor(&caller, &request), app.clock.now()).await?;
    }
    declare(&app, name, Declare::Apply).await
}

async fn declare(app: &App, name: String, how: Declare) -> Result<Json<TopologyBody>, Problem> {
    let applied = how == Declare::Apply;
    let changes = match app.sources.get(&name) {
        Some(running) => running.source.declare(how).await.map_err(|error| match error {
            SourceError::Unavailable { .. } => Problem::new(Code::SourceUnavailable, error.to_string()),
            error => Problem::new(Code::NoWayBack, error.to_string()),
        })?,
        None if app.config.sources.contains_key(&name) || name == crate::jobs::SOURCE => Vec::new(),
        None => return Err(unknown(app, &name)),
    };
    let changes = changes.into_iter().map(|change| ChangeBody {
        subject: change.subject,
        kind: change.kind.name(),
        reason: match change.kind {
            ChangeKind::Blocked(why) => Some(why),
            ChangeKind::Create | ChangeKind::Update => None,
        },
        details: change.details,
    });
    Ok(Json(TopologyBody { source: name, applied, changes: changes.collect() }))
}

/// Makes the row of a letter again that vanished from its table, dead as it was.
#[utoipa::path(
    post,
    path = "/api/v1/dead-letters/{id}/put-back",
    tag = "sources",
    params(("id" = String, Path)),
    responses(
        (status = 200, body = PutBackBody),
        (status = 404, description = "not_found"),
        (status = 409, description = "no_way_back: the letter has no outbox row; not_allowed: the letter is not pending, its event may have been processed"),
        (status = 503, description = "source_unavailable: the application's database is unreachable")
    )
)]
pub(crate) async fn put_back(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<PutBackBody>, Problem> {
    let id = parse_id(id)?;
    let Some(history) = app.store.history(id).await? else { return Err(Problem::no_letter(id)) };
    let source = history.letter.source;
    let Some(running) = app.sources.get(&source) else {
        let why = format!("letters of {} have no outbox rows", shown(&source));
        return Err(Problem::new(Code::NoWayBack, why));
    };
    let by = actor(&caller, &request);
    // The application's table is not in our transactions: recorded first, so that no row is written unrecorded.
    app.store.note_act(Act::PutBack { letter: id }, by.clone(), app.clock.now()).await?;
    let put_back = sources::put_back(&app, running, id).await;
    if let Some(why) = refusal(&put_back) {
        app.store.note_act(Act::PutBackRefused { letter: id, why }, by.clone(), app.clock.now()).await?;
    }
    let row = match put_back {
        Ok(Some(PutBack::Made)) => "made",
        Ok(Some(PutBack::IsThere)) => "is_there",
        Ok(None) => return Err(Problem::no_letter(id)),
        Err(NotLooked::Store(error)) => return Err(error.into()),
        Err(NotLooked::Source(error @ SourceError::Unavailable { .. })) => {
            return Err(Problem::new(Code::SourceUnavailable, error.to_string()));
        }
        Err(NotLooked::Source(error)) => return Err(Problem::new(Code::NoWayBack, error.to_string())),
        Err(error @ NotLooked::MayBeProcessed(_)) => {
            return Err(Problem::new(Code::NotAllowed, error.to_string())
                .hint("if its event was not processed, settle its redrive or reopen the letter first"));
        }
    };
    tracing::info!(letter.id = %id, source, by = by.name, "row of letter {id} restored: {row}");
    Ok(Json(PutBackBody { letter_id: id.to_string(), row }))
}

/// Why no row was written.
fn refusal(put_back: &Result<Option<PutBack>, NotLooked>) -> Option<String> {
    match put_back {
        Ok(Some(PutBack::Made)) => None,
        Ok(Some(PutBack::IsThere)) => Some("the row is there".to_owned()),
        Ok(None) => Some("the letter is gone".to_owned()),
        Err(NotLooked::Store(error)) => Some(error.to_string()),
        Err(NotLooked::Source(error)) => Some(error.to_string()),
        Err(error @ NotLooked::MayBeProcessed(_)) => Some(error.to_string()),
    }
}

pub(super) fn unknown(app: &App, name: &str) -> Problem {
    let known: Vec<&str> = app.config.sources.keys().map(String::as_str).collect();
    Problem::new(Code::NotFound, format!("source `{}` is not configured", shown(name)))
        .hint(format!("configured: jobs, {}", known.join(", ")))
}

/// Pending letters by source.
async fn pending(app: &App) -> Result<Vec<(String, u64)>, Problem> {
    Ok(app.store.stats(StatsOf::Only(Status::Pending)).await?.by_source)
}

fn count(pending: &[(String, u64)], name: &str) -> u64 {
    pending.iter().find(|(source, _)| source == name).map_or(0, |(_, letters)| *letters)
}

fn jobs(app: &App, pending: &[(String, u64)]) -> SourceBody {
    SourceBody {
        name: crate::jobs::SOURCE.to_owned(),
        kind: "jobs",
        governance: app.config.jobs.governance.name(),
        pending: count(pending, crate::jobs::SOURCE),
        address: Some(crate::jobs::SOURCE.to_owned()),
        connection: None,
        duties: Vec::new(),
        outbox: None,
    }
}

fn body(app: &App, name: &str, config: &SourceConfig, pending: &[(String, u64)]) -> SourceBody {
    let running = app.sources.get(name);
    SourceBody {
        name: name.to_owned(),
        kind: config.kind.name(),
        governance: config.governance.name(),
        pending: count(pending, name),
        address: app.destinations.by_name(name).ok().map(|named| named.address()),
        connection: running.map(|running| connection(app, running)),
        duties: running.map(|running| duties(running)).unwrap_or_default(),
        outbox: running.and_then(|running| Some(outbox(app, running, running.outbox.as_ref()?))),
    }
}

fn connection(app: &App, running: &Running) -> ConnectionBody {
    let health = running.source.state();
    ConnectionBody {
        captures: running.source.is_shared() || app.store.leads(),
        connected: health.connected,
        since: health.since.map(|at| at.to_string()),
        last_error: health.last_error,
        lag_ms: health.lag_ms,
        depth: health.depth,
        growth_per_minute: health.growth_per_min,
        captured: running.so_far().captured,
    }
}

fn duties(running: &Running) -> Vec<DutyBody> {
    let mut problems = running.so_far().problems;
    let duties = running.duties.iter().map(|duty| DutyBody {
        name: duty.name(),
        counts: duty.counts().into_iter().collect(),
        problem: problems.remove(duty.name()),
    });
    duties.collect()
}

fn outbox(app: &App, running: &Running, table: &RunningOutbox) -> OutboxBody {
    let (state, so_far) = (table.outbox.state(), running.so_far());
    let config = table.outbox.config();
    OutboxBody {
        table: config.table.to_string(),
        leads: app.store.leads(),
        connected: state.connected,
        since: state.since.map(|at| at.to_string()),
        last_error: state.last_error,
        lag_ms: state.lag_ms,
        swept_at: state.looked_at.map(|at| at.to_string()),
        captured: so_far.captured,
        settled_elsewhere: so_far.settled_elsewhere,
        vanished: so_far.vanished,
        vanished_letters: so_far.vanished_first.iter().map(ToString::to_string).collect(),
        looked_at: so_far.looked_at.map(|at| at.to_string()),
        relay: config.relay.as_ref().map(|relay| relay_body(table, relay, so_far.problems)),
    }
}

fn relay_body(
    table: &RunningOutbox,
    relay: &RelayConfig,
    mut problems: BTreeMap<&'static str, String>,
) -> RelayBody {
    let (sink, problem, refused, so_far) = match &table.relay {
        Some(Ok(relay)) => {
            let problem = problems.remove(relay.name());
            (Some(relay.sink().address()), problem, relay.refused_rows(), relay.so_far())
        }
        Some(Err(why)) => (None, Some(why.clone()), Vec::new(), Worked::default()),
        None => (None, None, Vec::new(), Worked::default()),
    };
    let refused_rows =
        refused.into_iter().map(|row| RefusedRowBody { row: row.key, reason: row.why }).collect();
    RelayBody {
        sink,
        preset: relay.preset.name(),
        concurrency: relay.concurrency as u64,
        batch: relay.batch as u64,
        delivered: so_far.delivered,
        retried: so_far.retried,
        died: so_far.died,
        taken_back: so_far.taken_back,
        problem,
        refused_rows,
    }
}
