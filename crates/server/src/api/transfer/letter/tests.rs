//! Awkward letters come back as they were, and hostile texts are refused without harm.

use bytes::Bytes;
use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::{FingerprintRules, Grouping, Subject, group};
use lazaret_core::id::{IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Letter, Strategy, listed};
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::testing::messages::{full, without_body};
use lazaret_store::transfer::Import;
use serde_json::{Value, json};

use super::*;

const INCIDENT: [u8; 16] = [9; 16];

fn now() -> Time {
    Time::parse("2026-11-15T03:00:00Z").unwrap()
}

fn by_rules(subject: Subject<'_>) -> Result<(Grouping, IncidentId), StoreError> {
    Ok((group(subject, &FingerprintRules::default()), IncidentId::from_bytes(INCIDENT)))
}

fn take(text: &str) -> Result<Import, NotTaken> {
    read(text, &Door { now: now(), body_bytes_max: limits::ENTRY_BYTES_MAX, group: &by_rules })
}

fn refusal(text: &str) -> String {
    match take(text) {
        Ok(_) => "taken".into(),
        Err(error) => error.to_string(),
    }
}

fn attempt(life: u32, ordinal: u32, error: LetterError) -> LifeAttempt {
    LifeAttempt { life, ordinal, attempt: Attempt { at: None, duration_ms: None, error, extra: None } }
}

/// A letter with these originals, a life each, and these attempts; the last one ended every life.
fn exported(originals: Vec<Envelope>, attempts: Vec<LifeAttempt>) -> Exported {
    let created_at = Time::parse("2026-11-14T03:00:00.123Z").unwrap();
    let fatal = attempts.last().unwrap();
    let error = &fatal.attempt.error;
    let subject = Subject {
        source: "report",
        queue: "billing",
        letter_type: "order.created",
        tenant: Some("acme"),
        error,
    };
    let fingerprint = by_rules(subject).unwrap().0.fingerprint;
    let letter = Letter {
        id: LetterId::mint(created_at, [7; 10]),
        source: "report".into(),
        event_id: "e-1".into(),
        letter_type: "order.created".into(),
        queue: "billing".into(),
        subscriber: None,
        tenant: Some("acme".into()),
        aggregate: None,
        schema_version: Some("2".into()),
        error_type: listed(&error.error_type, limits::NAME_BYTES_MAX),
        error_code: error.code.as_ref().map(|code| listed(code, limits::NAME_BYTES_MAX)),
        error_message: listed(&error.message, limits::MESSAGE_BYTES_LISTED),
        class: ErrorClass::Transient,
        fingerprint: fingerprint.clone(),
        incident: IncidentId::from_bytes(INCIDENT),
        retry_count: 3,
        max_retries: None,
        status: Status::Pending,
        place: Place::Live,
        life: originals.len() as u32,
        hold: None,
        resolution: None,
        previous: None,
        created_at,
        updated_at: now(),
        died_at: created_at,
        retention_at: created_at,
    };
    let lives = (1..).zip(originals).map(|(life, envelope)| {
        let life = Life {
            life,
            captured_at: created_at,
            died_at: Time::from_ms(i64::MIN),
            class: ErrorClass::Unknown,
            fingerprint: fingerprint.clone(),
            content_type: envelope.content_type().to_owned(),
            body_bytes: envelope.body().len() as u64,
            sha256: *envelope.sha256(),
            fatal: fatal.ordinal,
            retry_count: u32::MAX,
            max_retries: Some(0),
            redrive: (life > 1).then(|| RedriveId::from_bytes([3; 16])),
            reported: (life == 1).then(|| "{\"n\": 1.000000000000000000001e400}".to_owned()),
            origin: envelope.origin().cloned(),
            body_missing: envelope.body_missing().map(str::to_owned),
        };
        (life, envelope)
    });
    Exported {
        key: CaptureKey::of("report", "acme", "", "e-1"),
        ever_sent: true,
        lives: lives.collect(),
        attempts,
        decisions: Vec::new(),
        letter,
    }
}

fn plain() -> Exported {
    let original = Envelope::seal(Bytes::from_static(b"{}"), "application/json", Vec::new());
    exported(vec![original], vec![attempt(1, 1, LetterError::default())])
}

