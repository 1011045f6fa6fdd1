//! The dead letter for clients of the specification: lists, one job, retries, numbers; each in both namespaces.
//!
//! Only letters of jobs are here; those of other sources have no job and are the API's.

mod read;

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::cursor::{self, Sort};
use lazaret_core::job::reenqueue::read_override;
use lazaret_core::limits;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::jobs::both_ways;
use super::problem::{Code, Problem};
use super::{Answer, Pairs, Part, Text, job_value};
use crate::app::App;
use crate::jobs::dead::{self, DeadFilter, Place};
use read::{Bulk, Paging};

/// Every document's way of turning pages, so that any client finds its own.
#[derive(Serialize)]
struct Pagination {
    total: u64,
    limit: usize,
    offset: usize,
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_page: Option<usize>,
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

/// Newest death first, by offset or by cursor.
pub(super) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let (filter, paging) = read::list(&pairs)?;
    let (jobs, pagination) = page(&app, &filter, &paging).await?;
    let body = JobList { jobs, total: pagination.total, pagination };
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// The same by numbered pages.
pub(super) async fn admin_list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let (filter, numbered) = read::admin_list(&pairs)?;
    let paging = Paging { limit: numbered.per_page, offset: numbered.offset()?, cursor: None };
    let (items, pagination) = page(&app, &filter, &paging).await?;
    let pagination =
        Pagination { page: Some(numbered.page), per_page: Some(numbered.per_page), ..pagination };
    let body = AdminList { items, total: pagination.total, pagination };
    Ok(Answer(StatusCode::OK, body).into_response())
}

async fn page(
    app: &App,
    filter: &DeadFilter,
    paging: &Paging,
) -> Result<(Vec<Box<RawValue>>, Pagination), Problem> {
    let (sort, hash) = (Sort::default(), filter.letters().hash());
    let place = match &paging.cursor {
        Some(text) => Place::After(cursor::decode(text, sort, hash)?),
        None => Place::Offset(paging.offset),
    };
    let found = dead::list(app, filter, place, paging.limit).await?;
    let jobs = found.jobs.iter().map(job_value).collect::<Result<Vec<_>, Problem>>()?;
    let pagination = Pagination {
        total: found.total,
        limit: paging.limit,
        offset: paging.offset,
        has_more: found.next.is_some(),
        next_cursor: found.next.map(|last| cursor::encode(sort, hash, last)),
        page: None,
        per_page: None,
    };
    Ok((jobs, pagination))
}

pub(super) async fn show(State(app): State<Arc<App>>, id: Part) -> Result<Response, Problem> {
    let Path(text) = id?;
    let job = dead::show(&app, &text).await?;
    Ok(both_ways(&job, &[]))
}

/// Puts one job back, perhaps changed.
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    id: Part,
    Text(body): Text,
) -> Result<Response, Problem> {
    let Path(text) = id?;
    let with = read_override(&body)?;
    let job = dead::retry(&app, &text, &with).await?;
    Ok(both_ways(&job, &[]))
}

/// Puts back all that match. `confirm` stands for the count, which is compared when it is sent.
pub(super) async fn retry_many(State(app): State<Arc<App>>, Text(body): Text) -> Result<Response, Problem> {
    let Bulk { filter, expected } = read::bulk(&body)?;
    let max = limits::OJS_BULK_MAX;
    let ids = dead::select(&app, &filter, max).await?;
    if ids.len() > max {
        let message = format!("more than {max} jobs match, and one call puts back at most that many");
        return Err(Problem::new(Code::TooMany, message).detail("max", max));
    }
    if let Some(expected) = expected
        && expected != ids.len() as u64
    {
        let message = format!("{} jobs match, not {expected}; nothing was put back", ids.len());
        return Err(Problem::new(Code::CountMismatch, message)
            .detail("expected_count", expected)
            .detail("matched", ids.len()));
    }
    let done = dead::retry_all(&app, ids).await;
    let errors: Vec<Value> =
        done.errors.iter().map(|(id, error)| json!({"job_id": id, "error": error})).collect();
    let body = json!({
        "action": "retry",
        "matched": done.matched,
        "succeeded": done.succeeded,
        "failed": done.failed,
        "retried": done.succeeded,
        "errors": errors,
    });
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// How many there are. `counted` is there when the numbers by value are about the newest ones only.
pub(super) async fn stats(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let stats = dead::stats(&app).await?;
    let mut body = json!({
        "total": stats.total,
        "by_queue": stats.by_queue,
        "by_type": stats.by_type,
        "by_error_type": stats.by_error_type,
    });
    for (name, time) in [("oldest_at", stats.oldest_at), ("newest_at", stats.newest_at)] {
        if let Some(time) = time {
            body[name] = time.to_string().into();
        }
    }
    if stats.counted < stats.total {
        body["counted"] = stats.counted.into();
    }
    Ok(Answer(StatusCode::OK, body).into_response())
}
