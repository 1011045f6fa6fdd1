//! Cases: a rule puts letters back, each so many times and no more, and says so.

use lazaret_core::class::Category;
use lazaret_core::filter::Filter;
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::Verb;
use lazaret_store::replay::{Replay, ReplayQuery, Replayed, RuleRecord};

use crate::jobs::{ack, enqueue, fail, fetch, new, stored};
use crate::rig::{Rig, ana, at, captured, envelope, noise};

const DYING: &str = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;

pub fn query(rule: &str, filter: &str, max_replays: u32, ms: i64) -> ReplayQuery {
    let filter = Filter::from_text(filter).unwrap();
    ReplayQuery { rule: rule.into(), filter, max_replays, now: at(ms), limit: 100 }
}

async fn replayable(rig: &Rig, query: ReplayQuery) -> Vec<(LetterId, u32)> {
    rig.store().replayable(query).await.unwrap()
}

async fn replay(
    rig: &Rig,
    rule: &str,
    max_replays: u32,
    letters: &[(LetterId, u32)],
    ms: i64,
) -> Vec<Replayed> {
    let replay = Replay {
        rule: rule.into(),
        category: Category::Infrastructure,
        max_replays,
        letters: letters.to_vec(),
        at: at(ms),
    };
    rig.store().replay(replay).await.unwrap()
}

/// Runs a job into the dead letter at a time.
async fn die(rig: &Rig, id: JobId, ms: i64) -> LetterId {
    assert_eq!(fetch(rig, &["default"], 1, at(ms)).await, [id]);
    assert!(fail(rig, id, "no", at(ms)).await.in_dead_letter);
    letter_of(rig, id).await
}

async fn letter_of(rig: &Rig, id: JobId) -> LetterId {
    rig.store().letter_of_job(id).await.unwrap().unwrap().letter.id
}

/// Jobs that died one second after the other.
pub async fn dead(rig: &Rig, count: i64) -> Vec<(JobId, LetterId)> {
    let mut all = Vec::new();
    for n in 0..count {
        let id = enqueue(rig, vec![new(rig, DYING, at(n * 1_000))], at(n * 1_000)).await[0];
        all.push((id, die(rig, id, n * 1_000).await));
    }
    all
}

pub async fn a_rule_finds_the_longest_dead_first(rig: &mut Rig) {
    let dead = dead(rig, 5).await;
    rig.create(captured("e1"), at(0)).await;
    let letters: Vec<_> = dead.iter().map(|(_, letter)| (*letter, 1)).collect();
    assert_eq!(replayable(rig, query("r", "status:pending", 3, 600_000)).await, letters);
    let few = ReplayQuery { limit: 2, ..query("r", "status:pending", 3, 600_000) };
    assert_eq!(replayable(rig, few.clone()).await, letters[..2]);
    assert_eq!(replayable(rig, few).await, letters[..2], "being found is not being put back");
    assert_eq!(replayable(rig, query("r", "queue:other", 3, 600_000)).await, []);
    // What has not waited long enough is not found, until it has.
    assert_eq!(replayable(rig, query("late", "age:>1h", 3, 3_602_000)).await, letters[..2]);
    assert_eq!(replayable(rig, query("late", "age:>1h", 3, 3_603_500)).await, letters[..4]);
    rig.done(dead[0].1, Verb::Resolve, at(600_001)).await;
    assert_eq!(replayable(rig, query("r", "status:pending", 3, 600_002)).await, letters[1..]);
}

pub async fn a_replayed_job_says_so(rig: &mut Rig) {
    let (job, letter) = dead(rig, 1).await[0];
    assert_eq!(replay(rig, "night \"shift\"", 3, &[(letter, 1)], 60_000).await, [Replayed::Done]);
    let found = stored(rig, job).await.job;
    assert_eq!((found.state, found.attempt, found.in_dead_letter), (JobState::Available, 0, false));
    assert_eq!((found.re_enqueued_at, found.errors.len()), (Some(at(60_000)), 1));
    let meta: serde_json::Value = serde_json::from_str(&found.meta).unwrap();
    assert_eq!(
        meta,
        serde_json::json!({
            "tenant_id": "acme", "aggregate_id": "o7", "ojs.replay_count": 1,
            "ojs.last_replayed_at": at(60_000).to_string(), "ojs.replay_rule": "night \"shift\"",
        })
    );
    assert_eq!(rig.letter(letter).await.status, Status::Reprocessing);
    assert_eq!(rig.told_of_letters().await, ["dead_letter.added", "dead_letter.replayed"]);
    let event = rig.store().events(0, 100).await.unwrap().pop().unwrap();
    assert_eq!((event.letter, event.job, event.at), (Some(letter), Some(job), at(60_000)));
    let data: serde_json::Value = serde_json::from_str(&event.detail.unwrap()).unwrap();
    assert_eq!(data, serde_json::json!({ "rule": "night \"shift\"", "replay_count": 1 }));
    let entry = rig.store().audit(AuditQuery::newest(10)).await.unwrap().remove(0);
    assert_eq!((entry.actor.name.as_str(), entry.actor.role.as_str()), ("rule:night \"shift\"", "system"));
    assert_eq!((entry.action.as_str(), entry.count), ("replay", 1));
    let decided = rig.history(letter).await.decisions.remove(0);
    assert_eq!((decided.action.as_str(), decided.actor.as_str()), ("replay", "rule:night \"shift\""));
    // It goes its way as any other.
    assert_eq!(fetch(rig, &["default"], 1, at(60_001)).await, [job]);
    ack(rig, job, at(60_002)).await;
    assert_eq!(rig.letter(letter).await.status, Status::Resolved);
}

