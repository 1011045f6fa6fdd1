//! Incidents: what opens and closes them, what they add up to, and how they are listed.

use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::letter::Captured;
use lazaret_core::lifecycle::Status;
use lazaret_core::pattern::Pattern;
use lazaret_store::decision::Verb;
use lazaret_store::incident::{Incident, IncidentDetail, IncidentPage, IncidentQuery, IncidentSort};

use crate::analyses::{diagnosis, fix, step};
use crate::rig::{Rig, at, captured};

/// A letter of its own cause.
fn cause(event: &str, name: &str) -> Captured {
    let mut letter = captured(event);
    letter.letter_type = format!("{name}.created");
    letter.error.error_type = format!("{name}Error");
    letter
}

async fn page(rig: &Rig, query: IncidentQuery) -> IncidentPage {
    rig.store().incidents(query).await.unwrap()
}

fn all() -> IncidentQuery {
    IncidentQuery { limit: 100, ..IncidentQuery::default() }
}

async fn detail(rig: &Rig, id: IncidentId) -> IncidentDetail {
    rig.store().incident(id).await.unwrap().expect("the incident exists")
}

async fn incident(rig: &Rig, id: IncidentId) -> Incident {
    detail(rig, id).await.incident
}

pub async fn letters_of_one_cause_are_one_incident(rig: &mut Rig) {
    for n in 0..5 {
        rig.create(cause(&format!("a{n}"), "Order"), at(n * 10)).await;
    }
    let other = rig.create(cause("b", "Mail"), at(100)).await;
    let found = page(rig, all()).await;
    assert_eq!((found.total, found.incidents.len(), found.next), (2, 2, None));
    let (mail, order) = (&found.incidents[0], &found.incidents[1]);
    assert_eq!(mail.id, rig.letter(other).await.incident);
    assert_eq!((order.letters, order.by_status[Status::Pending.name()]), (5, 5));
    assert_eq!((order.first_seen_at, order.last_seen_at), (at(0), at(40)));
    assert_eq!((order.letter_type.as_str(), order.error_type.as_str()), ("Order.created", "OrderError"));
    assert_eq!(order.state, IncidentState::Open);
    assert!(order.title.contains("OrderError"), "{}", order.title);
    assert!(order.fingerprint.as_str().starts_with("v2:"));
}

pub async fn an_incident_closes_with_its_last_letter_and_opens_again(rig: &mut Rig) {
    let one = rig.create(cause("a", "Order"), at(0)).await;
    let two = rig.create(cause("b", "Order"), at(1)).await;
    let id = rig.letter(one).await.incident;
    rig.done(one, Verb::Resolve, at(10)).await;
    assert_eq!(incident(rig, id).await.state, IncidentState::Open);
    rig.done(two, Verb::Discard, at(20)).await;
    let closed = incident(rig, id).await;
    assert_eq!((closed.state, closed.letters), (IncidentState::Closed, 2));
    rig.done(one, Verb::Reopen, at(30)).await;
    assert_eq!(incident(rig, id).await.state, IncidentState::Open);
    rig.done(one, Verb::Resolve, at(40)).await;
    let again = rig.create(cause("c", "Order"), at(50)).await;
    assert_eq!(rig.letter(again).await.incident, id, "the same cause is the same incident");
    let open = incident(rig, id).await;
    assert_eq!((open.state, open.letters, open.last_seen_at), (IncidentState::Open, 3, at(50)));
    let told: Vec<String> =
        rig.told().await.into_iter().filter(|kind| kind.starts_with("incident.")).collect();
    let (opened, closed) = ("incident.opened", "incident.closed");
    assert_eq!(told, [opened, closed, opened, closed, opened]);
}

