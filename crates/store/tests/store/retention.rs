//! Cases: what a limit pushes out goes where the floor and the policy say, and nothing else goes.

use lazaret_core::gate::Passed;
use lazaret_core::id::{JobId, LetterId};
use lazaret_core::incident::IncidentState;
use lazaret_core::job::Job;
use lazaret_core::letter::Captured;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::redrive::RunState;
use lazaret_core::retention::{Limit, PruningPolicy};
use lazaret_core::time::Time;
use lazaret_store::audit::AuditQuery;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::job::SOURCE;
use lazaret_store::moves::Move;
use lazaret_store::retention::{Prunable, PrunableKey, PrunableQuery, Pruned, PrunedQueue, QueueStanding};
use lazaret_store::stats::{Ledger, LedgerBy};

use crate::job_letters::{DYING, dead, kill, letter};
use crate::jobs::{enqueue, new, stored, told};
use crate::redrives::{by_filter, frozen, letters, open, plan, redrive, unpaced};
use crate::rig::{Rig, at, captured, dying};
use crate::shelf::{ARCHIVE, DELETE, Push, Shelf, archived, batch, prunable, push_out, take};

fn in_queue(source: &str, queue: &str, event: &str) -> Captured {
    Captured { source: source.into(), queue: queue.into(), ..captured(event) }
}

async fn ledger(rig: &Rig) -> Ledger {
    rig.store().ledger(LedgerBy::Recount).await.unwrap()
}

async fn may_go(rig: &Rig, status: Status, until: Time) -> Vec<LetterId> {
    prunable(rig, status, until).await.into_iter().map(|letter| letter.key.letter).collect()
}

fn gone(queue: &str, archived: u64, deleted: u64) -> PrunedQueue {
    PrunedQueue { source: "report".into(), queue: queue.into(), archived, deleted }
}

pub async fn queues_are_told_with_what_stands_in_them(rig: &mut Rig) {
    assert_eq!(rig.store().queue_standings().await.unwrap(), []);
    let mut ids = Vec::new();
    for (n, (source, queue)) in
        [("report", "a"), ("report", "a"), ("report", "a"), ("report", "b"), ("outbox", "a")]
            .iter()
            .enumerate()
    {
        ids.push(rig.create(in_queue(source, queue, &format!("e{n}")), at(n as i64)).await);
    }
    rig.done(ids[0], Verb::Hold, at(10)).await;
    rig.done(ids[2], Verb::Resolve, at(20)).await;
    rig.done(ids[3], Verb::Hold, at(20)).await;
    let standing = |source: &str, queue: &str, status, letters, held, oldest_at| QueueStanding {
        source: source.into(),
        queue: queue.into(),
        status,
        letters,
        held,
        oldest_at,
    };
    let mut told = rig.store().queue_standings().await.unwrap();
    told.sort_by_key(|standing| (standing.source.clone(), standing.queue.clone(), standing.status));
    let expected = [
        standing("outbox", "a", Status::Pending, 1, 0, Some(at(4))),
        standing("report", "a", Status::Pending, 2, 1, Some(at(1))),
        standing("report", "a", Status::Resolved, 1, 0, Some(at(20))),
        standing("report", "b", Status::Pending, 1, 1, None),
    ];
    assert_eq!(told, expected);
}

