//! Scores the fingerprint on production errors whose causes are known: does it put together what one fix cures, and
//! keep apart what needs two?
//!
//! `corpus/` was written beside the algorithm, `holdout/` and `unseen/` by two who did not know it. `field/` holds the shapes
//! that failed in use (wrappers of Spring, deadlocks, quoted subjects, ids in prose), labelled before it was run. All are
//! text, one file per language and one for errors without a backtrace:
//!
//! ```text
//! ## group-name: one sentence why these are one cause
//! ### letter.type | ErrorTypeAsReported | code-or-empty
//! message text, one line or more
//! | a line of the backtrace
//! ```
//!
//! `␍` stands for a carriage return, which no editor would show. A group's errors share their letter type, and many
//! groups share one, so that the type does not do the work. This must never learn from the algorithm: when a cause is
//! split or merged, the algorithm changes and not the corpus.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{FingerprintRules, Parts, Subject, group};
use crate::attempt::LetterError;

/// Below this, operators stop trusting incidents to be one cause each.
const F1_MIN: f64 = 0.95;
/// The share of groups that may be split, or share a fingerprint with another.
const FAULTY_GROUPS_MAX: f64 = 0.10;
const ERRORS_MIN: usize = 150;
const GROUPS_MIN: usize = 40;
/// What a corpus without the backtraces of one runtime says nothing about.
const LANGUAGES: [&str; 9] = ["jvm", "python", "go", "node", "dotnet", "rust", "ruby", "php", "elixir"];

/// A folder's files by their language.
macro_rules! folder {
    ($folder:literal) => {
        folder!($folder: "jvm" "python" "go" "node" "dotnet" "rust" "ruby" "php" "elixir" "messages")
    };
    ($folder:literal: $($language:literal)+) => {
        [$(($language, include_str!(concat!($folder, "/", $language, ".txt")))),+]
    };
}

#[test]
fn one_cause_is_one_fingerprint() {
    check("corpus", &folder!("corpus"));
}

#[test]
fn one_cause_is_one_fingerprint_in_errors_that_the_algorithm_was_not_made_for() {
    check("holdout", &folder!("holdout"));
}

#[test]
fn one_cause_is_one_fingerprint_in_errors_of_a_second_stranger() {
    check("unseen", &folder!("unseen"));
}

#[test]
fn one_cause_is_one_fingerprint_in_errors_from_the_field() {
    check("field", &folder!("field"));
}

#[track_caller]
fn check(name: &str, files: &[(&str, &str)]) {
    let samples = samples_of(files).unwrap_or_else(|malformed| panic!("{name}/{malformed}"));
    for language in LANGUAGES {
        assert!(samples.iter().any(|sample| sample.language == language), "{name}: nothing in {language}");
    }
    let score = Score::of(&samples);
    println!("{name}: {score}");
    assert!(samples.len() >= ERRORS_MIN, "{name}: only {} errors", samples.len());
    assert!(score.groups >= GROUPS_MIN, "{name}: only {} groups", score.groups);
    assert!(score.all.f1() >= F1_MIN, "{name}: F1 over all pairs is {:.4}", score.all.f1());
    let faulty = score.faulty_groups().len();
    assert!(
        faulty as f64 <= FAULTY_GROUPS_MAX * score.groups as f64,
        "{name}: {faulty} of {} groups are split or merged",
        score.groups
    );
}

/// One error of known cause, and what the fingerprint made of it.
struct Sample {
    language: String,
    /// The cause, as `language/name`.
    group: String,
    letter_type: String,
    fingerprint: String,
    /// Why the fingerprint is what it is, for the reader of a confusion.
    parts: String,
}

/// Group, fingerprint and parts of each error of a text in the form of the corpora.
pub(super) fn fingerprints_of(text: &str) -> Vec<(String, String, String)> {
    let samples = samples_of(&[("", text.trim_start())]).unwrap_or_else(|malformed| panic!("{malformed}"));
    samples.into_iter().map(|it| (it.group, it.fingerprint, it.parts)).collect()
}

