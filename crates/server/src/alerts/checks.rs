//! Health checks: what is wrong at this moment with redrives, files, limits, jobs and the audit log, by the API's own answers.

use std::sync::Arc;

use axum::extract::State;
use lazaret_core::redrive::RunState;
use lazaret_store::stats::LedgerBy;

use crate::api::problem::{Code, Problem};
use crate::api::stats::LedgerBody;
use crate::api::{archive, audit, incidents, progress, redrives, retention, rules, sources};
use crate::app::App;
use crate::books;
use crate::ojs::admin::queue_list;
use crate::ojs::admin::workers::worker_list;
use crate::web::asked::pairs;
use crate::web::format::{encoded, grouped, length};
use crate::web::sources::Health;

/// Findings of one check that are named one by one; the rest is at their own page.
const NAMED: &str = "20";

/// How far the index of bodies may be behind before somebody should know: searches open letters one by one until then.
const INDEX_LAG_MS: u64 = 10 * 60_000;

/// Something that is wrong.
pub(crate) struct Finding {
    pub level: Level,
    /// What it is about.
    pub about: &'static str,
    pub what: String,
    /// Since when, where that is known.
    pub since: Option<String>,
    pub link: String,
    /// What to do there.
    pub step: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    Critical,
    Warning,
}

impl Level {
    pub const fn name(self) -> &'static str {
        match self {
            Level::Critical => "critical",
            Level::Warning => "warning",
        }
    }
}

/// One health check.
pub(crate) struct Check {
    pub name: &'static str,
    pub state: Standing,
    /// What was found when it is OK.
    pub detail: String,
    pub link: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Ok,
    Failing,
    /// It costs too much to run each time.
    NotRun,
}

/// What all checks found.
#[derive(Default)]
pub(crate) struct Checks {
    pub findings: Vec<Finding>,
    pub run: Vec<Check>,
}

impl Checks {
    /// Adds what was found under one name.
    fn add(&mut self, name: &'static str, detail: String, link: &'static str, found: Vec<Finding>) {
        let state = if found.is_empty() { Standing::Ok } else { Standing::Failing };
        self.run.push(Check { name, state, detail, link });
        self.findings.extend(found);
    }
}

/// Runs every check, the whole audit log only if asked to.
pub(crate) async fn run(app: &Arc<App>, verify_audit: bool) -> Result<Checks, Problem> {
    let mut checks = Checks::default();
    ledger(app, &mut checks).await?;
    regressed(app, &mut checks).await?;
    troubled_sources(app, &mut checks).await?;
    unruled(app, &mut checks).await?;
    limits(app, &mut checks).await?;
    blocked_rules(app, &mut checks).await?;
    index(app, &mut checks).await?;
    chain(app, verify_audit, &mut checks).await?;
    checks.findings.sort_by_key(|finding| finding.level);
    Ok(checks)
}

/// Runs the checks that no rule of its own measures: their findings are alerts of the kind `health_check`.
pub(crate) async fn findings(app: &Arc<App>) -> Result<Vec<Finding>, Problem> {
    let mut checks = Checks::default();
    unruled(app, &mut checks).await?;
    limits(app, &mut checks).await?;
    blocked_rules(app, &mut checks).await?;
    index(app, &mut checks).await?;
    Ok(checks.findings)
}

async fn unruled(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    halted(app, checks).await?;
    unsettled(app, checks).await?;
    files(app, checks).await?;
    jobs(app, checks).await
}

/// What is wrong and does not stand on the overview by itself, the worst first. Each of these checks is short.
pub(crate) async fn urgent(app: &Arc<App>) -> Result<Vec<Finding>, Problem> {
    let mut checks = Checks::default();
    unruled(app, &mut checks).await?;
    troubled_sources(app, &mut checks).await?;
    checks.findings.sort_by_key(|finding| finding.level);
    Ok(checks.findings)
}