pub async fn letters_may_go_in_the_order_in_which_their_retention_began(rig: &mut Rig) {
    let mut ids = Vec::new();
    for n in 0..8 {
        let queue = ["a", "b", "c"][n % 3];
        ids.push(rig.create(in_queue("report", queue, &format!("e{n}")), at(n as i64 / 2)).await);
    }
    rig.done(ids[1], Verb::Hold, at(10)).await;
    rig.done(ids[2], Verb::Resolve, at(10)).await;
    let waiting: Vec<LetterId> = [0, 3, 4, 5, 6, 7].map(|n| ids[n]).into();
    // Of one moment the id decides, over all queues.
    assert_eq!(may_go(rig, Status::Pending, at(100)).await, waiting);
    assert_eq!(may_go(rig, Status::Pending, at(2)).await, waiting[..4]);
    assert_eq!(may_go(rig, Status::Resolved, at(100)).await, [ids[2]]);
    assert_eq!(may_go(rig, Status::Resolved, at(9)).await, []);
    let query = PrunableQuery {
        queues: vec![("report".into(), "b".into()), ("outbox".into(), "a".into())],
        status: Status::Pending,
        until: at(100),
        after: Some(PrunableKey { retention_at: at(2), letter: ids[4] }),
        planned: None,
        limit: 10,
    };
    let next = rig.store().prunable(query).await.unwrap();
    let expected = Prunable {
        key: PrunableKey { retention_at: at(3), letter: ids[7] },
        source: "report".into(),
        queue: "b".into(),
        letter_type: "order.created".into(),
        since: at(3),
    };
    assert_eq!(next, [expected]);
    // What is restored begins anew, and a death counts for the floor as well.
    assert_eq!(rig.capture(dying_in_a("e0", at(5)), at(6)).await.letter, ids[0]);
    rig.done(ids[3], Verb::Delete, at(7)).await;
    rig.done(ids[3], Verb::Restore, at(8)).await;
    assert_eq!(may_go(rig, Status::Pending, at(100)).await, [4, 5, 6, 7, 0, 3].map(|n| ids[n]));
    let last = prunable(rig, Status::Pending, at(100)).await.pop().unwrap();
    assert_eq!((last.key.retention_at, last.since), (at(8), at(1)));
}

fn dying_in_a(event: &str, died_at: Time) -> Captured {
    Captured { queue: "a".into(), ..dying(event, died_at) }
}

/// Pending letters that may go, by whether a plan is about them.
async fn by_plan(rig: &Rig, planned: Option<bool>) -> Vec<LetterId> {
    let query = PrunableQuery {
        queues: vec![("report".into(), "orders".into())],
        status: Status::Pending,
        until: at(1_000),
        after: None,
        planned,
        limit: 10,
    };
    let found = rig.store().prunable(query).await.unwrap();
    found.into_iter().map(|letter| letter.key.letter).collect()
}

pub async fn letters_of_an_unfinished_plan_are_told_apart(rig: &mut Rig) {
    let ids = rig.create_many(4, at(0)).await;
    assert_eq!((by_plan(rig, Some(true)).await, by_plan(rig, Some(false)).await), (vec![], ids.clone()));
    let (id, _) = frozen(rig, "event:e1,e2", unpaced(), 10).await;
    plan(rig, id, Passed::Freely, 10).await;
    assert_eq!(by_plan(rig, Some(true)).await, ids[1..3]);
    assert_eq!(by_plan(rig, Some(false)).await, [ids[0], ids[3]]);
    assert_eq!(by_plan(rig, None).await, ids);
    // They go all the same if nothing else is left, and the plan passes them by.
    let letters = prunable(rig, Status::Pending, at(20)).await;
    assert_eq!(take(rig, batch(&letters, ARCHIVE, at(20))).await, [gone("orders", 4, 0)]);
    assert_eq!(rig.store().drop_plans(at(100)).await.unwrap(), 1);
    let shelf = Shelf::default();
    assert_eq!(shelf.restore(rig, ids[1], at(30)).await, Decided::Done);
    assert_eq!((by_plan(rig, Some(true)).await, by_plan(rig, Some(false)).await), (vec![], vec![ids[1]]));
}

