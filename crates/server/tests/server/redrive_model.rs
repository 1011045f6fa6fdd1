//! Whatever people, letters and crashes do in whatever order: nothing is sent without its plan, twice without its key,
//! or out of its order, and nothing is left without a way out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::{LaneEffect, Outcome, RunState};
use lazaret_server::app::App;
use lazaret_server::destination::{Destination, Outgoing, Route, Sent, SentCopy, Verified};
use lazaret_server::redrive::{self, NotRedriven, Wanted};
use lazaret_store::redrive::{ByPerson, Redrive, RedriveQuery, RunStep};
use lazaret_store::{Redrives, Store};
use proptest::prelude::{Strategy, prop_oneof};
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::redrive_rig::{Does, GOVERNED, Rig, Scripted, anna, at_once, canaries, plain};

const SEQUENCES: usize = 12;
const STEPS: usize = 25;
/// Few, so that the same letters are met again and again.
const EVENTS: u64 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Step {
    Die(u64),
    /// It dies again and names the redrive that it was last sent by.
    DieMarked(u64),
    Launch(u32),
    Single(u64),
    Does(u64, Does),
    Work,
    /// The instance is gone as soon as the destination has got something.
    Crash,
    Expire,
    Pause,
    Resume,
    Cancel,
    Hold(u64),
    Release(u64),
    Unclaim,
}

fn step() -> impl Strategy<Value = Step> {
    let does = select(vec![Does::Deliver, Does::Deliver, Does::Take, Does::Refuse, Does::Lose]);
    prop_oneof![
        8 => (0..EVENTS).prop_map(Step::Die),
        3 => (0..EVENTS).prop_map(Step::DieMarked),
        6 => select(vec![0_u32, 2]).prop_map(Step::Launch),
        2 => (0..EVENTS).prop_map(Step::Single),
        5 => (0..EVENTS, does).prop_map(|(n, does)| Step::Does(n, does)),
        8 => select(vec![Step::Work]),
        4 => select(vec![Step::Crash]),
        4 => select(vec![Step::Expire]),
        3 => select(vec![Step::Pause, Step::Resume, Step::Cancel]),
        2 => (0..EVENTS).prop_map(Step::Hold),
        2 => (0..EVENTS).prop_map(Step::Release),
        2 => select(vec![Step::Unclaim]),
    ]
}

/// Looks at everything that is sent before it passes it on.
#[derive(Debug)]
struct Watch {
    to: Arc<Scripted>,
    store: Arc<dyn Store>,
    wrong: Mutex<Vec<String>>,
    /// The last key of each life and what became of it.
    keys: Mutex<Keys>,
}

/// By letter and life: the key, and what sending under it came to.
type Keys = BTreeMap<(LetterId, u32), (String, Option<Sent>)>;

impl Watch {
    async fn look(&self, outgoing: &Outgoing) -> Result<(), String> {
        let (letter, life) = (outgoing.letter, outgoing.life);
        let rows = self.store.redrive_letters(outgoing.redrive, None, 0, 500).await.unwrap();
        let Some(own) = rows.iter().find(|row| (row.letter, row.life) == (letter, life)) else {
            return Err(format!("{letter} is not on the list of {}", outgoing.redrive));
        };
        if own.outcome != Outcome::Out {
            return Err(format!("{letter} is sent while it is {:?}", own.outcome));
        }
        let before = rows.iter().filter(|row| row.lane.is_some() && row.lane == own.lane);
        for earlier in before.filter(|row| row.ordinal < own.ordinal) {
            if earlier.outcome.lane() != LaneEffect::Next {
                return Err(format!("{letter} goes before {:?}", earlier));
            }
        }
        let last = self.keys.lock().unwrap().get(&(letter, life)).cloned();
        match last {
            Some((key, came_to)) if key != outgoing.idempotency_key => match came_to {
                Some(Sent::Refused(_)) => Ok(()),
                other => Err(format!("{letter} has another key after {other:?}")),
            },
            Some(_) | None => Ok(()),
        }
    }
}

#[async_trait]
impl Destination for Watch {
    fn address(&self) -> String {
        self.to.address()
    }

