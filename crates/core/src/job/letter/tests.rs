//! The way into the dead letter and back.

use proptest::{prop_assert, prop_assert_eq, proptest};

use super::super::enqueue::{JobDefaults, read_enqueue};
use super::super::failure::read_nack;
use super::super::reenqueue::Override;
use super::*;
use crate::class::ClassRules;
use crate::fingerprint::FingerprintRules;
use crate::id::JobId;
use crate::letter::admit;

fn at(ms: i64) -> Time {
    Time::from_ms(ms)
}

const FULL: &str = r#"{"type":"order.ship","args":[ {"n": 12345678901234567890.10}],"schema":"urn:s",
    "meta":{"aggregate_id":"order-7","schema_version":3,"tenant_id":"acme","traceparent":"00-ab-cd-01","tags":["x"]},
    "x_own":{"b":1,"a": 2},"options":{"queue":"ship","priority":5,"timeout_ms":2000,"visibility_timeout_ms":3000,
    "expires_at":"+P1D","delay_until":"+PT1S","unique":{"k": 1},"tags":["a","b"],
    "retry":{"max_attempts":2,"initial_interval":"PT0.5S","jitter":false,"on_exhaustion":"dead_letter","x":[ 1 ]}}}"#;

fn job(text: &str) -> Job {
    let new = read_enqueue(text, &JobDefaults::default()).unwrap();
    Job::enqueued(new, JobId::mint(at(1_000), [7; 10]), at(1_000))
}

