//! Letters go back into their rows, scoped and guarded, and what the application does by itself is seen.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;
use lazaret_sources::destination::{Content, Destination, Outgoing, Sent, Verified};
use lazaret_sources::outbox::RowStatus;

use crate::app::App;

pub fn letter(message_id: &str) -> Outgoing {
    let at = Time::from_ms(1_763_175_600_000);
    Outgoing {
        letter: LetterId::mint(at, [1; 10]),
        life: 1,
        redrive: RedriveId::mint(at, [2; 10]),
        message_id: message_id.to_owned(),
        idempotency_key: "k".to_owned(),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: bytes::Bytes::from_static(b"{\"n\": 1}"),
        content: Content::Original,
        origin: None,
        handle: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_040_040_one_dead_row_is_reset_and_no_other() {
    let app = App::start().await;
    let id = app.dead_event("order-1", "{\"n\": 1}").await;
    let other = app.dead_event("order-2", "{\"n\": 2}").await;
    app.run("update outbox set next_attempt_at = '2020-01-01'").await;
    let untouched = format!("select outbox::text from outbox where id = '{other}'");
    let before = app.text(&untouched).await;
    let processed_at = format!("select processed_at::text from outbox where id = '{id}'");
    let died = app.text(&processed_at).await;
    // The application repaired the payload while the row was dead: that is not undone.
    app.run(&format!("update outbox set payload = '{{\"n\": 11}}' where id = '{id}'")).await;
    let outbox = app.outbox();
    assert_eq!(outbox.send(&letter(&id)).await, Sent::Taken { handle: None });
    let row = format!(
        "select concat_ws(' ', status, retry_count, coalesce(last_error, 'null'), payload,
                next_attempt_at > now() - interval '1 minute') from outbox where id = '{id}'"
    );
    assert_eq!(app.text(&row).await, "PENDING 0 null {\"n\": 11} t");
    assert_eq!(app.text(&processed_at).await, died);
    assert_eq!(app.text(&untouched).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_not_dead_is_never_changed() {
    let app = App::start().await;
    let outbox = app.outbox();
    let id = app.event("order-1", "{}").await;
    for (status, sent) in [
        ("PENDING", Sent::Taken { handle: None }),
        ("PROCESSING", Sent::Taken { handle: None }),
        ("PROCESSED", Sent::Delivered { evidence: "processed", handle: None }),
    ] {
        app.run(&format!("update outbox set status = '{status}', retry_count = 2, last_error = 'x'")).await;
        let before = app.text("select outbox::text || xmin::text from outbox").await;
        assert_eq!(outbox.send(&letter(&id)).await, sent, "{status}");
        assert_eq!(app.text("select outbox::text || xmin::text from outbox").await, before, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_the_column_does_not_take_is_refused_and_changes_nothing() {
    let app = App::start().await;
    let outbox = app.outbox();
    let id = app.dead_event("order-1", "{}").await;
    let before = app.text("select outbox::text from outbox").await;
    for body in [&b"{broken"[..], b"\xff\xfe"] {
        let edited = Outgoing { body: body.to_vec().into(), content: Content::Edited, ..letter(&id) };
        let Sent::Refused(refusal) = outbox.send(&edited).await else { panic!("taken") };
        assert!(!refusal.error.message.contains("broken"), "{}", refusal.error.message);
    }
    assert_eq!(app.text("select outbox::text from outbox").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_application_did_by_itself_is_seen() {
    let app = App::start().await;
    let outbox = app.outbox();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(app.dead_event(&format!("order-{number}"), "{}").await);
    }
    for (id, status) in ids.iter().zip(["PENDING", "PROCESSING", "PROCESSED"]) {
        app.run(&format!("update outbox set status = '{status}' where id = '{id}'")).await;
    }
    app.run(&format!("delete from outbox where id = '{}'", ids[4])).await;
    ids.push("not a key".to_owned());
    let statuses = outbox.statuses(&ids).await.unwrap();
    let at = |id: &String| statuses[id].clone();
    assert_eq!((at(&ids[0]), at(&ids[1])), (RowStatus::Pending, RowStatus::Processing));
    assert!(matches!(at(&ids[2]), RowStatus::Processed { at: Some(_) }));
    assert_eq!(
        (at(&ids[3]), at(&ids[4]), at(&ids[5])),
        (RowStatus::DeadLetter, RowStatus::Gone, RowStatus::Gone)
    );
    // More than are asked for at once.
    let many: Vec<String> = app
        .rows(
            "insert into outbox (event_type, payload) select 'X', '{}' from generate_series(1, 2500) returning id::text",
            &[],
        )
        .await
        .iter()
        .map(|row| row.get(0))
        .collect();
    let statuses = outbox.statuses(&many).await.unwrap();
    assert_eq!(statuses.values().filter(|status| **status == RowStatus::Pending).count(), 2_500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_leaves_the_outcome_unknown() {
    let mut app = App::bare().await;
    app.config.url = "postgres://nobody:hunter2@127.0.0.1:1/none".to_owned();
    let outbox = app.outbox();
    let Sent::Unknown(why) = outbox.send(&letter("7")).await else { panic!("known") };
    assert!(!why.contains("hunter2"), "{why}");
    assert_eq!(outbox.verify(&letter("7")).await, Verified::NotYet);
    assert!(!Destination::address(outbox.as_ref()).contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_of_the_applications_that_says_no_is_a_refusal() {
    let app = App::start().await;
    app.run(
        "create function no() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
         create trigger no before update on outbox for each row when (new.status = 'PENDING') execute function no()",
    )
    .await;
    let id = app.dead_event("order-1", "{}").await;
    let Sent::Refused(refusal) = app.outbox().send(&letter(&id)).await else { panic!("taken") };
    assert_eq!(refusal.error.code.as_deref(), Some("P0001"));
    assert!(refusal.error.message.contains("not now"), "{}", refusal.error.message);
    assert_eq!(app.status(&id).await, "DEAD_LETTER");
}
