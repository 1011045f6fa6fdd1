//! Cases: a job and its letter move together, and the letter leads.

use lazaret_core::gate::Governance;
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::reenqueue::Override;
use lazaret_core::job::state::JobState;
use lazaret_core::letter::{Captured, Resolution, Strategy};
use lazaret_core::lifecycle::{Action, Refused, Standing, Status};
use lazaret_core::time::Time;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::job::{Changed, LetterEffect, SOURCE, StoredJob, key_of};
use lazaret_store::page::LetterHistory;
use lazaret_store::stats::StatsOf;

use crate::jobs::{ack, change, enqueue, fail, fetch, moved, new, stored, told};
use crate::rig::{Rig, at, captured, dying};

pub const DYING: &str = r#""retry":{"max_attempts":2,"initial_interval":"PT1S","jitter":false,
    "on_exhaustion":"dead_letter"}"#;

/// Runs a job that has two attempts until it is in its last one.
async fn wear_out(rig: &Rig, id: JobId, ms: i64) {
    fetch(rig, &["default"], 1, at(ms)).await;
    fail(rig, id, "first", at(ms + 100)).await;
    moved(rig, id, |job| job.promoted(at(ms + 1_100)).unwrap(), at(ms + 1_100)).await;
    fetch(rig, &["default"], 1, at(ms + 1_200)).await;
}

/// Runs a job until it is in the dead letter, from a time on.
pub async fn kill(rig: &Rig, id: JobId, ms: i64) {
    wear_out(rig, id, ms).await;
    let job = fail(rig, id, "second", at(ms + 1_300)).await;
    assert!(job.in_dead_letter);
}

pub async fn dead(rig: &Rig) -> JobId {
    let id = enqueue(rig, vec![new(rig, DYING, at(0))], at(0)).await[0];
    kill(rig, id, 0).await;
    id
}

pub async fn letter(rig: &Rig, id: JobId) -> LetterHistory {
    rig.store().letter_of_job(id).await.unwrap().expect("the job has a letter")
}

/// Takes a job out of the dead letter, whatever comes of it.
async fn retry(rig: &Rig, id: JobId, at: Time) -> Changed {
    let before = stored(rig, id).await;
    let after = before.job.clone().retried_from_dead_letter(&Override::default(), at).unwrap();
    let letter = letter(rig, id).await.letter.id;
    change(rig, &before, after, LetterEffect::Redrive(letter, Governance::Optional), at).await
}

fn by_jobs(ms: i64, strategy: Strategy, evidence: &str) -> Option<Resolution> {
    Some(Resolution { at: at(ms), strategy, by: "source:jobs".into(), notes: Some(evidence.into()) })
}

pub async fn a_job_out_of_attempts_is_a_letter_with_its_whole_history(rig: &mut Rig) {
    let id = enqueue(rig, vec![new(rig, DYING, at(0))], at(0)).await[0];
    assert!(rig.store().letter_of_job(id).await.unwrap().is_none());
    wear_out(rig, id, 0).await;
    let (changes, before) = (rig.store().changes(), rig.told().await);
    let commits = *changes.borrow();
    fail(rig, id, "second", at(1_300)).await;
    assert_eq!(*changes.borrow(), commits + 1, "letter and job are never seen apart");
    assert_eq!(rig.told().await[before.len()..], ["incident.opened", "dead_letter.added", "job.changed"]);
    let LetterHistory { letter, lives, attempts, .. } = letter(rig, id).await;
    assert_eq!((letter.source.as_str(), letter.event_id.clone()), (SOURCE, id.to_string()));
    assert_eq!((letter.status, letter.life, letter.tenant.as_deref()), (Status::Pending, 1, Some("acme")));
    assert_eq!((letter.died_at, lives.len()), (at(1_300), 1));
    let messages: Vec<_> = attempts.iter().map(|told| told.attempt.error.message.as_str()).collect();
    assert_eq!(messages, ["first", "second"]);
    let job = stored(rig, id).await.job;
    assert_eq!((job.state, job.in_dead_letter), (JobState::Discarded, true));
    let original = rig.store().original(letter.id, None).await.unwrap().unwrap();
    assert_eq!(&original.envelope.body()[..], job.args.as_bytes());
    let runs = attempts.iter().map(|told| &told.attempt);
    let record = lives[0].reported.as_deref().unwrap();
    assert_eq!(Job::from_letter(&original.envelope, record, runs).unwrap(), job, "the letter is enough");
    assert_eq!(rig.find("source:jobs").await, [letter.id]);
}

