//! Failures as workers tell them, and the order in which it is decided what becomes of the job.

use proptest::{prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::limits;

fn failure(error: &str) -> Failure {
    read_nack(&format!(r#"{{"job_id":"j","error":{error}}}"#)).unwrap().failure
}

#[test]
fn both_names_of_the_id_are_understood() {
    for text in [
        r#"{"job_id":"j","worker_id":"w","error":{}}"#,
        r#"{"id":"j","worker_id":"w","error":{}}"#,
        r#"{"id":"x","job_id":"j","worker_id":"w","error":{}}"#,
    ] {
        let nack = read_nack(text).unwrap();
        assert_eq!((nack.job_id.as_str(), nack.worker_id.as_deref()), ("j", Some("w")), "{text}");
    }
}

#[test]
fn the_error_type_is_looked_for_in_order() {
    let rows = [
        (r#"{"type":"T","details":{"error_class":"C"},"code":"c"}"#, "T"),
        (r#"{"details":{"error_class":"C"},"code":"c"}"#, "C"),
        (r#"{"details":{"error_class":""},"code":"c"}"#, "c"),
        (r#"{"details":["error_class"],"code":"handler_error"}"#, "handler_error"),
        (r#"{"type":"","code":"c"}"#, "c"),
        (r#"{"type":7,"code":"c"}"#, "c"),
        (r#"{"message":"m"}"#, "Unknown"),
        (r#"{"code":"DISCARD"}"#, "Unknown"),
        (r#"{"code":"discard"}"#, "discard"),
        (r#"{"code":"handler_error","message":"TypeError: x is undefined"}"#, "TypeError"),
        (
            r#"{"code":"handler_error","message":"x","details":{"stack":"TypeError: x\n    at load (/app/a.js:1:1)"}}"#,
            "TypeError",
        ),
        (
            r#"{"code":"job_failed","message":"'sku'","details":{"traceback":"Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in f\nKeyError: 'sku'\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in g\nshop.errors.OrderFailed: no price"}}"#,
            "shop.errors.OrderFailed",
        ),
        (r#"{"code":"RETRY","message":"IOError: closed"}"#, "IOError"),
        (r#"{"code":"card_declined","message":"PaymentError: no"}"#, "card_declined"),
        (r#"{"type":"Error","message":"TypeError: x"}"#, "Error"),
        (r#"{"code":"handler_error","message":"email: must not be empty"}"#, "handler_error"),
        (
            r#"{"code":"handler_error","message":"boom","details":{"stack":"Error: boom\n    at f (/app/a.js:1:1)"}}"#,
            "handler_error",
        ),
    ];
    for (error, expected) in rows {
        assert_eq!(failure(error).error_type, expected, "{error}");
    }
}

#[test]
fn the_four_upper_case_words_are_wishes_and_anything_else_is_a_code() {
    for wish in Wish::ALL {
        let failure = failure(&format!(r#"{{"code":"{}"}}"#, wish.name()));
        assert_eq!((failure.wish, failure.code.as_deref()), (Some(wish), Some(wish.name())));
    }
    for code in ["handler_error", "timeout", "retry", "Dead_Letter", "x_custom"] {
        assert_eq!(failure(&format!(r#"{{"code":"{code}"}}"#)).wish, None, "{code}");
    }
}

#[test]
fn everything_that_was_told_is_kept() {
    let told = failure(
        r#"{"code":"handler_error","message":"no \ud83d more","retryable":false,"details":{"n": 1e400},
            "backtrace":["a:1","b:2"],"severity": 3.10,"cause":{"x":null}}"#,
    );
    assert_eq!(told.message, "no \u{fffd} more");
    assert_eq!(told.retryable, Some(false));
    assert_eq!(told.details.as_deref(), Some(r#"{"n": 1e400}"#));
    assert_eq!(told.backtrace.as_deref(), Some("a:1\nb:2"));
    assert_eq!(told.extra.as_deref(), Some(r#"{"severity":3.10,"cause":{"x":null}}"#));
}

#[test]
fn a_backtrace_is_found_wherever_sdks_put_it() {
    let rows = [
        (r#"{"backtrace":"a\nb"}"#, Some("a\nb")),
        (r#"{"backtrace":["a","b"]}"#, Some("a\nb")),
        (r#"{"details":{"stack":"Error: x\n  at y"}}"#, Some("Error: x\n  at y")),
        (r#"{"details":{"traceback":"Traceback"}}"#, Some("Traceback")),
        (r#"{"backtrace":["a"],"details":{"stack":"b"}}"#, Some("a")),
        (r#"{"backtrace":[]}"#, None),
        (r#"{"backtrace":[1]}"#, None),
        (r#"{"backtrace":7}"#, None),
        (r#"{}"#, None),
    ];
    for (error, expected) in rows {
        assert_eq!(failure(error).backtrace.as_deref(), expected, "{error}");
    }
}

#[test]
fn a_field_of_the_wrong_kind_is_kept_and_not_obeyed() {
    let told = failure(r#"{"code":7,"type":["x"],"message":{"a":1},"retryable":"no","backtrace":7}"#);
    assert_eq!((told.code, told.retryable), (None, None));
    assert_eq!(told.message, r#"{"a":1}"#);
    assert_eq!(told.extra.as_deref(), Some(r#"{"code":7,"type":["x"],"retryable":"no","backtrace":7}"#));
}

#[test]
fn half_a_character_in_a_name_does_not_cost_the_failure() {
    let told = failure(r#"{"message":"boom","cut \ud83d":1,"code":"c"}"#);
    assert_eq!((told.message.as_str(), told.error_type.as_str()), ("boom", "c"));
    assert_eq!(told.extra.as_deref(), Some("{\"cut \u{fffd}\":1}"));
}

#[test]
fn a_report_without_an_error_is_refused_unless_it_gives_the_job_back() {
    let problem = read_nack(r#"{"job_id":"j"}"#).unwrap_err();
    assert_eq!((problem.kind, problem.field.as_deref()), (ProblemKind::InvalidRequest, Some("error")));
    let nack = read_nack(r#"{"job_id":"j","requeue":true}"#).unwrap();
    assert_eq!(nack.failure.cause, Cause::Requeued);
}

#[test]
fn a_report_that_cannot_be_read_is_refused_by_kind() {
    use ProblemKind::{InvalidPayload, InvalidRequest, SchemaValidation};
    let rows = [
        ("", InvalidPayload, None),
        ("[]", InvalidPayload, None),
        (r#"{"error":{}}"#, InvalidRequest, Some("job_id")),
        (r#"{"job_id":7,"error":{}}"#, SchemaValidation, Some("job_id")),
        (r#"{"job_id":"j","worker_id":7,"error":{}}"#, SchemaValidation, Some("worker_id")),
        (r#"{"job_id":"j","requeue":"yes","error":{}}"#, SchemaValidation, Some("requeue")),
        (r#"{"job_id":"j","error":"boom"}"#, SchemaValidation, Some("error")),
    ];
    for (text, kind, field) in rows {
        let problem = read_nack(text).unwrap_err();
        assert_eq!((problem.kind, problem.field.as_deref()), (kind, field), "{text}");
    }
    let large = format!(r#"{{"job_id":"j","error":{{"message":"{}"}}}}"#, "x".repeat(limits::JOB_BYTES_MAX));
    assert_eq!(read_nack(&large).unwrap_err().kind, ProblemKind::TooLarge);
}

#[test]
fn details_too_deep_to_follow_become_a_text() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let told = failure(&format!(r#"{{"details":{deep},"more":{deep}}}"#));
    assert_eq!(told.details, Some(format!("\"{deep}\"")));
    assert_eq!(told.extra, Some(format!("{{\"more\":\"{deep}\"}}")));
}

/// One row: what happened, at which of three attempts, under which end, and what becomes of the job.
type Row = (&'static str, &'static str, u32, OnExhaustion, Verdict);

#[test]
fn the_decision_follows_its_order() {
    use OnExhaustion::{DeadLetter as ToDead, Discard as Drop};
    let retry = |delay_ms| Verdict::Retry { delay_ms };
    let rows: [Row; 18] = [
        ("requeue", r#"{"retryable":false}"#, 3, ToDead, Verdict::Requeue),
        ("requeue", r#"{"code":"DEAD_LETTER"}"#, 1, ToDead, Verdict::Requeue),
        ("report", r#"{"code":"DISCARD"}"#, 1, ToDead, Verdict::Discard),
        ("report", r#"{"code":"FAIL"}"#, 3, ToDead, Verdict::Discard),
        ("report", r#"{"code":"DEAD_LETTER"}"#, 1, Drop, Verdict::DeadLetter),
        ("report", r#"{"code":"DEAD_LETTER","retryable":true}"#, 1, Drop, Verdict::DeadLetter),
        ("report", r#"{"retryable":false}"#, 1, Drop, Verdict::Discard),
        ("report", r#"{"retryable":false}"#, 1, ToDead, Verdict::DeadLetter),
        ("report", r#"{"type":"FatalError"}"#, 1, ToDead, Verdict::DeadLetter),
        ("report", r#"{"details":{"error_class":"Auth.TokenExpired"}}"#, 1, Drop, Verdict::Discard),
        ("report", r#"{"type":"FatalError","retryable":true}"#, 1, Drop, Verdict::Discard),
        ("report", r#"{"code":"RETRY","type":"FatalError","retryable":false}"#, 1, Drop, retry(1_000)),
        ("report", r#"{"code":"RETRY"}"#, 3, ToDead, Verdict::DeadLetter),
        ("report", r#"{"code":"handler_error"}"#, 1, Drop, retry(1_000)),
        ("report", r#"{"code":"handler_error"}"#, 2, ToDead, retry(2_000)),
        ("report", r#"{"code":"handler_error"}"#, 3, Drop, Verdict::Discard),
        ("report", r#"{"code":"handler_error"}"#, 3, ToDead, Verdict::DeadLetter),
        ("report", r#"{"code":"handler_error"}"#, 9, ToDead, Verdict::DeadLetter),
    ];
    for (how, error, attempt, on_exhaustion, expected) in rows {
        let policy = JobRetry {
            jitter: false,
            on_exhaustion,
            non_retryable_errors: vec!["FatalError".into(), "Auth.*".into()],
            ..JobRetry::default()
        };
        let requeue = how == "requeue";
        let text = format!(r#"{{"job_id":"j","requeue":{requeue},"error":{error}}}"#);
        let failure = read_nack(&text).unwrap().failure;
        assert_eq!(decide(&failure, attempt, &policy, Fate::ByPolicy, 0.5), expected, "{error} at {attempt}");
    }
}

#[test]
fn what_we_find_out_ourselves_is_decided_alike_but_a_lost_worker_costs_no_delay() {
    let policy = JobRetry { jitter: false, on_exhaustion: OnExhaustion::DeadLetter, ..JobRetry::default() };
    let decided = |failure: &Failure, attempt| decide(failure, attempt, &policy, Fate::ByPolicy, 0.5);
    let timeout = Failure::timeout(2_000, 3_500);
    let expired = Failure::reservation_expired(30_000);
    let death = Failure::worker_death("w-1");
    assert_eq!(decided(&timeout, 1), Verdict::Retry { delay_ms: 1_000 });
    assert_eq!(decided(&expired, 1), Verdict::Return);
    assert_eq!(decided(&death, 2), Verdict::Return);
    for failure in [&timeout, &expired, &death] {
        assert_eq!(decided(failure, 3), Verdict::DeadLetter);
        let final_type =
            JobRetry { non_retryable_errors: vec![failure.error_type.clone()], ..JobRetry::default() };
        assert_eq!(decide(failure, 1, &final_type, Fate::ByPolicy, 0.5), Verdict::Discard);
    }
    assert_eq!(timeout.error_type, "timeout");
    assert_eq!(
        timeout.details.as_deref(),
        Some(r#"{"timeout_kind":"execution","limit_seconds":2,"elapsed_seconds":3.500}"#)
    );
    assert_eq!(expired.error_type, "visibility_timeout");
    assert_eq!(death.error_type, "worker_death");
}

#[test]
fn a_job_that_was_dead_returns_to_the_dead_letter_unless_its_handler_says_otherwise() {
    let policy = JobRetry { jitter: false, ..JobRetry::default() };
    let decided = |error: &str, attempt| decide(&failure(error), attempt, &policy, Fate::DeadLetter, 0.5);
    assert_eq!(decided(r#"{"code":"x"}"#, 3), Verdict::DeadLetter);
    assert_eq!(decided(r#"{"retryable":false}"#, 1), Verdict::DeadLetter);
    assert_eq!(decided(r#"{"code":"x"}"#, 1), Verdict::Retry { delay_ms: 1_000 });
    assert_eq!(decided(r#"{"code":"DISCARD"}"#, 3), Verdict::Discard);
    assert_eq!(decided(r#"{"code":"FAIL"}"#, 1), Verdict::Discard);
}

#[test]
fn without_attempts_the_first_failure_is_final() {
    for max_attempts in [0, 1] {
        let policy = JobRetry { max_attempts, ..JobRetry::default() };
        assert_eq!(decide(&failure("{}"), 1, &policy, Fate::ByPolicy, 0.5), Verdict::Discard);
    }
}

proptest! {
    #[test]
    fn no_report_panics(text in ".{0,120}") {
        prop_assert!(read_nack(&text).is_err() || text.contains("id"));
    }

    #[test]
    fn no_error_object_is_refused(
        code in ".{0,12}", message in "\\PC{0,40}", retryable in "(true|false|null|1|\"x\")", raw in "[0-9]{1,40}",
    ) {
        let error = format!(
            r#"{{"code":{},"message":{},"retryable":{retryable},"details":{raw},"n":{raw}}}"#,
            raw::quoted(&code), raw::quoted(&message), raw = raw.trim_start_matches('0').to_owned() + "1",
        );
        let told = failure(&error);
        prop_assert_eq!(&told.message, &message);
        prop_assert!(!told.error_type.is_empty());
        for attempt in [1, 2, 3] {
            decide(&told, attempt, &JobRetry::default(), Fate::ByPolicy, 0.5);
        }
    }
}
