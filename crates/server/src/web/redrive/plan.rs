//! The second and the third step: what would happen, and the launch with its real number.

use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use lazaret_core::duration::Length;
use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;

use super::outcomes::letters;
use super::speed::pace_told;
use super::{IdPath, Refused, new};
use crate::access::Permission;
use crate::api::problem::{Code, Problem};
use crate::api::wire::redrive::RedriveBody;
use crate::api::{archive, redrives};
use crate::app::App;
use crate::redrive::{Counted, NotRedriven, Plan, RefusalShown, Sample};
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::format::length;
use crate::web::frame::done;
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

/// More rows than this would hide what stands below them.
const FEW: usize = 5;

#[derive(Template)]
#[template(path = "redrive/plan.html")]
pub(super) struct PlanPage {
    shell: Shell,
    redrive: RedriveBody,
    plan: Plan,
    is_planned: bool,
    pace: String,
    /// How long it takes; nothing if there is no limit.
    duration: Option<String>,
    count: String,
    archived: Archived,
    /// Whether the number has to be typed: letters go under an analysis that somebody stands for.
    is_typed: bool,
    hindrance: Option<String>,
    /// Why the plan cannot be dropped by this viewer.
    drop_hindrance: Option<String>,
    glass: Option<Glass>,
    /// What can be said otherwise than planned.
    fields: Vec<new::Field>,
    form: Form,
}

/// What passing the gate by force would mean.
struct Glass {
    number: u64,
    count: String,
    hindrance: Option<String>,
    chars_min: usize,
}

/// Letters that the filter finds in the archive, which no redrive reaches.
enum Archived {
    /// Their letters were named, or only files that would have to be opened can tell.
    NotAsked,
    Found {
        count: u64,
        has_more: bool,
    },
    Unreachable,
}

impl PlanPage {
    pub async fn new(
        app: &Arc<App>,
        viewer: &Viewer,
        shell: Shell,
        mut redrive: RedriveBody,
        refused: Refused<'_>,
    ) -> Result<PlanPage, Problem> {
        let plan = redrive.plan.take().unwrap_or_default();
        let is_planned = redrive.state == RunState::Planned.name();
        let form = refused.map(|(_, form)| form.clone()).unwrap_or_default();
        let by_role = viewer.hindrance(Permission::Decide);
        Ok(PlanPage {
            hindrance: by_role.clone().or_else(|| hindrance(&redrive, is_planned, shell.now)),
            drop_hindrance: by_role,
            glass: glass(viewer, &redrive, &plan, refused),
            archived: archived(app, &redrive.filter).await,
            pace: pace_told(&redrive.options.pace),
            duration: Length::parse(&plan.duration).ok().map(Length::ms).filter(|ms| *ms > 0).map(length),
            count: letters(redrive.count),
            fields: new::fields(),
            is_typed: !plan.incidents.is_empty(),
            is_planned,
            plan,
            redrive,
            form,
            shell,
        })
    }

    /// Whether some go first and alone: not if there are no more than these.
    fn has_canaries(&self) -> bool {
        let canaries = u64::from(self.redrive.options.canary);
        canaries > 0 && self.redrive.count > canaries
    }

    /// Whether the options are unfolded: somebody has typed in them.
    fn is_unfolded(&self) -> bool {
        let typed = |name: &str| self.form.text(name).is_some();
        typed("pace") || typed("perMinute") || self.fields.iter().any(|field| typed(field.name))
    }

    fn is_forced(&self) -> bool {
        self.form.is_checked("force")
    }

    fn is_wrong(&self, name: &str) -> bool {
        let field = self.shell.trouble.as_ref().and_then(|trouble| trouble.field.as_deref());
        field.is_some_and(|field| field.rsplit('.').next() == Some(name))
    }

    /// What to do about a refusal, from here.
    fn next(&self, refusal: &RefusalShown) -> String {
        match refusal.code.as_str() {
            "rca_required" => "Save the root cause on the incident page, then link the fix.".to_owned(),
            "fix_required" => "Link the fix on the incident page once it is deployed.".to_owned(),
            "decision_required" => "An approver records the decision on the incident page.".to_owned(),
            "poison" => {
                "Discard them. If they are not poison pills, change the RCA category on the incident page."
                    .to_owned()
            }
            "no_way_back" => "Configure [sources.NAME.destination], then create a new plan.".to_owned(),
            "lane_blocked" => {
                "Redrive or discard the earlier letters with the same order key first.".to_owned()
            }
            _ => refusal.hint.clone(),
        }
    }