/// Everything captured is accounted for, or something is wrong with the store itself.
async fn ledger(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let ledger = LedgerBody::new(books::seen(app).await?.ledger, LedgerBy::Counters);
    let found = (ledger.difference != 0).then(|| Finding {
        level: Level::Critical,
        about: "Ledger",
        what: format!("{} letters are unaccounted for", ledger.difference),
        since: None,
        link: "/".to_owned(),
        step: "Count the rows themselves with `lazaret ledger verify`, and keep a copy of the store.",
    });
    let detail = format!("{} captured, unaccounted: {}", grouped(ledger.captured), ledger.difference);
    checks.add("Ledger", detail, "/", found.into_iter().collect());
    Ok(())
}

async fn regressed(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let asked = pairs(&[("state", "regressed"), ("limit", NAMED)]);
    let list = incidents::list(State(Arc::clone(app)), asked).await?.0;
    let found = list.items.into_iter().map(|incident| Finding {
        level: Level::Critical,
        about: "Incident regressed",
        what: format!("{} ({} letters)", incident.title, grouped(incident.count)),
        since: Some(incident.last_seen_at),
        link: format!("/incidents/{}", incident.id),
        step: "Regressed after its fix: revise the RCA before the next redrive.",
    });
    let detail = format!("{} came back after their fix", grouped(list.total));
    checks.add("Incidents", detail, "/incidents?state=regressed", found.collect());
    Ok(())
}

/// Redrives that a person or a failure brought to a halt before their end.
async fn halted(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let asked = pairs(&[("state", "paused,stopped"), ("limit", NAMED)]);
    let list = redrives::list(State(Arc::clone(app)), asked).await?.0;
    let found: Vec<Finding> = list
        .items
        .into_iter()
        .map(|run| Finding {
            level: Level::Warning,
            about: if run.state == "paused" { "Redrive paused" } else { "Redrive stopped" },
            what: format!(
                "{} of {} letters: {}",
                if run.filter.is_empty() { "a redrive" } else { run.filter.as_str() },
                grouped(run.count),
                run.why.as_deref().unwrap_or("no reason is known")
            ),
            since: Some(run.updated_at),
            link: format!("/redrives/{}", run.id),
            step: "Look at what failed; then resume, or cancel and plan anew.",
        })
        .collect();
    let detail = format!("{} paused or stopped", found.len());
    checks.add("Redrives", detail, "/redrives", found);
    Ok(())
}

/// Letters of redrives of which nobody knows whether they were sent.
async fn unsettled(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let states = RunState::ALL.map(RunState::name).join(",");
    let asked = pairs(&[("state", states.as_str()), ("limit", "100")]);
    let list = redrives::list(State(Arc::clone(app)), asked).await?.0;
    let runs = list.items.into_iter().filter(|run| run.letters.unknown > 0);
    let found: Vec<Finding> = runs
        .map(|run| Finding {
            level: Level::Warning,
            about: "Outcome unknown",
            what: format!("of {} letters nobody knows whether they were sent", grouped(run.letters.unknown)),
            since: Some(run.updated_at),
            link: format!("/redrives/{}?outcome=unknown#letters", run.id),
            step: "Ask the receiver for their idempotency keys, and settle them.",
        })
        .collect();
    checks.add(
        "Unknown outcomes",
        format!("{} of the last 100 redrives have some", found.len()),
        "/redrives",
        found,
    );
    Ok(())
}

