//! What is found from outside, and what to do about it.

use lazaret_sources::outbox::Outbox;
use lazaret_sources::{Level, Source};

use crate::app::App;

/// Everything that is not well, one line each.
async fn wrong(outbox: &Outbox) -> Vec<String> {
    let findings = outbox.check().await;
    let wrong = findings.into_iter().filter(|finding| finding.level != Level::Ok);
    wrong
        .map(|finding| format!("{}: {} ({})", finding.level.name(), finding.what, finding.hint.unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_help_works_and_is_told_what_is_missing() {
    let mut app = App::bare().await;
    app.run(
        "create table outbox (id text primary key, event_type text, aggregate_type text, aggregate_id text,
             payload jsonb, schema_version int, status text, retry_count int, max_retries int, last_error text,
             next_attempt_at timestamp, created_at timestamptz, processed_at timestamptz);
         insert into outbox (id, status, next_attempt_at)
         values ('1', 'PROCESSING', localtimestamp - interval '1 hour'), ('2', 'DEAD_LETTER', null)",
    )
    .await;
    app.config.poll_ms = 5_000;
    let wrong = wrong(&app.outbox()).await;
    for (number, told) in [
        "no index finds dead and due rows",
        "no index holds the unprocessed events of each aggregate in order",
        "column \"next_attempt_at\" (next_attempt_at) has no time zone",
        "no trigger tells of new rows: they are looked for every 5000 ms",
        "1 rows are stuck in processing",
    ]
    .iter()
    .enumerate()
    {
        assert!(wrong[number].starts_with("warning: ") && wrong[number].contains(told), "{wrong:#?}");
    }
    assert_eq!(wrong.len(), 5, "{wrong:#?}");
    let all = app.outbox().check().await;
    assert!(all.iter().any(|finding| finding.what == "1 rows are dead"), "{all:#?}");
    // What the hints say helps.
    app.make_table().await;
    app.run("delete from outbox; alter table outbox alter next_attempt_at type timestamptz").await;
    assert_eq!(self::wrong(&app.outbox()).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileges_policies_and_a_server_that_takes_no_changes_are_found() {
    let app = App::start().await;
    app.run("drop role if exists reader; create role reader login; grant select on outbox to reader").await;
    let mut reader = App::at(&app.config.url.replace("postgres://postgres@", "postgres://reader@"));
    reader.config.name = "reader".to_owned();
    let found = wrong(&reader.outbox()).await.join("\n");
    assert!(found.contains("error: rows may not be changed"), "{found}");
    assert!(found.contains("grant update on \"public\".\"outbox\""), "{found}");
    assert!(found.contains("warning: rows may not be made"), "{found}");
    let database = app.config.url.rsplit_once('/').unwrap().1;
    app.run(&format!(
        "alter table outbox enable row level security;
         alter database {database} set default_transaction_read_only = on"
    ))
    .await;
    let found = wrong(&app.outbox()).await.join("\n");
    assert!(found.contains("error: the server takes no changes"), "{found}");
    assert!(found.contains("warning: row security is on"), "{found}");
    app.run(&format!(
        "set default_transaction_read_only = off;
         alter database {database} reset default_transaction_read_only;
         drop owned by reader; drop role reader"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_an_error_each() {
    let mut app = App::start().await;
    (app.config.columns.id, app.config.columns.payload) = ("key".to_owned(), "body".to_owned());
    let found = wrong(&app.outbox()).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|line| line.starts_with("error: ")), "{found:#?}");
    app.config.url = "postgres://nobody:hunter2@127.0.0.1:1/none".to_owned();
    let found = wrong(&app.outbox()).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(!found[0].contains("hunter2"), "{found:#?}");
}
