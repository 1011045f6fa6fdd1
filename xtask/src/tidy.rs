//! The house rules that neither rustc nor clippy knows, checked over every source file. Reads; never
//! repairs.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Past this a file holds more than one noun.
const RUST_LINES_MAX: usize = 600;
/// A README that is longer is not read.
const README_LINES_MAX: usize = 150;
/// In two halves, or this file would accuse itself.
const OPEN_MARKS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
/// The letter's states as SQL would spell them. They are bound instead, so that a new or renamed state
/// is a compiler error and not a query that finds nothing.
const STATE_LITERALS: [&str; 4] = ["'pending'", "'reprocessing'", "'resolved'", "'discarded'"];
/// What chooses the next step of a run. Core decides that, the store's engine applies it: neither database has a say.
const DECIDING: [&str; 2] = ["RunAction::", "CanaryVerdict::"];
const DATABASES: [&str; 2] = ["crates/store/src/sqlite", "crates/store/src/postgres"];
/// What waits. Operations of the engine are polled once on SQLite, where nothing of this would ever be ready.
const WAITING: [&str; 4] = ["tokio::", "futures_util::", "join!", "sleep("];
const ENGINE: &str = "crates/store/src/engine";
const SOURCE_EXTENSIONS: [&str; 9] = ["css", "html", "js", "mjs", "py", "rs", "sh", "sql", "toml"];
const HIDDEN_FOLDERS_READ: [&str; 2] = [".cargo", ".ci"];

/// One breach of a rule, where it can be clicked on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    file: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// All offences below `root`, in the order of their files' names.
pub(crate) fn offences_in(root: &Path) -> Result<Vec<Offence>> {
    let mut offences = Vec::new();
    for file in sources(root)? {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root).expect("the walk began at the root");
        offences.extend(offences_in_file(name, &text));
    }
    Ok(offences)
}

/// Every source file below a folder, in the order of their names.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect_files(folder, &mut files)?;
    files.sort();
    Ok(files)
}

