//! A run while it goes and after it: the canary gate, how far it is, what became of its letters, what can be done to it.

use std::sync::Arc;

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use http::StatusCode;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;

use super::letters::{self, Letters};
use super::outcomes::{self, Gate, Part, bar, gate, parts};
use super::rate::{self, Rate};
use super::span::Span;
use super::speed::{Speed, pace_told};
use super::trend::{self, Touched, Trend};
use super::{IdPath, Refused, new};
use crate::access::Permission;
use crate::api::problem::{Code, Problem};
use crate::api::redrives::{self, Step};
use crate::api::wire::edit::EditBody;
use crate::api::wire::redrive::{RedriveBody, RedriveLetterBody};
use crate::app::App;
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::frame::done;
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "redrive/run.html")]
pub(super) struct RunPage {
    shell: Shell,
    redrive: RedriveBody,
    is_finished: bool,
    gate: Option<Gate>,
    parts: Vec<Part>,
    bar: String,
    /// Letters that have had their turn.
    had_turn: u64,
    speed: Speed,
    pace: String,
    /// minute or hour
    step: &'static str,
    /// By whose clock the charts are.
    zone: String,
    rate: Option<Rate>,
    trend: Option<Trend>,
    incidents: Vec<Touched>,
    unknown: Vec<RedriveLetterBody>,
    relapsed: Vec<RedriveLetterBody>,
    letters: Letters,
    edit: Option<EditBody>,
    steps: Steps,
    form: Form,
}

/// Why each step cannot be taken; nothing if it can.
struct Steps {
    pause: Option<String>,
    resume: Option<String>,
    cancel: Option<String>,
    pace: Option<String>,
    settle: Option<String>,
    /// Whether it would go on, rather than pause.
    is_resumed: bool,
}

impl RunPage {
    pub async fn new(
        app: &Arc<App>,
        viewer: &Viewer,
        shell: Shell,
        (redrive, state): (RedriveBody, RunState),
        asked: Vec<(String, String)>,
        refused: Refused<'_>,
    ) -> Result<RunPage, Problem> {
        let incidents = trend::incidents(app, &redrive).await?;
        let launched = redrive.launched_at.as_deref().and_then(|at| Time::parse(at).ok());
        let just_now = match state.claims() {
            true => rate::now(app, &redrive, shell.now).await?,
            false => None,
        };
        let (mut rate, mut trend) = (None, None);
        let span = Span::of_run(&redrive, shell.now, viewer.zone);
        if let Some(span) = &span {
            rate = rate::of(app, &redrive, span).await?;
            trend = trend::of(app, span, &incidents).await?;
        }
        Ok(RunPage {
            is_finished: !state.is_unfinished(),
            gate: gate(&redrive),
            parts: parts(&redrive.letters),
            bar: bar(&redrive.letters, "Outcomes"),
            had_turn: redrive.count - redrive.letters.waiting - redrive.letters.out,
            speed: Speed::of(&redrive, state, launched, just_now, shell.now),
            pace: pace_told(&redrive.options.pace),
            step: span.map_or("", |span| span.step.name()),
            zone: viewer.zone.name(),
            rate,
            trend,
            incidents,
            unknown: letters::of(app, &redrive, Outcome::Unknown).await?,
            relapsed: letters::of(app, &redrive, Outcome::Relapsed).await?,
            letters: letters::page(app, &redrive, asked).await?,
            edit: letters::edit(app, &redrive).await?,
            steps: Steps::of(viewer, &redrive, state),
            form: refused.map(|(_, form)| form.clone()).unwrap_or_default(),
            redrive,
            shell,
        })
    }

    fn success_told(&self) -> Option<String> {
        self.redrive.success_rate.map(|rate| {
            let text = format!("{:.1}", rate * 100.0);
            format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
        })
    }

    fn all(&self) -> String {
        outcomes::letters(self.redrive.count)
    }

    /// How many letters the cancel takes out of the run.
    fn left(&self) -> String {
        outcomes::letters(self.redrive.letters.waiting)
    }

    /// Letters that are out there and stay so.
    fn under_way(&self) -> String {
        outcomes::letters(self.redrive.letters.out + self.redrive.letters.sent)
    }

    fn is_wrong(&self, name: &str) -> bool {
        self.shell.trouble.as_ref().is_some_and(|trouble| trouble.field.as_deref() == Some(name))
    }

    /// What is different in the letter that was sent, line by line with what marks each.
    fn diff(&self) -> Vec<(&'static str, &str)> {
        let text = self.edit.as_ref().and_then(|edit| edit.diff.as_deref()).unwrap_or_default();
        let mark = |line: &str| match line.chars().next() {
            Some('+') => "added",
            Some('-') => "removed",
            Some('@') => "place",
            Some(_) | None => "kept",
        };
        text.lines().map(|line| (mark(line), line)).collect()
    }
}

