//! Cases: workers are known by what they say, found when they fall silent, and obey what is wished of them.

use lazaret_core::gate::Governance;
use lazaret_core::id::JobId;
use lazaret_core::limits;
use lazaret_store::audit::AuditQuery;
use lazaret_store::job::{ByHand, Changed, JobChange, LetterEffect};
use lazaret_store::worker::{Beat, Wish, Wished, WorkerInfo};

use crate::jobs::{ack, enqueue, new, stored, told};
use crate::rig::{Rig, ana, at};

fn named(worker: &str) -> Beat {
    Beat { worker: worker.into(), ..Beat::default() }
}

fn telling(worker: &str) -> Beat {
    Beat {
        worker: worker.into(),
        hostname: Some("host-ü".into()),
        pid: Some(u64::from(u32::MAX)),
        queues: vec!["a".into(), "b \" c".into()],
        concurrency: Some(10),
        started_at: Some(at(-5_000)),
        said: Some(r#"{"labels":["x"]}"#.into()),
    }
}

async fn beat(rig: &Rig, beat: Beat, ms: i64) -> Wish {
    rig.store().beat(beat, at(ms)).await.unwrap()
}

async fn wish(rig: &Rig, worker: &str, wish: Wish, ms: i64) -> Wished {
    rig.store().wish_worker(worker.into(), wish, ana(), at(ms)).await.unwrap()
}

async fn workers(rig: &Rig) -> Vec<WorkerInfo> {
    rig.store().workers().await.unwrap()
}

/// Enqueues jobs and lets a worker fetch them.
async fn hold(rig: &Rig, worker: &str, count: usize, ms: i64) -> Vec<JobId> {
    let ids = enqueue(rig, (0..count).map(|_| new(rig, "", at(ms))).collect(), at(ms)).await;
    let fetched = rig.store().fetch_jobs(vec!["default".into()], count, worker.into(), None, at(ms)).await;
    assert_eq!(fetched.unwrap().len(), count);
    ids
}

pub async fn a_worker_is_known_by_its_first_heartbeat(rig: &mut Rig) {
    assert_eq!(workers(rig).await, []);
    assert_eq!(beat(rig, telling("w1"), 0).await, Wish::Running);
    let seen = WorkerInfo {
        beat: telling("w1"),
        wish: Wish::Running,
        first_seen_at: Some(at(0)),
        last_beat_at: Some(at(0)),
        active: 0,
    };
    assert_eq!(workers(rig).await, std::slice::from_ref(&seen));
    rig.reopen().await;
    assert_eq!(workers(rig).await, [seen]);
}

pub async fn what_a_worker_leaves_out_stays(rig: &mut Rig) {
    beat(rig, telling("w1"), 0).await;
    beat(rig, named("w1"), 5_000).await;
    assert_eq!(workers(rig).await[0].beat, telling("w1"));
    assert_eq!(workers(rig).await[0].last_beat_at, Some(at(5_000)));
    // Told at once, however short ago the last one was.
    beat(rig, Beat { concurrency: Some(3), queues: vec!["c".into()], ..named("w1") }, 5_001).await;
    let expected = Beat { concurrency: Some(3), queues: vec!["c".into()], ..telling("w1") };
    assert_eq!(workers(rig).await[0].beat, expected);
    assert_eq!(workers(rig).await[0].first_seen_at, Some(at(0)));
    // A heartbeat that was overtaken does not make the worker older.
    beat(rig, Beat { pid: Some(7), ..named("w1") }, 100).await;
    assert_eq!(workers(rig).await[0].last_beat_at, Some(at(5_001)));
}

pub async fn a_heartbeat_that_says_nothing_new_is_not_written_at_once(rig: &mut Rig) {
    beat(rig, telling("w1"), 0).await;
    let changes = rig.store().changes();
    let commits = *changes.borrow();
    for ms in [1, 500, 999] {
        assert_eq!(beat(rig, named("w1"), ms).await, Wish::Running);
        assert_eq!(beat(rig, telling("w1"), ms).await, Wish::Running);
    }
    assert_eq!(*changes.borrow(), commits);
    beat(rig, named("w1"), 1_000).await;
    assert_eq!(*changes.borrow(), commits + 1);
    assert_eq!(workers(rig).await[0].last_beat_at, Some(at(1_000)));
}

pub async fn workers_are_listed_with_what_they_hold(rig: &mut Rig) {
    beat(rig, named("w2"), 0).await;
    beat(rig, named("w4"), 0).await;
    let held = hold(rig, "w2", 3, 0).await;
    hold(rig, "w3", 2, 0).await;
    hold(rig, "w1", 1, 0).await;
    // A job that is nobody's by name belongs to no worker.
    hold(rig, "", 1, 0).await;
    let seen = async || -> Vec<(String, u64, bool)> {
        let each = workers(rig).await.into_iter();
        each.map(|worker| (worker.beat.worker, worker.active, worker.last_beat_at.is_some())).collect()
    };
    let row = |name: &str, active, beats| (name.to_owned(), active, beats);
    assert_eq!(
        seen().await,
        [row("w1", 1, false), row("w2", 3, true), row("w3", 2, false), row("w4", 0, true)]
    );
    ack(rig, held[0], at(5)).await;
    assert_eq!(seen().await[1], row("w2", 2, true));
    let holding = rig.store().jobs_held_by("w2".into(), 10).await.unwrap();
    assert_eq!(holding, [stored(rig, held[1]).await, stored(rig, held[2]).await]);
    assert_eq!(rig.store().jobs_held_by("w2".into(), 1).await.unwrap(), holding[..1]);
    assert_eq!(rig.store().jobs_held_by("w4".into(), 10).await.unwrap(), []);
    assert_eq!(rig.store().jobs_held_by("".into(), 10).await.unwrap(), []);
}

pub async fn a_worker_hears_what_is_wished_of_it(rig: &mut Rig) {
    assert_eq!(wish(rig, "w1", Wish::Quiet, 0).await, Wished::Unknown);
    beat(rig, named("w1"), 1).await;
    assert_eq!(wish(rig, "w1", Wish::Quiet, 2).await, Wished::Done);
    assert_eq!(beat(rig, named("w1"), 3).await, Wish::Quiet, "also when there is nothing to write");
    assert_eq!(beat(rig, telling("w1"), 4).await, Wish::Quiet);
    assert_eq!(wish(rig, "w1", Wish::Running, 5).await, Wished::Done);
    assert_eq!(beat(rig, named("w1"), 5_000).await, Wish::Running);
    assert_eq!(wish(rig, "w1", Wish::Terminate, 5_001).await, Wished::Done);
    assert_eq!(wish(rig, "w1", Wish::Terminate, 5_002).await, Wished::Done);
    for back in [Wish::Running, Wish::Quiet] {
        assert_eq!(wish(rig, "w1", back, 5_003).await, Wished::Terminating);
    }
    assert_eq!(beat(rig, telling("w1"), 9_000).await, Wish::Terminate);
    let log: Vec<_> = rig.store().audit(AuditQuery::newest(10)).await.unwrap();
    let actions: Vec<_> = log.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["worker_terminate", "worker_terminate", "worker_running", "worker_quiet"]);
    assert!(log.iter().all(|entry| entry.reason.as_deref() == Some("w1") && entry.actor == ana()));
}

