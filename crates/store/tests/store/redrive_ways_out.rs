//! Cases: nothing that a run is about is left without a way out, and nothing old is held against what came after.

use lazaret_core::gate::Passed;
use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::{Options, Outcome, Pace, RunState};
use lazaret_store::decision::Verb;
use lazaret_store::redrive::{ByPerson, GroupVerdict, RunStep, SendOutcome};

use crate::analyses::{cured, state};
use crate::redrive_canaries::with_canary;
use crate::redrive_runs::{delivered, free_run, ids, refused, sending, settle, take, tend, unknown};
use crate::redrives::{
    frozen, groups, keyed, launch_of, outcome, plan, redrive, run, state_of, step, unpaced,
};
use crate::rig::{Rig, ana, at, dying};

pub async fn a_proof_that_never_comes_is_replaced_by_a_word(rig: &mut Rig) {
    let all = rig.create_many(2, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 10, 200).await;
    for letter in &all {
        assert!(settle(rig, id, *letter, SendOutcome::Sent { handle: None }, 210).await);
    }
    assert_eq!(tend(rig, id, 220).await.state, RunState::Verifying);
    let word =
        async |letter, word| rig.store().settle_unknown(id, letter, word, ana(), at(300)).await.unwrap();
    assert!(word(all[0], ByPerson::Sent).await);
    assert!(word(all[1], ByPerson::Unclaim).await);
    assert_eq!(rig.letter(all[0]).await.status, Status::Resolved);
    assert_eq!(rig.letter(all[1]).await.status, Status::Pending);
    assert_eq!(tend(rig, id, 310).await.state, RunState::Done);
}

pub async fn a_run_that_is_verified_in_vain_is_cancelled(rig: &mut Rig) {
    let all = rig.create_many(1, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 10, 200).await;
    assert!(settle(rig, id, all[0], SendOutcome::Sent { handle: None }, 210).await);
    assert_eq!(tend(rig, id, 220).await.state, RunState::Verifying);
    assert_eq!(state_of(step(rig, id, RunStep::Cancel(None), 230).await), RunState::Cancelled);
    assert!(settle(rig, id, all[0], delivered(), 240).await, "what is out is still settled");
    let ended = tend(rig, id, 250).await;
    assert_eq!((ended.state, ended.finished_at), (RunState::Cancelled, Some(at(250))));
}

pub async fn canaries_that_moved_before_their_turn_are_replaced(rig: &mut Rig) {
    let all = rig.create_many(4, at(0)).await;
    let id = free_run(rig, with_canary(1)).await;
    rig.done(all[0], Verb::Resolve, at(150)).await;
    assert_eq!(take(rig, id, 10, 200).await.skipped, 1);
    assert_eq!(tend(rig, id, 210).await.state, RunState::Canary, "nothing is verified yet");
    assert_eq!(sending(rig, id, 10, 220).await, [all[1]]);
    assert!(settle(rig, id, all[1], delivered(), 230).await);
    assert_eq!(tend(rig, id, 240).await.state, RunState::Running);
}

pub async fn a_key_that_another_run_left_unknown_does_not_hold_up_the_end(rig: &mut Rig) {
    let first = rig.create(keyed("a", "k", -40), at(0)).await;
    let one = free_run(rig, unpaced()).await;
    sending(rig, one, 10, 200).await;
    assert!(settle(rig, one, first, unknown(), 300).await);
    assert_eq!(tend(rig, one, 310).await.state, RunState::Done);
    let second = rig.create(keyed("b", "k", -30), at(320)).await;
    let other = run(rig, "source:report", Passed::Freely, unpaced(), 400).await;
    assert!(take(rig, other, 10, 500).await.taken.is_empty());
    let done = tend(rig, other, 510).await;
    assert_eq!((done.state, done.letters[&Outcome::LaneBlocked]), (RunState::Done, 1));
    assert_eq!(rig.letter(second).await.status, Status::Pending);
}

pub async fn a_relapse_that_a_later_fix_answered_is_not_held_against_it(rig: &mut Rig) {
    let all = rig.create_many(10, at(0)).await;
    let incident = rig.letter(all[0]).await.incident;
    cured(rig, incident, 50, 50).await;
    let id = run(rig, "source:report", Passed::Governed, unpaced(), 100).await;
    let out = sending(rig, id, 4, 200).await;
    for letter in &out[..3] {
        let event = rig.letter(*letter).await.event_id;
        assert!(settle(rig, id, *letter, delivered(), 210).await);
        rig.capture(dying(&event, at(220)), at(230)).await;
    }
    assert_eq!(tend(rig, id, 240).await.state, RunState::Stopped);
    assert_eq!(state(rig, incident).await, IncidentState::Regressed);
    cured(rig, incident, 300, 300).await;
    assert_eq!(state_of(step(rig, id, RunStep::Cancel(None), 310).await), RunState::Cancelled);
    assert!(settle(rig, id, out[3], refused(320), 320).await);
    tend(rig, id, 330).await;
    assert_eq!(state(rig, incident).await, IncidentState::Fixed);
}

pub async fn a_plan_that_was_launched_is_not_judged_again(rig: &mut Rig) {
    let all = rig.create_many(3, at(0)).await;
    let (id, _) = frozen(rig, "source:report", unpaced(), 100).await;
    plan(rig, id, Passed::Freely, 110).await;
    let launch = launch_of(3, unpaced(), 120);
    rig.store().launch_redrive(id, launch).await.unwrap();
    sending(rig, id, 1, 130).await;
    let groups = groups(rig, id).await;
    let verdicts = groups.iter().map(|group| (group.number, GroupVerdict::NoWayBack("x".into())));
    let judged = rig.store().plan_redrive(id, verdicts.collect(), "{}".into(), at(140)).await.unwrap();
    assert_eq!(judged, None);
    assert_eq!(outcome(rig, id, all[0]).await, Outcome::Out);
    assert_eq!(take(rig, id, 10, 150).await.taken.len(), 2);
}

pub async fn runs_that_stand_still_keep_nobody_waiting(rig: &mut Rig) {
    rig.create_many(2, at(0)).await;
    let mut paused = Vec::new();
    for n in 0..3 {
        let id = run(rig, "source:report", Passed::Freely, unpaced(), 100 + n).await;
        assert_eq!(state_of(step(rig, id, RunStep::Pause("later".into()), 110 + n).await), RunState::Paused);
        paused.push(id);
    }
    let id = run(rig, "source:report", Passed::Freely, unpaced(), 200).await;
    let looked: Vec<_> = rig.store().unfinished_redrives(1).await.unwrap().iter().map(|run| run.id).collect();
    assert_eq!(looked, [id]);
    assert_eq!(redrive(rig, paused[0]).await.state, RunState::Paused);
}

pub async fn a_clock_that_is_set_back_does_not_stall_a_run(rig: &mut Rig) {
    let all = rig.create_many(4, at(0)).await;
    let pace = Pace::from_per_minute(Some(60)).unwrap();
    let id = free_run(rig, Options { pace, ..unpaced() }).await;
    let ahead = 600_000;
    assert_eq!(ids(&take(rig, id, 10, ahead).await), all[..1]);
    assert_eq!(ids(&take(rig, id, 10, 1_000).await), all[1..2]);
    let early = take(rig, id, 10, 1_999).await;
    assert_eq!((early.taken.len(), early.next_at), (0, Some(at(2_000))));
    assert_eq!(ids(&take(rig, id, 10, 2_000).await), all[2..3]);
    // Set forward again, it saves up no more than a second.
    assert_eq!(ids(&take(rig, id, 10, ahead).await), all[3..]);
}
