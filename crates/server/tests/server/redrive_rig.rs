//! What tests of redrives share: letters of a governed source, a destination that answers as it is told, and people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lazaret_core::class::Category;
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::Status;
use lazaret_core::rca::{Analysis, FixKind};
use lazaret_core::redrive::{Outcome, Pace, RunState};
use lazaret_server::app::App;
use lazaret_server::clock::Clock;
use lazaret_server::config::{self, Config, Overrides};
use lazaret_server::destination::{Destination, Outgoing, Refusal, Route, Sent, SentCopy, Silence, Verified};
use lazaret_server::operations::Progress;
use lazaret_server::redrive::{
    self, Glass, LaunchRequest, NotRedriven, PlanRequest, Planned, Selection, SingleRequest, Wanted,
};
use lazaret_store::audit::Actor;
use lazaret_store::incident::{IncidentStep, IncidentStepped};
use lazaret_store::redrive::{Redrive, RedriveLetter};
use lazaret_store::{Incidents, Redrives, Store};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use super::rig::TestApp;
use lazaret_store::sqlite::Mode;

/// What the destination does with a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    Deliver,
    Take,
    Refuse,
    Lose,
    /// Has got it, and never comes back: whoever sends is gone first.
    Hang,
    /// Delivers once the test lets it go on.
    Wait,
}

/// A destination that answers as it is told, and remembers what it got.
#[derive(Debug)]
pub struct Scripted {
    /// By the event's `n`; what is not named is delivered.
    pub does: Mutex<BTreeMap<u64, Does>>,
    pub otherwise: Mutex<Does>,
    pub deduplicates: bool,
    pub window_ms: Mutex<Option<u64>>,
    pub silence: Silence,
    pub got: Mutex<Vec<Outgoing>>,
    /// The handles that were given back for verification.
    pub verified: Mutex<Vec<Option<String>>>,
    /// Told whenever something came.
    pub came: Notify,
    /// A permit for each letter that waits.
    pub go_on: Semaphore,
}

impl Scripted {
    pub fn new(deduplicates: bool) -> Arc<Scripted> {
        Arc::new(Scripted {
            does: Mutex::default(),
            otherwise: Mutex::new(Does::Deliver),
            deduplicates,
            window_ms: Mutex::default(),
            silence: Silence::Succeeds { after_ms: 0 },
            got: Mutex::default(),
            verified: Mutex::default(),
            came: Notify::new(),
            go_on: Semaphore::new(0),
        })
    }

    pub fn does(&self, n: u64, does: Does) {
        self.does.lock().unwrap().insert(n, does);
    }

    pub fn always(&self, does: Does) {
        *self.otherwise.lock().unwrap() = does;
    }

    /// The numbers of the events that came, in order.
    pub fn numbers(&self) -> Vec<u64> {
        self.got.lock().unwrap().iter().map(number).collect()
    }

    pub fn keys(&self) -> Vec<String> {
        self.got.lock().unwrap().iter().map(|it| it.idempotency_key.clone()).collect()
    }
}

fn number(outgoing: &Outgoing) -> u64 {
    let event: serde_json::Value = serde_json::from_slice(&outgoing.body).unwrap();
    event["n"].as_u64().unwrap()
}

#[async_trait]
impl Destination for Scripted {
    fn address(&self) -> String {
        "scripted".into()
    }

    fn deduplicates(&self) -> bool {
        self.deduplicates
    }

    fn dedup_window_ms(&self) -> Option<u64> {
        *self.window_ms.lock().unwrap()
    }

