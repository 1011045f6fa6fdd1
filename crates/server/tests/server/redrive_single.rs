//! Letters put back one by one: the gate, edits, receipts and a person's word.

use lazaret_core::attempt::LetterError;
use lazaret_core::gate::Shut;
use lazaret_core::id::LetterId;
use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::{RedriveKind, RunState};
use lazaret_server::destination::Outgoing;
use lazaret_server::redrive::{
    self, Edited, Glass, NotRedriven, ReceiptGiven, ReceiptOutcome, Received, SingleRequest,
};
use lazaret_store::Redrives;
use lazaret_store::redrive::ByPerson;

use super::redrive_rig::{Does, GOVERNED, Rig, Scripted, anna, at_once, plain};

async fn free() -> Rig {
    Rig::with(&format!("{GOVERNED}governance = 'optional'\n"), Scripted::new(false)).await
}

fn receipt(of: &Outgoing, outcome: ReceiptOutcome) -> ReceiptGiven {
    let (letter, life, redrive) = (of.letter, of.life, Some(of.redrive));
    ReceiptGiven { letter, life, redrive, outcome, at: None, by: "billing".into() }
}

fn failed() -> ReceiptOutcome {
    let error =
        LetterError { error_type: "PriceError".into(), message: "no price".into(), ..LetterError::default() };
    ReceiptOutcome::Failed { error }
}

#[tokio::test]
async fn a_single_letter_is_sent_within_the_call() {
    let rig = free().await;
    let one = rig.dies(0, None).await;
    let done = rig.single(one, plain()).await.unwrap();
    assert_eq!((done.kind, done.state), (RedriveKind::Single, RunState::Done));
    assert_eq!(rig.status(one).await, Status::Resolved);
    assert_eq!(rig.to.keys(), [format!("{one}:1:1")]);
    let again = rig.single(one, plain()).await;
    assert!(matches!(again, Err(NotRedriven::Letter(_))), "{again:?}");
    let none = LetterId::from_bytes([7; 16]);
    assert!(matches!(rig.single(none, plain()).await, Err(NotRedriven::UnknownLetter(_))));
    rig.test.check().await;
}

#[tokio::test]
async fn where_an_analysis_is_required_a_single_letter_waits_for_it_too() {
    let rig = Rig::new().await;
    let one = rig.dies(0, None).await;
    let refused = rig.single(one, plain()).await;
    match refused {
        Err(NotRedriven::Shut(shut)) => {
            assert_eq!((shut[0].incident, shut[0].shut), (rig.incident().await, Shut::RcaRequired));
        }
        other => panic!("{other:?}"),
    }
    assert!(rig.test.store.redrives_of(one).await.unwrap().is_empty(), "a refused retry is no redrive");
    let reason = Some("the customer waits at the counter".to_owned());
    let request = SingleRequest { break_glass: reason, glass: Glass::InReach, ..plain() };
    assert_eq!(rig.single(one, request).await.unwrap().state, RunState::Done);
    let two = rig.dies(1, None).await;
    rig.fixed().await;
    assert_eq!(rig.single(two, plain()).await.unwrap().state, RunState::Done);
    assert_eq!(rig.incident_state().await, IncidentState::Closed);
    rig.test.check().await;
}

