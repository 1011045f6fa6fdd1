//! The cases. None of them knows which kind of source it is about.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::{Message, Rig};
use crate::destination::{Content, Destination, Outgoing, Sent, SentCopy, Silence, Verified};
use crate::{Arrival, Level, Source};

/// How long something that has to happen may take on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// More than one batch of any source.
const MANY: usize = 450;

/// Asks until so many arrived, each once.
async fn arrivals(source: &dyn Source, count: usize) -> Vec<Arrival> {
    let until = Instant::now() + WAIT_MAX;
    let (mut all, mut ids) = (Vec::new(), BTreeSet::new());
    while all.len() < count {
        assert!(Instant::now() < until, "{} of {count} arrived", all.len());
        for arrival in source.next().await.expect("the source can be reached") {
            if ids.insert(arrival.captured.message_id.clone()) {
                all.push(arrival);
            }
        }
    }
    all
}

async fn acknowledge(source: &dyn Source, arrivals: &[Arrival]) {
    let receipts: Vec<_> = arrivals.iter().map(|arrival| arrival.receipt.clone()).collect();
    source.ack(&receipts).await.expect("an acknowledgement is taken");
}

/// A letter on its way back to a message.
pub fn outgoing(message_id: &str, body: impl Into<Bytes>, content: Content) -> Outgoing {
    let at = Time::from_ms(1_763_175_600_000);
    Outgoing {
        letter: LetterId::mint(at, [1; 10]),
        life: 1,
        redrive: RedriveId::mint(at, [2; 10]),
        message_id: message_id.to_owned(),
        idempotency_key: "the-letter:1:1".to_owned(),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: body.into(),
        content,
        origin: None,
    }
}

/// A letter on its way back to where the rig's messages came from.
fn routed(rig: &impl Rig, message_id: &str, body: impl Into<Bytes>, content: Content) -> Outgoing {
    Outgoing { origin: rig.origin(&Message::numbered(1)), ..outgoing(message_id, body, content) }
}

/// Looks up one letter that was sent.
pub async fn verify(destination: &dyn Destination, sent: &Outgoing, handle: Option<String>) -> Verified {
    let copy = SentCopy {
        letter: sent.letter,
        life: sent.life,
        redrive: sent.redrive,
        message_id: sent.message_id.clone(),
        idempotency_key: sent.idempotency_key.clone(),
        handle,
        sent_at: None,
    };
    destination.verify(&[copy]).await.pop().expect("one answer for one letter")
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).expect("the bodies of messages are JSON")
}

pub async fn a_dead_message_is_handed_over_whole(rig: &impl Rig) {
    let message = Message::numbered(7);
    let id = rig.put_dead(&message).await;
    let source = rig.source();
    let arrivals = arrivals(source.as_ref(), 1).await;
    let captured = &arrivals[0].captured;
    assert_eq!((&captured.message_id, &captured.source), (&id, &source.name().to_owned()));
    assert_eq!(captured.letter_type, message.event_type);
    assert_eq!(captured.aggregate.as_deref(), Some(message.aggregate.as_str()));
    assert_eq!(json(captured.envelope.body()), json(message.body.as_bytes()));
    assert_eq!(captured.envelope.content_type(), "application/json");
    assert_eq!(captured.retry_count, message.retry_count);
    let error = &captured.error;
    assert_eq!(format!("{}: {}", error.error_type, error.message).trim_start_matches(": "), message.error);
    assert!(source.state().connected);
}

pub async fn what_is_not_acknowledged_comes_again_to_the_next_process(rig: &impl Rig) {
    let ids = [rig.put_dead(&Message::numbered(1)).await, rig.put_dead(&Message::numbered(2)).await];
    let first = arrivals(rig.source().as_ref(), 2).await;
    let again = arrivals(rig.source().as_ref(), 2).await;
    let told = |arrivals: &[Arrival]| -> BTreeSet<String> {
        arrivals.iter().map(|arrival| arrival.captured.message_id.clone()).collect()
    };
    assert_eq!(told(&first), BTreeSet::from(ids));
    assert_eq!(told(&first), told(&again));
}

pub async fn what_is_acknowledged_does_not_come_again(rig: &impl Rig) {
    let source = rig.source();
    rig.put_dead(&Message::numbered(1)).await;
    let first = arrivals(source.as_ref(), 1).await;
    acknowledge(source.as_ref(), &first).await;
    let second = rig.put_dead(&Message::numbered(2)).await;
    let next = arrivals(source.as_ref(), 1).await;
    assert_eq!(next[0].captured.message_id, second);
}