    fn deduplicates(&self) -> bool {
        self.to.deduplicates
    }

    async fn route(&self, outgoing: &Outgoing) -> Result<Route, String> {
        self.to.route(outgoing).await
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        if let Err(wrong) = self.look(outgoing).await {
            self.wrong.lock().unwrap().push(wrong);
        }
        let (of, key) = ((outgoing.letter, outgoing.life), outgoing.idempotency_key.clone());
        self.keys.lock().unwrap().insert(of, (key.clone(), None));
        let sent = self.to.send(outgoing).await;
        self.keys.lock().unwrap().insert(of, (key, Some(sent.clone())));
        sent
    }

    async fn verify(&self, sent: &[SentCopy]) -> Vec<Verified> {
        self.to.verify(sent).await
    }
}

/// Order keys: two of them, and none.
fn order(n: u64) -> Option<&'static str> {
    match n % 3 {
        0 => Some("o-1"),
        1 => Some("o-2"),
        _ => None,
    }
}

struct Model {
    rig: Rig,
    app: Arc<App>,
    watch: Arc<Watch>,
    letters: BTreeMap<u64, LetterId>,
}

impl Model {
    async fn new(deduplicates: bool) -> Model {
        let config = format!("{GOVERNED}governance = 'optional'\n");
        let rig = Rig::with(&config, Scripted::new(deduplicates)).await;
        let watch = Arc::new(Watch {
            to: rig.to.clone(),
            store: rig.test.app.store.clone(),
            wrong: Mutex::default(),
            keys: Mutex::default(),
        });
        let app = Arc::new(rig.test.app.with_destination("report", watch.clone()));
        Model { rig, app, watch, letters: BTreeMap::new() }
    }

    /// All that ever were.
    async fn redrives(&self) -> Vec<Redrive> {
        let query = RedriveQuery { limit: 500, ..RedriveQuery::default() };
        self.rig.test.store.redrives(query).await.unwrap()
    }

    async fn runs(&self) -> Vec<RedriveId> {
        let unfinished = self.redrives().await.into_iter().filter(|run| run.state.is_unfinished());
        unfinished.map(|run| run.id).collect()
    }

    async fn tick(&self) {
        for _ in 0..100 {
            if redrive::tick(&self.app).await.unwrap() == lazaret_server::operations::Progress::Idle {
                return;
            }
        }
        panic!("it does not come to an end");
    }

    async fn launch(&self, wanted: Wanted) {
        let Ok(planned) = plan(&self.app, wanted).await else { return };
        let count = planned.letters[&Outcome::Waiting];
        let request = redrive::LaunchRequest {
            count,
            wanted: Wanted::default(),
            break_glass: None,
            glass: redrive::Glass::OutOfReach,
            by: anna(),
        };
        redrive::launch(&self.app, planned.id, request).await.unwrap();
    }

    async fn crash(&self) {
        // What came before is forgotten.
        while self.rig.to.came.notified().now_or_never().is_some() {}
        self.rig.to.always(Does::Hang);
        let named = std::mem::take(&mut *self.rig.to.does.lock().unwrap());
        tokio::select! {
            ticked = redrive::tick(&self.app) => { ticked.unwrap(); }
            () = self.rig.to.came.notified() => {}
            () = tokio::time::sleep(PATIENCE) => panic!("nothing came"),
        }
        *self.rig.to.does.lock().unwrap() = named;
        self.rig.to.always(Does::Deliver);
    }

    async fn unclaim(&self) {
        for Redrive { id, .. } in self.redrives().await {
            let unknown =
                self.rig.test.store.redrive_letters(id, Some(Outcome::Unknown), 0, 100).await.unwrap();
            for row in unknown {
                redrive::settle(&self.app, id, row.letter, ByPerson::Unclaim, anna()).await.unwrap();
                // A person said that it was not sent: whatever key comes next is theirs to answer for.
                self.watch.keys.lock().unwrap().remove(&(row.letter, row.life));
            }
        }
    }

