//! The life of a dead letter: four states, three places, and every move between them. This is the whole machine.
//!
//! Stores bind their guards from here, the API lists the allowed actions from here, `docs/lifecycle.md` is printed
//! from here. Nothing else compares states to decide what is allowed.

use std::fmt;

/// What is to be done with a letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// Waits for a decision.
    Pending,
    /// Has been put back and is out there.
    Reprocessing,
    /// Its work is done.
    Resolved,
    /// Will never be sent again.
    Discarded,
}

/// Where a letter is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    Live,
    Archived,
    /// Only a tombstone is left, and for a while perhaps the content.
    Deleted,
}

/// What can happen to a letter that exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// A claim takes it to be put back.
    Redrive,
    /// The work succeeded.
    Confirm,
    /// It was definitely not published.
    Unclaim,
    /// It failed for good again.
    DieAgain,
    /// Its job ended without a dead letter: cancelled, dropped or expired.
    EndWithoutDeadLetter,
    /// The source shows that the work was done without us.
    SettleElsewhere,
    /// A person says that the work is done.
    Resolve,
    /// A person says that it shall never be sent again.
    Discard,
    Reopen,
    Hold,
    Release,
    Archive,
    Restore,
    /// Removed by policy.
    Prune,
    /// Removed by hand.
    Delete,
}

/// What a decision about a letter needs to know of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Standing {
    pub status: Status,
    pub place: Place,
    pub held: bool,
    /// For a deleted letter: whether its content can still be had back.
    pub content_kept: bool,
}

/// Where an action leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// The letter goes on like this.
    Moves { status: Status, place: Place, life: Life },
    /// The letter is only a tombstone: a new letter begins and names the old one.
    NewLetter,
}

/// Whether the move begins another life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Life {
    Same,
    Next,
}

/// An action that the letter's standing does not allow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot {action} a letter that is {standing}")]
pub struct Refused {
    pub action: Action,
    pub standing: Standing,
}

impl Refused {
    /// Whether it would be allowed if no hold were on the letter.
    pub fn is_for_hold(&self) -> bool {
        self.standing.held && Standing { held: false, ..self.standing }.after(self.action).is_ok()
    }
}

/// One row of the machine: from these states in this place, the action leads there.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub place: Place,
    pub from: &'static [Status],
    /// `None` keeps the state.
    pub to: Option<Status>,
    pub to_place: Place,
    pub life: Life,
    pub hold: HoldRule,
    /// The row applies only while the content of a deleted letter is kept.
    pub needs_content: bool,
}

/// What a row asks of the hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HoldRule {
    /// It does not matter.
    Any,
    /// There must be none.
    Free,
    /// There must be one.
    Held,
}

use Place::{Archived, Deleted, Live};
use Status::{Discarded, Pending, Reprocessing, Resolved};

const ANY: &[Status] = &[Pending, Reprocessing, Resolved, Discarded];
const SETTLED: &[Status] = &[Pending, Resolved, Discarded];

/// A row among live letters that keeps place and life; the rest of the table says where it differs.
const fn live(from: &'static [Status], to: Status) -> Row {
    Row {
        place: Live,
        from,
        to: Some(to),
        to_place: Live,
        life: Life::Same,
        hold: HoldRule::Any,
        needs_content: false,
    }
}

/// A row that keeps the state and changes the place.
const fn moved(place: Place, to_place: Place) -> Row {
    Row {
        place,
        from: SETTLED,
        to: None,
        to_place,
        life: Life::Same,
        hold: HoldRule::Any,
        needs_content: false,
    }
}

/// A row that keeps everything: the action only marks the letter.
const fn marked(place: Place, from: &'static [Status]) -> Row {
    Row {
        place,
        from,
        to: None,
        to_place: place,
        life: Life::Same,
        hold: HoldRule::Any,
        needs_content: false,
    }
}

impl Action {
    pub const ALL: [Action; 15] = [
        Action::Redrive,
        Action::Confirm,
        Action::Unclaim,
        Action::DieAgain,
        Action::EndWithoutDeadLetter,
        Action::SettleElsewhere,
        Action::Resolve,
        Action::Discard,
        Action::Reopen,
        Action::Hold,
        Action::Release,
        Action::Archive,
        Action::Restore,
        Action::Prune,
        Action::Delete,
    ];

