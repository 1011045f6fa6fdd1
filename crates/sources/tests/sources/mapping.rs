//! A mapping that does not fit is refused, with every reason.

use lazaret_sources::SourceError;
use lazaret_sources::outbox::{Outbox, OutboxConfig, TableName};

use crate::app::App;

async fn refused(config: &OutboxConfig) -> String {
    match Outbox::new(config.clone()).unwrap().bind().await {
        Err(SourceError::Unfit(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_misfit_is_named() {
    let app = App::start().await;
    app.run(
        "create type word as enum ('PENDING', 'PROCESSING', 'PROCESSED', 'DEAD');
         create domain short as varchar(4);
         create view seen as select id, event_type, payload, status, retry_count, last_error, created_at from outbox;
         alter table outbox add told word, add brief varchar(8), add domained short, add flag boolean,
               add made text generated always as (event_type || '!') stored, add note text not null default ''",
    )
    .await;
    type Change = fn(&mut OutboxConfig);
    let cases: [(Change, &str); 13] = [
        (|it| it.table.name = "nowhere".to_owned(), "there is no table public.nowhere"),
        (|it| it.table.name = "seen".to_owned(), "public.seen is not a table"),
        (|it| it.columns.id = "key".to_owned(), "has no column \"key\" for id"),
        (|it| it.columns.tenant = Some("Tenant".to_owned()), "has no column \"Tenant\" for tenant"),
        (|it| it.columns.id = "flag".to_owned(), "column \"flag\" is boolean, and id has to be uuid"),
        (|it| it.columns.id = "note".to_owned(), "column \"note\" is not unique"),
        (
            |it| it.columns.payload = "flag".to_owned(),
            "payload has to be json, jsonb, text, varchar or bytea",
        ),
        (|it| it.columns.status = "told".to_owned(), "invalid input value for enum word: \"DEAD_LETTER\""),
        (|it| it.columns.status = "brief".to_owned(), "\"PROCESSING\" for processing is too long"),
        (|it| it.columns.status = "domained".to_owned(), "is too long"),
        (|it| it.statuses.dead_letter = "DEAD".to_owned(), "is refused by the check \"outbox_status_check\""),
        (|it| it.columns.last_error = "made".to_owned(), "is generated, and last_error has to be written"),
        (|it| it.columns.last_error = "note".to_owned(), "may not be null, and last_error has to be emptied"),
    ];
    for (change, told) in cases {
        let mut config = app.config.clone();
        change(&mut config);
        let why = refused(&config).await;
        assert!(why.contains(told), "{told}: {why}");
    }
    // All reasons at once.
    let mut config = app.config.clone();
    (config.columns.id, config.columns.retry_count) = ("key".to_owned(), "flag".to_owned());
    let why = refused(&config).await;
    assert!(why.contains("\"key\" for id") && why.contains("retry_count has to be smallint"), "{why}");
    assert_eq!(Outbox::new(app.config.clone()).unwrap().bind().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_cannot_leave_their_quotes() {
    let mut app = App::bare().await;
    app.config.table = TableName::parse("\"Out\"\"; drop schema x; --\".\"b'o.x\"").unwrap();
    app.config.columns.id = "k\"e'y".to_owned();
    app.config.columns.tenant = Some("ten ant; --".to_owned());
    app.config.statuses.dead_letter = "it's \\dead\\'; --".to_owned();
    app.make_table().await;
    // May be run again.
    app.make_table().await;
    let table = "\"Out\"\"; drop schema x; --\".\"b'o.x\"";
    app.rows(
        &format!("insert into {table} (event_type, payload, status) values ('X', '{{}}', $1)"),
        &[&app.config.statuses.dead_letter],
    )
    .await;
    let outbox = app.outbox();
    let arrivals = crate::app::some(outbox.as_ref()).await;
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].captured.queue, "Out\"; drop schema x; --.b'o.x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_changes_is_looked_up_again() {
    let app = App::start().await;
    let outbox = app.outbox();
    let id = app.dead_event("order-1", "{}").await;
    let status = async || outbox.statuses(std::slice::from_ref(&id)).await;
    assert!(status().await.is_ok());
    app.run("alter table outbox rename status to state").await;
    assert!(matches!(status().await, Err(SourceError::Unfit(_))));
    app.run("alter table outbox rename state to status; alter table outbox alter id type text").await;
    // What a connection had prepared is thrown away with it.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while status().await.is_err() {
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(status().await.unwrap().len(), 1);
}

#[test]
fn a_wrong_address_is_refused_without_its_password() {
    for url in ["mysql://u:hunter2@h/d", "postgres://u:hunter2@h/d?sslmode=maybe", "hunter2"] {
        let config = OutboxConfig::new("orders", url, TableName::parse("outbox").unwrap());
        let error = Outbox::new(config).unwrap_err();
        assert!(matches!(error, SourceError::Unfit(_)));
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}