fn value(exported: &Exported) -> Value {
    serde_json::from_str(&write(exported)).unwrap()
}

#[track_caller]
fn assert_comes_back(exported: &Exported) {
    let text = write(exported);
    assert!(!text.contains('\n'));
    let import = take(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(format!("{:?}", import.exported), format!("{exported:?}"));
    assert_eq!(import.groupings.len(), exported.lives.len());
    assert_eq!(write(&import.exported), text);
}

#[test]
fn awkward_letters_come_back_as_they_were() {
    assert_comes_back(&plain());
    let header = |name: &str, value: &str| (name.to_owned(), value.into());
    let originals = vec![
        Envelope::seal(Bytes::from((0..=255).collect::<Vec<u8>>()), "application/octet-stream", Vec::new()),
        Envelope::seal(Bytes::new(), "", vec![header("lonely", "")]),
        Envelope::seal(
            Bytes::from_static("NUL \0, \u{2028}, 😀, \"quoted\"\r\n".as_bytes()),
            "text/plain",
            vec![header("twice", "\0"), header("twice", "ü")],
        ),
        Envelope::seal(Bytes::from(vec![0xff; 1_000_000]), "x", Vec::new()),
        full(b"{}"),
        without_body(),
    ];
    let mut attempts: Vec<LifeAttempt> =
        (1..=1_000).map(|ordinal| attempt(1 + ordinal % 6, ordinal, LetterError::default())).collect();
    attempts[0].attempt.at = Some(Time::from_ms(i64::MAX));
    attempts[1].attempt.at = Some(Time::from_ms(i64::MIN));
    attempts[2].attempt.duration_ms = Some(i64::MAX as u64);
    attempts[3].attempt.extra = Some("{ \"a\" : [1,  2] }".into());
    attempts[999].attempt.error = LetterError {
        error_type: "T\0".repeat(1_000),
        code: Some("\0".into()),
        message: "m\u{0}ü".repeat(5_000),
        backtrace: Some("at \u{1b}[31m\n".repeat(100)),
        context: Some("[123456789012345678901234567890.10, 1e999, \"\\ud800\"]".into()),
        extra: Some("{\"a\":1,\"a\":2}".into()),
    };
    let mut letter = exported(originals, attempts);
    letter.letter.status = Status::Discarded;
    letter.letter.resolution = Some(Resolution {
        at: now(),
        strategy: Strategy::Discard,
        by: "ann".into(),
        notes: Some("\0".into()),
    });
    letter.letter.hold = Some(Hold { at: now(), by: "bob".into(), reason: "§ 147 AO\nsee \"file\"".into() });
    letter.letter.previous = Some(LetterId::from_bytes([255; 16]));
    letter.decisions = vec![DecisionRecord {
        at: now(),
        action: "discard".into(),
        actor: "ann".into(),
        role: "operator".into(),
        reason: None,
        operation: Some(OperationId::from_bytes([1; 16])),
        imported: true,
    }];
    assert_comes_back(&letter);
}

#[test]
fn a_letter_that_was_under_way_waits_again() {
    let mut letter = plain();
    letter.letter.status = Status::Reprocessing;
    let import = take(&write(&letter)).unwrap();
    assert_eq!(import.exported.letter.status, Status::Pending);
}

#[test]
fn names_that_were_cut_keep_their_key() {
    let mut letter = plain();
    letter.letter.event_id = "ü".repeat(255);
    letter.key = CaptureKey::of("report", "acme", "", &"ü".repeat(1_000));
    assert_comes_back(&letter);
    letter.letter.event_id = "short".into();
    assert!(refusal(&write(&letter)).contains("key is not that of"));
}

#[test]
fn what_contradicts_itself_is_refused_with_the_reason() {
    let cases: [(&str, Value, &str); 32] = [
        ("/format", json!(2), "format 2"),
        ("/key", json!("0".repeat(64)), "key is not that of"),
        ("/key", json!("G".repeat(64)), "64 hex digits"),
        ("/id", json!("019a8b1c-7e00-7000-8000-000000000000"), "createdAt is not the time of the id"),
        ("/source", json!(""), "source is empty"),
        ("/queue", json!("x".repeat(513)), "the bytes of queue"),
        ("/type", json!("a\0b"), "type holds a NUL"),
        ("/status", json!("dead"), "status `dead` is unknown"),
        ("/status", json!("resolved"), "has no resolution"),
        (
            "/resolution",
            json!({"at": "2026-11-15T00:00:00Z", "strategy": "discard", "by": "x", "notes": null}),
            "has a resolution",
        ),
        ("/life", json!(2), "life is 2"),
        ("/life", json!(0), "life"),
        ("/lives", json!([]), "life is 1"),
        ("/lives/0/life", json!(2), "life 1 is missing"),
        ("/lives/0/fatal", json!(2), "ended by attempt 2"),
        ("/lives/0/fatal", json!(0), "ended by attempt 0"),
        ("/lives/0/body", json!("{ }"), "does not have its sha256"),
        ("/lives/0/body", Value::Null, "neither body nor bodyBase64"),
        ("/lives/0/bodyBase64", json!("e30="), "both given"),
        ("/lives/0/diedAt", json!("2026-11-15T00:00:00Z"), "later than capturedAt"),
        ("/lives/0/capturedAt", json!("2026-11-17T00:00:00Z"), "future"),
        ("/lives/0/reported", json!("[]"), "reported does not hold a JSON object"),
        ("/lives/0/headers", json!([["a"]]), "cannot be read"),
        ("/lives/0/headers", json!([["a", 7]]), "headers: a header is a string"),
        ("/lives/0/headers", json!([["a", {"type": "int8", "value": 300}]]), "headers: `value` is not"),
        ("/updatedAt", json!("2026-11-15T03:00:00"), "no time zone"),
        ("/attempts/0/ordinal", json!(2), "attempt 1 is missing"),
        ("/attempts/0/life", json!(2), "belongs to life 2"),
        ("/attempts/0/durationMs", json!(u64::MAX), "durationMs"),
        ("/attempts/0/error/context", json!("{"), "error.context does not hold JSON"),
        ("/attempts/0/error/context", json!({"a": 1}), "cannot be read"),
        ("/colour", json!("red"), "unknown field `colour`"),
    ];
    for (pointer, wrong, reason) in cases {
        let mut letter = value(&plain());
        let (place, field) = pointer.rsplit_once('/').unwrap();
        match letter.pointer_mut(place).unwrap() {
            Value::Object(object) => drop(object.insert(field.into(), wrong)),
            other => panic!("{pointer}: {other}"),
        }
        let refusal = refusal(&letter.to_string());
        assert!(refusal.contains(reason), "{pointer}: {refusal}");
    }
}

/// Every place in a value, by its pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| places(value, &format!("{at}/{key}"), found));
        }
        Value::Array(list) => {
            (0..)
                .zip(list)
                .for_each(|(index, value): (usize, _)| places(value, &format!("{at}/{index}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn no_wrong_value_anywhere_does_harm() {
    let mut letter = plain();
    letter.letter.hold = Some(Hold { at: now(), by: "bob".into(), reason: "why".into() });
    let letter = value(&letter);
    let mut found = Vec::new();
    places(&letter, "", &mut found);
    let hostile = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("\0"),
        json!("x".repeat(10_000)),
        json!("9999-12-31T23:59:59Z"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"x": {}}),
    ];
    for place in &found {
        for wrong in &hostile {
            let mut letter = letter.clone();
            *letter.pointer_mut(place).unwrap() = wrong.clone();
            match take(&letter.to_string()) {
                // What is taken can be written and read again.
                Ok(import) => assert!(take(&write(&import.exported)).is_ok(), "{place} {wrong}"),
                Err(error) => assert!(!error.to_string().is_empty() && error.to_string().len() < 1_000),
            }
        }
    }
}

#[test]
fn no_torn_text_does_harm() {
    let text = write(&plain());
    for end in 0..text.len() {
        assert!(take(&text[..end]).is_err(), "{end}");
    }
    let deep = text.replace("\"headers\":[]", &format!("\"headers\":{}", "[".repeat(100_000)));
    assert!(take(&deep).is_err());
}
