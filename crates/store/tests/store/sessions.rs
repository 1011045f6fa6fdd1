//! Cases: who is signed in, by the hashes of their cookie and token alone.

use lazaret_core::id::TokenId;
use lazaret_core::limits;
use lazaret_store::access::StoredSession;
use lazaret_store::audit::AuditQuery;
use lazaret_store::token::StoredToken;

use crate::rig::{Rig, ana, at, captured};

async fn add_token(rig: &Rig, n: u8) {
    let token = StoredToken {
        id: TokenId::mint(at(0), [n; 10]),
        hash: [n; 32],
        name: format!("person {n}"),
        role: "operator".into(),
        created_at: at(0),
        created_by: "ana".into(),
        revoked_at: None,
    };
    rig.store().add_token(token, ana()).await.unwrap();
}

/// The session `n` of a token, which begins at a time and lasts a second.
fn session(n: u8, token: u8, created_ms: i64) -> StoredSession {
    let mut hash = [0xee; 32];
    hash[0] = n;
    StoredSession { hash, token: [token; 32], created_at: at(created_ms), expires_at: at(created_ms + 1_000) }
}

/// What the log says of sessions, oldest first: what, when, how many.
async fn log(rig: &Rig) -> Vec<(String, i64, u64)> {
    let mut entries = rig.store().audit(AuditQuery::newest(500)).await.unwrap();
    entries.retain(|entry| entry.action.starts_with("signed"));
    entries.reverse();
    assert!(entries.iter().all(|entry| entry.actor == ana()));
    entries.into_iter().map(|entry| (entry.action, entry.at.since(at(0)), entry.count)).collect()
}

pub async fn a_session_is_found_by_its_hash_alone(rig: &mut Rig) {
    add_token(rig, 1).await;
    let one = session(1, 1, 10);
    rig.store().add_session(one.clone(), ana()).await.unwrap();
    assert_eq!(rig.store().session(one.hash).await.unwrap(), Some(one.clone()));
    assert_eq!(rig.store().session([1; 32]).await.unwrap(), None, "the token is not the cookie");
    assert_eq!(rig.store().session(session(2, 1, 10).hash).await.unwrap(), None);
    assert!(rig.store().add_session(one.clone(), ana()).await.is_err(), "a hash names one session");
    rig.reopen().await;
    assert_eq!(rig.store().session(one.hash).await.unwrap(), Some(one));
    assert_eq!(log(rig).await, [("signed_in".to_owned(), 10, 1)]);
}

pub async fn a_session_ends_once_and_says_so(rig: &mut Rig) {
    add_token(rig, 1).await;
    let (one, two) = (session(1, 1, 10), session(2, 1, 20));
    for session in [&one, &two] {
        rig.store().add_session(session.clone(), ana()).await.unwrap();
    }
    assert!(rig.store().end_session(one.hash, ana(), at(30)).await.unwrap());
    assert!(!rig.store().end_session(one.hash, ana(), at(40)).await.unwrap());
    assert_eq!(rig.store().session(one.hash).await.unwrap(), None);
    assert_eq!(rig.store().session(two.hash).await.unwrap(), Some(two));
    let told = [("signed_in", 10, 1), ("signed_in", 20, 1), ("signed_out", 30, 1)];
    assert_eq!(log(rig).await, told.map(|(action, ms, count)| (action.to_owned(), ms, count)));
}

pub async fn all_sessions_of_a_token_end_together(rig: &mut Rig) {
    add_token(rig, 1).await;
    add_token(rig, 2).await;
    for (n, token) in [(1, 1), (2, 2), (3, 1)] {
        rig.store().add_session(session(n, token, i64::from(n)), ana()).await.unwrap();
    }
    assert_eq!(rig.store().sessions_of([1; 32]).await.unwrap(), [session(3, 1, 3), session(1, 1, 1)]);
    assert_eq!(rig.store().end_sessions_of([1; 32], ana(), at(9)).await.unwrap(), 2);
    assert_eq!(rig.store().sessions_of([1; 32]).await.unwrap(), []);
    assert_eq!(rig.store().sessions_of([2; 32]).await.unwrap(), [session(2, 2, 2)]);
    assert_eq!(rig.store().end_sessions_of([1; 32], ana(), at(10)).await.unwrap(), 0);
    assert_eq!(log(rig).await[3..], [("signed_out_everywhere".to_owned(), 9, 2)]);
}

pub async fn sessions_that_are_over_are_dropped_and_no_others(rig: &mut Rig) {
    add_token(rig, 1).await;
    for n in 1..=5 {
        rig.store().add_session(session(n, 1, i64::from(n) * 10), ana()).await.unwrap();
    }
    assert_eq!(rig.store().drop_sessions(at(1_009), 100).await.unwrap(), 0);
    assert_eq!(rig.store().drop_sessions(at(1_030), 2).await.unwrap(), 2, "so many in one commit");
    assert_eq!(rig.store().session(session(2, 1, 20).hash).await.unwrap(), None, "the oldest first");
    assert_eq!(rig.store().drop_sessions(at(1_030), 100).await.unwrap(), 1);
    assert_eq!(rig.store().sessions_of([1; 32]).await.unwrap(), [session(5, 1, 50), session(4, 1, 40)]);
    // Nobody signed out: their time was over.
    assert!(log(rig).await.iter().all(|(action, _, _)| action == "signed_in"));
}

pub async fn the_oldest_session_of_a_token_gives_way(rig: &mut Rig) {
    add_token(rig, 1).await;
    add_token(rig, 2).await;
    rig.store().add_session(session(255, 2, 0), ana()).await.unwrap();
    let max = u8::try_from(limits::SESSIONS_PER_TOKEN_MAX).unwrap();
    for n in 0..=max {
        rig.store().add_session(session(n, 1, i64::from(n)), ana()).await.unwrap();
    }
    let kept = rig.store().sessions_of([1; 32]).await.unwrap();
    assert_eq!(kept.len(), limits::SESSIONS_PER_TOKEN_MAX);
    assert_eq!(rig.store().session(session(0, 1, 0).hash).await.unwrap(), None);
    assert_eq!(kept.last(), Some(&session(1, 1, 1)));
    assert_eq!(rig.store().sessions_of([2; 32]).await.unwrap().len(), 1, "another's are left alone");
}

pub async fn a_session_needs_its_token(rig: &mut Rig) {
    assert!(rig.store().add_session(session(1, 1, 0), ana()).await.is_err());
    assert_eq!(log(rig).await, [], "what did not happen is not on record");
}

pub async fn a_reset_leaves_people_signed_in(rig: &mut Rig) {
    add_token(rig, 1).await;
    rig.store().add_session(session(1, 1, 0), ana()).await.unwrap();
    rig.create(captured("e1"), at(0)).await;
    rig.store().reset().await.unwrap();
    assert_eq!(rig.store().session(session(1, 1, 0).hash).await.unwrap(), Some(session(1, 1, 0)));
}
