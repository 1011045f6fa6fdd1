//! How PostgreSQL finds jobs: by an index, in order, however many there are.

use super::*;
use crate::Store;
use crate::postgres::PostgresStore;
use crate::postgres::conn::Binds;
use crate::sqlite::Mode;
use crate::testing::TestDatabase;

/// Jobs of ten queues, most of them completed; one in a hundred that wait can expire.
const MANY: &str = "
insert into jobs (id, queue, state, priority, attempt, enqueued_at, due_at, ended_at, dead, detail, version)
select gen_random_uuid(), 'q' || n % 10, case when n % 4 = 0 then 'available' else 'completed' end, n % 3, 0,
       'epoch'::timestamptz + n * interval '1 ms', case when n % 400 = 0 then 'epoch'::timestamptz end,
       case when n % 4 <> 0 then 'epoch'::timestamptz + n * interval '1 ms' end, false, 'x', 1
  from generate_series(1, 40000) n;
analyze jobs";

/// The plan for values that are not known yet, which is the one that is kept.
async fn plan(conn: &Conn, sql: &str, values: &str) -> String {
    conn.batch(&format!("prepare asked as {sql}")).await.unwrap();
    let rows = conn.ask(&format!("explain (costs off) execute asked ({values})"), &Binds::default()).await;
    conn.batch("deallocate asked").await.unwrap();
    rows.unwrap().iter().map(|row| row.cell::<String>(0).unwrap() + "\n").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sorted_and_no_table_is_read_through() {
    let database = TestDatabase::new();
    let store = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
    let conn = Conn::of(&store.lanes).await.unwrap();
    conn.batch("set plan_cache_mode to force_generic_plan").await.unwrap();
    let time = "'2025-11-15T00:00:00Z'";
    let queues = "array['q1', 'q2']";
    // A plan made for a new store is used for a while after it has filled up.
    for fill in ["select 1", MANY] {
        conn.batch(fill).await.unwrap();
        for (sql, values, index) in [
            (fetch::next_sql(), format!("{queues}, 10, 'w', 'running'"), "jobs_waiting"),
            (fetch::anything_sql(), format!("{queues}, 10, 'w', 'running'"), "jobs_waiting"),
            (held_by_sql(), "'w', 10".to_owned(), "jobs_held"),
            (due_sql(), format!("{time}, 10"), "jobs_due"),
            (NEXT_DUE.to_owned(), String::new(), "jobs_due"),
            (PRUNE.to_owned(), format!("'completed', {time}, 10, 7"), "jobs_ended"),
        ] {
            let sql = if values.is_empty() { sql + " offset $1" } else { sql };
            let values = if values.is_empty() { "0".to_owned() } else { values };
            let plan = plan(&conn, &sql, &values).await;
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("Sort") && !plan.contains("Seq Scan on jobs"), "{plan}");
        }
        let values = format!("{queues}, 10, {time}");
        let plan = plan(&conn, &fetch::next_expired_sql(), &values).await;
        assert!(plan.contains("jobs_waiting") && !plan.contains("Seq Scan on jobs"), "{plan}");
    }
    store.close().await.unwrap();
}
