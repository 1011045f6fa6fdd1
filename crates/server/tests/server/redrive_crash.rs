//! Instances that go away between any two steps, and several at once: nothing is lost, nothing goes out twice without
//! its key.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::{Pace, RunState};
use lazaret_server::app::App;
use lazaret_server::clock::Clock;
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
async fn what_the_destination_no_longer_recognises_is_not_sent_again() {
    for (window_ms, outcome) in [(3_600_000, "succeeded"), (120_000, "unknown")] {
        let rig = rig(true).await;
        *rig.to.window_ms.lock().unwrap() = Some(window_ms);
        rig.dies(0, None).await;
        rig.to.does(0, Does::Hang);
        let id = rig.launched(at_once()).await;
        crash_while_sending(&rig).await;
        rig.to.does(0, Does::Deliver);
        // Nobody was there for ten minutes.
        rig.test.pass(600_000);
        rig.tick().await;
        assert_eq!(rig.letters(id).await, [(outcome, 1)]);
        rig.test.check().await;
    }
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

const STALL_MS: i64 = 2 * limits::CLAIM_LEASE_MS as i64 + 1;

const STEP_MS: i64 = 600_000;

/// One instance stalls with a letter on its way and others claimed, while time passes and clocks are stepped; another
/// looks after the run; then the first goes on. Neither knows how the other's clock stands.
async fn stall(passed_ms: i64, stepped_ms: [i64; 2]) {
    let rig = rig(false).await;
    for n in 0..16 {
        rig.dies(n, None).await;
    }
    let (mine, theirs) = (rig.to.clone(), Scripted::new(false));
    for to in [&mine, &theirs] {
        to.always(Does::Wait);
    }
    let clock = Clock::fixed(rig.app.clock.now());
    let other = rig.apart(clock.clone(), theirs.clone());
    let id = rig.launched(Wanted { concurrency: Some(1), batch_size: Some(16), ..at_once() }).await;

    let mut stalled = Box::pin(tick_all(&rig.app));
    tokio::select! {
        () = &mut stalled => panic!("it should wait for its first letter"),
        () = mine.came.notified() => {}
        () = tokio::time::sleep(PATIENCE) => panic!("nothing came"),
    }
    // From here on nobody polls it: its process is stopped.
    assert_eq!(rig.letters(id).await, [("out", 16)]);
    rig.test.pass(passed_ms + stepped_ms[0]);
    let Clock::Fixed(ms) = &clock else { unreachable!("it is fixed") };
    ms.fetch_add(passed_ms + stepped_ms[1], Ordering::SeqCst);
    {
        let mut going = Box::pin(tick_all(&other));
        // By its clock the leases may not be over: then it finds nothing to do.
        let idle = tokio::select! {
            () = &mut going => true,
            () = theirs.came.notified() => false,
            () = tokio::time::sleep(PATIENCE) => panic!("it neither sends nor ends"),
        };
        // The first goes on while the second is sending.
        for to in [&mine, &theirs] {
            to.go_on.add_permits(100);
        }
        let rest = async {
            if !idle {
                going.await;
            }
        };
        let both = async { tokio::join!(stalled, rest) };
        tokio::time::timeout(PATIENCE, both).await.expect("both come to an end");
    }
    // Whatever is left is claimed by whoever's clock says that a lease is over.
    for _ in 0..4 {
        rig.test.pass(STALL_MS + STEP_MS);
        ms.fetch_add(STALL_MS + STEP_MS, Ordering::SeqCst);
        tokio::join!(tick_all(&rig.app), tick_all(&other));
    }
    let mut numbers = [mine.numbers(), theirs.numbers()].concat();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..16).collect::<Vec<_>>(), "{passed_ms} ms, {stepped_ms:?}");
    assert_eq!(rig.letters(id).await, [("succeeded", 16)], "{passed_ms} ms, {stepped_ms:?}");
    rig.test.check().await;
}

async fn tick_all(app: &App) {
    while redrive::tick(app).await.unwrap() == Progress::More {}
}

#[tokio::test]
async fn an_instance_that_stalled_for_two_leases_sends_nothing_twice() {
    stall(STALL_MS, [0, 0]).await;
}

#[tokio::test]
async fn an_instance_that_stalled_while_clocks_were_stepped_sends_nothing_twice() {
    for passed_ms in [0, STALL_MS] {
        for stepped_ms in [[STEP_MS, 0], [-STEP_MS, 0], [0, STEP_MS], [0, -STEP_MS]] {
            stall(passed_ms, stepped_ms).await;
        }
    }
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
