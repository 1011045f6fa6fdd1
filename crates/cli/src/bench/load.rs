//! The load: each client on a connection of its own, each waiting for its answer before it asks again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::{Address, Line, Measured, Waits, sample};

/// What can be measured by itself, in the order in which it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Workload {
    /// Jobs fail into the dead letter, one request each
    Fail,
    /// Jobs are pushed, fetched and acknowledged, one request each
    Success,
    /// Jobs fail into the dead letter, 100 per request
    FailBatch,
    /// Jobs are pushed and acknowledged, 100 per request
    SuccessBatch,
    /// Half of the dead jobs are retried by one call
    Retry,
    /// Dead letters are reported, 1,000 per request
    Capture,
    /// Letters are listed, filtered and counted
    Lists,
}

impl Workload {
    pub const ALL: [Workload; 7] = [
        Workload::Fail,
        Workload::Success,
        Workload::FailBatch,
        Workload::SuccessBatch,
        Workload::Retry,
        Workload::Capture,
        Workload::Lists,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Workload::Fail => "fail",
            Workload::Success => "success",
            Workload::FailBatch => "fail-batch",
            Workload::SuccessBatch => "success-batch",
            Workload::Retry => "retry",
            Workload::Capture => "capture",
            Workload::Lists => "lists",
        }
    }

    pub const fn what(self) -> &'static str {
        match self {
            Workload::Fail => "fetch, one nack per job",
            Workload::Success => "one push, one ack per job",
            Workload::FailBatch => "fetch, nacks by 100",
            Workload::SuccessBatch => "pushes and acks by 100",
            Workload::Retry => "one bulk call",
            Workload::Capture => "reports by 1,000",
            Workload::Lists => "one page or count",
        }
    }

    /// Whether a server that stores nothing can stand in for this one.
    pub const fn has_floor(self) -> bool {
        !matches!(self, Workload::Retry | Workload::Lists)
    }
}

/// Jobs that a worker fetches at a time.
const FETCHED: u64 = 25;
/// Jobs of one request, where requests hold many.
const BATCH: u64 = 100;
/// Jobs of one push that is not measured.
const FILL: u64 = 500;
/// Letters of one report.
const REPORTED: u64 = 1_000;
/// Connections that send batches: few are enough to keep both sides busy.
const BATCH_LINES: u64 = 4;
/// Calls of each list, and how long they may take together.
const LIST_CALLS: usize = 200;
const LIST_TIME_MAX: Duration = Duration::from_secs(5);
/// Jobs that one bulk call takes.
const RETRIED_MAX: u64 = 10_000;
/// How long a worker waits for jobs that do not come.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Load on one server.
#[derive(Clone, Debug)]
pub struct Load {
    pub address: Address,
    pub jobs: u64,
    pub letters: u64,
    pub connections: u64,
    /// Part of the names of queues and letters, so that two runs on one server do not meet.
    pub mark: String,
}

impl Load {
    /// Puts there what the workload needs, which is not measured.
    pub async fn prepare(&self, workload: Workload, bar: &ProgressBar) -> anyhow::Result<()> {
        match workload {
            Workload::Fail | Workload::FailBatch => self.fill(self.jobs, bar).await,
            Workload::Retry => {
                let jobs = self.jobs.min(2 * RETRIED_MAX);
                self.fill(jobs, bar).await?;
                self.work(Ends::NackBatch, jobs, BATCH_LINES, bar).await.map(drop)
            }
            Workload::Lists => self.report(self.letters, bar).await.map(drop),
            Workload::Success | Workload::SuccessBatch | Workload::Capture => Ok(()),
        }
    }

    /// Runs a workload. Lists are measured by `lists`.
    pub async fn run(&self, workload: Workload, bar: &ProgressBar) -> anyhow::Result<Measured> {
        match workload {
            Workload::Fail => self.work(Ends::Nack, self.jobs, self.connections, bar).await,
            Workload::FailBatch => self.work(Ends::NackBatch, self.jobs, BATCH_LINES, bar).await,
            Workload::Success => {
                let lines = (self.connections / 2).max(1);
                let (pushed, done) = tokio::try_join!(
                    self.push(self.jobs, 1, lines),
                    self.work(Ends::Ack, self.jobs, lines, bar)
                )?;
                Ok(both(pushed, done))
            }
            Workload::SuccessBatch => {
                let lines = BATCH_LINES / 2;
                let push = self.push(self.jobs, BATCH, lines);
                let (pushed, done) =
                    tokio::try_join!(push, self.work(Ends::AckBatch, self.jobs, lines, bar))?;
                Ok(both(pushed, done))
            }
            Workload::Retry => self.retry().await,
            Workload::Capture => self.report(self.letters, bar).await,
            Workload::Lists => Ok(Measured::default()),
        }
    }