pub async fn a_letter_of_a_job_is_found_by_its_id_alone(rig: &mut Rig) {
    let id = dead(rig).await;
    let letter = letter(rig, id).await.letter;
    let export = rig.store().export(vec![letter.id]).await.unwrap().remove(0);
    assert_eq!(export.key, key_of(id));
    let again = vec![(Job { id, ..new(rig, "", at(5_000)) }, told("job.enqueued"))];
    assert_eq!(rig.store().enqueue_jobs(again, at(5_000)).await.unwrap(), Err(id));
}

pub async fn a_job_retried_from_the_dead_letter_is_out_with_its_letter(rig: &mut Rig) {
    let id = dead(rig).await;
    assert_eq!(retry(rig, id, at(5_000)).await, Changed::Done);
    let found = letter(rig, id).await.letter;
    assert_eq!((found.status, found.life), (Status::Reprocessing, 1));
    let job = stored(rig, id).await.job;
    assert_eq!((job.state, job.attempt, job.errors.len()), (JobState::Available, 0, 2));
    assert_eq!(rig.told_of_letters().await, ["dead_letter.added", "dead_letter.retried"]);
    let event = rig.store().events(0, 100).await.unwrap().into_iter().rfind(|event| event.letter.is_some());
    assert_eq!(event.and_then(|event| event.job), Some(id));
    // Nobody can settle by hand what is out.
    for verb in [Verb::Resolve, Verb::Discard, Verb::Reopen] {
        assert!(matches!(
            rig.decide(found.id, verb, at(5_001)).await,
            lazaret_store::decision::Decided::Refused(_)
        ));
    }
    assert_eq!(fetch(rig, &["default"], 1, at(5_002)).await, [id]);
}

pub async fn a_retried_job_that_dies_again_relapses(rig: &mut Rig) {
    let id = dead(rig).await;
    let first = letter(rig, id).await.letter.id;
    for life in 2..=4 {
        let ms = i64::from(life) * 10_000;
        assert_eq!(retry(rig, id, at(ms)).await, Changed::Done);
        kill(rig, id, ms + 1).await;
        let LetterHistory { letter, lives, attempts, .. } = letter(rig, id).await;
        assert_eq!((letter.id, letter.status, letter.life), (first, Status::Pending, life));
        assert_eq!((lives.len(), attempts.len()), (life as usize, 2 * life as usize));
        assert_eq!(attempts.iter().filter(|told| told.life == life).count(), 2);
        assert_eq!(stored(rig, id).await.job.errors.len(), 2 * life as usize);
        assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.relapsed");
    }
}

pub async fn a_retried_job_that_succeeds_resolves_its_letter(rig: &mut Rig) {
    let id = dead(rig).await;
    retry(rig, id, at(5_000)).await;
    fetch(rig, &["default"], 1, at(5_001)).await;
    ack(rig, id, at(5_002)).await;
    let found = letter(rig, id).await.letter;
    let expected = by_jobs(5_002, Strategy::ManualRetry, "acked");
    assert_eq!((found.status, found.resolution), (Status::Resolved, expected));
    assert_eq!(stored(rig, id).await.job.state, JobState::Completed);
    assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.resolved");
    // The row may go; the letter still keeps the id.
    let before =
        [JobState::Completed, JobState::Cancelled, JobState::Discarded].map(|state| (state, at(9_000)));
    assert_eq!(rig.store().prune_jobs(before, 10).await.unwrap(), 1);
    let again = vec![(Job { id, ..new(rig, "", at(9_000)) }, Vec::new())];
    assert_eq!(rig.store().enqueue_jobs(again, at(9_000)).await.unwrap(), Err(id));
}

