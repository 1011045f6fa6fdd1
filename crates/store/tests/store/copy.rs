//! A store that was copied is the same store, whichever kind it was and is.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::lifecycle::Status;
use lazaret_store::claim::ClaimStep;
use lazaret_store::copy::{Batch, Piece, Plan, TABLES, Value, plan};
use lazaret_store::decision::{OperationState, Verb};
use lazaret_store::redrive::Edit;
use lazaret_store::{Store, StoreError};
use tokio::sync::mpsc;

use crate::books;
use crate::rig::{Opening, Rig, at, captured, dying, mark, postgres, sqlite};
use crate::transfer::{export, lived, put_in};

async fn plan_of(from: &dyn Store, to: &dyn Store) -> Plan {
    let (from, there) = (from.copy_schema().await.unwrap(), to.copy_schema().await.unwrap());
    plan(&from, &there, to.copy_order()).unwrap()
}

/// Copies a store into a new one of another kind, or of the same.
async fn copied(from: &Rig, opening: fn() -> Opening) -> Rig {
    let mut to = Rig::open(opening()).await;
    assert_eq!(to.store().first_filled().await.unwrap(), None);
    let plan = plan_of(from.store(), to.store()).await;
    let (out, arriving) = mpsc::channel(2);
    let (read, written) = tokio::join!(from.store().copy_out(plan, out), to.store().copy_in(arriving));
    read.unwrap();
    assert!(written.unwrap());
    to.reopen().await;
    to
}

/// All rows of a store, sorted.
async fn rows(store: &dyn Store, plan: &Plan) -> BTreeMap<&'static str, Vec<Vec<Value>>> {
    let (out, mut arriving) = mpsc::channel(2);
    let mut rows: BTreeMap<&'static str, Vec<Vec<Value>>> = BTreeMap::new();
    let take = async {
        while let Some(piece) = arriving.recv().await {
            if let Piece::Rows(batch) = piece {
                rows.entry(batch.table).or_default().extend(batch.rows);
            }
        }
    };
    let (read, ()) = tokio::join!(store.copy_out(Plan::clone(plan), out), take);
    read.unwrap();
    rows.values_mut().for_each(|rows| rows.sort());
    rows
}

/// Copies a store into one of each kind and compares; returns which tables had rows.
async fn compare(rig: &Rig) -> BTreeSet<&'static str> {
    let mut filled = BTreeSet::new();
    for opening in [sqlite as fn() -> Opening, postgres] {
        let there = copied(rig, opening).await;
        let plan = plan_of(rig.store(), there.store()).await;
        let (here, copy) = (rows(rig.store(), &plan).await, rows(there.store(), &plan).await);
        for table in TABLES {
            assert_eq!(here[table], copy[table], "{table}");
        }
        books::agree(there.store()).await;
        filled.extend(here.iter().filter(|(_, rows)| !rows.is_empty()).map(|(table, _)| *table));
        there.store().close().await.unwrap();
    }
    filled
}

pub async fn an_imported_letter_is_edited(rig: &mut Rig) {
    let elsewhere = Rig::open(sqlite()).await;
    let letter = lived(&elsewhere).await;
    put_in(rig, export(&elsewhere, &[letter]).await).await;
    let edit = Edit {
        number: 0,
        life: 2,
        body: b"{}".to_vec(),
        content_type: "application/json".into(),
        headers: Vec::new(),
        destination: None,
        author: "ana".into(),
        reason: None,
        at: at(2_000_000),
    };
    assert_eq!(rig.store().add_edit(letter, edit).await.unwrap(), Some(1));
}

/// Runs cases, each on a store of its own, and copies what they leave; together they fill every table.
macro_rules! copies {
    ($opening:path => $($module:ident::$case:ident),+ $(,)?) => {{
        let mut filled = BTreeSet::new();
        $(
            let mut rig = Rig::open($opening()).await;
            crate::$module::$case(&mut rig).await;
            filled.extend(compare(&rig).await);
            rig.store().close().await.unwrap();
        )+
        let never: Vec<_> = TABLES.into_iter().filter(|table| !filled.contains(table)).collect();
        assert_eq!(never, [""; 0], "no case fills these tables");
    }};
}

macro_rules! everything {
    ($name:ident: $opening:path) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            copies! { $opening =>
                capture::odd_characters_come_back_in_every_field,
                messages::everything_of_a_message_survives,
                messages::what_a_destination_handed_out_is_kept,
                deaths::a_letter_that_dies_after_its_redrive_relapses,
                analyses::an_analysis_is_written_revised_and_kept,
                regroup::two_groups_that_become_one_are_found_under_both_ids,
                regroup::letters_deleted_while_they_are_regrouped_are_passed_by,
                copy::an_imported_letter_is_edited,
                operations::a_letter_that_moved_meanwhile_is_skipped_with_the_reason,
                trash::a_deleted_letter_is_in_the_trash_and_nowhere_else,
                trash::a_store_that_was_deleted_empty_goes_on_counting,
                archive_deaths::older_lives_stay_in_the_files_they_are_in,
                archived_holds::an_archived_letter_is_held_and_then_not_deleted,
                standing_holds::every_standing_hold_that_matches_holds,
                redrive_runs::a_letter_that_failed_goes_under_the_next_key,
                redrive_runs::a_person_settles_what_nobody_knows,
                redrive_canaries::canaries_go_first_and_alone_spread_over_types,
                replays::a_rule_puts_a_letter_back_so_many_times_over_all_its_lives,
                replays::a_rule_is_switched_by_a_person,
                jobs::jobs_are_fetched_by_queue_then_priority_then_age,
                workers::workers_are_listed_with_what_they_hold,
                sessions::a_session_is_found_by_its_hash_alone,
                alerts::an_acknowledgement_is_on_record_and_outlives_an_evaluation,
                alerts::a_notification_is_claimed_by_one_until_its_lease_ends,
                alerts::silences_are_kept_until_they_end,
                audit_chain::entries_are_linked_once_and_in_order,
                archive_deaths::an_archived_letter_is_told_of_again,
                tries::a_failed_try_waits_for_its_row,
            }
        }
    };
}

