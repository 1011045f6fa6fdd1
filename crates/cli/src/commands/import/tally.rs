//! What became of imported letters: counted, the ones that did not come in told with their lines.

use serde::Serialize;
use serde_json::json;

use crate::answers::import::ImportReceipt;
use crate::client::Problem;
use crate::failure::Outcome;
use crate::output::{Format, Screen, escape, moment, tell};

/// Letters told one by one, of each kind.
pub const TOLD_MAX: usize = 20;

/// Letters listed with `--json`, of each kind, so that a file of nothing but conflicts does not fill the memory.
const LISTED_MAX: usize = 10_000;

/// Whether the last line of the input was there and right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Right,
    Missing,
}

/// A letter that did not come in.
#[derive(Serialize, Debug)]
pub struct Trouble {
    pub line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub detail: String,
}

/// Letters of one kind of trouble: how many, and the first of them.
#[derive(Debug, Default)]
struct Troubles {
    count: u64,
    first: Vec<Trouble>,
}

impl Troubles {
    fn add(&mut self, trouble: Trouble) {
        self.count += 1;
        if self.first.len() < LISTED_MAX {
            self.first.push(trouble);
        }
    }
}

#[derive(Debug, Default)]
pub struct Tally {
    created: u64,
    known: u64,
    /// Letters that came in with a request that broke off: they are sent again and come back as known.
    sent_again: u64,
    conflicts: Troubles,
    refused: Troubles,
}

impl Tally {
    /// Takes down what the server says of one request; `place` finds the line of the input.
    pub fn take(&mut self, receipt: ImportReceipt, place: impl Fn(usize) -> usize) {
        self.come_in(receipt.created, receipt.known);
        for conflict in receipt.conflicts {
            let line = place(conflict.line);
            self.conflicts.add(Trouble { line, id: conflict.id, detail: conflict.detail });
        }
        for refusal in receipt.refused {
            self.refuse(Trouble { line: place(refusal.line), id: None, detail: refusal.detail });
        }
    }

    /// Takes down what came in before a request broke off, of which every line is sent again or given up.
    pub fn take_broken(&mut self, problem: &Problem) {
        self.come_in(problem.created, problem.known);
        self.sent_again = self.sent_again.saturating_add(problem.created).saturating_add(problem.known);
    }

    /// Nothing of what was sent so far is sent again.
    pub fn end_batch(&mut self) {
        self.sent_again = 0;
    }

    fn come_in(&mut self, created: u64, known: u64) {
        let repeated = known.min(self.sent_again);
        self.sent_again -= repeated;
        self.created = self.created.saturating_add(created);
        self.known = self.known.saturating_add(known - repeated);
    }

    pub fn refuse(&mut self, trouble: Trouble) {
        self.refused.add(trouble);
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        [self.created, self.known, self.conflicts.count, self.refused.count].iter().all(|count| *count == 0)
    }

    /// `created 990, known 10, conflicts 1, refused 3`
    pub fn summary(&self) -> String {
        let mut text = format!("created {}", moment::count(self.created));
        let more =
            [("known", self.known), ("conflicts", self.conflicts.count), ("refused", self.refused.count)];
        for (name, count) in more.into_iter().filter(|(_, count)| *count > 0) {
            text.push_str(&format!(", {name} {}", moment::count(count)));
        }
        text
    }

    /// Prints the counts, and what did not come in.
    pub fn tell(&self, end: End, screen: &mut Screen) -> anyhow::Result<Outcome> {
        match screen.format {
            Format::Json => {
                let json = json!({
                    "created": self.created,
                    "known": self.known,
                    "conflictCount": self.conflicts.count,
                    "refusedCount": self.refused.count,
                    "conflicts": self.conflicts.first,
                    "refused": self.refused.first,
                    "complete": end == End::Right,
                });
                screen.json(&json.to_string())?;
            }
            Format::Text => {
                self.lines().iter().for_each(|line| tell(line));
                screen.line(&self.summary())?;
            }
        }
        let failed = self.conflicts.count + self.refused.count;
        Ok(if failed > 0 { Outcome::Incomplete } else { Outcome::Done })
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, troubles) in [("conflict", &self.conflicts), ("refused", &self.refused)] {
            for trouble in troubles.first.iter().take(TOLD_MAX) {
                let id = trouble.id.as_ref().map(|id| format!(" with {id}")).unwrap_or_default();
                let text = format!("line {}: {name}{id}: {}", trouble.line, trouble.detail);
                lines.push(escape::line(&text));
            }
            let more = troubles.count.saturating_sub(TOLD_MAX as u64);
            if more > 0 {
                lines.push(format!("… and {} more; --json lists them", moment::count(more)));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let mut tally = Tally::default();
        let receipt = serde_json::from_str(
            r#"{"created":990,"known":10,"end":false,
                "conflicts":[{"line":2,"id":"019a8b1c-7e00-7000-8000-000000000000","detail":"another letter \u001b[2J"}],
                "refused":[{"line":3,"detail":"it has no id"}]}"#,
        );
        tally.take(receipt.unwrap(), |line| line * 10);
        tally
    }

    #[test]
    fn the_summary_names_what_happened() {
        assert_eq!(tally().summary(), "created 990, known 10, conflicts 1, refused 1");
        assert_eq!(Tally::default().summary(), "created 0");
    }

    #[test]
    fn what_did_not_come_in_is_told_with_its_line_and_without_harm() {
        assert_eq!(
            tally().lines(),
            [
                "line 20: conflict with 019a8b1c-7e00-7000-8000-000000000000: another letter \\u{1b}[2J",
                "line 30: refused: it has no id",
            ]
        );
    }

    #[test]
    fn the_first_twenty_are_told_and_the_others_counted() {
        let mut tally = Tally::default();
        for line in 1..=25 {
            tally.refuse(Trouble { line, id: None, detail: "x".into() });
        }
        let lines = tally.lines();
        assert_eq!((lines.len(), lines[20].as_str()), (21, "… and 5 more; --json lists them"));
    }
}