fn samples_of(files: &[(&str, &str)]) -> Result<Vec<Sample>, String> {
    let rules = FingerprintRules::default();
    let mut samples = Vec::new();
    for (language, text) in files {
        for case in cases_of(text).map_err(|malformed| format!("{language}.txt:{malformed}"))? {
            let subject = Subject {
                source: "report",
                queue: "default",
                letter_type: &case.letter_type,
                tenant: None,
                error: &case.error,
            };
            let grouping = group(subject, &rules);
            samples.push(Sample {
                language: (*language).to_owned(),
                group: format!("{language}/{}", case.group),
                letter_type: case.letter_type,
                fingerprint: grouping.fingerprint.to_string(),
                parts: line_of(&grouping.parts),
            });
        }
    }
    Ok(samples)
}

/// What the fingerprint is made of, innermost frame first, in one line.
fn line_of(parts: &Parts) -> String {
    let line = format!("{} | {} | {}", parts.error_type, parts.frames.join(" < "), parts.template);
    line.replace('\n', " ⏎ ")
}

/// How often two errors of one cause met (or missed) each other, and how often two causes were mixed up.
#[derive(Default)]
struct Pairs {
    together: usize,
    split: usize,
    merged: usize,
}

impl Pairs {
    fn count(&mut self, left: &Sample, right: &Sample) {
        match (left.group == right.group, left.fingerprint == right.fingerprint) {
            (true, true) => self.together += 1,
            (true, false) => self.split += 1,
            (false, true) => self.merged += 1,
            (false, false) => {}
        }
    }

    fn precision(&self) -> f64 {
        share(self.together, self.together + self.merged)
    }

    fn recall(&self) -> f64 {
        share(self.together, self.together + self.split)
    }

    fn f1(&self) -> f64 {
        harmonic_mean(self.precision(), self.recall())
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "precision {:.4}, recall {:.4}, F1 {:.4}", self.precision(), self.recall(), self.f1())?;
        write!(f, " ({} together, {} split, {} merged)", self.together, self.split, self.merged)
    }
}

/// A share of nothing is whole: no pair, no mistake.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

fn harmonic_mean(left: f64, right: f64) -> f64 {
    if left + right == 0.0 { 0.0 } else { 2.0 * left * right / (left + right) }
}

struct Score {
    errors: usize,
    groups: usize,
    /// Over all pairs of errors.
    all: Pairs,
    /// Over the pairs of one letter type, where the type cannot tell causes apart.
    one_type: Pairs,
    /// The mean over groups of how pure and how whole each is, so that a small group counts as much as a large one.
    macro_precision: f64,
    macro_recall: f64,
    splits: Vec<Split>,
    merges: Vec<Merge>,
}

/// A cause with more than one fingerprint: each with its number of errors and its parts.
struct Split {
    group: String,
    into: Vec<(usize, String)>,
}

/// A fingerprint with more than one cause.
struct Merge {
    groups: BTreeMap<String, usize>,
    parts: String,
}

impl Score {
    fn of(samples: &[Sample]) -> Score {
        let (mut all, mut one_type) = (Pairs::default(), Pairs::default());
        for (index, left) in samples.iter().enumerate() {
            for right in &samples[..index] {
                all.count(left, right);
                if left.letter_type == right.letter_type {
                    one_type.count(left, right);
                }
            }
        }
        let by_group = gather(samples, |sample| &sample.group);
        let by_fingerprint = gather(samples, |sample| &sample.fingerprint);
        let (mut precision, mut recall) = (0.0, 0.0);
        for (name, members) in &by_group {
            let (mut pure, mut whole) = (0.0, 0.0);
            for member in members {
                let alike = &by_fingerprint[member.fingerprint.as_str()];
                let own = alike.iter().filter(|sample| sample.group == *name).count();
                pure += share(own, alike.len());
                whole += share(own, members.len());
            }
            precision += pure / members.len() as f64;
            recall += whole / members.len() as f64;
        }
        Score {
            errors: samples.len(),
            groups: by_group.len(),
            all,
            one_type,
            macro_precision: precision / by_group.len().max(1) as f64,
            macro_recall: recall / by_group.len().max(1) as f64,
            splits: splits_of(&by_group),
            merges: merges_of(&by_fingerprint),
        }
    }

    fn faulty_groups(&self) -> BTreeSet<&str> {
        let split = self.splits.iter().map(|split| split.group.as_str());
        split.chain(self.merges.iter().flat_map(|merge| merge.groups.keys().map(String::as_str))).collect()
    }
}

