//! The dead letter for clients of the specification: lists, one job, retries, deletions, numbers; each in both namespaces.
//!
//! Only letters of jobs are here; those of other sources have no job and are the API's.

mod many;
mod read;
mod wanted;

use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::cursor;
use lazaret_core::filter::Filter;
use lazaret_core::job::reenqueue::read_override;
use lazaret_core::redaction::{MASK, masks};
use lazaret_core::retention::{Effective, MaxCount};
use lazaret_store::page::Total;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::jobs::both_ways;
use super::problem::{Code, Problem};
use super::{Answer, Pairs, Part, Text, job_value, shown_job};
use crate::access::Caller;
use crate::api::guard::{RequestId, actor};
use crate::api::reveal;
use crate::app::App;
use crate::jobs::SOURCE;
use crate::jobs::dead::{self, DeadPage, Place};
use crate::retention::{Policies, next_prune_at};
use read::{Listed, Paging};

pub(super) use many::{delete_many, purge, retry_many};

/// Every document's way of turning pages, so that any client finds its own.
#[derive(Serialize)]
struct Pagination {
    total: u64,
    /// There when counting took too long: there are as many, and perhaps more.
    #[serde(skip_serializing_if = "is_false")]
    total_is_at_least: bool,
    limit: usize,
    offset: usize,
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// There when looking into jobs took too long: the page is not full, and goes on with the cursor.
    #[serde(skip_serializing_if = "is_false")]
    cut_short: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_page: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Serialize)]
struct JobList {
    jobs: Vec<Box<RawValue>>,
    total: u64,
    pagination: Pagination,
}

#[derive(Serialize)]
struct AdminList {
    items: Vec<Box<RawValue>>,
    total: u64,
    pagination: Pagination,
}

/// Newest death first unless asked otherwise, by offset or by cursor.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let listed = read::list(&pairs)?;
    may_ask(&app, &caller, &listed.filter)?;
    let (jobs, pagination) = page(&app, &listed).await?;
    let body = JobList { jobs, total: pagination.total, pagination };
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// The same by numbered pages.
pub(super) async fn admin_list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let Listed { filter, sort, paging: numbered } = read::admin_list(&pairs)?;
    may_ask(&app, &caller, &filter)?;
    let paging = Paging { limit: numbered.per_page, offset: numbered.offset()?, cursor: None };
    let (items, pagination) = page(&app, &Listed { filter, sort, paging }).await?;
    if pagination.cut_short {
        // The pages behind it would leave out what is missing here.
        return Err(Problem::new(Code::TooBroad, "search timed out").hint(
            "use a narrower filter, for example by queue or since; or page through /ojs/v1/dead-letter by cursor",
        ));
    }
    let (page, per_page) = (Some(numbered.page), Some(numbered.per_page));
    let pagination = Pagination { page, per_page, next_cursor: None, ..pagination };
    let body = AdminList { items, total: pagination.total, pagination };
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// Refuses a filter whose answer would tell what is masked, to those who may not reveal.
fn may_ask(app: &App, caller: &Caller, filter: &Filter) -> Result<(), Problem> {
    reveal::may_ask(app, caller, filter).map_err(|refused| {
        let problem = Problem::new(Code::Forbidden, refused.text());
        match refused.advice() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })
}

async fn page(app: &App, listed: &Listed<Paging>) -> Result<(Vec<Box<RawValue>>, Pagination), Problem> {
    let Listed { filter, sort, paging } = listed;
    let (sort, hash) = (*sort, dead::letters(filter).hash());
    let place = match &paging.cursor {
        Some(text) => Place::After(cursor::decode(text, sort, hash)?),
        None => Place::Offset(paging.offset),
    };
    let DeadPage { jobs, total, next, cut_short } =
        dead::list(app, filter, sort, place, paging.limit).await?;
    let jobs =
        jobs.into_iter().map(|job| job_value(&shown_job(app, job))).collect::<Result<Vec<_>, Problem>>()?;
    let (total, total_is_at_least) = match total {
        Total::Exact(number) => (number, false),
        Total::AtLeast(number) => (number, true),
    };
    let pagination = Pagination {
        total,
        total_is_at_least,
        limit: paging.limit,
        offset: paging.offset,
        has_more: next.is_some(),
        next_cursor: next.map(|last| cursor::encode(sort, hash, last)),
        cut_short,
        page: None,
        per_page: None,
    };
    Ok((jobs, pagination))
}

pub(super) async fn show(State(app): State<Arc<App>>, id: Part) -> Result<Response, Problem> {
    let Path(text) = id?;
    let job = dead::show(&app, &text).await?;
    Ok(both_ways(&shown_job(&app, job), &[]))
}

/// Puts one job back, perhaps changed.
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Part,
    Text(body): Text,
) -> Result<Response, Problem> {
    let Path(text) = id?;
    let with = read_override(&body)?;
    refuse_masks(&app, &text, &body).await?;
    let job = dead::retry(&app, &text, &with, &actor(&caller, &request)).await?;
    Ok(both_ways(&shown_job(&app, job), &[]))
}

/// Refuses changes that were made from what is shown instead of from what is there: a worker would get the mask.
async fn refuse_masks(app: &App, id: &str, changes: &str) -> Result<(), Problem> {
    let masked = masks(changes.as_bytes());
    if app.redactor.is_off() || masked == 0 {
        return Ok(());
    }
    let job = dead::show(app, id).await?;
    if masked <= masks(job.args.as_bytes()) + masks(job.meta.as_bytes()) {
        return Ok(());
    }
    let message = format!("a mask, `{MASK}` or `•••• 1234`, is a placeholder of a masked value");
    Err(Problem::new(Code::InvalidRequest, message)
        .hint("replace it with the value, or keep the arguments unchanged"))
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Part,
) -> Result<Response, Problem> {
    let Path(text) = id?;
    let id = dead::delete(&app, &text, actor(&caller, &request)).await?;
    let body = json!({"deleted": true, "job_id": id.to_string()});
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// The same without an answer, as the admin document has it.
pub(super) async fn admin_delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Part,
) -> Result<StatusCode, Problem> {
    let Path(text) = id?;
    dead::delete(&app, &text, actor(&caller, &request)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How many there are, and how long they stay: what holds for a queue about which nothing is set.
pub(super) async fn stats(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let stats = dead::stats(&app).await?;
    let mut body = json!({
        "total": stats.total,
        "by_queue": stats.by_queue,
        "by_type": stats.by_type,
        "by_error_type": stats.by_error_type,
        "retention": retention(&app, &Policies::of(&app.config).of_source(SOURCE)),
    });
    for (name, time) in [("oldest_at", stats.oldest_at), ("newest_at", stats.newest_at)] {
        if let Some(time) = time {
            body[name] = time.to_string().into();
        }
    }
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// A policy as the specification writes it. Where nothing is counted there is no `max_count`.
pub(super) fn retention(app: &App, effective: &Effective) -> Value {
    let mut told = json!({
        "max_age": effective.max_age.0.to_string(),
        "next_prune_at": next_prune_at(app.clock.now()).to_string(),
    });
    match effective.max_count.0 {
        MaxCount::Letters(letters) => told["max_count"] = letters.into(),
        MaxCount::None => {}
    }
    told
}
