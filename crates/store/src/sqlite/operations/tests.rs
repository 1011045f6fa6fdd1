//! How SQLite finds where a chunk of a frozen list ends: by an index, in order, however many letters there are.

use lazaret_core::lifecycle::Status;

use super::super::migrate;
use super::*;

const INCIDENTS: &str = "
insert into incidents (id, state, opened_at, type, error_type)
values (x'00000000000000000000000000000001', 'open', 0, '', ''),
       (x'00000000000000000000000000000002', 'open', 0, '', '');
insert into fingerprints (fingerprint, incident, first_seen_at)
select hex(id), id, 0 from incidents;";

/// One of each incident.
const LETTERS: &str = "
insert into dead_letter_queue (id, source, event_id, type, queue, error_type, error_message, class, fingerprint,
       retry_count, status, place, life, created_at, updated_at, died_at, retention_at)
select id, '', '', '', '', '', '', '', hex(id), 0, ?1, 'live', 1, 0, 0, 0, 0 from incidents";

#[test]
fn the_end_of_a_chunk_is_found_without_sorting_all_letters() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut conn, 0).unwrap();
    conn.execute_batch(INCIDENTS).unwrap();
    conn.execute(LETTERS, [Status::Pending.name()]).unwrap();
    let two = "incident:00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000002";
    for text in ["", "queue:a", "queue:a,b", "source:jobs status:pending", "held:yes", "word", two] {
        let filter = Filter::from_text(text).unwrap();
        let sql = Where::of(&conn, &filter, Time::default()).unwrap();
        for last in [None, Some((7, [7; 16]))] {
            let (window, binds) = window_sql(&sql, last);
            let mut statement = conn.prepare(&format!("explain query plan {window}")).unwrap();
            let steps =
                statement.query_map(rusqlite::params_from_iter(binds), |row| row.get("detail")).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{text}: {steps:?}");
        }
    }
}