pub async fn what_is_released_comes_again(rig: &impl Rig) {
    let source = rig.source();
    let id = rig.put_dead(&Message::numbered(1)).await;
    let first = arrivals(source.as_ref(), 1).await;
    source.release(&[first[0].receipt.clone()]).await.expect("a release is taken");
    assert_eq!(arrivals(source.as_ref(), 1).await[0].captured.message_id, id);
}

/// A caller that cannot store anything asks again and again: it must not be given the same message in a tight loop.
pub async fn what_is_released_comes_again_only_after_a_pause(rig: &impl Rig) {
    let source = rig.source();
    rig.put_dead(&Message::numbered(1)).await;
    let mut arrived = arrivals(source.as_ref(), 1).await;
    for _ in 0..3 {
        let released_at = Instant::now();
        source.release(&[arrived[0].receipt.clone()]).await.expect("a release is taken");
        arrived = arrivals(source.as_ref(), 1).await;
        let pause = released_at.elapsed();
        assert!(pause >= Duration::from_millis(limits::SOURCE_RELEASE_MS), "{pause:?}");
    }
    // It is handed over and acknowledged as any other.
    acknowledge(source.as_ref(), &arrived).await;
}

pub async fn each_of_many_is_handed_over(rig: &impl Rig) {
    let mut put = BTreeSet::new();
    for number in 0..MANY {
        put.insert(rig.put_dead(&Message::numbered(number)).await);
    }
    let source = rig.source();
    let (until, mut got) = (Instant::now() + WAIT_MAX, BTreeSet::new());
    while got.len() < MANY {
        assert!(Instant::now() < until, "{} of {MANY} arrived", got.len());
        let arrivals = source.next().await.expect("the source can be reached");
        acknowledge(source.as_ref(), &arrivals).await;
        for arrival in arrivals {
            assert!(got.insert(arrival.captured.message_id), "acknowledged and handed over again");
        }
    }
    assert_eq!(got, put);
}

pub async fn what_dies_while_somebody_waits_is_handed_over(rig: &impl Rig) {
    let source = rig.source();
    // The first look finds nothing and waits.
    assert_eq!(source.next().await.expect("the source can be reached"), Vec::new());
    let message = Message::numbered(1);
    let (waited, id) = tokio::join!(arrivals(source.as_ref(), 1), rig.put_dead(&message));
    assert_eq!(waited[0].captured.message_id, id);
}

pub async fn a_cut_is_told_and_nothing_is_lost_by_it(rig: &impl Rig) {
    let source = rig.source();
    let first = rig.put_dead(&Message::numbered(1)).await;
    let second = rig.put_dead(&Message::numbered(2)).await;
    let before = arrivals(source.as_ref(), 2).await;
    let stored: Vec<Arrival> =
        before.iter().filter(|arrival| arrival.captured.message_id == first).cloned().collect();
    acknowledge(source.as_ref(), &stored).await;
    rig.cut().await;
    let until = Instant::now() + WAIT_MAX;
    let error = loop {
        assert!(Instant::now() < until, "the cut is not noticed");
        if let Err(error) = source.next().await {
            break error;
        }
    };
    assert!(error.passes(), "{error}");
    let state = source.state();
    assert!(!state.connected && state.since.is_some() && state.last_error.is_some(), "{state:?}");
    rig.heal().await;
    let until = Instant::now() + WAIT_MAX;
    let mut got = BTreeSet::new();
    let third = rig.put_dead(&Message::numbered(3)).await;
    while !(got.contains(&second) && got.contains(&third)) {
        assert!(Instant::now() < until, "what was not acknowledged does not come again: {got:?}");
        if let Ok(arrivals) = source.next().await {
            got.extend(arrivals.into_iter().map(|arrival| arrival.captured.message_id));
        }
    }
    assert!(source.state().connected);
}

