//! Room that deleted letters leave in the file of the embedded store is given back.

use std::sync::Arc;

use lazaret_core::letter::Captured;
use lazaret_core::limits::ROOM_PAGES_KEPT;
use lazaret_store::retention_store::RetentionStore;
use lazaret_store::sqlite::{Mode, SqliteStore};
use rusqlite::Connection;

use crate::books;
use crate::rig::{Opening, Rig, at, captured, envelope, noise};
use crate::shelf::{DELETE, push_out};

#[tokio::test]
async fn room_is_given_back_a_little_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), Mode::Test).unwrap());
    let same = Arc::clone(&store);
    let opening: Opening = Box::new(move || {
        let store = Arc::clone(&same);
        Box::pin(async move { store as Arc<dyn lazaret_store::Store> })
    });
    let rig = Rig::open(opening).await;
    let body = envelope(noise(1_000_000).as_bytes());
    for n in 0..12 {
        rig.create(Captured { envelope: body.clone(), ..captured(&format!("large {n}")) }, at(n)).await;
    }
    assert!(!store.give_room_back().await.unwrap(), "nothing is free");
    push_out(&rig, DELETE, at(10), at(10)).await;
    let other = Connection::open(folder.path().join("lazaret.db")).unwrap();
    let pages =
        |name: &str| -> i64 { other.query_row(&format!("pragma {name}"), [], |row| row.get(0)).unwrap() };
    let (all, free) = (pages("page_count"), pages("freelist_count"));
    assert!(free > 2 * ROOM_PAGES_KEPT, "{free}");
    // Until then the file is as it was: only a call takes something.
    while store.give_room_back().await.unwrap() {}
    assert!(pages("freelist_count") <= ROOM_PAGES_KEPT);
    assert!(pages("page_count") <= all - (free - ROOM_PAGES_KEPT), "{all} {free}");
    assert!(!store.give_room_back().await.unwrap());
    assert_eq!(rig.find("").await.len(), 1);
    let check: String = other.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    books::agree(rig.store()).await;
}
