//! How long letters stay: the policy of every queue, and the pruner, in thought or in earnest.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use bytes::Bytes;
use lazaret_core::duration::Length;
use lazaret_core::limits;
use lazaret_core::retention::{Effective, Limit, MaxCount, Origin, PruningPolicy};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::decisions::{nothing_else, read_object};
use super::letters::{Pairs, unknown_parameter};
use super::problem::{Code, Problem};
use crate::access::Caller;
use crate::app::App;
use crate::retention::{
    self, Counted, DryRun, NotPruned, QueueRetention, Report, Retained, Scope, WouldGo, next_prune_at,
};

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetentionBody {
    pub next_prune_at: String,
    pub prune_every: String,
    /// Those with the most letters first.
    pub queues: Vec<QueueRetentionBody>,
    /// Queues beyond the 1,000 that are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_queues: Option<usize>,
    /// What is counted together, and its limit.
    pub counts: Vec<CountBody>,
}

/// A queue with what holds for its letters.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueRetentionBody {
    pub source: String,
    pub queue: String,
    #[schema(value_type = SettingBody)]
    pub max_age: SettingBody,
    #[schema(value_type = SettingBody)]
    pub max_count: SettingBody,
    #[schema(value_type = SettingBody)]
    pub min_age: SettingBody,
    #[schema(value_type = SettingBody)]
    pub pruning_policy: SettingBody,
    #[schema(value_type = SettingBody)]
    pub resolved_max_age: SettingBody,
    #[schema(value_type = SettingBody)]
    pub discarded_max_age: SettingBody,
    /// With what its pending letters are counted: `queue`, `source` or `global`; absent where nothing is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub counted_with: Option<&'static str>,
    /// Live letters by status.
    #[schema(value_type = Object)]
    pub letters: Map<String, Value>,
    pub held: u64,
    /// When the age of the oldest pending letter that is not held began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<String>,
    pub notes: Vec<String>,
}

/// A setting, and where it comes from.
#[derive(Serialize, ToSchema)]
pub(crate) struct SettingBody {
    /// A length of time, a number, a word, or null where there is no limit.
    pub value: Value,
    /// `queue`, `source`, `global` or `default`.
    #[schema(value_type = String)]
    pub from: &'static str,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CountBody {
    /// `queue`, `source` or `global`.
    #[schema(value_type = String)]
    pub scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    pub max_count: u64,
    /// Pending ones.
    pub letters: u64,
    pub held: u64,
    /// Letters over the limit that stay, because they are held.
    pub unmet: u64,
}

