//! Existing tables fit: any names, key types, payload types and kinds of status.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;
use lazaret_sources::destination::{Content, Destination, Outgoing, Sent, Verified};
use lazaret_sources::outbox::{Columns, Lost, PutBack, RowStatus, Statuses, TableName};

use crate::app::{App, some};
use crate::sinks::{Scripted, answered};

const KEYS: [(&str, &str); 3] = [
    ("uuid", "gen_random_uuid()"),
    ("bigint generated always as identity", "default"),
    ("text", "'key ''' || random()"),
];

/// The type, what is inserted, the same as bytes, something else, and how it is announced.
type Payload = (&'static str, &'static str, &'static [u8], &'static [u8], &'static str);

const PAYLOADS: [Payload; 4] = [
    ("json", "'{\"b\" : 1,  \"a\":2}'", b"{\"b\" : 1,  \"a\":2}", b"{\"c\":3}", "application/json"),
    ("jsonb", "'{\"b\" : 1,  \"a\":2}'", b"{\"a\": 2, \"b\": 1}", b"{\"c\": 3}", "application/json"),
    ("text", "'Grüße'", "Grüße".as_bytes(), b"other", "text/plain; charset=utf-8"),
    ("bytea", "'\\x00ff27'", b"\x00\xff\x27", b"\x01\x00", "application/octet-stream"),
];

fn columns() -> Columns {
    let some = |name: &str| Some(name.to_owned());
    Columns {
        id: "Event Key".to_owned(),
        event_type: "kind".to_owned(),
        aggregate_type: None,
        aggregate_id: some("order"),
        payload: "data".to_owned(),
        schema_version: None,
        status: "State".to_owned(),
        retry_count: "tries".to_owned(),
        max_retries: some("tries_max"),
        last_error: "err".to_owned(),
        next_attempt_at: some("due"),
        created_at: "made".to_owned(),
        processed_at: some("done"),
        tenant: some("whose"),
    }
}

fn outgoing(message_id: &str, body: &[u8], content: Content) -> Outgoing {
    let at = Time::from_ms(1_763_175_600_000);
    Outgoing {
        letter: LetterId::mint(at, [1; 10]),
        life: 1,
        redrive: RedriveId::mint(at, [2; 10]),
        message_id: message_id.to_owned(),
        idempotency_key: "k".to_owned(),
        content_type: String::new(),
        headers: Vec::new(),
        body: Bytes::copy_from_slice(body),
        content,
        origin: None,
        handle: None,
    }
}

/// The table `t` in a schema of its own with a row that is dead, and the statuses in its words.
async fn table(app: &mut App, key: (&str, &str), payload: (&str, &str), status: &str, words: [&str; 4]) {
    let [pending, processing, processed, dead_letter] = words.map(str::to_owned);
    app.config.table = TableName::parse("\"My App\".t").unwrap();
    app.config.columns = columns();
    app.config.statuses = Statuses { pending, processing, processed, dead_letter };
    let [first, .., dead] = words;
    let ((key, made), (of, data)) = (key, payload);
    app.run(&format!(
        "drop table if exists \"My App\".t;
         create table \"My App\".t (
             \"Event Key\" {key} primary key, kind varchar(30) not null, \"order\" int, data {of},
             \"State\" {status} not null default '{first}', tries smallint not null default 0, tries_max int,
             err varchar(12), due timestamp, made timestamp not null default localtimestamp, done timestamptz,
             whose text, extra numeric default 1.10);
         insert into \"My App\".t (\"Event Key\", kind, \"order\", data, \"State\", tries, tries_max, err, done, whose)
         values ({made}, 'OrderCreated', 7, {data}, '{dead}', 4, 3, 'it''s late', now(), 'acme')"
    ))
    .await;
}

async fn state(app: &App) -> String {
    app.text("select concat_ws(' ', \"State\"::text, tries, coalesce(err, '-')) from \"My App\".t").await
}