pub async fn a_rule_puts_a_letter_back_so_many_times_over_all_its_lives(rig: &mut Rig) {
    let (job, letter) = dead(rig, 1).await[0];
    for n in 1..=3_u32 {
        let ms = i64::from(n) * 100_000;
        let found = replayable(rig, query("r", "queue:default", 3, ms)).await;
        assert_eq!(found, [(letter, n)]);
        assert_eq!(replay(rig, "r", 3, &found, ms).await, [Replayed::Done]);
        let meta: serde_json::Value = serde_json::from_str(&stored(rig, job).await.job.meta).unwrap();
        assert_eq!(meta["ojs.replay_count"], n);
        die(rig, job, ms + 1_000).await;
    }
    assert_eq!(replayable(rig, query("r", "queue:default", 3, 500_000)).await, []);
    assert_eq!(replay(rig, "r", 3, &[(letter, 4)], 500_000).await, [Replayed::Spent]);
    // Another rule counts for itself, and the job counts them all. A rule that is allowed more goes on.
    assert_eq!(replayable(rig, query("other", "queue:default", 1, 500_000)).await, [(letter, 4)]);
    assert_eq!(replay(rig, "other", 1, &[(letter, 4)], 500_000).await, [Replayed::Done]);
    let meta: serde_json::Value = serde_json::from_str(&stored(rig, job).await.job.meta).unwrap();
    assert_eq!((&meta["ojs.replay_count"], &meta["ojs.replay_rule"]), (&4.into(), &"other".into()));
    die(rig, job, 501_000).await;
    assert_eq!(replayable(rig, query("r", "queue:default", 4, 600_000)).await, [(letter, 5)]);
    rig.reopen().await;
    assert_eq!(replayable(rig, query("r", "queue:default", 3, 600_000)).await, []);
    let records = rig.store().rule_records().await.unwrap();
    let record = |rule: &str, replayed, ms| {
        let last_at = Some(at(ms));
        RuleRecord { rule: rule.into(), switched: None, replayed, last_at }
    };
    assert_eq!(records, [record("other", 1, 500_000), record("r", 3, 300_000)]);
}

pub async fn what_moved_or_has_no_way_back_stays(rig: &mut Rig) {
    let dead = dead(rig, 3).await;
    let report = rig.create(captured("e1"), at(0)).await;
    rig.done(dead[0].1, Verb::Resolve, at(10_000)).await;
    let unknown = LetterId::mint(at(0), [255; 10]);
    let asked = [(dead[0].1, 1), (dead[1].1, 2), (dead[2].1, 1), (dead[2].1, 1), (report, 1), (unknown, 1)];
    let before = rig.store().audit(AuditQuery::newest(100)).await.unwrap().len();
    assert_eq!(
        replay(rig, "r", 3, &asked, 60_000).await,
        [
            Replayed::Moved,
            Replayed::Moved,
            Replayed::Done,
            Replayed::Moved,
            Replayed::NoWayBack,
            Replayed::Moved
        ]
    );
    let log = rig.store().audit(AuditQuery::newest(100)).await.unwrap();
    assert_eq!((log.len(), log[0].count), (before + 1, 1), "one entry for all that were put back");
    let dump = rig.dump().await;
    assert_eq!(replay(rig, "r", 3, &asked[..2], 60_001).await, [Replayed::Moved, Replayed::Moved]);
    assert_eq!(replay(rig, "r", 0, &[(dead[1].1, 1)], 60_001).await, [Replayed::Spent]);
    assert_eq!(replay(rig, "r", 3, &[], 60_001).await, []);
    assert_eq!(rig.dump().await, dump, "nothing put back is nothing to tell");
}

