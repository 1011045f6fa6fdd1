//! Pages are read from indexes: what is asked of a large table touches no more rows than are shown.
//!
//! Rows are put in by hand, spread over three months, and PostgreSQL is asked how it came by the answers.

use std::sync::Arc;

use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::Filter;
use lazaret_core::id::IncidentId;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_store::incident::{IncidentQuery, IncidentSort};
use lazaret_store::page::PageQuery;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::search::SuggestKey;
use lazaret_store::sqlite::Mode;
use lazaret_store::stats::StatsOf;
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::plans::{self, Plan};
use lazaret_store::{Incidents, Numbers, Regroupings, Store};
use tokio_postgres::NoTls;

use crate::rig::at;

pub const LETTERS: i64 = 24_000;
const LIMIT: usize = 50;

/// One letter in a thousand is another one's: of another queue, type, error and so on. The rest is all alike.
const FILL: &str = "
select make_month(month::date)
  from generate_series('2025-09-01', '2025-12-01', interval '1 month') as month;
insert into incidents (id, state, opened_at, type, error_type, title, class, frame, letters, last_seen_at)
select ('019a0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'open',
       '2025-09-01'::timestamptz + n * interval '1 second', 'type ' || n % 10, 'Error' || n % 10,
       'title ' || n, 'unknown', 'frame ' || n % 50, n % 100, '2025-11-01'::timestamptz + n * interval '1 second'
  from generate_series(1, 3000) as n;
insert into fingerprints (fingerprint, incident, first_seen_at)
select 'v1:' || n, ('019a0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, '2025-09-01'
  from generate_series(1, 3000) as n;
insert into fingerprints (fingerprint, incident, first_seen_at)
select 'v1:unused ' || n, ('019a0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, '2025-08-01'
  from generate_series(1, 2) as n;
insert into dead_letter_queue (id, event_id, subscriber_id, error_message, error_type, retry_count, status,
       resolution_timestamp, created_at, updated_at, source, tenant, type, queue, aggregate, class, fingerprint, place,
       life, died_at, retention_at, words, held_at)
select (lpad(to_hex(l.ms), 12, '0') || '70008000' || lpad(to_hex(l.n), 12, '0'))::uuid, 'e' || l.n,
       'subscriber ' || l.odd, '', 'Error' || l.odd, 0, case l.odd when 1 then 'discarded' else 'pending' end,
       case l.odd when 1 then l.at end, l.at, l.at, 'source ' || l.odd, 'tenant ' || l.odd, 'type ' || l.odd,
       'queue ' || l.odd, 'order ' || l.n, case l.odd when 1 then 'malformed' else 'transient' end,
       'v1:' || l.odd + 1, 'live', 1, l.at, l.at,
       array_to_tsvector(case l.odd when 1 then array['strange'] else array['usual'] end), case l.odd when 1 then l.at end
  from (select n, ms, to_timestamp(ms / 1000.0)::timestamptz(3) as at, (n % 1000 = 7)::int as odd
          from (select n, 1763175600000 - ($1 - n) * 250000 as ms
                  from generate_series(1, $1::bigint) as n) as moments) as l;
insert into life_positions (position, letter, life)
select row_number() over (order by id), id, 1 from dead_letter_queue;
insert into lives (letter, life, captured_at, died_at, class, fingerprint, content_type, body, body_bytes, sha256,
       fatal, retry_count)
select id, 1, died_at, died_at, class, fingerprint, '', '\\x00', 0, sha256(''), 1, 0 from dead_letter_queue;
insert into attempts (letter, ordinal, life, identity, error_type, message)
select id, 1, 1, decode(md5(event_id), 'hex'), error_type, '' from dead_letter_queue;
insert into counters (dimension, value, term, letters)
select 'fingerprint', fingerprint, status, count(*) from dead_letter_queue group by 2, 3
 union all
select 'aggregate', aggregate, status, 1 from dead_letter_queue;
insert into events (position, id, at, kind, letter)
select row_number() over (order by id), id, died_at, 'dead_letter.added', id from dead_letter_queue;
update positions set lives = $1, events = $1;
analyze";

/// The database lives as long as the store.
pub async fn filled() -> (TestDatabase, Arc<PostgresStore>) {
    let database = TestDatabase::new();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("set search_path to lazaret, public").await.unwrap();
    client.batch_execute(&FILL.replace("$1", &LETTERS.to_string())).await.unwrap();
    // What was put in at once waits beside the index of words until somebody vacuums.
    client.batch_execute("vacuum analyze dead_letter_queue").await.unwrap();
    let store = Arc::new(PostgresStore::open(&database.url(), Mode::Test).await.unwrap());
    (database, store)
}

fn query(filter: &str, sort: Sort, after: Option<LastKey>) -> PageQuery {
    let filter = Filter::from_text(filter).unwrap();
    PageQuery { filter, now: at(0), sort, limit: LIMIT, after, scan_max: PageQuery::SCAN_MAX }
}

/// The statement that fetches what is shown.
fn the_one<'a>(plans: &'a [Plan], part: &str) -> &'a Plan {
    plans.iter().find(|plan| plan.sql.contains(part)).unwrap_or_else(|| panic!("{part} in {plans:#?}"))
}

fn uses(plan: &Plan, index: &str) -> bool {
    plan.steps.iter().any(|step| step.contains("Index") && step.contains(index))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_letters_is_read_from_an_index() {
    let (_database, store) = filled().await;
    for (filter, index) in [
        (String::new(), "died_at_id_idx"),
        ("queue:\"queue 1\"".into(), "_queue_died_at_id_idx"),
        ("type:\"type 1\"".into(), "_type_died_at_id_idx"),
        ("error:Error1".into(), "_error_type_died_at_id_idx"),
        ("status:discarded".into(), "_status_died_at_id_idx"),
        ("class:malformed".into(), "_class_died_at_id_idx"),
        ("source:\"source 1\"".into(), "_source_died_at_id_idx"),
        ("subscriber:\"subscriber 1\"".into(), "_subscriber_id_died_at_id_idx"),
        ("tenant:\"tenant 1\"".into(), "_tenant_died_at_id_idx"),
        ("event:e7777".into(), "_event_id_died_at_id_idx"),
        ("aggregate:\"order 7777\"".into(), "_aggregate_died_at_id_idx"),
        (format!("incident:{}", incident(2)), "_fingerprint_died_at_id_idx"),
        ("text:strange".into(), "_words_idx"),
        ("held:yes".into(), "_held_at_id_idx"),
        ("since:2025-10-01T00:00:00Z until:2025-10-08T00:00:00Z".into(), "_died_at_id_idx"),
        ("age:>30d".into(), "_died_at_id_idx"),
        // What most letters have: any index will do that gives them in order.
        ("queue:\"queue 0\"".into(), "_died_at_id_idx"),
        ("status:pending".into(), "_died_at_id_idx"),
        (format!("incident:{}", incident(1)), "_died_at_id_idx"),
    ] {
        let mut after = None;
        for _ in 0..2 {
            let asked = query(&filter, Sort::DiedAtDesc, after);
            let (page, plans) = plans::of(store.list(asked)).await;
            let page = page.unwrap();
            assert!(!page.letters.is_empty(), "{filter}");
            let plan = the_one(&plans, "order by l.died_at");
            assert!(uses(plan, index), "{filter}: {plan:#?}");
            assert!(plan.rows_most() <= 2 * LIMIT as u64, "{filter}: {plan:#?}");
            for plan in plans.iter().filter(|plan| plan.sql.contains("from fingerprints f\n")) {
                // Those that no letter has are found out without going through all letters.
                assert!(plan.rows_most() <= 10, "{filter}: {plan:#?}");
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_add_up_counters_and_look_at_the_ends() {
    let (_database, store) = filled().await;
    for (of, ends) in [
        (StatsOf::All, "_died_at_id_idx"),
        (StatsOf::Only(Status::Discarded), "_status_died_at_id_idx"),
        (StatsOf::Jobs(Status::Pending), "_died_at_id_idx"),
    ] {
        let (stats, plans) = plans::of(store.stats(of)).await;
        stats.unwrap();
        for plan in &plans {
            let index = if plan.sql.contains("from counters") { "counters_pkey" } else { ends };
            assert!(uses(plan, index), "{of:?}: {plan:#?}");
            assert!(plan.rows_most() <= 10, "{of:?}: {plan:#?}");
        }
        assert!(plans.iter().any(|plan| plan.sql.contains("from dead_letter_queue")), "{plans:#?}");
    }
    store.close().await.unwrap();
}

fn incident(n: u8) -> IncidentId {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1], bytes[6], bytes[8], bytes[15]) = (0x01, 0x9a, 0x70, 0x80, n);
    IncidentId::from_bytes(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_incidents_is_read_from_an_index() {
    let (_database, store) = filled().await;
    for (sort, index) in [
        (IncidentSort::LastSeenDesc, "incidents_by_last_seen"),
        (IncidentSort::FirstSeenDesc, "incidents_by_opening"),
        (IncidentSort::LettersDesc, "incidents_by_letters"),
        (IncidentSort::UnsettledDesc, "incidents_by_unsettled"),
    ] {
        let mut after = None;
        for _ in 0..2 {
            let asked = IncidentQuery { sort, limit: LIMIT, after, ..IncidentQuery::default() };
            let (page, plans) = plans::of(store.incidents(asked)).await;
            let page = page.unwrap();
            assert_eq!((page.incidents.len(), page.total), (LIMIT, 3_000));
            let plan = the_one(&plans, "order by i.");
            assert!(uses(plan, index), "{sort:?}: {plan:#?}");
            assert!(plan.rows_most() <= LIMIT as u64 + 1, "{sort:?}: {plan:#?}");
            for plan in plans.iter().filter(|plan| plan.sql.contains("from counters")) {
                assert!(uses(plan, "counters_pkey"), "{plan:#?}");
            }
            after = page.next;
        }
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_reads_no_more_letters_than_it_looks_at() {
    let (_database, store) = filled().await;
    let (detail, plans) = plans::of(store.incident(incident(1))).await;
    let affected = detail.unwrap().unwrap().affected;
    assert_eq!(affected.over, limits::AFFECTED_LETTERS_MAX as u64, "it has more");
    let letters = the_one(&plans, "limit $2) l");
    assert!(uses(letters, "_fingerprint_died_at_id_idx"), "{letters:#?}");
    assert!(letters.rows_most() <= limits::AFFECTED_LETTERS_MAX as u64 + 10, "{letters:#?}");
    let (nobody, plans_of_nobody) = plans::of(store.incident(incident(3))).await;
    assert_eq!(nobody.unwrap().unwrap().affected.over, 0);
    let letters = the_one(&plans_of_nobody, "limit $2) l");
    assert!(letters.rows_most() <= 10, "{letters:#?}");
    let alike = the_one(&plans, "union");
    for index in ["incidents_by_error_type", "incidents_by_last_seen"] {
        assert!(uses(alike, index), "{alike:#?}");
    }
    assert!(alike.rows_most() <= 3 * limits::SIMILAR_CANDIDATES_MAX as u64, "{alike:#?}");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn suggestions_jump_along_an_index() {
    let (_database, store) = filled().await;
    for (key, prefix, index) in [
        (SuggestKey::Subscriber, "sub", "_subscriber_id_died_at_id_idx"),
        (SuggestKey::Tenant, "", "_tenant_died_at_id_idx"),
        (SuggestKey::Code, "", "_died_at_id_idx"),
    ] {
        let (found, plans) = plans::of(store.suggest(key, prefix.into(), 10)).await;
        found.unwrap();
        let plan = the_one(&plans, "dead_letter_queue");
        assert!(uses(plan, index), "{plan:#?}");
        assert!(plan.rows_most() <= limits::SUGGEST_LETTERS_MAX as u64, "{plan:#?}");
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lives_to_regroup_are_read_in_order_of_capture() {
    let (_database, store) = filled().await;
    store.regrouping("new".into(), at(0)).await.unwrap();
    let size = limits::REGROUP_LIVES_PER_BATCH;
    let (old, plans) = plans::of(store.old_groupings(size)).await;
    assert_eq!(old.unwrap().len(), size);
    let plan = the_one(&plans, "life_positions");
    assert!(uses(plan, "life_positions_pkey"), "{plan:#?}");
    assert!(plan.rows_most() <= size as u64, "{plan:#?}");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_with_their_letters_and_no_others_are_read() {
    let (_database, store) = filled().await;
    let (events, plans) = plans::of(store.events(LETTERS as u64 / 2, 100)).await;
    assert!(events.unwrap().iter().all(|event| event.about.is_some()));
    let plan = the_one(&plans, "from events");
    assert!(plan.rows_most() <= 100, "{plan:#?}");
    store.close().await.unwrap();
}