everything!(everything_in_an_embedded_store_is_copied: sqlite);
everything!(everything_in_a_database_is_copied: postgres);

/// A copy is used as the original would have been.
async fn goes_on(from: fn() -> Opening, to: fn() -> Opening) {
    let rig = Rig::open(from()).await;
    let ids = rig.create_many(5, at(0)).await;
    let sent = rig.create(captured("sent"), at(1)).await;
    let run = rig.send(sent, ClaimStep::Sent, at(10)).await;
    let operation = rig.open_operation(Verb::Discard, "event:e1", 1, at(20)).await;
    assert_eq!(rig.freeze(operation).await.0.state, OperationState::Working);
    let told = rig.store().events_kept().await.unwrap();

    let there = copied(&rig, to).await;
    assert_eq!(there.store().working_operations(9).await.unwrap(), [operation]);
    assert_eq!(there.work(operation, at(30)).await.0.done, 1);
    assert_eq!(there.letter(ids[1]).await.status, Status::Discarded);
    // The copy that is out is known here too: it dies, and nobody sends another one before.
    assert_eq!(there.take(sent, 1, at(35)).await, None);
    let relapse = Captured { mark: mark(sent, 1, run), ..dying("sent", at(40)) };
    assert_eq!(there.capture(relapse, at(45)).await.outcome, Outcome::Relapse);
    there.create(captured("after"), at(50)).await;
    let told_since = there.store().events(told.newest, 9).await.unwrap();
    assert_eq!(told_since[0].position, told.newest + 1);
    while there.store().index_bodies(100).await.unwrap().behind > 0 {}
    books::agree(there.store()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_goes_on_where_the_original_stopped() {
    goes_on(sqlite, sqlite).await;
    goes_on(sqlite, postgres).await;
    goes_on(postgres, sqlite).await;
    goes_on(postgres, postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_breaks_off_leaves_nothing() {
    for opening in [sqlite as fn() -> Opening, postgres] {
        let rig = Rig::open(opening()).await;
        let (out, arriving) = mpsc::channel(2);
        let columns = ["rule", "switched", "replayed", "last_at"].map(str::to_owned).into();
        let row = vec![Value::Text("r".into()), Value::Integer(1), Value::Integer(7), Value::Null];
        let part = Piece::Rows(Batch { table: "replay_rules", columns, rows: vec![row] });
        let (written, ()) = tokio::join!(rig.store().copy_in(arriving), async {
            out.send(part).await.unwrap();
            drop(out);
        });
        assert!(!written.unwrap());
        assert_eq!(rig.store().first_filled().await.unwrap(), None);
        rig.create(captured("e"), at(0)).await;
        assert!(rig.store().first_filled().await.unwrap().is_some());
    }
}

/// A schema with a table or a column that nobody thought of is refused, not copied in part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_known_is_not_left_out() {
    let (here, there) = (Rig::open(sqlite()).await, Rig::open(postgres()).await);
    let order = there.store().copy_order();
    let (from, to) = (here.store().copy_schema().await.unwrap(), there.store().copy_schema().await.unwrap());
    plan(&from, &to, order.clone()).unwrap();
    let mut table = to.clone();
    table.insert("novelties".into(), BTreeSet::new());
    assert!(matches!(plan(&from, &table, order.clone()), Err(StoreError::Corrupt(_))));
    let mut column = to.clone();
    column.get_mut("jobs").unwrap().insert("novelty".into());
    assert!(matches!(plan(&from, &column, order), Err(StoreError::Corrupt(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_served_or_copied_and_not_both() {
    let rig = Rig::open(postgres()).await;
    let plan = plan_of(rig.store(), rig.store()).await;
    let (out, arriving) = mpsc::channel(1);
    let copying = tokio::spawn({
        let (store, plan) = (rig.shared(), Plan::clone(&plan));
        async move { store.copy_out(plan, out).await }
    });
    // The copy is under way once it has sent something, and waits for somebody to take it.
    let mut arriving = arriving;
    arriving.recv().await.unwrap();
    assert!(matches!(rig.store().lead().await, Err(StoreError::Held { .. })));
    while arriving.recv().await.is_some() {}
    copying.await.unwrap().unwrap();
    assert!(rig.store().lead().await.unwrap());
    let (out, _arriving) = mpsc::channel(1);
    assert!(matches!(rig.store().copy_out(plan, out).await, Err(StoreError::Held { .. })));
}