#[tokio::test]
async fn an_edit_is_sent_in_place_of_the_original_which_stays() {
    let rig = free().await;
    let one = rig.dies(0, None).await;
    let edit = Edited {
        body: Some(br#"{"n":7,"price":1}"#.to_vec()),
        headers: vec![("X-Fixed-By".into(), Some("anna".into()))],
        ..Edited::default()
    };
    let request = SingleRequest { edit: Some(edit), reason: Some("a price".into()), ..plain() };
    let done = rig.single(one, request).await.unwrap();
    assert_eq!((done.state, done.edit), (RunState::Done, Some(1)));
    let got = rig.to.got.lock().unwrap().clone();
    assert_eq!(got.len(), 1, "exactly one version was sent");
    assert_eq!(got[0].body, r#"{"n":7,"price":1}"#);
    assert_eq!(got[0].headers, [("X-Fixed-By".to_owned(), "anna".into())]);
    assert_eq!(got[0].content_type, "application/json");
    let original = lazaret_store::Store::original(rig.test.store.as_ref(), one, None).await.unwrap().unwrap();
    assert!(original.envelope.body().starts_with(br#"{"n":0"#), "{:?}", original.envelope);
    let edits = rig.test.store.edits(one).await.unwrap();
    assert_eq!((edits.len(), edits[0].number, edits[0].author.as_str()), (1, 1, "anna"));
    let two = rig.dies(1, None).await;
    let nowhere = Edited { destination: Some("nowhere".into()), ..Edited::default() };
    let refused = rig.single(two, SingleRequest { edit: Some(nowhere), ..plain() }).await;
    assert!(matches!(refused, Err(NotRedriven::NoWayBack(_))), "{refused:?}");
    assert!(rig.test.store.edits(two).await.unwrap().is_empty(), "what is refused is not kept");
    rig.test.check().await;
}

#[tokio::test]
async fn a_letter_without_a_destination_has_no_way_back() {
    let rig = free().await;
    let one = rig.dies(0, None).await;
    let refused = redrive::single(&rig.test.app, one, plain()).await;
    match refused {
        Err(NotRedriven::NoWayBack(why)) => assert!(why.contains("sources.report.destination"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.status(one).await, Status::Pending);
}

#[tokio::test]
async fn a_letter_that_is_refused_waits_again_and_its_next_key_is_another() {
    let rig = free().await;
    let one = rig.dies(0, None).await;
    rig.to.does(0, Does::Refuse);
    let done = rig.single(one, plain()).await.unwrap();
    assert_eq!((done.state, rig.letters(done.id).await), (RunState::Done, vec![("failed", 1)]));
    let letter = rig.letter(one).await;
    assert_eq!((letter.status, letter.life), (Status::Pending, 1), "the same life");
    rig.to.does(0, Does::Deliver);
    rig.single(one, plain()).await.unwrap();
    assert_eq!(rig.to.keys(), [format!("{one}:1:1"), format!("{one}:1:2")]);
    let history = lazaret_store::Store::history(rig.test.store.as_ref(), one).await.unwrap().unwrap();
    assert!(history.attempts.iter().any(|it| it.attempt.error.message.contains("422")), "{history:?}");
    rig.test.check().await;
}

#[tokio::test]
async fn receipts_resolve_or_relapse_and_those_of_earlier_lives_change_nothing() {
    let rig = free().await;
    let (one, two) = (rig.dies(0, None).await, rig.dies(1, None).await);
    rig.to.always(Does::Take);
    let id = rig.launched(at_once()).await;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("sent", 2)]);
    let got = rig.to.got.lock().unwrap().clone();
    let sent = |letter: LetterId| got.iter().find(|it| it.letter == letter).unwrap();
    let receive = |given: ReceiptGiven| redrive::receive(&rig.app, given);
    assert_eq!(receive(receipt(sent(one), ReceiptOutcome::Succeeded)).await.unwrap(), Received::Resolved);
    assert_eq!(receive(receipt(sent(one), ReceiptOutcome::Succeeded)).await.unwrap(), Received::Late);
    rig.test.pass(1_000);
    assert_eq!(receive(receipt(sent(two), failed())).await.unwrap(), Received::Relapsed);
    let relapsed = rig.letter(two).await;
    assert_eq!((relapsed.status, relapsed.life), (Status::Pending, 2));
    assert_eq!(receive(receipt(sent(two), failed())).await.unwrap(), Received::Late, "it comes twice");
    assert_eq!(receive(receipt(sent(two), ReceiptOutcome::Succeeded)).await.unwrap(), Received::Late);
    assert_eq!(rig.letter(two).await.life, 2);
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("succeeded", 1), ("relapsed", 1)]);
    let stranger = ReceiptGiven { letter: LetterId::from_bytes([7; 16]), ..receipt(sent(one), failed()) };
    assert_eq!(receive(stranger).await.unwrap(), Received::Unknown);
    // It says too late that it failed after all.
    assert_eq!(receive(receipt(sent(one), failed())).await.unwrap(), Received::Relapsed);
    assert_eq!(rig.letter(one).await.life, 2);
    rig.test.check().await;
}

#[tokio::test]
async fn a_receipt_resolves_a_letter_that_a_person_took_back() {
    let rig = free().await;
    let one = rig.dies(0, None).await;
    rig.to.always(Does::Lose);
    let id = rig.launched(at_once()).await;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("unknown", 1)]);
    let now = rig.app.clock.now();
    let unclaimed = rig.test.store.settle_unknown(id, one, ByPerson::Unclaim, anna(), now).await.unwrap();
    assert!(unclaimed && rig.status(one).await == Status::Pending);
    let got = rig.to.got.lock().unwrap()[0].clone();
    let received = redrive::receive(&rig.app, receipt(&got, ReceiptOutcome::Succeeded)).await.unwrap();
    assert_eq!(received, Received::Resolved);
    let letter = rig.letter(one).await;
    assert_eq!((letter.status, letter.resolution.unwrap().by.as_str()), (Status::Resolved, "source:report"));
    rig.test.check().await;
}

