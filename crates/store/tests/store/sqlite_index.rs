//! The body index of the embedded store is a file that may be lost, broken or of another store.

use std::fs;
use std::path::Path;

use lazaret_store::Store;
use lazaret_store::sqlite::{Mode, SqliteStore};

use crate::rig::{Opening, Rig, at, captured};

fn opening(folder: &Path) -> Opening {
    let folder = folder.to_owned();
    Box::new(move || {
        let store = SqliteStore::open(&folder, Mode::Test).unwrap();
        Box::pin(async move { std::sync::Arc::new(store) as std::sync::Arc<dyn Store> })
    })
}

async fn indexed(rig: &Rig) -> u64 {
    rig.store().index_bodies(100).await.unwrap().indexed
}

#[tokio::test]
async fn a_lost_or_broken_index_is_filled_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(opening(folder.path())).await;
    rig.create_many(5, at(0)).await;
    for broken in [None, Some("this is no database, though long enough to be taken for one".repeat(100))] {
        assert_eq!(indexed(&rig).await, 5);
        rig.store().close().await.unwrap();
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            if file.file_name().to_string_lossy().starts_with("search.db") {
                fs::remove_file(file.path()).unwrap();
            }
        }
        if let Some(text) = broken {
            fs::write(folder.path().join("search.db"), text).unwrap();
        }
        rig.reopen().await;
        assert_eq!(rig.find("body:order").await.len(), 5, "what is not indexed is looked into");
    }
    assert_eq!(indexed(&rig).await, 5);
}

#[tokio::test]
async fn an_index_of_other_letters_is_made_anew() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rig = Rig::open(opening(one.path())).await;
    rig.create_many(5, at(0)).await;
    assert_eq!(indexed(&rig).await, 5);
    rig.store().close().await.unwrap();
    let mut other = Rig::open(opening(two.path())).await;
    other.create_many(7, at(60_000)).await;
    other.store().close().await.unwrap();
    fs::copy(one.path().join("search.db"), two.path().join("search.db")).unwrap();
    other.reopen().await;
    assert_eq!(indexed(&other).await, 7);
    // As after a copy of the letters was put back: the index knows more than there is.
    other.store().reset().await.unwrap();
    other.create(captured("new"), at(90_000)).await;
    assert_eq!(indexed(&other).await, 1);
    assert_eq!(other.find("body:order").await.len(), 1);
}

#[tokio::test]
async fn letters_are_found_when_the_index_is_ahead_of_a_store_that_was_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let mut rig = Rig::open(opening(&data)).await;
    rig.create_many(3, at(0)).await;
    rig.store().close().await.unwrap();
    fs::copy(data.join("lazaret.db"), &copy).unwrap();
    rig.reopen().await;
    rig.create_many(50, at(1_000)).await;
    assert_eq!(indexed(&rig).await, 50 + 3);
    rig.store().close().await.unwrap();
    fs::copy(&copy, data.join("lazaret.db")).unwrap();
    rig.reopen().await;
    let mut new = captured("new");
    new.envelope = crate::rig::envelope(br#"{"needle":"haystack"}"#);
    rig.create(new, at(5_000)).await;
    assert_eq!(rig.find("body:haystack").await.len(), 1);
    assert_eq!(rig.store().body_index().await.unwrap().behind, 4, "the tick has something to do");
    assert_eq!(indexed(&rig).await, 4);
}