    async fn decide(&self, n: u64, verb: &str) {
        if let Some(id) = self.letters.get(&n) {
            let path = format!("/api/v1/dead-letters/{id}/{verb}");
            self.rig.test.post(&path, &json!({"reason": "case 12"})).await;
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Die(n) => {
                let id = self.rig.dies(n, order(n)).await;
                self.letters.insert(n, id);
            }
            Step::DieMarked(n) => {
                let got = self.rig.to.got.lock().unwrap().clone();
                let own = self.letters.get(&n).copied();
                if let Some(mark) = got.iter().rev().find(|it| Some(it.letter) == own) {
                    self.rig.dies_again(n, mark).await;
                }
            }
            Step::Launch(0) => self.launch(at_once()).await,
            Step::Launch(count) => self.launch(canaries(count)).await,
            Step::Single(n) => {
                if let Some(letter) = self.letters.get(&n) {
                    match redrive::single(&self.app, *letter, plain()).await {
                        Ok(_) | Err(NotRedriven::Letter(_)) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
            Step::Does(n, does) => self.rig.to.does(n, does),
            Step::Work => self.tick().await,
            Step::Crash => self.crash().await,
            Step::Expire => self.rig.test.pass(2 * limits::CLAIM_LEASE_MS.cast_signed() + 1),
            Step::Pause => self.step_all(RunStep::Pause("lunch".into())).await,
            Step::Resume => self.step_all(RunStep::Resume).await,
            Step::Cancel => self.step_all(RunStep::Cancel(None)).await,
            Step::Hold(n) => self.decide(n, "hold").await,
            Step::Release(n) => self.decide(n, "release").await,
            Step::Unclaim => self.unclaim().await,
        }
    }

    async fn step_all(&self, step: RunStep) {
        for id in self.runs().await {
            match redrive::step(&self.app, id, step.clone(), anna()).await {
                Ok(_) | Err(NotRedriven::State { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    /// The destination works again, people settle what is open: every letter comes to its end.
    async fn comes_to_its_end(&self) {
        self.rig.to.does.lock().unwrap().clear();
        self.rig.to.always(Does::Deliver);
        for _ in 0..3 {
            self.rig.test.pass(2 * limits::CANARY_MS_MIN);
            self.tick().await;
            self.unclaim().await;
            self.step_all(RunStep::Resume).await;
            self.tick().await;
        }
        self.step_all(RunStep::Cancel(None)).await;
        self.tick().await;
        self.launch(at_once()).await;
        self.tick().await;
        for (n, letter) in &self.letters {
            let letter = self.rig.letter(*letter).await;
            assert_eq!(letter.status, Status::Resolved, "event {n}: {letter:?}");
        }
        if let Some(id) = self.runs().await.first() {
            panic!("a run has not come to its end: {:?}", self.rig.run(*id).await);
        }
    }
}

async fn plan(app: &App, wanted: Wanted) -> Result<Redrive, NotRedriven> {
    let filter = lazaret_core::filter::Filter::from_text("source:report").unwrap();
    let selection = redrive::Selection::Filter(filter);
    let request = redrive::PlanRequest { selection, expected: None, wanted, reason: None, by: anna() };
    let redrive = redrive::plan(app, request).await?.redrive;
    assert_eq!(redrive.state, RunState::Planned);
    Ok(redrive)
}

#[tokio::test]
async fn in_no_order_of_events_is_a_letter_sent_wrongly_or_left_behind() {
    let mut runner = TestRunner::deterministic();
    let strategy = step();
    for sequence in 0..SEQUENCES {
        let mut model = Model::new(sequence % 2 == 0).await;
        let mut done = Vec::new();
        for _ in 0..STEPS {
            let step = strategy.new_tree(&mut runner).unwrap().current();
            done.push(step);
            model.take(step).await;
            let wrong = model.watch.wrong.lock().unwrap().clone();
            assert!(wrong.is_empty(), "{wrong:?} after {done:?}");
        }
        model.comes_to_its_end().await;
        let wrong = model.watch.wrong.lock().unwrap().clone();
        assert!(wrong.is_empty(), "{wrong:?} at the end after {done:?}");
        model.rig.test.check().await;
    }
}
