//! A message arrives under a key that is known: is it the same death told again, or a new one?
//!
//! Decided by evidence, strongest first; what proves nothing is a duplicate. Whatever the answer, attempts that are
//! not stored yet are added: this only decides whether the letter moves.

use crate::id::LetterId;
use crate::letter::{RedriveMark, SourceWord};
use crate::lifecycle::Status;
use crate::time::Time;

/// What the store knows about the letter under the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub letter: LetterId,
    pub status: Status,
    pub life: u32,
    /// The last failure that is stored.
    pub died_at: Time,
    /// When the present life was sent back, if it was.
    pub sent_at: Option<Time>,
    /// Whether any life was ever sent back.
    pub ever_sent: bool,
}

impl Known {
    /// The life whose history a duplicate belongs to: what an earlier life of ours left behind is history of that life.
    pub fn life_of(&self, mark: Option<RedriveMark>) -> u32 {
        match mark {
            Some(mark) if mark.letter == self.letter && mark.life < self.life => mark.life.max(1),
            Some(_) | None => self.life,
        }
    }
}

/// What the arriving message says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evidence {
    pub mark: Option<RedriveMark>,
    /// The redrive that the mark names did send the present life of the letter.
    pub mark_sent: bool,
    pub word: SourceWord,
    /// Its last failure, if it states one.
    pub failed_at: Option<Time>,
    /// When it was captured: no failure is later.
    pub captured_at: Time,
    /// Its newest attempt is stored already, to the last character.
    pub attempt_known: bool,
}

/// What the arrival is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// The same death again: nothing moves.
    Duplicate,
    /// It died anew, and no redrive of ours had sent it.
    NewDeath,
    /// It died anew after we had put it back.
    Relapse,
}

/// Weighs the evidence in the order of DESIGN's section 4.
pub fn judge(known: Known, evidence: Evidence) -> Verdict {
    if let Some(mark) = evidence.mark
        && mark.letter == known.letter
    {
        // A mark of a life to come, or of a redrive that did not send this one, cannot be ours: the report is weighed as
        // any other.
        if mark.life == known.life && evidence.mark_sent {
            return Verdict::Relapse;
        }
        if mark.life < known.life {
            return Verdict::Duplicate;
        }
    }
    let anew = match evidence.word {
        SourceWord::NewDeath => true,
        SourceWord::SameDeath => false,
        SourceWord::Silent => died_later(known, evidence),
    };
    match (anew, known.ever_sent) {
        (false, _) => Verdict::Duplicate,
        (true, false) => Verdict::NewDeath,
        (true, true) => Verdict::Relapse,
    }
}

fn died_later(known: Known, evidence: Evidence) -> bool {
    let Some(stated) = evidence.failed_at else { return false };
    // A clock that runs ahead would make each repetition of one report look later than the one before.
    if evidence.attempt_known {
        return false;
    }
    let failed_at = stated.min(evidence.captured_at);
    // Nothing that is stored happens after this capture. Where it seems so the clock was set back, and the two times
    // cannot be compared.
    let is_after = |stored: Time| failed_at > stored || stored > evidence.captured_at;
    let after_send = match (known.status, known.sent_at) {
        (Status::Reprocessing, Some(sent_at)) => is_after(sent_at),
        (Status::Reprocessing, None) => true,
        (Status::Pending | Status::Resolved | Status::Discarded, _) => true,
    };
    is_after(known.died_at) && after_send
}

