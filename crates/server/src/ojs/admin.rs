//! Workers, queues, jobs and numbers for those who watch: `/ojs/v1/admin`, by numbered pages.

pub(crate) mod jobs;
mod numbers;
pub(crate) mod workers;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_store::job::QueueInfo;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::problem::Problem;
use super::queues::{self, status, too_far};
use super::{Answer, Pairs, Part, given, read_limit};
use crate::app::App;

pub(super) use jobs::jobs;
pub(super) use numbers::stats;
pub(super) use workers::{quiet, resume, terminate, workers};

/// Which page of a list, counted from 1.
struct Numbered {
    page: usize,
    per_page: usize,
}

/// Every document's way of turning pages, so that any client finds its own.
#[derive(Serialize)]
pub(crate) struct Pagination {
    pub total: u64,
    /// There if the total is not known: so many there are, and maybe more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_is_at_least: Option<bool>,
    pub page: usize,
    per_page: usize,
    limit: usize,
    offset: usize,
    pub has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Numbered {
    /// Reads the page; what else is asked for is for others to read.
    fn read(pairs: &[(String, String)]) -> Result<Numbered, Problem> {
        let mut numbered = Numbered { page: 1, per_page: limits::OJS_ADMIN_ROWS };
        for (key, value) in pairs.iter().filter_map(|(key, value)| Some((key.as_str(), given(value)?))) {
            match key {
                "page" => numbered.page = read_limit("page", value, usize::MAX)?,
                "per_page" => numbered.per_page = read_limit("per_page", value, limits::OJS_ADMIN_ROWS_MAX)?,
                _ => {}
            }
        }
        Ok(numbered)
    }

    /// How many rows come before the page.
    fn offset(&self, max: usize) -> Result<usize, Problem> {
        let offset = (self.page - 1).checked_mul(self.per_page);
        offset.filter(|offset| *offset <= max).ok_or_else(too_far)
    }

    /// The page of a list that is known whole.
    fn of<T>(&self, all: Vec<T>) -> Result<(Vec<T>, Pagination), Problem> {
        let (total, offset) = (all.len(), self.offset(limits::OJS_OFFSET_MAX)?);
        let items: Vec<T> = all.into_iter().skip(offset).take(self.per_page).collect();
        let pagination = Pagination {
            total: total as u64,
            total_is_at_least: None,
            page: self.page,
            per_page: self.per_page,
            limit: self.per_page,
            offset,
            has_more: offset + items.len() < total,
            next_cursor: None,
        };
        Ok((items, pagination))
    }
}

#[derive(Serialize)]
pub(crate) struct QueueList {
    pub items: Vec<QueueValue>,
    total: u64,
    pub pagination: Pagination,
}

#[derive(Serialize)]
pub(crate) struct QueueValue {
    pub name: String,
    /// The documents have a name each for it.
    state: &'static str,
    pub status: &'static str,
    pub paused: bool,
    pub counts: Counts,
    created_at: String,
}

/// How many jobs are in each state, by its name; every state is there.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

pub(super) async fn queues(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Response, Problem> {
    Ok(Answer(StatusCode::OK, queue_list(&app, pairs).await?).into_response())
}

/// A page of the queues.
pub(crate) async fn queue_list(app: &App, pairs: Pairs) -> Result<QueueList, Problem> {
    let Query(pairs) = pairs?;
    let numbered = Numbered::read(&pairs)?;
    let all: Vec<QueueValue> = app.store.queues().await?.iter().map(queue_value).collect();
    let (items, pagination) = numbered.of(all)?;
    Ok(QueueList { items, total: pagination.total, pagination })
}

pub(super) async fn queue(State(app): State<Arc<App>>, name: Part) -> Result<Response, Problem> {
    let Path(name) = name?;
    let queue = queues::find(&app, &name).await?;
    Ok(Answer(StatusCode::OK, queue_value(&queue)).into_response())
}

fn queue_value(queue: &QueueInfo) -> QueueValue {
    QueueValue {
        name: queue.name.clone(),
        state: status(queue.paused),
        status: status(queue.paused),
        paused: queue.paused,
        counts: counts_value(&queue.counts),
        created_at: queue.created_at.to_string(),
    }
}

fn counts_value(counts: &BTreeMap<JobState, u64>) -> Counts {
    let of = |state| counts.get(&state).copied().unwrap_or(0);
    JobState::ALL.into_iter().map(|state| (state.name(), of(state))).collect()
}