pub async fn a_process_that_starts_anew_is_not_told_to_exit_again(rig: &mut Rig) {
    for (n, later) in [
        Beat { pid: Some(1), ..named("w") },
        Beat { started_at: Some(at(7_000)), ..named("w") },
        Beat { hostname: Some("other".into()), ..named("w") },
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("w{n}");
        let later = Beat { worker: name.clone(), ..later };
        beat(rig, telling(&name), 0).await;
        wish(rig, &name, Wish::Terminate, 1).await;
        assert_eq!(beat(rig, Beat { concurrency: Some(1), ..named(&name) }, 5_000).await, Wish::Terminate);
        assert_eq!(beat(rig, later, 10_000).await, Wish::Running);
        assert_eq!(beat(rig, named(&name), 15_000).await, Wish::Running);
    }
    // Whoever is to be quiet stays so: it was not asked to end.
    beat(rig, telling("q"), 0).await;
    wish(rig, "q", Wish::Quiet, 1).await;
    assert_eq!(beat(rig, Beat { pid: Some(1), ..named("q") }, 5_000).await, Wish::Quiet);
}

pub async fn a_worker_is_silent_if_it_holds_jobs_and_says_nothing(rig: &mut Rig) {
    let held = hold(rig, "w1", 1, 0).await;
    hold(rig, "never", 1, 0).await;
    hold(rig, "w2", 1, 0).await;
    for name in ["w1", "w2", "idle"] {
        beat(rig, named(name), 0).await;
    }
    beat(rig, named("w2"), 20_000).await;
    let silent = async |ms, limit| rig.store().silent_workers(at(ms), limit).await.unwrap();
    assert_eq!(silent(0, 10).await, [""; 0]);
    assert_eq!(silent(1, 10).await, ["w1"], "who never sent a heartbeat is not expected to");
    assert_eq!(silent(20_001, 10).await, ["w1", "w2"]);
    assert_eq!(silent(20_001, 1).await, ["w1"]);
    ack(rig, held[0], at(20_002)).await;
    assert_eq!(silent(30_000, 10).await, ["w2"]);
}

