//! Letters that are imported and regrouped while other instances write.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_core::id::LetterId;
use lazaret_core::letter::Captured;
use lazaret_store::Store;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::incident::IncidentQuery;
use lazaret_store::testing::TestDatabase;
use lazaret_store::transfer::{Import, Imported};

use crate::books;
use crate::postgres_many::{deadlocks, open, rig};
use crate::regroup::{by_message, regroup};
use crate::rig::{Rig, ana, at, captured, decision, dying, envelope, sqlite};
use crate::transfer::{export, import};

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_regrouped_while_another_instance_writes() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let other = Arc::new(open(&database).await);
    let old = rig.create_many(120, at(0)).await;
    let known = rig.letter(old[0]).await.incident;
    // By the new rules already, as every instance that has them does.
    let batches: Vec<Vec<_>> = (0..30)
        .map(|batch| {
            let admit = |n| {
                let mut admitted = rig.admit(dying(&format!("{batch}-{n}"), at(50)), at(50));
                admitted.grouping = by_message("new", "connection refused");
                admitted
            };
            (0..5).map(admit).collect()
        })
        .collect();
    let store = Arc::clone(&other);
    let writing = tokio::spawn(async move {
        for (batch, letter) in batches.into_iter().zip(old) {
            store.insert(batch).await.unwrap();
            let decided = store.decide(letter, decision(Verb::Resolve, at(60))).await.unwrap();
            assert_eq!(decided, Decided::Done);
        }
    });
    regroup(&rig, "new", 7, |life| by_message("new", &life.error.message)).await;
    writing.await.unwrap();
    let query = IncidentQuery { limit: 100, ..IncidentQuery::default() };
    let found = rig.store().incidents(query).await.unwrap().incidents;
    assert_eq!((found.len(), found[0].id, found[0].letters), (1, known, 270));
    assert_eq!(found[0].fingerprint, by_message("new", "connection refused").fingerprint);
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(&database).await, 0);
    other.close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_import_and_capture_the_same_letters_have_each_once() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let from = Rig::open(sqlite()).await;
    let types =
        |n: i64| Captured { letter_type: format!("type {}", n % 7), ..dying(&format!("e{n}"), at(-5)) };
    let mut ids = Vec::new();
    for n in 0..90 {
        ids.push(from.create(types(n), at(0)).await);
    }
    let letters = export(&from, &ids).await;
    let stores = [Arc::new(open(&database).await), Arc::new(open(&database).await)];
    let mut running = Vec::new();
    for (n, store) in stores.iter().enumerate() {
        let mut order: Vec<Import> = letters.iter().map(|one| import(&rig, one.clone())).collect();
        if n == 1 {
            order.reverse();
        }
        for chunk in order.chunks(30) {
            let (store, chunk) = (Arc::clone(store), chunk.to_vec());
            running.push(tokio::spawn(async move {
                let ids: Vec<LetterId> = chunk.iter().map(|one| one.exported.letter.id).collect();
                let outcomes = store.import(chunk, ana(), at(1_000_000)).await.unwrap();
                ids.into_iter().zip(outcomes).collect::<Vec<_>>()
            }));
        }
    }
    // The same messages are reported here at the same time: whoever comes first makes the letter.
    let reported = (0..90).step_by(3).map(|n| rig.admit(types(n), at(0))).collect();
    let receipts = rig.insert(reported).await;
    let mut outcomes: BTreeMap<LetterId, Vec<Imported>> = BTreeMap::new();
    for imported in running {
        for (id, outcome) in imported.await.unwrap() {
            outcomes.entry(id).or_default().push(outcome);
        }
    }
    for (id, outcomes) in &outcomes {
        let created = outcomes.iter().filter(|outcome| **outcome == Imported::Created).count();
        let known = outcomes.iter().filter(|outcome| **outcome == Imported::Known).count();
        match rig.store().history(*id).await.unwrap() {
            Some(_) => assert_eq!((created, known), (1, 1), "{outcomes:?}"),
            None => assert!(outcomes.iter().all(|one| matches!(one, Imported::Conflict(_))), "{outcomes:?}"),
        }
    }
    assert_eq!((outcomes.len(), receipts.len()), (90, 30));
    assert_eq!(rig.find("").await.len(), 90, "one letter for each message");
    books::agree(rig.store()).await;
    assert_eq!(deadlocks(&database).await, 0);
    for store in stores {
        store.close().await.unwrap();
    }
    from.store().close().await.unwrap();
    rig.store().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_with_odd_texts_is_imported() {
    let database = TestDatabase::new();
    let rig = rig(&database).await;
    let from = Rig::open(sqlite()).await;
    let mut odd = Captured { envelope: envelope(br#"{"a":"\u0000"}"#), ..captured("e1") };
    (odd.error.message, odd.error.backtrace) = ("a\0b".into(), Some("\0 at x".into()));
    let id = from.create(odd, at(0)).await;
    let mut exported = export(&from, &[id]).await.remove(0);
    // As somebody may have written it into a file.
    exported.letter.queue = "q\0".into();
    exported.letter.tenant = Some("\0".into());
    let outcome = rig.store().import(vec![import(&rig, exported)], ana(), at(10)).await.unwrap();
    assert_eq!(outcome, [Imported::Created]);
    let history = rig.history(id).await;
    assert_eq!(
        (history.letter.queue.as_str(), history.letter.tenant.as_deref()),
        ("q\u{fffd}", Some("\u{fffd}"))
    );
    assert_eq!(history.attempts[0].attempt.error.message, "a\0b", "the whole is kept");
    books::agree(rig.store()).await;
    from.store().close().await.unwrap();
    rig.store().close().await.unwrap();
}
