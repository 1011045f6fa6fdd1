//! Links and key files by themselves; the chain on a store is tested through the server.

use std::os::unix::fs::PermissionsExt;

use lazaret_core::id::{IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::time::Time;
use lazaret_store::audit::Actor;

use super::*;

fn entry() -> AuditEntry {
    AuditEntry {
        position: 7,
        id: AuditId::from_bytes([1; 16]),
        at: Time::from_ms(1_763_175_600_123),
        actor: Actor { name: "anna".into(), role: "operator".into(), request: Some("r".into()) },
        action: "discard".into(),
        letter: Some(LetterId::from_bytes([2; 16])),
        operation: Some(OperationId::from_bytes([3; 16])),
        filter: Some("queue:billing".into()),
        count: 12,
        reason: Some("poison".into()),
        incident: Some(IncidentId::from_bytes([4; 16])),
        redrive: Some(RedriveId::from_bytes([5; 16])),
    }
}

fn key(folder: &std::path::Path, secret: &[u8]) -> AuditKey {
    let path = folder.join("audit.key");
    std::fs::write(&path, secret).unwrap();
    AuditKey::read_from(&path).unwrap()
}

#[test]
fn every_field_makes_another_link() {
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path(), &[9; 32]);
    let whole = entry();
    let others = [
        AuditEntry { position: 8, ..whole.clone() },
        AuditEntry { id: AuditId::from_bytes([9; 16]), ..whole.clone() },
        AuditEntry { at: Time::from_ms(1), ..whole.clone() },
        AuditEntry { actor: Actor { name: "ann".into(), ..whole.actor.clone() }, ..whole.clone() },
        AuditEntry { actor: Actor { role: "admin".into(), ..whole.actor.clone() }, ..whole.clone() },
        AuditEntry { actor: Actor { request: None, ..whole.actor.clone() }, ..whole.clone() },
        AuditEntry { action: "resolve".into(), ..whole.clone() },
        AuditEntry { letter: None, ..whole.clone() },
        AuditEntry { operation: None, ..whole.clone() },
        AuditEntry { filter: None, ..whole.clone() },
        AuditEntry { filter: Some(String::new()), ..whole.clone() },
        AuditEntry { count: 13, ..whole.clone() },
        AuditEntry { reason: None, ..whole.clone() },
        AuditEntry { incident: None, ..whole.clone() },
        AuditEntry { redrive: None, ..whole.clone() },
        // The same bytes in all, on other sides of a border.
        AuditEntry {
            actor: Actor { name: "annao".into(), role: "perator".into(), request: Some("r".into()) },
            ..whole.clone()
        },
    ];
    let mut links: Vec<Link> = others.iter().map(|other| link(&key, None, other)).collect();
    links.push(link(&key, None, &whole));
    links.push(link(&key, Some(&[1; 32]), &whole));
    let made = links.len();
    links.sort_unstable();
    links.dedup();
    assert_eq!(links.len(), made);
    assert_eq!(link(&key, None, &whole), link(&key, Some(&[0; 32]), &entry()));
}

#[test]
fn a_key_is_made_once_for_its_user_alone_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.key");
    let made = AuditKey::make(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let read = AuditKey::read_from(&path).unwrap();
    assert_eq!(link(&made, None, &entry()), link(&read, None, &entry()));
    assert!(matches!(AuditKey::make(&path), Err(KeyError::Unwritable { .. })));
    assert!(!format!("{read:?}").contains(std::fs::read_to_string(&path).unwrap().trim()));
}

#[test]
fn a_key_is_32_bytes_or_their_digits() {
    let folder = tempfile::tempdir().unwrap();
    let raw = key(folder.path(), &[0xab; 32]);
    let digits = key(folder.path(), format!(" {}\n", "aB".repeat(32)).as_bytes());
    assert_eq!(link(&raw, None, &entry()), link(&digits, None, &entry()));
    let path = folder.path().join("bad");
    for bad in [&b""[..], b"secret", &[1; 31], &[1; 33], "ag".repeat(32).as_bytes(), &[b'a'; 100_000]] {
        std::fs::write(&path, bad).unwrap();
        assert!(matches!(AuditKey::read_from(&path), Err(KeyError::Malformed(_))), "{bad:?}");
    }
    let missing = AuditKey::read_from(&folder.path().join("none")).unwrap_err();
    assert!(missing.hint().unwrap().contains("openssl rand"), "{missing}");
}

#[test]
fn the_note_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path(), &[9; 32]);
    assert_eq!(key.head(), None);
    let head = Head { position: 812, link: [7; 32] };
    key.note(&head);
    assert_eq!(key.head(), Some(head));
}
