//! Cases: what a run did, minute by minute.

use lazaret_core::id::RedriveId;
use lazaret_core::letter::Outcome as Received;
use lazaret_store::redrive::{ByPerson, Did, RunLine, RunPoint, SendOutcome};
use lazaret_store::series::Step;

use crate::redrive_runs::{delivered, free_run, refused, sending, settle, unknown};
use crate::redrives::unpaced;
use crate::rig::{Rig, ana, at, dying};

const MINUTE: i64 = 60_000;
/// `at(0)` is the beginning of an hour.
const HOUR: i64 = 3_600_000;

pub async fn line(rig: &Rig, redrive: RedriveId, step: Step, from: i64, until: i64) -> Vec<RunPoint> {
    rig.store().run_line(RunLine { redrive, step, from: at(from), until: at(until) }).await.unwrap()
}

pub fn point(ms: i64, sent: u64, good: u64, bad: u64) -> RunPoint {
    RunPoint { at: at(ms), did: Did { sent, good, bad } }
}

pub async fn what_a_run_did_stands_in_its_minute(rig: &mut Rig) {
    rig.create_many(4, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    let taken = sending(rig, id, 10, HOUR).await;
    assert_eq!(line(rig, id, Step::Minute, 0, 9 * HOUR).await, [], "taken is not sent");
    let sent = [
        (SendOutcome::Sent { handle: None }, HOUR),
        (delivered(), HOUR + MINUTE - 1),
        (refused(HOUR), HOUR + MINUTE),
        (unknown(), 2 * HOUR),
    ];
    for (letter, (outcome, ms)) in taken.iter().zip(sent) {
        assert!(settle(rig, id, *letter, outcome, ms).await);
    }
    let minutes = [point(HOUR, 2, 1, 0), point(HOUR + MINUTE, 1, 0, 1), point(2 * HOUR, 1, 0, 0)];
    assert_eq!(line(rig, id, Step::Minute, 0, 9 * HOUR).await, minutes);
    assert_eq!(line(rig, id, Step::Minute, HOUR + 59_999, HOUR + 60_001).await, minutes[..2]);
    assert_eq!(line(rig, id, Step::Minute, HOUR + MINUTE, 2 * HOUR).await, minutes[1..2]);
    let hours = [point(HOUR, 3, 1, 1), point(2 * HOUR, 1, 0, 0)];
    assert_eq!(line(rig, id, Step::Hour, HOUR + MINUTE, 2 * HOUR + 1).await, hours);
    // What was sent is not sent again by being known, or by coming back.
    let by = (ByPerson::Sent, ana(), at(3 * HOUR));
    assert!(rig.store().settle_unknown(id, taken[3], by.0, by.1, by.2).await.unwrap());
    let again = rig.capture(dying("e0", at(4 * HOUR)), at(4 * HOUR)).await;
    assert_eq!(again.outcome, Received::Relapse);
    let later = [point(3 * HOUR, 0, 1, 0), point(4 * HOUR, 0, 0, 1)];
    assert_eq!(line(rig, id, Step::Minute, 3 * HOUR, 9 * HOUR).await, later);
    let other = free_run(rig, unpaced()).await;
    assert_eq!(line(rig, other, Step::Hour, 0, 9 * HOUR).await, []);
}
