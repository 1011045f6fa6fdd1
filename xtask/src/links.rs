//! Checks that links between the Markdown pages lead to files and headings that exist. Does not follow links to other
//! sites.

use std::path::{Path, PathBuf};

/// Every Markdown file below a folder, without build output and hidden folders.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The text of a page without blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(is_prose).collect::<Vec<_>>().join("\n")
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(|&c| kept(c)).collect::<String>().replace(' ', "-")
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = prose(&std::fs::read_to_string(page).unwrap());
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.into_iter().any(|line| anchor(line.trim_start_matches('#')) == wanted)
}

/// The targets of `[text](target)` that are in this repository.
fn targets(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    ends.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        .map(str::to_owned)
        .collect()
}

/// Why a link of a page leads nowhere, if it does.
fn broken(page: &Path, target: &str) -> Option<String> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let linked = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    let is_page = linked.extension().is_some_and(|extension| extension == "md");
    if !linked.exists() {
        Some(format!("{}: {target} does not exist", page.display()))
    } else if is_page && !heading.is_empty() && !has_anchor(&linked, heading) {
        Some(format!("{}: {target} has no such heading", page.display()))
    } else {
        None
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut files = Vec::new();
    pages(&crate::cargo::workspace_root(), &mut files);
    let mut links = 0;
    let mut wrong = Vec::new();
    for page in files {
        for target in targets(&prose(&std::fs::read_to_string(&page).unwrap())) {
            links += 1;
            wrong.extend(broken(&page, &target));
        }
    }
    assert!(links > 100, "only {links} links were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_heading_has_the_anchor_of_github() {
    assert_eq!(anchor(" 1. Find the `cause`"), "1-find-the-cause");
    assert_eq!(anchor(" Codes of `/ojs/v1` only"), "codes-of-ojsv1-only");
}

#[test]
fn a_link_to_nothing_is_found() {
    let page = crate::cargo::workspace_root().join("docs/README.md");
    assert!(broken(&page, "no-such-page.md").is_some());
    assert!(broken(&page, "concepts.md#no-such-heading").is_some());
    assert!(broken(&page, "concepts.md#canary").is_none());
}
