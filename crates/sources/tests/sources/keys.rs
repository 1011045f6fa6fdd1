//! Tables whose rows are identified by more than an id, and by very long ids.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;
use lazaret_sources::Source;
use lazaret_sources::destination::{Content, Destination, Outgoing, Sent};
use lazaret_sources::outbox::{Lost, PutBack, RowStatus};

use crate::app::{App, some};
use crate::sinks::{Scripted, answered};

/// Two tenants that use the same ids.
async fn tenants() -> App {
    let mut app = App::bare().await;
    app.config.columns.tenant = Some("tenant_id".to_owned());
    app.run(
        "create table outbox (
             tenant_id text not null, id bigint not null, event_type text not null, aggregate_type text,
             aggregate_id text, payload jsonb not null, schema_version int, status text not null default 'PENDING',
             retry_count int not null default 0, max_retries int, last_error text, next_attempt_at timestamptz,
             created_at timestamptz not null default clock_timestamp(), processed_at timestamptz,
             primary key (tenant_id, id));
         insert into outbox (tenant_id, id, event_type, payload, status, last_error)
         select tenant, id, 'A', jsonb_build_object('of', tenant), 'DEAD_LETTER', 'TimeoutError: late'
           from unnest(array['acme', 'globex']) as tenant, generate_series(1, 3) as id",
    )
    .await;
    app
}

fn outgoing(message_id: &str, content: Content) -> Outgoing {
    let at = Time::from_ms(1_763_175_600_000);
    Outgoing {
        letter: LetterId::mint(at, [1; 10]),
        life: 1,
        redrive: RedriveId::mint(at, [2; 10]),
        message_id: message_id.to_owned(),
        idempotency_key: "k".to_owned(),
        content_type: String::new(),
        headers: Vec::new(),
        body: Bytes::from_static(b"{\"edited\": true}"),
        content,
        origin: None,
        handle: None,
    }
}

const ROWS: &str =
    "select string_agg(concat_ws(' ', tenant_id, id, status, payload), ', ' order by tenant_id, id)
                      from outbox where status <> 'DEAD_LETTER' or payload ? 'edited'";

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_key_says_which_row_is_redriven_edited_and_made_again() {
    let app = tenants().await;
    let outbox = app.outbox();
    outbox.init(|_| {}).await.unwrap();
    let mut captured: Vec<_> = some(outbox.as_ref()).await.into_iter().map(|it| it.captured).collect();
    captured.sort_by(|a, b| (&a.tenant, &a.message_id).cmp(&(&b.tenant, &b.message_id)));
    assert_eq!(captured.len(), 6);
    assert_eq!(captured[0].message_id, r#"["1", "acme"]"#);
    let [first, second] = [&captured[0].message_id, &captured[1].message_id];
    assert_eq!(outbox.send(&outgoing(first, Content::Original)).await, Sent::Taken { handle: None });
    assert_eq!(app.text(ROWS).await, "acme 1 PENDING {\"of\": \"acme\"}");
    assert_eq!(outbox.send(&outgoing(second, Content::Edited)).await, Sent::Taken { handle: None });
    assert_eq!(app.text(ROWS).await, "acme 1 PENDING {\"of\": \"acme\"}, acme 2 PENDING {\"edited\": true}");
    app.run("delete from outbox where tenant_id = 'acme' and id = 3").await;
    let third = &captured[2];
    let statuses = outbox.statuses(std::slice::from_ref(&third.message_id)).await.unwrap();
    assert_eq!(statuses[&third.message_id], RowStatus::Gone);
    let lost = Lost {
        message_id: third.message_id.clone(),
        body: third.envelope.body().clone(),
        reported: third.reported.clone().unwrap(),
    };
    assert_eq!(outbox.put_back(&lost).await, Ok(PutBack::Made));
    assert_eq!(app.number("select count(*) from outbox where id = 3 and status = 'DEAD_LETTER'").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_settles_the_row_of_one_tenant_alone() {
    let app = tenants().await;
    app.outbox().init(|_| {}).await.unwrap();
    app.run("update outbox set status = 'PENDING', aggregate_id = id::text, max_retries = 1").await;
    let sink = Arc::new(Scripted::default());
    sink.always(r#"["2", "globex"]"#, answered(422));
    let relay = app.relay(sink.clone());
    while relay.tick().await.unwrap().claimed > 0 {}
    let dead = "select string_agg(tenant_id || id, ',') from outbox where status = 'DEAD_LETTER'";
    assert_eq!(app.text(dead).await, "globex2");
    assert_eq!(app.counts().await, "DEAD_LETTER 1, PROCESSED 5");
    // The trigger names whole keys, so that a death is captured at once.
    let arrivals = some(app.outbox().as_ref()).await;
    assert_eq!(arrivals[0].captured.message_id, r#"["2", "globex"]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_identifies_no_row_is_refused_at_the_start() {
    let app = tenants().await;
    app.run("alter table outbox drop constraint outbox_pkey").await;
    app.run("create unique index on outbox (id, aggregate_id)").await;
    app.run("alter table outbox alter tenant_id drop not null").await;
    let why = app.outbox().bind().await.unwrap_err().to_string();
    assert!(why.contains("may be null"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_was_broken_off_is_made_again_beside_writers() {
    let app = App::start().await;
    app.run("drop index lazaret_outbox_heads").await;
    app.run("create index lazaret_outbox_heads on outbox (aggregate_id)").await;
    app.run("update pg_index set indisvalid = false where indexrelid = 'lazaret_outbox_heads'::regclass")
        .await;
    let mut steps = Vec::new();
    app.outbox().init(|step| steps.push(step.about.clone())).await.unwrap();
    let columns = "select array_length(string_to_array(indkey::text, ' '), 1)::int8
                     from pg_index where indexrelid = 'lazaret_outbox_heads'::regclass and indisvalid";
    assert_eq!(app.number(columns).await, 4);
    assert!(
        steps.iter().any(|about| about.contains("lazaret_outbox_heads") && about.contains("blocks nobody"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_says_when_keys_are_whole() {
    let app = tenants().await;
    let outbox = app.outbox();
    outbox.init(|_| {}).await.unwrap();
    let findings = outbox.check().await;
    assert!(findings.iter().all(|finding| !finding.what.contains("unique only")), "{findings:#?}");
}
