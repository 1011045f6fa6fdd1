//! How SQLite finds jobs: by an index, in order, however many there are.

use rusqlite::Connection;

use super::super::migrate;
use super::*;

fn plan(sql: &str) -> Vec<String> {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut conn, 0).unwrap();
    let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
    let steps = statement.query_map([], |row| row.get("detail")).unwrap();
    steps.collect::<Result<_, _>>().unwrap()
}

#[test]
fn nothing_is_sorted_and_no_table_is_read_through() {
    let fetched = "select id from jobs indexed by jobs_waiting where queue = 'q' and state = 'available'
                    order by priority desc, enqueued_at, job limit 1";
    let due = "select id from jobs indexed by jobs_due where due_at <= 7 order by due_at, job limit 1";
    let ended = ENDED.replace("?1", "'completed'").replace("?2", "7").replace("?3", "7");
    for sql in [fetched, due, NEXT_DUE, &ended] {
        let steps = plan(sql);
        let scans = |step: &String| step.contains("TEMP B-TREE FOR ORDER") || step == "SCAN jobs";
        assert!(!steps.iter().any(scans), "{sql}: {steps:?}");
    }
}