    /// The rows of the machine for this action. The states of the rows of one place never overlap.
    pub const fn rows(self) -> &'static [Row] {
        match self {
            Action::Redrive => const { &[live(&[Pending], Reprocessing)] },
            Action::Confirm => const { &[live(&[Reprocessing], Resolved)] },
            Action::Unclaim => const { &[live(&[Reprocessing], Pending)] },
            Action::DieAgain => {
                const {
                    &[
                        Row { life: Life::Next, ..live(&[Pending, Reprocessing, Resolved], Pending) },
                        live(&[Discarded], Discarded),
                        Row { place: Archived, from: SETTLED, life: Life::Next, ..live(SETTLED, Pending) },
                    ]
                }
            }
            Action::EndWithoutDeadLetter => const { &[live(&[Reprocessing], Discarded)] },
            Action::SettleElsewhere | Action::Resolve => const { &[live(&[Pending], Resolved)] },
            Action::Discard => const { &[Row { hold: HoldRule::Free, ..live(&[Pending], Discarded) }] },
            Action::Reopen => const { &[live(&[Resolved, Discarded], Pending)] },
            Action::Hold => const { &[marked(Live, ANY), marked(Archived, SETTLED)] },
            Action::Release => {
                const {
                    &[
                        Row { hold: HoldRule::Held, ..marked(Live, ANY) },
                        Row { hold: HoldRule::Held, ..marked(Archived, SETTLED) },
                    ]
                }
            }
            Action::Archive => const { &[Row { hold: HoldRule::Free, ..moved(Live, Archived) }] },
            Action::Restore => {
                const { &[moved(Archived, Live), Row { needs_content: true, ..moved(Deleted, Live) }] }
            }
            Action::Prune | Action::Delete => {
                const {
                    &[
                        Row { hold: HoldRule::Free, ..moved(Live, Deleted) },
                        Row { hold: HoldRule::Free, ..moved(Archived, Deleted) },
                    ]
                }
            }
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Action::Redrive => "redrive",
            Action::Confirm => "confirm",
            Action::Unclaim => "unclaim",
            Action::DieAgain => "die_again",
            Action::EndWithoutDeadLetter => "end_without_dead_letter",
            Action::SettleElsewhere => "settle_elsewhere",
            Action::Resolve => "resolve",
            Action::Discard => "discard",
            Action::Reopen => "reopen",
            Action::Hold => "hold",
            Action::Release => "release",
            Action::Archive => "archive",
            Action::Restore => "restore",
            Action::Prune => "prune",
            Action::Delete => "delete",
        }
    }
}

impl HoldRule {
    pub const fn allows(self, held: bool) -> bool {
        match self {
            HoldRule::Any => true,
            HoldRule::Free => !held,
            HoldRule::Held => held,
        }
    }
}

impl Standing {
    /// A live letter that nobody holds.
    pub const fn live(status: Status) -> Standing {
        Standing { status, place: Place::Live, held: false, content_kept: true }
    }

    /// Where `action` leads from here, or why it does not.
    pub fn after(self, action: Action) -> Result<Next, Refused> {
        if action == Action::DieAgain && self.place == Place::Deleted {
            return Ok(Next::NewLetter);
        }
        let row = action.rows().iter().find(|row| {
            row.place == self.place
                && row.from.contains(&self.status)
                && row.hold.allows(self.held)
                && (!row.needs_content || self.content_kept)
        });
        match row {
            Some(row) => {
                Ok(Next::Moves { status: row.to.unwrap_or(self.status), place: row.to_place, life: row.life })
            }
            None => Err(Refused { action, standing: self }),
        }
    }

    /// The actions that lead somewhere from here, in the order of the machine.
    pub fn allowed(self) -> impl Iterator<Item = Action> {
        Action::ALL.into_iter().filter(move |action| self.after(*action).is_ok())
    }
}

impl Status {
    pub const ALL: [Status; 4] = [Pending, Reprocessing, Resolved, Discarded];