    async fn route(&self, _: &Outgoing) -> Result<Route, String> {
        Ok(Route { address: self.address(), also_reaches: vec!["the audit".into()] })
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        let does = {
            self.got.lock().unwrap().push(outgoing.clone());
            let does = self.does.lock().unwrap().get(&number(outgoing)).copied();
            does.unwrap_or(*self.otherwise.lock().unwrap())
        };
        self.came.notify_one();
        match does {
            Does::Deliver => Sent::Delivered { evidence: "delivered", handle: None },
            Does::Take => Sent::Taken { handle: Some(format!("scripted:{}", number(outgoing))) },
            Does::Refuse => {
                let error = lazaret_core::attempt::LetterError {
                    error_type: "Refused".into(),
                    message: "422: no".into(),
                    ..Default::default()
                };
                Sent::Refused(Box::new(Refusal { status: Some(422), error }))
            }
            Does::Lose => Sent::Unknown("the connection was reset".into()),
            Does::Hang => std::future::pending().await,
            Does::Wait => {
                self.go_on.acquire().await.unwrap().forget();
                Sent::Delivered { evidence: "delivered", handle: None }
            }
        }
    }

    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified> {
        self.verified.lock().unwrap().extend(sent.iter().map(|one| one.handle.clone()));
        vec![Verified::Taken(self.silence); sent.len()]
    }
}

/// A server whose reports are governed and ordered by `order`, and go back to a scripted destination.
pub struct Rig {
    pub test: TestApp,
    pub app: Arc<App>,
    pub to: Arc<Scripted>,
}

pub fn configured(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lazaret.toml");
    std::fs::write(&path, text).unwrap();
    config::load(Some(&path), [], Overrides::default()).unwrap()
}

pub const GOVERNED: &str = "[sources.report]\naggregate = '$.order'\n";

impl Rig {
    pub async fn new() -> Rig {
        Rig::with(GOVERNED, Scripted::new(false)).await
    }

    pub async fn with(config: &str, to: Arc<Scripted>) -> Rig {
        let test = TestApp::with(configured(config), Mode::Real).await;
        let app = Arc::new(test.app.with_destination("report", to.clone()));
        Rig { test, app, to }
    }

    /// A second instance on the same store.
    pub fn other(&self) -> Arc<App> {
        Arc::new((*self.app).clone())
    }

    /// A second instance on the same store, with a clock and a destination of its own.
    pub fn apart(&self, clock: Clock, to: Arc<Scripted>) -> Arc<App> {
        let mut app = self.app.with_destination("report", to);
        app.clock = clock;
        Arc::new(app)
    }

    /// Event `n` died, of this order if one is named.
    pub async fn dies(&self, n: u64, order: Option<&str>) -> LetterId {
        let mut event = json!({"n": n, "pattern": "order.created"});
        if let Some(order) = order {
            event["order"] = order.into();
        }
        let entry = json!({"eventId": format!("e{n}"), "originalEvent": event,
            "error": {"type": "PriceError", "message": "no price"}});
        let id = self.test.report(&entry).await;
        self.test.pass(1_000);
        LetterId::parse(&id).unwrap()
    }

    /// It dies again, and says which redrive it comes from.
    pub async fn dies_again(&self, n: u64, mark: &Outgoing) {
        let event = json!({"n": n, "pattern": "order.created"});
        let redrive = json!({"letterId": mark.letter.to_string(), "life": mark.life,
            "redriveId": mark.redrive.to_string()});
        let entry = json!({"eventId": format!("e{n}"), "originalEvent": event, "redrive": redrive,
            "error": {"type": "PriceError", "message": "no price"}});
        self.test.report(&entry).await;
    }

    pub async fn letter(&self, id: LetterId) -> lazaret_core::letter::Letter {
        self.test.store.history(id).await.unwrap().unwrap().letter
    }

    pub async fn status(&self, id: LetterId) -> Status {
        self.letter(id).await.status
    }

    pub async fn incident(&self) -> IncidentId {
        let list = self.test.get("/api/v1/incidents").await.expect(200);
        IncidentId::parse(list["items"][0]["id"].as_str().unwrap()).unwrap()
    }

