//! What only PostgreSQL can be asked of retention: several instances that take the same letters away or bring them back,
//! letters that die meanwhile, and months that are gone.

use std::sync::Arc;

use lazaret_core::id::LetterId;
use lazaret_core::letter::Outcome;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::time::Time;
use lazaret_store::archive::ArchiveQuery;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::retention::{PrunableQuery, PruneBatch, Pruned};
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::plans::{self, Plan};
use lazaret_store::{Archive, JobStore, RetentionStore, Store};
use tokio_postgres::Client;

use crate::books;
use crate::job_letters::{dead, letter};
use crate::postgres_index::{LETTERS, filled};
use crate::postgres_many::{connect, deadlocks, open, rig, until_somebody_waits};
use crate::rig::{Rig, at, captured, decision, dying};
use crate::shelf::{ARCHIVE, DELETE, Push, Shelf, archive, batch, prunable};
use crate::transfer::import;

/// Enough that each of two gets to be the first.
const ROUNDS: i64 = 30;

/// How many letters a prune took away.
fn gone(pruned: &Pruned) -> u64 {
    pruned.queues.iter().map(|queue| queue.archived + queue.deleted).sum()
}

/// The batch that takes one letter away.
async fn only(rig: &Rig, id: LetterId, push: Push, at: Time) -> PruneBatch {
    let mut may_go = prunable(rig, push.status, at).await;
    may_go.retain(|one| one.key.letter == id);
    assert_eq!(may_go.len(), 1);
    batch(&may_go, push, at)
}

/// The place of a letter that is in exactly one.
async fn place(rig: &Rig, id: LetterId) -> Place {
    let live = rig.store().history(id).await.unwrap();
    let away = rig.store().archived_letter(id).await.unwrap();
    match (live, away) {
        (Some(_), None) => Place::Live,
        (None, Some(archived)) => archived.letter.place,
        (live, away) => panic!("letter {id} is in no place or in two: {live:?} {away:?}"),
    }
}

/// The lives of a letter: in the store, and in files.
async fn lives(rig: &Rig, id: LetterId) -> (Vec<u32>, Vec<(u32, u32)>) {
    let here = rig.history(id).await.lives.iter().map(|life| life.life).collect();
    let older = rig.store().older_lives(id).await.unwrap();
    (here, older.iter().map(|row| (row.first_life, row.last_life)).collect())
}