/// Captured, redriven, edited, relayed, deleted and put back.
async fn check(app: &App, payload: Payload, words: [&str; 4]) {
    let (_, _, bytes, other, content_type) = payload;
    let [pending, _, processed, dead] = words;
    let outbox = app.outbox();
    outbox.bind().await.unwrap();
    let captured = some(outbox.as_ref()).await.remove(0).captured;
    let id = captured.message_id.clone();
    assert_eq!(captured.envelope.body().as_ref(), bytes);
    assert_eq!(captured.envelope.content_type(), content_type);
    assert_eq!(captured.error.message, "it's late");
    assert_eq!((captured.aggregate.as_deref(), captured.tenant.as_deref()), (Some("7"), Some("acme")));
    assert_eq!((captured.retry_count, captured.max_retries), (4, Some(3)));

    // Gone, and made again whole.
    let whole = "select (to_jsonb(t) - 'State')::text from \"My App\".t";
    let before = app.text(whole).await;
    app.run("delete from \"My App\".t").await;
    let letter = outgoing(&id, bytes, Content::Original);
    let Sent::Refused(refusal) = outbox.send(&letter).await else { panic!("a row that is gone was sent") };
    assert!(refusal.error.message.contains("vanished"), "{}", refusal.error.message);
    assert_eq!(outbox.statuses(std::slice::from_ref(&id)).await.unwrap()[&id], RowStatus::Gone);
    let lost = Lost {
        message_id: id.clone(),
        body: captured.envelope.body().clone(),
        reported: captured.reported.clone().unwrap(),
    };
    assert_eq!(outbox.put_back(&lost).await, Ok(PutBack::Made));
    assert_eq!(outbox.put_back(&lost).await, Ok(PutBack::IsThere));
    assert_eq!(app.text(whole).await, before);
    assert_eq!(state(app).await, format!("{dead} 4 it's late"));

    // Back, and processed by the application.
    assert_eq!(outbox.send(&letter).await, Sent::Taken { handle: None });
    assert_eq!(state(app).await, format!("{pending} 0 -"));
    assert_eq!(outbox.verify(&letter).await, Verified::NotYet);
    app.run(&format!("update \"My App\".t set \"State\" = '{processed}'")).await;
    assert!(matches!(outbox.verify(&letter).await, Verified::Succeeded { evidence: "processed", .. }));
    assert_eq!(outbox.send(&letter).await, Sent::Delivered { evidence: "processed", handle: None });

    // Dead again, edited, and delivered by a relay at the third try.
    app.run(&format!("update \"My App\".t set \"State\" = '{dead}', tries = 2")).await;
    assert_eq!(outbox.send(&outgoing(&id, other, Content::Edited)).await, Sent::Taken { handle: None });
    let sink = Arc::new(Scripted::default());
    sink.next(&id, answered(503));
    sink.next(&id, answered(503));
    let relay = app.relay(sink.clone());
    assert_eq!(relay.tick().await.unwrap().retried, 1);
    assert_eq!(state(app).await, format!("{pending} 1 HttpAnswer ("));
    for _ in 0..2 {
        app.run("update \"My App\".t set due = localtimestamp - interval '1 second'").await;
        relay.tick().await.unwrap();
    }
    assert_eq!(state(app).await, format!("{processed} 2 HttpAnswer ("));
    let got = sink.got();
    assert_eq!(got.iter().map(|delivery| delivery.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((&got[0].body[..], got[0].content_type), (other, payload.4));
    assert_eq!(got[0].idempotency_key, id);
}

async fn check_all(prepare: &str, status: &str, words: [&str; 4]) {
    let mut app = App::bare().await;
    app.run(&format!("create schema \"My App\"; {prepare}")).await;
    for key in KEYS {
        for payload in PAYLOADS {
            table(&mut app, key, (payload.0, payload.1), status, words).await;
            check(&app, payload, words).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_and_payload_with_a_status_in_text() {
    check_all(
        "",
        "text check (\"State\" in ('new', 'busy', 'done', 'lost'))",
        ["new", "busy", "done", "lost"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_and_payload_with_a_status_of_an_enum() {
    let make = "create type \"My App\".\"Word\" as enum ('New', 'Busy', 'It is done', 'LOST')";
    check_all(make, "\"My App\".\"Word\"", ["New", "Busy", "It is done", "LOST"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_and_payload_with_a_short_status() {
    check_all("", "varchar(4)", ["NEW", "BUSY", "DONE", "DEAD"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_and_payload_with_a_status_in_numbers() {
    check_all("", "smallint", ["0", "1", "2", "-1"]).await;
}