    /// Pushes jobs by batches.
    async fn fill(&self, jobs: u64, bar: &ProgressBar) -> anyhow::Result<()> {
        let mut line = Line::open(&self.address).await?;
        for first in (0..jobs).step_by(FILL as usize) {
            let last = (first + FILL).min(jobs);
            line.post("/ojs/v1/jobs/batch", &self.job_batch(first, last)).await?;
            bar.inc(last - first);
        }
        Ok(())
    }

    fn job_batch(&self, first: u64, last: u64) -> String {
        let jobs: Vec<String> = (first..last).map(|n| sample::job(n, &self.mark)).collect();
        format!("{{\"jobs\":[{}]}}", jobs.join(","))
    }

    /// Pushes jobs, `size` per request.
    async fn push(&self, jobs: u64, size: u64, lines: u64) -> anyhow::Result<Measured> {
        // Made before the clock starts: clients and server may share the cores.
        let bodies: Vec<String> = match size {
            1 => (0..jobs).map(|n| sample::job(n, &self.mark)).collect(),
            _ => (0..jobs)
                .step_by(size as usize)
                .map(|first| self.job_batch(first, (first + size).min(jobs)))
                .collect(),
        };
        let path = if size == 1 { "/ojs/v1/jobs" } else { "/ojs/v1/jobs/batch" };
        self.send_all(path, bodies, lines, &ProgressBar::hidden(), |_| 0).await
    }

    /// Reports letters by batches.
    async fn report(&self, letters: u64, bar: &ProgressBar) -> anyhow::Result<Measured> {
        let bodies: Vec<String> = (0..letters)
            .step_by(REPORTED as usize)
            .map(|first| {
                let items: Vec<String> =
                    (first..(first + REPORTED).min(letters)).map(|n| sample::letter(n, &self.mark)).collect();
                format!("{{\"items\":[{}]}}", items.join(","))
            })
            .collect();
        let size = move |at: u64| REPORTED.min(letters - at * REPORTED);
        let sent = self.send_all("/api/v1/dead-letters", bodies, 2, bar, size).await?;
        Ok(Measured { operations: letters, ..sent })
    }

    /// Sends bodies on several connections, each as soon as the one before is answered.
    async fn send_all(
        &self,
        path: &'static str,
        bodies: Vec<String>,
        lines: u64,
        bar: &ProgressBar,
        size: impl Fn(u64) -> u64 + Clone + Send + 'static,
    ) -> anyhow::Result<Measured> {
        let (bodies, next) = (Arc::new(bodies), Arc::new(AtomicU64::new(0)));
        let started = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..lines {
            let mut line = Line::open(&self.address).await?;
            let (bodies, next, bar, size) =
                (Arc::clone(&bodies), Arc::clone(&next), bar.clone(), size.clone());
            all.spawn(async move {
                let mut waits = Vec::new();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(body) = bodies.get(at as usize) else { break };
                    let sent = Instant::now();
                    line.post(path, body).await?;
                    waits.push(sent.elapsed());
                    bar.inc(size(at));
                }
                Ok(waits)
            });
        }
        let waits = join(all).await?.concat();
        Ok(Measured { operations: bodies.len() as u64, took: started.elapsed(), waits: Waits(waits) })
    }

    /// Fetches and ends jobs until so many have ended.
    async fn work(&self, ends: Ends, jobs: u64, lines: u64, bar: &ProgressBar) -> anyhow::Result<Measured> {
        let queues = sample::queues(&self.mark).map(|name| format!("\"{name}\"")).join(",");
        let count = if ends.is_batch() { BATCH } else { FETCHED };
        let asked = Arc::new(format!(
            r#"{{"queues":[{queues}],"count":{count},"worker_id":"bench","visibility_timeout_ms":600000}}"#
        ));
        let done = Arc::new(AtomicU64::new(0));
        let started = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..lines {
            let line = Line::open(&self.address).await?;
            let worker = Worker { line, ends, jobs, done: Arc::clone(&done), bar: bar.clone() };
            all.spawn(worker.run(Arc::clone(&asked)));
        }
        let waits = join(all).await?.concat();
        let operations = done.load(Ordering::Relaxed);
        Ok(Measured { operations, took: started.elapsed(), waits: Waits(waits) })
    }

    async fn retry(&self) -> anyhow::Result<Measured> {
        let mut line = Line::open(&self.address).await?;
        // By queue as well: on a server that is not the bench's own there may be other dead jobs of that type.
        let (kind, queues) = (sample::TYPE, format!("bench-{}-*", self.mark));
        let asked = format!(r#"{{"filter":{{"type":"{kind}","queue":"{queues}"}},"confirm":true}}"#);
        let started = Instant::now();
        let answer = line.post("/ojs/v1/dead-letter/retry", &asked).await?;
        let took = started.elapsed();
        let answer: serde_json::Value = serde_json::from_slice(answer)?;
        let operations =
            answer["succeeded"].as_u64().context("the answer does not count the retried jobs")?;
        Ok(Measured { operations, took, waits: Waits::default() })
    }

    /// Asks for pages and counts, each many times.
    pub async fn lists(&self) -> anyhow::Result<Vec<(&'static str, Measured)>> {
        let mut line = Line::open(&self.address).await?;
        let (queue, kind, error) = (sample::queue(0, &self.mark), sample::TYPE, sample::ERROR);
        let page = "/api/v1/dead-letters?limit=50";
        let filtered = format!("{page}&subscriber={queue}&type={kind}&errorType={error}");
        let mut measured = Vec::new();
        for (name, path) in [
            ("newest page", page.to_owned()),
            ("page by one key", format!("{page}&subscriber={queue}")),
            ("page by three keys", filtered),
            ("counts", "/api/v1/stats".to_owned()),
        ] {
            let (mut waits, started) = (Vec::new(), Instant::now());
            while waits.len() < LIST_CALLS && (waits.is_empty() || started.elapsed() < LIST_TIME_MAX) {
                let sent = Instant::now();
                line.get(&path).await?;
                waits.push(sent.elapsed());
            }
            let (operations, took) = (waits.len() as u64, started.elapsed());
            measured.push((name, Measured { operations, took, waits: Waits(waits) }));
        }
        Ok(measured)
    }
}

