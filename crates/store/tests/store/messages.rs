//! Cases: typed headers, origins, missing bodies and what a destination handed out survive wherever letters go.

use lazaret_core::envelope::Envelope;
use lazaret_core::gate::Passed;
use lazaret_core::id::LetterId;
use lazaret_core::letter::Captured;
use lazaret_core::redrive::Outcome;
use lazaret_store::decision::Decided;
use lazaret_store::redrive::{Edit, GroupVerdict, SendOutcome};
use lazaret_store::testing::messages::{GONE, every_header, full, without_body};
use lazaret_store::transfer::Imported;

use crate::redrive_runs::{free_run, sending, settle, take};
use crate::redrives::{frozen, groups, letters, unpaced};
use crate::rig::{Rig, at, captured, postgres, sqlite};
use crate::shelf::{EITHER, Shelf, put_away};
use crate::transfer::{export, put_in};

/// A letter of each kind of message.
async fn capture(rig: &Rig) -> Vec<(LetterId, Envelope)> {
    let mut kept = Vec::new();
    for (event, envelope) in [("full", full(b"{\"n\":1}")), ("gone", without_body())] {
        let letter = Captured { envelope: envelope.clone(), ..captured(event) };
        kept.push((rig.create(letter, at(0)).await, envelope));
    }
    kept
}

/// Asserts that letters hold what was captured, wherever it is read.
async fn assert_whole(rig: &Rig, kept: &[(LetterId, Envelope)]) {
    for (id, envelope) in kept {
        let original = rig.store().original(*id, Some(1)).await.unwrap().unwrap();
        assert_eq!(original.envelope, *envelope);
        let life = rig.history(*id).await.lives.remove(0);
        assert_eq!(life.origin.as_ref(), envelope.origin());
        assert_eq!(life.body_missing.as_deref(), envelope.body_missing());
        let exported = export(rig, &[*id]).await.remove(0);
        assert_eq!(exported.lives, [(life, envelope.clone())]);
    }
}

pub async fn everything_of_a_message_survives(rig: &mut Rig) {
    let kept = capture(rig).await;
    rig.reopen().await;
    assert_whole(rig, &kept).await;
    let ids: Vec<LetterId> = kept.iter().map(|(id, _)| *id).collect();
    for there in [Rig::open(sqlite()).await, Rig::open(postgres()).await] {
        let imported = put_in(&there, export(rig, &ids).await).await;
        assert_eq!(imported, [Imported::Created, Imported::Created]);
        assert_whole(&there, &kept).await;
        there.store().close().await.unwrap();
    }
    for (n, kept_as) in (1..).zip(EITHER) {
        let mut shelf = Shelf::default();
        for id in &ids {
            put_away(rig, &mut shelf, *id, kept_as, n * 10_000).await;
        }
        rig.reopen().await;
        for id in &ids {
            assert_eq!(shelf.restore(rig, *id, at(n * 20_000)).await, Decided::Done, "{kept_as:?}");
        }
        assert_whole(rig, &kept).await;
    }
}

pub async fn an_edit_keeps_typed_headers(rig: &mut Rig) {
    let (id, _) = capture(rig).await.remove(0);
    let edit = Edit {
        number: 1,
        life: 1,
        body: b"{}".to_vec(),
        content_type: "application/json".into(),
        headers: every_header(),
        destination: None,
        author: "ana".into(),
        reason: None,
        at: at(10),
    };
    assert_eq!(rig.store().add_edit(id, edit.clone()).await.unwrap(), Some(1));
    rig.reopen().await;
    assert_eq!(rig.store().edits(id).await.unwrap(), [edit]);
}

pub async fn letters_without_a_body_are_judged_by_themselves(rig: &mut Rig) {
    capture(rig).await;
    let (id, _) = frozen(rig, "source:report", unpaced(), 100).await;
    let mut found = groups(rig, id).await;
    found.sort_by_key(|group| group.body_missing.clone());
    let reasons: Vec<_> = found.iter().map(|group| (group.body_missing.as_deref(), group.letters)).collect();
    assert_eq!(reasons, [(None, 1), (Some(GONE), 1)]);
    assert_eq!(found[0].incident, found[1].incident);
    let goes = GroupVerdict::Goes { passed: Passed::Freely, destination: "report".into() };
    let missing = GroupVerdict::BodyMissing(GONE.into());
    let verdicts = vec![(found[0].number, goes), (found[1].number, missing.clone())];
    let planned = rig.store().plan_redrive(id, verdicts, "{}".into(), at(100)).await.unwrap().unwrap();
    assert_eq!((planned.refused, planned.letters[&Outcome::Waiting]), (1, 1));
    let found = groups(rig, id).await;
    assert!(found.iter().any(|group| group.verdict.as_ref() == Some(&missing)), "{found:?}");
}

pub async fn what_a_destination_handed_out_is_kept(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    let id = free_run(rig, unpaced()).await;
    assert_eq!(sending(rig, id, 10, 200).await, ids);
    let handle = |text: &str| Some(text.to_owned());
    let sent = SendOutcome::Sent { handle: handle("ORDERS:42") };
    assert!(settle(rig, id, ids[0], sent, 210).await);
    let done = SendOutcome::Delivered { evidence: "acked", handle: handle("ORDERS:43") };
    assert!(settle(rig, id, ids[1], done, 210).await);
    assert!(settle(rig, id, ids[2], SendOutcome::Unsent, 210).await);
    rig.reopen().await;
    let handles = async |rig: &Rig| -> Vec<Option<String>> {
        letters(rig, id).await.into_iter().map(|row| row.handle).collect()
    };
    assert_eq!(handles(rig).await, [handle("ORDERS:42"), handle("ORDERS:43"), None]);
    // What proves that the work is done later leaves the handle as it is.
    let done = SendOutcome::Delivered { evidence: "acked", handle: None };
    assert!(settle(rig, id, ids[0], done, 300).await);
    assert_eq!(take(rig, id, 10, 400).await.taken.len(), 1);
    assert_eq!(handles(rig).await, [handle("ORDERS:42"), handle("ORDERS:43"), None]);
}
