//! The table of the outbox rules (RULE-040-…) with the tests that are named after them, kept in `docs/rules-040.md`.
//! Made from the names of tests, so that it cannot claim what nothing checks.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tidy;

/// Every rule of the document, by number and title.
const RULES: [(&str, &str); 21] = [
    ("001", "DLE Isolation Is Mandatory"),
    ("002", "Maximum Retry Threshold"),
    ("003", "DLE Metadata"),
    ("010", "Exponential Backoff Is Mandatory"),
    ("011", "Jitter Is Required"),
    ("012", "Maximum Delay Cap"),
    ("013", "Immediate Retry Prohibition"),
    ("020", "DLE Alerting Is Mandatory"),
    ("021", "DLE Visibility"),
    ("030", "RCA Before Redrive"),
    ("031", "RCA Documentation"),
    ("032", "Error Classification"),
    ("040", "Controlled Redrive"),
    ("041", "Redrive Rate Limiting"),
    ("042", "Post-Redrive Verification"),
    ("050", "Upcasters for Schema Changes"),
    ("051", "Backward Compatibility Window"),
    ("052", "Breaking Changes"),
    ("060", "No Silent DLE"),
    ("061", "No Auto-Delete of DLE"),
    ("062", "No Redrive Without Fix"),
];

/// What a test has in its name, before the number of the rule.
const MARK: &str = "rule_040_";

/// A test that is named after a rule.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    file: PathBuf,
    name: String,
}

pub(crate) fn file(root: &Path) -> PathBuf {
    root.join("docs/rules-040.md")
}

/// The page as it should be, from the sources below `root`.
pub(crate) fn page(root: &Path) -> Result<String> {
    let mut named = Vec::new();
    for file in tidy::sources(&root.join("crates"))? {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let short = file.strip_prefix(root).unwrap_or(&file).to_owned();
        named.extend(tests_in(&text).map(|name| Named { file: short.clone(), name: name.to_owned() }));
    }
    Ok(render(&named))
}

fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))?;
        let name = rest.split(['(', '<']).next()?;
        name.contains(MARK).then_some(name)
    })
}

fn render(named: &[Named]) -> String {
    let mut rows = String::new();
    let mut open = 0;
    for (number, title) in RULES {
        let mark = format!("{MARK}{number}");
        let tests: Vec<String> = named
            .iter()
            .filter(|test| test.name.contains(&mark))
            .map(|test| format!("[`{}`](../{})", test.name, test.file.display()))
            .collect();
        let (state, tests) = match tests.is_empty() {
            true => ("open", "–".to_owned()),
            false => ("tested", tests.join("<br>")),
        };
        open += usize::from(state == "open");
        writeln!(rows, "| RULE-040-{number} | {title} | {state} | {tests} |")
            .expect("writing to a string cannot fail");
    }
    format!(
        "# The rules for dead letters of an outbox, and what proves them\n\n\
         Made by `cargo xtask rules` from the names of tests; a test keeps it up to date. A rule without a test of its \
         name is open.\n\n\
         {} of {} rules are tested, {open} are open.\n\n\
         | rule | title | state | tests |\n|---|---|---|---|\n{rows}",
        RULES.len() - open,
        RULES.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_their_names() {
        let text = "#[test]\nfn rule_040_030_a() {}\n    async fn x_rule_040_031<T>() {}\n// fn rule_040_032() {}\nfn y() {}";
        assert_eq!(tests_in(text).collect::<Vec<_>>(), ["rule_040_030_a", "x_rule_040_031"]);
    }

    #[test]
    fn a_rule_without_a_test_is_open() {
        let page = render(&[Named { file: "crates/a.rs".into(), name: "rule_040_030_a".into() }]);
        assert!(page.contains("1 of 21 rules are tested, 20 are open."), "{page}");
        let row = "| RULE-040-030 | RCA Before Redrive | tested | [`rule_040_030_a`](../crates/a.rs) |\n";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("| RULE-040-031 | RCA Documentation | open | – |\n"), "{page}");
    }

    #[test]
    fn the_page_is_up_to_date() {
        let root = crate::cargo::workspace_root();
        let kept = std::fs::read_to_string(file(&root)).unwrap_or_default();
        assert_eq!(kept, page(&root).unwrap(), "run `cargo xtask rules`");
    }
}