async fn end(database: &TestDatabase, rig: Rig, other: impl Store) {
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(database).await, 0);
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_that_prune_the_same_letters_take_each_once() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    for push in [ARCHIVE, DELETE] {
        let round = |n: i64| rig.admit(dying(&format!("{:?} {n}", push.policy), at(-1_000 + n)), at(n));
        rig.insert((0..120).map(round).collect()).await;
        dead(&rig).await;
        let all = prunable(&rig, Status::Pending, at(100_000)).await;
        assert_eq!(all.len(), 121);
        // What one of them had in hand when the other came by is left by that one, and gone by the next look.
        let mut taken = 0;
        loop {
            let left = prunable(&rig, Status::Pending, at(100_000)).await;
            if left.is_empty() {
                break;
            }
            let same = batch(&left, push, at(200_000));
            let (one, two) = tokio::join!(rig.store().prune(same.clone()), other.prune(same));
            taken += gone(&one.unwrap()) + gone(&two.unwrap());
        }
        assert_eq!(taken, 121);
    }
    let told = rig.store().events(0, 10_000).await.unwrap();
    let told = told.iter().filter(|event| event.kind == "dead_letter.pruned");
    let mut sums = (0, 0);
    for event in told {
        let detail: serde_json::Value = serde_json::from_str(event.detail.as_deref().unwrap()).unwrap();
        sums.0 += detail["archived"].as_u64().unwrap();
        sums.1 += detail["deleted"].as_u64().unwrap();
    }
    assert_eq!(sums, (121, 121));
    end(&database, rig, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prune_waits_for_nobody() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let ids = rig.create_many(3, at(0)).await;
    let all = batch(&prunable(&rig, Status::Pending, at(10)).await, ARCHIVE, at(10));
    let other = connect(&database).await;
    let uuid = |id: LetterId| id.bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    other
        .batch_execute(&format!(
            "begin;
             select 1 from dead_letter_queue where id = '{}' for no key update;
             select 1 from letter_keys where id = '{}' for no key update",
            uuid(ids[0]),
            uuid(ids[1])
        ))
        .await
        .unwrap();
    let pruned = rig.store().prune(all.clone()).await.unwrap();
    assert_eq!((gone(&pruned), pruned.looked_at), (1, 3));
    assert_eq!(place(&rig, ids[2]).await, Place::Archived);
    other.batch_execute("commit").await.unwrap();
    assert_eq!(gone(&rig.store().prune(all).await.unwrap()), 2);
    books::agree(rig.store()).await;
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_told_of_while_it_is_pruned_is_in_one_place() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    for n in 0..ROUNDS {
        let (event, push) = (format!("e{n}"), if n % 4 < 2 { ARCHIVE } else { DELETE });
        let id = rig.create(dying(&event, at(-1_000)), at(0)).await;
        let batch = only(&rig, id, push, at(10)).await;
        // The same death again, or a new one.
        let died_at = if n % 2 == 0 { at(-1_000) } else { at(5) };
        let told = rig.admit(dying(&event, died_at), at(10));
        let (pruned, told) = tokio::join!(rig.store().prune(batch), other.insert(vec![told]));
        let (pruned, told) = (gone(&pruned.unwrap()), told.unwrap()[0]);
        match told.outcome {
            Outcome::Duplicate => {
                assert_eq!((n % 2, told.letter), (0, id));
                if pruned == 0 {
                    assert_eq!(place(&rig, id).await, Place::Live);
                }
            }
            Outcome::Recurred => {
                assert_eq!((n % 2, told.letter), (1, id));
                assert_eq!(rig.letter(id).await.life, 2, "a new death is live, whoever was first");
            }
            // It was gone for good.
            Outcome::Created => {
                assert_eq!((push.policy, pruned), (DELETE.policy, 1));
                assert_eq!(rig.letter(told.letter).await.previous, Some(id));
            }
            Outcome::Relapse => panic!("nothing was ever sent"),
        }
    }
    end(&database, rig, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_dies_while_it_is_shelved_is_live_with_all_its_lives() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    let mut shelf = Shelf::default();
    let (mut shelved_first, mut died_first) = (0, 0);
    for n in 0..ROUNDS {
        let event = format!("e{n}");
        let id = rig.create(dying(&event, at(-1_000)), at(0)).await;
        archive(&rig, id, at(10)).await;
        let file = shelf.write(&rig, usize::MAX, at(20)).await;
        let told = rig.admit(dying(&event, at(30)), at(30));
        let (shelved, told) =
            tokio::join!(rig.store().shelve(file, shelf.rows(file)), other.insert(vec![told]));
        rig.store().file_kept(file).await.unwrap();
        assert_eq!((told.unwrap()[0].letter, rig.letter(id).await.life), (id, 2));
        match shelved.unwrap() {
            0 => {
                died_first += 1;
                assert_eq!(lives(&rig, id).await, (vec![1, 2], vec![]));
            }
            _ => {
                shelved_first += 1;
                assert_eq!(lives(&rig, id).await, (vec![2], vec![(1, 1)]));
            }
        }
        // A death that was told long ago is known, wherever it stands.
        let again = rig.capture(dying(&event, at(-1_000)), at(40)).await;
        assert_eq!((again.letter, again.outcome), (id, Outcome::Duplicate));
        assert_eq!(rig.history(id).await.attempts.last().unwrap().ordinal, 2, "{shelved_first} {died_first}");
    }
    assert_eq!(shelved_first + died_first, ROUNDS);
    end(&database, rig, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_dies_while_it_is_restored_is_live_once() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    let mut shelf = Shelf::default();
    for n in 0..ROUNDS {
        let event = format!("e{n}");
        let id = rig.create(dying(&event, at(-1_000)), at(0)).await;
        archive(&rig, id, at(10)).await;
        if n % 2 == 0 {
            shelf.file(&rig, at(20)).await;
        }
        let told = rig.admit(dying(&event, at(30)), at(30));
        let (restored, told) = tokio::join!(shelf.restore(&rig, id, at(30)), other.insert(vec![told]));
        assert_eq!((told.unwrap()[0].letter, rig.letter(id).await.life), (id, 2));
        let (here, older) = lives(&rig, id).await;
        match restored {
            Decided::Done => assert_eq!((here, older), (vec![1, 2], vec![])),
            Decided::Refused(refused) => {
                assert_eq!(refused.standing.place, Place::Live);
                let expected = if n % 2 == 0 { (vec![2], vec![(1, 1)]) } else { (vec![1, 2], vec![]) };
                assert_eq!((here, older), expected);
            }
            decided => panic!("{decided:?}"),
        }
    }
    end(&database, rig, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_restored_once_however_many_ask() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    let mut shelf = Shelf::default();
    for n in 0..ROUNDS {
        let id = rig.create(captured(&format!("e{n}")), at(0)).await;
        archive(&rig, id, at(10)).await;
        let file = shelf.write(&rig, usize::MAX, at(20)).await;
        let row = shelf.rows(file).into_iter().find(|row| row.letter == id).unwrap();
        if n % 3 == 0 {
            shelf.keep(&rig, file).await;
        }
        let restore = decision(Verb::Restore, at(30));
        let (one, two) = match n % 3 {
            // Out of the file, twice.
            0 => {
                let archived = rig.store().archived_letter(id).await.unwrap().unwrap();
                let read = || import(&rig, shelf.read(archived.file.as_ref().unwrap()));
                tokio::join!(
                    rig.store().restore_from_file(read(), row.entry, restore.clone()),
                    other.restore_from_file(read(), row.entry, restore)
                )
            }
            // Out of the trash, twice.
            1 => tokio::join!(rig.store().decide(id, restore.clone()), other.decide(id, restore)),
            // Or it is shelved or deleted at the same time.
            _ => {
                let delete = decision(Verb::Delete, at(30));
                tokio::join!(rig.store().decide(id, restore), other.decide(id, delete))
            }
        };
        let (one, two) = (one.unwrap(), two.unwrap());
        let done = [&one, &two].into_iter().filter(|decided| **decided == Decided::Done).count();
        match n % 3 {
            // A letter that was deleted first can still be restored, and one that was restored first deleted.
            2 => assert_eq!(done, 2, "{one:?} {two:?}"),
            _ => assert_eq!(done, 1, "{one:?} {two:?}"),
        }
        if place(&rig, id).await == Place::Live {
            rig.done(id, Verb::Resolve, at(40)).await;
        }
        if n % 3 != 0 {
            rig.store().shelve(file, shelf.rows(file)).await.unwrap();
            rig.store().file_kept(file).await.unwrap();
        }
    }
    end(&database, rig, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_enqueued_while_its_letter_is_pruned_is_there_once() {
    let database = TestDatabase::new();
    let (rig, other) = (rig(&database).await, open(&database).await);
    for n in 0..ROUNDS {
        let id = dead(&rig).await;
        let found = letter(&rig, id).await.letter.id;
        let batch = only(&rig, found, if n % 2 == 0 { ARCHIVE } else { DELETE }, at(100_000)).await;
        let retry = decision(Verb::Retry, at(100_000));
        let (pruned, retried) = tokio::join!(rig.store().prune(batch), other.decide(found, retry));
        match (gone(&pruned.unwrap()), retried.unwrap()) {
            (0, Decided::Done) => {
                assert_eq!(rig.letter(found).await.status, Status::Reprocessing);
                // Out of the way of the next one.
                other.fetch_jobs(vec!["default".into()], 10, "w".into(), None, at(100_001)).await.unwrap();
            }
            (1, Decided::Refused(refused)) => {
                assert_ne!(refused.standing.place, Place::Live);
                assert!(rig.store().job(id).await.unwrap().is_none(), "its job went with it");
            }
            (pruned, retried) => panic!("{pruned} {retried:?}"),
        }
    }
    end(&database, rig, other).await;
}

/// Takes all months away; none of them holds a letter.
async fn drop_months(client: &Client) {
    const MONTHS: &str = "
        select inhrelid::regclass::text from pg_inherits
         where inhparent = 'lazaret.dead_letter_queue'::regclass
           and inhrelid::regclass::text ~ '[0-9]{4}_[0-9]{2}$'";
    for month in client.query(MONTHS, &[]).await.unwrap() {
        client.batch_execute(&format!("drop table {}", month.get::<_, String>(0))).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_letter_comes_back_into_a_month_that_was_taken_away() {
    const YEAR: i64 = 365 * 86_400_000;
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let client = connect(&database).await;
    let mut shelf = Shelf::default();
    for (n, in_file) in [false, true].into_iter().enumerate() {
        let event = format!("dies again {n}");
        let id = rig.create(dying(&event, at(0)), at(0)).await;
        archive(&rig, id, at(10)).await;
        if in_file {
            shelf.file(&rig, at(20)).await;
        }
        drop_months(&client).await;
        // Nobody who tells of a death knows, or has to come again.
        let told = vec![rig.admit(dying(&event, at(YEAR)), at(YEAR))];
        let receipt = rig.store().insert(told).await.unwrap()[0];
        assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Recurred));
        assert_eq!(rig.letter(id).await.life, 2);
        archive(&rig, id, at(YEAR + 10)).await;
        if in_file {
            shelf.file(&rig, at(YEAR + 20)).await;
        }
        drop_months(&client).await;
        // By its decision a person is told to come again, at most.
        let decided = match in_file {
            true => shelf.restore(&rig, id, at(YEAR + 30)).await,
            false => {
                let restore = || rig.store().decide(id, decision(Verb::Restore, at(YEAR + 30)));
                match restore().await {
                    Ok(decided) => decided,
                    Err(_) => restore().await.unwrap(),
                }
            }
        };
        assert_eq!((decided, rig.letter(id).await.life), (Decided::Done, 2));
        archive(&rig, id, at(YEAR + 40)).await;
    }
    books::agree(rig.store()).await;
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_told_of_a_letter_waits_until_its_prune_is_over() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let id = rig.create(dying("e1", at(0)), at(0)).await;
    let batch = only(&rig, id, ARCHIVE, at(10)).await;
    // The prune is held up at its very end, where all commits wait for each other.
    let (slow, watch) = (connect(&database).await, connect(&database).await);
    slow.batch_execute("begin; update positions set events = events").await.unwrap();
    let (store, other) = (rig.shared(), Arc::new(open(&database).await));
    let pruned = tokio::spawn(async move { store.prune(batch).await });
    until_somebody_waits(&watch).await;
    let told = vec![rig.admit(dying("e1", at(20)), at(20))];
    let captured = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.insert(told).await }
    });
    const WAITING: &str = "
        select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'";
    while watch.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        tokio::task::yield_now().await;
    }
    slow.batch_execute("commit").await.unwrap();
    assert_eq!(gone(&pruned.await.unwrap().unwrap()), 1);
    let receipt = captured.await.unwrap().unwrap()[0];
    assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Recurred));
    assert_eq!(lives(&rig, id).await, (vec![1, 2], vec![]));
    books::agree(rig.store()).await;
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

