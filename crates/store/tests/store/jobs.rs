//! Cases: jobs are enqueued once, fetched in order by one worker each, and change only from how they were read.

use std::collections::BTreeSet;

use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::enqueue::{JobDefaults, read_enqueue};
use lazaret_core::job::failure::{Failure, Nack, read_nack};
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::job::{Changed, JobChange, JobEvent, LetterEffect, SOURCE, StoredJob};

use crate::rig::{Rig, ana, at, noise};

/// A job as a client enqueues it, with these options.
pub fn new(rig: &Rig, options: &str, at: Time) -> Job {
    let text = format!(
        r#"{{"type":"order.ship","args":[ {{"n": 1.50}}],"meta":{{"tenant_id":"acme","aggregate_id":"o7"}},
            "x_own":[ 1 ],"options":{{{options}}}}}"#
    );
    let new = read_enqueue(&text, &JobDefaults::default()).unwrap();
    Job::enqueued(new, JobId::mint(at, rig.mint()), at)
}

pub fn told(kind: &'static str) -> Vec<JobEvent> {
    vec![JobEvent { kind, data: r#"{"queue":"q"}"#.into() }]
}

/// Enqueues jobs that have to be new.
pub async fn enqueue(rig: &Rig, jobs: Vec<Job>, at: Time) -> Vec<JobId> {
    let ids = jobs.iter().map(|job| job.id).collect();
    let jobs = jobs.into_iter().map(|job| (job, told("job.enqueued"))).collect();
    assert_eq!(rig.store().enqueue_jobs(jobs, at).await.unwrap(), Ok(()));
    ids
}

pub async fn fetch(rig: &Rig, queues: &[&str], count: usize, at: Time) -> Vec<JobId> {
    let queues = queues.iter().map(|&name| name.to_owned()).collect();
    let jobs = rig.store().fetch_jobs(queues, count, "w1".into(), None, at).await.unwrap();
    for job in &jobs {
        assert_eq!(stored(rig, job.id).await.job, *job, "what was handed out is what is kept");
    }
    jobs.into_iter().map(|job| job.id).collect()
}

pub async fn stored(rig: &Rig, id: JobId) -> StoredJob {
    rig.store().job(id).await.unwrap().expect("the job exists")
}

pub async fn change(rig: &Rig, before: &StoredJob, after: Job, letter: LetterEffect, at: Time) -> Changed {
    let before = (before.job.id, before.version);
    let change = JobChange { before, after, letter, events: told("job.changed"), by: None, at };
    rig.store().change_job(change).await.unwrap()
}

/// Makes one move of a job that concerns no letter.
pub async fn moved(rig: &Rig, id: JobId, step: impl FnOnce(Job) -> Job, at: Time) {
    let before = stored(rig, id).await;
    let after = step(before.job.clone());
    assert_eq!(change(rig, &before, after.clone(), LetterEffect::None, at).await, Changed::Done);
    let now = stored(rig, id).await;
    assert_eq!((now.job, now.version), (after, before.version + 1));
}

/// A run fails; what becomes of job and letter is for the job to say.
pub async fn fail(rig: &Rig, id: JobId, message: &str, at: Time) -> Job {
    let before = stored(rig, id).await;
    let failure = failure(message);
    let verdict = before.job.verdict(&failure, 0.5);
    let after = before.job.clone().failed(failure, verdict, at).unwrap();
    let letter = match after.in_dead_letter {
        true => LetterEffect::Die(Box::new(rig.admit(after.to_captured(SOURCE, None), at))),
        false => LetterEffect::None,
    };
    assert_eq!(change(rig, &before, after.clone(), letter, at).await, Changed::Done);
    after
}

pub fn failure(message: &str) -> Failure {
    let text =
        format!(r#"{{"job_id":"x","error":{{"type":"Boom","message":"{message}","details":{{"d": 1.0}}}}}}"#);
    let Nack { failure, .. } = read_nack(&text).unwrap();
    failure
}

pub async fn ack(rig: &Rig, id: JobId, at: Time) {
    let before = stored(rig, id).await;
    let after = before.job.clone().acked(Some("[ 1 ]".into()), at).unwrap();
    let confirm = LetterEffect::Confirm { evidence: "acked" };
    assert_eq!(change(rig, &before, after, confirm, at).await, Changed::Done);
}

/// How many jobs a queue holds in a state.
async fn depth(rig: &Rig, queue: &str, state: JobState) -> u64 {
    let queues = rig.store().queues().await.unwrap();
    queues.iter().find(|known| known.name == queue).map_or(0, |known| known.counts[&state])
}

pub async fn a_job_comes_back_as_it_was_enqueued(rig: &mut Rig) {
    let long = "x".repeat(20_000);
    for options in [
        "",
        r#""queue":"q","priority":-7,"expires_at":"+P1D","delay_until":"+PT1S""#,
        r#""unique":{"k": 1},"tags":["a","ü"],"timeout_ms":5,"visibility_timeout_ms":7,
           "retry":{"max_attempts":0,"initial_interval":"PT0.50S","backoff_coefficient":1.1,"jitter":false,"x":[ 1 ],
           "on_exhaustion":"dead_letter","non_retryable_errors":["a.*"],"backoff_strategy":"none"}"#,
        r#""pending":true"#,
        &format!(r#""metadata":{{"long":"{long}"}}"#),
    ] {
        let job = new(rig, options, at(0));
        let id = enqueue(rig, vec![job.clone()], at(0)).await[0];
        assert_eq!(stored(rig, id).await, StoredJob { job, version: 1 }, "{options}");
    }
    assert_eq!(rig.store().job(JobId::mint(at(0), [255; 10])).await.unwrap(), None);
    assert_eq!(rig.told().await, ["job.enqueued"; 5]);
    let event = rig.store().events(0, 1).await.unwrap().remove(0);
    assert!(event.job.is_some());
    assert_eq!((event.letter, event.detail.as_deref()), (None, Some(r#"{"queue":"q"}"#)));
}

pub async fn an_id_that_is_taken_enqueues_nothing(rig: &mut Rig) {
    let (one, two, three) = (new(rig, "", at(0)), new(rig, "", at(0)), new(rig, "", at(0)));
    enqueue(rig, vec![one.clone()], at(0)).await;
    let before = rig.dump().await;
    for jobs in [vec![two.clone(), one.clone()], vec![three.clone(), one.clone(), two.clone()]] {
        let jobs = jobs.into_iter().map(|job| (job, told("job.enqueued"))).collect();
        assert_eq!(rig.store().enqueue_jobs(jobs, at(5)).await.unwrap(), Err(one.id));
    }
    let twice = [&two, &three, &two].map(|job| (job.clone(), Vec::new())).to_vec();
    assert_eq!(rig.store().enqueue_jobs(twice, at(5)).await.unwrap(), Err(two.id));
    assert_eq!(rig.dump().await, before);
    enqueue(rig, vec![two, three], at(6)).await;
}

pub async fn jobs_are_fetched_by_queue_then_priority_then_age(rig: &mut Rig) {
    let wanted = [
        ("b", 0, 5, 7),
        ("a", 0, 1, 4),
        ("a", 0, 1, 5),
        ("a", 9, 3, 1),
        ("a", -4, 0, 6),
        ("a", 9, 2, 0),
        ("a", 0, 0, 2),
        ("a", 0, 0, 3),
    ];
    let mut expected = vec![None; wanted.len()];
    for (queue, priority, ms, place) in wanted {
        let job = new(rig, &format!(r#""queue":"{queue}","priority":{priority}"#), at(ms));
        expected[place] = Some(job.id);
        enqueue(rig, vec![job], at(ms)).await;
    }
    let later = new(rig, r#""queue":"a","delay_until":"+PT1S""#, at(0));
    let parked = new(rig, r#""queue":"a","pending":true"#, at(0));
    enqueue(rig, vec![later, parked], at(0)).await;
    let mut fetched = fetch(rig, &["nowhere", "a", "b"], 3, at(10)).await;
    assert_eq!(fetched.len(), 3);
    fetched.extend(fetch(rig, &["a", "b"], 100, at(10)).await);
    assert_eq!(fetched.into_iter().map(Some).collect::<Vec<_>>(), expected);
    assert!(fetch(rig, &["a", "b"], 100, at(10)).await.is_empty());
    let job = stored(rig, expected[0].unwrap()).await.job;
    assert_eq!(
        (job.state, job.attempt, job.held.unwrap().worker.as_deref()),
        (JobState::Active, 1, Some("w1"))
    );
    let event = rig.store().events(0, 1_000).await.unwrap().pop().unwrap();
    assert_eq!(event.kind, "job.started");
    assert_eq!(
        event.detail.as_deref(),
        Some(r#"{"attempt":1,"job_type":"order.ship","queue":"b","worker_id":"w1"}"#)
    );
    assert_eq!(depth(rig, "a", JobState::Active).await, 7);
}

pub async fn many_workers_fetch_and_each_job_goes_to_one(rig: &mut Rig) {
    let jobs: Vec<Job> = (0..400).map(|n| new(rig, &format!(r#""queue":"q{}""#, n % 3), at(0))).collect();
    let all: BTreeSet<JobId> = enqueue(rig, jobs, at(0)).await.into_iter().collect();
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = rig.shared();
        workers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let queues = ["q0", "q1", "q2"].map(str::to_owned).to_vec();
                let jobs = store.fetch_jobs(queues, 7, format!("w{n}"), Some(5), at(1)).await.unwrap();
                if jobs.is_empty() {
                    return mine;
                }
                mine.extend(jobs.into_iter().map(|job| job.id));
            }
        });
    }
    let fetched: Vec<JobId> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(fetched.len(), 400);
    assert_eq!(fetched.into_iter().collect::<BTreeSet<_>>(), all);
}

pub async fn an_acked_job_is_completed(rig: &mut Rig) {
    let id = enqueue(rig, vec![new(rig, "", at(0))], at(0)).await[0];
    fetch(rig, &["default"], 1, at(5)).await;
    ack(rig, id, at(10)).await;
    let StoredJob { job, version } = stored(rig, id).await;
    assert_eq!((job.state, job.completed_at, version), (JobState::Completed, Some(at(10)), 3));
    assert_eq!((job.result.as_deref(), job.held), (Some("[ 1 ]"), None));
    assert_eq!(rig.told().await, ["job.enqueued", "job.started", "job.changed"]);
    assert_eq!(rig.store().next_due().await.unwrap(), None);
    assert_eq!(depth(rig, "default", JobState::Completed).await, 1);
}

pub async fn a_failed_job_waits_and_is_due_again(rig: &mut Rig) {
    let retry = r#""retry":{"initial_interval":"PT5S","jitter":false}"#;
    let id = enqueue(rig, vec![new(rig, retry, at(0))], at(0)).await[0];
    fetch(rig, &["default"], 1, at(0)).await;
    assert_eq!(
        rig.store().next_due().await.unwrap(),
        Some(at(30_000)),
        "the worker has to give signs of life"
    );
    let job = fail(rig, id, "no", at(100)).await;
    assert_eq!((job.state, job.next_attempt_at), (JobState::Retryable, Some(at(5_100))));
    assert_eq!(rig.store().next_due().await.unwrap(), Some(at(5_100)));
    assert!(rig.store().due_jobs(at(5_099), 10).await.unwrap().is_empty());
    assert!(fetch(rig, &["default"], 1, at(5_100)).await.is_empty());
    let due = rig.store().due_jobs(at(5_100), 10).await.unwrap();
    assert_eq!(due, [stored(rig, id).await]);
    moved(rig, id, |job| job.promoted(at(5_100)).unwrap(), at(5_100)).await;
    assert_eq!(rig.store().next_due().await.unwrap(), None);
    assert_eq!(fetch(rig, &["default"], 1, at(5_200)).await, [id]);
    assert_eq!(stored(rig, id).await.job.attempt, 2);
}

pub async fn whatever_the_clock_has_to_do_is_due_in_order(rig: &mut Rig) {
    let options = [
        r#""delay_until":"+PT3S""#,
        r#""expires_at":"+PT2S""#,
        r#""queue":"held","visibility_timeout_ms":1000,"timeout_ms":9000"#,
        r#""queue":"held","visibility_timeout_ms":9000,"timeout_ms":4000"#,
        r#""pending":true,"expires_at":"+PT1S""#,
        "",
    ];
    let jobs = options.map(|options| new(rig, options, at(0))).to_vec();
    let ids = enqueue(rig, jobs, at(0)).await;
    fetch(rig, &["held"], 10, at(0)).await;
    let due = rig.store().due_jobs(at(100_000), 10).await.unwrap();
    assert_eq!(
        due.iter().map(|stored| stored.job.id).collect::<Vec<_>>(),
        [ids[2], ids[1], ids[0], ids[3]],
        "a reservation, an expiry, a time that has come, a run that takes too long"
    );
    assert_eq!(rig.store().due_jobs(at(2_000), 1).await.unwrap().len(), 1);
    assert_eq!(rig.store().due_jobs(at(2_000), 10).await.unwrap().len(), 2);
    assert_eq!(rig.store().next_due().await.unwrap(), Some(at(1_000)));
    moved(rig, ids[2], |job| job.extended(at(500), None).unwrap(), at(500)).await;
    assert_eq!(rig.store().next_due().await.unwrap(), Some(at(1_500)));
}

pub async fn a_job_that_is_given_back_keeps_its_place(rig: &mut Rig) {
    let ids = enqueue(rig, (0..3).map(|n| new(rig, "", at(n))).collect(), at(5)).await;
    fetch(rig, &["default"], 1, at(10)).await;
    let lost = Failure::reservation_expired(30_000);
    moved(
        rig,
        ids[0],
        |job| {
            let verdict = job.verdict(&lost, 0.5);
            job.failed(lost.clone(), verdict, at(40_000)).unwrap()
        },
        at(40_000),
    )
    .await;
    assert_eq!(fetch(rig, &["default"], 3, at(40_001)).await, ids);
}

pub async fn a_change_of_an_old_version_changes_nothing(rig: &mut Rig) {
    let id = enqueue(rig, vec![new(rig, "", at(0))], at(0)).await[0];
    let old = stored(rig, id).await;
    fetch(rig, &["default"], 1, at(5)).await;
    let before = rig.dump().await;
    let cancelled = old.job.clone().cancelled(at(6)).unwrap();
    let end = LetterEffect::End { evidence: "cancelled" };
    assert_eq!(change(rig, &old, cancelled.clone(), end.clone(), at(6)).await, Changed::Stale);
    for version in [0, 3, u64::MAX] {
        let other = StoredJob { version, ..old.clone() };
        assert_eq!(change(rig, &other, cancelled.clone(), end.clone(), at(6)).await, Changed::Stale);
    }
    let unknown = new(rig, "", at(0));
    let nobody = StoredJob { job: unknown.clone(), version: 1 };
    assert_eq!(change(rig, &nobody, unknown, LetterEffect::None, at(6)).await, Changed::Stale);
    assert_eq!(rig.dump().await, before);
}

pub async fn a_paused_queue_gives_nothing_until_it_goes_on(rig: &mut Rig) {
    let store = rig.shared();
    store.pause_queue("new".into(), true, ana(), at(0)).await.unwrap();
    let jobs = ["new", "other"].map(|queue| new(rig, &format!(r#""queue":"{queue}""#), at(1)));
    let ids = enqueue(rig, jobs.to_vec(), at(1)).await;
    let queues = store.queues().await.unwrap();
    let seen: Vec<_> =
        queues.iter().map(|queue| (queue.name.as_str(), queue.paused, queue.created_at)).collect();
    assert_eq!(seen, [("new", true, at(0)), ("other", false, at(1))]);
    assert_eq!(fetch(rig, &["new", "other"], 10, at(2)).await, [ids[1]]);
    assert!(fetch(rig, &["new"], 10, at(2)).await.is_empty());
    store.pause_queue("new".into(), false, ana(), at(3)).await.unwrap();
    assert_eq!(fetch(rig, &["new"], 10, at(4)).await, [ids[0]]);
}

pub async fn an_expired_job_is_not_handed_out(rig: &mut Rig) {
    let mut jobs: Vec<Job> =
        (0..5).map(|_| new(rig, r#""expires_at":"+PT1S","priority":5"#, at(0))).collect();
    jobs.push(new(rig, "", at(0)));
    let ids = enqueue(rig, jobs, at(0)).await;
    assert_eq!(fetch(rig, &["default"], 1, at(999)).await, [ids[0]]);
    assert_eq!(fetch(rig, &["default"], 2, at(1_000)).await, [ids[5]]);
    let job = stored(rig, ids[1]).await.job;
    assert_eq!((job.state, job.in_dead_letter, job.attempt), (JobState::Discarded, false, 0));
    assert_eq!((job.discarded_at, job.completed_at), (Some(at(1_000)), None));
    assert_eq!(depth(rig, "default", JobState::Discarded).await, 4);
    assert_eq!(rig.told().await.iter().filter(|kind| *kind == "job.discarded").count(), 4);
}

pub async fn ended_jobs_are_forgotten_when_their_time_has_come(rig: &mut Rig) {
    let dead = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let jobs = vec![new(rig, "", at(0)), new(rig, "", at(0)), new(rig, "", at(0)), new(rig, dead, at(0))];
    let ids = enqueue(rig, jobs, at(0)).await;
    fetch(rig, &["default"], 10, at(0)).await;
    ack(rig, ids[0], at(10)).await;
    ack(rig, ids[1], at(20)).await;
    moved(rig, ids[2], |job| job.cancelled(at(10)).unwrap(), at(10)).await;
    fail(rig, ids[3], "no", at(10)).await;
    let prune = async |completed, cancelled, limit| {
        let before = [
            (JobState::Completed, at(completed)),
            (JobState::Cancelled, at(cancelled)),
            (JobState::Discarded, at(1_000)),
        ];
        rig.store().prune_jobs(before, limit).await.unwrap()
    };
    assert_eq!(prune(10, 10, 100).await, 0);
    assert_eq!(prune(11, 10, 100).await, 1);
    assert_eq!(rig.store().job(ids[0]).await.unwrap(), None);
    assert_eq!(prune(1_000, 1_000, 1).await, 1);
    assert_eq!(prune(1_000, 1_000, 1).await, 1);
    assert_eq!(prune(1_000, 1_000, 1).await, 0, "what is in the dead letter stays");
    assert!(stored(rig, ids[3]).await.job.in_dead_letter);
    // An id that is forgotten is free again.
    enqueue(rig, vec![Job { id: ids[0], ..new(rig, "", at(50)) }], at(50)).await;
}

pub async fn jobs_outlive_a_restart(rig: &mut Rig) {
    let options = ["", r#""delay_until":"+PT1S""#, r#""priority":3"#, r#""pending":true"#];
    let ids = enqueue(rig, options.map(|options| new(rig, options, at(0))).to_vec(), at(0)).await;
    fetch(rig, &["default"], 1, at(5)).await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(stored(rig, *id).await);
    }
    rig.store().pause_queue("slow".into(), true, ana(), at(6)).await.unwrap();
    let queues = rig.store().queues().await.unwrap();
    rig.reopen().await;
    for (id, before) in ids.iter().zip(before) {
        assert_eq!(stored(rig, *id).await, before);
    }
    assert_eq!(rig.store().queues().await.unwrap(), queues);
    assert_eq!(rig.store().next_due().await.unwrap(), Some(at(1_000)));
    assert_eq!(fetch(rig, &["default"], 10, at(10)).await, [ids[0]]);
}

pub async fn large_jobs_are_forgotten_few_at_a_time(rig: &mut Rig) {
    let args = format!("[\"{}\"]", noise(limits::CONTENT_BYTES_DROPPED_PER_WRITE / 2));
    for n in 0..6 {
        let job = Job { args: args.clone(), ..new(rig, "", at(n)) };
        let id = enqueue(rig, vec![job], at(n)).await[0];
        fetch(rig, &["default"], 1, at(n)).await;
        ack(rig, id, at(n)).await;
    }
    let before =
        [JobState::Completed, JobState::Cancelled, JobState::Discarded].map(|state| (state, at(100)));
    let mut parts = Vec::new();
    loop {
        match rig.store().prune_jobs(before, 100).await.unwrap() {
            0 => break,
            pruned => parts.push(pruned),
        }
    }
    assert_eq!(parts.iter().sum::<u64>(), 6);
    assert!(parts.iter().all(|pruned| (1..=3).contains(pruned)), "{parts:?}");
}