fn gather<'a>(
    samples: &'a [Sample],
    key: impl Fn(&'a Sample) -> &'a String,
) -> BTreeMap<&'a str, Vec<&'a Sample>> {
    let mut gathered: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        gathered.entry(key(sample)).or_default().push(sample);
    }
    gathered
}

fn splits_of(by_group: &BTreeMap<&str, Vec<&Sample>>) -> Vec<Split> {
    let mut splits = Vec::new();
    for (group, members) in by_group {
        let mut into: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        for member in members {
            into.entry(&member.fingerprint).or_insert_with(|| (0, member.parts.clone())).0 += 1;
        }
        if into.len() > 1 {
            splits.push(Split { group: (*group).to_owned(), into: into.into_values().collect() });
        }
    }
    splits
}

fn merges_of(by_fingerprint: &BTreeMap<&str, Vec<&Sample>>) -> Vec<Merge> {
    let mut merges = Vec::new();
    for alike in by_fingerprint.values() {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for sample in alike {
            *groups.entry(sample.group.clone()).or_default() += 1;
        }
        if groups.len() > 1 {
            merges.push(Merge { groups, parts: alike[0].parts.clone() });
        }
    }
    merges
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} errors in {} groups", self.errors, self.groups)?;
        writeln!(f, "  all pairs: {}", self.all)?;
        writeln!(f, "  pairs of one letter type: {}", self.one_type)?;
        let macro_f1 = harmonic_mean(self.macro_precision, self.macro_recall);
        let (precision, recall) = (self.macro_precision, self.macro_recall);
        writeln!(f, "  by group: precision {precision:.4}, recall {recall:.4}, F1 {macro_f1:.4}")?;
        writeln!(f, "  faulty groups: {} of {}", self.faulty_groups().len(), self.groups)?;
        for split in &self.splits {
            writeln!(f, "split: {} into {}:", split.group, split.into.len())?;
            for (errors, parts) in &split.into {
                writeln!(f, "    {errors} x {parts}")?;
            }
        }
        for merge in &self.merges {
            let groups: Vec<String> =
                merge.groups.iter().map(|(group, errors)| format!("{group} ({errors})")).collect();
            writeln!(f, "merged: {}:\n    {}", groups.join(" with "), merge.parts)?;
        }
        Ok(())
    }
}

/// One error as a file states it.
struct Case {
    group: String,
    letter_type: String,
    error: LetterError,
}

/// The cases of one file, or the number of the first line that breaks the format, and how.
fn cases_of(text: &str) -> Result<Vec<Case>, String> {
    let mut groups = BTreeSet::new();
    let mut group: Option<Group> = None;
    let mut cases = Vec::new();
    let mut case: Option<OpenCase> = None;
    // Split at line feeds alone: a carriage return is part of the error.
    for (number, line) in (1..).zip(text.split('\n')) {
        let at = |what: &str| format!("{number}: {what}");
        if line.starts_with('#')
            && let Some(open) = case.take()
        {
            cases.push(open.close()?);
        }
        if let Some(heading) = line.strip_prefix("## ") {
            if group.as_ref().is_some_and(|group| group.letter_type.is_none()) {
                return Err(at("the group above has no errors"));
            }
            let name = group_name(heading).ok_or_else(|| at("expected `## kebab-case-name: why`"))?;
            if !groups.insert(name) {
                return Err(at("this name is taken by a group above"));
            }
            group = Some(Group { name, letter_type: None });
        } else if let Some(heading) = line.strip_prefix("### ") {
            let group = group.as_mut().ok_or_else(|| at("an error before the first group"))?;
            case = Some(OpenCase::open(group, heading, number)?);
        } else if line.starts_with('#') {
            return Err(at("a heading opens with `## ` or `### `"));
        } else if let Some(open) = case.as_mut() {
            open.take(line).map_err(at)?;
        } else if !line.trim().is_empty() {
            return Err(at("text outside of an error"));
        }
    }
    if let Some(open) = case {
        cases.push(open.close()?);
    }
    if group.is_none_or(|group| group.letter_type.is_none()) {
        return Err("1: no groups, or the last one is empty".to_owned());
    }
    Ok(cases)
}

struct Group<'a> {
    name: &'a str,
    /// That of its first error, which all others share.
    letter_type: Option<&'a str>,
}

fn group_name(heading: &str) -> Option<&str> {
    let (name, why) = heading.split_once(": ")?;
    let is_kebab = name
        .split('-')
        .all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
    (is_kebab && !why.trim().is_empty()).then_some(name)
}

