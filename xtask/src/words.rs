//! Phrases that pages, help texts, errors and documents no longer use, because the field has a term for them. Checked over
//! everything that people read. Reads; never repairs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What is searched: a file, or everything of these extensions below a folder.
const READ_BY_PEOPLE: [&str; 8] = [
    "README.md",
    "lazaret.example.toml",
    "docs",
    "crates/cli/src",
    "crates/core/src",
    "crates/server/assets",
    "crates/server/src",
    "crates/server/templates",
];
const EXTENSIONS: [&str; 5] = ["html", "js", "md", "rs", "toml"];

/// The retired phrase, in lower case, and the term to use.
const PHRASES: [(&str, &str); 46] = [
    ("nobody is called", "Notifications are not configured"),
    ("alarm on", "Alert on /metrics"),
    ("asks for no analysis", "RCA is optional for this source"),
    ("may go back", "Ready to redrive"),
    ("nobody looks after", "Unassigned"),
    ("who looks after", "Assignee"),
    ("looked after by", "Assignee"),
    ("write down the cause", "Save root cause"),
    ("is not written down", "RCA required"),
    ("name the fix", "Link a fix"),
    ("or shall be", "Remediation (done or planned)"),
    ("gate is shut", "Redrive blocked"),
    ("break the glass", "Emergency override"),
    ("glass broken", "Emergency override"),
    ("the gate by force", "Emergency override"),
    ("say that you mean it", "Type 692 to confirm"),
    ("otherwise than planned", "Override rate, canaries, failure threshold"),
    ("the bound at which it stops", "failure threshold"),
    ("care and order", "Safety and ordering"),
    ("list down", "The plan snapshots the matching letters"),
    ("on their way, claimed", "Concurrency 8, batch size 100"),
    ("had their turn", "17 of 692 processed"),
    ("that came to an end", "Success rate"),
    ("take it back", "Undo"),
    ("it goes on.", "Redrive resumed"),
    ("select anew", "Change selection"),
    ("its work is done", "Delivered and resolved"),
    ("waits for a decision again", "Undo (reopen)"),
    ("what is looked at", "Health checks"),
    (">stands<", "Status"),
    (">well<", "OK"),
    (">wrong<", "Failing"),
    ("is mended", "Resume once the dependency is healthy"),
    ("may be left out", "Optional"),
    ("stands in the audit log", "Recorded in the audit log"),
    ("beside its group", "Compare with incident"),
    ("chosen letters", "Selected"),
    (">narrow<", "Filter"),
    ("check the log<", "Verify integrity"),
    ("taken anew", "Reloaded on SIGHUP"),
    ("references stand in", "Documentation"),
    ("token worthless", "Revoke a token"),
    ("work of letters is done", "Mark letters as resolved"),
    ("hand over dead letters", "Report dead letters"),
    ("allowed: {allowed}", "limit 1,000/min"),
    ("empties this store", "Demo data: deleted on exit"),
];

/// The retired phrases below `root`, each as one line.
pub(crate) fn offences_in(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for name in READ_BY_PEOPLE {
        collect_files(&root.join(name), &mut files)?;
    }
    files.sort();
    let mut offences = Vec::new();
    for file in files {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).display();
        offences.extend(
            retired_in(&file, &text).map(|(phrase, term)| format!("{name}: `{phrase}`, use `{term}`")),
        );
    }
    Ok(offences)
}

fn collect_files(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        let is_read =
            path.extension().is_some_and(|has| EXTENSIONS.iter().any(|&extension| has == extension));
        files.extend(is_read.then(|| path.to_owned()));
        return Ok(());
    }
    let cannot_read = || format!("cannot read {}", path.display());
    for entry in path.read_dir().with_context(cannot_read)? {
        collect_files(&entry.with_context(cannot_read)?.path(), files)?;
    }
    Ok(())
}

fn retired_in(file: &Path, text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let read = as_read(file, text);
    PHRASES.into_iter().filter(move |(phrase, _)| read.contains(phrase))
}

/// The text as people read it: without line breaks, and without comments that only readers of the code see. Doc comments
/// of the commands are help texts.
fn as_read(file: &Path, text: &str) -> String {
    let is_code = file.extension().is_some_and(|extension| extension == "rs" || extension == "js");
    let is_command = file.components().any(|part| part.as_os_str() == "cli");
    let is_shown = |line: &&str| {
        let line = line.trim_start();
        !is_code || !line.starts_with("//") || is_command && line.starts_with("///")
    };
    let lines = text.lines().filter(is_shown).map(|line| line.trim().trim_end_matches('\\'));
    let joined = lines.collect::<Vec<_>>().join(" ");
    joined.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<&'static str> {
        retired_in(Path::new(file), text).map(|(phrase, _)| phrase).collect()
    }

    #[test]
    fn phrases_are_found_over_line_breaks_and_in_any_case() {
        assert_eq!(found("docs/a.md", "Then Write\ndown the  cause."), ["write down the cause"]);
        assert_eq!(found("crates/server/src/a.rs", "\"the gate \\\n    is shut\""), ["gate is shut"]);
    }

    #[test]
    fn of_comments_only_help_texts_count() {
        assert_eq!(found("crates/server/src/a.rs", "/// The gate is shut.\n// The gate is shut."), [""; 0]);
        assert_eq!(
            found("crates/cli/src/a.rs", "    /// The gate is shut\n// Care and order"),
            ["gate is shut"]
        );
    }

    #[test]
    fn nothing_that_people_read_uses_a_retired_phrase() {
        let offences = offences_in(&crate::cargo::workspace_root()).unwrap();
        assert!(offences.is_empty(), "{}", offences.join("\n"));
    }
}