pub async fn a_retried_job_that_ends_otherwise_discards_its_letter(rig: &mut Rig) {
    for expires in [false, true] {
        let options = if expires { r#""expires_at":"+PT6S","# } else { "" };
        let id = enqueue(rig, vec![new(rig, &format!("{options}{DYING}"), at(0))], at(0)).await[0];
        kill(rig, id, 0).await;
        retry(rig, id, at(5_000)).await;
        let evidence = if expires {
            // The deadline of the first life is over with it; one of this life would bind.
            let before = stored(rig, id).await;
            assert_eq!(before.job.expires_at, None);
            let after = Job { expires_at: Some(at(6_000)), ..before.job.clone() };
            assert_eq!(change(rig, &before, after, LetterEffect::None, at(5_500)).await, Changed::Done);
            assert!(fetch(rig, &["default"], 1, at(6_000)).await.is_empty());
            "expired"
        } else {
            let before = stored(rig, id).await;
            let after = before.job.clone().cancelled(at(6_000)).unwrap();
            let end = LetterEffect::End { evidence: "cancelled" };
            assert_eq!(change(rig, &before, after, end, at(6_000)).await, Changed::Done);
            "cancelled"
        };
        let found = letter(rig, id).await.letter;
        let expected = by_jobs(6_000, Strategy::Discard, evidence);
        assert_eq!((found.status, found.resolution), (Status::Discarded, expected));
        assert_eq!(rig.told_of_letters().await.last().unwrap(), "dead_letter.discarded");
        assert!(!stored(rig, id).await.job.in_dead_letter);
    }
}

pub async fn a_letter_settled_by_hand_has_no_job_until_it_is_reopened(rig: &mut Rig) {
    for (verb, status) in [(Verb::Resolve, Status::Resolved), (Verb::Discard, Status::Discarded)] {
        let id = dead(rig).await;
        let found = letter(rig, id).await.letter.id;
        let before = stored(rig, id).await;
        let commits = *rig.store().changes().borrow();
        rig.done(found, verb, at(5_000)).await;
        assert_eq!(*rig.store().changes().borrow(), commits + 1, "both in one commit");
        assert_eq!(rig.store().job(id).await.unwrap(), None);
        let dump = rig.dump().await;
        let refused = Refused { action: Action::Redrive, standing: Standing::live(status) };
        let nothing = StoredJob { job: before.job.clone(), version: 0 };
        let after = before.job.clone().retried_from_dead_letter(&Override::default(), at(6_000)).unwrap();
        let out = LetterEffect::Redrive(found, Governance::Optional);
        assert_eq!(change(rig, &nothing, after, out, at(6_000)).await, Changed::Refused(refused));
        assert_eq!(rig.dump().await, dump, "what is refused changes nothing");
        let again = vec![(Job { id, ..new(rig, "", at(6_000)) }, Vec::new())];
        assert_eq!(
            rig.store().enqueue_jobs(again, at(6_000)).await.unwrap(),
            Err(id),
            "the letter has the id"
        );
        rig.done(found, Verb::Reopen, at(7_000)).await;
        assert_eq!(stored(rig, id).await.job, before.job);
        assert_eq!(retry(rig, id, at(8_000)).await, Changed::Done);
        fetch(rig, &["default"], 1, at(8_001)).await;
        ack(rig, id, at(8_002)).await;
    }
}

pub async fn a_letter_that_is_reopened_brings_its_job_back(rig: &mut Rig) {
    for forgotten in [false, true] {
        let id = dead(rig).await;
        let dead = stored(rig, id).await.job;
        let found = letter(rig, id).await.letter.id;
        retry(rig, id, at(5_000)).await;
        fetch(rig, &["default"], 1, at(5_001)).await;
        ack(rig, id, at(5_002)).await;
        if forgotten {
            let before = [JobState::Completed, JobState::Cancelled, JobState::Discarded]
                .map(|state| (state, at(9_000)));
            assert_eq!(rig.store().prune_jobs(before, 10).await.unwrap(), 1);
        }
        rig.done(found, Verb::Reopen, at(9_000)).await;
        assert_eq!(stored(rig, id).await.job, dead, "as it died");
        assert_eq!(retry(rig, id, at(9_001)).await, Changed::Done);
        assert_eq!(fetch(rig, &["default"], 1, at(9_002)).await, [id]);
        fail(rig, id, "third", at(9_003)).await;
    }
}

pub async fn a_letter_of_another_job_cannot_be_taken_along(rig: &mut Rig) {
    let (one, two) = (dead(rig).await, dead(rig).await);
    let before = stored(rig, one).await;
    let after = before.job.clone().retried_from_dead_letter(&Override::default(), at(5_000)).unwrap();
    let other = LetterEffect::Redrive(letter(rig, two).await.letter.id, Governance::Optional);
    let dump = rig.dump().await;
    assert_eq!(change(rig, &before, after, other, at(5_000)).await, Changed::Stale);
    assert_eq!(rig.dump().await, dump);
}

pub async fn a_job_without_a_row_is_made_from_its_letter(rig: &mut Rig) {
    let job = new(rig, DYING, at(0)).fetched(None, at(1), None).unwrap();
    let failure = crate::jobs::failure("no");
    let killed = job.failed(failure, lazaret_core::job::failure::Verdict::DeadLetter, at(2)).unwrap();
    let admitted = lazaret_core::letter::Admitted {
        key: key_of(killed.id),
        ..rig.admit(killed.to_captured(SOURCE, None), at(2))
    };
    rig.insert(vec![admitted]).await;
    let nothing = StoredJob { job: killed.clone(), version: 0 };
    let after = killed.retried_from_dead_letter(&Override::default(), at(5)).unwrap();
    let redrive = LetterEffect::Redrive(letter(rig, nothing.job.id).await.letter.id, Governance::Optional);
    assert_eq!(change(rig, &nothing, after.clone(), redrive.clone(), at(5)).await, Changed::Done);
    assert_eq!(stored(rig, after.id).await, StoredJob { job: after.clone(), version: 1 });
    assert_eq!(change(rig, &nothing, after, redrive, at(6)).await, Changed::Stale);
}

pub async fn letters_of_jobs_are_counted_by_themselves(rig: &mut Rig) {
    let id = dead(rig).await;
    let own = Captured { queue: "default".into(), ..dying("e1", at(-5_000)) };
    rig.create(own, at(0)).await;
    let jobs = async |status| rig.store().stats(StatsOf::Jobs(status)).await.unwrap();
    let pending = jobs(Status::Pending).await;
    assert_eq!((pending.total, pending.oldest_at, pending.newest_at), (1, Some(at(1_300)), Some(at(1_300))));
    assert_eq!(pending.by_queue, [("default".to_owned(), 1)]);
    assert_eq!(pending.by_type, [("order.ship".to_owned(), 1)]);
    assert_eq!(pending.by_error_type, [("Boom".to_owned(), 1)]);
    assert_eq!(retry(rig, id, at(5_000)).await, Changed::Done);
    assert_eq!(jobs(Status::Pending).await.total, 0);
    assert_eq!((jobs(Status::Pending).await.by_queue, jobs(Status::Pending).await.oldest_at), (vec![], None));
    assert_eq!(jobs(Status::Reprocessing).await.by_queue, [("default".to_owned(), 1)]);
}

pub async fn a_letter_that_tells_of_another_job_makes_none(rig: &mut Rig) {
    let id = dead(rig).await;
    let told = letter(rig, id).await;
    let original = rig.store().original(told.letter.id, None).await.unwrap().unwrap();
    let own = JobId::mint(at(0), rig.mint());
    let odd = Captured {
        source: SOURCE.into(),
        subscriber: None,
        envelope: original.envelope,
        reported: told.lives[0].reported.clone(),
        ..captured(&own.to_string())
    };
    let odd = rig.create(odd, at(2_000)).await;
    let before = stored(rig, id).await;
    assert_eq!(rig.decide(odd, Verb::Retry, at(2_001)).await, Decided::NoWayBack);
    assert_eq!(stored(rig, id).await, before);
    rig.done(told.letter.id, Verb::Delete, at(2_002)).await;
    assert_eq!(rig.decide(odd, Verb::Retry, at(2_003)).await, Decided::NoWayBack);
    for verb in [Verb::Resolve, Verb::Reopen, Verb::Delete, Verb::Restore, Verb::Resolve] {
        rig.done(odd, verb, at(2_004)).await;
        for job in [id, own] {
            assert_eq!(rig.store().job(job).await.unwrap(), None, "{verb:?}");
        }
    }
}
