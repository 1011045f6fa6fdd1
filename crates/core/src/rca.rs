//! The root-cause analysis of an incident: what is written, what a fix is, and the document they make.

use std::fmt::Write as _;

use crate::class::Category;
use crate::limits;
use crate::time::Time;

/// What a person found out, before it has a revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Analysis {
    pub category: Category,
    pub root_cause: String,
    /// What was done about it, or shall be.
    pub remediation: String,
}

/// One revision of the analysis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rca {
    /// From 1 upward; the last one holds.
    pub revision: u32,
    pub analysis: Analysis,
    pub author: String,
    pub at: Time,
}

/// What makes it safe to put letters back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    pub kind: FixKind,
    /// A pull request, commit or deployment; for a decision, where it is written down.
    pub reference: String,
    /// From when on it holds: letters that died before inherit the analysis.
    pub fixed_at: Time,
    pub author: String,
    /// When it was named.
    pub at: Time,
    /// The revision of the analysis that it was named under.
    pub revision: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FixKind {
    /// A change that is deployed.
    Deployed,
    /// A decision by an approver, which stands in for the fix of a business error.
    Decision,
}

impl FixKind {
    pub const ALL: [FixKind; 2] = [FixKind::Deployed, FixKind::Decision];

    pub const fn name(self) -> &'static str {
        match self {
            FixKind::Deployed => "deployed",
            FixKind::Decision => "decision",
        }
    }

    pub fn parse(text: &str) -> Option<FixKind> {
        FixKind::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// A part of an analysis or fix that cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRca {
    #[error("`{0}` must not be empty")]
    Empty(&'static str),
    #[error("`{0}` has {1} characters; the maximum is {2}")]
    TooLong(&'static str, usize, usize),
    #[error("`fixedAt` is in the future; link the fix once it is deployed")]
    NotYet,
}

impl Analysis {
    /// Takes what a person wrote, without the blanks around it.
    pub fn new(category: Category, root_cause: &str, remediation: &str) -> Result<Analysis, BadRca> {
        let max = limits::RCA_TEXT_CHARS_MAX;
        Ok(Analysis {
            category,
            root_cause: text("rootCause", root_cause, max)?,
            remediation: text("remediation", remediation, max)?,
        })
    }
}

impl Fix {
    /// Takes the reference and time of a fix. A minute of difference between clocks is no lie.
    pub fn check(reference: &str, fixed_at: Time, now: Time) -> Result<String, BadRca> {
        if fixed_at.since(now) > limits::CLOCK_DIFFERENCE_MS_MAX {
            return Err(BadRca::NotYet);
        }
        text("reference", reference, limits::FIX_REFERENCE_CHARS_MAX)
    }
}

fn text(name: &'static str, value: &str, max: usize) -> Result<String, BadRca> {
    let value = value.trim();
    let length = value.chars().count();
    if length == 0 {
        return Err(BadRca::Empty(name));
    }
    if length > max {
        return Err(BadRca::TooLong(name, length, max));
    }
    Ok(value.to_owned())
}

/// What the document of RULE-040-031 says of an incident.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document<'a> {
    pub letter_type: &'a str,
    pub opened_at: Time,
    pub letters: u64,
    /// The error's type and its message with what varies taken out.
    pub error: &'a str,
    pub rca: Option<&'a Rca>,
    pub fix: Option<&'a Fix>,
    pub redriven_at: Option<Time>,
}

const OPEN: &str = "_not yet_";

impl Document<'_> {
    /// The Markdown text, line for line as the rule has it, with what we know besides below it.
    pub fn render(&self) -> String {
        let date = |at: Time| at.to_string().chars().take(10).collect::<String>();
        let redriven = self.redriven_at.map_or(OPEN.to_owned(), date);
        let fix = self.fix.map_or(OPEN.to_owned(), |fix| line(&fix.reference));
        let cause = self.rca.map_or(OPEN.to_owned(), |rca| line(&rca.analysis.root_cause));
        let mut out = format!("## DLE Incident: {}\n", line(self.letter_type));
        // Writing to a string cannot fail.
        write!(
            out,
            "- **Date**: {}\n- **Count**: {} events\n- **Error**: {}\n- **Root Cause**: {cause}\n- **Fix Applied**: \
             {fix}\n- **Redrive Date**: {redriven}\n",
            date(self.opened_at),
            self.letters,
            line(self.error),
        )
        .ok();
        if let Some(rca) = self.rca {
            write!(
                out,
                "\n- **Category**: {}\n- **Remediation**: {}\n- **Analysis by**: {}, {}, revision {}\n",
                rca.analysis.category.name(),
                line(&rca.analysis.remediation),
                line(&rca.author),
                rca.at,
                rca.revision,
            )
            .ok();
        }
        if let Some(fix) = self.fix {
            writeln!(out, "- **Fixed at**: {} ({})", fix.fixed_at, fix.kind.name()).ok();
        }
        out
    }
}

