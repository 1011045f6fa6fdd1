//! Export and import: a letter that went from one store to another is the same letter.

use lazaret_core::fingerprint::{FingerprintRules, Subject, group};
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::letter::Captured;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use lazaret_store::audit::AuditQuery;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::Verb;
use lazaret_store::page::LetterHistory;
use lazaret_store::stats::LedgerBy;
use lazaret_store::transfer::{Exported, Import, Imported};

use crate::books;
use crate::rig::{Rig, ana, at, captured, dying, envelope, failed, postgres, sqlite};

/// Stores to import into, one of each kind.
async fn elsewhere() -> [Rig; 2] {
    [Rig::open(sqlite()).await, Rig::open(postgres()).await]
}

/// Whatever was put in, the books have to agree.
async fn close(there: &Rig) {
    books::agree(there.store()).await;
    there.store().close().await.unwrap();
}

pub fn import(rig: &Rig, exported: Exported) -> Import {
    let letter = &exported.letter;
    let groupings = exported
        .lives
        .iter()
        .map(|(life, _)| {
            let fatal = exported.attempts.iter().find(|told| told.ordinal == life.fatal).unwrap();
            let subject = Subject {
                source: &letter.source,
                queue: &letter.queue,
                letter_type: &letter.letter_type,
                tenant: letter.tenant.as_deref(),
                error: &fatal.attempt.error,
            };
            let incident = IncidentId::mint(life.captured_at, rig.mint());
            (group(subject, &FingerprintRules::default()), incident)
        })
        .collect();
    Import { exported, groupings, at: at(1_000_000) }
}

pub async fn export(rig: &Rig, ids: &[LetterId]) -> Vec<Exported> {
    rig.store().export(ids.to_vec()).await.unwrap()
}

pub async fn put_in(rig: &Rig, exported: Vec<Exported>) -> Vec<Imported> {
    let letters = exported.into_iter().map(|one| import(rig, one)).collect();
    rig.store().import(letters, ana(), at(1_000_000)).await.unwrap()
}

