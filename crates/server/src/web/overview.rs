//! The first page: whether all is well, and if not, where to look.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use http::{HeaderMap, header};
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::RunState;
use lazaret_core::time::Time;
use lazaret_store::stats::{LedgerBy, StatsOf};

use super::alerts;
use super::chart::{self, Figure, Share};
use super::format as filters;
use super::format::grouped;
use super::frame::Page;
use super::incidents::Card;
use super::shell::Shell;
use super::sources::Health;
use super::viewer::{Theme, Viewer};
use crate::alerts::checks::Finding;
use crate::api::problem::Problem;
use crate::api::sources::SourceBody;
use crate::api::stats::LedgerBody;
use crate::api::wire::redrive::RedriveBody;
use crate::api::{incidents, redrives, series, sources};
use crate::app::App;
use crate::books::{self, Seen};
use crate::jobs::SOURCE;

/// The largest that fit without scrolling far on a telephone; the list has all.
const INCIDENTS_SHOWN: &str = "8";

/// Redrives under way that are looked for; more of them at once is not what a person watches.
const REDRIVES_SHOWN: &str = "20";

/// Two days, as the sparklines of incidents.
const FLOW_HOURS: i64 = 48;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.route("/", get(show))
}

#[derive(Template)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    shell: Shell,
    /// Where this server was reached, for commands to copy.
    address: String,
    ledger: LedgerBody,
    /// When it was counted, if not now.
    counted_at: Option<Time>,
    flow: Figure,
    incidents: Vec<Card>,
    runs: Vec<Run>,
    /// Whether there are more redrives under way than are shown.
    more_runs: bool,
    sources: Vec<SourceLine>,
    /// What a person should know before all else.
    firing: Vec<Finding>,
}

impl Overview {
    /// Nothing was ever captured: somebody has just installed this.
    fn is_new(&self) -> bool {
        self.ledger.captured == 0
    }

    /// Nothing waits and nothing is under way.
    fn is_calm(&self) -> bool {
        let moving = self.ledger.pending + self.ledger.reprocessing + self.shell.incidents;
        moving == 0 && self.runs.is_empty() && self.firing.is_empty() && self.ledger.difference == 0
    }
}

async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    headers: HeaderMap,
) -> Result<Page<Overview>, Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost:7070");
    let shell = Shell::new(&app, &viewer, "Overview", "/").await?;
    let Seen { ledger, counted_at } = books::seen(&app).await?;
    let mut ledger = LedgerBody::new(ledger, LedgerBy::Counters);
    if counted_at.is_some() {
        // What is in which state has counters, and is as it is now.
        let now = app.store.stats(StatsOf::All).await?.by_status;
        let of = |status: Status| now.get(status.name()).copied().unwrap_or(0);
        (ledger.pending, ledger.reprocessing) = (of(Status::Pending), of(Status::Reprocessing));
        (ledger.resolved, ledger.discarded) = (of(Status::Resolved), of(Status::Discarded));
    }
    let lines = series::series(State(Arc::clone(&app)), asking(&[])).await?.0;
    let unsettled = super::incidents::unsettled();
    let largest = [("state", unsettled.as_str()), ("sort", "-unsettled"), ("limit", INCIDENTS_SHOWN)];
    let open = incidents::list(State(Arc::clone(&app)), asking(&largest)).await?.0;
    let states = RunState::ALL.into_iter().filter(|state| state.is_unfinished()).map(RunState::name);
    let states = states.collect::<Vec<_>>().join(",");
    let running = [("state", states.as_str()), ("limit", REDRIVES_SHOWN)];
    let running = redrives::list(State(Arc::clone(&app)), asking(&running)).await?.0;
    let firing = alerts::attention(&app).await?;
    let sources = sources::list(State(app), asking(&[])).await?.0;
    let points = lines.items.first().map_or(&[][..], |line| &line.points);
    let until = Time::parse(&lines.until).unwrap_or(shell.now);
    Ok(Page(Overview {
        flow: chart::hours("flow", points, until, FLOW_HOURS, viewer.zone),
        incidents: open.items.into_iter().map(|body| Card::new(body, viewer.zone)).collect(),
        more_runs: running.next_cursor.is_some(),
        runs: running.items.into_iter().map(Run::new).collect(),
        sources: sources.items.into_iter().map(SourceLine::new).collect(),
        address: format!("http://{host}"),
        firing,
        shell,
        ledger,
        counted_at,
    }))
}

/// Parameters as they would stand in an address.
pub(super) fn asking(pairs: &[(&str, &str)]) -> crate::api::letters::Pairs {
    Ok(Query(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()))
}

/// A redrive as a bar.
pub(crate) struct Run {
    pub body: RedriveBody,
    pub bar: String,
    pub good: u64,
    pub bad: u64,
    pub ended: u64,
}

impl Run {
    pub fn new(body: RedriveBody) -> Run {
        let letters = &body.letters;
        let good = letters.succeeded + letters.assumed;
        let bad = letters.failed + letters.relapsed + letters.ended;
        let left_out = letters.skipped + letters.lane_blocked + letters.cancelled;
        let under_way = letters.out + letters.sent + letters.unknown;
        let ended = good + bad + left_out;
        let share = |class, label, count| Share { class, label, count };
        let shares = [
            share("ok", "succeeded", good),
            share("bad", "failed", bad),
            share("calm", "skipped", left_out),
            share("work", "in flight", under_way),
            share("none", "waiting", letters.waiting),
        ];
        let label = format!(
            "{} of {} letters processed: {} succeeded, {} failed, {} skipped, {} in flight",
            grouped(ended),
            grouped(body.count),
            grouped(good),
            grouped(bad),
            grouped(left_out),
            grouped(under_way)
        );
        Run { bar: chart::split(&shares, &label), good, bad, ended, body }
    }

    /// What it is of, for people.
    pub fn name(&self) -> &str {
        match self.body.filter.as_str() {
            "" => self.body.reason.as_deref().unwrap_or("Selected letters"),
            filter => filter,
        }
    }
}

/// How a source does, in a word and a sentence.
pub(crate) struct SourceLine {
    body: SourceBody,
    health: Health,
    what: String,
}

impl SourceLine {
    fn new(body: SourceBody) -> SourceLine {
        let health = Health::of(&body);
        let what = match (&health.why, &body.outbox) {
            (Some(why), _) => why.clone(),
            (None, Some(outbox)) => format!("table {}", outbox.table),
            (None, None) if body.connection.is_some() => body.address.clone().unwrap_or_default(),
            (None, None) if body.name == SOURCE => "built-in job queue".to_owned(),
            (None, None) => "reports over HTTP".to_owned(),
        };
        SourceLine { body, health, what }
    }
}