pub async fn silent_workers_that_hold_nothing_are_forgotten(rig: &mut Rig) {
    hold(rig, "busy", 1, 0).await;
    for name in ["busy", "a", "b", "c"] {
        beat(rig, named(name), 0).await;
    }
    beat(rig, named("c"), 5_000).await;
    assert_eq!(rig.store().forget_workers(at(0), 10).await.unwrap(), 0);
    assert_eq!(rig.store().forget_workers(at(1), 1).await.unwrap(), 1);
    assert_eq!(rig.store().forget_workers(at(1), 10).await.unwrap(), 1);
    let left: Vec<_> = workers(rig).await.into_iter().map(|worker| worker.beat.worker).collect();
    assert_eq!(left, ["busy", "c"]);
    assert_eq!(wish(rig, "a", Wish::Quiet, 6_000).await, Wished::Unknown);
    // Who comes back begins again.
    beat(rig, named("a"), 7_000).await;
    assert_eq!(workers(rig).await[0].first_seen_at, Some(at(7_000)));
}

pub async fn made_up_names_do_not_fill_the_store(rig: &mut Rig) {
    beat(rig, named("quiet"), 0).await;
    wish(rig, "quiet", Wish::Quiet, 0).await;
    beat(rig, named("busy"), 0).await;
    hold(rig, "busy", 1, 0).await;
    let store = rig.shared();
    let mut beats = tokio::task::JoinSet::new();
    for task in 0..8 {
        let store = store.clone();
        beats.spawn(async move {
            for n in 0..(limits::WORKERS_MAX as i64 / 8 + 100) {
                store.beat(named(&format!("{task}-{n}")), at(1_000 + n)).await.unwrap();
            }
        });
    }
    beats.join_all().await;
    let kept = rig.dump().await.lines().filter(|line| line.starts_with("  name=")).count();
    assert!(kept <= limits::WORKERS_MAX + 1, "{kept} with the queue");
    assert_eq!(
        beat(rig, named("quiet"), 900_000).await,
        Wish::Quiet,
        "what somebody wished is not forgotten"
    );
    assert_eq!(rig.store().silent_workers(at(1), 10).await.unwrap(), ["busy"]);
    assert_eq!(workers(rig).await.len(), limits::WORKERS_SHOWN_MAX);
    // A name of any length is answered, and not kept.
    assert_eq!(beat(rig, named(&"x".repeat(100_000)), 0).await, Wish::Running);
    let wordy = Beat {
        hostname: Some("h".repeat(100_000)),
        queues: vec!["q".repeat(10_000); 10_000],
        said: Some(format!("{:?}", "s".repeat(100_000))),
        ..named("0-wordy")
    };
    beat(rig, wordy, 900_000).await;
    let dump = rig.dump().await;
    let row = dump.lines().find(|line| line.contains("name=0-wordy")).unwrap();
    assert!(row.len() < 100_000, "{}", row.len());
}