pub async fn plans_whose_server_died_while_freezing_are_dropped(rig: &mut Rig) {
    rig.create_many(3, at(0)).await;
    let left = open(rig, by_filter("queue:orders"), unpaced(), 10).await;
    let (half, _) = frozen(rig, "queue:orders", unpaced(), 10).await;
    let (planned, _) = frozen(rig, "queue:orders", unpaced(), 10).await;
    plan(rig, planned, Passed::Freely, 20).await;
    let at_work = open(rig, by_filter("queue:orders"), unpaced(), 100).await;
    assert_eq!(rig.store().drop_unfrozen(at(50)).await.unwrap(), 2);
    assert_eq!(rig.store().drop_unfrozen(at(50)).await.unwrap(), 0);
    for id in [left, half] {
        let dropped = redrive(rig, id).await;
        assert_eq!(dropped.state, RunState::Cancelled);
        assert_eq!(dropped.why.as_deref(), Some("planning was interrupted"));
        assert!(letters(rig, id).await.is_empty());
    }
    assert_eq!(redrive(rig, planned).await.state, RunState::Planned);
    assert_eq!(redrive(rig, at_work).await.state, RunState::Planning);
    assert_eq!(by_plan(rig, Some(true)).await.len(), 3, "a plan that waits for its launch holds them back");
    rig.store().drop_plans(at(50)).await.unwrap();
    assert!(by_plan(rig, Some(true)).await.is_empty());
}

pub async fn the_floor_decides_between_archive_and_deletion(rig: &mut Rig) {
    for (policy, at_ms, archives) in [
        (PruningPolicy::Delete, 1_999, true),
        (PruningPolicy::Delete, 2_000, false),
        (PruningPolicy::Archive, 1_999, true),
        (PruningPolicy::Archive, 2_000, true),
    ] {
        rig.store().reset().await.unwrap();
        // It died before it was captured: the floor is counted from the later one.
        let id = rig.create(dying("e1", at(-5_000)), at(1_000)).await;
        let push = Push { policy, min_age_ms: 1_000, ..ARCHIVE };
        let expected = if archives { gone("orders", 1, 0) } else { gone("orders", 0, 1) };
        assert_eq!(push_out(rig, push, at(1_000), at(at_ms)).await, [expected]);
        let counts = ledger(rig).await;
        let sums = (counts.captured, counts.pending, counts.archived, counts.pruned, counts.deleted);
        assert_eq!(sums, if archives { (1, 0, 1, 0, 0) } else { (1, 0, 0, 1, 0) });
        let found = rig.store().archived_letter(id).await.unwrap();
        assert_eq!(found.is_some(), archives);
        assert!(rig.store().history(id).await.unwrap().is_none());
        assert_eq!(rig.find("").await, []);
        let again = rig.capture(dying("e1", at(8_000)), at(9_000)).await.letter;
        let again = rig.letter(again).await;
        match archives {
            true => assert_eq!((again.id, again.life, again.previous), (id, 2, None)),
            false => assert_eq!((again.life, again.previous), (1, Some(id)), "only the key is left"),
        }
    }
}

