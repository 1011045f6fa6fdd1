//! Cases: what a person decides on the letter of a job is done to the job in the same commit.

use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::failure::Verdict;
use lazaret_core::job::state::JobState;
use lazaret_core::letter::{Admitted, Captured};
use lazaret_core::lifecycle::{Action, Refused, Standing, Status};
use lazaret_core::limits::DECISION_ROWS_PER_WRITE;
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::{Decided, OperationState, Verb};
use lazaret_store::job::{Changed, LetterEffect, SOURCE, StoredJob, key_of};
use lazaret_store::transfer::Imported;

use crate::books;
use crate::job_letters::{DYING, dead, kill, letter};
use crate::jobs::{ack, change, enqueue, fail, failure, fetch, moved, new, stored};
use crate::rig::{Rig, ana, at, captured, sqlite};
use crate::transfer::{export, put_in};

/// How many jobs the queue of all cases holds in a state.
async fn depth(rig: &Rig, state: JobState) -> u64 {
    rig.store().queues().await.unwrap().first().map_or(0, |queue| queue.counts[&state])
}

async fn row(rig: &Rig, id: JobId) -> Option<StoredJob> {
    rig.store().job(id).await.unwrap()
}

fn refused(action: Action, status: Status) -> Decided {
    Decided::Refused(Refused { action, standing: Standing::live(status) })
}

pub async fn a_retried_letter_is_out_with_its_job(rig: &mut Rig) {
    let id = dead(rig).await;
    let found = letter(rig, id).await.letter.id;
    let before = stored(rig, id).await;
    let commits = *rig.store().changes().borrow();
    rig.done(found, Verb::Retry, at(5_000)).await;
    assert_eq!(*rig.store().changes().borrow(), commits + 1, "letter and job are never seen apart");
    let after = before.job.retried_from_dead_letter(&Default::default(), at(5_000)).unwrap();
    assert_eq!(stored(rig, id).await, StoredJob { job: after, version: before.version + 1 });
    assert_eq!((depth(rig, JobState::Available).await, depth(rig, JobState::Discarded).await), (1, 0));
    assert_eq!(rig.letter(found).await.status, Status::Reprocessing);
    let told = rig.store().events(0, 100).await.unwrap().pop().unwrap();
    assert_eq!((told.kind.as_str(), told.letter, told.job), ("dead_letter.retried", Some(found), Some(id)));
    assert_eq!((told.actor.as_deref(), told.at), (Some("ana"), at(5_000)));
    let entry = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
    assert_eq!((entry.action.as_str(), entry.letter, entry.actor), ("retry", Some(found), ana()));
    let dump = rig.dump().await;
    for verb in [Verb::Retry, Verb::Delete] {
        let again = rig.decide(found, verb, at(5_001)).await;
        assert_eq!(again, refused(verb.action(), Status::Reprocessing));
    }
    assert_eq!(rig.dump().await, dump);
    assert_eq!(fetch(rig, &["default"], 1, at(5_002)).await, [id]);
    ack(rig, id, at(5_003)).await;
    assert_eq!(rig.letter(found).await.status, Status::Resolved);
    assert_eq!(rig.decide(found, Verb::Retry, at(5_004)).await, refused(Action::Redrive, Status::Resolved));
}

pub async fn a_held_letter_is_retried_and_a_relapse_is_told(rig: &mut Rig) {
    let id = dead(rig).await;
    let found = letter(rig, id).await.letter.id;
    rig.done(found, Verb::Hold, at(4_000)).await;
    rig.done(found, Verb::Retry, at(5_000)).await;
    kill(rig, id, 6_000).await;
    let again = rig.letter(found).await;
    assert_eq!((again.status, again.life, again.hold.is_some()), (Status::Pending, 2, true));
    assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.relapsed");
}

pub async fn only_letters_of_jobs_have_a_way_back(rig: &mut Rig) {
    let plain = rig.create(captured("e1"), at(0)).await;
    // Under the name of our source, but no job can be made of it; and one that speaks of a job in another's name.
    let named = rig.create(Captured { source: SOURCE.into(), ..captured("x") }, at(0)).await;
    let id = dead(rig).await;
    let other = Captured { source: SOURCE.into(), ..captured(&id.to_string()) };
    let other = rig.create(other, at(0)).await;
    let dump = rig.dump().await;
    for letter in [plain, named, other] {
        assert_eq!(rig.decide(letter, Verb::Retry, at(5_000)).await, Decided::NoWayBack);
    }
    assert_eq!(rig.dump().await, dump);
    // What is decided on the stranger is not done to the job.
    for verb in [Verb::Discard, Verb::Reopen, Verb::Resolve, Verb::Delete, Verb::Restore, Verb::Delete] {
        rig.done(other, verb, at(6_000)).await;
        assert!(stored(rig, id).await.job.in_dead_letter);
    }
    rig.done(named, Verb::Delete, at(7_000)).await;
}