/// When a letter died last, once it died at `died_at`: never before what is stored, nor after the capture.
pub fn last_death(known: Known, died_at: Time, captured_at: Time) -> Time {
    known.died_at.max(died_at).min(captured_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RedriveId;

    const OURS: [u8; 16] = [1; 16];

    fn known(status: Status) -> Known {
        Known {
            letter: LetterId::from_bytes(OURS),
            status,
            life: 3,
            died_at: Time::from_ms(1_000),
            sent_at: None,
            ever_sent: false,
        }
    }

    fn evidence() -> Evidence {
        Evidence {
            mark: None,
            mark_sent: false,
            word: SourceWord::Silent,
            failed_at: None,
            captured_at: Time::from_ms(10_000),
            attempt_known: false,
        }
    }

    fn mark(letter: [u8; 16], life: u32) -> Option<RedriveMark> {
        Some(RedriveMark {
            letter: LetterId::from_bytes(letter),
            life,
            redrive: RedriveId::from_bytes([9; 16]),
        })
    }

    #[test]
    fn evidence_is_weighed_in_order() {
        use Verdict::{Duplicate, NewDeath, Relapse};
        let at = |ms| Some(Time::from_ms(ms));
        let sent = Known { sent_at: at(2_000), ever_sent: true, ..known(Status::Reprocessing) };
        let pending = known(Status::Pending);
        let none = evidence();
        let cases: [(&str, Known, Evidence, Verdict); 24] = [
            ("nothing stated", pending, none, Duplicate),
            ("the same failure time", pending, Evidence { failed_at: at(1_000), ..none }, Duplicate),
            ("an earlier failure", pending, Evidence { failed_at: at(999), ..none }, Duplicate),
            ("a later failure", pending, Evidence { failed_at: at(1_001), ..none }, NewDeath),
            (
                "a later failure that is stored already",
                pending,
                Evidence { failed_at: at(1_001), attempt_known: true, ..none },
                Duplicate,
            ),
            (
                "a clock ahead, first time",
                Known { died_at: Time::from_ms(9_000), ..pending },
                Evidence { failed_at: at(99_000), ..none },
                NewDeath,
            ),
            (
                "a clock ahead, clamped to the capture",
                Known { died_at: Time::from_ms(10_000), ..pending },
                Evidence { failed_at: at(99_000), ..none },
                Duplicate,
            ),
            (
                "later than stored, before the send",
                sent,
                Evidence { failed_at: at(1_500), ..none },
                Duplicate,
            ),
            ("later than the send", sent, Evidence { failed_at: at(2_001), ..none }, Relapse),
            (
                "claimed but not yet sent",
                Known { sent_at: None, ..sent },
                Evidence { failed_at: at(1_500), ..none },
                Relapse,
            ),
            (
                "resolved after a redrive, then later failure",
                Known { status: Status::Resolved, ..sent },
                Evidence { failed_at: at(2_500), ..none },
                Relapse,
            ),
            (
                "discarded, later failure",
                known(Status::Discarded),
                Evidence { failed_at: at(2_500), ..none },
                NewDeath,
            ),
            (
                "stored by a clock that was set back since",
                Known { died_at: Time::from_ms(99_000), ..pending },
                Evidence { failed_at: at(9_000), ..none },
                NewDeath,
            ),
            (
                "stored by a clock that was set back since, and the same again",
                Known { died_at: Time::from_ms(99_000), ..pending },
                Evidence { failed_at: at(9_000), attempt_known: true, ..none },
                Duplicate,
            ),
            (
                "sent by a clock that was set back since",
                Known { sent_at: at(99_000), ..sent },
                Evidence { failed_at: at(9_000), ..none },
                Relapse,
            ),
            (
                "our mark of this life",
                sent,
                Evidence { mark: mark(OURS, 3), mark_sent: true, ..none },
                Relapse,
            ),
            (
                "our mark of this life, of a redrive that did not send it",
                sent,
                Evidence { mark: mark(OURS, 3), ..none },
                Duplicate,
            ),
            (
                "a mark of a letter that was never sent",
                pending,
                Evidence { mark: mark(OURS, 3), failed_at: at(1_000), ..none },
                Duplicate,
            ),
            (
                "a mark of a letter that was never sent, and a later failure",
                pending,
                Evidence { mark: mark(OURS, 3), failed_at: at(1_001), ..none },
                NewDeath,
            ),
            (
                "a letter that is out died in the future, and a mark proves the relapse",
                Known { died_at: Time::from_ms(99_000), ..sent },
                Evidence { mark: mark(OURS, 3), mark_sent: true, ..none },
                Relapse,
            ),
            (
                "our mark of an earlier life beats a later time",
                sent,
                Evidence { mark: mark(OURS, 2), failed_at: at(5_000), ..none },
                Duplicate,
            ),
            (
                "a mark of another letter is no evidence",
                sent,
                Evidence { mark: mark([2; 16], 3), ..none },
                Duplicate,
            ),
            ("the source says new", pending, Evidence { word: SourceWord::NewDeath, ..none }, NewDeath),
            (
                "the source says same, whatever the time",
                pending,
                Evidence { word: SourceWord::SameDeath, failed_at: at(5_000), ..none },
                Duplicate,
            ),
        ];
        for (name, known, evidence, expected) in cases {
            assert_eq!(judge(known, evidence), expected, "{name}");
        }
        assert_eq!(
            judge(sent, Evidence { mark: mark(OURS, 4), ..none }),
            Duplicate,
            "a mark from the future"
        );
    }

    #[test]
    fn a_letter_never_dies_after_it_was_captured() {
        let known = |ms| Known { died_at: Time::from_ms(ms), ..known(Status::Pending) };
        let last = |stored, died, captured| {
            last_death(known(stored), Time::from_ms(died), Time::from_ms(captured)).ms()
        };
        assert_eq!(last(1_000, 2_000, 3_000), 2_000);
        assert_eq!(last(2_500, 2_000, 3_000), 2_500);
        assert_eq!(last(99_000, 2_000, 3_000), 3_000);
    }
}