/// A letter with two lives, several attempts, a hold and decisions.
pub async fn lived(rig: &Rig) -> LetterId {
    let first = Captured {
        attempts: vec![failed(at(-3_000), "reset"), failed(at(-1_000), "connection refused")],
        envelope: envelope(&[0, 255, 10, 0]),
        reported: Some(r#"{"status":"x"}"#.into()),
        aggregate: Some("order-7".into()),
        tenant: Some("acme".into()),
        ..dying("e1", at(-1_000))
    };
    let id = rig.create(first, at(0)).await;
    rig.done(id, Verb::Hold, at(10)).await;
    rig.done(id, Verb::Resolve, at(20)).await;
    let again =
        Captured { tenant: Some("acme".into()), aggregate: Some("order-7".into()), ..dying("e1", at(500)) };
    rig.capture(again, at(600)).await;
    rig.done(id, Verb::Resolve, at(700)).await;
    id
}

/// What has to be the same on both sides; incidents have ids of their own in each store.
fn essence(mut history: LetterHistory) -> String {
    history.letter.incident = IncidentId::from_bytes([0; 16]);
    for decision in &mut history.decisions {
        decision.imported = false;
    }
    format!("{history:?}")
}

pub async fn an_imported_letter_is_the_same_letter(rig: &mut Rig) {
    let id = lived(rig).await;
    let exported = export(rig, &[id, LetterId::from_bytes([1; 16])]).await;
    assert_eq!(exported.len(), 1, "what is not there is left out");
    for there in elsewhere().await {
        assert_eq!(put_in(&there, exported.clone()).await, [Imported::Created]);
        assert_eq!(essence(there.history(id).await), essence(rig.history(id).await));
        for life in [1, 2] {
            let (here, there) =
                (rig.store().original(id, Some(life)).await, there.store().original(id, Some(life)).await);
            assert_eq!(here.unwrap().unwrap().envelope, there.unwrap().unwrap().envelope);
        }
        assert!(there.history(id).await.decisions.iter().all(|decision| decision.imported));
        assert_eq!(there.find("text:refused").await, [id]);
        // The second time nothing moves.
        let dump = there.dump().await;
        assert_eq!(put_in(&there, exported.clone()).await, [Imported::Known]);
        assert_eq!(there.dump().await, dump);
        // And from there it can go on.
        let back = export(&there, &[id]).await;
        assert_eq!((back[0].decisions.len(), back[0].key), (3, exported[0].key));
        let ledger = there.store().ledger(LedgerBy::Recount).await.unwrap();
        assert_eq!((ledger.captured, ledger.difference(), ledger.wrong_counters), (1, 0, 0));
        let log = there.store().audit(AuditQuery::newest(10)).await.unwrap();
        assert_eq!((log.len(), log[0].action.as_str(), log[0].count), (1, "import", 1));
        close(&there).await;
    }
}

pub async fn an_imported_letter_lives_on(rig: &mut Rig) {
    let id = lived(rig).await;
    for there in elsewhere().await {
        put_in(&there, export(rig, &[id]).await).await;
        let again = Captured { tenant: Some("acme".into()), ..dying("e1", at(2_000)) };
        assert_eq!(there.capture(again, at(2_000)).await.letter, id, "the key came along");
        let letter = there.letter(id).await;
        assert_eq!((letter.life, letter.status), (3, Status::Pending));
        there.done(id, Verb::Release, at(3_000)).await;
        close(&there).await;
    }
}

pub async fn a_letter_that_was_out_waits_where_it_is_imported(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    rig.send(id, ClaimStep::Sent, at(10)).await;
    for there in elsewhere().await {
        assert_eq!(put_in(&there, export(rig, &[id]).await).await, [Imported::Created]);
        assert_eq!(there.letter(id).await.status, Status::Pending);
        assert!(export(&there, &[id]).await[0].ever_sent, "what dies there may be that copy");
        close(&there).await;
    }
}

pub async fn a_letter_under_the_same_key_is_a_conflict_and_nothing_changes(rig: &mut Rig) {
    let id = rig.create(captured("e1"), at(0)).await;
    for there in elsewhere().await {
        let other = there.create(captured("e1"), at(5)).await;
        let dump = there.dump().await;
        assert_eq!(put_in(&there, export(rig, &[id]).await).await, [Imported::Conflict(other)]);
        assert_eq!(there.dump().await, dump);
        close(&there).await;
    }
}

pub async fn letters_that_meet_in_one_batch_are_judged_one_after_the_other(rig: &mut Rig) {
    let [one, two] = ["e1", "e2"].map(|event| dying(event, at(-10)));
    let ids = [rig.create(one, at(0)).await, rig.create(two, at(0)).await];
    let early = export(rig, &ids).await;
    rig.done(ids[0], Verb::Resolve, at(700)).await;
    let late = export(rig, &ids[..1]).await.remove(0);
    // Another letter under the key of the first, and the second under another key.
    let mut same_key = early[0].clone();
    same_key.letter.id = LetterId::mint(at(0), rig.mint());
    let mut same_id = early[1].clone();
    same_id.key.0[0] ^= 1;
    let batch = [&early[0], &early[0], &late, &same_key, &early[1], &same_id];
    for there in elsewhere().await {
        let batch: Vec<Exported> = batch.into_iter().cloned().collect();
        let (created, known, behind) = (Imported::Created, Imported::Known, Imported::Behind);
        let [first, second] = ids.map(Imported::Conflict);
        let expected = [created.clone(), known, behind, first, created, second];
        assert_eq!(put_in(&there, batch).await, expected);
        assert_eq!(there.told_of_letters().await, ["dead_letter.imported"; 2]);
        assert_eq!(there.find("").await.len(), 2);
        close(&there).await;
    }
}

pub async fn imported_letters_count_when_they_died(rig: &mut Rig) {
    use lazaret_store::series::{SeriesOf, SeriesQuery, Step};
    let id = lived(rig).await;
    for there in elsewhere().await {
        put_in(&there, export(rig, &[id]).await).await;
        let query =
            |from: Time, until: Time| SeriesQuery { of: SeriesOf::All, step: Step::Minute, from, until };
        let points = there.store().series(query(at(0), at(3_600_000))).await.unwrap()[0].points.clone();
        assert_eq!(points.iter().map(|point| point.arrived).sum::<u64>(), 2);
        assert_eq!(points[0].at, at(0));
        close(&there).await;
    }
}

pub async fn a_letter_that_went_on_elsewhere_is_not_taken_for_known(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    let stores = elsewhere().await;
    let early = export(rig, &[id]).await;
    for there in &stores {
        put_in(there, early.clone()).await;
    }
    rig.capture(dying("e1", at(500)), at(600)).await;
    rig.done(id, Verb::Resolve, at(700)).await;
    for there in stores {
        assert_eq!(put_in(&there, export(rig, &[id]).await).await, [Imported::Behind]);
        assert_eq!(there.letter(id).await.life, 1, "nothing of it was taken");
        assert_eq!(
            put_in(rig, early.clone()).await,
            [Imported::Known],
            "what is further along knows what was"
        );
        close(&there).await;
    }
}
