//! Two instances on one database: whatever both of them want, one of them gets, and the books agree.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazaret_core::class::Category;
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits::DECISION_ROWS_PER_WRITE;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::{OperationState, Verb};
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::job::{Changed, JobChange, LetterEffect, SOURCE, StoredJob};
use lazaret_store::postgres::PostgresStore;
use lazaret_store::replay::{Replay, Replayed};
use lazaret_store::sqlite::Mode;
use lazaret_store::stats::StatsOf;
use lazaret_store::testing::TestDatabase;
use lazaret_store::worker::{Beat, Wish, Wished};
use lazaret_store::{JobStore, Operations, RedriveStore, Replays, Store, Workers};
use tokio::task::JoinSet;

use crate::books;
use crate::jobs::{enqueue, failure, fetch, new, stored, told};
use crate::redrive_runs::delivered;
use crate::replays::{dead, query};
use crate::rig::{Rig, ana, at, captured, dying};

/// A database with two instances; the rig uses the first one.
struct Pair {
    rig: Rig,
    stores: [Arc<PostgresStore>; 2],
    database: TestDatabase,
}

impl Pair {
    async fn open() -> Pair {
        let database = TestDatabase::new();
        let open = || async { Arc::new(PostgresStore::open(&database.url(), Mode::Test).await.unwrap()) };
        let stores = [open().await, open().await];
        let first = Arc::clone(&stores[0]);
        let opening = Box::new(move || {
            let store = Arc::clone(&first) as Arc<dyn Store>;
            Box::pin(async move { store }) as std::pin::Pin<Box<dyn Future<Output = Arc<dyn Store>>>>
        });
        Pair { rig: Rig::open(opening).await, stores, database }
    }

    /// Does the same on both instances at once.
    async fn both<T, F, Done>(&self, work: F) -> [T; 2]
    where
        F: Fn(Arc<PostgresStore>) -> Done,
        Done: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let [one, two] = self.stores.clone().map(|store| tokio::spawn(work(store)));
        [one.await.unwrap(), two.await.unwrap()]
    }

    async fn close(self) {
        books::agree(&*self.stores[0]).await;
        for store in &self.stores {
            store.close().await.unwrap();
        }
        assert_eq!(deadlocks(&self.database).await, 0, "rows are locked in one order");
    }
}