/// A case whose lines are still being read.
struct OpenCase<'a> {
    number: usize,
    case: Case,
    message: Vec<&'a str>,
    backtrace: Vec<&'a str>,
    is_over: bool,
}

impl<'a> OpenCase<'a> {
    fn open(group: &mut Group<'a>, heading: &'a str, number: usize) -> Result<OpenCase<'a>, String> {
        let fields: Vec<&str> = heading.split('|').map(str::trim).collect();
        let &[letter_type, error_type, code] = fields.as_slice() else {
            return Err(format!("{number}: expected `### letter.type | ErrorType | code`"));
        };
        if letter_type.is_empty() || *group.letter_type.get_or_insert(letter_type) != letter_type {
            return Err(format!("{number}: the errors of a group share one letter type"));
        }
        let error = LetterError {
            error_type: error_type.to_owned(),
            code: (!code.is_empty()).then(|| code.to_owned()),
            ..LetterError::default()
        };
        let case = Case { group: group.name.to_owned(), letter_type: letter_type.to_owned(), error };
        Ok(OpenCase { number, case, message: Vec::new(), backtrace: Vec::new(), is_over: false })
    }

    fn take(&mut self, line: &'a str) -> Result<(), &'static str> {
        if let Some(traced) = line.strip_prefix('|') {
            if self.is_over {
                return Err("a second backtrace, after a blank line");
            }
            if !traced.is_empty() && !traced.starts_with([' ', '␍', '\r']) {
                return Err("expected a space after the `|`");
            }
            self.backtrace.push(traced.strip_prefix(' ').unwrap_or(traced));
        } else if self.backtrace.is_empty() {
            self.message.push(line);
        } else if line.trim().is_empty() {
            self.is_over = true;
        } else {
            return Err("text after the backtrace");
        }
        Ok(())
    }

    fn close(mut self) -> Result<Case, String> {
        let text = |lines: &[&str]| lines.join("\n").replace('␍', "\r");
        self.case.error.message = text(&self.message).trim_end().to_owned();
        if !self.backtrace.is_empty() {
            self.case.error.backtrace = Some(text(&self.backtrace));
        } else if self.case.error.message.is_empty() {
            return Err(format!("{}: an error with neither message nor backtrace", self.number));
        }
        Ok(self.case)
    }
}

#[test]
fn a_malformed_file_is_refused_with_its_line() {
    let refused = |text: &str| cases_of(text).err().expect("is malformed");
    assert_eq!(refused("text\n"), "1: text outside of an error");
    assert_eq!(refused("## Shouting: x\n"), "1: expected `## kebab-case-name: why`");
    assert_eq!(refused("### a.b | E |\nx\n"), "1: an error before the first group");
    assert_eq!(refused("## a: x\n### a.b | E\nx\n"), "2: expected `### letter.type | ErrorType | code`");
    assert_eq!(refused("## a: x\n### a.b | E |\n\n"), "2: an error with neither message nor backtrace");
    assert_eq!(refused("## a: x\n### a.b | E |\nm\n| f\nm\n"), "5: text after the backtrace");
    assert_eq!(refused("## a: x\n### a.b | E |\nm\n|f\n"), "4: expected a space after the `|`");
    let other_type = "## a: x\n### a.b | E |\nm\n### a.c | E |\nm\n";
    assert_eq!(refused(other_type), "4: the errors of a group share one letter type");
    assert_eq!(refused("## a: x\n## b: x\n"), "2: the group above has no errors");
    assert_eq!(refused("## a: x\n### a.b | E |\nm\n## a: x\n"), "4: this name is taken by a group above");
}

#[test]
fn a_case_keeps_its_lines_as_the_runtime_wrote_them() {
    let cases =
        cases_of("## a: x\n### a.b | E | 42\none␍\n\ntwo\n\n### a.b | |\n| \tat f␍\n|\n| at g\n").unwrap();
    assert_eq!(cases[0].error.message, "one\r\n\ntwo");
    assert_eq!(cases[0].error.code.as_deref(), Some("42"));
    assert_eq!(cases[0].error.backtrace, None);
    assert_eq!(cases[1].error.error_type, "");
    assert_eq!(cases[1].error.backtrace.as_deref(), Some("\tat f\r\n\nat g"));
}