/// Two sides of the same jobs: the end of the last one counts, and the waits of both.
fn both(pushed: Measured, done: Measured) -> Measured {
    let waits = Waits([pushed.waits.0, done.waits.0].concat());
    Measured { operations: done.operations, took: pushed.took.max(done.took), waits }
}

async fn join<T: 'static>(mut all: JoinSet<anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
    let mut results = Vec::new();
    while let Some(ended) = all.join_next().await {
        results.push(ended.context("a client broke off")??);
    }
    Ok(results)
}

/// How runs end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Ack,
    Nack,
    AckBatch,
    NackBatch,
}

impl Ends {
    fn is_batch(self) -> bool {
        matches!(self, Ends::AckBatch | Ends::NackBatch)
    }

    fn path(self) -> &'static str {
        match self {
            Ends::Ack => "/ojs/v1/workers/ack",
            Ends::Nack => "/ojs/v1/workers/nack",
            Ends::AckBatch => "/ojs/v1/workers/ack/batch",
            Ends::NackBatch => "/ojs/v1/workers/nack/batch",
        }
    }

    fn item(self, id: &str, n: u64) -> String {
        match self {
            Ends::Ack | Ends::AckBatch => sample::ack(id),
            Ends::Nack | Ends::NackBatch => sample::nack(id, n),
        }
    }

    /// The requests that end these jobs, each with how many it ends. `first` is the number of the first of them.
    fn requests(self, ids: &[String], first: u64) -> Vec<(String, u64)> {
        let items = ids.iter().zip(first..).map(|(id, n)| self.item(id, n));
        if !self.is_batch() {
            return items.map(|item| (item, 1)).collect();
        }
        let items: Vec<String> = items.collect();
        vec![(format!("{{\"jobs\":[{}]}}", items.join(",")), items.len() as u64)]
    }
}

/// One worker, which fetches and ends.
struct Worker {
    line: Line,
    ends: Ends,
    jobs: u64,
    done: Arc<AtomicU64>,
    bar: ProgressBar,
}

impl Worker {
    async fn run(mut self, asked: Arc<String>) -> anyhow::Result<Vec<Duration>> {
        let (mut waits, mut idle_since) = (Vec::new(), Instant::now());
        while self.done.load(Ordering::Relaxed) < self.jobs {
            let ids = sample::ids(self.line.post("/ojs/v1/workers/fetch", &asked).await?);
            if ids.is_empty() {
                anyhow::ensure!(idle_since.elapsed() < IDLE_MAX, "no more jobs came, and not all have ended");
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let first = self.done.load(Ordering::Relaxed);
            for (body, count) in self.ends.requests(&ids, first) {
                let sent = Instant::now();
                let answer = self.line.post(self.ends.path(), &body).await?;
                waits.push(sent.elapsed());
                if self.ends.is_batch() {
                    check_batch(answer)?;
                }
                self.done.fetch_add(count, Ordering::Relaxed);
                self.bar.inc(count);
            }
            idle_since = Instant::now();
        }
        Ok(waits)
    }
}

/// A batch is answered with 200 whatever became of its items.
fn check_batch(answer: &[u8]) -> anyhow::Result<()> {
    #[derive(serde::Deserialize)]
    struct Batch {
        failed: u64,
    }
    let batch: Batch = serde_json::from_slice(answer).context("the answer to a batch does not count")?;
    anyhow::ensure!(batch.failed == 0, "{} jobs of a batch did not end", batch.failed);
    Ok(())
}