pub async fn a_letter_without_its_job_row_is_retried_from_what_it_keeps(rig: &mut Rig) {
    let job = new(rig, DYING, at(0)).fetched(None, at(1), None).unwrap();
    let verdict = Verdict::DeadLetter;
    let killed = job.failed(failure("no"), verdict, at(2)).unwrap();
    let admitted = Admitted { key: key_of(killed.id), ..rig.admit(killed.to_captured(SOURCE, None), at(2)) };
    let found = rig.insert(vec![admitted]).await[0].letter;
    assert_eq!(row(rig, killed.id).await, None);
    rig.done(found, Verb::Retry, at(5)).await;
    let after = killed.retried_from_dead_letter(&Default::default(), at(5)).unwrap();
    assert_eq!(stored(rig, after.id).await, StoredJob { job: after, version: 1 });
    assert_eq!(depth(rig, JobState::Available).await, 1);
}

pub async fn a_list_is_retried_in_chunks(rig: &mut Rig) {
    let count = DECISION_ROWS_PER_WRITE + 30;
    let jobs: Vec<Job> = (0..count).map(|_| dead_job(rig)).collect();
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    for job in jobs {
        bury(rig, job).await;
    }
    let first = letter(rig, ids[0]).await.letter.id;
    let id = rig.open_operation(Verb::Retry, "source:jobs", count as u64, at(10)).await;
    rig.freeze(id).await;
    rig.done(first, Verb::Resolve, at(15)).await;
    let (done, _) = rig.work(id, at(20)).await;
    assert_eq!((done.state, done.done, done.skipped), (OperationState::Done, count as u64 - 1, 1));
    let skipped = rig.store().skipped(id, 10).await.unwrap();
    assert_eq!(
        (skipped[0].letter, skipped[0].reason.as_str()),
        (first, "cannot redrive a letter that is resolved")
    );
    assert_eq!(depth(rig, JobState::Available).await, count as u64 - 1);
    assert_eq!(row(rig, ids[0]).await, None);
    let events = rig.store().events(0, 100_000).await.unwrap();
    let retried = events.iter().filter(|event| event.kind == "dead_letter.retried");
    assert!(retried.clone().all(|event| event.operation == Some(id) && event.job.is_some()));
    assert_eq!(retried.count(), count - 1);
}

/// A job that is about to die, without a row yet.
fn dead_job(rig: &Rig) -> Job {
    let job = new(rig, DYING, at(0)).fetched(None, at(1), None).unwrap();
    job.failed(failure("no"), Verdict::DeadLetter, at(2)).unwrap()
}

/// Writes a dead job with its letter.
async fn bury(rig: &Rig, job: Job) {
    let letter = LetterEffect::Die(Box::new(rig.admit(job.to_captured(SOURCE, None), at(2))));
    let nothing = StoredJob { job: job.clone(), version: 0 };
    let changed = change(rig, &nothing, job, letter, at(2)).await;
    assert_eq!(changed, Changed::Done);
}

pub async fn a_deleted_letter_takes_its_job_along_and_brings_it_back(rig: &mut Rig) {
    let id = dead(rig).await;
    let before = stored(rig, id).await.job;
    let found = letter(rig, id).await.letter.id;
    rig.done(found, Verb::Delete, at(5_000)).await;
    assert_eq!((row(rig, id).await, depth(rig, JobState::Discarded).await), (None, 0));
    assert!(rig.store().letter_of_job(id).await.unwrap().is_none());
    let told = rig.store().events(0, 100).await.unwrap().pop().unwrap();
    assert_eq!((told.kind.as_str(), told.job), ("incident.closed", None));
    let told = rig.store().events(0, 100).await.unwrap().into_iter().rfind(|event| event.letter.is_some());
    assert_eq!(told.and_then(|event| event.job), Some(id));
    rig.reopen().await;
    rig.done(found, Verb::Restore, at(6_000)).await;
    assert_eq!((stored(rig, id).await.job, depth(rig, JobState::Discarded).await), (before, 1));
    assert_eq!(rig.letter(found).await.status, Status::Pending);
    rig.done(found, Verb::Retry, at(7_000)).await;
    fetch(rig, &["default"], 1, at(7_001)).await;
    ack(rig, id, at(7_002)).await;
    // The letter is resolved and the row of its completed job is still there.
    rig.done(found, Verb::Delete, at(8_000)).await;
    assert_eq!((row(rig, id).await, depth(rig, JobState::Completed).await), (None, 0));
    rig.done(found, Verb::Restore, at(9_000)).await;
    assert_eq!((row(rig, id).await, rig.letter(found).await.status), (None, Status::Resolved));
}