pub async fn a_letter_that_cannot_be_put_back_stands_in_nobodys_way(rig: &mut Rig) {
    // Reports under the name of our source, under ids of jobs that nobody has.
    for n in 0..3 {
        let mut odd = captured(&JobId::mint(at(0), rig.mint()).to_string());
        odd.source = "jobs".into();
        odd.died_at = Some(at(-100_000 + n));
        odd.reported = None;
        odd.envelope = envelope(b"no arguments");
        rig.create(odd, at(0)).await;
    }
    let (_, letter) = dead(rig, 1).await[0];
    let ask = |ms| ReplayQuery { limit: 2, ..query("r", "source:jobs", 3, ms) };
    let mut put_back = Vec::new();
    for ms in 1..10 {
        let found = replayable(rig, ask(100_000 + ms)).await;
        let outcomes = replay(rig, "r", 3, &found, 100_000 + ms).await;
        put_back.extend(found.into_iter().zip(outcomes).filter(|(_, outcome)| *outcome == Replayed::Done));
    }
    assert_eq!(put_back, [((letter, 1), Replayed::Done)]);
    assert_eq!(replayable(rig, ask(200_000)).await, []);
    // They are tried again in the next round.
    assert_eq!(replayable(rig, ask(200_000 + limits::REPLAY_ROUND_MS)).await.len(), 2);
    // Whatever they are, they are not jobs: the case ends without them.
    for letter in rig.find("source:jobs status:pending").await {
        rig.done(letter, Verb::Discard, at(900_000)).await;
    }
}

pub async fn a_letter_that_waits_again_by_hand_is_found_again(rig: &mut Rig) {
    let dead = dead(rig, 2).await;
    rig.done(dead[0].1, Verb::Resolve, at(5_000)).await;
    rig.done(dead[1].1, Verb::Hold, at(5_000)).await;
    let ask = |ms| query("r", "held:no", 3, ms);
    assert_eq!(replayable(rig, ask(500_000)).await, []);
    rig.done(dead[0].1, Verb::Reopen, at(500_001)).await;
    assert_eq!(replayable(rig, ask(500_002)).await, [(dead[0].1, 1)]);
    rig.done(dead[1].1, Verb::Release, at(500_003)).await;
    assert_eq!(replayable(rig, ask(500_004)).await.len(), 2);
    rig.done(dead[0].1, Verb::Discard, at(500_005)).await;
    rig.done(dead[1].1, Verb::Discard, at(500_005)).await;
    assert_eq!(replayable(rig, ask(510_000)).await, []);
    let operation = rig.open_operation(Verb::Reopen, "status:discarded", 2, at(510_001)).await;
    rig.freeze(operation).await;
    rig.work(operation, at(510_002)).await;
    assert_eq!(replayable(rig, ask(510_003)).await.len(), 2);
}

pub async fn a_rule_by_content_takes_exactly_what_matches(rig: &mut Rig) {
    let mut wanted = Vec::new();
    for n in 0..6_i64 {
        let job = Job { args: format!(r#"[{{"n":{n}}}]"#), ..new(rig, DYING, at(n * 1_000)) };
        let id = enqueue(rig, vec![job], at(n * 1_000)).await[0];
        let letter = die(rig, id, n * 1_000).await;
        if n >= 4 {
            wanted.push((letter, 1));
        }
    }
    let by_path = query("path", "path:$[?@.n>=4]", 3, 600_000);
    assert_eq!(replayable(rig, by_path.clone()).await, wanted);
    assert_eq!(replayable(rig, query("word", "body:4", 3, 600_000)).await, wanted[..1]);
    assert_eq!(replay(rig, "path", 3, &wanted, 600_001).await, [Replayed::Done, Replayed::Done]);
    assert_eq!(replayable(rig, by_path).await, []);
    assert_eq!(replayable(rig, query("word", "boom no", 3, 600_002)).await.len(), 4);
}

pub async fn two_ticks_race_and_a_letter_is_put_back_once(rig: &mut Rig) {
    let dead = dead(rig, 20).await;
    let letters: Vec<_> = dead.iter().map(|(_, letter)| (*letter, 1)).collect();
    let mut ticks = tokio::task::JoinSet::new();
    for n in 0..4 {
        let (store, letters) = (rig.shared(), letters.clone());
        ticks.spawn(async move {
            let replay = Replay {
                rule: format!("r{n}"),
                category: Category::Infrastructure,
                max_replays: 3,
                letters,
                at: at(60_000),
            };
            store.replay(replay).await.unwrap()
        });
    }
    let outcomes: Vec<Replayed> = ticks.join_all().await.into_iter().flatten().collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Replayed::Done).count(), 20);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Replayed::Done | Replayed::Moved)));
    assert_eq!(fetch(rig, &["default"], 100, at(60_001)).await.len(), 20);
}

