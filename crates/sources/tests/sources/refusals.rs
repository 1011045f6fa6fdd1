//! Rows that the application's own triggers refuse to have changed: they hold up nobody, and people see why.

use std::sync::Arc;

use lazaret_sources::outbox::RelayConfig;

use crate::app::App;
use crate::sinks::Scripted;

/// An application that refuses a change of status for events of the type `Guarded`.
async fn refuse(app: &App, when: &str) {
    app.run(&format!(
        "create or replace function guard() returns trigger language plpgsql as $$
         begin
             if {when} then raise exception 'event % is under audit', old.payload; end if;
             return new;
         end $$;
         create or replace trigger guard before update on outbox for each row execute function guard()"
    ))
    .await;
}

async fn fill(app: &App) {
    app.run(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
         select case n when 30 then 'Guarded' else 'A' end, 'order', n::text, to_jsonb(n)
           from generate_series(1, 60) as n order by n;
         insert into outbox (event_type, payload)
         select case n when 30 then 'Guarded' else 'A' end, to_jsonb(n) from generate_series(1, 60) as n order by n",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_that_cannot_be_settled_leaves_the_others_settled() {
    let app = App::start().await;
    fill(&app).await;
    refuse(&app, "new.event_type = 'Guarded' and new.status = 'PROCESSED'").await;
    let sink = Arc::new(Scripted::default());
    let relay = app.relay(sink.clone());
    let worked = relay.tick().await.unwrap();
    assert_eq!((worked.delivered, worked.retried, worked.lost), (118, 2, 0), "{worked:?}");
    let row = "select last_error from outbox where event_type = 'Guarded' and retry_count = 1 limit 1";
    let why = app.text(row).await;
    assert!(why.starts_with("SettleRefused: ") && why.contains("under audit"), "{why}");
    // Its tries are counted, and at last it is dead and everybody can see why.
    for _ in 0..10 {
        app.let_time_pass().await;
        relay.tick().await.unwrap();
    }
    assert_eq!(app.counts().await, "DEAD_LETTER 2, PROCESSED 118");
    assert_eq!(sink.keys().len(), 118 + 2 * 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_that_can_never_be_changed_stays_and_is_told_of() {
    for when in ["old.event_type = 'Guarded'", "old.event_type = 'Guarded' and old.status = 'PROCESSING'"] {
        let app = App::start().await;
        fill(&app).await;
        refuse(&app, when).await;
        let sink = Arc::new(Scripted::default());
        let relay = app.relay(sink.clone());
        for _ in 0..5 {
            relay.tick().await.unwrap();
            app.run(
                "update outbox set next_attempt_at = now() - interval '1 second'
                  where event_type <> 'Guarded' and status in ('PENDING', 'PROCESSING')",
            )
            .await;
        }
        let counts = app.counts().await;
        assert!(counts.contains("PROCESSED 118"), "{when}: {counts}");
        let refused = relay.refused_rows();
        assert_eq!(refused.len(), 2, "{when}");
        assert!(refused.iter().all(|row| row.why.contains("under audit")), "{refused:?}");
        let once: std::collections::BTreeSet<String> = sink.keys().into_iter().collect();
        assert_eq!(once.len(), sink.keys().len(), "{when}: nothing goes out twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_is_recorded_although_the_table_changes() {
    let mut app = App::start().await;
    app.config.relay = Some(RelayConfig { concurrency: 4, ..RelayConfig::default() });
    fill(&app).await;
    let sink = Arc::new(Scripted::default());
    let relay = app.relay(sink.clone());
    app.run("alter table outbox rename processed_at to done_at").await;
    let error = relay.tick().await.unwrap_err();
    assert!(error.to_string().contains("processed_at"), "{error}");
    // No new delivery began once the first outcome could not be recorded.
    assert!(sink.keys().len() < 120, "{}", sink.keys().len());
}
