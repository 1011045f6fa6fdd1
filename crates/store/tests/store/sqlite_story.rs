//! A short story told to the embedded store, and every row that is left of it.

use lazaret_core::class::Category;
use lazaret_core::letter::Captured;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::Verb;
use lazaret_store::replay::Replay;
use lazaret_store::worker::{Beat, Wish};

use crate::jobs::{ack, enqueue, fail, fetch, new};
use crate::rig::{Rig, ana, at, captured, dying, error, failed, sqlite};

#[tokio::test]
async fn every_row_of_a_short_story() {
    let rig = Rig::open(sqlite()).await;
    let first = Captured {
        tenant: Some("acme".into()),
        aggregate: Some("order-7".into()),
        schema_version: Some("v2".into()),
        attempts: vec![failed(at(-3_000), "reset"), failed(at(-1_000), "connection refused")],
        reported: Some(r#"{"custom":1}"#.into()),
        ..dying("e1", at(-1_000))
    };
    let again = Captured { attempts: vec![failed(at(-2_000), "reset")], ..first.clone() };
    let later = Captured { error: error("disk on fire"), ..dying("e1", at(60_000)) };
    let one = rig.create(first, at(0)).await;
    rig.capture(again, at(10)).await;
    // The tenant is part of the key: the next report has to name it too.
    rig.capture(Captured { tenant: Some("acme".into()), ..later }, at(61_000)).await;
    let two = rig.create(Captured { queue: "late".into(), ..captured("e2") }, at(62_000)).await;
    let three = rig.create(Captured { letter_type: "order.paid".into(), ..captured("e3") }, at(63_000)).await;
    rig.done(two, Verb::Discard, at(64_000)).await;
    rig.done(three, Verb::Hold, at(65_000)).await;
    let operation = rig.open_operation(Verb::Resolve, "held:yes", 1, at(66_000)).await;
    rig.freeze(operation).await;
    rig.work(operation, at(67_000)).await;
    rig.send(one, ClaimStep::Sent, at(68_000)).await;
    rig.done(two, Verb::Delete, at(69_000)).await;
    insta::assert_snapshot!("story", rig.dump().await);
}

#[tokio::test]
async fn every_row_of_a_short_story_of_jobs() {
    let rig = Rig::open(sqlite()).await;
    let store = rig.shared();
    let beat = Beat {
        worker: "w1".into(),
        hostname: Some("host".into()),
        queues: vec!["default".into()],
        ..Beat::default()
    };
    store.beat(beat, at(0)).await.unwrap();
    let dying = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let ids = enqueue(&rig, vec![new(&rig, dying, at(0)), new(&rig, "", at(1))], at(1)).await;
    fetch(&rig, &["default"], 2, at(2)).await;
    fail(&rig, ids[0], "no", at(3)).await;
    ack(&rig, ids[1], at(4)).await;
    store.wish_worker("w1".into(), Wish::Quiet, ana(), at(5)).await.unwrap();
    store.pause_queue("slow".into(), true, ana(), at(6)).await.unwrap();
    store.switch_rule("night".into(), true, ana(), at(7)).await.unwrap();
    let letter = store.letter_of_job(ids[0]).await.unwrap().unwrap().letter.id;
    let letters = vec![(letter, 1)];
    store
        .replay(Replay {
            rule: "night".into(),
            category: Category::Infrastructure,
            max_replays: 1,
            letters,
            at: at(60_000),
        })
        .await
        .unwrap();
    fetch(&rig, &["default"], 1, at(60_001)).await;
    insta::assert_snapshot!("story_of_jobs", rig.dump().await);
}
