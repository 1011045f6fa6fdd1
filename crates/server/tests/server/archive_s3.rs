//! The archive on an S3 that stands on this machine, read by another program.

use std::sync::Arc;

use lazaret_server::archive::{self, Archive, ArchiveError};
use lazaret_server::config::ArchiveUrl;
use lazaret_server::operations::Progress;
use lazaret_store::decision::Decided;

use super::archive_rig::{Rig, essence, text};
use super::python::{self, S3};

const SECRET: &str = "a secret that nobody shall read";

async fn rig(s3: &S3) -> Rig {
    let mut rig = Rig::new(2).await;
    let mut config = rig.app.config.clone();
    config.archive.url = Some(ArchiveUrl::parse("s3://letters/some/where").unwrap());
    config.archive.endpoint = Some(s3.url.clone());
    config.archive.allow_http = true;
    let credentials = [("AWS_ACCESS_KEY_ID", "testing"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let archive = Archive::with_environment(&config, &credentials);
    rig.app = Arc::new(rig.app.under(config).with_archive(archive));
    rig
}

#[tokio::test]
async fn letters_go_to_s3_are_read_by_others_and_come_back() {
    let s3 = S3::start();
    let rig = rig(&s3).await;
    let letters = [rig.letter("e1").await, rig.letter("e2").await];
    let before = [rig.exported(letters[0]).await, rig.exported(letters[1]).await];
    rig.archive(&letters).await;
    let file = rig.settle().await.remove(0);
    let key = format!("some/where/{}", file.path);
    let object = s3.object(&key).expect("the file is there");
    assert_eq!(object.len() as u64, file.bytes);
    let copy = rig.folder.path().join("copy.parquet");
    std::fs::write(&copy, &object).unwrap();
    let found = python::rows(&copy);
    let ids: Vec<&str> = found["rows"].as_array().unwrap().iter().map(|row| text(row, "id")).collect();
    assert_eq!(ids, letters.map(|letter| letter.to_string()));
    assert_eq!(archive::verify_file(&rig.app, &file).await.unwrap(), None);
    assert_eq!(rig.restore(letters[0]).await.unwrap(), Decided::Done);
    assert_eq!(essence(rig.exported(letters[0]).await), essence(before[0].clone()));

    s3.remove(&key);
    let problem = archive::verify_file(&rig.app, &file).await.unwrap().unwrap();
    assert!(problem.contains("is missing") && problem.contains(&format!("s3://letters/{key}")), "{problem}");
    let refused = rig.restore(letters[1]).await.unwrap_err();
    assert!(matches!(refused, ArchiveError::Missing { .. }), "{refused}");
    assert_eq!(rig.place(letters[1]).await, "file");
    rig.test.check().await;
}

#[tokio::test]
async fn without_the_storage_nothing_is_lost_and_no_secret_is_told() {
    let s3 = S3::start();
    let rig = rig(&s3).await;
    let letters = [rig.letter("e1").await, rig.letter("e2").await, rig.letter("e3").await];
    rig.archive(&letters[..2]).await;
    let file = rig.settle().await.remove(0);
    let url = s3.url.clone();
    drop(s3);
    rig.decide(letters[2], "delete").await;
    rig.test.pass(86_400_000);
    assert_eq!(archive::tick(&rig.app).await.unwrap(), Progress::Idle);
    let problem = archive::state(&rig.app).problem.unwrap();
    assert!(problem.contains("could not be used"), "{problem} {url}");
    assert!(!problem.contains(SECRET), "{problem}");
    let unknown = archive::verify_file(&rig.app, &file).await.unwrap_err();
    assert!(matches!(unknown, ArchiveError::Away { .. }), "{unknown}: not reached is not missing");
    assert!(matches!(rig.restore(letters[0]).await, Err(ArchiveError::Away { .. })));
    assert_eq!(rig.restore(letters[2]).await.unwrap(), Decided::Done, "what waits needs no storage");
    rig.test.check().await;
}