fn uses(plan: &Plan, index: &str) -> bool {
    plan.steps.iter().any(|step| step.contains("Index") && step.contains(index))
}

fn the_one<'a>(plans: &'a [Plan], part: &str) -> &'a Plan {
    plans.iter().find(|plan| plan.sql.contains(part)).unwrap_or_else(|| panic!("{part} in {plans:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_that_may_go_are_read_in_order_from_an_index() {
    let (database, store) = filled().await;
    let client = connect(&database).await;
    // Rows of real letters are a good deal wider than what the index holds of them.
    client.batch_execute("update dead_letter_queue set error_message = repeat('x', 1000)").await.unwrap();
    client.batch_execute("vacuum analyze dead_letter_queue").await.unwrap();
    let (standings, plans) = plans::of(store.queue_standings()).await;
    assert_eq!(standings.unwrap().iter().map(|one| one.letters).sum::<u64>(), LETTERS as u64);
    let plan = the_one(&plans, "dead_letter_queue");
    assert!(plan.steps.iter().any(|step| step.contains("Index Only Scan")), "{plan:#?}");
    let mut after = None;
    for planned in [None, Some(false), Some(false)] {
        let query = PrunableQuery {
            queues: vec![("source 0".into(), "queue 0".into()), ("source 1".into(), "queue 1".into())],
            status: Status::Pending,
            until: at(0),
            after,
            planned,
            limit: 50,
        };
        let (page, plans) = plans::of(store.prunable(query)).await;
        let page = page.unwrap();
        assert_eq!(page.len(), 50);
        let plan = the_one(&plans, "dead_letter_queue");
        assert!(uses(plan, "_2025_09_source_queue_status_retention_at"), "{plan:#?}");
        assert!(plan.rows_most() <= 110, "{plan:#?}");
        after = page.last().map(|last| last.key);
    }
    let query = PrunableQuery {
        queues: vec![("source 0".into(), "queue 0".into())],
        status: Status::Pending,
        until: at(0),
        after: None,
        planned: Some(true),
        limit: 50,
    };
    let (page, plans) = plans::of(store.prunable(query)).await;
    assert_eq!(page.unwrap(), []);
    let plan = the_one(&plans, "dead_letter_queue");
    assert!(plan.rows_most() <= 10, "nobody planned anything: {plan:#?}");
    store.close().await.unwrap();
}

/// All letters once more in the archive, a thousand of them waiting.
const FILL_ARCHIVE: &str = "
insert into letter_keys (key, generation, id, place)
select sha256(event_id::bytea), 1, id, 'archived' from dead_letter_queue;
insert into archive (id, key, place, waiting, bytes, source, event_id, type, queue, error_type, error_message, class,
       fingerprint, retry_count, status, life, ever_sent, created_at, updated_at, died_at, retention_at, since, removed_at,
       removed_by, reason)
select id, sha256(event_id::bytea), case when event_id like 'e%77' then 'deleted' else 'archived' end,
       event_id like 'e1___', 100, source, event_id, type, queue, error_type, '', class, fingerprint, 0, status, 1, false,
       created_at, updated_at, died_at, retention_at, died_at, died_at, 'lazaret', 'max_age'
  from dead_letter_queue
 order by died_at;
delete from dead_letter_queue;
vacuum analyze archive";

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_the_archive_is_read_from_an_index() {
    let (database, store) = filled().await;
    let client = connect(&database).await;
    for statement in FILL_ARCHIVE.split(';') {
        client.batch_execute(statement).await.unwrap();
    }
    for (filter, place, index) in [
        ("", None, "archive_pkey"),
        ("", Some(Place::Deleted), "archive_by_place"),
        ("queue:\"queue 1\"", None, "archive_by_queue"),
        ("type:\"type 1\"", None, "archive_by_type"),
        ("source:\"source 1\"", None, "archive_by_source"),
        ("error:Error1", None, "archive_by_error_type"),
        ("event:e7777", None, "archive_by_event"),
        ("incident:019a0000-0000-7000-8000-000000000002", None, "archive_by_fingerprint"),
    ] {
        let mut before = None;
        for _ in 0..2 {
            let filter = lazaret_core::filter::Filter::from_text(filter).unwrap();
            let query = ArchiveQuery { filter: filter.clone(), place, now: at(0), before, limit: 10 };
            let (page, plans) = plans::of(store.archived(query)).await;
            let page = page.unwrap();
            assert!(!page.letters.is_empty() && page.scan.is_none(), "{filter}");
            let plan = the_one(&plans, "from archive l");
            assert!(uses(plan, index), "{filter}: {plan:#?}");
            assert!(plan.rows_most() <= 30, "{filter}: {plan:#?}");
            before = page.next;
            if before.is_none() {
                break;
            }
        }
    }
    let (waiting, plans) = plans::of(store.archive_waiting()).await;
    assert_eq!(waiting.unwrap().letters, 1_000);
    assert!(uses(the_one(&plans, "from archive"), "archive_waiting"), "{plans:#?}");
    store.close().await.unwrap();
}
