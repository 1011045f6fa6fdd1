//! What only PostgreSQL can be asked: many instances at once, connections that break, and what the database looks like.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazaret_core::id::LetterId;
use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::time::Time;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::failure::{Failure, FailurePoint};
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::Mode;
use lazaret_store::stats::LedgerBy;
use lazaret_store::testing::TestDatabase;
use lazaret_store::{Store, StoreError};
use tokio_postgres::{Client, NoTls};

use crate::books;
use crate::rig::{Rig, at, captured, decision, dying, envelope};

/// A connection of the test's own, on which the store's tables are found.
pub async fn connect(database: &TestDatabase) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("set search_path to lazaret, public").await.unwrap();
    client
}

pub async fn open(database: &TestDatabase) -> PostgresStore {
    PostgresStore::open(&database.url(), Mode::Test).await.unwrap()
}

/// A rig on a database that the test can reach too.
pub async fn rig(database: &TestDatabase) -> Rig {
    let url = database.url();
    Rig::open(Box::new(move || {
        let url = url.clone();
        Box::pin(
            async move { Arc::new(PostgresStore::open(&url, Mode::Test).await.unwrap()) as Arc<dyn Store> },
        )
    }))
    .await
}

/// Waits until some session of the database waits for a lock.
pub async fn until_somebody_waits(client: &Client) {
    const WAITING: &str = "
        select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'";
    while client.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_in_commit_order_although_transactions_end_out_of_order() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let slow = connect(&database).await;
    let watch = connect(&database).await;
    // Somebody else's transaction has its position and is not committed yet.
    slow.batch_execute(
        "begin;
         update positions set events = events + 1;
         insert into events (position, id, at, kind)
         select events, gen_random_uuid(), '2025-01-01', 'slow' from positions",
    )
    .await
    .unwrap();
    let store = rig.shared();
    let batch = vec![rig.admit(captured("e1"), at(0))];
    let inserted = tokio::spawn(async move { store.insert(batch).await });
    until_somebody_waits(&watch).await;
    assert_eq!(rig.store().events(0, 10).await.unwrap(), []);
    slow.batch_execute("commit").await.unwrap();
    inserted.await.unwrap().unwrap();
    assert_eq!(rig.told().await, ["slow", "incident.opened", "dead_letter.added"]);
    // One that began long ago and has told nothing yet comes behind what was committed since.
    slow.batch_execute("begin; update meta set value = value where key = 'mode'").await.unwrap();
    rig.create(captured("e2"), at(1)).await;
    let seen = rig.store().events(0, 10).await.unwrap();
    slow.batch_execute(
        "update positions set events = events + 1;
         insert into events (position, id, at, kind)
         select events, gen_random_uuid(), '2025-01-01', 'slow' from positions;
         commit",
    )
    .await
    .unwrap();
    let next = rig.store().events(seen.last().unwrap().position, 10).await.unwrap();
    assert_eq!(next.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["slow"]);
    rig.store().close().await.unwrap();
}

