//! Instances that go away between any two steps, and several at once: nothing is lost, nothing goes out twice without
//! its key.

use std::time::Duration;

use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::{Pace, RunState};
use lazaret_server::operations::Progress;
use lazaret_server::redrive::{self, Wanted};
use lazaret_store::failure::{Failure, FailurePoint};

use super::redrive_rig::{Does, GOVERNED, Rig, Scripted, at_once};

const PATIENCE: Duration = Duration::from_secs(60);

async fn rig(deduplicates: bool) -> Rig {
    Rig::with(&format!("{GOVERNED}governance = 'optional'\n"), Scripted::new(deduplicates)).await
}

/// The instance is gone once the destination has got something.
async fn crash_while_sending(rig: &Rig) {
    let ticking = redrive::tick(&rig.app);
    tokio::select! {
        ticked = ticking => panic!("it should have hung: {ticked:?}"),
        () = rig.to.came.notified() => {}
        () = tokio::time::sleep(PATIENCE) => panic!("nothing came"),
    }
}

#[tokio::test]
async fn what_was_being_sent_when_an_instance_died_is_unknown() {
    let rig = rig(false).await;
    let one = rig.dies(0, None).await;
    rig.to.does(0, Does::Hang);
    let id = rig.launched(at_once()).await;
    crash_while_sending(&rig).await;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("out", 1)], "its lease still holds");
    rig.test.pass(2 * limits::CLAIM_LEASE_MS.cast_signed() + 1);
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("unknown", 1)]);
    assert_eq!((rig.to.numbers().len(), rig.status(one).await), (1, Status::Reprocessing));
    rig.test.check().await;
}

#[tokio::test]
async fn where_the_destination_knows_a_repetition_it_is_sent_again_under_the_same_key() {
    let rig = rig(true).await;
    let one = rig.dies(0, None).await;
    rig.to.does(0, Does::Hang);
    let id = rig.launched(at_once()).await;
    crash_while_sending(&rig).await;
    rig.to.does(0, Does::Deliver);
    rig.test.pass(2 * limits::CLAIM_LEASE_MS.cast_signed() + 1);
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("succeeded", 1)]);
    assert_eq!(rig.to.keys(), [format!("{one}:1:1"), format!("{one}:1:1")]);
    assert_eq!(rig.state(id).await.0, RunState::Done);
    rig.test.check().await;
}

#[tokio::test]
async fn what_was_only_claimed_when_an_instance_died_is_sent_by_the_next() {
    let rig = rig(false).await;
    for n in 0..4 {
        rig.dies(n, None).await;
    }
    rig.to.does(0, Does::Hang);
    let id = rig.launched(Wanted { concurrency: Some(1), ..at_once() }).await;
    crash_while_sending(&rig).await;
    assert_eq!(rig.letters(id).await, [("out", 4)]);
    rig.test.pass(2 * limits::CLAIM_LEASE_MS.cast_signed() + 1);
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("unknown", 1), ("succeeded", 3)]);
    let mut numbers = rig.to.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
    rig.test.check().await;
}

#[tokio::test]
async fn a_store_that_fails_at_any_commit_loses_nothing() {
    for fail_at in 0..12_u32 {
        let rig = rig(true).await;
        for n in 0..5 {
            rig.dies(n, (n < 3).then_some("o-1")).await;
        }
        let id = rig.launched(Wanted { concurrency: Some(2), ..at_once() }).await;
        let failures = rig.test.store.failures();
        // Each look writes a few times; this fails the first, the second, … of them, and all that are tried again.
        let mut looks = 0;
        loop {
            if looks == fail_at {
                failures.plan(FailurePoint::Commit, Failure::Unavailable, 5);
            }
            looks += 1;
            match redrive::tick(&rig.app).await {
                Ok(Progress::Idle) if looks > fail_at => break,
                Ok(_) | Err(_) => rig.test.pass(2 * limits::CLAIM_LEASE_MS.cast_signed() + 1),
            }
            assert!(looks < 100, "it does not come to an end");
        }
        assert_eq!(rig.letters(id).await, [("succeeded", 5)], "failing at {fail_at}");
        let (mut keys, numbers) = (rig.to.keys(), rig.to.numbers());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 5, "what was sent twice had the same key: {:?}", rig.to.keys());
        let mut lane: Vec<u64> = numbers.into_iter().filter(|n| *n < 3).collect();
        lane.dedup();
        assert_eq!(lane, [0, 1, 2]);
        rig.test.check().await;
    }
}

#[tokio::test]
async fn two_instances_share_a_run_and_send_each_letter_once() {
    let rig = rig(false).await;
    for n in 0..60 {
        rig.dies(n, (n % 3 == 0).then_some("o-1")).await;
    }
    let wanted = Wanted { batch_size: Some(5), concurrency: Some(3), ..at_once() };
    let id = rig.launched(wanted).await;
    let other = rig.other();
    let both = || async {
        let (one, two) = tokio::join!(redrive::tick(&rig.app), redrive::tick(&other));
        (one.unwrap(), two.unwrap())
    };
    while both().await != (Progress::Idle, Progress::Idle) {}
    assert_eq!(rig.letters(id).await, [("succeeded", 60)]);
    let mut numbers = rig.to.numbers();
    let lane: Vec<u64> = numbers.iter().copied().filter(|n| n % 3 == 0).collect();
    assert!(lane.is_sorted(), "{lane:?}");
    numbers.sort_unstable();
    assert_eq!(numbers, (0..60).collect::<Vec<_>>());
    rig.test.check().await;
}

#[tokio::test]
async fn two_instances_keep_one_pace() {
    let rig = rig(false).await;
    for n in 0..30 {
        rig.dies(n, None).await;
    }
    let id = rig.launched(Wanted { pace: Some(Pace::from_per_minute(Some(60)).unwrap()), ..at_once() }).await;
    let other = rig.other();
    for second in 1..=5 {
        for _ in 0..3 {
            let (one, two) = tokio::join!(redrive::tick(&rig.app), redrive::tick(&other));
            one.and(two).unwrap();
        }
        assert_eq!(rig.to.numbers().len(), second);
        rig.test.pass(1_000);
    }
    assert_eq!(rig.state(id).await.0, RunState::Running);
}

#[tokio::test]
async fn an_instance_that_is_asked_to_end_begins_nothing_and_gives_back_what_it_claimed() {
    let rig = rig(false).await;
    for n in 0..6 {
        rig.dies(n, None).await;
    }
    let id = rig.launched(Wanted { concurrency: Some(1), ..at_once() }).await;
    rig.to.does(0, Does::Hang);
    let ticking = redrive::tick(&rig.app);
    tokio::pin!(ticking);
    tokio::select! {
        ticked = &mut ticking => panic!("it should have hung: {ticked:?}"),
        () = rig.to.came.notified() => {}
        () = tokio::time::sleep(PATIENCE) => panic!("nothing came"),
    }
    rig.app.stop();
    // What hangs is left to its lease; the rest is given back while that is waited for.
    let mut changes = lazaret_store::Store::changes(rig.test.store.as_ref());
    tokio::select! {
        ticked = &mut ticking => panic!("one is still on its way: {ticked:?}"),
        () = async {
            while rig.letters(id).await != [("waiting", 5), ("out", 1)] {
                changes.changed().await.unwrap();
            }
        } => {}
        () = tokio::time::sleep(PATIENCE) => panic!("{:?}", rig.letters(id).await),
    }
    assert_eq!(rig.to.numbers(), [0]);
}