async fn deadlocks(database: &TestDatabase) -> i64 {
    let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "select deadlocks from pg_stat_database where datname = current_database()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// How often a race is run: the two instances do not meet each time.
const ROUNDS: i64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_two_instances_fetch_and_each_job_goes_to_one() {
    let pair = Pair::open().await;
    let jobs: Vec<Job> = (0..500)
        .map(|n| new(&pair.rig, &format!(r#""queue":"q{}","priority":{}"#, n % 3, n % 5), at(0)))
        .collect();
    let all: BTreeSet<JobId> = enqueue(&pair.rig, jobs, at(0)).await.into_iter().collect();
    let mut workers = JoinSet::new();
    for n in 0..16 {
        let store = Arc::clone(&pair.stores[n % 2]);
        workers.spawn(async move {
            let queues = ["q0", "q1", "q2", "q0"].map(str::to_owned).to_vec();
            let (mut mine, mut empty) = (Vec::new(), 0);
            // What another instance has locked is passed over, so one empty answer is not the end.
            while empty < 3 {
                let jobs =
                    store.fetch_jobs(queues.clone(), 7, format!("w{n}"), Some(5), at(1)).await.unwrap();
                empty = if jobs.is_empty() { empty + 1 } else { 0 };
                mine.extend(jobs.into_iter().map(|job| job.id));
            }
            mine
        });
    }
    let fetched: Vec<JobId> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(fetched.len(), 500);
    assert_eq!(fetched.into_iter().collect::<BTreeSet<_>>(), all);
    let started = pair.rig.told().await.iter().filter(|kind| *kind == "job.started").count();
    assert_eq!(started, 500);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_of_a_hundred_keeps_the_order_over_queues() {
    let pair = Pair::open().await;
    let jobs: Vec<Job> = (0..90)
        .map(|n| new(&pair.rig, &format!(r#""queue":"q{}","priority":{}"#, n % 3, n % 2), at(n)))
        .collect();
    enqueue(&pair.rig, jobs.clone(), at(100)).await;
    let mut expected: Vec<&Job> = jobs.iter().collect();
    // The sort is stable: jobs of one priority stay in the order they came in.
    expected.sort_by_key(|job| (job.queue.clone(), -job.priority));
    let expected: Vec<JobId> = expected.iter().map(|job| job.id).collect();
    let mut fetched = fetch(&pair.rig, &["q0", "q1", "q2"], 50, at(200)).await;
    fetched.extend(fetch(&pair.rig, &["q0", "q1", "q2"], 100, at(200)).await);
    assert_eq!(fetched, expected);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_puts_a_bounded_number_of_expired_jobs_away() {
    let pair = Pair::open().await;
    let jobs = (0..2_500).map(|_| new(&pair.rig, r#""expires_at":"+PT1S","priority":1"#, at(0))).collect();
    enqueue(&pair.rig, jobs, at(0)).await;
    let last = enqueue(&pair.rig, vec![new(&pair.rig, "", at(0))], at(0)).await;
    let other = enqueue(&pair.rig, vec![new(&pair.rig, r#""queue":"other""#, at(0))], at(0)).await;
    assert_eq!(fetch(&pair.rig, &["default", "other"], 10, at(5_000)).await, other, "nobody is kept waiting");
    let mut fetches = 1;
    while fetch(&pair.rig, &["default"], 10, at(5_000)).await != last {
        fetches += 1;
        assert!(fetches < 10);
    }
    assert!(fetches >= 2);
    let queues = pair.rig.store().queues().await.unwrap();
    assert_eq!(queues[0].counts[&JobState::Discarded], 2_500);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_job_enqueued_by_both_is_one_job() {
    let pair = Pair::open().await;
    for round in 0..ROUNDS {
        let shared = new(&pair.rig, "", at(round));
        let own = [new(&pair.rig, "", at(round)), new(&pair.rig, "", at(round))];
        let [one, two] =
            own.clone().map(|own| vec![(own, told("job.enqueued")), (shared.clone(), Vec::new())]);
        let (one, two) = tokio::join!(
            pair.stores[0].enqueue_jobs(one, at(round)),
            pair.stores[1].enqueue_jobs(two, at(round))
        );
        let answers = [one.unwrap(), two.unwrap()];
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
        for (own, answer) in own.iter().zip(answers) {
            let kept = pair.rig.store().job(own.id).await.unwrap().is_some();
            assert_eq!(kept, answer.is_ok(), "all or none");
        }
    }
    pair.close().await;
}

fn change(before: &StoredJob, after: Job, letter: LetterEffect) -> JobChange {
    JobChange {
        before: (before.job.id, before.version),
        after,
        letter,
        events: told("job.changed"),
        by: None,
        at: at(500),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_acked_and_failed_at_once_ends_one_way() {
    let pair = Pair::open().await;
    let dying = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    for _ in 0..ROUNDS {
        let id = enqueue(&pair.rig, vec![new(&pair.rig, dying, at(0))], at(0)).await[0];
        fetch(&pair.rig, &["default"], 1, at(1)).await;
        let before = stored(&pair.rig, id).await;
        let acked = before.job.clone().acked(None, at(500)).unwrap();
        let verdict = before.job.verdict(&failure("no"), 0.5);
        let failed = before.job.clone().failed(failure("no"), verdict, at(500)).unwrap();
        let die = LetterEffect::Die(Box::new(pair.rig.admit(failed.to_captured(SOURCE, None), at(500))));
        let (one, two) = tokio::join!(
            pair.stores[0].change_job(change(&before, acked, LetterEffect::Confirm { evidence: "acked" })),
            pair.stores[1].change_job(change(&before, failed, die))
        );
        let answers = (one.unwrap(), two.unwrap());
        let job = stored(&pair.rig, id).await.job;
        let letter = pair.rig.store().letter_of_job(id).await.unwrap();
        match answers {
            (Changed::Done, Changed::Stale) => assert!(job.state == JobState::Completed && letter.is_none()),
            (Changed::Stale, Changed::Done) => assert!(job.in_dead_letter && letter.is_some()),
            other => panic!("{other:?}"),
        }
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_work_one_operation_and_decide_each_letter_once() {
    let pair = Pair::open().await;
    let count = DECISION_ROWS_PER_WRITE as i64 * 6 + 7;
    let ids = pair.rig.create_many(count, at(0)).await;
    let id = pair.rig.open_operation(Verb::Discard, "queue:orders", count as u64, at(10)).await;
    let frozen = pair
        .both(move |store| async move {
            loop {
                let operation = store.freeze(id).await.unwrap();
                if operation.state != OperationState::Freezing {
                    return operation;
                }
            }
        })
        .await;
    assert!(frozen.iter().all(|operation| operation.total == count as u64), "{frozen:?}");
    let done = pair
        .both(move |store| async move {
            loop {
                let operation = store.work(id, at(20)).await.unwrap();
                if operation.state != OperationState::Working {
                    return operation;
                }
            }
        })
        .await;
    assert_eq!(done[0], done[1]);
    assert_eq!((done[0].done, done[0].skipped), (count as u64, 0));
    let events = pair.rig.store().events(0, 100_000).await.unwrap();
    let discarded: Vec<_> = events
        .iter()
        .filter(|event| event.kind == "dead_letter.discarded")
        .map(|event| event.letter.unwrap())
        .collect();
    assert_eq!(discarded, ids, "each letter once, in order");
    assert_eq!(pair.rig.store().stats(StatsOf::All).await.unwrap().by_status["discarded"], count as u64);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_dropped_while_it_is_frozen_leaves_no_list() {
    let pair = Pair::open().await;
    pair.rig.create_many(3_000, at(0)).await;
    for _ in 0..5 {
        let id = pair.rig.open_operation(Verb::Discard, "queue:orders", 3_000, at(10)).await;
        let (frozen, dropped) = tokio::join!(pair.stores[0].freeze(id), pair.stores[1].drop_unfrozen(at(11)));
        frozen.unwrap();
        assert_eq!(dropped.unwrap(), 1);
        let operation = pair.rig.store().operation(id).await.unwrap().unwrap();
        assert_eq!(operation.state, OperationState::Refused);
    }
    let dump = pair.rig.dump().await;
    assert!(dump.contains("selections\naudit\n"), "nothing is left of the lists");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_two_instances_race_for_one_letter_and_one_gets_it() {
    let pair = Pair::open().await;
    for round in 0..ROUNDS {
        let letter = pair.rig.create(captured(&format!("e{round}")), at(0)).await;
        let mut launched = Vec::new();
        for _ in 0..8 {
            launched.push(pair.rig.launch(letter, 1, at(10)).await.unwrap());
        }
        let mut runs = JoinSet::new();
        for (n, run) in launched.into_iter().enumerate() {
            let store = Arc::clone(&pair.stores[n % 2]);
            runs.spawn(async move { store.take_letters(run, 1, at(30_000), at(10)).await.unwrap() });
        }
        let next = runs.join_all().await;
        assert_eq!(next.iter().map(|next| next.taken.len()).sum::<usize>(), 1);
        assert_eq!(next.iter().map(|next| next.skipped).sum::<u64>(), 7);
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_dies_while_it_is_settled_ends_one_way() {
    let pair = Pair::open().await;
    for round in 0..ROUNDS {
        let event = format!("e{round}");
        let letter = pair.rig.create(dying(&event, at(-10)), at(0)).await;
        let (run, fence) = pair.rig.send_fenced(letter, ClaimStep::Sent, at(10)).await;
        let again = pair.rig.admit(dying(&event, at(20)), at(30));
        let (settled, died) = tokio::join!(
            pair.stores[0].settle_letters(run, vec![(fence, delivered())], at(30)),
            pair.stores[1].insert(vec![again])
        );
        died.unwrap();
        assert_eq!(settled.unwrap().len(), 1);
        let found = pair.rig.letter(letter).await;
        assert_eq!((found.status, found.life), (Status::Pending, 2), "whoever came first, it died");
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_that_cannot_be_stored_leaves_the_job_with_its_worker() {
    let pair = Pair::open().await;
    let dying = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let id = enqueue(&pair.rig, vec![new(&pair.rig, dying, at(0))], at(0)).await[0];
    fetch(&pair.rig, &["default"], 1, at(1)).await;
    let before = stored(&pair.rig, id).await;
    let verdict = before.job.verdict(&failure("no"), 0.5);
    let after = before.job.clone().failed(failure("no"), verdict, at(2)).unwrap();
    let die = LetterEffect::Die(Box::new(pair.rig.admit(after.to_captured(SOURCE, None), at(2))));
    let change = change(&before, after, die);
    let dump = pair.rig.dump().await;
    for (point, fault) in [
        (FailurePoint::InsertLetter, Failure::DiskFull),
        (FailurePoint::InsertLetter, Failure::Panic),
        (FailurePoint::Commit, Failure::ReadOnly),
    ] {
        pair.stores[0].failures().plan(point, fault, 1);
        assert!(pair.stores[0].change_job(change.clone()).await.is_err());
        assert_eq!(pair.rig.dump().await, dump, "{point:?}");
    }
    assert_eq!(pair.stores[0].change_job(change).await.unwrap(), Changed::Done);
    assert!(stored(&pair.rig, id).await.job.in_dead_letter);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_both_put_back_is_put_back_once() {
    let pair = Pair::open().await;
    let dead = dead(&pair.rig, 20).await;
    for round in 0..ROUNDS {
        let ms = 60_000 + round;
        let letters: Vec<_> = dead.iter().map(|(_, letter)| (*letter, 1)).collect();
        let first = Arc::clone(&pair.stores[0]);
        let outcomes = pair
            .both(|store| {
                // Each in an order of its own.
                let mut letters = letters.clone();
                if Arc::ptr_eq(&store, &first) {
                    letters.reverse();
                }
                let replay = Replay {
                    rule: "r".into(),
                    category: Category::Infrastructure,
                    max_replays: 1_000,
                    letters,
                    at: at(ms),
                };
                async move { store.replay(replay).await.unwrap() }
            })
            .await;
        let outcomes: Vec<Replayed> = outcomes.into_iter().flatten().collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Replayed::Done).count(), 20);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Replayed::Done | Replayed::Moved)));
        // Back to where they were, so that the next round begins as this one.
        for (job, letter) in &dead {
            let before = stored(&pair.rig, *job).await;
            let end = LetterEffect::End { evidence: "cancelled" };
            let after = before.job.clone().cancelled(at(ms)).unwrap();
            crate::jobs::change(&pair.rig, &before, after, end, at(ms)).await;
            pair.rig.done(*letter, Verb::Reopen, at(ms)).await;
        }
    }
    assert_eq!(pair.stores[1].rule_records().await.unwrap()[0].replayed, 20 * ROUNDS as u64);
    // Each instance tells of what it has committed itself.
    let replayed = |store: &PostgresStore| -> u64 {
        let moves = store.moves().into_iter().filter(|(one, _)| one.kind == "dead_letter.replayed");
        moves.map(|(_, times)| times).sum()
    };
    assert_eq!(pair.stores.iter().map(|store| replayed(store)).sum::<u64>(), 20 * ROUNDS as u64);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_waits_again_in_one_instance_is_found_by_a_rule_in_the_other() {
    let pair = Pair::open().await;
    let (_, letter) = dead(&pair.rig, 1).await[0];
    pair.rig.done(letter, Verb::Resolve, at(5_000)).await;
    let ask = |ms| query("r", "queue:default", 3, ms);
    let other = &pair.stores[1];
    assert_eq!(other.replayable(ask(500_000)).await.unwrap(), []);
    pair.rig.done(letter, Verb::Reopen, at(500_001)).await;
    assert_eq!(other.replayable(ask(500_002)).await.unwrap(), [(letter, 1)]);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_both_hear_is_one_worker() {
    let pair = Pair::open().await;
    for round in 0..ROUNDS {
        let worker = format!("w{round:02}");
        let beat = Beat { worker: worker.clone(), pid: Some(7), ..Beat::default() };
        let wishes = pair
            .both(|store| {
                let beat = beat.clone();
                async move { store.beat(beat, at(round)).await.unwrap() }
            })
            .await;
        assert_eq!(wishes, [Wish::Running; 2]);
        // What is wished in one instance is heard in the other, and no job is handed out there.
        let wished = pair.stores[0].wish_worker(worker.clone(), Wish::Quiet, ana(), at(round)).await;
        assert_eq!(wished.unwrap(), Wished::Done);
        assert_eq!(pair.stores[1].beat(beat, at(round)).await.unwrap(), Wish::Quiet);
        enqueue(&pair.rig, vec![new(&pair.rig, "", at(round))], at(round)).await;
        let fetched = pair.stores[1].fetch_jobs(vec!["default".into()], 1, worker, None, at(round)).await;
        assert_eq!(fetched.unwrap(), []);
    }
    assert_eq!(pair.stores[0].workers().await.unwrap().len(), ROUNDS as usize);
    let events = pair.stores[0].events(0, 1_000).await.unwrap();
    let started = events.iter().filter(|event| event.kind == "worker.started").count();
    assert_eq!(started, ROUNDS as usize, "told once");
    pair.close().await;
}