/// One line of a list, whatever was written: a line break would end the entry. What could be HTML is a code span, which
/// reads the same in a terminal and is never markup.
fn line(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !joined.contains('<') {
        return joined;
    }
    let longest = joined.split(|sign| sign != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if joined.starts_with('`') || joined.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{joined}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_analysis_has_a_cause_and_a_remedy() {
        let new = |cause: &str, remedy: &str| Analysis::new(Category::Contract, cause, remedy);
        assert_eq!(new("  a cause ", "done").unwrap().root_cause, "a cause");
        assert_eq!(new(" ", "done"), Err(BadRca::Empty("rootCause")));
        assert_eq!(new("x", "\n"), Err(BadRca::Empty("remediation")));
        let long = "x".repeat(limits::RCA_TEXT_CHARS_MAX + 1);
        assert!(matches!(new(&long, "x"), Err(BadRca::TooLong("rootCause", ..))));
    }

    #[test]
    fn a_fix_is_not_in_the_future() {
        let now = Time::from_ms(10_000_000);
        assert_eq!(Fix::check("PR 4711", now.plus_ms(1_000), now).unwrap(), "PR 4711");
        assert_eq!(Fix::check("PR 4711", now.plus_ms(3_600_000), now), Err(BadRca::NotYet));
        assert_eq!(Fix::check("", now, now), Err(BadRca::Empty("reference")));
    }

    #[test]
    fn placeholders_are_printed_as_they_are_and_are_no_markup() {
        assert_eq!(line("connect to <ip>:5432\nrefused"), "`connect to <ip>:5432 refused`");
        assert_eq!(line("no `currency` & nothing else"), "no `currency` & nothing else");
        assert_eq!(line("a ``b`` <c>"), "```a ``b`` <c>```");
        assert_eq!(line("`a` <b>"), "`` `a` <b> ``");
    }

    #[test]
    fn the_document_is_that_of_the_rule() {
        let at = Time::parse("2026-11-15T03:00:00Z").unwrap();
        let analysis = Analysis::new(Category::Contract, "field\nmissing <b>", "added it").unwrap();
        let rca = Rca { revision: 2, analysis, author: "ann".into(), at };
        let fix = Fix {
            kind: FixKind::Deployed,
            reference: "PR 4711".into(),
            fixed_at: at,
            author: "ann".into(),
            at,
            revision: 2,
        };
        let mut document = Document {
            letter_type: "OrderCreated",
            opened_at: at,
            letters: 12,
            error: "TypeError: no currency",
            rca: Some(&rca),
            fix: Some(&fix),
            redriven_at: Some(at),
        };
        let head = "## DLE Incident: OrderCreated\n- **Date**: 2026-11-15\n- **Count**: 12 events\n\
                    - **Error**: TypeError: no currency\n- **Root Cause**: `field missing <b>`\n\
                    - **Fix Applied**: PR 4711\n- **Redrive Date**: 2026-11-15\n";
        assert!(document.render().starts_with(head), "{}", document.render());
        (document.rca, document.fix, document.redriven_at) = (None, None, None);
        assert!(document.render().contains("- **Fix Applied**: _not yet_\n"));
    }
}
