//! Two instances on one database put letters back: no letter goes twice, no key has two letters out, the pace is that of
//! both together, and whatever one of them leaves lying the other one picks up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use lazaret_core::filter::Filter;
use lazaret_core::gate::Passed;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Admitted, Captured};
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::{Options, Outcome, Pace, RedriveKind, RunState, StopRule};
use lazaret_core::time::Time;
use lazaret_store::claim::ClaimFence;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::redrive::{
    GroupVerdict, Launch, Launched, NewRedrive, Proof, Proved, Redrive, RedriveLetter, RunStep, Selection,
    SendOutcome, Stepped, Taken,
};
use lazaret_store::testing::TestDatabase;
use lazaret_store::{RedriveStore, Redrives, Store};
use tokio::sync::mpsc;

use crate::books;
use crate::postgres_many::{connect, deadlocks, open, rig};
use crate::rig::{Rig, ana, at, dying, failed, mark};

/// A database with two instances beside the rig's own.
struct Pair {
    rig: Rig,
    stores: [Arc<PostgresStore>; 2],
    database: TestDatabase,
}

impl Pair {
    async fn open() -> Pair {
        let database = TestDatabase::new();
        let stores = [Arc::new(open(&database).await), Arc::new(open(&database).await)];
        Pair { rig: rig(&database).await, stores, database }
    }

    /// Captures letters `e0`, `e1`, … one millisecond after the other, each with the order key that `lane` gives it.
    async fn capture(&self, count: i64, lane: impl Fn(i64) -> Option<i64>) -> Vec<LetterId> {
        let mut letters = Vec::new();
        for chunk in (0..count).collect::<Vec<_>>().chunks(1_000) {
            let batch = chunk.iter().map(|n| self.rig.admit(message(*n, lane(*n)), at(0))).collect();
            letters.extend(self.rig.insert(batch).await.into_iter().map(|receipt| receipt.letter));
        }
        letters
    }

    /// Plans and launches a redrive of these letters, all of which go freely.
    async fn launch(&self, selection: Selection, options: Options) -> RedriveId {
        let store = self.rig.store();
        let id = self.rig.run_id();
        let (kind, by, reason) = (RedriveKind::Plan, ana(), None);
        let redrive = NewRedrive { id, kind, selection, options, by, reason, edit: None, at: at(1) };
        store.open_redrive(redrive).await.unwrap();
        while !store.freeze_redrive(id).await.unwrap() {}
        let goes = || GroupVerdict::Goes { passed: Passed::Freely, destination: "report/billing".into() };
        let groups = store.redrive_groups(id).await.unwrap();
        let verdicts = groups.iter().map(|group| (group.number, goes())).collect();
        let planned = store.plan_redrive(id, verdicts, "{}".into(), at(2)).await.unwrap().unwrap();
        let count = planned.letters[&Outcome::Waiting];
        let launch = Launch { count, options, break_glass: None, by: ana(), at: at(3) };
        let launched = store.launch_redrive(id, launch).await.unwrap();
        assert!(matches!(launched, Launched::Done(_)), "{launched:?}");
        id
    }

    /// Everything of a run: its counts have to be what its rows say.
    async fn standing(&self, id: RedriveId) -> (Redrive, Vec<RedriveLetter>) {
        let store = self.rig.store();
        let redrive = store.redrive(id).await.unwrap().unwrap();
        let mut rows: Vec<RedriveLetter> = Vec::new();
        loop {
            let after = rows.last().map_or(0, |row| row.ordinal);
            let page = store.redrive_letters(id, None, after, 500).await.unwrap();
            if page.is_empty() {
                break;
            }
            rows.extend(page);
        }
        let mut counted: BTreeMap<Outcome, u64> = Outcome::ALL.map(|outcome| (outcome, 0)).into();
        for row in &rows {
            *counted.entry(row.outcome).or_default() += 1;
        }
        assert_eq!(redrive.letters, counted);
        (redrive, rows)
    }

    /// Tends a run until nothing moves any more.
    async fn tend(&self, id: RedriveId, at: Time) -> Redrive {
        let mut before = None;
        loop {
            let now = self.rig.store().tend_redrive(id, at).await.unwrap().unwrap();
            if before.replace(now.state) == Some(now.state) {
                return now;
            }
        }
    }