/// Walks the folders instead of asking git, so that a file is checked before it is committed and an
/// unpacked archive can be checked too. Links are not followed.
fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let cannot_read = || format!("cannot read {}", folder.display());
    for entry in folder.read_dir().with_context(cannot_read)? {
        let entry = entry.with_context(cannot_read)?;
        let kind = entry.file_type().with_context(cannot_read)?;
        let path = entry.path();
        if kind.is_dir() && holds_sources(&path) {
            collect_files(&path, files)?;
        } else if kind.is_file() && is_source(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Build output is known by its name or by the tag that cargo puts into it.
fn holds_sources(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_unread = name.starts_with('.') && !HIDDEN_FOLDERS_READ.contains(&name.as_ref());
    let is_made = ["target", "snapshots", "node_modules"].contains(&name.as_ref());
    !is_unread && !is_made && !folder.join("CACHEDIR.TAG").exists()
}

fn is_source(file: &Path) -> bool {
    let has_source_extension =
        file.extension().is_some_and(|extension| SOURCE_EXTENSIONS.iter().any(|&source| extension == source));
    has_source_extension || file.ends_with(".ci/run") || file.ends_with("README.md")
}

fn offences_in_file(file: &Path, text: &str) -> Vec<Offence> {
    let mut offences = Vec::new();
    let mut blame = |line, what| offences.push(Offence { file: file.to_owned(), line, what });
    let lines = text.lines().count();
    if file == Path::new("README.md") {
        if lines > README_LINES_MAX {
            blame(README_LINES_MAX + 1, format!("{lines} lines, at most {README_LINES_MAX} allowed"));
        }
        return offences;
    }
    if file.extension().is_some_and(|extension| extension == "rs") {
        if !text.starts_with("//!") {
            blame(1, "does not open with a `//!` comment that says what it is for".to_owned());
        }
        if lines > RUST_LINES_MAX {
            blame(RUST_LINES_MAX + 1, format!("{lines} lines, at most {RUST_LINES_MAX} allowed"));
        }
    }
    let is_store_code = file.starts_with("crates/store/src") && file.extension().is_some_and(|e| e == "rs");
    let is_database_code = is_store_code && DATABASES.iter().any(|folder| file.starts_with(folder));
    let is_engine_code = is_store_code && file.starts_with(ENGINE);
    for (number, line) in (1..).zip(text.lines()) {
        for mark in OPEN_MARKS.iter().filter(|mark| is_without_issue(mark, line)) {
            blame(number, format!("{mark} without an issue number, as in {mark}(#12)"));
        }
        if !is_store_code || line.trim_start().starts_with("//") {
            continue;
        }
        for word in DECIDING.iter().filter(|&&word| is_database_code && line.contains(word)) {
            blame(number, format!("`{word}` decides what a run does, which is for core and the engine"));
        }
        for word in WAITING.iter().filter(|&&word| is_engine_code && line.contains(word)) {
            blame(number, format!("`{word}` may wait, and an operation awaits nothing but the seam"));
        }
        for state in STATE_LITERALS.iter().filter(|&&state| line.contains(state)) {
            blame(number, format!("the state {state} is written into SQL, where it has to be bound"));
        }
    }
    offences
}

/// Whether `line` holds `mark` as a word of its own with no issue (`#12`) after it.
fn is_without_issue(mark: &str, line: &str) -> bool {
    let is_word_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(position, _)| {
        let (before, after) = (&line[..position], &line[position + mark.len()..]);
        let is_word = !before.ends_with(is_word_part) && !after.starts_with(is_word_part);
        let names_issue = after.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        is_word && !names_issue
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let offences = offences_in(&crate::cargo::workspace_root()).unwrap();
        let list: Vec<String> = offences.iter().map(Offence::to_string).collect();
        assert!(list.is_empty(), "{} to put right:\n{}", list.len(), list.join("\n"));
    }

    #[track_caller]
    fn check(file: &str, text: &str, expected: &[&str]) {
        let offences: Vec<String> =
            offences_in_file(Path::new(file), text).iter().map(Offence::to_string).collect();
        assert_eq!(offences, expected);
    }

    #[test]
    fn a_rust_file_says_what_it_is_for() {
        check("xtask/src/a.rs", "//! A.\n", &[]);
        let expected = "xtask/src/a.rs:1: does not open with a `//!` comment that says what it is for";
        check("xtask/src/a.rs", "", &[expected]);
        check("xtask/src/a.rs", "// A.\n", &[expected]);
        check("xtask/src/a.rs", "#![allow(unused)]\n//! A.\n", &[expected]);
    }

    #[test]
    fn a_rust_file_may_have_600_lines_and_no_more() {
        let text = "//! A.\n".repeat(600);
        check("crates/core/src/a.rs", &text, &[]);
        let expected = "crates/core/src/a.rs:601: 601 lines, at most 600 allowed";
        check("crates/core/src/a.rs", &(text + "\n"), &[expected]);
    }

    #[test]
    fn the_readme_may_have_150_lines_and_no_more() {
        let text = "line\n".repeat(150);
        check("README.md", &text, &[]);
        check("README.md", &(text + "line"), &["README.md:151: 151 lines, at most 150 allowed"]);
    }

    #[test]
    fn states_are_bound_in_the_store_code() {
        let text = "//! A.\nconst Q: &str = \"where status in ('pending', 'resolved')\";\n";
        let blamed = |state| {
            format!(
                "crates/store/src/sqlite/a.rs:2: the state {state} is written into SQL, where it has to be bound"
            )
        };
        check("crates/store/src/sqlite/a.rs", text, &[&blamed("'pending'"), &blamed("'resolved'")]);
    }

    #[test]
    fn a_database_decides_nothing_for_runs() {
        let text = "//! A.\nlet next = state.after(RunAction::Stop);\n";
        let expected = "crates/store/src/postgres/a.rs:2: `RunAction::` decides what a run does, which is for core and \
                        the engine";
        check("crates/store/src/postgres/a.rs", text, &[expected]);
        check("crates/store/src/engine/a.rs", text, &[]);
    }

    #[test]
    fn an_operation_awaits_nothing_but_the_seam() {
        let text = "//! A.\ntokio::task::yield_now().await;\n";
        let expected = "crates/store/src/engine/a.rs:2: `tokio::` may wait, and an operation awaits nothing but the seam";
        check("crates/store/src/engine/a.rs", text, &[expected]);
        check("crates/store/src/postgres/a.rs", text, &[]);
    }

    #[test]
    fn states_may_be_named_in_comments_migrations_and_elsewhere() {
        check("crates/store/src/a.rs", "//! A.\n    // Never 'discarded'.\n", &[]);
        check("crates/store/src/sqlite/0001_letters.sql", "check (status in ('pending'))", &[]);
        check("crates/store/tests/a.rs", "//! A.\n\"'pending'\"", &[]);
    }

    #[test]
    fn what_is_left_open_names_its_issue() {
        for mark in OPEN_MARKS {
            check("a.sql", &format!("-- {mark}(#7): index\n-- {mark} index, see #12\n"), &[]);
            check("a.sql", &format!("x{mark} {mark}_LIST\n"), &[]);
            let expected = format!("a.sql:2: {mark} without an issue number, as in {mark}(#12)");
            check("a.sql", &format!("\n-- {mark}: index\n"), &[&expected]);
            check("a.sql", &format!("\n-- {mark} #later\n"), &[&expected]);
        }
    }

    #[test]
    fn build_output_snapshots_and_hidden_folders_are_passed_over() {
        for folder in ["/w/target", "/w/.git", "/w/crates/core/src/snapshots"] {
            assert!(!holds_sources(Path::new(folder)), "{folder}");
        }
        for folder in ["/w/crates", "/w/.ci", "/w/.cargo"] {
            assert!(holds_sources(Path::new(folder)), "{folder}");
        }
    }

    #[test]
    fn the_walk_finds_this_file_and_the_scripts() {
        let root = crate::cargo::workspace_root();
        let mut files = Vec::new();
        collect_files(&root, &mut files).unwrap();
        for file in ["xtask/src/tidy.rs", ".ci/run", "Cargo.toml"] {
            assert!(files.contains(&root.join(file)), "{file}");
        }
    }
}
