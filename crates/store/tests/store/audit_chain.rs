//! Cases: entries of the audit log are linked once, in order, and say what they are about.

use lazaret_store::decision::Verb;

use crate::rig::{Rig, at};

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
