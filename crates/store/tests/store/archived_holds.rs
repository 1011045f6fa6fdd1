//! Cases: letters of the archive that are held, and held letters that would be archived.

use lazaret_core::id::LetterId;
use lazaret_core::letter::{Hold, Outcome};
use lazaret_core::lifecycle::{Action, Place, Refused, Standing, Status};
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldState};

use crate::holds::{end, filter, holds_of, listed, new, place, record, shown, work};
use crate::rig::{Rig, at, captured, dying};
use crate::shelf::{ARCHIVE, Shelf, archive, batch, prunable, push_out, take};

async fn archived_hold(rig: &Rig, id: LetterId) -> Option<Hold> {
    rig.store().archived_letter(id).await.unwrap().expect("the letter is archived").letter.hold
}

/// A letter in the archive, waiting or in a file.
async fn put_away(rig: &Rig, shelf: &mut Shelf, event: &str, in_file: bool) -> LetterId {
    let id = rig.create(captured(event), at(0)).await;
    archive(rig, id, at(10)).await;
    if in_file {
        shelf.file(rig, at(20)).await;
    }
    id
}

pub async fn an_archived_letter_is_held_and_then_not_deleted(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    for in_file in [false, true] {
        let id = put_away(rig, &mut shelf, &format!("in a file: {in_file}"), in_file).await;
        let hold = place(rig, HoldOn::Letter(id), at(30)).await;
        assert_eq!((archived_hold(rig, id).await, holds_of(rig, id).await), (shown(at(30)), vec![hold]));
        let archived = Standing { place: Place::Archived, held: true, ..Standing::live(Status::Pending) };
        let refused = Refused { action: Action::Delete, standing: archived };
        assert_eq!(rig.decide(id, Verb::Delete, at(40)).await, Decided::Refused(refused));
        rig.done(id, Verb::Hold, at(50)).await;
        assert_eq!((archived_hold(rig, id).await, holds_of(rig, id).await.len()), (shown(at(30)), 2));
        end(rig, hold, at(60)).await;
        let left = Hold { at: at(50), by: "ana".into(), reason: "ticket 7".into() };
        assert_eq!(archived_hold(rig, id).await, Some(left));
        rig.done(id, Verb::Release, at(70)).await;
        assert_eq!((archived_hold(rig, id).await, holds_of(rig, id).await), (None, vec![]));
        let free = Standing { held: false, ..archived };
        let refused = Refused { action: Action::Release, standing: free };
        assert_eq!(rig.decide(id, Verb::Release, at(75)).await, Decided::Refused(refused));
        rig.done(id, Verb::Delete, at(80)).await;
        let gone = new(rig, HoldOn::Letter(id), at(90));
        assert_eq!(rig.store().place_hold(gone).await.unwrap(), HoldPlaced::Unknown);
        assert!(matches!(rig.decide(id, Verb::Hold, at(90)).await, Decided::Refused(_)));
    }
}

pub async fn a_held_letter_comes_back_held(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    for in_file in [false, true] {
        let id = put_away(rig, &mut shelf, &format!("restored, in a file: {in_file}"), in_file).await;
        let hold = place(rig, HoldOn::Letter(id), at(30)).await;
        assert_eq!(shelf.restore(rig, id, at(40)).await, Decided::Done);
        assert_eq!((rig.letter(id).await.hold, holds_of(rig, id).await), (shown(at(30)), vec![hold]));
        end(rig, hold, at(50)).await;
        assert_eq!(rig.letter(id).await.hold, None);
        let id = put_away(rig, &mut shelf, &format!("dead again, in a file: {in_file}"), in_file).await;
        let hold = place(rig, HoldOn::Letter(id), at(30)).await;
        let again = dying(&format!("dead again, in a file: {in_file}"), at(60));
        assert_eq!(rig.capture(again, at(61)).await.outcome, Outcome::Recurred);
        assert_eq!((rig.letter(id).await.hold, holds_of(rig, id).await), (shown(at(30)), vec![hold]));
        assert!(matches!(rig.decide(id, Verb::Discard, at(70)).await, Decided::Refused(_)));
    }
}

pub async fn what_comes_back_meets_the_holds_that_stand(rig: &mut Rig) {
    let mut shelf = Shelf::default();
    for in_file in [false, true] {
        let restored = put_away(rig, &mut shelf, &format!("restored, in a file: {in_file}"), in_file).await;
        let died = put_away(rig, &mut shelf, &format!("dead again, in a file: {in_file}"), in_file).await;
        let hold = place(rig, HoldOn::Standing(filter("queue:orders path:$.order=7")), at(30)).await;
        let live = if in_file { 2 } else { 0 };
        assert_eq!(record(rig, hold).await.letters, live, "only what is live is looked into");
        assert_eq!(shelf.restore(rig, restored, at(40)).await, Decided::Done);
        rig.capture(dying(&format!("dead again, in a file: {in_file}"), at(60)), at(61)).await;
        for id in [restored, died] {
            assert_eq!((rig.letter(id).await.hold, holds_of(rig, id).await), (shown(at(30)), vec![hold]));
        }
        end(rig, hold, at(70)).await;
    }
}

pub async fn a_listed_letter_that_was_archived_meanwhile_is_held(rig: &mut Rig) {
    let ids = rig.create_many(2, at(0)).await;
    let hold = new(rig, listed("queue:orders", 2), at(5));
    let id = hold.id;
    assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
    archive(rig, ids[0], at(10)).await;
    work(rig, id, at(20)).await;
    assert_eq!(
        (archived_hold(rig, ids[0]).await, rig.letter(ids[1]).await.hold),
        (shown(at(5)), shown(at(5)))
    );
    end(rig, id, at(30)).await;
    assert_eq!((archived_hold(rig, ids[0]).await, record(rig, id).await.state), (None, HoldState::Released));
}

pub async fn a_held_letter_is_not_pruned(rig: &mut Rig) {
    let ids = rig.create_many(3, at(0)).await;
    let may_go = prunable(rig, Status::Pending, at(10)).await;
    let hold = place(rig, HoldOn::Letter(ids[1]), at(20)).await;
    let before = prunable(rig, Status::Pending, at(30)).await;
    assert!(before.iter().all(|may| may.key.letter != ids[1]), "it is not even offered");
    // It was offered before it was held: the statement that removes it asks again.
    let gone = take(rig, batch(&may_go, ARCHIVE, at(40))).await;
    assert_eq!((gone[0].archived, gone[0].deleted), (2, 0));
    assert_eq!(rig.find("").await, [ids[1]]);
    end(rig, hold, at(50)).await;
    assert_eq!(push_out(rig, ARCHIVE, at(60), at(60)).await[0].archived, 1);
}
