//! A rule that has nothing left to do looks at next to nothing, however many letters it has given up.

use lazaret_core::time::Time;

use super::super::PostgresStore;
use super::*;
use crate::Store;
use crate::engine::replays::{Look, Round, WINDOW_END, look, reach, window_end};
use crate::sqlite::Mode;
use crate::testing::TestDatabase;

/// A thousand letters of jobs that died at second 0, 1, … of 2025, all put back once by the rule but each tenth. Nineteen
/// in twenty letters are no job's.
const FILL: &str = "
select make_month('2025-01-01');
insert into incidents (id, state, opened_at, type, error_type) values (gen_random_uuid(), 'open', 'epoch', '', '');
insert into fingerprints (fingerprint, incident, first_seen_at) select 'v1:00', id, 'epoch' from incidents;
insert into dead_letter_queue (id, event_id, error_message, error_type, retry_count, status, created_at, updated_at,
       source, type, queue, class, fingerprint, place, life, died_at, retention_at, words)
select (lpad(to_hex((extract(epoch from l.at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(l.n), 12, '0'))
         ::uuid, '', '', '', 0, $status, l.at, l.at, case l.n % 20 when 0 then 'jobs' else 'report' end, '', 'q',
       'unknown', 'v1:00', 'live', 1, l.at, l.at, ''
  from (select n, '2025-01-01'::timestamptz(3) + n / 20 * interval '1 second' as at
          from generate_series(0, 19999) n) l;
insert into replays (letter, rule, count, last_at)
select id, 'r', 1, died_at from dead_letter_queue where source = 'jobs' and extract(second from died_at)::int % 10 <> 0;
analyze";

/// 2025-01-01 in milliseconds.
const BEGIN: i64 = 1_735_689_600_000;

async fn filled() -> (TestDatabase, PostgresStore, Conn) {
    let database = TestDatabase::new();
    let store = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    let conn = Conn::of(&store.lanes).await.unwrap();
    conn.batch(&FILL.replace("$status", &format!("'{}'", Status::Pending.name()))).await.unwrap();
    (database, store, conn)
}

fn query(filter: &str, limit: usize) -> ReplayQuery {
    let filter = Filter::from_text(filter).unwrap();
    ReplayQuery { rule: "r".into(), filter, max_replays: 1, now: Time::from_ms(BEGIN + 50_000_000), limit }
}

/// The seconds of what was given.
fn seconds(look: &Look) -> Vec<i64> {
    look.letters.iter().map(|(letter, _)| (letter.at().ms() - BEGIN) / 1_000).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_given_is_passed_and_what_is_given_is_not() {
    let (_database, store, mut conn) = filled().await;
    let ask = query("queue:q", 3);
    let mut round = Round::new(&ask);
    for _ in 0..2 {
        let seen = look(&mut conn, &ask, &round, 100).await.unwrap();
        assert_eq!(seconds(&seen), [0, 10, 20]);
        round.place = seen.place;
    }
    // What is put back is found no more, and its place is passed.
    conn.batch(
        "insert into replays select id, 'r', 1, died_at from dead_letter_queue on conflict do nothing",
    )
    .await
    .unwrap();
    for reached in 1..=10 {
        let seen = look(&mut conn, &ask, &round, 100).await.unwrap();
        assert_eq!(seconds(&seen), [0; 0]);
        assert!(seen.place.unwrap().0.ms() >= BEGIN + reached * 100_000 - 1_000, "a hundred at a time");
        round.place = seen.place;
    }
    let seen = look(&mut conn, &ask, &round, 100).await.unwrap();
    assert_eq!(seen.place, Some(reach(&ask)));
    assert_eq!(window_end(&mut conn, seen.place, 1).await.unwrap(), None, "nothing is left to be looked at");
    // Letters that wait again may lie behind the place.
    round = round.as_of(seen.waiting_again);
    conn.batch("delete from replays where letter in (select letter from replays order by letter limit 2)")
        .await
        .unwrap();
    assert_eq!(seconds(&look(&mut conn, &ask, &round, 100).await.unwrap()), [0; 0]);
    conn.batch("update positions set waiting_again = waiting_again + 1").await.unwrap();
    assert_eq!(seconds(&look(&mut conn, &ask, &round, 100).await.unwrap()), [0]);
    store.close().await.unwrap();
}

/// The index of a month behind the one over all letters of a state.
const OF_JOBS: &str = "dead_letter_queue_2025_01_status_died_at_id_idx1";

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_met_by_the_index_that_holds_no_others() {
    let (_database, store, mut conn) = filled().await;
    let from = Some((Time::from_ms(BEGIN + 500_000), LetterId::from_bytes([0; 16])));
    let end = window_end(&mut conn, from, 100).await.unwrap();
    for filter in ["", "source:jobs held:no", "queue:q status:pending"] {
        let (sql, binds) = candidates_sql(&conn, &query(filter, 3), (from, end), 4).await.unwrap();
        let rows = conn.ask(&format!("explain (costs off) {sql}"), &binds).await.unwrap();
        let plan: String = rows.iter().map(|row| row.cell::<String>(0).unwrap() + "\n").collect();
        assert!(plan.contains(OF_JOBS), "{filter}: {plan}");
    }
    let sql = format!("prepare asked as {}; set plan_cache_mode to force_generic_plan", WINDOW_END.postgres);
    conn.batch(&sql).await.unwrap();
    let values = format!("'{}', '2025-01-01', gen_random_uuid(), 99", Status::Pending.name());
    let rows = conn.ask(&format!("explain (costs off) execute asked ({values})"), &Binds::default()).await;
    let plan: String = rows.unwrap().iter().map(|row| row.cell::<String>(0).unwrap() + "\n").collect();
    assert!(plan.contains(OF_JOBS) && !plan.contains("Sort  "), "{plan}");
    store.close().await.unwrap();
}