    pub async fn incident_state(&self) -> IncidentState {
        let id = self.incident().await;
        self.test.store.incident(id).await.unwrap().unwrap().incident.state
    }

    pub async fn step(&self, step: IncidentStep) -> IncidentStepped {
        let (id, at) = (self.incident().await, self.app.clock.now());
        self.test.store.step_incident(id, step, anna(), at).await.unwrap()
    }

    /// The cause is written down and its fix is named.
    pub async fn fixed(&self) {
        let analysis = Analysis::new(Category::Contract, "a price is missing", "prices are checked").unwrap();
        assert!(matches!(self.step(IncidentStep::Diagnose(analysis)).await, IncidentStepped::Done(_)));
        let fixed_at = self.app.clock.now();
        let fix = IncidentStep::Fix { kind: FixKind::Deployed, reference: "pr/1".into(), fixed_at };
        assert!(matches!(self.step(fix).await, IncidentStepped::Done(IncidentState::Fixed)));
        self.test.pass(1_000);
    }

    pub async fn try_plan(&self, filter: &str, wanted: Wanted) -> Result<Planned, NotRedriven> {
        let selection = Selection::Filter(lazaret_core::filter::Filter::from_text(filter).unwrap());
        let (reason, by) = (Some("prices are back".to_owned()), anna());
        redrive::plan(&self.app, PlanRequest { selection, expected: None, wanted, reason, by }).await
    }

    pub async fn plan(&self, wanted: Wanted) -> Planned {
        self.try_plan("source:report", wanted).await.unwrap()
    }

    pub async fn try_launch(&self, id: RedriveId, count: u64) -> Result<Redrive, NotRedriven> {
        let wanted = Wanted::default();
        let request =
            LaunchRequest { count, wanted, break_glass: None, glass: Glass::OutOfReach, by: anna() };
        redrive::launch(&self.app, id, request).await
    }

    /// Plans and launches all letters of reports.
    pub async fn launched(&self, wanted: Wanted) -> RedriveId {
        let planned = self.plan(wanted).await;
        let count = planned.redrive.letters[&Outcome::Waiting];
        self.try_launch(planned.redrive.id, count).await.unwrap().id
    }

    pub async fn tick(&self) {
        while redrive::tick(&self.app).await.unwrap() == Progress::More {}
    }

    pub async fn run(&self, id: RedriveId) -> Redrive {
        self.test.store.redrive(id).await.unwrap().unwrap()
    }

    /// The state of a run and why it is so.
    pub async fn state(&self, id: RedriveId) -> (RunState, Option<String>) {
        let run = self.run(id).await;
        (run.state, run.why)
    }

    /// How many letters stand where, of those that stand anywhere.
    pub async fn letters(&self, id: RedriveId) -> Vec<(&'static str, u64)> {
        let run = self.run(id).await;
        let some = run.letters.into_iter().filter(|(_, letters)| *letters > 0);
        some.map(|(outcome, letters)| (outcome.name(), letters)).collect()
    }

    pub async fn rows(&self, id: RedriveId) -> Vec<RedriveLetter> {
        self.test.store.redrive_letters(id, None, 0, 500).await.unwrap()
    }

    pub async fn single(&self, letter: LetterId, request: SingleRequest) -> Result<Redrive, NotRedriven> {
        redrive::single(&self.app, letter, request).await
    }
}

/// No canary, no pace.
pub fn at_once() -> Wanted {
    Wanted { pace: Some(Pace::Unlimited), canary: Some(0), ..Wanted::default() }
}

/// Canaries, and no pace.
pub fn canaries(count: u32) -> Wanted {
    Wanted { canary: Some(count), ..at_once() }
}

pub fn plain() -> SingleRequest {
    SingleRequest { edit: None, reason: None, break_glass: None, glass: Glass::OutOfReach, by: anna() }
}

pub fn anna() -> Actor {
    Actor { name: "anna".into(), role: "operator".into(), request: None }
}