async fn troubled_sources(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let list = sources::list(State(Arc::clone(app)), pairs(&[])).await?.0;
    let (all, mut found) = (list.items.len(), Vec::new());
    for source in list.items {
        let Some(connection) = &source.connection else { continue };
        if let Some(growth) = connection.growth_per_minute.filter(|growth| *growth > 0.0) {
            found.push(Finding {
                level: Level::Warning,
                about: "Dead-letter queue grows",
                what: format!("{}: {growth:+.1} messages per minute", source.name),
                since: connection.since.clone(),
                link: format!("/letters?q=source%3A{}+status%3Apending", encoded(&source.name)),
                step: "Find the cause: a consumer fails on what it gets.",
            });
        }
        let health = Health::of(&source);
        let level = match health.level {
            "bad" => Level::Critical,
            "warning" => Level::Warning,
            _ => continue,
        };
        found.push(Finding {
            level,
            about: "Source in trouble",
            what: format!("{}: {}. {}", source.name, health.word, health.why.unwrap_or_default()),
            since: connection.since.clone(),
            link: format!("/sources?check={}", encoded(&source.name)),
            step: "Check it: the findings say what to do.",
        });
    }
    checks.add("Sources", format!("{all} looked at"), "/sources", found);
    Ok(())
}

/// Files that cannot be written, and files that are not what was written.
async fn files(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let list = archive::files(State(Arc::clone(app)), pairs(&[("limit", "500")])).await?.0;
    let mut found = Vec::new();
    if let Some(problem) = list.problem {
        found.push(Finding {
            level: Level::Warning,
            about: "Archive",
            what: format!("no file could be written: {problem}"),
            since: list.failing_since,
            link: "/archive?view=files".to_owned(),
            step: "Letters wait in the store; make the place reachable or give it room.",
        });
    }
    let damaged = list.items.iter().filter_map(|file| Some((file, file.problem.as_ref()?)));
    found.extend(damaged.map(|(file, problem)| Finding {
        level: Level::Critical,
        about: "Archive",
        what: format!("{}: {problem}", file.path),
        since: file.checked_at.clone(),
        link: "/archive?view=files".to_owned(),
        step: "Put the file back from a copy: nothing else holds its letters.",
    }));
    let detail = format!("{} letters wait for a file", grouped(list.waiting.letters));
    checks.add("Archive", detail, "/archive?view=files", found);
    Ok(())
}

/// Counts that stay over their limits because of holds.
async fn limits(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let body = retention::show(State(Arc::clone(app)), pairs(&[])).await?.0;
    let over = body.counts.iter().filter(|count| count.unmet > 0);
    let found = over.map(|count| Finding {
        level: Level::Warning,
        about: "Retention",
        what: format!(
            "{} letters of {} stay over the limit of {}, because they are held",
            grouped(count.unmet),
            count.queue.as_deref().or(count.source.as_deref()).unwrap_or("all sources"),
            grouped(count.max_count)
        ),
        since: None,
        link: "/rules?view=retention".to_owned(),
        step: "Release holds that have served their purpose, or raise the limit.",
    });
    checks.add(
        "Retention",
        format!("{} limits on counts", body.counts.len()),
        "/rules?view=retention",
        found.collect(),
    );
    Ok(())
}

/// Rules that are enabled and do nothing.
async fn blocked_rules(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let list = rules::list(State(Arc::clone(app))).await?.0;
    let blocked = list.items.iter().filter(|rule| rule.enabled);
    let found = blocked.filter_map(|rule| {
        Some(Finding {
            level: Level::Warning,
            about: "Replay rule",
            what: format!("{} does nothing: {}", rule.name, rule.blocked?),
            since: None,
            link: "/rules?view=replay".to_owned(),
            step: "Name the cause that the rule knows, in the configuration.",
        })
    });
    let found = found.collect();
    checks.add("Replay rules", format!("{} rules", list.items.len()), "/rules?view=replay", found);
    Ok(())
}

