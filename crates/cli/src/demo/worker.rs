//! The shop's worker: a small program that pushes, fetches, acknowledges and fails over HTTP as any worker would.

use std::collections::HashMap;
use std::time::Duration;

use lazaret_core::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::jobs::{PAUSED_QUEUE, QUEUES, Task, Work};
use crate::client::{Client, ClientError, Content};
use crate::output::moment;

const NAME: &str = "shop-worker-1";
const HOST: &str = "shop-07";

/// Jobs that it works on at a time.
const CONCURRENCY: usize = 4;

/// How often it looks what there is to do, and how often it says that it is alive.
const LOOK: Duration = Duration::from_millis(250);
const BEAT: Duration = Duration::from_secs(5);

/// How long it rests when the server does not answer.
const REST: Duration = Duration::from_secs(5);

/// Jobs that one demo pushes at most: it may run for days, and the worker may have been told to exit.
const PUSHED_MAX: usize = 20_000;

/// Whether work comes in while the demo runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    Still,
    Trickle,
}

/// The worker and the work of the shop.
#[derive(Debug)]
pub struct Worker {
    work: Work,
    client: Client,
    pace: Pace,
    started_at: Time,
    /// How the runs of each job end.
    plans: HashMap<String, Plan>,
    /// Jobs in hand, and when their runs end.
    held: Vec<(String, Instant)>,
    next_beat: Instant,
    next_push: Instant,
    /// What the server wishes: `running`, `quiet` or `terminate`.
    wished: String,
}

#[derive(Debug)]
struct Plan {
    failing_runs: u32,
    error: Value,
}

impl Worker {
    pub fn new(seed: u64, client: Client, pace: Pace) -> Worker {
        let (now, started_at) = (Instant::now(), moment::now());
        Worker {
            work: Work::new(seed, started_at),
            client,
            pace,
            started_at,
            plans: HashMap::new(),
            held: Vec::new(),
            next_beat: now,
            next_push: now,
            wished: "running".into(),
        }
    }

    /// Works until the server stops.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut opened = false;
        while !*stopping.borrow() {
            let step = async {
                if !opened {
                    self.open().await?;
                    opened = true;
                }
                self.step().await
            };
            let rest = tokio::select! {
                done = step => match done {
                    Ok(()) => LOOK,
                    Err(error) => {
                        tracing::debug!(%error, "the shop's worker did not get through");
                        REST
                    }
                },
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// What is there from the beginning, with a queue that somebody paused.
    async fn open(&mut self) -> Result<(), ClientError> {
        self.post(&["admin", "queues", PAUSED_QUEUE, "pause"], &json!({})).await?;
        let tasks = self.work.opening(moment::now());
        let requests: Vec<&Value> = tasks.iter().map(|task| &task.request).collect();
        self.post(&["jobs", "batch"], &json!({ "jobs": requests })).await?;
        tasks.into_iter().for_each(|task| self.plan(task));
        Ok(())
    }

    async fn step(&mut self) -> Result<(), ClientError> {
        let now = Instant::now();
        let is_gone = self.wished == "terminate" && self.held.is_empty();
        if self.next_beat <= now && !is_gone {
            self.next_beat = now + BEAT;
            self.beat().await?;
        }
        let (over, held) = std::mem::take(&mut self.held).into_iter().partition(|(_, ends)| *ends <= now);
        self.held = held;
        let over: Vec<(String, Instant)> = over;
        for (job, _) in over {
            self.finish(&job).await?;
        }
        if self.wished == "running" && self.held.len() < CONCURRENCY {
            self.fetch(now).await?;
        }
        if self.pace == Pace::Trickle && self.next_push <= now && self.plans.len() < PUSHED_MAX {
            self.next_push = now + Duration::from_millis(self.work.pause_ms());
            let task = self.work.task(moment::now());
            self.post(&["jobs"], &task.request).await?;
            self.plan(task);
        }
        Ok(())
    }

    fn plan(&mut self, task: Task) {
        self.plans.insert(task.id, Plan { failing_runs: task.failing_runs, error: task.error });
    }

    async fn beat(&mut self) -> Result<(), ClientError> {
        #[derive(Deserialize)]
        struct Beaten {
            state: String,
        }
        let ids: Vec<&str> = self.held.iter().map(|(job, _)| job.as_str()).collect();
        let body = json!({
            "worker_id": NAME,
            "hostname": HOST,
            "pid": std::process::id(),
            "queues": QUEUES,
            "concurrency": CONCURRENCY,
            "labels": {"shop": "demo"},
            "started_at": self.started_at.to_string(),
            "active_jobs": ids.len(),
            "active_job_ids": ids,
        });
        let beaten: Beaten = self.post(&["workers", "heartbeat"], &body).await?.read()?;
        self.wished = beaten.state;
        Ok(())
    }

    async fn fetch(&mut self, now: Instant) -> Result<(), ClientError> {
        #[derive(Deserialize)]
        struct Fetched {
            jobs: Vec<FetchedJob>,
        }
        #[derive(Deserialize)]
        struct FetchedJob {
            id: String,
        }
        let count = CONCURRENCY - self.held.len();
        let body = json!({"queues": QUEUES, "count": count, "worker_id": NAME});
        let fetched: Fetched = self.post(&["workers", "fetch"], &body).await?.read()?;
        for job in fetched.jobs {
            let ends = now + Duration::from_millis(self.work.run_ms());
            self.held.push((job.id, ends));
        }
        Ok(())
    }

    /// Ends a run as it was planned. What somebody else pushed always succeeds.
    async fn finish(&mut self, job: &str) -> Result<(), ClientError> {
        let ended = match self.plans.get_mut(job) {
            Some(plan) if plan.failing_runs > 0 => {
                plan.failing_runs -= 1;
                let body = json!({"job_id": job, "worker_id": NAME, "error": plan.error});
                self.post(&["workers", "nack"], &body).await
            }
            Some(_) | None => {
                let body = json!({"job_id": job, "worker_id": NAME, "result": {"doneBy": NAME}});
                self.post(&["workers", "ack"], &body).await
            }
        };
        match ended {
            Ok(_) => Ok(()),
            // Cancelled meanwhile, or given to another: no longer ours to end.
            Err(ClientError::Refused(problem)) if matches!(problem.status.as_u16(), 404 | 409) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn post(&self, path: &[&str], body: &Value) -> Result<crate::client::Answer, ClientError> {
        self.client.post_ojs(path, Content::json(body)).await
    }
}
