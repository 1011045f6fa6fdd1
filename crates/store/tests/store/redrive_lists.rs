//! Cases: where both databases once answered differently.

use lazaret_core::class::Category;
use lazaret_core::gate::Passed;
use lazaret_core::redrive::Outcome;
use lazaret_store::decision::Verb;
use lazaret_store::job::LetterEffect;
use lazaret_store::redrive::{GroupVerdict, Launched};
use lazaret_store::replay::Replay;

use crate::job_letters::{dead, letter as letter_of};
use crate::jobs::{change, stored};
use crate::redrives::{frozen, groups, launch_of, plan, unpaced};
use crate::rig::{Rig, at};

pub async fn a_letter_put_back_twice_in_one_life_shows_the_last_time_first(rig: &mut Rig) {
    let job = dead(rig).await;
    let letter = letter_of(rig, job).await.letter.id;
    for ms in [5_000, 6_000] {
        let replay = Replay {
            rule: "r".into(),
            category: Category::Infrastructure,
            max_replays: 5,
            letters: vec![(letter, 1)],
            at: at(ms),
        };
        rig.store().replay(replay).await.unwrap();
        let before = stored(rig, job).await;
        let after = before.job.clone().cancelled(at(ms + 1)).unwrap();
        change(rig, &before, after, LetterEffect::End { evidence: "cancelled" }, at(ms + 1)).await;
        rig.done(letter, Verb::Reopen, at(ms + 2)).await;
    }
    let rows = rig.store().redrives_of(letter).await.unwrap();
    let found: Vec<_> = rows.iter().map(|(_, row)| (row.life, row.ordinal, row.outcome)).collect();
    assert_eq!(found, [(1, 2, Outcome::Ended), (1, 1, Outcome::Ended)]);
    assert_eq!(rows[0].0.id, rows[1].0.id, "a rule has one redrive a day");
}

pub async fn a_plan_that_is_judged_again_can_be_launched_meanwhile(rig: &mut Rig) {
    for round in 0..10 {
        let ms = 100 * (round + 1);
        let letter = rig.create(crate::rig::captured(&format!("e{round}")), at(ms)).await;
        let (id, _) = frozen(rig, &format!("event:e{round}"), unpaced(), ms + 1).await;
        plan(rig, id, Passed::Freely, ms + 2).await;
        let goes = GroupVerdict::Goes {
            passed: Passed::Freely,
            destination: groups(rig, id).await[0].source.clone(),
        };
        let (again, launched) = tokio::join!(
            rig.store().plan_redrive(id, vec![(1, goes)], "{}".into(), at(ms + 3)),
            rig.store().launch_redrive(id, launch_of(1, unpaced(), ms + 4))
        );
        // Verdicts that change nothing do not take the plan away, and come too late once it was launched.
        assert!(matches!(launched.unwrap(), Launched::Done(_)));
        assert!(again.unwrap().is_none_or(|redrive| redrive.id == id));
        assert_eq!(crate::redrive_runs::take(rig, id, 1, ms + 5).await.taken[0].letter, letter);
    }
}
