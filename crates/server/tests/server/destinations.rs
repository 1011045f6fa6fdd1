//! What every destination keeps to, run against one in memory and against HTTP with a real receiver.

mod http;
mod receiver;
mod rigs;
mod scripted;

use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::time::Time;
use lazaret_server::destination::{Content, Destination, Outgoing, Sent, outcome};
use lazaret_store::redrive::SendOutcome;

use rigs::{HttpRig, Received, Rig, ScriptedRig};

/// A letter to send.
fn letter(body: impl Into<Bytes>) -> Outgoing {
    let at = Time::parse(super::rig::START).unwrap();
    Outgoing {
        letter: LetterId::mint(at, [1; 10]),
        life: 2,
        redrive: RedriveId::mint(at, [2; 10]),
        message_id: "e-1".to_owned(),
        idempotency_key: "the-letter:2:1".to_owned(),
        content_type: "application/json".to_owned(),
        headers: vec![("x-tenant".to_owned(), "acme".into())],
        body: body.into(),
        content: Content::Original,
        origin: None,
        handle: None,
    }
}

/// Bytes of every value, none of them text.
fn binary(length: usize) -> Bytes {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<u8>>().into()
}

#[track_caller]
fn is_refused(sent: &Sent) {
    assert!(matches!(sent, Sent::Refused(_)), "{sent:?}");
}

#[track_caller]
fn is_unknown(sent: &Sent) {
    assert!(matches!(sent, Sent::Unknown(why) if !why.is_empty()), "{sent:?}");
}

async fn what_is_accepted_is_delivered_as_it_was(rig: &dyn Rig) {
    let outgoing = letter("{\"orderId\": 4711}");
    assert_eq!(
        rig.destination().send(&outgoing).await,
        Sent::Delivered { evidence: "delivered", handle: None }
    );
    let [received] = rig.received().try_into().unwrap();
    let expected = Received {
        letter: outgoing.letter.to_string(),
        life: "2".to_owned(),
        redrive: outgoing.redrive.to_string(),
        idempotency_key: outgoing.idempotency_key.clone(),
        content_type: outgoing.content_type.clone(),
        body: outgoing.body.to_vec(),
    };
    assert_eq!(received, expected);
}

async fn big_and_binary_bodies_arrive_exactly(rig: &dyn Rig) {
    for body in [Bytes::new(), binary(1), binary(70_000), binary(4 * 1024 * 1024)] {
        let sent = rig.destination().send(&letter(body.clone())).await;
        assert_eq!(sent, Sent::Delivered { evidence: "delivered", handle: None });
        assert!(rig.received().pop().unwrap().body == body, "{} bytes differ", body.len());
    }
}

async fn what_is_refused_is_definite_and_an_attempt(rig: &dyn Rig) {
    rig.refuse();
    let sent = rig.destination().send(&letter("x")).await;
    is_refused(&sent);
    assert_eq!(rig.received().len(), 1, "it was sent once");
    let at = Time::from_ms(5);
    let SendOutcome::Failed { attempt, why } = outcome(sent, at, Some(7)) else { panic!("not failed") };
    assert_eq!((attempt.at, attempt.duration_ms), (Some(at), Some(7)));
    assert!(!attempt.error.error_type.is_empty() && attempt.error.message == why, "{attempt:?}");
}

async fn silence_is_unknown(rig: &dyn Rig) {
    rig.hang();
    is_unknown(&rig.destination().send(&letter("x")).await);
    assert_eq!(rig.received().len(), 1, "it was sent once");
}

async fn a_cut_is_unknown(rig: &dyn Rig) {
    rig.cut();
    is_unknown(&rig.destination().send(&letter("x")).await);
    assert_eq!(rig.received().len(), 1, "it was sent once");
}

async fn a_repetition_has_the_same_key(rig: &dyn Rig) {
    let outgoing = letter("x");
    rig.cut();
    is_unknown(&rig.destination().send(&outgoing).await);
    rig.heal();
    assert_eq!(
        rig.destination().send(&outgoing).await,
        Sent::Delivered { evidence: "delivered", handle: None }
    );
    let [first, second] = rig.received().try_into().unwrap();
    assert_eq!(first, second);
}

async fn what_was_ill_is_well_when_it_is_healed(rig: &dyn Rig) {
    for make_ill in [|rig: &dyn Rig| rig.refuse(), |rig: &dyn Rig| rig.cut()] {
        make_ill(rig);
        let sent = rig.destination().send(&letter("x")).await;
        assert!(!matches!(sent, Sent::Delivered { .. } | Sent::Taken { .. }), "{sent:?}");
        rig.heal();
        let sent = rig.destination().send(&letter("x")).await;
        assert_eq!(sent, Sent::Delivered { evidence: "delivered", handle: None });
    }
}

async fn a_route_is_told_and_nothing_sent(rig: &dyn Rig) {
    let destination: Arc<dyn Destination> = rig.destination();
    let route = destination.route(&letter("x")).await.unwrap();
    assert_eq!(route.address, destination.address());
    assert!(!route.address.is_empty());
    assert_eq!(rig.received(), []);
}

/// Each case once for each kind of destination.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&super::ScriptedRig::new()).await;
            })*
        }

        mod over_http {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&super::HttpRig::new().await).await;
            })*
        }
    };
}

cases!(
    what_is_accepted_is_delivered_as_it_was,
    big_and_binary_bodies_arrive_exactly,
    what_is_refused_is_definite_and_an_attempt,
    silence_is_unknown,
    a_cut_is_unknown,
    a_repetition_has_the_same_key,
    what_was_ill_is_well_when_it_is_healed,
    a_route_is_told_and_nothing_sent,
);
