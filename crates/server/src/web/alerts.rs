//! Alerts: what fires first, silences, notifications, and the health checks behind them.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::asked::{Asked, pairs};
use super::form::{Form, body};
use super::format as filters;
use super::frame::{Page, done};
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::alerts::checks::{self, Check, Finding, Level, Standing};
use crate::api::alerts::{self, AlertBody, NotificationBody, SilenceBody};
use crate::api::letters::Pairs;
use crate::api::problem::Problem;
use crate::app::App;

const ADDRESS: &str = "/alerts";

/// Alerts and notifications on the page; the API lists more.
const ALERTS_SHOWN: &str = "200";
const NOTIFICATIONS_SHOWN: &str = "20";

/// Alerts on the overview.
const ATTENTION_SHOWN: &str = "20";

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    shell: Shell,
    /// Alerts that fire, the most severe first.
    alerts: Vec<AlertBody>,
    resolved: Vec<AlertBody>,
    silences: Vec<SilenceBody>,
    notifications: Vec<NotificationBody>,
    /// The name, type and address of each receiver.
    receivers: Vec<(String, &'static str, String)>,
    /// Findings of health checks that are no alerts yet.
    findings: Vec<Finding>,
    checks: Vec<Check>,
    /// Whether the audit log was read for it, which is not done again with every event.
    verified: bool,
    hindrance: Option<String>,
}

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/alerts", get(show))
        .route("/alerts/acknowledge", post(acknowledge))
        .route("/alerts/silence", post(silence))
        .route("/alerts/unsilence", post(unsilence))
        .route("/alerts/test", post(test))
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let asked = Asked::read(pairs)?;
    page(&app, &viewer, asked.get("check") == Some("audit"), None).await
}

async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    verified: bool,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let listed = alerts::list(State(Arc::clone(app)), pairs(&[("limit", ALERTS_SHOWN)])).await?.0;
    let (resolved, firing): (Vec<AlertBody>, Vec<AlertBody>) = listed
        .items
        .into_iter()
        .filter(|alert| alert.state != "pending")
        .partition(|it| it.state == "resolved");
    let newest = pairs(&[("limit", NOTIFICATIONS_SHOWN)]);
    let checks = checks::run(app, verified).await?;
    // A finding that fires is listed once.
    let is_known = |finding: &Finding| firing.iter().any(|alert| alert.summary.contains(&finding.what));
    let findings = checks.findings.into_iter().filter(|finding| !is_known(finding)).collect();
    let receivers = app.config.alerts.receivers.iter();
    let receivers = receivers.map(|(name, it)| (name.clone(), it.kind.name(), it.address())).collect();
    let page = Alerts {
        shell: Shell::new(app, viewer, "Alerts", ADDRESS).await?.with(problem),
        silences: alerts::silences(State(Arc::clone(app))).await?.0.items,
        notifications: alerts::notifications(State(Arc::clone(app)), newest).await?.0.items,
        alerts: firing,
        resolved,
        receivers,
        findings,
        checks: checks.run,
        verified,
        hindrance: viewer.hindrance(Permission::Decide),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

/// What a person should know before all else: alerts that fire and nobody took care of, then findings of health checks.
pub(super) async fn attention(app: &Arc<App>) -> Result<Vec<Finding>, Problem> {
    let listed = alerts::list(State(Arc::clone(app)), pairs(&[("limit", ATTENTION_SHOWN)])).await?.0;
    let firing =
        listed.items.into_iter().filter(|alert| alert.state == "firing" && alert.kind != "health_check");
    let mut found: Vec<Finding> = firing
        .filter_map(|alert| {
            let level = match alert.severity {
                "critical" => Level::Critical,
                "warning" => Level::Warning,
                _ => return None,
            };
            let (what, since, link) = (alert.summary, alert.fired_at, alert.page);
            Some(Finding { level, about: alert.kind, what, since, link, step: alert.next_step })
        })
        .collect();
    found.extend(checks::urgent(app).await?);
    found.sort_by_key(|finding| finding.level);
    Ok(found)
}

async fn acknowledge(State(app): State<Arc<App>>, viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let (id, reason) = (Ok(Path(form.get("id").to_owned())), Ok(body(form.texts(&["reason"]))));
    match alerts::acknowledge(State(Arc::clone(&app)), caller, request, id, reason).await {
        Ok(alert) => Ok(done(ADDRESS, &format!("Acknowledged: {}", alert.summary))),
        Err(problem) => page(&app, &viewer, false, Some(&problem)).await,
    }
}

async fn silence(State(app): State<Arc<App>>, viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let wanted = Ok(body(form.texts(&["matchers", "from", "until", "reason"])));
    match alerts::silence(State(Arc::clone(&app)), caller, request, wanted).await {
        Ok((_, silence)) => Ok(done(ADDRESS, &format!("Silenced: {}", silence.matchers))),
        Err(problem) => page(&app, &viewer, false, Some(&problem)).await,
    }
}

async fn unsilence(State(app): State<Arc<App>>, viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let id = Ok(Path(form.get("id").to_owned()));
    match alerts::unsilence(State(Arc::clone(&app)), caller, request, id).await {
        Ok(_) => Ok(done(ADDRESS, "Silence ended.")),
        Err(problem) => page(&app, &viewer, false, Some(&problem)).await,
    }
}

async fn test(State(app): State<Arc<App>>, viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let caller = Extension(viewer.caller.clone());
    match alerts::test(State(Arc::clone(&app)), caller, Ok(body(form.texts(&["receiver"])))).await {
        Ok(sent) => {
            let state = |it: &NotificationBody| match &it.error {
                Some(error) => format!("{}: {error}", it.receiver),
                None => format!("{}: {}", it.receiver, it.state),
            };
            let told: Vec<String> = sent.items.iter().map(state).collect();
            Ok(done(ADDRESS, &format!("Test notification: {}", told.join("; "))))
        }
        Err(problem) => page(&app, &viewer, false, Some(&problem)).await,
    }
}