    async fn close(self) {
        books::agree(self.rig.store()).await;
        let claims: i64 = connect(&self.database)
            .await
            .query_one("select count(*) from claims c join dead_letter_queue l on l.id = c.letter where l.status <> $1", &[
                &Status::Reprocessing.name(),
            ])
            .await
            .unwrap()
            .get(0);
        assert_eq!(claims, 0, "a letter that is not out is not claimed");
        for store in &self.stores {
            store.close().await.unwrap();
        }
        self.rig.store().close().await.unwrap();
        assert_eq!(deadlocks(&self.database).await, 0, "rows are locked in one order");
    }
}

fn message(n: i64, lane: Option<i64>) -> Captured {
    Captured {
        aggregate: lane.map(|lane| format!("order {lane}")),
        ..dying(&format!("e{n}"), at(n - 100_000))
    }
}

/// No canary, and no stop however bad it gets.
fn headlong(pace: Pace) -> Options {
    Options { pace, canary: 0, stop: StopRule { percent: 100, of: 50 }, ..Options::default() }
}

fn everything() -> Selection {
    Selection::Filter(Filter::from_text("queue:orders").unwrap())
}

/// What is out now, as the senders see it.
#[derive(Default)]
struct Out {
    seen: BTreeSet<LetterId>,
    lanes: BTreeSet<i64>,
}

