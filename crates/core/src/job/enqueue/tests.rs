//! Enqueue requests: each field, each mistake, and that what is the application's comes through byte for byte.

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::super::policy::{Interval, OnExhaustion};
use super::*;

const ID: &str = "019a8b1c-7e00-7000-8000-000000000001";

fn read(text: &str) -> Result<NewJob, JobProblem> {
    read_enqueue(text, &JobDefaults::default())
}

/// A request with `more` beside type and args.
fn job(more: &str) -> NewJob {
    read(&format!(r#"{{"type":"a.b","args":[]{more}}}"#))
        .unwrap_or_else(|problem| panic!("{more}: {problem:?}"))
}

#[test]
fn type_and_args_are_enough() {
    assert_eq!(
        job(""),
        NewJob {
            id: None,
            job_type: "a.b".into(),
            queue: "default".into(),
            args: "[]".into(),
            meta: "{}".into(),
            schema: None,
            priority: 0,
            timeout_ms: 1_800_000,
            visibility_ms: 30_000,
            scheduled_at: None,
            expires_at: None,
            retry: JobRetry::default(),
            unique: None,
            tags: Vec::new(),
            parked: false,
            extra: Vec::new(),
        }
    );
}

#[test]
fn options_are_read_from_both_places_and_those_under_options_win() {
    let beside = job(r#","queue":"q","priority":7,"timeout":2,"visibility_timeout":3,"tags":["t"],
        "scheduled_at":"2026-01-01T00:00:00Z","retry":{"max_attempts":9},"schema":"urn:x","unique":{"k": 1}"#);
    assert_eq!((beside.queue.as_str(), beside.priority), ("q", 7));
    assert_eq!((beside.timeout_ms, beside.visibility_ms), (2_000, 3_000));
    assert_eq!(beside.tags, ["t"]);
    assert_eq!(beside.scheduled_at, Some(Moment::At(Time::parse("2026-01-01T00:00:00Z").unwrap())));
    assert_eq!(beside.retry.max_attempts, 9);
    assert_eq!((beside.schema.as_deref(), beside.unique.as_deref()), (Some("urn:x"), Some(r#"{"k": 1}"#)));
    let under =
        job(r#","queue":"q","priority":7,"timeout":9,"options":{"queue":"o","priority":-100,"timeout_ms":1,
        "visibility_timeout_ms":3000,"delay_until":"+PT2S","expires_at":"+PT1M","pending":true,
        "retry":{"initial_interval_ms":5},"tags":[]}"#);
    assert_eq!((under.queue.as_str(), under.priority, under.parked), ("o", -100, true));
    assert_eq!((under.timeout_ms, under.visibility_ms), (1, 3_000));
    assert_eq!(under.scheduled_at, Some(Moment::After { ms: 2_000 }));
    assert_eq!(under.expires_at, Some(Moment::After { ms: 60_000 }));
    assert_eq!(under.retry.initial_interval, Interval::from_ms(5));
    assert_eq!(under.retry.on_exhaustion, OnExhaustion::Discard);
    assert!(under.extra.is_empty());
}

#[test]
fn a_stated_time_keeps_its_moment_and_a_relative_one_counts_from_now() {
    let now = Time::from_ms(10_000);
    assert_eq!(Moment::After { ms: 2_000 }.from(now).ms(), 12_000);
    assert_eq!(Moment::At(Time::from_ms(7)).from(now).ms(), 7);
    let offset = job(r#","options":{"scheduled_at":"2026-01-01T02:00:00+02:00"}"#);
    assert_eq!(offset.scheduled_at, Some(Moment::At(Time::parse("2026-01-01T00:00:00Z").unwrap())));
}

#[test]
fn null_says_nothing() {
    assert_eq!(
        job(r#","id":null,"meta":null,"options":null,"queue":null,"retry":null,"priority":null"#),
        job("")
    );
}

#[test]
fn what_the_server_decides_is_ignored() {
    let fields: Vec<String> = SERVER_FIELDS
        .iter()
        .filter(|name| **name != "options")
        .map(|name| format!(r#","{name}":"mine""#))
        .collect();
    assert_eq!(job(&fields.concat()), job(""));
}

#[test]
fn what_we_have_no_name_for_is_kept_in_its_order() {
    let kept = job(
        r#","x_z":{"b":1,"a": 2},"x_a":12345678901234567890.10,"options":{"rate":"1/s","x_a":0,"state":1}"#,
    );
    let expected = [("x_z", r#"{"b":1,"a": 2}"#), ("x_a", "12345678901234567890.10"), ("rate", "\"1/s\"")];
    assert_eq!(kept.extra, expected.map(|(name, json)| (name.to_owned(), json.to_owned())));
    assert_eq!(job(r#","x":null"#).extra, [("x".to_owned(), "null".to_owned())]);
}

#[test]
fn metadata_is_laid_over_meta() {
    let merged = job(r#","meta":{"a": 1,"b":2},"options":{"metadata":{"b":[ 3 ],"test_directive":"quiet"}}"#);
    assert_eq!(merged.meta, r#"{"a":1,"b":[ 3 ],"test_directive":"quiet"}"#);
    assert_eq!(job(r#","meta":{"a": 1},"options":{"metadata":{}}"#).meta, r#"{"a": 1}"#);
    assert_eq!(job(r#","options":{"metadata":{"a":1}}"#).meta, r#"{"a":1}"#);
}

#[test]
fn of_a_name_that_occurs_twice_the_last_counts() {
    let last = job(r#","queue":"one","queue":"two","args":[1],"args":[2]"#);
    assert_eq!((last.queue.as_str(), last.args.as_str()), ("two", "[2]"));
}

#[test]
fn ids_are_uuids_of_version_seven_in_lower_case() {
    assert_eq!(job(&format!(r#","id":"{ID}""#)).id, JobId::parse(ID).ok());
    for bad in [
        "",
        "free text",
        "019a8b1c-7e00-4000-8000-000000000001",
        "019a8b1c-7e00-7000-c000-000000000001",
        "019A8B1C-7E00-7000-8000-000000000001",
        "019a8b1c7e0070008000000000000001",
    ] {
        assert_eq!(job_id(bad), None, "{bad}");
    }
}

#[test]
fn types_and_queues_follow_their_patterns() {
    for good in ["a", "email.send", "retry.test.max-attempts", "a_1.b2-c", "a-"] {
        assert!(read(&format!(r#"{{"type":"{good}","args":[]}}"#)).is_ok(), "{good}");
    }
    let long = "a".repeat(256);
    for bad in ["", "A.b", "a b", "1a", "a.1", "a..b", ".a", "a.", "a@!", "é", "-a", "_a", long.as_str()] {
        assert!(read(&format!(r#"{{"type":"{bad}","args":[]}}"#)).is_err(), "{bad}");
    }
    for good in ["default", "0", "a.b-c", "a-"] {
        assert_eq!(job(&format!(r#","options":{{"queue":"{good}"}}"#)).queue, good);
    }
    let long = "a".repeat(129);
    for bad in ["", "my_queue!", "my_queue", "Default", "-x", ".x", "a b", long.as_str()] {
        assert!(read_queue("queue", &raw::quoted(bad)).is_err(), "{bad}");
    }
}

#[test]
fn each_mistake_has_its_kind_and_names_its_field() {
    use ProblemKind::{InvalidPayload, InvalidRequest, SchemaValidation, ValidationError};
    let rows = [
        ("", InvalidPayload, None),
        ("{", InvalidPayload, None),
        ("nonsense", InvalidPayload, None),
        ("[]", InvalidPayload, None),
        ("null", InvalidPayload, None),
        ("{} {}", InvalidPayload, None),
        (r#"{"args":[]}"#, InvalidRequest, Some("type")),
        (r#"{"type":null,"args":[]}"#, InvalidRequest, Some("type")),
        (r#"{"type":7,"args":[]}"#, SchemaValidation, Some("type")),
        (r#"{"type":"A","args":[]}"#, InvalidRequest, Some("type")),
        (r#"{"type":"a"}"#, InvalidRequest, Some("args")),
        (r#"{"type":"a","args":null}"#, InvalidRequest, Some("args")),
        (r#"{"type":"a","args":{}}"#, SchemaValidation, Some("args")),
        (r#"{"type":"a","args":"x"}"#, SchemaValidation, Some("args")),
        (r#"{"type":"a","args":1}"#, SchemaValidation, Some("args")),
        (r#"{"type":"a","args":true}"#, SchemaValidation, Some("args")),
    ];
    for (text, kind, field) in rows {
        let problem = read(text).unwrap_err();
        assert_eq!((problem.kind, problem.field.as_deref()), (kind, field), "{text}");
    }
    let rows = [
        (r#""id":"""#, InvalidRequest, "id"),
        (r#""id":7"#, SchemaValidation, "id"),
        (r#""meta":[]"#, SchemaValidation, "meta"),
        (r#""meta":{"\ud800":1}"#, InvalidRequest, "meta"),
        (r#""options":[]"#, SchemaValidation, "options"),
        (r#""options":{"metadata":1}"#, SchemaValidation, "options.metadata"),
        (r#""options":{"pending":"yes"}"#, SchemaValidation, "options.pending"),
        (r#""options":{"queue":"-x"}"#, InvalidRequest, "options.queue"),
        (r#""queue":7"#, SchemaValidation, "queue"),
        (r#""priority":101"#, InvalidRequest, "priority"),
        (r#""options":{"priority":-101}"#, InvalidRequest, "options.priority"),
        (r#""priority":1.5"#, InvalidRequest, "priority"),
        (r#""priority":"high""#, InvalidRequest, "priority"),
        (r#""options":{"timeout_ms":0}"#, InvalidRequest, "options.timeout_ms"),
        (r#""timeout":-1"#, InvalidRequest, "timeout"),
        (r#""timeout":1e30"#, InvalidRequest, "timeout"),
        (r#""timeout":"PT1S""#, SchemaValidation, "timeout"),
        (r#""visibility_timeout_ms":0"#, InvalidRequest, "visibility_timeout_ms"),
        (r#""scheduled_at":7"#, SchemaValidation, "scheduled_at"),
        (r#""scheduled_at":"tomorrow""#, InvalidRequest, "scheduled_at"),
        (r#""scheduled_at":"2026-01-01T00:00:00""#, InvalidRequest, "scheduled_at"),
        (r#""options":{"delay_until":"+2s"}"#, InvalidRequest, "options.delay_until"),
        (r#""expires_at":"+P9999D""#, InvalidRequest, "expires_at"),
        (r#""retry":7"#, ValidationError, "retry"),
        (r#""options":{"retry":{"max_attempts":-1}}"#, ValidationError, "options.retry.max_attempts"),
        (r#""unique":true"#, SchemaValidation, "unique"),
        (r#""schema":{}"#, SchemaValidation, "schema"),
        (r#""tags":"x""#, SchemaValidation, "tags"),
        (r#""tags":[1]"#, SchemaValidation, "tags"),
    ];
    for (more, kind, field) in rows {
        let problem = read(&format!(r#"{{"type":"a","args":[],{more}}}"#)).unwrap_err();
        assert_eq!((problem.kind, problem.field.as_deref()), (kind, Some(field)), "{more}");
        assert!(problem.message.contains(field), "{}", problem.message);
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let large = format!(r#"{{"type":"a","args":["{}"]}}"#, "x".repeat(limits::JOB_BYTES_MAX));
    assert_eq!(read(&large).unwrap_err().kind, ProblemKind::TooLarge);
    let meta = format!(r#"{{"type":"a","args":[],"meta":{{"x":"{}"}}}}"#, "x".repeat(64 * 1024));
    let problem = read(&meta).unwrap_err();
    assert_eq!((problem.kind, problem.field.as_deref()), (ProblemKind::TooLarge, Some("meta")));
    let nested =
        |levels: usize| format!(r#"{{"type":"a","args":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert!(read(&nested(limits::JOB_DEPTH_MAX - 1)).is_ok());
    assert_eq!(read(&nested(limits::JOB_DEPTH_MAX)).unwrap_err().kind, ProblemKind::InvalidPayload);
    assert_eq!(read(&nested(200_000)).unwrap_err().kind, ProblemKind::InvalidPayload);
}

/// JSON values in the ways people and programs write them.
pub(in crate::job) fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("1e400".to_owned()),
        Just("-0.0".to_owned()),
        Just("\"\\ud83d\"".to_owned()),
        "[1-9][0-9]{0,30}",
        "[1-9][0-9]{0,5}\\.[0-9]{1,30}",
        ".{0,12}".prop_map(|text| raw::quoted(&text)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[ {}]", items.join(" ,"))),
            proptest::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|fields| {
                let fields: Vec<String> = fields.iter().map(|(k, v)| format!("\"{k}\" :{v}")).collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}") {
        prop_assert!(read(&text).is_err() || text.contains("args"));
    }

    #[test]
    fn no_piece_of_a_request_panics(cut in 0_usize..300, put in "[\\[\\]{}\",:0-9nul\\\\]{0,6}") {
        let whole = r#"{"type":"a.b","args":[1,{"x":"\ud83d"}],"meta":{"a":1},"options":{"queue":"q","retry":{"max_attempts":3},"tags":["t"],"delay_until":"+PT2S"},"x":[[]]}"#;
        let cut = cut.min(whole.len());
        let text = format!("{}{put}{}", &whole[..cut], &whole[cut..]);
        if let Ok(job) = read(&text) {
            prop_assert!(raw::items(&job.args).is_some());
        }
    }

    #[test]
    fn what_is_the_applications_comes_through_byte_for_byte(
        items in proptest::collection::vec(json(), 0..4), value in json(), unknown in json(),
    ) {
        let args = format!("[{}]", items.join(" , "));
        let meta = format!("{{ \"k\":  {value}}}");
        let text = format!(r#"{{"x_field" : {unknown}, "type":"a", "args": {args} ,"meta":{meta}}}"#);
        let job = read(&text).unwrap();
        prop_assert_eq!(job.args, args);
        prop_assert_eq!(job.meta, meta);
        prop_assert_eq!(job.extra, vec![("x_field".to_owned(), unknown)]);
    }
}