/// Runs it into the ground from `ms` on.
fn killed(job: Job, ms: i64) -> Job {
    let mut job = job;
    for n in 0.. {
        let now = ms + 1_000 * n;
        job = job.fetched(Some("w"), at(now), None).unwrap();
        let error = r#"{"code":"handler_error","type":"Boom","message":"it broke","retryable":true,
            "details":{"d": 1.0},"backtrace":["a","b"],"own":[ 2 ]}"#;
        let failure = read_nack(&format!(r#"{{"id":"j","error":{error}}}"#)).unwrap().failure;
        let verdict = job.verdict(&failure, 0.5);
        job = job.failed(failure, verdict, at(now + 300)).unwrap();
        if job.in_dead_letter {
            break;
        }
        job = job.promoted(at(now + 900)).unwrap();
    }
    job
}

fn dead() -> Job {
    killed(job(FULL).promoted(at(2_000)).unwrap(), 3_000)
}

fn again(captured: &Captured) -> Result<Job, BadRecord> {
    Job::from_letter(&captured.envelope, captured.reported.as_deref().unwrap(), &captured.attempts)
}

#[test]
fn a_dead_job_becomes_a_letter_field_by_field() {
    let job = dead();
    let letter = job.to_captured("jobs", None);
    assert_eq!((letter.source.as_str(), letter.message_id.as_str()), ("jobs", job.id.to_string().as_str()));
    assert_eq!((letter.letter_type.as_str(), letter.queue.as_str()), ("order.ship", "ship"));
    assert_eq!(letter.subscriber, None);
    assert_eq!(letter.aggregate.as_deref(), Some("order-7"));
    assert_eq!(letter.schema_version.as_deref(), Some("3"));
    assert_eq!(letter.tenant.as_deref(), Some("acme"));
    assert_eq!(letter.envelope.body().as_ref(), br#"[ {"n": 12345678901234567890.10}]"#);
    assert_eq!(letter.envelope.content_type(), "application/json");
    let headers: Vec<_> =
        letter.envelope.headers().iter().map(|(k, v)| (k.as_str(), v.as_text().unwrap())).collect();
    assert_eq!(headers, [("aggregate_id", "order-7"), ("tenant_id", "acme"), ("traceparent", "00-ab-cd-01")]);
    assert_eq!(letter.attempts.len(), 2);
    assert_eq!((letter.retry_count, letter.max_retries), (2, Some(2)));
    assert_eq!(letter.died_at, job.discarded_at);
    assert_eq!(letter.error, letter.attempts[1].error);
    assert_eq!((letter.error.error_type.as_str(), letter.error.backtrace.as_deref()), ("Boom", Some("a\nb")));
    assert_eq!((letter.error.context.as_deref(), letter.word), (Some(r#"{"d": 1.0}"#), SourceWord::NewDeath));
}

#[test]
fn the_job_is_made_again_from_its_letter_whole() {
    let job = dead();
    assert_eq!(again(&job.to_captured("jobs", None)), Ok(job));
}

#[test]
fn admission_to_the_dead_letter_loses_nothing_of_it() {
    let job = dead();
    let captured = job.to_captured("jobs", None);
    let (classes, groups) = (ClassRules::default(), FingerprintRules::default());
    let admitted = admit(captured, at(9_000), [[1; 10], [2; 10]], &classes, &groups);
    assert_eq!(admitted.died_at, at(4_300));
    assert_eq!(again(&admitted.captured), Ok(job));
}

#[test]
fn the_second_death_carries_both_lives() {
    let first = dead();
    let retried = first.retried_from_dead_letter(&Override::default(), at(9_000)).unwrap();
    let second = killed(retried, 10_000);
    let letter = second.to_captured("jobs", None);
    assert_eq!(letter.attempts.len(), 4);
    assert_eq!((letter.retry_count, second.fate), (2, Fate::DeadLetter));
    let numbers: Vec<u32> = second.errors.iter().map(|error| error.attempt).collect();
    assert_eq!(numbers, [1, 2, 1, 2]);
    assert_eq!(again(&letter), Ok(second));
}

#[test]
fn a_plain_job_without_meta_is_made_again_too() {
    let plain =
        job(r#"{"type":"a","args":[],"options":{"retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}}"#);
    let plain = killed(plain, 2_000);
    let letter = plain.to_captured("jobs", None);
    assert_eq!((&letter.tenant, &letter.aggregate, &letter.schema_version), (&None, &None, &None));
    assert_eq!(again(&letter), Ok(plain));
}

#[test]
fn the_key_of_a_job_is_its_id_alone() {
    let id = dead().id.to_string();
    assert_eq!(letter_key("jobs", &id), CaptureKey::of("jobs", "", "", &id));
}

#[test]
fn an_attempt_that_no_job_made_is_shown_as_far_as_it_goes() {
    let letter = dead().to_captured("jobs", None);
    let bare = Attempt { at: None, duration_ms: None, error: LetterError::default(), extra: None };
    let job = Job::from_letter(&letter.envelope, letter.reported.as_deref().unwrap(), [&bare]).unwrap();
    assert_eq!((job.errors[0].error_type.as_str(), job.errors[0].attempt), ("Unknown", 0));
    assert_eq!(Some(job.errors[0].occurred_at), job.discarded_at);
}

#[test]
fn a_record_that_cannot_be_read_is_named() {
    let letter = dead().to_captured("jobs", None);
    let record = letter.reported.as_deref().unwrap();
    let made = |body: &'static str, record: &str| {
        let envelope = Envelope::seal(Bytes::from_static(body.as_bytes()), "application/json", Vec::new());
        Job::from_letter(&envelope, record, &letter.attempts).map(|_| ())
    };
    assert_eq!(made("[]", record), Ok(()));
    assert_eq!(made("{}", record), Err(BadRecord::Body));
    assert_eq!(made("[", record), Err(BadRecord::Body));
    assert_eq!(made("[]", "[]"), Err(BadRecord::NotAnObject));
    assert_eq!(made("[]", "{}"), Err(BadRecord::Field("id")));
    assert_eq!(
        made("[]", &record.replace("\"priority\":5", "\"priority\":\"x\"")),
        Err(BadRecord::Field("priority"))
    );
}

proptest! {
    #[test]
    fn any_job_survives_its_letter(
        items in proptest::collection::vec(super::super::enqueue::tests::json(), 0..3),
        value in super::super::enqueue::tests::json(), unknown in super::super::enqueue::tests::json(),
        tags in proptest::collection::vec(".{0,6}", 0..3),
    ) {
        let tags = raw::list(tags.iter().map(|tag| raw::quoted(tag)));
        let text = format!(
            r#"{{"type":"a","args":[{}],"meta":{{"k" : {value}}},"x_u":{unknown},"options":{{"tags":{tags},
                "retry":{{"on_exhaustion":"dead_letter"}}}}}}"#,
            items.join(", "),
        );
        let job = killed(job(&text), 2_000);
        prop_assert_eq!(again(&job.to_captured("jobs", None)), Ok(job));
    }

    #[test]
    fn no_record_panics(record in ".{0,80}") {
        let envelope = Envelope::seal(Bytes::from_static(b"[]"), "application/json", Vec::new());
        prop_assert!(Job::from_letter(&envelope, &record, &[]).is_err());
    }
}