/// Queues that give nothing out, and workers without a sign of life that hold jobs.
async fn jobs(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let queues = queue_list(app, pairs(&[("per_page", "100")])).await?;
    let workers = worker_list(app, pairs(&[("per_page", "100")])).await?;
    let waits = |queue: &&crate::ojs::admin::QueueValue| {
        queue.paused && queue.counts.get("available").is_some_and(|jobs| *jobs > 0)
    };
    let paused = queues.items.iter().filter(waits).map(|queue| Finding {
        level: Level::Warning,
        about: "Queue paused",
        what: format!(
            "{} is paused, and {} jobs wait in it",
            queue.name,
            grouped(queue.counts.get("available").copied().unwrap_or(0))
        ),
        since: None,
        link: "/jobs?view=queues".to_owned(),
        step: "Resume it once the dependency is healthy.",
    });
    let stale = workers.items.iter().filter(|worker| worker.state == "stale" && worker.active_jobs > 0);
    let stale = stale.map(|worker| Finding {
        level: Level::Warning,
        about: "Worker silent",
        what: format!("{} holds {} jobs and gives no sign of life", worker.id, grouped(worker.active_jobs)),
        since: worker.last_heartbeat_at.clone(),
        link: "/jobs?view=workers".to_owned(),
        step: "Its jobs are given out again when their reservations run out.",
    });
    let found = paused.chain(stale).collect();
    let detail =
        format!("{} queues, {} workers", grouped(queues.pagination.total), grouped(workers.pagination.total));
    checks.add("Jobs", detail, "/jobs", found);
    Ok(())
}

async fn index(app: &Arc<App>, checks: &mut Checks) -> Result<(), Problem> {
    let body = progress::progress(State(Arc::clone(app)), pairs(&[])).await?.0.body_index;
    let lag = length(i64::try_from(body.lag_ms).unwrap_or(i64::MAX));
    let found = (body.state == "on" && body.lag_ms > INDEX_LAG_MS).then(|| Finding {
        level: Level::Warning,
        about: "Body index",
        what: format!(
            "{} letters are not in the index of bodies yet, the oldest for {lag}",
            grouped(body.behind)
        ),
        since: None,
        link: "/settings".to_owned(),
        step: "Searches in bodies are slow until it has caught up; look for a full disk or a busy machine.",
    });
    let detail = match body.state {
        "on" => format!("{} indexed, {} behind", grouped(body.indexed), grouped(body.behind)),
        other => format!("switched {other}"),
    };
    checks.add("Body index", detail, "/settings", found.into_iter().collect());
    Ok(())
}

/// The chain of the audit log. The whole log is read, so only when somebody asks.
async fn chain(app: &Arc<App>, asked: bool, checks: &mut Checks) -> Result<(), Problem> {
    // Without a key it is known at once.
    if !asked && app.audit_key.is_some() {
        let (state, detail) = (Standing::NotRun, "the whole log is read, so only when you ask".to_owned());
        checks.run.push(Check { name: "Audit chain", state, detail, link: "/alerts?check=audit" });
        return Ok(());
    }
    let (detail, found) = match audit::verify(State(Arc::clone(app)), pairs(&[])).await {
        Ok(verdict) => (format!("{} entries fit", grouped(verdict.entries)), broken(&verdict.0)),
        Err(problem) if problem.code() == Code::NoAuditKey => {
            ("no key".to_owned(), Some(unlinked(problem.text())))
        }
        Err(problem) => return Err(problem),
    };
    checks.add("Audit chain", detail, "/audit", found.into_iter().collect());
    Ok(())
}

fn broken(verdict: &audit::VerdictBody) -> Option<Finding> {
    let fault = verdict.fault.as_ref()?;
    Some(Finding {
        level: Level::Critical,
        about: "Audit chain broken",
        what: format!("at entry {}: {}", fault.position, fault.detail),
        since: None,
        link: "/audit".to_owned(),
        step: "Somebody changed the log behind the server: compare it with a backup.",
    })
}

fn unlinked(why: &str) -> Finding {
    Finding {
        level: Level::Warning,
        about: "Audit log not linked",
        what: why.to_owned(),
        since: None,
        link: "/audit".to_owned(),
        step: "Set audit.key_file, so that a change of the log would be noticed.",
    }
}
