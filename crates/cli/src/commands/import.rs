//! `lazaret import`: takes in what `lazaret export` wrote, in requests of bounded size.
//!
//! A file is read twice: first every hash and the last line are checked, and only then is anything sent. An import may
//! be repeated; letters that are there already are known.

mod lines;
mod tally;

use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use lazaret_core::limits;
use reqwest::StatusCode;

use crate::answers::import::ImportReceipt;
use crate::client::{Client, ClientError, Content};
use crate::failure::{Failure, Outcome};
use crate::output::{BAR_OF_BYTES, SPINNER, Screen, moment};
use crate::transfer::{Checked, Checker};
use lines::{Input, Lines};
use tally::{End, Tally, Trouble};

const EXAMPLES: &str = "\
Examples:
  lazaret import letters.ndjson
  zstd -dc letters.ndjson.zst | lazaret import -
  lazaret import letters.ndjson.part --partial  what there is of a file that was cut off

A file is checked whole before anything of it is sent. From stdin lines are checked and sent as they \
come. What is known already is recognised and counted. A letter that was being sent again when it was \
exported comes in as pending. Exit code 1 when a letter was refused or another stands in its place, \
or when the input is cut off.";

/// What goes in one request: one write of the store, done well before the request times out.
const BATCH_LINES_MAX: usize = limits::STREAM_LINES_PER_WRITE;
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Take the letters that are whole, though others are not or the end is missing
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
    let mut import = Import { client, batch: Batch::default(), tally: Tally::default(), bar };
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
            .hint("what came was taken in; --partial says that this is all there is")
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
    let hint = "nothing was sent; --partial takes in the letters that are whole";
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
    Failure::failed(format!("the input is cut off after {letters}: its last line is missing"))
}

/// Lines of one request with their places in the input.
#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    places: Vec<usize>,
}

impl Batch {
    /// Whether a line still fits; one that is too large by itself goes alone.
    fn has_room_for(&self, line: &[u8]) -> bool {
        self.places.is_empty()
            || (self.places.len() < BATCH_LINES_MAX && self.text.len() + line.len() < BATCH_BYTES_MAX)
    }

    fn add(&mut self, place: usize, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        self.places.push(place);
    }

    /// The line of the input that a line of the request was; what the server counts otherwise is shown as it came.
    fn place(places: &[usize], line: usize) -> usize {
        line.checked_sub(1).and_then(|at| places.get(at)).copied().unwrap_or(line)
    }
}

/// An import on its way.
#[derive(Debug)]
struct Import<'a> {
    client: &'a Client,
    batch: Batch,
    tally: Tally,
    bar: ProgressBar,
}

impl Import<'_> {
    async fn send_all(&mut self, mut lines: Lines) -> anyhow::Result<Checker> {
        let mut checker = Checker::default();
        while let Some(line) = lines.next()? {
            match checker.take(&line.bytes) {
                Ok(Checked::Letter) => {
                    if !self.batch.has_room_for(&line.bytes) {
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

    async fn send(&mut self) -> anyhow::Result<()> {
        let Batch { text, places } = std::mem::take(&mut self.batch);
        if places.is_empty() {
            return Ok(());
        }
        let content = Content { media_type: "application/x-ndjson", bytes: text.into() };
        let busy = || self.bar.set_message(format!("{} (the server is busy, waiting)", self.tally.summary()));
        match self.client.post_patiently(&["import"], &[], content, busy).await {
            Ok(answer) => {
                let receipt: ImportReceipt = answer.read()?;
                self.tally.take(receipt, |line| Batch::place(&places, line));
            }
            // A refusal for its size can only mean the one line.
            Err(ClientError::Refused(problem))
                if places.len() == 1 && problem.status == StatusCode::PAYLOAD_TOO_LARGE =>
            {
                self.tally.refuse(Trouble { line: places[0], id: None, detail: problem.message });
            }
            Err(error) => return Err(error.into()),
        }
        self.bar.set_message(self.tally.summary());
        Ok(())
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
        let cut = Err("the input is cut off after 2 letters: its last line is missing".into());
        assert_eq!(checked(&lines[..2].join("\n")), cut);
        assert_eq!(checked(""), Err("the input is cut off after 0 letters: its last line is missing".into()));
        let torn = format!("{}\n{}", lines[0], &lines[1][..30]);
        assert_eq!(checked(&torn), Err("FILE has 1 damaged line".into()));
        assert!(checked(&lines.join("\n").replace("\"a\":1", "\"a\":7")).is_err());
    }

    #[test]
    fn requests_keep_their_bounds_and_what_is_large_goes_alone() {
        let mut batch = Batch::default();
        for place in 0..BATCH_LINES_MAX {
            assert!(batch.has_room_for(b"{}"));
            batch.add(place, b"{}");
        }
        assert!(!batch.has_room_for(b"{}"));
        let huge = vec![b'x'; BATCH_BYTES_MAX + 1];
        let mut batch = Batch::default();
        assert!(batch.has_room_for(&huge));
        batch.add(1, &huge);
        assert!(!batch.has_room_for(b"{}"));
    }

    #[test]
    fn a_line_of_a_request_is_told_by_its_place_in_the_input() {
        let places = [4, 6, 9];
        assert_eq!([1, 3, 7, 0].map(|line| Batch::place(&places, line)), [4, 9, 7, 0]);
    }
}
