//! The job as clients read it.

use proptest::{prop_assert_eq, proptest};
use serde_json::Value;

use super::super::enqueue::{JobDefaults, read_enqueue};
use super::super::failure::{Verdict, read_nack};
use super::*;
use crate::id::JobId;
use crate::time::Time;

fn at(ms: i64) -> Time {
    Time::from_ms(ms)
}

fn job(text: &str) -> Job {
    let new = read_enqueue(text, &JobDefaults::default()).unwrap();
    Job::enqueued(new, JobId::from_bytes([0; 16]), at(0))
}

#[test]
fn a_new_job_has_what_is_known_and_nothing_else() {
    assert_eq!(
        job_json(&job(r#"{"type":"a.b","args":[1.0, "x"],"x_own":[ ],"meta":{"k": 1}}"#)),
        concat!(
            r#"{"specversion":"1.0","id":"00000000-0000-0000-0000-000000000000","type":"a.b","queue":"default","#,
            r#""args":[1.0, "x"],"meta":{"k": 1},"priority":0,"timeout_ms":1800000,"visibility_timeout_ms":30000,"#,
            r#""retry":{"max_attempts":3,"initial_interval":"PT1S","backoff_coefficient":2.0,"max_interval":"PT5M","#,
            r#""jitter":true,"non_retryable_errors":[],"on_exhaustion":"discard","backoff_strategy":"exponential"},"#,
            r#""state":"available","attempt":0,"max_attempts":3,"created_at":"1970-01-01T00:00:00.000Z","#,
            r#""enqueued_at":"1970-01-01T00:00:00.000Z","metadata":{"created_at":"1970-01-01T00:00:00.000Z","#,
            r#""enqueued_at":"1970-01-01T00:00:00.000Z"},"x_own":[ ]}"#,
        )
    );
}

#[test]
fn every_field_that_is_set_is_shown() {
    let text = r#"{"type":"a","args":[],"schema":"urn:s","options":{"unique":{"by": 1},"tags":["x\"y"],
        "delay_until":"+PT1S","expires_at":"+PT9S"}}"#;
    let error = r#"{"id":"j","error":{"code":"c","type":"T","message":"m","retryable":true,"details":{"d": 1},
        "backtrace":"f\ng","attempt":99,"own":[ 1 ]}}"#;
    let failed = job(text).promoted(at(1)).unwrap().fetched(Some("w"), at(2), None).unwrap();
    let failure = read_nack(error).unwrap().failure;
    let failed = failed.failed(failure, Verdict::Retry { delay_ms: 500 }, at(3)).unwrap();
    let shown: Value = serde_json::from_str(&job_json(&failed)).unwrap();
    let due = "1970-01-01T00:00:00.503Z";
    assert_eq!(shown["state"], "retryable");
    assert_eq!((&shown["next_attempt_at"], &shown["next_retry_at"]), (&Value::from(due), &Value::from(due)));
    assert_eq!((&shown["retry_delay_ms"], &shown["attempt"]), (&Value::from(500), &Value::from(1)));
    assert_eq!((&shown["schema"], &shown["tags"][0]), (&Value::from("urn:s"), &Value::from("x\"y")));
    assert_eq!(shown["unique"]["by"], 1);
    assert_eq!(shown["scheduled_at"], "1970-01-01T00:00:01.000Z");
    assert_eq!(shown["expires_at"], "1970-01-01T00:00:09.000Z");
    assert_eq!(shown["started_at"], "1970-01-01T00:00:00.002Z");
    assert_eq!(shown["metadata"]["started_at"], shown["started_at"]);
    assert_eq!(shown["errors"][0], shown["error"]);
    assert_eq!(
        raw::object_onto(String::new(), |object| error_fields(object, &failed.errors[0])),
        concat!(
            r#"{"attempt":1,"type":"T","code":"c","message":"m","occurred_at":"1970-01-01T00:00:00.003Z","#,
            r#""retryable":true,"details":{"d": 1},"backtrace":["f","g"],"own":[ 1 ]}"#,
        )
    );
    for absent in ["completed_at", "cancelled_at", "discarded_at", "result", "previous_state", "activated_at"]
    {
        assert_eq!(shown.get(absent), None, "{absent}");
    }
}

#[test]
fn a_field_of_the_clients_never_takes_the_place_of_ours() {
    let mut forged = job(r#"{"type":"a","args":[]}"#);
    forged.extra = vec![("state".into(), "\"completed\"".into()), ("x".into(), "1".into())];
    let text = job_json_with(&forged, &[("previous_state", "\"pending\"")]);
    assert_eq!(text.matches("\"state\"").count(), 1);
    assert!(text.ends_with(r#","x":1,"previous_state":"pending"}"#), "{text}");
}

#[test]
fn a_backtrace_is_cut_only_here() {
    let mut job = job(r#"{"type":"a","args":[]}"#).fetched(None, at(1), None).unwrap();
    let lines = vec!["frame"; 80].join("\n");
    let wide = format!("{}\n{}\nlast", "é".repeat(6_000), "é".repeat(6_000));
    for (backtrace, frames, chars) in [(&lines, 50, 250), (&wide, 2, 10_000)] {
        let mut failure = read_nack(r#"{"id":"j","error":{}}"#).unwrap().failure;
        failure.backtrace = Some(backtrace.clone());
        job = job.failed(failure, Verdict::Return, at(2)).unwrap().fetched(None, at(3), None).unwrap();
        let shown: Value = serde_json::from_str(&job_json(&job)).unwrap();
        let cut = shown["error"]["backtrace"].as_array().unwrap();
        assert_eq!(cut.len(), frames);
        assert_eq!(cut.iter().map(|frame| frame.as_str().unwrap().chars().count()).sum::<usize>(), chars);
        assert_eq!(job.errors.last().unwrap().backtrace.as_ref(), Some(backtrace));
    }
}

#[test]
fn a_result_is_shown_as_it_was_given() {
    let active = job(r#"{"type":"a","args":[]}"#).fetched(None, at(1), None).unwrap();
    let done = active.acked(Some("{\"n\": 12345678901234567890123}".into()), at(2)).unwrap();
    let text = job_json(&done);
    assert!(text.contains(r#""result":{"n": 12345678901234567890123}"#), "{text}");
    assert!(!text.contains("\"error\""));
}

proptest! {
    #[test]
    fn what_is_enqueued_comes_back(
        items in proptest::collection::vec(super::super::enqueue::tests::json(), 0..4),
        value in super::super::enqueue::tests::json(), unknown in super::super::enqueue::tests::json(),
        name in "x_[a-z\"\\\\é\n]{1,6}",
    ) {
        let args = format!("[{}]", items.join(" ,"));
        let meta = format!("{{\"k\" :{value} }}");
        let name_json = raw::quoted(&name);
        let text = format!(r#"{{"type":"a","args":{args},"meta":{meta},{name_json}:{unknown}}}"#);
        let shown = job_json(&job(&text));
        let fields = Fields::read(&shown).unwrap();
        let found = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, raw)| raw);
        prop_assert_eq!(found("args"), Some(args.as_str()));
        prop_assert_eq!(found("meta"), Some(meta.as_str()));
        prop_assert_eq!(found(&name), Some(unknown.as_str()));
    }
}