/// Takes, sends and delivers letters of a run until there are none; nothing that is taken was taken before, nor while
/// another of its lane was out.
async fn deliver_all(
    store: Arc<PostgresStore>,
    id: RedriveId,
    lanes: Arc<HashMap<LetterId, i64>>,
    out: Arc<Mutex<Out>>,
) {
    let delivered = || SendOutcome::Delivered { evidence: "delivered", handle: None };
    for _ in 0..10_000 {
        let next = store.take_letters(id, 7, at(60_000), at(10)).await.unwrap();
        let letters: Vec<LetterId> = next.taken.iter().map(|taken| taken.letter).collect();
        {
            let mut out = out.lock().unwrap();
            for letter in &letters {
                assert!(out.seen.insert(*letter), "{letter} goes twice");
                assert!(
                    lanes.get(letter).is_none_or(|lane| out.lanes.insert(*lane)),
                    "two of one key are out"
                );
            }
        }
        let fences = next.taken.iter().map(Taken::fence).collect();
        assert_eq!(store.begin_sending(id, fences, at(11)).await.unwrap(), letters);
        for letter in &letters {
            if let Some(lane) = lanes.get(letter) {
                out.lock().unwrap().lanes.remove(lane);
            }
        }
        let outcomes = next.taken.iter().map(|taken| (taken.fence(), delivered())).collect();
        let settled = store.settle_letters(id, outcomes, at(12)).await.unwrap();
        assert!(settled.into_iter().all(|still_ours| still_ours));
        if letters.is_empty() && store.redrive(id).await.unwrap().unwrap().letters[&Outcome::Waiting] == 0 {
            return;
        }
    }
    panic!("the run does not come to its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_put_each_letter_of_a_run_back_once_and_in_order() {
    let pair = Pair::open().await;
    // Six letters of each of twenty keys, and as many without.
    let lane = |n: i64| (n % 2 == 0).then_some(n % 40);
    let letters = pair.capture(240, lane).await;
    let lanes: HashMap<LetterId, i64> =
        (0..).zip(&letters).filter_map(|(n, letter)| Some((*letter, lane(n)?))).collect();
    let id = pair.launch(everything(), headlong(Pace::Unlimited)).await;
    let (lanes, out) = (Arc::new(lanes), Arc::new(Mutex::new(Out::default())));
    let work = |store: &Arc<PostgresStore>| {
        tokio::spawn(deliver_all(Arc::clone(store), id, Arc::clone(&lanes), Arc::clone(&out)))
    };
    let [one, two] = [work(&pair.stores[0]), work(&pair.stores[1])];
    one.await.unwrap();
    two.await.unwrap();
    assert_eq!(out.lock().unwrap().seen.len(), 240);
    let done = pair.tend(id, at(20)).await;
    assert_eq!((done.state, done.letters[&Outcome::Succeeded]), (RunState::Done, 240));
    pair.standing(id).await;
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_two_instances_never_have_two_letters_of_a_key_out() {
    let pair = Pair::open().await;
    let letters = pair.capture(120, |n| Some(n % 5)).await;
    let lanes: Arc<HashMap<LetterId, i64>> =
        Arc::new((0..).zip(&letters).map(|(n, letter)| (*letter, n % 5)).collect());
    let half = |half: usize| {
        Selection::Letters(letters.iter().skip(half).step_by(2).map(|letter| (*letter, 1)).collect())
    };
    let runs = [
        pair.launch(half(0), headlong(Pace::Unlimited)).await,
        pair.launch(half(1), headlong(Pace::Unlimited)).await,
    ];
    let out = Arc::new(Mutex::new(Out::default()));
    let work = |n: usize| {
        let store = Arc::clone(&pair.stores[n]);
        tokio::spawn(deliver_all(store, runs[n], Arc::clone(&lanes), Arc::clone(&out)))
    };
    let [one, two] = [work(0), work(1)];
    one.await.unwrap();
    two.await.unwrap();
    assert_eq!(out.lock().unwrap().seen.len(), 120);
    for id in runs {
        assert_eq!(pair.tend(id, at(20)).await.state, RunState::Done);
        pair.standing(id).await;
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pace_is_that_of_all_instances_together() {
    let pair = Pair::open().await;
    pair.capture(3_300, |_| None).await;
    let id = pair.launch(everything(), headlong(Pace::from_per_minute(Some(3_000)).unwrap())).await;
    let mut taken = BTreeSet::new();
    for ms in (0..=60_000).step_by(240) {
        let now = at(1_000 + ms);
        let take = |store: &Arc<PostgresStore>| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.take_letters(id, 100, now.plus_ms(600_000), now).await.unwrap() })
        };
        let [one, two] = [take(&pair.stores[0]), take(&pair.stores[1])];
        for next in [one.await.unwrap(), two.await.unwrap()] {
            for letter in next.taken {
                assert!(taken.insert(letter.letter), "{} goes twice", letter.letter);
            }
        }
    }
    assert!((2_850..=3_150).contains(&taken.len()), "{} in a minute", taken.len());
    let (redrive, _) = pair.standing(id).await;
    assert_eq!(redrive.letters[&Outcome::Out], taken.len() as u64);
    pair.close().await;
}

/// What becomes of a letter that was sent.
#[derive(Clone, Copy)]
enum Fate {
    DiesAgain,
    IsProved,
}

/// Sends letters of a run in three ways and tells of those that are out there, until nothing of it waits.
async fn send_all(store: Arc<PostgresStore>, id: RedriveId, told: mpsc::UnboundedSender<(LetterId, Fate)>) {
    let mut sent = 0;
    for _ in 0..10_000 {
        let next = store.take_letters(id, 10, at(60_000), at(10)).await.unwrap();
        let fences: Vec<ClaimFence> = next.taken.iter().map(Taken::fence).collect();
        store.begin_sending(id, fences.clone(), at(11)).await.unwrap();
        let mut outcomes = Vec::new();
        let mut fates = Vec::new();
        for fence in fences {
            sent += 1;
            let (outcome, fate) = match sent % 5 {
                0 => {
                    let attempt = Box::new(failed(at(12), "410 gone"));
                    (SendOutcome::Failed { attempt, why: "410".into() }, None)
                }
                1 => (SendOutcome::Delivered { evidence: "delivered", handle: None }, Some(Fate::DiesAgain)),
                2 => (SendOutcome::Sent { handle: None }, Some(Fate::DiesAgain)),
                3 => (SendOutcome::Sent { handle: None }, Some(Fate::IsProved)),
                _ => (SendOutcome::Delivered { evidence: "delivered", handle: None }, None),
            };
            fates.extend(fate.map(|fate| (fence.letter, fate)));
            outcomes.push((fence, outcome));
        }
        let empty = outcomes.is_empty();
        let settled = store.settle_letters(id, outcomes, at(12)).await.unwrap();
        assert!(settled.into_iter().all(|still_ours| still_ours));
        for fate in fates {
            told.send(fate).unwrap();
        }
        if empty && store.redrive(id).await.unwrap().unwrap().letters[&Outcome::Waiting] == 0 {
            return;
        }
    }
    panic!("the run does not come to its end");
}

/// Lets letters die again, a few at once and in an order of its own, and proves others.
async fn meet_fates(
    store: Arc<PostgresStore>,
    mut deaths: HashMap<LetterId, Admitted>,
    mut told: mpsc::UnboundedReceiver<(LetterId, Fate)>,
) -> u64 {
    let mut relapsed = 0;
    let mut batch = Vec::new();
    while let Some(first) = told.recv().await {
        batch.push(first);
        while let Ok(more) = told.try_recv() {
            batch.push(more);
        }
        // Not in the order in which they were sent, which is the order of their rows.
        batch.reverse();
        let mut dying = Vec::new();
        for (letter, fate) in batch.drain(..) {
            match fate {
                Fate::DiesAgain => dying.extend(deaths.remove(&letter)),
                Fate::IsProved => {
                    let proof =
                        Proof { letter, life: 1, evidence: "receipt", by: "billing".into(), at: at(14) };
                    assert_eq!(store.prove(proof).await.unwrap(), Proved::Done);
                }
            }
        }
        relapsed += dying.len() as u64;
        store.insert(dying).await.unwrap();
    }
    relapsed
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_relapse_while_their_runs_settle_others() {
    let pair = Pair::open().await;
    let lane = |n: i64| (n % 3 != 0).then_some(n % 30);
    let letters = pair.capture(360, lane).await;
    let half = |half: usize| {
        Selection::Letters(letters.iter().skip(half).step_by(2).map(|letter| (*letter, 1)).collect())
    };
    let mut working = Vec::new();
    let mut runs = Vec::new();
    for n in 0..2 {
        let id = pair.launch(half(n), headlong(Pace::Unlimited)).await;
        runs.push(id);
        let deaths = (0..).zip(&letters).map(|(n, letter)| {
            let captured =
                Captured { died_at: Some(at(13)), mark: mark(*letter, 1, id), ..message(n, lane(n)) };
            (*letter, pair.rig.admit(captured, at(13)))
        });
        let deaths: HashMap<LetterId, Admitted> = deaths.collect();
        let (tell, told) = mpsc::unbounded_channel();
        working.push((
            tokio::spawn(send_all(Arc::clone(&pair.stores[n]), id, tell)),
            tokio::spawn(meet_fates(Arc::clone(&pair.stores[1 - n]), deaths, told)),
        ));
    }
    for (id, (sending, meeting)) in runs.into_iter().zip(working) {
        sending.await.unwrap();
        let relapsed = meeting.await.unwrap();
        let run = pair.tend(id, at(20)).await;
        assert_eq!(run.state, RunState::Done);
        let (run, rows) = pair.standing(id).await;
        assert_eq!(run.letters[&Outcome::Relapsed], relapsed);
        assert!(run.letters[&Outcome::LaneBlocked] > 0 && run.letters[&Outcome::Failed] > 0);
        // Behind one that did not get through, nothing of its lane goes.
        let mut blocked = BTreeSet::new();
        for row in rows.iter().filter(|row| row.lane.is_some()) {
            match row.outcome {
                Outcome::LaneBlocked => {
                    blocked.insert(row.lane.clone());
                }
                Outcome::Succeeded | Outcome::Failed | Outcome::Relapsed => {
                    assert!(!blocked.contains(&row.lane), "{row:?} overtook");
                }
                _ => panic!("{row:?} has not come to its end"),
            }
        }
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_instance_left_lying_another_one_picks_up() {
    let pair = Pair::open().await;
    pair.capture(6, Some).await;
    let id = pair.launch(everything(), headlong(Pace::Unlimited)).await;
    let [gone, left] = pair.stores.clone();
    let taken = gone.take_letters(id, 6, at(1_000), at(10)).await.unwrap().taken;
    let letters: Vec<LetterId> = taken.iter().map(|taken| taken.letter).collect();
    // Of six letters two were about to be sent, and then the instance went away.
    let fences: Vec<ClaimFence> = taken.iter().map(Taken::fence).collect();
    gone.begin_sending(id, fences[..2].to_vec(), at(11)).await.unwrap();
    assert_eq!(left.expired_claims(at(1_000), 10).await.unwrap(), []);
    let expired = left.expired_claims(at(1_001), 10).await.unwrap();
    assert_eq!(expired.len(), 6);
    assert_eq!(expired.iter().filter(|claim| claim.sending).count(), 2);
    assert!(expired.iter().all(|claim| claim.run == id && taken.contains(&claim.taken)));
    // Both find them; one of them gets each.
    let mut renewed = Vec::new();
    for one in &expired {
        let (here, there) = tokio::join!(
            gone.renew_claim(one.clone(), at(5_000), at(1_001)),
            left.renew_claim(one.clone(), at(5_000), at(1_001)),
        );
        let taken: Vec<Taken> = [here.unwrap(), there.unwrap()].into_iter().flatten().collect();
        assert_eq!(taken.len(), 1);
        renewed.extend(taken.iter().map(Taken::fence));
    }
    renewed.sort_by_key(|fence| letters.iter().position(|letter| *letter == fence.letter));
    assert_eq!(left.expired_claims(at(1_001), 10).await.unwrap(), []);
    // The one that comes back late finds that its claims go on without it.
    assert_eq!(gone.begin_sending(id, fences.clone(), at(1_002)).await.unwrap(), []);
    let begun = left.begin_sending(id, renewed[2..].to_vec(), at(1_002)).await.unwrap();
    assert_eq!(begun, letters[2..]);
    let outcomes = |fences: &[ClaimFence]| -> Vec<(ClaimFence, SendOutcome)> {
        let unknown =
            fences[..2].iter().map(|fence| (fence, SendOutcome::Unknown { why: "no answer".into() }));
        let done = fences[2..]
            .iter()
            .map(|fence| (fence, SendOutcome::Delivered { evidence: "delivered", handle: None }));
        unknown.chain(done).map(|(fence, outcome)| (fence.clone(), outcome)).collect()
    };
    let unsent = fences.iter().map(|fence| (fence.clone(), SendOutcome::Unsent)).collect();
    assert_eq!(gone.settle_letters(id, unsent, at(1_003)).await.unwrap(), [false; 6]);
    assert_eq!(gone.settle_letters(id, outcomes(&fences), at(1_003)).await.unwrap(), [false; 6]);
    assert_eq!(left.settle_letters(id, outcomes(&renewed), at(1_004)).await.unwrap(), [true; 6]);
    assert_eq!(left.settle_letters(id, outcomes(&renewed), at(1_005)).await.unwrap(), [false; 6]);
    let done = pair.tend(id, at(1_006)).await;
    assert_eq!((done.state, done.letters[&Outcome::Unknown]), (RunState::Done, 2));
    pair.standing(id).await;
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_by_one_instance_holds_for_the_other() {
    let pair = Pair::open().await;
    pair.capture(400, |_| None).await;
    let id = pair.launch(everything(), headlong(Pace::Unlimited)).await;
    let store = Arc::clone(&pair.stores[0]);
    let taking = tokio::spawn(async move {
        let mut taken = 0;
        loop {
            let next = store.take_letters(id, 10, at(60_000), at(10)).await.unwrap();
            taken += next.taken.len() as u64;
            if next.taken.is_empty() {
                return taken;
            }
        }
    });
    let step = RunStep::Pause("enough".into());
    let stepped = pair.stores[1].step_redrive(id, step, ana(), at(11)).await.unwrap();
    let Stepped::Done(paused) = stepped else { panic!("{stepped:?}") };
    // What was out when it was paused is all that ever is.
    assert_eq!(taking.await.unwrap(), paused.letters[&Outcome::Out]);
    let (redrive, _) = pair.standing(id).await;
    assert_eq!((redrive.state, redrive.letters), (RunState::Paused, paused.letters));
    pair.close().await;
}
