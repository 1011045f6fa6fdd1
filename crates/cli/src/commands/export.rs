//! `lazaret export`: letters whole, one JSON line each, with the proof that none was lost on the way.
//!
//! A line is passed on as it came, after its hash was checked. What is cut off never looks like a whole export.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use crate::args::filter_word;
use crate::client::Client;
use crate::client::streaming::{Stream, Wanted};
use crate::failure::{Failure, Outcome};
use crate::filter;
use crate::output::{COUNTER, Format, Screen, json_text, moment};
use crate::transfer::{Checker, LineCutter};

const EXAMPLES: &str = "\
Examples:
  lazaret export --all -o letters.ndjson        all letters
  lazaret export queue:billing since:7d > billing.ndjson
  lazaret export status:pending | zstd > pending.ndjson.zst
  lazaret export incident:019a8b1c-7e00-7000-8000-000000000001 | jq -c .letter.id

Includes letters of every status by default. Output goes to FILE.part, which is renamed once the export \
is complete and verified. Exit code 1 if the export is truncated or a letter does not match its hash. \
`lazaret import` reads the output.";

/// The server may look through many letters before the next one matches.
const PAUSE_MAX: Duration = Duration::from_secs(150);

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Filter, such as queue:billing since:24h
    #[arg(value_name = "FILTER", value_parser = filter_word)]
    pub filter: Vec<String>,

    /// Filter as one argument
    #[arg(long = "filter", value_name = "FILTER")]
    text: Option<String>,

    /// All letters
    #[arg(long, conflicts_with_all = ["filter", "text"])]
    all: bool,

    /// Output file; default: stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub async fn run(args: ExportArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let words: Vec<&str> = args.filter.iter().chain(&args.text).map(String::as_str).collect();
    let wanted = filter::read(&words.join(" "))?;
    if wanted.is_empty() && !args.all {
        return Err(Failure::misuse("filter or --all required")
            .hint("pass a filter such as queue:billing, or --all")
            .into());
    }
    let q = wanted.to_string();
    let query: &[(&str, &str)] = if wanted.is_empty() { &[] } else { &[("q", &q)] };
    let wanted = Wanted { media_type: "application/x-ndjson", last_event: None };
    let stream = client.stream(&["export"], query, wanted).await?;
    // A bar would write between the lines when both go to the same terminal.
    let bar = if args.output.is_none() && screen.is_terminal() {
        ProgressBar::hidden()
    } else {
        screen.bar(None, COUNTER)
    };
    let letters = match &args.output {
        Some(path) => to_file(path, stream, &bar).await,
        None => to_stdout(stream, &bar, screen).await,
    };
    bar.finish_and_clear();
    let letters = letters?;
    match (&args.output, screen.format) {
        (Some(path), Format::Json) => {
            screen.line(&json!({ "letters": letters, "file": path.display().to_string() }).to_string())?;
        }
        (Some(path), Format::Text) => {
            screen.line(&format!("exported {} to {}", moment::letters(letters), path.display()))?;
        }
        (None, _) if screen.is_reader_gone() => {}
        (None, _) => screen.note(&format!("exported {}", moment::letters(letters))),
    }
    Ok(Outcome::Done)
}

async fn to_stdout(stream: Stream, bar: &ProgressBar, screen: &mut Screen) -> anyhow::Result<u64> {
    pass_on(stream, bar, |lines| {
        match screen.is_terminal() {
            true => screen.write(harmless(lines).as_bytes())?,
            false => screen.write(lines)?,
        }
        Ok(if screen.is_reader_gone() { Reader::Gone } else { Reader::There })
    })
    .await
}

/// The same JSON without what a terminal could obey. It may no longer fit its hashes, but nobody imports a terminal.
fn harmless(lines: &[u8]) -> String {
    String::from_utf8_lossy(lines).lines().map(|line| json_text::on_one_line(line) + "\n").collect()
}

/// Writes beside the file and gives it its name at the end.
async fn to_file(path: &Path, stream: Stream, bar: &ProgressBar) -> anyhow::Result<u64> {
    let part = part_of(path);
    let shown = part.display();
    let file = File::create(&part).with_context(|| format!("cannot write {shown}"))?;
    let mut file = BufWriter::new(file);
    let written = pass_on(stream, bar, |lines| {
        file.write_all(lines).with_context(|| format!("cannot write {shown}"))?;
        Ok(Reader::There)
    })
    .await
    .map_err(|error| error.context(format!("export incomplete; partial output is in {shown}")))?;
    let file = file.into_inner().map_err(|error| error.into_error());
    file.and_then(|file| file.sync_all()).with_context(|| format!("cannot write {shown}"))?;
    std::fs::rename(&part, path).with_context(|| format!("cannot rename {shown} to {}", path.display()))?;
    Ok(written)
}