pub async fn a_job_whose_row_is_gone_is_made_from_its_letter(rig: &mut Rig) {
    let full = format!(r#"{{"k":"{}"}}"#, "x".repeat(limits::JOB_META_BYTES_MAX - 50));
    let job = Job { meta: full.clone(), ..new(rig, DYING, at(0)) };
    let id = enqueue(rig, vec![job], at(0)).await[0];
    let letter = die(rig, id, 0).await;
    // A meta that has no room for our marks is no reason to leave the job dead.
    assert_eq!(replay(rig, "r", 3, &[(letter, 1)], 60_000).await, [Replayed::Done]);
    assert_eq!(stored(rig, id).await.job.meta, full);
    // Cancelled, forgotten and reopened: the row comes from the letter.
    let before = stored(rig, id).await;
    let after = before.job.clone().cancelled(at(60_001)).unwrap();
    let end = lazaret_store::job::LetterEffect::End { evidence: "cancelled" };
    crate::jobs::change(rig, &before, after, end, at(60_001)).await;
    let all =
        [JobState::Completed, JobState::Cancelled, JobState::Discarded].map(|state| (state, at(70_000)));
    assert_eq!(rig.store().prune_jobs(all, 10).await.unwrap(), 1);
    assert_eq!(rig.store().job(id).await.unwrap(), None);
    rig.done(letter, Verb::Reopen, at(60_002)).await;
    assert_eq!(replay(rig, "r", 3, &[(letter, 1)], 60_003).await, [Replayed::Done]);
    assert_eq!(fetch(rig, &["default"], 1, at(60_004)).await, [id]);
}

pub async fn a_rule_is_switched_by_a_person(rig: &mut Rig) {
    let store = rig.shared();
    assert_eq!(store.rule_records().await.unwrap(), []);
    store.switch_rule("r".into(), false, ana(), at(0)).await.unwrap();
    store.switch_rule("a".into(), true, ana(), at(1)).await.unwrap();
    let switched = async || -> Vec<_> {
        let records = rig.store().rule_records().await.unwrap();
        records.into_iter().map(|record| (record.rule, record.switched, record.replayed)).collect()
    };
    assert_eq!(switched().await, [("a".into(), Some(true), 0), ("r".into(), Some(false), 0)]);
    store.switch_rule("r".into(), true, ana(), at(2)).await.unwrap();
    let (_, letter) = dead(rig, 1).await[0];
    replay(rig, "r", 3, &[(letter, 1)], 60_000).await;
    assert_eq!(switched().await[1], ("r".into(), Some(true), 1), "what it does does not switch it");
    let log = store.audit(AuditQuery::newest(10)).await.unwrap();
    let seen: Vec<_> = log.iter().map(|entry| (entry.action.as_str(), entry.reason.as_deref())).collect();
    assert_eq!(
        seen,
        [
            ("replay", None),
            ("rule_enabled", Some("r")),
            ("rule_enabled", Some("a")),
            ("rule_disabled", Some("r"))
        ]
    );
    drop(store);
    rig.reopen().await;
    assert_eq!(rig.store().rule_records().await.unwrap().len(), 2);
}

pub async fn large_jobs_are_put_back_in_several_commits(rig: &mut Rig) {
    let args = format!("[\"{}\"]", noise(limits::JOB_BYTES_MAX - 10_000));
    let mut letters = Vec::new();
    for n in 0..30 {
        let job = Job { args: args.clone(), ..new(rig, DYING, at(n)) };
        let id = enqueue(rig, vec![job], at(n)).await[0];
        letters.push((die(rig, id, n).await, 1));
    }
    let changes = rig.store().changes();
    let commits = *changes.borrow();
    assert_eq!(replay(rig, "r", 3, &letters, 60_000).await, vec![Replayed::Done; 30]);
    assert!(*changes.borrow() - commits > 1, "thirty megabytes must not keep all others waiting at once");
    assert_eq!(rig.store().rule_records().await.unwrap()[0].replayed, 30);
    let told: u64 =
        rig.store().audit(AuditQuery::newest(100)).await.unwrap().iter().map(|entry| entry.count).sum();
    assert_eq!(told, 30);
}
