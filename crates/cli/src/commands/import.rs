//! `lazaret import`: takes in what `lazaret export` wrote, in requests of bounded size.
//!
//! A file is read twice: first every hash and the last line are checked, and only then is anything sent. An import may
//! be repeated; letters that are there already are known.

mod batch;
mod lines;
mod tally;

use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use reqwest::StatusCode;

use crate::answers::import::ImportReceipt;
use crate::client::{Client, ClientError, Content, Problem};
use crate::failure::{Failure, Outcome};
use crate::output::{BAR_OF_BYTES, SPINNER, Screen, moment};
use crate::transfer::{Checked, Checker};
use batch::{Batch, BatchBytesMax, Request};
use lines::{Input, Lines};
use tally::{End, Tally, Trouble};

const EXAMPLES: &str = "\
Examples:
  lazaret import letters.ndjson
  zstd -dc letters.ndjson.zst | lazaret import -
  lazaret import letters.ndjson.part --partial  import a truncated file

A file is validated before anything is sent; lines from stdin are validated and sent as they arrive. \
Known letters are skipped and counted. A letter that was reprocessing when it was exported is imported \
as pending. Exit code 1 if a letter was refused or conflicts with another, or if the input is truncated.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Input file; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Import intact letters even if others are damaged or the end is missing
    #[arg(long)]
    partial: bool,
}

/// How much an input that is not whole is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Demand {
    Whole,
    Partial,
}

pub async fn run(args: ImportArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let demand = if args.partial { Demand::Partial } else { Demand::Whole };
    let input = Input::named(&args.file);
    if let Input::File(_) = &input
        && demand == Demand::Whole
    {
        check(&input, screen)?;
    }
    let lines = input.open()?;
    let bar = bar(&lines, screen);
    let mut import = Import {
        client,
        batch: Batch::default(),
        batch_bytes_max: BatchBytesMax::default(),
        tally: Tally::default(),
        bar,
    };
    let sent = import.send_all(lines).await;
    import.bar.finish_and_clear();
    let end = if sent.as_ref().is_ok_and(Checker::is_ended) { End::Right } else { End::Missing };
    if sent.is_err() && import.tally.is_empty() {
        return sent.map(|_| Outcome::Done);
    }
    let outcome = import.tally.tell(end, screen)?;
    let checker = sent?;
    if end == End::Missing && demand == Demand::Whole {
        return Err(cut_off(&checker)
            .hint("the received letters were imported; pass --partial to accept an incomplete input")
            .into());
    }
    Ok(outcome)
}

fn bar(lines: &Lines, screen: &Screen) -> ProgressBar {
    match lines.bytes {
        Some(bytes) => screen.bar(Some(bytes), BAR_OF_BYTES),
        None => screen.bar(None, SPINNER),
    }
}

/// Reads a file for the first time: whatever is wrong with it is told before anything is sent.
fn check(input: &Input, screen: &Screen) -> anyhow::Result<()> {
    let mut lines = input.open()?;
    let bar = bar(&lines, screen);
    bar.set_message("checking");
    let mut checker = Checker::default();
    let mut faults = Vec::new();
    let mut wrong: u64 = 0;
    while let Some(line) = lines.next()? {
        if let Err(fault) = checker.take(&line.bytes) {
            wrong += 1;
            if faults.len() < tally::TOLD_MAX {
                faults.push(Trouble { line: line.number, id: None, detail: fault.to_string() });
            }
        }
        bar.inc(line.bytes.len() as u64 + 1);
    }
    bar.finish_and_clear();
    for fault in &faults {
        screen.note(&format!("line {}: {}", fault.line, fault.detail));
    }
    let hint = "nothing was sent; --partial imports the intact letters";
    if wrong > 0 {
        let lines = if wrong == 1 { "line" } else { "lines" };
        let message = format!("{} has {} damaged {lines}", input.name(), moment::count(wrong));
        return Err(Failure::failed(message).hint(hint).into());
    }
    if !checker.is_ended() {
        return Err(cut_off(&checker).hint(hint).into());
    }
    Ok(())
}

fn cut_off(checker: &Checker) -> Failure {
    let letters = moment::letters(checker.letters());
    Failure::failed(format!("input truncated after {letters}: the last line is missing"))
}

/// An import on its way.
#[derive(Debug)]
struct Import<'a> {
    client: &'a Client,
    batch: Batch,
    batch_bytes_max: BatchBytesMax,
    tally: Tally,
    bar: ProgressBar,
}