    /// What is counted, by the name of what it is counted by.
    fn counted(&self) -> [(&'static str, &[Counted]); 3] {
        let plan = &self.plan;
        [("Types", &plan.types), ("Queues", &plan.queues), ("Order keys", &plan.lanes.largest)]
    }

    /// Which letter is first.
    fn order(&self) -> &'static str {
        let first = &self.redrive.options.prioritization;
        match (first.order_by, first.direction) {
            ("createdAt", "desc") => "capture time, newest first",
            ("createdAt", _) => "capture time, oldest first",
            ("retryCount", "desc") => "most retries first",
            ("retryCount", _) => "fewest retries first",
            (_, "desc") => "time of death, newest first",
            (_, _) => "time of death, oldest first",
        }
    }

    /// The filter that finds the pending letters of an order key.
    fn of_key(&self, key: &str) -> String {
        let mut filter = Filter { aggregate: Patterns::only(key), ..Filter::default() };
        filter.status.include.insert(Status::Pending);
        filter.to_string()
    }

    /// Whether a body goes on behind what is shown of it.
    fn goes_on(&self, sample: &Sample) -> bool {
        sample.body.as_ref().is_some_and(|body| (body.len() as u64) < sample.body_bytes)
    }
}

/// Why it cannot be launched.
fn hindrance(redrive: &RedriveBody, is_planned: bool, now: Time) -> Option<String> {
    if !is_planned {
        return Some("snapshot in progress".to_owned());
    }
    let expires = redrive.expires_at.as_deref().and_then(|at| Time::parse(at).ok());
    if expires.is_some_and(|expires| expires < now) {
        return Some("plan expired: create a new plan".to_owned());
    }
    match (redrive.count, redrive.total) {
        (0, 0) => Some("no matching pending letters".to_owned()),
        (0, _) => Some("all letters blocked: see Blocked letters".to_owned()),
        (_, _) => None,
    }
}

/// The way past a shut gate; nothing if the gate is not shut for any letter.
fn glass(viewer: &Viewer, redrive: &RedriveBody, plan: &Plan, refused: Refused<'_>) -> Option<Glass> {
    let of = |code: &str| plan.refusals.iter().filter(|it| it.code == code).map(|it| it.count).sum::<u64>();
    let (no_way, blocked) = (of("no_way_back"), of(Outcome::LaneBlocked.name()));
    let shut: u64 = plan.refusals.iter().map(|refusal| refusal.count).sum::<u64>() - no_way - blocked;
    if shut == 0 {
        return None;
    }
    // Of those behind a refused letter, the ones behind a letter without a way back stay. Only the launch can tell how
    // many these are: where it told, that is the number.
    let told =
        refused.filter(|(problem, form)| problem.code() == Code::CountMismatch && form.is_checked("force"));
    let number = told.and_then(|(problem, _)| problem.count()).unwrap_or(redrive.count + shut + blocked);
    let hindrance = viewer.hindrance(Permission::Administer);
    let chars_min = limits::BREAK_GLASS_CHARS_MIN;
    Some(Glass { number, count: letters(number), hindrance, chars_min })
}

async fn archived(app: &Arc<App>, filter: &str) -> Archived {
    let is_cheap = Filter::from_text(filter).is_ok_and(|it| !it.is_empty() && !it.needs_content());
    if !is_cheap {
        return Archived::NotAsked;
    }
    let pairs = [("q", filter), ("place", "archived"), ("limit", "500")];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    match archive::list(State(Arc::clone(app)), Ok(Query(pairs))).await {
        Ok(Json(list)) => {
            Archived::Found { count: list.items.len() as u64, has_more: list.next_cursor.is_some() }
        }
        // A plan is worth reading without it.
        Err(_) => Archived::Unreachable,
    }
}

pub(super) async fn launch(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: IdPath,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    match start(&app, &viewer, &id, &form).await {
        Ok(redrive) => {
            let told = format!("Redrive of {} launched.", letters(redrive.count));
            Ok(done(&format!("/redrives/{}", redrive.id), &told))
        }
        Err(problem) => super::page(&app, &viewer, &id, Vec::new(), Some((&problem, &form))).await,
    }
}

async fn start(app: &Arc<App>, viewer: &Viewer, id: &str, form: &Form) -> Result<RedriveBody, Problem> {
    let Some(count) = form.count("count")? else {
        return Err(Problem::new(Code::BadRequest, "confirmation required: nothing was sent")
            .with("field", "count")
            .hint("type the number of letters to confirm"));
    };
    let mut wish = form.texts(&["breakGlass"]);
    if form.is_checked("force") && wish.is_empty() {
        // Without a reason it would be a launch like any other, which was not asked for.
        return Err(NotRedriven::GlassReason.into());
    }
    wish.extend(new::options(form)?);
    wish.insert("planId".into(), id.into());
    wish.insert("count".into(), count.into());
    let caller = Extension(viewer.caller.clone());
    let request = Extension(viewer.request.clone());
    let answer = redrives::launch(State(Arc::clone(app)), caller, request, Ok(form::body(wish))).await?;
    Ok(answer.2.0)
}
