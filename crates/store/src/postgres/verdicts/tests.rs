//! How PostgreSQL finds the letter that is to be moved: by its id, in the month that the id tells of.

use tokio_postgres::types::Type;

use super::super::PostgresStore;
use super::super::conn::{Binds, Conn};
use super::*;
use crate::Store;
use crate::audit::Actor;
use crate::sqlite::Mode;
use crate::testing::TestDatabase;

/// Letters over three months. Ids and moments belong together, as everywhere.
fn fill() -> String {
    let (status, place) = (Status::Pending.name(), lazaret_core::lifecycle::Place::Live.name());
    format!(
        "select make_month(month::date)
           from generate_series('2025-09-01', '2025-11-01', interval '1 month') as month;
         insert into incidents (id, state, opened_at, type, error_type, title, class, letters, unsettled, last_seen_at)
         values (gen_random_uuid(), 'open', '2025-09-01', 't', 'E', 'title', 'unknown', 9000, 9000, '2025-09-01');
         insert into fingerprints (fingerprint, incident, first_seen_at)
         select 'v1:1', id, '2025-09-01' from incidents;
         insert into dead_letter_queue (id, event_id, error_message, error_type, retry_count, status, created_at,
                updated_at, source, type, queue, class, fingerprint, place, life, died_at, retention_at, words)
         select (lpad(to_hex(m.ms), 12, '0') || '70008000' || lpad(to_hex(m.n), 12, '0'))::uuid, 'e' || m.n, '', 'E', 0,
                '{status}', m.at, m.at, 's', 't', 'q', 'unknown', 'v1:1', '{place}', 1, m.at, m.at, ''
           from (select n, ms, to_timestamp(ms / 1000.0)::timestamptz(3) as at
                   from (select n, 1756684800000 + n * 800000 as ms from generate_series(1, 9000::bigint) as n) n) m;
         analyze"
    )
}

/// The statements of ours on a connection that touch letters or claims, with the types of their values.
async fn kept(conn: &Conn) -> Vec<(String, Vec<String>)> {
    let asked = "select statement, parameter_types::text[] from pg_prepared_statements
                  where statement ~ '(dead_letter_queue|claims)'";
    let rows = conn.ask(asked, &Binds::default()).await.unwrap();
    rows.iter().map(|row| (row.cell(0).unwrap(), row.cell(1).unwrap())).collect()
}

/// The plan for values that are not known yet, which is the one that is kept; only the letter is.
async fn plan(conn: &Conn, sql: &str, types: &[String], letter: LetterId) -> String {
    let value = |of: &String| match of.as_str() {
        "uuid" => format!("'{}'", uuid(letter)),
        of if of == Type::TIMESTAMPTZ.name() || of == "timestamp with time zone" => {
            format!("to_timestamp({} / 1000.0)", letter.at().ms())
        }
        _ => "null".to_owned(),
    };
    let values: Vec<String> = types.iter().map(value).collect();
    conn.batch(&format!("prepare asked as {sql}")).await.unwrap();
    let explain = format!("explain (costs off) execute asked ({})", values.join(", "));
    let rows = conn.ask(&explain, &Binds::default()).await.unwrap();
    conn.batch("deallocate asked").await.unwrap();
    rows.iter().map(|row| row.cell::<String>(0).unwrap() + "\n").collect()
}

fn uuid(letter: LetterId) -> String {
    letter.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_reads_one_letter_by_its_id() {
    let database = TestDatabase::new();
    let store = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    let conn = Conn::of(&store.lanes).await.unwrap();
    conn.batch(&fill()).await.unwrap();
    let middle =
        conn.ask("select id from dead_letter_queue where event_id = 'e4500'", &Binds::default()).await;
    let letter = LetterId::from_bytes(middle.unwrap()[0].id(0).unwrap());
    conn.give_back();
    let at = letter.at().plus_ms(1_000);
    let actor = Actor { name: "ana".into(), role: "operator".into(), request: None };
    let decision = Decision { verb: Verb::Resolve, actor, reason: None, at, from: None, floor_ms: None };
    assert_eq!(store.decide(letter, decision).await.unwrap(), Decided::Done);
    // Whichever connection the decision was made on keeps its statements.
    let mut conns = Vec::new();
    while store.lanes.pool.status().available > 0 {
        conns.push(Conn::of(&store.lanes).await.unwrap());
    }
    let mut found = 0;
    for conn in &conns {
        conn.batch("set plan_cache_mode to force_generic_plan").await.unwrap();
        for (sql, types) in kept(conn).await {
            let plan = plan(conn, &sql, &types, letter).await;
            // A list of letters is joined with all months, of which the two at the ends are empty.
            let walked = if sql.contains("unnest") { "Seq Scan on dead_letter_queue_2" } else { "Seq Scan" };
            assert!(!plan.contains(walked), "{sql}: {plan}");
            if sql.contains("dead_letter_queue") {
                assert!(plan.contains("Index Scan"), "{sql}: {plan}");
                found += 1;
            }
        }
    }
    assert!(found >= 2, "the decision looks at the letter and moves it: {found}");
    drop(conns);
    store.close().await.unwrap();
}