/// How many deadlocks PostgreSQL has ended: locks are taken in one order, so there are none to end.
pub async fn deadlocks(database: &TestDatabase) -> i64 {
    const DEADLOCKS: &str = "select deadlocks from pg_stat_database where datname = current_database()";
    connect(database).await.query_one(DEADLOCKS, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_capture_the_same_letters_make_each_once() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let stores =
        [Arc::new(open(&database).await), Arc::new(open(&database).await), Arc::new(open(&database).await)];
    let mut running = Vec::new();
    for round in 0..8 {
        for (n, store) in stores.iter().enumerate() {
            // The same letters in another order each time, of a few incidents that all want to open.
            let mut order: Vec<usize> = (0..60).collect();
            order.rotate_left((n * 17 + round * 5) % 60);
            if n == 1 {
                order.reverse();
            }
            let batch = order
                .iter()
                .map(|e| {
                    let letter_type = format!("type {}", e % 7);
                    rig.admit(Captured { letter_type, ..dying(&format!("e{round}-{e}"), at(-5)) }, at(0))
                })
                .collect();
            let store = Arc::clone(store);
            running.push(tokio::spawn(async move { store.insert(batch).await.unwrap() }));
        }
    }
    let (mut created, mut letters) = (0, BTreeSet::new());
    for receipts in running {
        for receipt in receipts.await.unwrap() {
            created += usize::from(receipt.outcome == Outcome::Created);
            letters.insert(receipt.letter);
        }
    }
    assert_eq!((created, letters.len()), (480, 480));
    books::agree(rig.store()).await;
    let opened = rig.told().await.into_iter().filter(|kind| kind == "incident.opened").count();
    assert_eq!(opened, 7);
    assert_eq!(deadlocks(&database).await, 0);
    for store in stores {
        store.close().await.unwrap();
    }
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_decide_the_same_letters_decide_each_once() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let ids = rig.create_many(40, at(0)).await;
    let stores = [Arc::new(open(&database).await), Arc::new(open(&database).await)];
    let mut running = Vec::new();
    for (n, store) in stores.iter().enumerate() {
        let mut ids: Vec<LetterId> = ids.clone();
        if n == 1 {
            ids.reverse();
        }
        for id in ids {
            let store = Arc::clone(store);
            let verb = if n == 0 { Verb::Resolve } else { Verb::Discard };
            running.push(tokio::spawn(async move { store.decide(id, decision(verb, at(1))).await.unwrap() }));
        }
    }
    let mut done = 0;
    for decided in running {
        done += usize::from(decided.await.unwrap() == Decided::Done);
    }
    assert_eq!(done, 40);
    assert_eq!(deadlocks(&database).await, 0);
    books::agree(rig.store()).await;
    for store in stores {
        store.close().await.unwrap();
    }
    rig.store().close().await.unwrap();
}

const KILL_ALL: &str = "
select count(pg_terminate_backend(pid))
  from pg_stat_activity
 where datname = current_database()
   and pid <> pg_backend_pid()";

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_under_load_lose_nothing_acknowledged() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let killer = connect(&database).await;
    let reporters: Vec<_> = (0..4)
        .map(|reporter| {
            let letters: Vec<_> =
                (0..60).map(|n| rig.admit(captured(&format!("{reporter}-{n}")), at(0))).collect();
            let store = rig.shared();
            tokio::spawn(async move {
                let mut kept = Vec::new();
                for letter in letters {
                    // Told again until it is taken, as a reporter does.
                    loop {
                        match store.insert(vec![letter.clone()]).await {
                            Ok(receipts) => break kept.push(receipts[0].letter),
                            Err(StoreError::Unavailable { .. }) => tokio::task::yield_now().await,
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
                kept
            })
        })
        .collect();
    for _ in 0..12 {
        killer.query_one(KILL_ALL, &[]).await.unwrap();
        tokio::task::yield_now().await;
    }
    for reporter in reporters {
        for letter in reporter.await.unwrap() {
            assert!(rig.store().history(letter).await.unwrap().is_some());
        }
    }
    assert_eq!(rig.store().ledger(LedgerBy::Recount).await.unwrap().captured, 240);
    books::agree(rig.store()).await;
    rig.store().ready().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_session_is_cut_can_be_followed_by_another() {
    let database = TestDatabase::new();
    let (one, two) = (open(&database).await, open(&database).await);
    assert!(one.lead().await.unwrap());
    let killer = connect(&database).await;
    killer.query_one(KILL_ALL, &[]).await.unwrap();
    // Both have lost their sessions; who asks next leads, and only one does.
    let second = loop {
        if let Ok(leads) = two.lead().await {
            break leads;
        }
    };
    assert!(second);
    let first = loop {
        if let Ok(leads) = one.lead().await {
            break leads;
        }
    };
    assert!(!first);
    one.close().await.unwrap();
    two.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_that_fails_leaves_the_others_of_its_commit_alone() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let store = open(&database).await;
    store.failures().plan(FailurePoint::InsertLetter, Failure::DiskFull, 2);
    let one = store.insert(vec![rig.admit(captured("e1"), at(0))]);
    let two = store.insert(vec![rig.admit(captured("e2"), at(0))]);
    let (one, two) = tokio::join!(one, two);
    // The first failure is that of both together, the second that of the one that goes first.
    let failed = [&one, &two].iter().filter(|result| matches!(result, Err(StoreError::Full))).count();
    assert!((1..=2).contains(&failed), "{one:?} {two:?}");
    assert_eq!(rig.find("").await.len(), 2 - failed);
    for (point, failure) in
        [(FailurePoint::Begin, Failure::ReadOnly), (FailurePoint::Commit, Failure::Unavailable)]
    {
        store.failures().plan(point, failure, 1);
        assert!(store.insert(vec![rig.admit(captured("e3"), at(0))]).await.is_err());
    }
    store.failures().plan(FailurePoint::InsertLetter, Failure::Panic, 1);
    assert!(store.insert(vec![rig.admit(captured("e4"), at(0))]).await.is_err());
    assert_eq!(rig.find("").await.len(), 2 - failed);
    store.insert(vec![rig.admit(captured("e4"), at(0))]).await.unwrap();
    books::agree(rig.store()).await;
    store.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn any_moment_has_its_partition() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let client = connect(&database).await;
    let mut ids = Vec::new();
    for moment in [
        "1970-01-01T00:00:00Z",
        "2019-12-31T23:59:59.999Z",
        "2020-01-01T00:00:00Z",
        "2024-02-29T12:00:00Z",
        "2099-12-31T23:59:59.999Z",
        "2100-01-01T00:00:00Z",
        "9999-12-30T00:00:00Z",
    ] {
        ids.push(rig.create(captured(moment), Time::parse(moment).unwrap()).await);
    }
    for id in &ids {
        assert_eq!(rig.letter(*id).await.created_at, id.at());
    }
    assert_eq!(
        rig.walk(&Default::default(), at(0), lazaret_core::cursor::Sort::CreatedAtAsc, 2).await.len(),
        ids.len()
    );
    const TABLES: &str = "select distinct tableoid::regclass::text from dead_letter_queue order by 1";
    let tables: Vec<String> = client.query(TABLES, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(
        tables,
        [
            "dead_letter_queue_2020_01",
            "dead_letter_queue_2024_02",
            "dead_letter_queue_2099_12",
            "dead_letter_queue_after",
            "dead_letter_queue_before"
        ]
    );
    // The next month is there before its first letter.
    assert!(client.execute("select 1 from dead_letter_queue_2024_03", &[]).await.is_ok());
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn months_without_letters_are_taken_away_and_come_again() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let store = open(&database).await;
    let moment = |text: &str| Time::parse(text).unwrap();
    rig.create(captured("e1"), moment("2024-01-05T00:00:00Z")).await;
    let kept = rig.create(captured("e2"), moment("2024-05-05T00:00:00Z")).await;
    store.insert(vec![rig.admit(captured("e3"), moment("2024-08-05T00:00:00Z"))]).await.unwrap();
    let client = connect(&database).await;
    client
        .batch_execute(
            "delete from dead_letter_queue where created_at < '2024-05-01' or created_at > '2024-06-01'",
        )
        .await
        .unwrap();
    // January and February, June and July go; May has a letter, and August is not before August.
    assert_eq!(store.drop_empty_months(moment("2024-08-01T00:00:00Z")).await.unwrap(), 3);
    assert_eq!(store.drop_empty_months(moment("2024-08-01T00:00:00Z")).await.unwrap(), 0);
    assert_eq!(rig.letter(kept).await.id, kept);
    // The one who took it away knows; the other one finds out, and makes it again.
    store.insert(vec![rig.admit(captured("e4"), moment("2024-01-06T00:00:00Z"))]).await.unwrap();
    assert_eq!(store.drop_empty_months(moment("2024-08-01T00:00:00Z")).await.unwrap(), 1);
    client.batch_execute("delete from dead_letter_queue where created_at < '2024-05-01'").await.unwrap();
    assert_eq!(store.drop_empty_months(moment("2024-08-01T00:00:00Z")).await.unwrap(), 1);
    let again = rig.admit(captured("e5"), moment("2024-01-07T00:00:00Z"));
    assert_eq!(rig.store().insert(vec![again]).await.unwrap()[0].outcome, Outcome::Created);
    store.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_by_its_id_is_looked_for_in_one_month() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    for moment in ["2024-01-05T00:00:00Z", "2024-05-05T00:00:00Z", "2025-05-05T00:00:00Z"] {
        rig.create(captured(moment), Time::parse(moment).unwrap()).await;
    }
    let client = connect(&database).await;
    const PLAN: &str = "
        explain select l.id from events e
                  left join dead_letter_queue l on l.id = e.letter and l.created_at = uuid_time(e.letter)";
    // The function has to be seen through, or every month is asked for every event.
    client.batch_execute("set enable_hashjoin to off; set enable_mergejoin to off").await.unwrap();
    let analyzed = PLAN.replace("explain", "explain (analyze, costs off, timing off, summary off)");
    let plan: Vec<String> =
        client.query(&analyzed, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let never = plan.iter().filter(|line| line.contains("never executed")).count();
    assert!(never >= 3, "{plan:#?}");
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_columns_and_indexes_are_there() {
    let database = TestDatabase::new();
    let client = connect(&database).await;
    let texts = |sql: &'static str| {
        let client = &client;
        async move { client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect::<Vec<String>>() }
    };
    let columns = texts(
        "select attname::text from pg_attribute
          where attrelid = 'dead_letter_queue'::regclass and attnum between 1 and 19 order by attnum",
    )
    .await;
    assert_eq!(
        columns.join(" "),
        "id event_id subscriber_id original_event error_message error_type error_code error_stack_trace \
         error_context retry_history retry_count max_retries status resolution_timestamp resolution_strategy \
         resolved_by resolution_notes created_at updated_at"
    );
    let indexes = texts(
        "select indexname::text from pg_indexes
          where schemaname = 'lazaret' and tablename = 'dead_letter_queue' and indexname like 'dead_letter_queue_%_idx'
          order by 1",
    )
    .await;
    let names = [
        "created_at",
        "error_type",
        "event_id",
        "original_event_pattern",
        "status",
        "subscriber_id",
        "updated_at",
    ];
    assert_eq!(indexes, names.map(|name| format!("dead_letter_queue_{name}_idx")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_is_in_the_dump() {
    let database = TestDatabase::new();
    let store = open(&database).await;
    let dump = store.dump().await.unwrap();
    let client = connect(&database).await;
    const TABLES: &str = "
        select relname::text from pg_class
         where relnamespace = 'lazaret'::regnamespace and relkind in ('r', 'p') and not relispartition";
    for row in client.query(TABLES, &[]).await.unwrap() {
        let table: String = row.get(0);
        assert!(dump.lines().any(|line| line == table), "{table} is not in the dump");
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_jsonb_cannot_hold_is_captured_all_the_same() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let client = connect(&database).await;
    let bodies: [&[u8]; 6] = [
        br#"{"pattern":"order.created","n":1e2}"#,
        br#"{"a":"\u0000"}"#,
        br#"{"a":"\ud800"}"#,
        b"{\"a\":1e400000}",
        b"\xff\xfe",
        b"not json",
    ];
    for (n, body) in bodies.into_iter().enumerate() {
        let letter = Captured { envelope: envelope(body), ..captured(&format!("e{n}")) };
        let id = rig.create(letter, at(0)).await;
        let original = rig.store().original(id, None).await.unwrap().unwrap();
        assert_eq!(original.envelope.body().as_ref(), body);
    }
    const HELD: &str = "
        select event_id, original_event->>'pattern', jsonb_array_length(retry_history)
          from dead_letter_queue where original_event is not null";
    let rows = client.query(HELD, &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    let held: (String, String, i32) = (rows[0].get(0), rows[0].get(1), rows[0].get(2));
    assert_eq!(held, ("e0".into(), "order.created".into(), 1));
    rig.store().close().await.unwrap();
}
