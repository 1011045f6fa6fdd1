//! A rule that has nothing left to do looks at next to nothing, however many letters it has given up.

use super::super::migrate;
use super::*;
use crate::engine::replays::{Round, look, reach, window_end};
use crate::job::SOURCE;
use crate::seam::ready;

/// Letters that died at second 0, 1, …, each put back as often as it may if `spent` says so.
fn new(count: i64, spent: impl Fn(i64) -> bool) -> Connection {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut conn, 0).unwrap();
    conn.execute_batch(
        "insert into incidents (id, state, opened_at, type, error_type) values (zeroblob(16), 'open', 0, '', '');
         insert into fingerprints (fingerprint, incident, first_seen_at) values ('v1:00', zeroblob(16), 0);",
    )
    .unwrap();
    for n in 0..count {
        add(&conn, n, "q", SOURCE, Status::Pending);
        if spent(n) {
            conn.execute("insert into replays values (?1, 'r', 1, 0)", [id(n).bytes()]).unwrap();
        }
    }
    conn
}

fn id(n: i64) -> LetterId {
    LetterId::mint(Time::from_ms(n * 1_000), [0; 10])
}

fn add(conn: &Connection, n: i64, queue: &str, source: &str, status: Status) {
    conn.execute(
        "insert into dead_letter_queue (id, source, event_id, type, queue, error_type, error_message, class,
                fingerprint, retry_count, status, place, life, created_at, updated_at, died_at, retention_at)
         values (?1, ?4, '', '', ?2, '', '', 'unknown', 'v1:00', 0, ?5, 'live', 1, ?3, ?3, ?3, ?3)",
        (id(n).bytes(), queue, n * 1_000, source, status.name()),
    )
    .unwrap();
}

fn query(filter: &str, now: i64) -> ReplayQuery {
    let filter = Filter::from_text(filter).unwrap();
    ReplayQuery { rule: "r".into(), filter, max_replays: 1, now: Time::from_ms(now), limit: 3 }
}

/// Looks until the place does not move; what was given, and how many looks it took.
fn walk(
    conn: &mut Connection,
    query: &ReplayQuery,
    round: &mut Round,
    rows: usize,
) -> (Vec<LetterId>, usize) {
    let mut given = Vec::new();
    for looks in 1.. {
        let look = ready(look(conn, query, round, rows)).unwrap();
        given.extend(look.letters.iter().map(|(letter, _)| *letter));
        let moved = look.place != round.place;
        round.place = look.place;
        if !moved || !given.is_empty() {
            return (given, looks);
        }
    }
    unreachable!()
}

#[test]
fn spent_letters_are_walked_once_in_a_round() {
    let mut conn = new(100, |n| n != 70);
    let ask = query("queue:q", 1_000_000);
    let mut round = Round::new(&ask);
    let (given, looks) = walk(&mut conn, &ask, &mut round, 10);
    assert_eq!((given, looks), (vec![id(70)], 8), "ten at a time");
    let place = round.place.map(|place| place.1);
    assert!(place >= Some(id(69)) && place < Some(id(70)), "what is given is not passed");
    conn.execute(
        "update dead_letter_queue set status = ?1 where id = ?2",
        (Status::Reprocessing.name(), id(70).bytes()),
    )
    .unwrap();
    assert_eq!(walk(&mut conn, &ask, &mut round, 10).0, []);
    assert_eq!(round.place, Some(reach(&ask)));
    // Another hundred thousand could stand there: the next look begins behind them.
    let ask = query("queue:q", 1_000_500);
    assert!(round.is_of(&ask));
    assert_eq!(
        ready(window_end(&mut conn, round.place, 1)).unwrap(),
        None,
        "nothing is left to be looked at"
    );
    add(&conn, 999, "q", SOURCE, Status::Pending);
    assert_eq!(walk(&mut conn, &ask, &mut round, 10).0, [id(999)]);
}

#[test]
fn what_does_not_match_yet_is_not_passed() {
    let mut conn = new(100, |_| false);
    // Nothing is an hour old, then half of it is.
    let ask = query("queue:q age:>1h", 3_600_000);
    let mut round = Round::new(&ask);
    assert_eq!(walk(&mut conn, &ask, &mut round, 10).0, []);
    let later = query("queue:q age:>1h", 3_600_000 + 2_500);
    assert!(round.is_of(&later));
    assert_eq!(walk(&mut conn, &later, &mut round, 10).0, [id(0), id(1), id(2)]);
    // A young death may be committed behind a younger one.
    let ask = query("queue:other", 100_000);
    let mut round = Round::new(&ask);
    assert_eq!(walk(&mut conn, &ask, &mut round, 1_000).0, []);
    add(&conn, 98_765, "other", SOURCE, Status::Pending);
    conn.execute("update dead_letter_queue set died_at = 98500 where queue = 'other'", []).unwrap();
    assert_eq!(walk(&mut conn, &ask, &mut round, 1_000).0, [id(98_765)]);
}

#[test]
fn only_pending_letters_of_jobs_are_looked_at_in_order() {
    let mut conn = new(3, |_| false);
    add(&conn, 5, "q", "report", Status::Pending);
    let ask = query("", 1_000_000);
    assert_eq!(walk(&mut conn, &ask, &mut Round::new(&ask), 10).0, [id(0), id(1), id(2)]);
    let last = Some((Time::from_ms(0), LetterId::from_bytes([0; 16])));
    for filter in ["", "queue:q", "status:pending source:jobs type:a*", "some words"] {
        let (sql, binds) = candidates_sql(&conn, &query(filter, 7), (last, last), 10).unwrap();
        let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
        let steps = statement.query_map(rusqlite::params_from_iter(binds), |row| row.get("detail")).unwrap();
        let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
        assert!(
            steps.iter().any(|step| step.contains("letters_of_jobs (status=? AND")),
            "{filter}: {steps:?}"
        );
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{filter}: {steps:?}");
    }
}
