//! What sources know of the letters under a key, and messages that stay dead after their letters are gone.

use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Captured, Outcome, SourceWord};
use lazaret_core::lifecycle::Place;
use lazaret_store::decision::Verb;
use lazaret_store::redrive::SendOutcome;
use lazaret_store::source_store::{KnownLetter, SettledElsewhere};

use crate::redrive_runs::{free_run, sending, settle};
use crate::redrives::unpaced;
use crate::rig::{Rig, at, dying};

fn key(event: &str) -> CaptureKey {
    let captured = dying(event, at(0));
    let [tenant, subscriber] =
        [captured.tenant, captured.subscriber].map(|name: Option<String>| name.unwrap_or_default());
    CaptureKey::of(&captured.source, &tenant, &subscriber, &captured.message_id)
}

async fn known(rig: &Rig, event: &str) -> Option<KnownLetter> {
    rig.store().known_letters(vec![key(event)]).await.unwrap().remove(0)
}

async fn remember(rig: &Rig, event: &str, death: &str) {
    rig.store().remember_deaths(vec![(key(event), death.to_owned())]).await.unwrap();
}

/// The place, the death that is remembered, and whether the message may have left its source's dead letters.
async fn facts(rig: &Rig, event: &str) -> (Place, Option<String>, bool) {
    let known = known(rig, event).await.unwrap();
    (known.place, known.death, known.left_source)
}

pub async fn what_a_source_told_last_is_known_of_every_letter(rig: &mut Rig) {
    let all = rig.create_many(4, at(0)).await;
    for n in 0..4 {
        remember(rig, &format!("e{n}"), &format!("{n} x")).await;
    }
    remember(rig, "never captured", "5 x").await;
    assert_eq!(known(rig, "never captured").await, None);
    let live = |death: &str, left| (Place::Live, Some(death.to_owned()), left);
    assert_eq!(facts(rig, "e0").await, live("0 x", false));
    rig.done(all[0], Verb::Resolve, at(10)).await;
    assert_eq!(facts(rig, "e0").await, live("0 x", false), "resolved by hand, the message stays where it is");
    let by_source = SettledElsewhere {
        letter: all[1],
        life: 1,
        by: "source:shop".into(),
        notes: "its row was processed".into(),
        at: at(20),
    };
    rig.store().settle_elsewhere(by_source).await.unwrap();
    assert_eq!(facts(rig, "e1").await, live("1 x", true));
    let id = free_run(rig, unpaced()).await;
    sending(rig, id, 10, 200).await;
    assert_eq!(facts(rig, "e2").await, live("2 x", true));
    assert!(
        settle(rig, id, all[2], SendOutcome::Delivered { evidence: "processed", handle: None }, 300).await
    );
    assert_eq!(facts(rig, "e2").await, live("2 x", true));
    assert!(settle(rig, id, all[3], SendOutcome::Unsent, 300).await);
    assert!(!settle(rig, id, all[3], SendOutcome::Lost { why: "gone".into() }, 300).await, "it was not sent");
    assert_eq!(facts(rig, "e3").await, live("3 x", false));
    for letter in &all[..3] {
        rig.done(*letter, Verb::Delete, at(400)).await;
    }
    let gone = |death: Option<&str>| (Place::Deleted, death.map(str::to_owned), false);
    assert_eq!(facts(rig, "e0").await, gone(Some("0 x")));
    assert_eq!(facts(rig, "e1").await, gone(None), "its row was processed: another death is a new one");
    assert_eq!(facts(rig, "e2").await, gone(None));
}

pub async fn a_message_that_stays_dead_is_not_captured_again_after_its_letter_was_deleted(rig: &mut Rig) {
    let id = rig.create(dying("e1", at(-10)), at(0)).await;
    rig.done(id, Verb::Delete, at(10)).await;
    let dump = rig.dump().await;
    let same = Captured { word: SourceWord::SameDeath, ..dying("e1", at(500)) };
    let receipt = rig.capture(same, at(1_000)).await;
    assert_eq!((receipt.letter, receipt.outcome), (id, Outcome::Duplicate));
    assert_eq!(rig.dump().await, dump);
    let anew = Captured { word: SourceWord::NewDeath, ..dying("e1", at(500)) };
    assert_eq!(rig.capture(anew, at(2_000)).await.outcome, Outcome::Created);
    remember(rig, "e1", "9 y").await;
    let known = known(rig, "e1").await.unwrap();
    assert_eq!((known.letter == id, known.death.as_deref()), (false, Some("9 y")));
}