pub async fn what_goes_is_told_once_for_each_queue(rig: &mut Rig) {
    for n in 0..6_i64 {
        let queue = if n < 4 { "a" } else { "b" };
        rig.create(in_queue("report", queue, &format!("e{n}")), at(n * 100)).await;
    }
    let letters = prunable(rig, Status::Pending, at(1_000)).await;
    let before = rig.told().await.len();
    let push = Push { limit: Limit::MaxCount, min_age_ms: 1_000, ..DELETE };
    let Pruned { mut queues, looked_at } = rig.store().prune(batch(&letters, push, at(1_250))).await.unwrap();
    queues.sort_by_key(|queue| queue.queue.clone());
    assert_eq!((queues, looked_at), (vec![gone("a", 1, 3), gone("b", 2, 0)], 6));
    let mut told = Vec::new();
    for event in rig.store().events(0, 100).await.unwrap().split_off(before) {
        if event.kind == "dead_letter.pruned" {
            assert_eq!((event.letter, event.actor.as_deref(), event.at), (None, Some("lazaret"), at(1_250)));
            let detail: serde_json::Value = serde_json::from_str(&event.detail.unwrap()).unwrap();
            told.push(detail);
        }
    }
    told.sort_by_key(|detail| detail["queue"].to_string());
    let detail = |queue: &str, archived: u64, deleted: u64| {
        serde_json::json!({"source": "report", "queue": queue, "reason": "max_count", "archived": archived,
                           "deleted": deleted})
    };
    assert_eq!(told, [detail("a", 1, 3), detail("b", 2, 0)]);
    let mut entries: Vec<_> = rig.store().audit(AuditQuery::newest(2)).await.unwrap();
    entries.sort_by_key(|entry| entry.filter.clone());
    for (entry, count) in entries.iter().zip([4, 2]) {
        assert_eq!((entry.action.as_str(), entry.count), ("prune", count));
        assert_eq!((entry.actor.name.as_str(), entry.actor.role.as_str()), ("lazaret", "system"));
        assert_eq!((entry.reason.as_deref(), entry.letter), (Some("max_count"), None));
    }
    let pruned = |queue: &str| Move {
        kind: "dead_letter.pruned",
        source: "report".into(),
        queue: queue.into(),
        letter_type: "order.created".into(),
        rule: String::new(),
    };
    let moves = rig.store().moves();
    for (queue, times) in [("a", 4), ("b", 2)] {
        assert!(moves.contains(&(pruned(queue), times)), "{moves:?}");
    }
    let kept = archived(rig, Place::Archived).await;
    assert!(kept.iter().all(|kept| kept.reason == "max_count" && kept.removed_by == "lazaret"), "{kept:?}");
    assert_eq!(kept.len(), 3);
}

pub async fn what_is_held_out_or_began_anew_stays(rig: &mut Rig) {
    let ids = rig.create_many(6, at(0)).await;
    let letters = prunable(rig, Status::Pending, at(10)).await;
    rig.done(ids[0], Verb::Hold, at(20)).await;
    rig.send(ids[1], ClaimStep::Sent, at(20)).await;
    rig.done(ids[2], Verb::Resolve, at(20)).await;
    rig.done(ids[3], Verb::Delete, at(20)).await;
    rig.capture(dying("e4", at(15)), at(20)).await;
    rig.done(ids[5], Verb::Delete, at(20)).await;
    rig.done(ids[5], Verb::Restore, at(21)).await;
    let before = rig.dump().await;
    for push in [ARCHIVE, DELETE, Push { status: Status::Reprocessing, ..DELETE }] {
        assert_eq!(take(rig, batch(&letters, push, at(30))).await, []);
    }
    assert_eq!(rig.dump().await, before);
    // A letter that is out may have been looked at as one of those that are.
    let out = Prunable { key: PrunableKey { retention_at: at(0), letter: ids[1] }, ..letters[1].clone() };
    for status in Status::ALL {
        assert_eq!(take(rig, batch(std::slice::from_ref(&out), Push { status, ..DELETE }, at(30))).await, []);
    }
    assert_eq!(rig.dump().await, before);
    let unknown = Prunable {
        key: PrunableKey { letter: LetterId::mint(at(0), rig.mint()), ..letters[0].key },
        ..letters[0].clone()
    };
    assert_eq!(take(rig, batch(&[unknown], DELETE, at(30))).await, []);
    assert_eq!(push_out(rig, ARCHIVE, at(30), at(40)).await, [gone("orders", 2, 0)]);
    rig.done(ids[0], Verb::Release, at(50)).await;
    assert_eq!(push_out(rig, ARCHIVE, at(30), at(60)).await, [gone("orders", 1, 0)]);
}

pub async fn what_was_settled_goes_by_its_own_limit(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    rig.done(ids[0], Verb::Resolve, at(100)).await;
    rig.done(ids[1], Verb::Discard, at(200)).await;
    for (status, id, decided_ms) in [(Status::Resolved, ids[0], 100), (Status::Discarded, ids[1], 200)] {
        let push = Push { status, ..ARCHIVE };
        assert_eq!(push_out(rig, push, at(decided_ms - 1), at(1_000)).await, []);
        assert_eq!(push_out(rig, push, at(decided_ms), at(1_000)).await, [gone("orders", 1, 0)]);
        let kept = rig.store().archived_letter(id).await.unwrap().unwrap();
        assert_eq!((kept.letter.status, kept.letter.resolution.unwrap().at), (status, at(decided_ms)));
    }
    // What waits again waits since it died.
    assert_eq!(Shelf::default().restore(rig, ids[0], at(2_000)).await, Decided::Done);
    rig.done(ids[0], Verb::Reopen, at(3_000)).await;
    assert_eq!(may_go(rig, Status::Pending, at(0)).await, [ids[0], ids[2]]);
}