pub async fn stopping_in_the_middle_loses_nothing(rig: &impl Rig) {
    let source = rig.source();
    let id = rig.put_dead(&Message::numbered(1)).await;
    // Stopped at ever later moments, from before the connection until it was handed over.
    let (until, mut patience) = (Instant::now() + WAIT_MAX, Duration::from_micros(100));
    loop {
        assert!(Instant::now() < until, "nothing is handed over");
        if let Ok(arrivals) = tokio::time::timeout(patience, source.next()).await {
            let arrivals = arrivals.expect("the source can be reached");
            assert_eq!(arrivals.first().map(|arrival| arrival.captured.message_id.clone()), Some(id));
            return;
        }
        patience *= 2;
    }
}

pub async fn a_letter_goes_back_and_is_verified(rig: &impl Rig) {
    let message = Message::numbered(1);
    let id = rig.put_dead(&message).await;
    let source = rig.source();
    let captured = arrivals(source.as_ref(), 1).await;
    acknowledge(source.as_ref(), &captured).await;
    let destination = rig.destination();
    let letter = routed(rig, &id, captured[0].captured.envelope.body().clone(), Content::Original);
    assert!(destination.route(&letter).await.is_ok());
    let sent = destination.send(&letter).await;
    assert!(matches!(sent, Sent::Taken { .. } | Sent::Delivered { .. }), "{sent:?}");
    let handle = match &sent {
        Sent::Taken { handle } | Sent::Delivered { handle, .. } => handle.clone(),
        _ => None,
    };
    if matches!(sent, Sent::Taken { .. }) {
        let before = verify(destination.as_ref(), &letter, handle.clone()).await;
        assert!(matches!(before, Verified::NotYet | Verified::Taken(_)), "{before:?}");
    }
    let taken = rig.take().await;
    assert_eq!(taken.len(), 1);
    assert_eq!((&taken[0].message_id, json(&taken[0].body)), (&id, json(message.body.as_bytes())));
    let after = verify(destination.as_ref(), &letter, handle.clone()).await;
    let is_told = matches!(after, Verified::Succeeded { .. } | Verified::Taken(Silence::Succeeds { .. }));
    assert!(is_told || matches!(sent, Sent::Delivered { .. }), "{after:?}");
}

/// Holds for destinations that deduplicate, and for those only within their window: a broker that knows repetitions by an id
/// forgets the id after a while. A destination without it takes both, and what is unknown is not sent again there.
pub async fn a_letter_that_is_sent_twice_is_taken_once(rig: &impl Rig) {
    let id = rig.put_dead(&Message::numbered(1)).await;
    let destination = rig.destination();
    let letter = routed(rig, &id, Message::numbered(1).body, Content::Original);
    // A broker's window is known once somebody has asked for the way.
    assert!(destination.route(&letter).await.is_ok());
    if !destination.deduplicates() {
        return;
    }
    for _ in 0..2 {
        let sent = destination.send(&letter).await;
        assert!(matches!(sent, Sent::Taken { .. } | Sent::Delivered { .. }), "{sent:?}");
    }
    assert_eq!(rig.take().await.len(), 1);
    let sent = destination.send(&letter).await;
    assert!(matches!(sent, Sent::Taken { .. } | Sent::Delivered { .. }), "{sent:?}");
    assert_eq!(rig.take().await.len(), 0);
}

pub async fn an_edited_letter_goes_back_as_edited(rig: &impl Rig) {
    let id = rig.put_dead(&Message::numbered(1)).await;
    let edited = "{\"number\": 1, \"currency\": \"EUR\"}";
    let sent = rig.destination().send(&routed(rig, &id, edited, Content::Edited)).await;
    assert!(matches!(sent, Sent::Taken { .. } | Sent::Delivered { .. }), "{sent:?}");
    let taken = rig.take().await;
    assert_eq!(taken.len(), 1);
    assert_eq!((&taken[0].message_id, json(&taken[0].body)), (&id, json(edited.as_bytes())));
}

pub async fn a_check_tells_what_is_wrong(rig: &impl Rig) {
    let source = rig.source();
    let findings = source.check().await;
    assert!(findings.iter().all(|finding| finding.level == Level::Ok), "{findings:#?}");
    assert!(findings.len() > 1, "{findings:#?}");
    rig.cut().await;
    let findings = source.check().await;
    assert!(findings.iter().any(|finding| finding.level == Level::Error), "{findings:#?}");
    let wrong = findings.iter().filter(|finding| finding.level != Level::Ok);
    assert!(wrong.into_iter().all(|finding| finding.hint.is_some()), "{findings:#?}");
    rig.heal().await;
}
