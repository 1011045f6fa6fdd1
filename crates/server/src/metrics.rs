//! What this instance has done and how things stand, as numbers for Prometheus.
//!
//! Counters begin at zero with each start and count what this instance did; gauges are read from the store when they are
//! asked for. Ids, messages and arguments never become labels. `docs/reference/metrics.md` lists every metric.

mod family;
pub mod rules;
mod scrape;

use std::fmt;
use std::time::Duration;

use lazaret_core::job::Job;
use lazaret_core::time::Time;
use lazaret_store::job::JobEvent;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use family::{Family, Total};

pub use scrape::text;

/// Upper bounds in seconds for how long jobs wait and run: from what is done at once to a long night's work.
const JOB_SECONDS: [f64; 13] =
    [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0, 1_800.0, 7_200.0];

/// The same for requests, which nobody waits long for.
const REQUEST_SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// The counters of one instance. What the store itself counts is added when they are shown.
pub struct Metrics {
    registry: Registry,
    started_at: Time,
    enqueued: Family<2, Total>,
    completed: Family<2, Total>,
    failed: Family<2, Total>,
    retried: Family<2, Total>,
    cancelled: Family<2, Total>,
    duration: Family<3, Histogram>,
    queue_time: Family<2, Histogram>,
    requests: Family<3, Total>,
    request_duration: Family<2, Histogram>,
    alerts: Family<1, Total>,
    notifications: Family<2, Total>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    pub fn new(started_at: Time) -> Metrics {
        let mut registry = Registry::default();
        let mut jobs =
            |name, help| Family::register(&mut registry, name, help, ["queue", "type"], Total::default);
        let enqueued = jobs("ojs_job_enqueued_total", "Jobs that were pushed");
        let completed = jobs("ojs_job_completed_total", "Runs of jobs that were acknowledged");
        let failed = jobs("ojs_job_failed_total", "Runs of jobs that failed, timed out or lost their worker");
        let retried = jobs("ojs_job_retried_total", "Failed runs after which another one was planned");
        let cancelled = jobs("ojs_job_cancelled_total", "Jobs that were cancelled");
        let spread = || Histogram::new(JOB_SECONDS);
        Metrics {
            enqueued,
            completed,
            failed,
            retried,
            cancelled,
            duration: Family::register(
                &mut registry,
                "ojs_job_duration_seconds",
                "How long runs of jobs took, by the state that the job was in afterwards",
                ["queue", "type", "state"],
                spread,
            ),
            queue_time: Family::register(
                &mut registry,
                "ojs_job_queue_time_seconds",
                "How long jobs were available before a worker fetched them",
                ["queue", "type"],
                spread,
            ),
            requests: Family::register(
                &mut registry,
                "lazaret_http_requests_total",
                "Requests that were answered",
                ["method", "route", "status"],
                Total::default,
            ),
            request_duration: Family::register(
                &mut registry,
                "lazaret_http_request_duration_seconds",
                "How long requests took until their answer began",
                ["method", "route"],
                || Histogram::new(REQUEST_SECONDS),
            ),
            alerts: Family::register(
                &mut registry,
                "lazaret_alert_transitions_total",
                "Alerts that began to fire or resolved",
                ["state"],
                Total::default,
            ),
            notifications: Family::register(
                &mut registry,
                "lazaret_notifications_total",
                "Attempts to deliver notifications, by outcome",
                ["receiver", "outcome"],
                Total::default,
            ),
            registry,
            started_at,
        }
    }

    /// When this instance began to listen.
    pub(crate) fn started_at(&self) -> Time {
        self.started_at
    }

    pub(crate) fn alerts_moved(&self, fired: u64, resolved: u64) {
        self.alerts.of(["firing"]).add(fired);
        self.alerts.of(["resolved"]).add(resolved);
    }

    /// An attempt to deliver a notification ended.
    pub(crate) fn notification(&self, receiver: &str, outcome: &'static str) {
        self.notifications.of([receiver, outcome]).add(1);
    }

    pub(crate) fn job_enqueued(&self, job: &Job) {
        self.enqueued.of([&job.queue, &job.job_type]).add(1);
    }

    pub(crate) fn job_fetched(&self, job: &Job) {
        let waited = seconds(Some(job.enqueued_at), job.started_at);
        self.queue_time.of([&job.queue, &job.job_type]).observe(waited);
    }

    /// A change of a job was committed.
    pub(crate) fn job_changed(&self, job: &Job, told: &[JobRun]) {
        let names = [job.queue.as_str(), job.job_type.as_str()];
        let ran = |ms: u64| {
            let [queue, job_type] = names;
            self.duration.of([queue, job_type, job.state.name()]).observe(ms as f64 / 1_000.0);
        };
        for one in told {
            match *one {
                JobRun::Completed { ms } => {
                    self.completed.of(names).add(1);
                    ran(ms);
                }
                JobRun::Failed { ms } => {
                    self.failed.of(names).add(1);
                    ran(ms);
                }
                JobRun::Retrying => self.retried.of(names).add(1),
                JobRun::Cancelled => self.cancelled.of(names).add(1),
            }
        }
    }

    /// A request was answered; without a route it was for an address where there is nothing.
    pub(crate) fn request(
        &self,
        method: &http::Method,
        route: Option<&str>,
        status: http::StatusCode,
        took: Duration,
    ) {
        let (method, route) = (method_name(method), route.unwrap_or("none"));
        self.requests.of([method, route, status.as_str()]).add(1);
        self.request_duration.of([method, route]).observe(took.as_secs_f64());
    }
}

/// What a change of a job means for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobRun {
    Completed { ms: u64 },
    Failed { ms: u64 },
    Retrying,
    Cancelled,
}

impl JobRun {
    /// As the events of the change tell it, after a run of so many milliseconds. Nobody counts signs of life, and an end without a run is told elsewhere.
    pub(crate) fn all_of(events: &[JobEvent], ms: u64) -> Vec<JobRun> {
        let one = |event: &JobEvent| match event.kind {
            "job.completed" => Some(JobRun::Completed { ms }),
            "job.failed" => Some(JobRun::Failed { ms }),
            "job.retrying" => Some(JobRun::Retrying),
            "job.cancelled" => Some(JobRun::Cancelled),
            _ => None,
        };
        events.iter().filter_map(one).collect()
    }
}

/// Methods can be made up, and their names are not.
fn method_name(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn seconds(from: Option<Time>, to: Option<Time>) -> f64 {
    match (from, to) {
        (Some(from), Some(to)) => to.since(from).max(0) as f64 / 1_000.0,
        (None, _) | (_, None) => 0.0,
    }
}