/// The name of the file while it is written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Whether there is any use in going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    There,
    Gone,
}

/// Passes lines on as they came, each after it was checked, and gives the number of letters.
async fn pass_on(
    mut stream: Stream,
    bar: &ProgressBar,
    mut write: impl FnMut(&[u8]) -> anyhow::Result<Reader>,
) -> anyhow::Result<u64> {
    let mut passage = Passage::default();
    loop {
        let bytes = match stream.next(PAUSE_MAX).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return passage.end(),
            Err(error) => {
                let letters = moment::letters(passage.checker.letters());
                return Err(anyhow::Error::from(error).context(format!("export truncated after {letters}")));
            }
        };
        let (lines, fault) = passage.take(&bytes);
        if write(&lines)? == Reader::Gone {
            return Ok(passage.checker.letters());
        }
        fault.map_or(Ok(()), Err)?;
        bar.set_position(passage.checker.letters());
    }
}

/// Lines on their way through.
#[derive(Debug, Default)]
struct Passage {
    cutter: LineCutter,
    checker: Checker,
    lines: u64,
}

impl Passage {
    /// Gives the lines that are whole and right, up to the first that is not.
    fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<Failure>) {
        let mut passed = Vec::new();
        let Ok(lines) = self.cutter.take(bytes) else {
            return (
                passed,
                Some(Failure::failed(format!("line {} is too long to be a letter", self.lines + 1))),
            );
        };
        for line in lines {
            self.lines += 1;
            if let Err(fault) = self.checker.take(&line) {
                let failure = Failure::failed(format!("line {}: {fault}", self.lines))
                    .hint("the data was changed in transit; export again");
                return (passed, Some(failure));
            }
            passed.extend_from_slice(&line);
            passed.push(b'\n');
        }
        (passed, None)
    }

    fn end(&self) -> anyhow::Result<u64> {
        if self.checker.is_ended() && !self.cutter.has_rest() {
            return Ok(self.checker.letters());
        }
        let letters = moment::letters(self.checker.letters());
        Err(Failure::failed(format!("export truncated after {letters}: the last line is missing"))
            .hint("check the server log, then export again")
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tests::export;

    fn passed(text: &str) -> (String, String) {
        let mut passage = Passage::default();
        let (lines, fault) = passage.take(text.as_bytes());
        let end = match fault {
            Some(fault) => fault.to_string(),
            None => passage.end().map_or_else(|error| error.to_string(), |letters| letters.to_string()),
        };
        (String::from_utf8(lines).unwrap(), end)
    }

    #[test]
    fn a_whole_export_passes_as_it_came() {
        let text = export(&["{\"a\":1.0}", "{\"a\": 2}"]).join("\n") + "\n";
        assert_eq!(passed(&text), (text.clone(), "2".into()));
    }

    #[test]
    fn what_is_cut_off_is_told() {
        let lines = export(&["{\"a\":1}", "{\"a\":2}"]);
        let cut = format!("{}\n", lines[0]);
        let told = "export truncated after 1 letter: the last line is missing";
        assert_eq!(passed(&cut), (cut.clone(), told.into()));
        assert_eq!(passed(&format!("{cut}{}", &lines[1][..20])).1, told);
        assert!(passed("").1.contains("truncated after 0 letters"));
    }

    #[test]
    fn a_changed_letter_is_not_passed_on() {
        let lines = export(&["{\"a\":1}", "{\"a\":2}"]);
        let text = format!("{}\n{}\n{}\n", lines[0], lines[1].replace("\"a\":2", "\"a\":3"), lines[2]);
        let (passed, fault) = passed(&text);
        assert_eq!(
            (passed, fault),
            (format!("{}\n", lines[0]), "line 2: letter does not match its hash".into())
        );
    }

    #[test]
    fn a_terminal_gets_nothing_to_obey() {
        let shown = harmless("{\"a\": \"\u{9b}31m\"}\n{}\n".as_bytes());
        assert_eq!(shown, "{\"a\":\"\\u009b31m\"}\n{}\n");
    }

    #[test]
    fn a_file_that_is_not_whole_has_another_name() {
        assert_eq!(part_of(Path::new("a/letters.ndjson")), Path::new("a/letters.ndjson.part"));
    }
}