#[tokio::test]
async fn a_letter_that_is_edited_and_sent_anew_has_another_key() {
    let rig = free().await;
    let one = rig.dies(0, None).await;
    rig.single(one, plain()).await.unwrap();
    assert_eq!(rig.status(one).await, Status::Resolved);
    let reopened = rig.test.post(&format!("/api/v1/dead-letters/{one}/reopen"), &serde_json::json!({})).await;
    reopened.expect(200);
    let edit = Edited { body: Some(br#"{"n":0,"price":1}"#.to_vec()), ..Edited::default() };
    rig.single(one, SingleRequest { edit: Some(edit), ..plain() }).await.unwrap();
    assert_eq!(rig.to.keys(), [format!("{one}:1:1"), format!("{one}:1:2")]);
    rig.test.check().await;
}

#[tokio::test]
async fn a_report_with_the_mark_of_a_redrive_that_did_not_send_it_is_no_relapse() {
    let rig = free().await;
    let one = rig.dies(0, None).await;
    let forged = |life: u32| {
        serde_json::json!({"eventId": "e0", "originalEvent": {"n": 0, "pattern": "order.created"},
            "redrive": {"letterId": one.to_string(), "life": life,
                "redriveId": lazaret_core::id::RedriveId::from_bytes([9; 16]).to_string()},
            "error": {"type": "PriceError", "message": "no price"}})
    };
    for life in 1..4 {
        rig.test.report(&forged(life)).await;
        rig.test.pass(1_000);
    }
    let letter = rig.letter(one).await;
    assert_eq!((letter.status, letter.life), (Status::Pending, 1));
    rig.test.check().await;
}

#[tokio::test]
async fn a_receipt_of_a_letter_whose_names_were_cut_is_of_that_letter() {
    let rig = free().await;
    let entry = serde_json::json!({"eventId": "e".repeat(2_000), "originalEvent": {"n": 0},
        "error": {"type": "PriceError", "message": "no price"}});
    let one = LetterId::parse(&rig.test.report(&entry).await).unwrap();
    rig.to.always(Does::Take);
    rig.launched(at_once()).await;
    rig.tick().await;
    let sent = rig.to.got.lock().unwrap().first().cloned().unwrap();
    rig.test.pass(1_000);
    let received = redrive::receive(&rig.app, receipt(&sent, failed())).await.unwrap();
    assert_eq!(received, Received::Relapsed);
    assert_eq!(rig.letter(one).await.life, 2, "and no other letter was made");
    assert_eq!(rig.test.get("/api/v1/dead-letters").await.expect(200)["total"], 1);
    rig.test.check().await;
}

#[tokio::test]
async fn a_letter_of_which_nobody_knows_waits_for_a_person() {
    let rig = free().await;
    let (one, two) = (rig.dies(0, Some("o-1")).await, rig.dies(1, Some("o-1")).await);
    let three = rig.dies(2, None).await;
    rig.to.does(0, Does::Lose);
    let id = rig.launched(at_once()).await;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("unknown", 1), ("succeeded", 1), ("lane_blocked", 1)]);
    assert_eq!(rig.state(id).await.0, RunState::Done, "what nobody knows holds up its key, not the run");
    assert_eq!(rig.status(one).await, Status::Reprocessing, "unknown is never shown as success");
    assert_eq!(rig.to.numbers().iter().filter(|n| **n == 0).count(), 1, "and not sent again by itself");
    let settle = |letter, word| redrive::settle(&rig.app, id, letter, word, anna());
    let known = settle(three, ByPerson::Sent).await;
    assert!(matches!(known, Err(NotRedriven::NotUnknown(_))), "{known:?}");
    rig.to.does(0, Does::Deliver);
    settle(one, ByPerson::Unclaim).await.unwrap();
    assert_eq!(rig.status(one).await, Status::Pending);
    let id = rig.launched(at_once()).await;
    rig.tick().await;
    assert_eq!(rig.letters(id).await, [("succeeded", 2)]);
    assert_eq!(rig.to.numbers().into_iter().filter(|n| *n < 2).collect::<Vec<_>>(), [0, 0, 1]);
    let keys = rig.to.keys().into_iter().filter(|key| key.starts_with(&one.to_string()));
    assert_eq!(keys.collect::<Vec<_>>(), [format!("{one}:1:1"), format!("{one}:1:2")]);
    assert_eq!(rig.status(two).await, Status::Resolved);
    rig.test.check().await;
}
