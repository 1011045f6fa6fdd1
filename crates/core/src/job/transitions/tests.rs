//! What each move does to a job.

use super::super::enqueue::{JobDefaults, read_enqueue};
use super::super::failure::read_nack;
use super::super::policy::OnExhaustion;
use super::super::reenqueue::read_override;
use super::*;
use crate::id::JobId;

fn at(ms: i64) -> Time {
    Time::from_ms(ms)
}

/// A job enqueued at 1,000 ms, with these options.
fn job(options: &str) -> Job {
    let text = format!(r#"{{"type":"a.b","args":[1],"meta":{{"a": 1}},"options":{{{options}}}}}"#);
    let new = read_enqueue(&text, &JobDefaults::default()).unwrap();
    Job::enqueued(new, JobId::mint(at(1_000), [7; 10]), at(1_000))
}

fn boom(code: &str) -> Failure {
    read_nack(&format!(r#"{{"id":"j","error":{{"code":"{code}","message":"boom"}}}}"#)).unwrap().failure
}

/// Fetched and failed, over and over, until it is no longer tried.
fn dead(options: &str) -> Job {
    let mut job = job(options);
    for ms in (2_000..).step_by(1_000) {
        job = job.fetched(Some("w"), at(ms), None).unwrap();
        let failure = boom("handler_error");
        let verdict = job.verdict(&failure, 0.5);
        job = job.failed(failure, verdict, at(ms + 500)).unwrap();
        match job.state.after(JobAction::Promote) {
            Ok(_) => job = job.promoted(at(ms + 600)).unwrap(),
            Err(_) => break,
        }
    }
    job
}

#[test]
fn a_job_begins_by_its_options() {
    let rows = [
        ("", JobState::Available, None),
        (r#""delay_until":"+PT2S""#, JobState::Scheduled, Some(3_000)),
        (r#""scheduled_at":"1970-01-01T00:00:00.500Z""#, JobState::Available, Some(500)),
        (r#""scheduled_at":"1970-01-01T00:00:01Z""#, JobState::Available, Some(1_000)),
        (r#""pending":true"#, JobState::Pending, None),
        (r#""pending":true,"delay_until":"+PT2S""#, JobState::Pending, Some(3_000)),
    ];
    for (options, state, scheduled_at) in rows {
        let job = job(options);
        assert_eq!((job.state, job.scheduled_at), (state, scheduled_at.map(at)), "{options}");
        assert_eq!((job.attempt, job.created_at, job.enqueued_at), (0, at(1_000), at(1_000)));
        assert_eq!((job.started_at, job.completed_at, job.error()), (None, None, None));
    }
}

#[test]
fn a_scheduled_job_is_promoted_and_a_pending_one_activated() {
    let promoted = job(r#""delay_until":"+PT2S""#).promoted(at(3_000)).unwrap();
    assert_eq!((promoted.state, promoted.enqueued_at), (JobState::Available, at(3_000)));
    let activated = job(r#""pending":true"#).activated(at(4_000)).unwrap();
    assert_eq!((activated.state, activated.activated_at), (JobState::Available, Some(at(4_000))));
    assert!(job("").promoted(at(1)).is_err());
    assert!(job("").activated(at(1)).is_err());
}

#[test]
fn a_fetch_counts_the_attempt_and_starts_both_clocks() {
    let fetched = job(r#""timeout_ms":2000,"visibility_timeout_ms":3000"#);
    let own = fetched.clone().fetched(Some("w"), at(2_000), None).unwrap();
    assert_eq!((own.state, own.attempt, own.started_at), (JobState::Active, 1, Some(at(2_000))));
    let held = own.held.clone().unwrap();
    assert_eq!((held.until, held.timeout_at), (at(5_000), at(4_000)));
    assert_eq!(own.due_at(), Some(at(4_000)));
    let asked = fetched.fetched(None, at(2_000), Some(500)).unwrap();
    assert_eq!(asked.held.unwrap().until, at(2_500));
    let refused = own.fetched(None, at(2_000), None).unwrap_err();
    assert_eq!((refused.state, refused.expected), (JobState::Active, &[JobState::Available][..]));
}

#[test]
fn a_heartbeat_prolongs_the_hold_and_not_the_run() {
    let fetched = job("").fetched(Some("w"), at(2_000), Some(500)).unwrap();
    let timeout_at = fetched.held.as_ref().unwrap().timeout_at;
    let beat = fetched.extended(at(2_400), None).unwrap();
    assert_eq!(beat.held.as_ref().unwrap().until, at(2_900));
    let beat = beat.extended(at(2_500), Some(10_000)).unwrap();
    let held = beat.held.unwrap();
    assert_eq!((held.until, held.timeout_at), (at(12_500), timeout_at));
}

#[test]
fn only_a_worker_that_gives_another_name_is_refused() {
    let held = job("").fetched(Some("w"), at(2_000), None).unwrap();
    assert_eq!(held.check_holder(Some("w")), Ok(()));
    assert_eq!(held.check_holder(None), Ok(()));
    assert_eq!(held.check_holder(Some("v")), Err(NotHolder));
    let nameless = job("").fetched(None, at(2_000), None).unwrap();
    assert_eq!(nameless.check_holder(Some("v")), Ok(()));
}

#[test]
fn an_ack_keeps_the_result_and_clears_the_error() {
    let failed = job("").fetched(None, at(2_000), None).unwrap();
    let retried = failed.failed(boom("x"), Verdict::Return, at(2_100)).unwrap();
    assert!(retried.error().is_some());
    let active = retried.fetched(None, at(2_200), None).unwrap();
    let acked = active.acked(Some("1e400".into()), at(2_300)).unwrap();
    assert_eq!((acked.state, acked.completed_at), (JobState::Completed, Some(at(2_300))));
    assert_eq!((acked.result.as_deref(), acked.error(), acked.errors.len()), (Some("1e400"), None, 1));
    assert!(acked.acked(None, at(2_400)).is_err());
}

#[test]
fn a_retry_waits_and_is_promoted() {
    let active = job("").fetched(None, at(2_000), None).unwrap();
    let retryable = active.failed(boom("x"), Verdict::Retry { delay_ms: 700 }, at(2_100)).unwrap();
    assert_eq!((retryable.state, retryable.attempt), (JobState::Retryable, 1));
    assert_eq!((retryable.next_attempt_at, retryable.retry_delay_ms), (Some(at(2_800)), Some(700)));
    assert_eq!(retryable.due_at(), Some(at(2_800)));
    let error = retryable.error().unwrap();
    assert_eq!((error.attempt, error.error_type.as_str(), error.occurred_at), (1, "x", at(2_100)));
    let again = retryable.promoted(at(2_850)).unwrap().fetched(None, at(2_900), None).unwrap();
    // The delay stays visible on the job that the next fetch returns; the time it was due does not.
    assert_eq!((again.attempt, again.retry_delay_ms, again.next_attempt_at), (2, Some(700), None));
}

#[test]
fn giving_a_job_back_records_nothing_and_a_lost_worker_is_an_error() {
    let active = job("").fetched(Some("w"), at(2_000), None).unwrap();
    let requeued = active.clone().failed(boom("x"), Verdict::Requeue, at(2_100)).unwrap();
    assert_eq!((requeued.state, requeued.started_at, requeued.attempt), (JobState::Available, None, 1));
    assert!(requeued.errors.is_empty() && requeued.held.is_none());
    let lost = Failure::reservation_expired(30_000);
    let returned = active.failed(lost, Verdict::Return, at(2_100)).unwrap();
    assert_eq!((returned.state, returned.started_at, returned.attempt), (JobState::Available, None, 1));
    assert_eq!(returned.error().unwrap().error_type, "visibility_timeout");
}

#[test]
fn a_late_ack_completes_what_only_the_clock_ended() {
    let options = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let active = job(options).fetched(Some("w"), at(2_000), None).unwrap();
    let by_clock =
        [Failure::reservation_expired(30_000), Failure::timeout(1_000, 1_000), Failure::worker_death("w")];
    for failure in by_clock {
        let dead = active.clone().failed(failure, Verdict::DeadLetter, at(3_000)).unwrap();
        let done = dead.acked(Some("1".into()), at(4_000)).unwrap();
        assert_eq!((done.state, done.in_dead_letter), (JobState::Completed, false));
        assert_eq!((done.completed_at, done.discarded_at), (Some(at(4_000)), None));
    }
    let reported = active.clone().failed(boom("x"), Verdict::DeadLetter, at(3_000)).unwrap();
    assert_eq!(reported.acked(None, at(4_000)).unwrap_err().action, JobAction::Ack);
    let dropped = active.failed(Failure::timeout(1, 1), Verdict::Discard, at(3_000)).unwrap();
    assert_eq!(dropped.acked(None, at(4_000)).unwrap_err().action, JobAction::Ack);
}

#[test]
fn the_last_failure_discards_and_only_the_policy_makes_it_a_dead_letter() {
    let dropped = dead("");
    assert_eq!((dropped.state, dropped.attempt, dropped.errors.len()), (JobState::Discarded, 3, 3));
    assert!(!dropped.in_dead_letter);
    assert_eq!(dropped.discarded_at, dropped.completed_at);
    let dead = dead(r#""retry":{"on_exhaustion":"dead_letter"}"#);
    assert_eq!(
        (dead.state, dead.in_dead_letter, dead.discarded_at),
        (JobState::Discarded, true, Some(at(4_500)))
    );
    assert_eq!(dead.errors.iter().map(|error| error.attempt).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn an_expired_job_was_never_run() {
    let job = job(r#""expires_at":"+PT1S""#);
    assert!(!job.is_expired(at(1_999)));
    assert!(job.is_expired(at(2_000)));
    let expired = job.expired(at(2_000)).unwrap();
    assert_eq!((expired.state, expired.in_dead_letter), (JobState::Discarded, false));
    assert_eq!((expired.discarded_at, expired.completed_at), (Some(at(2_000)), None));
}

#[test]
fn a_job_is_cancelled_until_it_has_ended() {
    let active = job("").fetched(None, at(2_000), None).unwrap();
    for job in [job(""), job(r#""pending":true"#), job(r#""delay_until":"+PT2S""#), active] {
        let cancelled = job.cancelled(at(3_000)).unwrap();
        assert_eq!((cancelled.state, cancelled.cancelled_at), (JobState::Cancelled, Some(at(3_000))));
        assert_eq!((cancelled.completed_at, &cancelled.held), (None, &None));
        assert!(cancelled.cancelled(at(4_000)).is_err());
    }
    assert!(dead("").cancelled(at(9_000)).is_err());
}

#[test]
fn a_retry_from_the_dead_letter_begins_anew_and_keeps_the_history() {
    let dead = dead(r#""expires_at":"+PT8S","retry":{"on_exhaustion":"dead_letter"}"#);
    let again = dead.clone().retried_from_dead_letter(&Override::default(), at(9_000)).unwrap();
    assert!(dead.is_expired(at(9_000)) && !again.is_expired(at(9_000)), "a deadline binds the first life");
    assert_eq!((again.id, again.state, again.attempt), (dead.id, JobState::Available, 0));
    assert_eq!((again.enqueued_at, again.re_enqueued_at), (at(9_000), Some(at(9_000))));
    assert_eq!((again.completed_at, again.discarded_at, again.started_at), (None, None, None));
    assert_eq!((again.retry_delay_ms, again.in_dead_letter), (None, false));
    assert_eq!((again.errors.len(), again.created_at, &again.retry), (3, dead.created_at, &dead.retry));
    let twice = again.retried_from_dead_letter(&Override::default(), at(9_001));
    assert!(matches!(twice, Err(NotRetried::State(refused)) if refused.state == JobState::Available));
}

#[test]
fn a_discarded_job_that_is_no_dead_letter_is_not_retried() {
    assert_eq!(dead("").retried_from_dead_letter(&Override::default(), at(9_000)), Err(NotRetried::NotDead));
}

#[test]
fn an_override_is_laid_over_the_job() {
    let dead = dead(r#""retry":{"on_exhaustion":"dead_letter","initial_interval":"PT7S"}"#);
    let with = read_override(
        r#"{"override":{"queue":"slow","priority":3,"args":[ 2 ],"meta":{"b":2.0},"retry":{"max_attempts":9}}}"#,
    )
    .unwrap();
    let again = dead.retried_from_dead_letter(&with, at(9_000)).unwrap();
    assert_eq!((again.queue.as_str(), again.priority, again.args.as_str()), ("slow", 3, "[ 2 ]"));
    assert_eq!(again.meta, r#"{"a":1,"b":2.0}"#);
    assert_eq!((again.retry.max_attempts, again.retry.initial_interval.ms()), (9, 7_000));
}

#[test]
fn once_dead_it_returns_to_the_dead_letter_unless_the_override_names_its_end() {
    let died_by_hand = || {
        let active = job("").fetched(None, at(2_000), None).unwrap();
        let verdict = active.verdict(&boom("DEAD_LETTER"), 0.5);
        active.failed(boom("DEAD_LETTER"), verdict, at(2_100)).unwrap()
    };
    let last_verdict = |job: Job| {
        let fetched = Job { attempt: 2, ..job }.fetched(None, at(9_500), None).unwrap();
        fetched.verdict(&boom("x"), 0.5)
    };
    let again = died_by_hand().retried_from_dead_letter(&Override::default(), at(9_000)).unwrap();
    assert_eq!(again.retry.on_exhaustion, OnExhaustion::Discard);
    assert_eq!(last_verdict(again), Verdict::DeadLetter);
    let with = read_override(r#"{"override":{"retry":{"on_exhaustion":"discard"}}}"#).unwrap();
    let again = died_by_hand().retried_from_dead_letter(&with, at(9_000)).unwrap();
    assert_eq!(last_verdict(again), Verdict::Discard);
}

#[test]
fn an_override_cannot_make_meta_too_large() {
    let big = "x".repeat(limits::JOB_META_BYTES_MAX - 20);
    let with = Override { meta: Some(format!(r#"{{"big":"{big}","c":1}}"#)), ..Override::default() };
    let refused =
        dead(r#""retry":{"on_exhaustion":"dead_letter"}"#).retried_from_dead_letter(&with, at(9_000));
    assert!(matches!(refused, Err(NotRetried::Override(problem)) if problem.kind == ProblemKind::TooLarge));
}

#[test]
fn the_history_keeps_the_newest() {
    let mut job = job(r#""retry":{"max_attempts":100000}"#);
    for n in 0..limits::JOB_ERRORS_MAX + 5 {
        job = job.fetched(None, at(2_000 + n as i64), None).unwrap();
        job = job.failed(boom("x"), Verdict::Return, at(2_000 + n as i64)).unwrap();
    }
    assert_eq!(job.errors.len(), limits::JOB_ERRORS_MAX);
    assert_eq!(job.errors.last().unwrap().attempt as usize, limits::JOB_ERRORS_MAX + 5);
}

#[test]
fn a_silent_worker_keeps_what_it_took_or_asked_for_meanwhile() {
    let held = job("").fetched(Some("w"), at(2_000), Some(600_000)).unwrap();
    assert!(held.is_abandoned_since(at(2_000)) && !held.is_abandoned_since(at(1_999)));
    let usual = held.clone().extended(at(5_000), None).unwrap();
    assert!(usual.is_abandoned_since(at(5_000)) && !usual.is_abandoned_since(at(4_999)));
    let longer = held.clone().extended(at(5_000), Some(660_000)).unwrap();
    assert!(!longer.is_abandoned_since(at(5_000)) && longer.is_abandoned_since(at(65_000)));
    assert!(!job("").is_abandoned_since(at(9_000)), "nobody holds it");
}
