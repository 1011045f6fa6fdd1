//! The archive on object storage of every kind, emulated on this machine and read by another program.

use std::sync::Arc;

use lazaret_server::archive::{self, Archive, ArchiveError};
use lazaret_server::config::Cloud;
use lazaret_server::operations::Progress;
use lazaret_store::decision::Decided;

use super::archive_rig::{Rig, essence, text};
use super::python;
use super::storages::{SECRET, Storage};

async fn rig(storage: &Storage) -> Rig {
    let mut rig = Rig::new(2).await;
    let mut config = rig.app.config.clone();
    let credentials = storage.configure(&mut config.archive);
    let credentials: Vec<(&str, &str)> =
        credentials.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let archive = Archive::with_environment(&config, &credentials);
    rig.app = Arc::new(rig.app.under(config).with_archive(archive));
    rig
}

async fn letters_go_there_are_read_by_others_and_come_back(cloud: Cloud) {
    let storage = Storage::start(cloud);
    let rig = rig(&storage).await;
    let letters = [rig.letter("e1").await, rig.letter("e2").await];
    let before = [rig.exported(letters[0]).await, rig.exported(letters[1]).await];
    rig.archive(&letters).await;
    let file = rig.settle().await.remove(0);
    let key = format!("some/where/{}", file.path);
    let object = storage.object(&key).expect("the file is there");
    assert_eq!(object.len() as u64, file.bytes);
    let copy = rig.folder.path().join("copy.parquet");
    std::fs::write(&copy, &object).unwrap();
    let found = python::rows(&copy);
    let ids: Vec<&str> = found["rows"].as_array().unwrap().iter().map(|row| text(row, "id")).collect();
    assert_eq!(ids, letters.map(|letter| letter.to_string()));
    assert_eq!(archive::verify_file(&rig.app, &file).await.unwrap(), None);
    assert_eq!(rig.restore(letters[0]).await.unwrap(), Decided::Done);
    assert_eq!(essence(rig.exported(letters[0]).await), essence(before[0].clone()));

    storage.remove(&key);
    let problem = archive::verify_file(&rig.app, &file).await.unwrap().unwrap();
    let place = format!("{}://letters/{key}", cloud.scheme());
    assert!(problem.contains("is missing") && problem.contains(&place), "{problem}");
    let refused = rig.restore(letters[1]).await.unwrap_err();
    assert!(matches!(refused, ArchiveError::Missing { .. }), "{refused}");
    assert_eq!(rig.place(letters[1]).await, "file");
    rig.test.check().await;
}

async fn without_the_storage_nothing_is_lost_and_no_secret_is_told(cloud: Cloud) {
    let storage = Storage::start(cloud);
    let rig = rig(&storage).await;
    let letters = [rig.letter("e1").await, rig.letter("e2").await, rig.letter("e3").await];
    rig.archive(&letters[..2]).await;
    let file = rig.settle().await.remove(0);
    drop(storage);
    rig.decide(letters[2], "delete").await;
    rig.test.pass(86_400_000);
    assert_eq!(archive::tick(&rig.app).await.unwrap(), Progress::Idle);
    let problem = archive::state(&rig.app).problem.unwrap();
    assert!(problem.contains("could not be used"), "{problem}");
    assert!(!problem.contains(SECRET), "{problem}");
    let unknown = archive::verify_file(&rig.app, &file).await.unwrap_err();
    assert!(matches!(unknown, ArchiveError::Away { .. }), "{unknown}: not reached is not missing");
    assert!(matches!(rig.restore(letters[0]).await, Err(ArchiveError::Away { .. })));
    assert_eq!(rig.restore(letters[2]).await.unwrap(), Decided::Done, "what waits needs no storage");
    rig.test.check().await;
}

/// Every case for every kind of storage.
macro_rules! storages {
    ($($name:ident: $cloud:expr),+ $(,)?) => {$(
        mod $name {
            use super::Cloud;

            #[tokio::test]
            async fn letters_go_there_are_read_by_others_and_come_back() {
                super::letters_go_there_are_read_by_others_and_come_back($cloud).await;
            }

            #[tokio::test]
            async fn without_the_storage_nothing_is_lost_and_no_secret_is_told() {
                super::without_the_storage_nothing_is_lost_and_no_secret_is_told($cloud).await;
            }
        }
    )+};
}

storages! { s3: Cloud::S3, azure: Cloud::Azure, google: Cloud::Google }