impl Import<'_> {
    async fn send_all(&mut self, mut lines: Lines) -> anyhow::Result<Checker> {
        let mut checker = Checker::default();
        while let Some(line) = lines.next()? {
            match checker.take(&line.bytes) {
                Ok(Checked::Letter) => {
                    if !self.batch.has_room_for(&line.bytes, self.batch_bytes_max) {
                        self.send().await?;
                    }
                    self.batch.add(line.number, &line.bytes);
                }
                // It speaks of the whole input and would not fit one request of it.
                Ok(Checked::End) => {}
                Err(fault) => {
                    self.tally.refuse(Trouble { line: line.number, id: None, detail: fault.to_string() });
                }
            }
            self.bar.inc(line.bytes.len() as u64 + 1);
        }
        self.send().await?;
        Ok(checker)
    }

    /// Sends what was gathered, in halves if it is too large for the server.
    async fn send(&mut self) -> anyhow::Result<()> {
        // The next to be sent is the last, so that lines go in the order of the input.
        let mut waiting = Vec::from_iter(self.batch.take());
        while let Some(request) = waiting.pop() {
            let Err(error) = self.post(&request).await else { continue };
            if let ClientError::Refused(problem) = &error {
                self.tally.take_broken(problem);
            }
            if !may_be_too_much(&error) {
                return Err(error.into());
            }
            let bytes = request.text.len();
            match request.halves() {
                Ok([first, second]) => {
                    self.batch_bytes_max.lower(bytes);
                    waiting.extend([second, first]);
                }
                Err(line) => self.give_up(&line, error)?,
            }
        }
        self.tally.end_batch();
        self.bar.set_message(self.tally.summary());
        Ok(())
    }

    async fn post(&mut self, request: &Request) -> Result<(), ClientError> {
        let content = Content { media_type: "application/x-ndjson", bytes: request.text.clone() };
        let (tally, bar) = (&mut self.tally, &self.bar);
        let busy = |problem: &Problem| {
            tally.take_broken(problem);
            bar.set_message(format!("{} (server busy, retrying)", tally.summary()));
        };
        let answer = self.client.post_patiently(&["import"], &[], content, busy).await?;
        let receipt: ImportReceipt = answer.read()?;
        self.tally.take(receipt, |line| request.place(line));
        Ok(())
    }

    /// Takes down a line that the server does not even take alone. Without its word for that, we cannot go on.
    fn give_up(&mut self, line: &Request, error: ClientError) -> Result<(), Failure> {
        let (place, bytes) = (line.place(1), moment::count(line.text.len() as u64));
        let ClientError::Refused(problem) = error else {
            let hint = "check the server log; the line may exceed limits.ndjson_bytes_max";
            return Err(Failure::failed(format!("line {place} ({bytes} bytes): {error}")).hint(hint));
        };
        let detail = format!("{}: line of {bytes} bytes exceeds limits.ndjson_bytes_max", problem.message);
        self.tally.refuse(Trouble { line: place, id: None, detail });
        Ok(())
    }
}

/// Whether fewer lines may fare better. A server that is sent too much may close the connection so soon that its
/// answer is lost; to send letters twice does no harm.
fn may_be_too_much(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(problem) => problem.status == StatusCode::PAYLOAD_TOO_LARGE,
        ClientError::Lost { source, .. } => !source.is_timeout(),
        ClientError::Unreachable { .. } | ClientError::Silent { .. } | ClientError::Foreign { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::transfer::tests::export;
    use clap::ColorChoice;

    fn checked(text: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.ndjson");
        std::fs::write(&path, text).unwrap();
        let screen = Screen::new(Format::Text, ColorChoice::Never);
        check(&Input::named(&path), &screen)
            .map_err(|error| error.to_string().replace(path.to_str().unwrap(), "FILE"))
    }

    #[test]
    fn a_file_is_whole_or_nothing_of_it_is_sent() {
        let lines = export(&["{\"a\":1}", "{\"a\":2}"]);
        assert_eq!(checked(&lines.join("\n")), Ok(()));
        assert_eq!(checked(&format!("{}\n\n", lines.join("\r\n"))), Ok(()));
        let cut = Err("input truncated after 2 letters: the last line is missing".into());
        assert_eq!(checked(&lines[..2].join("\n")), cut);
        assert_eq!(checked(""), Err("input truncated after 0 letters: the last line is missing".into()));
        let torn = format!("{}\n{}", lines[0], &lines[1][..30]);
        assert_eq!(checked(&torn), Err("FILE has 1 damaged line".into()));
        assert!(checked(&lines.join("\n").replace("\"a\":1", "\"a\":7")).is_err());
    }
}