    pub const fn name(self) -> &'static str {
        match self {
            Pending => "pending",
            Reprocessing => "reprocessing",
            Resolved => "resolved",
            Discarded => "discarded",
        }
    }

    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == text)
    }
}

impl Place {
    pub const ALL: [Place; 3] = [Live, Archived, Deleted];

    pub const fn name(self) -> &'static str {
        match self {
            Live => "live",
            Archived => "archived",
            Deleted => "deleted",
        }
    }

    pub fn parse(text: &str) -> Option<Place> {
        Place::ALL.into_iter().find(|place| place.name() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Live => write!(f, "{}", self.status)?,
            Archived | Deleted => write!(f, "{} and {}", self.status, self.place)?,
        }
        if self.held { f.write_str(" and on hold") } else { Ok(()) }
    }
}

/// The machine as a table for `docs/lifecycle.md`: every standing, every action.
pub fn table() -> String {
    let mut text = String::from("| a letter that is | can |\n|---|---|\n");
    for place in Place::ALL {
        for status in Status::ALL {
            for held in [false, true] {
                // Nothing but a hold tells these apart; a reprocessing letter is never anywhere but live.
                let standing = Standing { status, place, held, content_kept: true };
                text.push_str(&format!("| {standing} |"));
                let mut moves = Vec::new();
                for action in Action::ALL {
                    match standing.after(action) {
                        Ok(Next::NewLetter) => moves.push(format!("{action} → new letter")),
                        Ok(Next::Moves { status: to, place: to_place, life }) => {
                            let mut end = to.to_string();
                            if to_place != Live {
                                end.push_str(&format!(", {to_place}"));
                            }
                            if life == Life::Next {
                                end.push_str(", next life");
                            }
                            moves.push(format!("{action} → {end}"));
                        }
                        Err(_) => {}
                    }
                }
                text.push_str(&format!(
                    " {} |\n",
                    if moves.is_empty() { "–".into() } else { moves.join("; ") }
                ));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_place_and_action() {
        insta::assert_snapshot!("machine", table());
    }

    #[test]
    fn the_table_in_the_docs_is_this_one() {
        let docs = include_str!("../../../docs/lifecycle.md");
        assert!(docs.ends_with(&table()), "docs/lifecycle.md should end with:\n{}", table());
    }

    #[test]
    fn a_tombstone_without_content_cannot_be_restored() {
        for status in SETTLED {
            let gone = Standing { status: *status, place: Deleted, held: false, content_kept: false };
            assert!(gone.after(Action::Restore).is_err());
            assert_eq!(gone.after(Action::DieAgain), Ok(Next::NewLetter));
        }
    }

    #[test]
    fn a_hold_refuses_removal_and_nothing_else() {
        for status in Status::ALL {
            for place in [Live, Archived] {
                let free = Standing { status, place, held: false, content_kept: true };
                let held = Standing { held: true, ..free };
                for action in Action::ALL {
                    let removes =
                        matches!(action, Action::Discard | Action::Archive | Action::Prune | Action::Delete);
                    if action == Action::Release {
                        assert!(free.after(action).is_err(), "there is nothing to release");
                    } else if removes {
                        assert!(held.after(action).is_err(), "{action} {held}");
                    } else {
                        assert_eq!(free.after(action).ok(), held.after(action).ok(), "{action} {held}");
                    }
                }
            }
        }
    }

    #[test]
    fn capture_is_never_refused_because_of_a_state() {
        for place in Place::ALL {
            for status in SETTLED {
                for held in [false, true] {
                    let standing = Standing { status: *status, place, held, content_kept: false };
                    assert!(standing.after(Action::DieAgain).is_ok(), "{standing}");
                }
            }
        }
        assert!(Standing::live(Reprocessing).after(Action::DieAgain).is_ok());
    }

    #[test]
    fn rows_of_one_action_and_place_never_overlap() {
        for action in Action::ALL {
            for place in Place::ALL {
                for status in Status::ALL {
                    let hits = action
                        .rows()
                        .iter()
                        .filter(|row| row.place == place && row.from.contains(&status))
                        .count();
                    assert!(hits <= 1, "{action} {place} {status}");
                }
            }
        }
    }
}
