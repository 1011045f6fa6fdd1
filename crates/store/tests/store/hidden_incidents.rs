//! Stores of an earlier version whose letters are in incidents that no list shows: the recount tells of them, and opening
//! the store lists them again.

use std::sync::Arc;

use lazaret_core::incident::{FixStanding, IncidentState};
use lazaret_store::Store;
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::stats::LedgerBy;
use lazaret_store::testing::TestDatabase;
use rusqlite::Connection;

use crate::analyses::{cured, record, state};
use crate::books;
use crate::postgres_many::{connect, rig};
use crate::rig::{Rig, at, captured, dying};

/// What regrouping did to an incident whose letters it had moved away before.
const HIDE: &str =
    "update incidents set merged_into = id, state = 'closed' where letters > 0 and state = 'open'";

/// What resolving the letters of a regressed incident and reopening them did.
const LAUNDER: &str = "update incidents set state = 'fixed', fix_kind = 'deployed' where state = 'regressed'";

/// The store as a version before the migration left it.
const UNDO_SQLITE: &str = "drop table alerts; drop table alert_groups; drop table silences; drop table notifications; drop table alert_progress; drop table key_index; drop table job_requests; drop index letters_by_death; drop index letters_by_status; drop index letters_by_queue; drop index letters_by_type; drop index letters_by_error_type; drop index letters_by_class; drop index letters_by_source; drop index letters_by_fingerprint; drop index letters_by_event; drop index letters_by_subscriber; drop index letters_by_tenant; drop index letters_by_aggregate; drop index letters_of_jobs; drop index letters_by_retention; alter table dead_letter_queue drop column listed; drop index lives_without_body; alter table lives drop column origin; alter table lives drop column body_missing; alter table trash_lives drop column origin; alter table trash_lives drop column body_missing; alter table redrive_groups drop column body_missing; alter table redrive_letters drop column handle; alter table incidents drop column fix_disproved; drop table archive_attempts; drop table relay_tries; alter table letter_keys drop column death; pragma user_version = 12";
const UNDO_POSTGRES: &str = "drop table alerts, alert_groups, silences, notifications, alert_progress; alter table lives drop column origin, drop column body_missing; alter table trash_lives drop column origin, drop column body_missing; alter table redrive_groups drop column body_missing; alter table redrive_letters drop column handle; alter table incidents drop column fix_disproved; drop table archive_attempts; drop table relay_tries; alter table letter_keys drop column death; delete from meta where key = 'extracts'; update meta set value = '12' where key = 'format'";

/// A regressed incident, and an open one with two letters.
async fn fill(rig: &Rig) {
    let mut other = dying("r1", at(0));
    other.letter_type = "other".into();
    let letter = rig.create(other.clone(), at(0)).await;
    let id = rig.letter(letter).await.incident;
    cured(rig, id, 1_000, 1_000).await;
    other.message_id = "r2".into();
    other.died_at = Some(at(2_000));
    rig.create(other, at(2_000)).await;
    assert_eq!(state(rig, id).await, IncidentState::Regressed);
    rig.create(captured("a"), at(0)).await;
    rig.create(captured("b"), at(0)).await;
}

async fn unlisted(rig: &Rig) -> u64 {
    rig.store().ledger(LedgerBy::Recount).await.unwrap().unlisted
}

/// Asserts that everything is listed, and that the disproved fix is none.
async fn is_repaired(rig: &Rig) {
    books::agree(rig.store()).await;
    for id in rig.find("source:report").await {
        let incident = rig.letter(id).await.incident;
        let regressed = rig.letter(id).await.letter_type == "other";
        let expected = if regressed { IncidentState::Regressed } else { IncidentState::Open };
        assert_eq!(state(rig, incident).await, expected);
        let fix = if regressed { FixStanding::Disproved } else { FixStanding::None };
        assert_eq!(record(rig, incident).await.fix, fix);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_in_hidden_incidents_are_counted_and_listed_again_by_an_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let opened = path.clone();
    let mut rig = Rig::open(Box::new(move || {
        let store = SqliteStore::open(&opened, Mode::Test).unwrap();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    }))
    .await;
    fill(&rig).await;
    let other = Connection::open(path.join("lazaret.db")).unwrap();
    other.execute_batch(HIDE).unwrap();
    assert_eq!(unlisted(&rig).await, 2);
    // Another death is enough to be seen again.
    rig.create(captured("c"), at(0)).await;
    assert_eq!(unlisted(&rig).await, 0);
    other.execute_batch(HIDE).unwrap();
    other.execute_batch(LAUNDER).unwrap();
    other.execute_batch(UNDO_SQLITE).unwrap();
    drop(other);
    rig.reopen().await;
    is_repaired(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_in_hidden_incidents_are_counted_and_listed_again_by_a_database() {
    let database = TestDatabase::new();
    let mut rig = rig(&database).await;
    fill(&rig).await;
    let other = connect(&database).await;
    other.batch_execute(HIDE).await.unwrap();
    assert_eq!(unlisted(&rig).await, 2);
    rig.create(captured("c"), at(0)).await;
    assert_eq!(unlisted(&rig).await, 0);
    other.batch_execute(HIDE).await.unwrap();
    other.batch_execute(LAUNDER).await.unwrap();
    other.batch_execute(UNDO_POSTGRES).await.unwrap();
    rig.reopen().await;
    is_repaired(&rig).await;
}