pub async fn the_id_of_a_deleted_letter_can_be_enqueued_again(rig: &mut Rig) {
    let id = dead(rig).await;
    let found = letter(rig, id).await.letter.id;
    rig.done(found, Verb::Delete, at(5_000)).await;
    let again = Job { id, ..new(rig, DYING, at(6_000)) };
    enqueue(rig, vec![again.clone()], at(6_000)).await;
    let dump = rig.dump().await;
    assert_eq!(rig.decide(found, Verb::Restore, at(6_500)).await, Decided::Replaced);
    assert_eq!(rig.dump().await, dump);
    kill(rig, id, 7_000).await;
    let next = letter(rig, id).await.letter;
    assert_eq!((next.previous, next.life), (Some(found), 1));
    assert_eq!(rig.decide(found, Verb::Restore, at(9_000)).await, Decided::Replaced);
    rig.done(next.id, Verb::Resolve, at(9_100)).await;
    assert_eq!(row(rig, id).await, None);
    assert_eq!(
        rig.decide(found, Verb::Restore, at(9_200)).await,
        Decided::Replaced,
        "the letter has the key"
    );
    rig.done(next.id, Verb::Delete, at(9_300)).await;
    rig.done(found, Verb::Restore, at(9_400)).await;
    assert_eq!(stored(rig, id).await.job.errors.len(), 2);
    assert_eq!(letter(rig, id).await.letter.id, found);
}

pub async fn a_deleted_letter_of_a_job_that_runs_leaves_it_alone(rig: &mut Rig) {
    // Told of by a report while the job itself still runs.
    let id = enqueue(rig, vec![new(rig, DYING, at(0))], at(0)).await[0];
    fetch(rig, &["default"], 1, at(1)).await;
    let job = stored(rig, id).await.job;
    let verdict = Verdict::DeadLetter;
    let told = job.clone().failed(failure("no"), verdict, at(2)).unwrap();
    let admitted = Admitted { key: key_of(id), ..rig.admit(told.to_captured(SOURCE, None), at(2)) };
    let found = rig.insert(vec![admitted]).await[0].letter;
    assert_eq!(rig.decide(found, Verb::Retry, at(3)).await, Decided::NoWayBack, "it is out already");
    rig.done(found, Verb::Delete, at(4)).await;
    assert_eq!(stored(rig, id).await.job, job);
    assert_eq!(rig.decide(found, Verb::Restore, at(5)).await, Decided::Replaced);
    kill_running(rig, id).await;
    assert_eq!(letter(rig, id).await.letter.previous, Some(found));
}

async fn kill_running(rig: &Rig, id: JobId) {
    fail(rig, id, "first", at(100)).await;
    moved(rig, id, |job| job.promoted(at(1_100)).unwrap(), at(1_100)).await;
    fetch(rig, &["default"], 1, at(1_200)).await;
    fail(rig, id, "second", at(1_300)).await;
}

pub async fn an_imported_letter_of_a_job_brings_the_job(rig: &mut Rig) {
    let (waits, settled, out) = (dead(rig).await, dead(rig).await, dead(rig).await);
    let mut letters = Vec::new();
    for id in [waits, settled, out] {
        letters.push(letter(rig, id).await.letter.id);
    }
    let died = stored(rig, out).await.job;
    rig.done(letters[1], Verb::Resolve, at(5_000)).await;
    rig.done(letters[2], Verb::Retry, at(5_000)).await;
    let there = Rig::open(sqlite()).await;
    assert_eq!(put_in(&there, export(rig, &letters).await).await, [const { Imported::Created }; 3]);
    assert_eq!(stored(&there, waits).await.job, stored(rig, waits).await.job);
    assert_eq!(row(&there, settled).await, None);
    assert_eq!(stored(&there, out).await.job, died, "it waits there");
    assert_eq!(depth(&there, JobState::Discarded).await, 2);
    there.done(letters[0], Verb::Retry, at(6_000)).await;
    assert_eq!(fetch(&there, &["default"], 1, at(6_001)).await, [waits]);
    books::agree(there.store()).await;
    // Where the job itself is, its letter is not put beside it.
    let busy = Rig::open(sqlite()).await;
    enqueue(&busy, vec![Job { id: waits, ..new(&busy, "", at(0)) }], at(0)).await;
    let dump = busy.dump().await;
    let outcome = put_in(&busy, export(rig, &letters[..1]).await).await;
    assert_eq!(outcome, [Imported::Conflict(letters[0])]);
    assert_eq!(busy.dump().await, dump);
}
