//! Cases: entries of the audit log are linked once, in order, and say what they are about.

use lazaret_store::audit::{Act, AuditQuery};
use lazaret_store::decision::Verb;

use crate::rig::{Rig, ana, at};

pub async fn entries_are_linked_once_and_in_order(rig: &mut Rig) {
    assert_eq!(rig.store().unlinked_audit(10).await.unwrap(), (None, Vec::new()));
    for letter in rig.create_many(4, at(0)).await {
        rig.done(letter, Verb::Resolve, at(10)).await;
    }
    let (before, first) = rig.store().unlinked_audit(2).await.unwrap();
    assert_eq!((before, first.len()), (None, 2));
    let links: Vec<_> = first.iter().zip(1_u8..).map(|(entry, n)| (entry.position, [n; 32])).collect();
    let gap = vec![(first[1].position, [9; 32])];
    assert!(!rig.store().link_audit(gap).await.unwrap(), "no entry is passed over");
    assert!(rig.store().link_audit(links.clone()).await.unwrap());
    assert!(!rig.store().link_audit(links).await.unwrap(), "another instance was first");
    let (before, rest) = rig.store().unlinked_audit(10).await.unwrap();
    assert_eq!((before, rest.len()), (Some([2; 32]), 2));
    let found = rig.store().audit_links(first[0].position, 2).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|(entry, link)| (entry.position, link)).collect();
    assert_eq!(found, [(first[1].position, Some([2; 32])), (rest[0].position, None)]);
    let last = rest.iter().map(|entry| (entry.position, [3; 32])).collect();
    assert!(rig.store().link_audit(last).await.unwrap());
    let (before, none) = rig.store().unlinked_audit(10).await.unwrap();
    assert_eq!((before, none.len()), (Some([3; 32]), 0));
}

pub async fn a_look_is_on_record_and_moves_nothing(rig: &mut Rig) {
    let letter = rig.create_many(1, at(0)).await[0];
    let before = rig.letter(letter).await;
    let events = rig.store().events(0, 10).await.unwrap().len();
    let reveal = Act::Reveal { letter, reason: "ticket 7: what was sent".into() };
    rig.store().note_act(reveal, ana(), at(10)).await.unwrap();
    let export = Act::Export { filter: "queue:billing".into() };
    rig.store().note_act(export, ana(), at(20)).await.unwrap();
    let log = rig.store().audit(AuditQuery::newest(10)).await.unwrap();
    let [exported, revealed] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!(
        (revealed.action.as_str(), revealed.letter, revealed.at),
        ("letter.revealed", Some(letter), at(10))
    );
    assert_eq!((&revealed.actor, revealed.count), (&ana(), 1));
    assert_eq!(
        (revealed.reason.as_deref(), revealed.filter.as_deref()),
        (Some("ticket 7: what was sent"), None)
    );
    assert_eq!((exported.action.as_str(), exported.letter, exported.at), ("letters.exported", None, at(20)));
    assert_eq!((exported.reason.as_deref(), exported.filter.as_deref()), (None, Some("queue:billing")));
    assert_eq!(rig.letter(letter).await, before);
    assert_eq!(rig.store().events(0, 10).await.unwrap().len(), events);
    let told = rig.history(letter).await.decisions;
    assert_eq!(told.iter().map(|one| one.action.as_str()).collect::<Vec<_>>(), ["letter.revealed"]);
}