pub async fn what_a_person_does_to_a_job_is_on_record(rig: &mut Rig) {
    let dying = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let ids = enqueue(rig, vec![new(rig, "", at(0)), new(rig, dying, at(1))], at(1)).await;
    let by = |action| ByHand { actor: ana(), action, reason: Some("ticket 7".into()) };
    let change = async |id, letter, action, ms: i64| {
        let before = stored(rig, id).await;
        let after = match action {
            "job_cancelled" => before.job.clone().cancelled(at(ms)).unwrap(),
            _ => before.job.clone().retried_from_dead_letter(&Default::default(), at(ms)).unwrap(),
        };
        let before = (id, before.version);
        let events = told("job.changed");
        let change = JobChange { before, after, letter, events, by: Some(by(action)), at: at(ms) };
        let again = change.clone();
        assert_eq!(rig.store().change_job(change).await.unwrap(), Changed::Done);
        let log = rig.store().audit(AuditQuery::newest(100)).await.unwrap();
        assert_eq!(rig.store().change_job(again).await.unwrap(), Changed::Stale);
        assert_eq!(
            rig.store().audit(AuditQuery::newest(100)).await.unwrap(),
            log,
            "what did not happen is not on record"
        );
        log[0].clone()
    };
    let entry = change(ids[0], LetterEffect::End { evidence: "cancelled" }, "job_cancelled", 5).await;
    assert_eq!((entry.action.as_str(), entry.count, entry.letter), ("job_cancelled", 1, None));
    assert_eq!(entry.filter, Some(format!("event:{}", ids[0])), "a job without a letter is named");
    assert_eq!((entry.actor, entry.reason.as_deref(), entry.at), (ana(), Some("ticket 7"), at(5)));
    crate::jobs::fetch(rig, &["default"], 1, at(6)).await;
    crate::jobs::fail(rig, ids[1], "no", at(7)).await;
    let letter = rig.store().letter_of_job(ids[1]).await.unwrap().unwrap().letter.id;
    let entry = change(ids[1], LetterEffect::Redrive(letter, Governance::Optional), "retry", 8).await;
    assert_eq!((entry.action.as_str(), entry.letter, entry.filter), ("retry", Some(letter), None));
    let decisions = rig.history(letter).await.decisions;
    assert_eq!(decisions.len(), 1);
}

pub async fn a_pause_is_on_record(rig: &mut Rig) {
    let store = rig.shared();
    store.pause_queue("slow".into(), true, ana(), at(0)).await.unwrap();
    store.pause_queue("slow".into(), false, ana(), at(1)).await.unwrap();
    store.pause_queue("a b".into(), true, ana(), at(2)).await.unwrap();
    let log = store.audit(AuditQuery::newest(10)).await.unwrap();
    let seen: Vec<_> =
        log.iter().map(|entry| (entry.action.as_str(), entry.filter.as_deref().unwrap())).collect();
    assert_eq!(
        seen,
        [("queue_paused", "queue:\"a b\""), ("queue_resumed", "queue:slow"), ("queue_paused", "queue:slow")]
    );
}

pub async fn a_worker_with_a_number_beyond_all_processes_is_one_process(rig: &mut Rig) {
    let odd = Beat { pid: Some(u64::MAX), concurrency: Some(u64::MAX), ..named("w1") };
    beat(rig, odd.clone(), 0).await;
    assert_eq!(wish(rig, "w1", Wish::Terminate, 1).await, Wished::Done);
    let told = rig.told().await;
    for ms in [10, 60_000] {
        assert_eq!(beat(rig, odd.clone(), ms).await, Wish::Terminate, "it is still the one that was told");
    }
    assert_eq!(rig.told().await, told, "nobody was started");
}
