//! Cases: canaries go first and alone, and what becomes of them decides about the others.

use lazaret_core::gate::Passed;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Outcome, RunState};
use lazaret_store::redrive::{RunStep, SendOutcome};

use crate::redrive_runs::{delivered, free_run, ids, refused, sending, settle, take, tend};
use crate::redrives::{letters, redrive, run, state_of, step, unpaced};
use crate::rig::{Rig, at, dying};

pub fn with_canary(canary: u32) -> Options {
    Options { canary, ..unpaced() }
}

pub async fn canaries_go_first_and_alone_spread_over_types(rig: &mut Rig) {
    let mut all = Vec::new();
    for (event, of, died) in [("a", "x", -50), ("b", "x", -40), ("c", "y", -30), ("d", "y", -20)] {
        let letter = lazaret_core::letter::Captured { letter_type: of.into(), ..dying(event, at(died)) };
        all.push(rig.create(letter, at(0)).await);
    }
    let id = free_run(rig, with_canary(2)).await;
    assert_eq!(redrive(rig, id).await.state, RunState::Canary);
    let marked: Vec<bool> = letters(rig, id).await.iter().map(|row| row.canary).collect();
    assert_eq!(marked, [true, false, true, false]);
    assert_eq!(sending(rig, id, 10, 200).await, [all[0], all[2]]);
    assert!(take(rig, id, 10, 210).await.taken.is_empty());
    assert!(settle(rig, id, all[0], delivered(), 220).await);
    let waits = tend(rig, id, 230).await;
    assert_eq!((waits.state, waits.canaries[&Outcome::Out]), (RunState::Canary, 1));
    assert!(settle(rig, id, all[2], delivered(), 240).await);
    let passed = tend(rig, id, 250).await;
    assert_eq!((passed.state, passed.canary_passed), (RunState::Running, true));
    assert_eq!(ids(&take(rig, id, 10, 260).await), [all[1], all[3]]);
    // Fewer letters than canaries need none.
    let few = run(rig, "type:x", Passed::Freely, with_canary(2), 300).await;
    assert_eq!(redrive(rig, few).await.state, RunState::Running);
}

pub async fn a_canary_that_fails_pauses_the_run(rig: &mut Rig) {
    let all = rig.create_many(4, at(0)).await;
    let id = free_run(rig, with_canary(1)).await;
    sending(rig, id, 10, 200).await;
    assert!(settle(rig, id, all[0], refused(210), 210).await);
    let paused = tend(rig, id, 220).await;
    assert_eq!((paused.state, paused.why.as_deref()), (RunState::Paused, Some("canary: failed")));
    assert_eq!(state_of(step(rig, id, RunStep::Resume, 230).await), RunState::Canary);
    assert_eq!(tend(rig, id, 240).await.state, RunState::Canary, "another one goes in its place");
    sending(rig, id, 10, 250).await;
    assert!(settle(rig, id, all[1], delivered(), 260).await);
    assert_eq!(tend(rig, id, 270).await.state, RunState::Running);
}

pub async fn a_canary_that_is_not_verified_in_time_pauses_the_run(rig: &mut Rig) {
    let all = rig.create_many(4, at(0)).await;
    let id = free_run(rig, with_canary(1)).await;
    sending(rig, id, 10, 200).await;
    assert!(settle(rig, id, all[0], SendOutcome::Sent { handle: None }, 210).await);
    let limit = 100 + limits::CANARY_MS_MIN;
    assert_eq!(tend(rig, id, limit).await.state, RunState::Canary);
    let paused = tend(rig, id, limit + 1).await;
    assert_eq!(
        (paused.state, paused.why.as_deref()),
        (RunState::Paused, Some("canary: not verified in time"))
    );
    assert_eq!(state_of(step(rig, id, RunStep::Resume, limit + 2).await), RunState::Canary);
    assert_eq!(tend(rig, id, limit + 3).await.state, RunState::Canary, "its time begins anew");
    assert!(settle(rig, id, all[0], delivered(), limit + 4).await);
    assert_eq!(tend(rig, id, limit + 5).await.state, RunState::Running);
}