async fn job(rig: &Rig, id: JobId) -> Option<Job> {
    rig.store().job(id).await.unwrap().map(|stored| stored.job)
}

pub async fn a_job_goes_and_comes_back_with_its_letter(rig: &mut Rig) {
    let id = dead(rig).await;
    let (found, before) = (letter(rig, id).await.letter.id, stored(rig, id).await.job);
    let commits = *rig.store().changes().borrow();
    let expected = PrunedQueue { source: SOURCE.into(), queue: "default".into(), archived: 1, deleted: 0 };
    assert_eq!(push_out(rig, ARCHIVE, at(5_000), at(5_000)).await, [expected]);
    assert_eq!(*rig.store().changes().borrow(), commits + 1, "letter and job are never seen apart");
    assert_eq!(job(rig, id).await, None);
    assert!(rig.store().letter_of_job(id).await.unwrap().is_none());
    let again = || vec![(Job { id, ..new(rig, DYING, at(6_000)) }, told("job.enqueued"))];
    let mut shelf = Shelf::default();
    for filed in [false, true] {
        if filed {
            shelf.file(rig, at(5_500)).await;
        }
        let dump = rig.dump().await;
        assert_eq!(
            rig.store().enqueue_jobs(again(), at(6_000)).await.unwrap(),
            Err(id),
            "its letter keeps it"
        );
        assert_eq!(rig.dump().await, dump);
        assert_eq!(shelf.restore(rig, found, at(7_000)).await, Decided::Done);
        assert_eq!(job(rig, id).await.unwrap().errors, before.errors);
        assert_eq!(letter(rig, id).await.letter.id, found);
        let told = rig.store().events(0, 1_000).await.unwrap();
        let restored = told.iter().rfind(|event| event.kind == "dead_letter.restored").unwrap();
        assert_eq!((restored.letter, restored.job, restored.at), (Some(found), Some(id), at(7_000)));
        push_out(rig, ARCHIVE, at(7_000), at(7_500)).await;
    }
    assert_eq!(shelf.restore(rig, found, at(8_000)).await, Decided::Done);
    assert_eq!(push_out(rig, DELETE, at(8_000), at(8_000)).await[0].deleted, 1);
    assert_eq!(job(rig, id).await, None);
    enqueue(rig, vec![Job { id, ..new(rig, DYING, at(9_000)) }], at(9_000)).await;
    kill(rig, id, 9_000).await;
    assert_eq!(letter(rig, id).await.letter.previous, Some(found));
}

pub async fn an_incident_closes_when_its_last_letter_is_archived(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    let incident = rig.letter(ids[0]).await.incident;
    let state = async |rig: &Rig| {
        let found = rig.store().incident(incident).await.unwrap().unwrap().incident;
        (found.state, found.letters)
    };
    assert_eq!(push_out(rig, ARCHIVE, at(0), at(60_000)).await, [gone("orders", 2, 0)]);
    assert_eq!(state(rig).await, (IncidentState::Closed, 0));
    let mut shelf = Shelf::default();
    assert_eq!(shelf.restore(rig, ids[0], at(120_000)).await, Decided::Done);
    assert_eq!(state(rig).await, (IncidentState::Open, 1));
    shelf.file(rig, at(130_000)).await;
    assert_eq!(shelf.restore(rig, ids[1], at(180_000)).await, Decided::Done);
    assert_eq!(state(rig).await, (IncidentState::Open, 2));
}
