//! Cases: what is captured comes back whole, and once.

use std::collections::BTreeSet;

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::class::ErrorClass;
use lazaret_core::envelope::Envelope;
use lazaret_core::id::LetterId;
use lazaret_core::letter::{Captured, Letter, Outcome};
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_store::testing::messages::every_header;

use crate::rig::{Rig, at, captured, dying, error, failed};

/// A message with every field set.
fn full() -> Captured {
    let context = r#"{"attempt": 3, "z": 1.0, "a": 1e400}"#;
    let mut fatal = failed(at(-1_000), "timed out");
    fatal.error.code = Some("ETIMEDOUT".into());
    fatal.extra = Some(r#"{"worker":"w1"}"#.into());
    Captured {
        tenant: Some("acme".into()),
        aggregate: Some("order-7".into()),
        schema_version: Some("v2".into()),
        error: LetterError {
            code: Some("ETIMEDOUT".into()),
            backtrace: Some("at connect\nat send\n".repeat(50)),
            context: Some(context.into()),
            extra: Some(r#"{"fatal":true}"#.into()),
            ..error("timed out")
        },
        attempts: vec![failed(at(-3_000), "connection refused"), failed(at(-2_000), "reset"), fatal],
        reported: Some(r#"{"custom": [1,  2]}"#.into()),
        ..dying("e1", at(-1_000))
    }
}

pub async fn a_new_letter_comes_back_whole(rig: &mut Rig) {
    let admitted = rig.admit(full(), at(0));
    let receipt = rig.insert(vec![admitted.clone()]).await[0];
    assert_eq!((receipt.letter, receipt.outcome), (admitted.id, Outcome::Created));
    let found = rig.history(admitted.id).await;
    let expected = Letter {
        id: admitted.id,
        source: "report".into(),
        event_id: "e1".into(),
        letter_type: "order.created".into(),
        queue: "orders".into(),
        subscriber: Some("billing".into()),
        tenant: Some("acme".into()),
        aggregate: Some("order-7".into()),
        schema_version: Some("v2".into()),
        error_type: "ConnectionError".into(),
        error_code: Some("ETIMEDOUT".into()),
        error_message: "timed out".into(),
        class: ErrorClass::Transient,
        fingerprint: admitted.grouping.fingerprint.clone(),
        incident: admitted.incident,
        retry_count: 3,
        max_retries: Some(5),
        status: Status::Pending,
        place: Place::Live,
        life: 1,
        hold: None,
        resolution: None,
        previous: None,
        created_at: at(0),
        updated_at: at(0),
        died_at: at(-1_000),
        retention_at: at(0),
    };
    assert_eq!(found.letter, expected);
    assert_eq!(rig.find("").await, [admitted.id]);
    let attempts: Vec<&Attempt> = found.attempts.iter().map(|attempt| &attempt.attempt).collect();
    assert_eq!(attempts, admitted.captured.attempts.iter().collect::<Vec<_>>());
    assert!(attempts[2].error.backtrace.is_some() && attempts[2].error.context.is_some());
    assert_eq!(
        found.attempts.iter().map(|attempt| (attempt.ordinal, attempt.life)).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 1)]
    );
    let [life] = found.lives.as_slice() else { panic!("one life: {:?}", found.lives) };
    assert_eq!((life.life, life.fatal, life.retry_count, life.max_retries), (1, 3, 3, Some(5)));
    assert_eq!((life.captured_at, life.died_at, life.class), (at(0), at(-1_000), ErrorClass::Transient));
    assert_eq!(life.fingerprint, admitted.grouping.fingerprint);
    assert_eq!(life.reported.as_deref(), Some(r#"{"custom": [1,  2]}"#));
    assert_eq!(life.redrive, None);
    assert_eq!((life.content_type.as_str(), life.body_bytes), ("application/json", 11));
    assert_eq!(&life.sha256, admitted.captured.envelope.sha256());
}

pub async fn an_original_comes_back_to_the_byte(rig: &mut Rig) {
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let noise: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let bodies =
        [Vec::new(), vec![0], vec![b'x'; 4 * 1024 * 1024], every_byte, noise, b"\xff\xfe\x00{".to_vec()];
    let mut headers = vec![
        ("trace".to_owned(), "1".into()),
        ("Trace".to_owned(), "2".into()),
        ("trace".to_owned(), "".into()),
        (String::new(), "ü \u{0} \" \\ \n".into()),
    ];
    headers.extend(every_header());
    for (n, body) in bodies.into_iter().enumerate() {
        let sealed = Envelope::seal(body.into(), "application/octet-stream; x=\"é\"", headers.clone());
        let id = rig.create(Captured { envelope: sealed.clone(), ..captured(&format!("e{n}")) }, at(0)).await;
        for life in [None, Some(1)] {
            let original = rig.store().original(id, life).await.unwrap().unwrap();
            assert_eq!(original.life, 1);
            assert!(original.envelope == sealed, "body {n} came back changed");
        }
    }
}

pub async fn a_letter_with_a_long_history_comes_back_whole(rig: &mut Rig) {
    let attempts: Vec<Attempt> = (0..limits::ATTEMPTS_MAX as i64)
        .map(|n| {
            // Many of them are equal but for their place in the list.
            let mut run = failed(at(n / 10), "connection refused");
            run.error.backtrace = Some(format!("at frame {n}\n").repeat(20));
            run
        })
        .collect();
    let letter = Captured { attempts, error: error("given up"), ..dying("e1", at(200)) };
    let admitted = rig.admit(letter, at(300));
    rig.insert(vec![admitted.clone()]).await;
    let found = rig.history(admitted.id).await;
    let attempts: Vec<Attempt> = found.attempts.into_iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(attempts.len(), limits::ATTEMPTS_MAX + 1);
    assert!(attempts == admitted.captured.attempts);
    assert_eq!(rig.insert(vec![admitted.clone()]).await[0].outcome, Outcome::Duplicate);
    assert_eq!(rig.history(admitted.id).await.attempts.len(), limits::ATTEMPTS_MAX + 1);
}

pub async fn a_thousand_letters_inserted_twice_are_a_thousand_letters(rig: &mut Rig) {
    let batch =
        |rig: &Rig| (0..1_000).map(|n| rig.admit(captured(&format!("e{n}")), at(0))).collect::<Vec<_>>();
    let first = rig.insert(batch(rig)).await;
    assert!(first.iter().all(|receipt| receipt.outcome == Outcome::Created));
    let before = rig.dump().await;
    let second = rig.insert(batch(rig)).await;
    assert!(second.iter().all(|receipt| receipt.outcome == Outcome::Duplicate));
    let ids = |receipts: &[lazaret_core::letter::Receipt]| {
        receipts.iter().map(|receipt| receipt.letter).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ids(&second));
    assert_eq!(ids(&first).into_iter().collect::<BTreeSet<_>>().len(), 1_000);
    assert_eq!(rig.dump().await, before);
}

pub async fn the_same_event_elsewhere_is_another_letter(rig: &mut Rig) {
    let places = [
        captured("e1"),
        Captured { subscriber: Some("shipping".into()), ..captured("e1") },
        Captured { subscriber: None, ..captured("e1") },
        Captured { tenant: Some("acme".into()), ..captured("e1") },
        Captured { tenant: Some("billing".into()), subscriber: None, ..captured("e1") },
        Captured { source: "rabbitmq".into(), ..captured("e1") },
        captured("e2"),
    ];
    let count = places.len();
    for place in places.clone() {
        rig.create(place, at(0)).await;
    }
    for place in places {
        assert_eq!(rig.capture(place, at(1)).await.outcome, Outcome::Duplicate);
    }
    assert_eq!(rig.find("").await.len(), count);
}

pub async fn the_same_key_twice_in_one_batch_is_one_letter(rig: &mut Rig) {
    let batch = [dying("e1", at(-9)), dying("e2", at(-9)), dying("e1", at(-9)), dying("e1", at(-5))];
    let receipts = rig.insert(batch.into_iter().map(|captured| rig.admit(captured, at(0))).collect()).await;
    let outcomes: Vec<Outcome> = receipts.iter().map(|receipt| receipt.outcome).collect();
    assert_eq!(outcomes, [Outcome::Created, Outcome::Created, Outcome::Duplicate, Outcome::Recurred]);
    assert_eq!(receipts[0].letter, receipts[2].letter);
    assert_eq!(receipts[0].letter, receipts[3].letter);
    assert_eq!(rig.find("").await.len(), 2);
    assert_eq!(rig.letter(receipts[0].letter).await.life, 2);
}

pub async fn long_ids_that_differ_at_the_end_are_two_letters(rig: &mut Rig) {
    let long = "x".repeat(limits::MESSAGE_ID_BYTES_MAX);
    let one = rig.create(captured(&format!("{long}1")), at(0)).await;
    let two = rig.create(captured(&format!("{long}2")), at(0)).await;
    assert_ne!(one, two);
    assert_eq!(rig.capture(captured(&format!("{long}1")), at(1)).await.letter, one);
    assert_eq!(rig.capture(captured(&format!("{long}2")), at(1)).await.letter, two);
    let shown = rig.letter(one).await.event_id;
    assert!(long.starts_with(&shown) && shown.len() <= limits::MESSAGE_ID_BYTES_MAX);
}

pub async fn long_names_are_cut_in_lists_and_whole_in_the_history(rig: &mut Rig) {
    let long = "ü".repeat(5_000);
    let error = LetterError {
        error_type: long.clone(),
        code: Some(long.clone()),
        message: long.clone(),
        ..error("")
    };
    let letter =
        Captured { queue: long.clone(), letter_type: long.clone(), error: error.clone(), ..captured("e1") };
    let found = rig.history(rig.create(letter, at(0)).await).await;
    for (name, bytes) in [
        (&found.letter.queue, limits::NAME_BYTES_MAX),
        (&found.letter.letter_type, limits::NAME_BYTES_MAX),
        (&found.letter.error_type, limits::NAME_BYTES_MAX),
        (found.letter.error_code.as_ref().unwrap(), limits::NAME_BYTES_MAX),
        (&found.letter.error_message, limits::MESSAGE_BYTES_LISTED),
    ] {
        assert_eq!(name.len(), bytes);
        assert!(long.starts_with(name.as_str()));
    }
    assert_eq!(found.attempts[0].attempt.error, error);
}

pub async fn odd_characters_come_back_in_every_field(rig: &mut Rig) {
    let odd = "a\u{0}b'\"\\%_*?[x]\u{1b}\u{feff}\u{202e}\u{fffe}\u{10ffff}💥\r\n\t;--";
    let shown = odd.replace('\0', "\u{fffd}");
    let some = Some(odd.to_owned());
    let error = LetterError {
        error_type: odd.into(),
        code: some.clone(),
        message: odd.into(),
        backtrace: some.clone(),
        context: some.clone(),
        extra: some.clone(),
    };
    let letter = Captured {
        source: odd.into(),
        message_id: odd.into(),
        letter_type: odd.into(),
        queue: odd.into(),
        subscriber: some.clone(),
        tenant: some.clone(),
        aggregate: some.clone(),
        schema_version: some.clone(),
        envelope: Envelope::seal(odd.to_owned().into(), shown.clone(), vec![(odd.into(), odd.into())]),
        error: error.clone(),
        attempts: vec![Attempt { at: Some(at(0)), duration_ms: None, error, extra: some.clone() }],
        reported: some,
        ..captured("")
    };
    let admitted = rig.admit(letter.clone(), at(0));
    rig.insert(vec![admitted.clone()]).await;
    let found = rig.history(admitted.id).await;
    assert_eq!(found.attempts[0].attempt, admitted.captured.attempts[0]);
    assert_eq!(found.lives[0].reported.as_deref(), Some(odd));
    let original = rig.store().original(admitted.id, None).await.unwrap().unwrap();
    assert_eq!(original.envelope, admitted.captured.envelope);
    let letter = found.letter;
    for name in [
        &letter.source,
        &letter.event_id,
        &letter.letter_type,
        &letter.queue,
        &letter.error_type,
        &letter.error_message,
    ] {
        assert_eq!(*name, shown);
    }
    for name in [letter.subscriber, letter.tenant, letter.aggregate, letter.schema_version, letter.error_code]
    {
        assert_eq!(name.as_deref(), Some(shown.as_str()));
    }
    assert_eq!(
        rig.capture(Captured { message_id: shown, ..captured("") }, at(0)).await.outcome,
        Outcome::Created
    );
}

pub async fn an_incident_is_opened_once_per_fingerprint(rig: &mut Rig) {
    let other = |event: &str| Captured { letter_type: "order.paid".into(), ..captured(event) };
    let first = rig.insert(vec![rig.admit(captured("e1"), at(0)), rig.admit(other("e2"), at(0))]).await;
    rig.create(captured("e3"), at(1)).await;
    let incident = rig.letter(first[0].letter).await.incident;
    let told: Vec<_> = rig.store().events(0, 100).await.unwrap();
    let opened: Vec<_> = told.iter().filter(|event| event.kind == "incident.opened").collect();
    assert_eq!(opened.len(), 2);
    assert_eq!(opened[0].incident, Some(incident));
    assert_eq!(rig.find(&format!("incident:{incident}")).await.len(), 2);
    assert_ne!(rig.letter(first[1].letter).await.incident, incident);
    assert_eq!(rig.find("incident:019a8b1c-7e00-7000-8000-000000000000").await, []);
    assert_eq!(rig.find("-incident:019a8b1c-7e00-7000-8000-000000000000").await.len(), 3);
    let added: Vec<_> = told.iter().filter(|event| event.kind == "dead_letter.added").collect();
    assert_eq!(added.iter().map(|event| event.incident.is_some()).collect::<Vec<_>>(), [true; 3]);
}

pub async fn a_letter_is_created_in_the_millisecond_of_its_id(rig: &mut Rig) {
    for ms in [0, 1, 86_400_000] {
        let id = rig.create(dying(&format!("e{ms}"), at(-5)), at(ms)).await;
        let letter = rig.letter(id).await;
        assert_eq!((letter.created_at, id.at(), letter.died_at), (at(ms), at(ms), at(-5)));
    }
}

pub async fn sixteen_reporters_of_the_same_letters_make_each_once(rig: &mut Rig) {
    let mut reporters = tokio::task::JoinSet::new();
    for reporter in 0..16 {
        // Each begins elsewhere and goes round, in batches of different sizes.
        let events = (0..60).map(|n| (n * 7 + reporter * 11) % 60);
        let batch: Vec<_> = events.map(|n| rig.admit(dying(&format!("e{n}"), at(-1)), at(0))).collect();
        let store = rig.shared();
        reporters.spawn(async move {
            let mut created: Vec<LetterId> = Vec::new();
            for part in batch.chunks(reporter + 1) {
                let receipts = store.insert(part.to_vec()).await.unwrap();
                let new = receipts.iter().filter(|receipt| receipt.outcome == Outcome::Created);
                created.extend(new.map(|receipt| receipt.letter));
                assert!(
                    receipts
                        .iter()
                        .all(|receipt| matches!(receipt.outcome, Outcome::Created | Outcome::Duplicate))
                );
            }
            created
        });
    }
    let created: Vec<LetterId> = reporters.join_all().await.concat();
    assert_eq!(created.len(), 60);
    let found: BTreeSet<_> = rig.find("").await.into_iter().collect();
    assert_eq!(created.into_iter().collect::<BTreeSet<_>>(), found);
}

pub async fn an_empty_batch_changes_nothing(rig: &mut Rig) {
    let before = rig.dump().await;
    assert_eq!(rig.insert(Vec::new()).await, []);
    assert_eq!(rig.dump().await, before);
}

pub async fn what_does_not_exist_is_not_found(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    let other = LetterId::mint(at(0), [255; 10]);
    assert!(rig.store().history(other).await.unwrap().is_none());
    assert!(rig.store().original(other, None).await.unwrap().is_none());
    assert!(rig.store().original(id, Some(2)).await.unwrap().is_none());
    assert!(rig.store().original(id, Some(0)).await.unwrap().is_none());
    assert_eq!(rig.take(other, 1, at(0)).await, None);
}
