//! The list of jobs, newest first: by queue, state, type, holder and time of creation.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::cursor::BadCursor;
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;
use lazaret_store::job::JobQuery;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Numbered, Pagination};
use crate::app::App;
use crate::ojs::problem::{Code, Problem};
use crate::ojs::{Answer, Pairs, given, job_value, shown_job};
use crate::raw_json::shown;

#[derive(Serialize)]
struct JobList {
    items: Vec<Box<RawValue>>,
    total: u64,
    pagination: Pagination,
}

/// What is asked for; what is not given does not narrow.
#[derive(Debug, Default)]
struct Asked {
    queue: Option<String>,
    state: Option<JobState>,
    job_type: Option<Pattern>,
    worker: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
    cursor: Option<JobId>,
}

/// What a look through the jobs brought.
struct Found {
    jobs: Vec<Job>,
    /// Those that matched, the skipped ones too.
    matched: usize,
    next: Option<JobId>,
}

pub(in crate::ojs) async fn jobs(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Response, Problem> {
    let JobPage { jobs, pagination } = job_page(&app, pairs).await?;
    let items = jobs.iter().map(job_value).collect::<Result<Vec<_>, Problem>>()?;
    let body = JobList { items, total: pagination.total, pagination };
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// A page of the jobs that were asked for.
pub(crate) struct JobPage {
    pub jobs: Vec<Job>,
    pub pagination: Pagination,
}

pub(crate) async fn job_page(app: &App, pairs: Pairs) -> Result<JobPage, Problem> {
    let Query(pairs) = pairs?;
    let (asked, numbered) = (read(&pairs)?, Numbered::read(&pairs)?);
    // A cursor has skipped already.
    let offset = match asked.cursor {
        Some(_) => 0,
        None => numbered.offset(limits::OJS_JOBS_LOOKED_AT_MAX)?,
    };
    let found = look(app, &asked, offset, numbered.per_page).await?;
    let exact = total(app, &asked).await?;
    let at_least = found.matched as u64 + u64::from(found.next.is_some());
    let pagination = Pagination {
        total: exact.unwrap_or(at_least),
        total_is_at_least: (exact.is_none() && found.next.is_some()).then_some(true),
        page: numbered.page,
        per_page: numbered.per_page,
        limit: numbered.per_page,
        offset,
        has_more: found.next.is_some(),
        next_cursor: found.next.map(|id| id.to_string()),
    };
    let jobs = found.jobs.into_iter().map(|job| shown_job(app, job)).collect();
    Ok(JobPage { jobs, pagination })
}

/// Looks through the jobs, newest first, until the page is full. Jobs are read whole, so that it ends after a bounded
/// number of them; the cursor goes on from there.
async fn look(app: &App, asked: &Asked, offset: usize, rows: usize) -> Result<Found, Problem> {
    let mut found = Found { jobs: Vec::new(), matched: 0, next: asked.cursor };
    for _ in 0..limits::OJS_JOBS_LOOKED_AT_MAX.div_ceil(limits::OJS_JOBS_PER_READ) {
        let missing = offset + rows - found.matched;
        let page = app.store.jobs(asked.query(found.next, missing)).await?;
        for job in page.jobs {
            if asked.covers(&job) {
                found.matched += 1;
                if found.matched > offset {
                    found.jobs.push(job);
                }
            }
        }
        found.next = page.next;
        if found.next.is_none() || found.matched == offset + rows {
            break;
        }
    }
    Ok(found)
}

/// How many there are, where the counters of the queues know it.
async fn total(app: &App, asked: &Asked) -> Result<Option<u64>, Problem> {
    let Asked { queue, state, job_type: None, worker: None, since: None, until: None, cursor: _ } = asked
    else {
        return Ok(None);
    };
    let mut total = 0;
    for known in app.store.queues().await? {
        if queue.as_ref().is_some_and(|name| *name != known.name) {
            continue;
        }
        total += match state {
            Some(state) => known.counts.get(state).copied().unwrap_or(0),
            None => known.counts.values().sum(),
        };
    }
    Ok(Some(total))
}

impl Asked {
    fn query(&self, before: Option<JobId>, limit: usize) -> JobQuery {
        JobQuery {
            queue: self.queue.clone(),
            state: self.state,
            job_type: self.job_type.clone(),
            worker: self.worker.clone(),
            before,
            limit: limit.min(limits::OJS_JOBS_PER_READ),
        }
    }

    /// What the store is not asked for: a client may choose an id, so that ids do not tell when a job was made.
    fn covers(&self, job: &Job) -> bool {
        self.since.is_none_or(|since| since <= job.created_at)
            && self.until.is_none_or(|until| job.created_at < until)
    }
}

fn read(pairs: &[(String, String)]) -> Result<Asked, Problem> {
    let mut asked = Asked::default();
    for (key, value) in pairs.iter().filter_map(|(key, value)| Some((key.as_str(), given(value)?))) {
        let bad = |message: String| Problem::new(Code::InvalidRequest, message).detail("field", key);
        match key {
            "queue" => asked.queue = Some(value.to_owned()),
            "state" => {
                let unknown = || bad(format!("`{}` is not a state of jobs", shown(value)));
                asked.state = Some(JobState::parse(value).ok_or_else(unknown)?);
            }
            "type" => asked.job_type = Some(Pattern::new(value)),
            "worker" => asked.worker = Some(value.to_owned()),
            "since" => asked.since = Some(Time::parse(value).map_err(|error| bad(error.to_string()))?),
            "until" => asked.until = Some(Time::parse(value).map_err(|error| bad(error.to_string()))?),
            "cursor" => {
                let foreign = |_| Problem::from(BadCursor::Unreadable);
                asked.cursor = Some(JobId::parse(value).map_err(foreign)?);
            }
            "sort" if !["created_at", "-created_at"].contains(&value) => {
                return Err(bad("jobs can only be sorted by created_at".into()));
            }
            "order" if value != "desc" => {
                return Err(bad("jobs are listed newest first".into()).hint("omit order, or use desc"));
            }
            // A key that is not known narrows nothing, and a list does no harm.
            _ => {}
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(key: &str, value: &str) -> Result<Asked, Problem> {
        read(&[(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn nonsense_is_refused_and_what_says_nothing_is_passed_over() {
        for (key, value) in [
            ("state", "dead"),
            ("since", "yesterday"),
            ("until", "2026-11-15T03:00:00"),
            ("cursor", "1"),
            ("sort", "priority"),
            ("order", "asc"),
        ] {
            assert!(read_one(key, value).is_err(), "{key}={value}");
        }
        for (key, value) in [("state", " "), ("sort", "created_at"), ("order", "desc"), ("whatever", "x")] {
            let asked = read_one(key, value).unwrap();
            assert!(asked.state.is_none() && asked.queue.is_none(), "{key}={value}");
        }
        assert_eq!(read_one("state", "active").unwrap().state, Some(JobState::Active));
    }
}