/// Shows the policy of every queue, where each setting comes from, and when letters are pruned next.
#[utoipa::path(
    get,
    path = "/api/v1/retention",
    tag = "retention",
    params(
        ("source" = Option<String>, Query, description = "Source"),
        ("queue" = Option<String>, Query, description = "Queue")
    ),
    responses((status = 200, body = RetentionBody))
)]
pub(crate) async fn show(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<RetentionBody>, Problem> {
    let (mut source, mut queue) = (None, None);
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "source" => source = Some(value),
            "queue" => queue = Some(value),
            _ => return Err(unknown_parameter(&key, &["source", "queue"])),
        }
    }
    let Retained { queues, more, counts } = retention::standings(&app).await?;
    let is_wanted = |it: &QueueRetention| {
        source.as_ref().is_none_or(|source| *source == it.source)
            && queue.as_ref().is_none_or(|queue| *queue == it.queue)
    };
    Ok(Json(RetentionBody {
        next_prune_at: next_prune_at(app.clock.now()).to_string(),
        prune_every: Length::from_ms(limits::PRUNE_EVERY_MS).to_string(),
        queues: queues.into_iter().filter(is_wanted).map(QueueRetentionBody::from).collect(),
        more_queues: Some(more).filter(|more| *more > 0),
        counts: counts.into_iter().map(CountBody::from).collect(),
    }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PruneBody {
    pub dry_run: bool,
    /// False if there is more: a dry run says "at least", and of a prune the rest goes behind the call.
    pub complete: bool,
    pub archived: u64,
    pub deleted: u64,
    pub queues: Vec<PrunedQueueBody>,
    /// Counts that stay over their limits.
    pub unmet: Vec<UnmetBody>,
    pub next_prune_at: String,
}

/// Letters of a queue that one limit pushes out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrunedQueueBody {
    pub source: String,
    pub queue: String,
    /// `max_age` or `max_count`.
    #[schema(value_type = String)]
    pub reason: &'static str,
    pub archived: u64,
    pub deleted: u64,
    /// What only a dry run tells.
    #[serde(flatten)]
    pub would: Option<WouldGoBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WouldGoBody {
    #[schema(value_type = String)]
    pub status: &'static str,
    /// Of the archived ones, those that no policy could delete.
    pub inside_floor: u64,
    /// Of all, those in an unfinished plan: they go last.
    pub planned: u64,
    /// Letters of this status in the queue that stay because they are held.
    pub held: u64,
    /// When the ages of the oldest and the newest began.
    pub oldest_at: String,
    pub newest_at: String,
    /// Why they may go, and where to.
    pub why: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnmetBody {
    /// `queue`, `source` or `global`.
    #[schema(value_type = String)]
    pub scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Letters over the limit that stay, because they are held.
    pub letters: u64,
}

/// Prunes at once, or says what would go.
#[utoipa::path(
    post,
    path = "/api/v1/prune",
    tag = "retention",
    request_body(content = Option<Object>, description = "`{\"dryRun\": true}` previews; otherwise requires `decide`"),
    responses(
        (status = 200, body = PruneBody),
        (status = 403, description = "forbidden"),
        (status = 409, description = "not_leading: another instance prunes; under_way: pruning is already running")
    )
)]
pub(crate) async fn prune(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<PruneBody>, Problem> {
    let mut body = read_object(&body?)?;
    let dry_run = match body.remove("dryRun") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(Problem::new(Code::BadRequest, "dryRun must be true or false")),
    };
    nothing_else(&body, &["dryRun"])?;
    let next_prune_at = next_prune_at(app.clock.now()).to_string();
    if dry_run {
        return Ok(Json(would(retention::dry_run(&app).await?, next_prune_at)));
    }
    tracing::info!(by = caller.name, "pruning started by {}", caller.name);
    Ok(Json(done(&retention::prune_now(&app).await?, next_prune_at)))
}

fn done(report: &Report, next_prune_at: String) -> PruneBody {
    let sum = report.sum();
    let queue =
        |((source, queue, limit), gone): (&(String, String, Limit), &retention::Gone)| PrunedQueueBody {
            source: source.clone(),
            queue: queue.clone(),
            reason: limit.name(),
            archived: gone.archived,
            deleted: gone.deleted,
            would: None,
        };
    PruneBody {
        dry_run: false,
        complete: report.complete,
        archived: sum.archived,
        deleted: sum.deleted,
        queues: report.gone.iter().map(queue).collect(),
        unmet: report.unmet.iter().map(UnmetBody::from).collect(),
        next_prune_at,
    }
}

fn would(found: DryRun, next_prune_at: String) -> PruneBody {
    PruneBody {
        dry_run: true,
        complete: found.complete,
        archived: found.rows.iter().map(|row| row.archived).sum(),
        deleted: found.rows.iter().map(|row| row.deleted).sum(),
        unmet: found.unmet.iter().map(UnmetBody::from).collect(),
        queues: found.rows.into_iter().map(PrunedQueueBody::from).collect(),
        next_prune_at,
    }
}

impl From<WouldGo> for PrunedQueueBody {
    fn from(row: WouldGo) -> PrunedQueueBody {
        PrunedQueueBody {
            reason: row.limit.name(),
            archived: row.archived,
            deleted: row.deleted,
            would: Some(WouldGoBody {
                status: row.status.name(),
                inside_floor: row.inside_floor,
                planned: row.planned,
                held: row.held,
                oldest_at: row.oldest_at.to_string(),
                newest_at: row.newest_at.to_string(),
                why: why(&row),
            }),
            source: row.source,
            queue: row.queue,
        }
    }
}

/// Why letters may go, each part with its number.
fn why(row: &WouldGo) -> String {
    let WouldGo { effective, limit, status, inside_floor, archived, deleted, planned, held, .. } = row;
    let over = match limit {
        Limit::MaxAge => {
            let age = effective.max_age_of(*status).map(|age| age.to_string()).unwrap_or_default();
            format!("older than {age}")
        }
        Limit::MaxCount => match effective.max_count.0 {
            MaxCount::Letters(letters) => format!("beyond {letters} letters, oldest first"),
            MaxCount::None => "beyond the count".to_owned(),
        },
    };
    let (floor, policy) = (effective.min_age.0, effective.pruning_policy.0);
    let mut parts = vec![over];
    let by_policy = archived - inside_floor.min(archived);
    for (letters, what) in [
        (*inside_floor, format!("younger than min_age {floor}: archived")),
        (by_policy, format!("older than min_age: archived by policy {}", PruningPolicy::Archive.name())),
        (*deleted, format!("older than min_age {floor}: deleted by policy {}", policy.name())),
        (*planned, "in an unfinished redrive: pruned last".to_owned()),
        (*held, "held: kept".to_owned()),
    ] {
        if letters > 0 {
            parts.push(format!("{letters} {what}"));
        }
    }
    parts.join("; ")
}

impl From<QueueRetention> for QueueRetentionBody {
    fn from(queue: QueueRetention) -> QueueRetentionBody {
        let Effective { max_age, max_count, min_age, pruning_policy, resolved_max_age, discarded_max_age } =
            queue.effective;
        let count = match max_count.0 {
            MaxCount::Letters(letters) => letters.into(),
            MaxCount::None => Value::Null,
        };
        let letters =
            queue.letters.iter().map(|(status, letters)| (status.name().to_owned(), (*letters).into()));
        QueueRetentionBody {
            max_age: length(max_age),
            max_count: SettingBody { value: count, from: max_count.1.name() },
            min_age: length(min_age),
            pruning_policy: SettingBody {
                value: pruning_policy.0.name().into(),
                from: pruning_policy.1.name(),
            },
            resolved_max_age: length(resolved_max_age),
            discarded_max_age: length(discarded_max_age),
            counted_with: queue.counted_in.as_ref().map(Scope::name),
            letters: letters.collect(),
            held: queue.held,
            oldest_at: queue.oldest_at.map(|at| at.to_string()),
            notes: queue.notes,
            source: queue.source,
            queue: queue.queue,
        }
    }
}

fn length((length, from): (Length, Origin)) -> SettingBody {
    SettingBody { value: length.to_string().into(), from: from.name() }
}

impl From<Counted> for CountBody {
    fn from(counted: Counted) -> CountBody {
        CountBody {
            scope: counted.scope.name(),
            source: counted.scope.source().map(str::to_owned),
            queue: counted.scope.queue().map(str::to_owned),
            max_count: counted.max,
            letters: counted.letters,
            held: counted.held,
            unmet: counted.unmet,
        }
    }
}

impl From<&(Scope, u64)> for UnmetBody {
    fn from((scope, letters): &(Scope, u64)) -> UnmetBody {
        UnmetBody {
            scope: scope.name(),
            source: scope.source().map(str::to_owned),
            queue: scope.queue().map(str::to_owned),
            letters: *letters,
        }
    }
}

impl From<NotPruned> for Problem {
    fn from(error: NotPruned) -> Problem {
        let text = error.to_string();
        match error {
            NotPruned::NotLeading => Problem::new(Code::NotLeading, text)
                .hint("ask the leading instance (see /health/ready), or wait for the next run"),
            NotPruned::UnderWay => Problem::new(Code::UnderWay, text).hint("retry when it has finished"),
            NotPruned::Store(error) => error.into(),
        }
    }
}
