//! `lazaret man`: the manual pages, made from the same words as `--help`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use crate::args::Cli;
use crate::failure::Outcome;
use crate::output::{Format, Screen};

const EXAMPLES: &str = "\
Examples:
  lazaret man | man -l -
  lazaret man --dir /usr/local/share/man/man1   one page per command";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// Write one page per command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &ManArgs, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let pages = pages()?;
    let Some(dir) = &args.dir else {
        for page in pages.iter().take(1) {
            screen.write(&page.text)?;
        }
        return Ok(Outcome::Done);
    };
    write_all(&pages, dir)?;
    match screen.format {
        Format::Json => {
            let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
            screen.json(&json!({ "dir": dir.display().to_string(), "files": files }).to_string())?;
        }
        Format::Text => screen.line(&format!("wrote {} pages to {}", pages.len(), dir.display()))?,
    }
    Ok(Outcome::Done)
}

fn write_all(pages: &[Page], dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create folder {}", dir.display()))?;
    for page in pages {
        let path = dir.join(&page.file);
        std::fs::write(&path, &page.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[derive(Debug)]
struct Page {
    file: String,
    text: Vec<u8>,
}

/// Every page, the main one first.
fn pages() -> anyhow::Result<Vec<Page>> {
    let mut cli = Cli::command();
    // Options that all commands share come to each of them only when clap puts the commands together.
    cli.build();
    let mut pages = Vec::new();
    add(&cli, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    let man =
        Man::new(command.clone()).manual("Lazaret").source(concat!("lazaret ", env!("CARGO_PKG_VERSION")));
    let file = man.get_filename();
    let mut text = Vec::new();
    man.render(&mut text).with_context(|| format!("cannot create {file}"))?;
    pages.push(Page { file, text });
    let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
    for inner in inner {
        add(inner, pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let pages = pages().unwrap();
        let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(files[0], "lazaret.1");
        for file in ["lazaret-ls.1", "lazaret-incident-show.1", "lazaret-ledger-verify.1", "lazaret-tail.1"] {
            assert!(files.contains(&file), "{file} is missing in {files:?}");
        }
        for page in &pages {
            let text = String::from_utf8_lossy(&page.text);
            assert!(text.contains(".SH NAME"), "{}", page.file);
            assert!(text.contains(".SH SYNOPSIS"), "{}", page.file);
        }
    }

    #[test]
    fn examples_keep_their_lines() {
        let pages = pages().unwrap();
        let ls = pages.iter().find(|page| page.file == "lazaret-ls.1").unwrap();
        let text = String::from_utf8_lossy(&ls.text);
        assert!(text.contains("Examples:"), "{text}");
    }
}