pub async fn incidents_are_listed_in_every_order_page_by_page(rig: &mut Rig) {
    for n in 0..7_i64 {
        for letter in 0..=n {
            // The more letters, the earlier the last one came.
            let event = format!("{n}-{letter}");
            rig.create(cause(&event, &format!("C{n}")), at(1_000 + n - 100 * n * letter.min(1))).await;
        }
    }
    for sort in IncidentSort::ALL {
        let whole = page(rig, IncidentQuery { sort, ..all() }).await;
        assert_eq!(whole.total, 7);
        let key = |incident: &Incident| match sort {
            IncidentSort::LastSeenDesc => incident.last_seen_at.ms(),
            IncidentSort::FirstSeenDesc => incident.first_seen_at.ms(),
            IncidentSort::LettersDesc | IncidentSort::UnsettledDesc => incident.letters as i64,
        };
        assert!(whole.incidents.is_sorted_by(|one, next| key(one) >= key(next)), "{sort:?}");
        let (mut walked, mut after) = (Vec::new(), None);
        loop {
            let part = page(rig, IncidentQuery { sort, limit: 3, after, ..all() }).await;
            walked.extend(part.incidents);
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(walked, whole.incidents, "{sort:?}");
    }
}

pub async fn incidents_are_found_by_what_they_are(rig: &mut Rig) {
    let order = rig.create(cause("a", "Order"), at(0)).await;
    let mail = rig.create(cause("b", "Mail"), at(5_000)).await;
    rig.done(mail, Verb::Resolve, at(6_000)).await;
    let (order, mail) = (rig.letter(order).await.incident, rig.letter(mail).await.incident);
    let pattern = |text: &str| Some(Pattern::new(text));
    for (query, expected) in [
        (IncidentQuery { states: vec![IncidentState::Open], ..all() }, vec![order]),
        (
            IncidentQuery { states: vec![IncidentState::Closed, IncidentState::Open], ..all() },
            vec![mail, order],
        ),
        (IncidentQuery { letter_type: pattern("Order.*"), ..all() }, vec![order]),
        (IncidentQuery { error_type: pattern("MailError"), ..all() }, vec![mail]),
        (IncidentQuery { error_type: pattern("Mail?rror"), ..all() }, vec![]),
        (IncidentQuery { text: Some("ORDERERR".into()), ..all() }, vec![order]),
        (IncidentQuery { text: Some("100%".into()), ..all() }, vec![]),
        (IncidentQuery { since: Some(at(1_000)), ..all() }, vec![mail]),
    ] {
        let found = page(rig, query.clone()).await;
        let ids: Vec<IncidentId> = found.incidents.iter().map(|incident| incident.id).collect();
        assert_eq!((ids, found.total), (expected.clone(), expected.len() as u64), "{query:?}");
    }
}

pub async fn an_incident_says_whom_it_hits(rig: &mut Rig) {
    for n in 0..30_usize {
        let mut letter = cause(&format!("e{n}"), "Order");
        letter.queue = format!("q{}", n % 3);
        letter.aggregate = Some(format!("order-{n:02}"));
        letter.tenant = (n % 2 == 0).then(|| "acme".into());
        rig.create(letter, at(n as i64)).await;
    }
    let id = page(rig, all()).await.incidents[0].id;
    let affected = detail(rig, id).await.affected;
    assert_eq!(affected.over, 30);
    assert_eq!(affected.queues, [("q0".into(), 10), ("q1".into(), 10), ("q2".into(), 10)]);
    assert_eq!(affected.tenants, [("acme".into(), 15)]);
    assert_eq!(affected.types, [("Order.created".into(), 30)]);
    assert_eq!(affected.aggregates.len(), 10, "the list is bounded");
    assert_eq!(affected.aggregates[0], ("order-00".into(), 1));
}

pub async fn what_looks_alike_is_named(rig: &mut Rig) {
    let mut one = cause("a", "Order");
    one.error.message = "card gateway refused the charge".into();
    let mut two = one.clone();
    (two.message_id, two.letter_type) = ("b".into(), "refund.created".into());
    let mut far = cause("c", "Mail");
    far.error.message = "no such mailbox".into();
    let one = rig.create(one, at(0)).await;
    let two = rig.create(two, at(1)).await;
    rig.create(far, at(2)).await;
    let (one, two) = (rig.letter(one).await.incident, rig.letter(two).await.incident);
    assert_ne!(one, two);
    let similar = detail(rig, one).await.similar;
    assert_eq!(similar.iter().map(|alike| alike.incident.id).collect::<Vec<_>>(), [two]);
    assert!((0.5..=1.0).contains(&similar[0].likeness));
    assert_eq!((&similar[0].rca, &similar[0].fix), (&None, &None));
    step(rig, two, diagnosis(), 10).await;
    step(rig, two, fix(15), 30).await;
    let known = detail(rig, one).await.similar.remove(0);
    assert_eq!(known.rca.unwrap().analysis.root_cause, "a field was renamed");
    assert_eq!(known.fix.unwrap().reference, "PR 7");
    assert!(rig.store().incident(IncidentId::from_bytes([9; 16])).await.unwrap().is_none());
}

pub async fn a_discarded_letter_that_dies_of_something_else_opens_no_incident(rig: &mut Rig) {
    let id = rig.create(cause("a", "Order"), at(0)).await;
    rig.done(id, Verb::Discard, at(10)).await;
    let mut again = cause("a", "Order");
    again.error.message = "something else entirely".into();
    again.died_at = Some(at(500));
    rig.capture(again, at(600)).await;
    let found = page(rig, all()).await;
    assert_eq!((found.total, found.incidents[0].letters), (1, 1));
}
