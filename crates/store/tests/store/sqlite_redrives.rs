//! Redrives in the embedded store: what only a store can do that belongs to one process.

use lazaret_core::gate::Passed;
use lazaret_store::redrive::SendOutcome;

use crate::books;
use crate::redrive_runs::{begin, settle, take, tend};
use crate::redrives::{run, unpaced};
use crate::rig::at;
use crate::sqlite_jobs::rig;

#[tokio::test]
async fn what_a_process_had_claimed_can_be_taken_on_by_the_next_at_once() {
    let (rig, store, _folder) = rig().await;
    let all = rig.create_many(3, at(0)).await;
    let id = run(&rig, "source:report", Passed::Freely, unpaced(), 100).await;
    assert_eq!(take(&rig, id, 10, 200).await.taken.len(), 3);
    begin(&rig, id, &[all[0], all[2]], 210).await;
    let unknown = SendOutcome::Unknown { why: "no answer within 30 s".into() };
    assert!(settle(&rig, id, all[2], unknown, 220).await);
    assert!(rig.store().expired_claims(at(230), 10).await.unwrap().is_empty());

    assert_eq!(store.end_leases(at(230)).await.unwrap(), 2, "what is unknown has no lease");
    assert!(begin(&rig, id, &[all[1]], 230).await.is_empty(), "whoever claimed it must not send it any more");
    let expired = rig.store().expired_claims(at(230), 10).await.unwrap();
    let found: Vec<_> = expired.iter().map(|claim| (claim.run, claim.taken.letter, claim.sending)).collect();
    assert_eq!(found, [(id, all[0], true), (id, all[1], false)]);
    assert!(rig.store().renew_claim(expired[0].clone(), at(60_230), at(230)).await.unwrap().is_some());
    assert_eq!(rig.store().expired_claims(at(230), 10).await.unwrap().len(), 1);
    books::agree(&*store).await;
}

#[tokio::test]
async fn a_run_with_nothing_to_do_costs_no_commit() {
    let (rig, store, _folder) = rig().await;
    rig.create_many(2, at(0)).await;
    let id = run(&rig, "source:report", Passed::Freely, unpaced(), 100).await;
    take(&rig, id, 1, 200).await;
    let mut commits = rig.store().changes();
    commits.mark_unchanged();
    tend(&rig, id, 300).await;
    assert!(!commits.has_changed().unwrap());
    books::agree(&*store).await;
}