impl Steps {
    fn of(viewer: &Viewer, redrive: &RedriveBody, state: RunState) -> Steps {
        let by_role = viewer.hindrance(Permission::Decide);
        let why = |step: Step| {
            let allowed = redrive.allowed_actions.contains(&step.name());
            let by_state = (!allowed).then(|| format!("not allowed: redrive is {state}"));
            by_role.clone().or(by_state)
        };
        let forced = redrive.break_glass.is_some();
        let by_force = viewer.hindrance(Permission::Administer).filter(|_| forced);
        Steps {
            pause: why(Step::Pause),
            resume: why(Step::Resume).or(by_force),
            cancel: why(Step::Cancel),
            pace: why(Step::Pace),
            settle: by_role.clone(),
            is_resumed: redrive.allowed_actions.contains(&Step::Resume.name()),
        }
    }
}

pub(super) async fn step(
    step: Step,
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: IdPath,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    match take(step, &app, &viewer, &id, &form).await {
        Ok(redrive) => {
            let told = match step {
                Step::Pause => "Redrive paused. Letters in flight are still verified.".to_owned(),
                Step::Resume => "Redrive resumed.".to_owned(),
                Step::Cancel => "Redrive cancelled. Unsent letters are pending again.".to_owned(),
                Step::Pace => format!("Rate set: {}.", pace_told(&redrive.options.pace)),
            };
            Ok(done(&format!("/redrives/{}", redrive.id), &told))
        }
        Err(problem) => super::page(&app, &viewer, &id, Vec::new(), Some((&problem, &form))).await,
    }
}

async fn take(
    step: Step,
    app: &Arc<App>,
    viewer: &Viewer,
    id: &str,
    form: &Form,
) -> Result<RedriveBody, Problem> {
    let mut wish = match step {
        Step::Pause | Step::Cancel => form.texts(&["reason"]),
        Step::Resume | Step::Pace => serde_json::Map::new(),
    };
    if step == Step::Pace
        && let Some(pace) = new::pace(form)?
    {
        wish.insert("pace".into(), pace);
    }
    let caller = Extension(viewer.caller.clone());
    let request = Extension(viewer.request.clone());
    let (state, id) = (State(Arc::clone(app)), Ok(Path(id.to_owned())));
    Ok(redrives::step(step, state, caller, request, id, Ok(form::body(wish))).await?.0)
}

pub(super) async fn settle(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    path: Result<Path<(String, String)>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let Path((id, letter)) = path?;
    let body = form::body(form.texts(&["outcome"]));
    let caller = Extension(viewer.caller.clone());
    let request = Extension(viewer.request.clone());
    let path = Ok(Path((id.clone(), letter)));
    match redrives::settle(State(Arc::clone(&app)), caller, request, path, Ok(body)).await {
        Ok(redrive) => {
            let told = match form.get("outcome") {
                "sent" => "Marked as sent. Verification continues.",
                _ => "Marked as not sent. The letter is pending again.",
            };
            let back = match form.get("from") {
                "list" => "?outcome=unknown#letters",
                _ => "#run-attention",
            };
            Ok(done(&format!("/redrives/{}{back}", redrive.0.id), told))
        }
        Err(problem) => super::page(&app, &viewer, &id, Vec::new(), Some((&problem, &form))).await,
    }
}

/// Letters that one request settles at most.
const SETTLED_MAX: u64 = 1_000;

/// Settles every letter of which nobody knows, if they are as many as was typed.
pub(super) async fn settle_all(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: IdPath,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    match settle_each(&app, &viewer, &id, &form).await {
        Ok((settled, 0)) => {
            Ok(done(&format!("/redrives/{id}"), &format!("{} settled.", outcomes::letters(settled))))
        }
        Ok((settled, left)) => {
            let told = format!("{} settled, {left} remaining.", outcomes::letters(settled));
            Ok(done(&format!("/redrives/{id}#run-attention"), &told))
        }
        Err(problem) => super::page(&app, &viewer, &id, Vec::new(), Some((&problem, &form))).await,
    }
}

/// How many were settled, and how many are left.
async fn settle_each(app: &Arc<App>, viewer: &Viewer, id: &str, form: &Form) -> Result<(u64, u64), Problem> {
    let state = || State(Arc::clone(app));
    let unknown = redrives::show(state(), Ok(Path(id.to_owned()))).await?.0.letters.unknown;
    if form.count("settled")? != Some(unknown) {
        let text = format!("{unknown} letters have an unknown outcome; nothing was settled");
        return Err(Problem::new(Code::CountMismatch, text).with("field", "settled"));
    }
    let mut settled = 0;
    for letter in letters::unknown(app, id, SETTLED_MAX).await? {
        let body = form::body(form.texts(&["outcome"]));
        let caller = Extension(viewer.caller.clone());
        let request = Extension(viewer.request.clone());
        let path = Ok(Path((id.to_owned(), letter.letter_id)));
        match redrives::settle(state(), caller, request, path, Ok(body)).await {
            Ok(_) => settled += 1,
            // Somebody else was faster.
            Err(problem) if problem.status() == StatusCode::CONFLICT => {}
            Err(problem) => return Err(problem),
        }
    }
    let left = redrives::show(state(), Ok(Path(id.to_owned()))).await?.0.letters.unknown;
    Ok((settled, left))
}
