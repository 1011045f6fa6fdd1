//! Batches on their way to the server: bounded, sent again when the server asks for it, answered item by item.

use indicatif::ProgressBar;
use lazaret_core::limits;
use reqwest::StatusCode;

use super::outcome::{End, Report, Verdict};
use crate::answers::Receipts;
use crate::client::{Answer, Client, ClientError, Content, Problem};
use crate::failure::{Failure, Outcome};
use crate::output::Screen;

/// Half of what the server takes in a stream, so that a request is done well before it times out.
const LINES_BYTES_MAX: usize = limits::NDJSON_BYTES_MAX / 2;

/// Room for the frame around the entries of a batch.
const ENTRIES_BYTES_MAX: usize = limits::BODY_BYTES_MAX - 4 * 1024;

/// Letters of one request, as they were written, with their places in the input.
#[derive(Debug)]
pub struct Batch {
    form: BatchForm,
    text: Vec<u8>,
    places: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchForm {
    Lines,
    Entries,
}

impl BatchForm {
    const fn items_max(self) -> usize {
        match self {
            BatchForm::Lines => limits::NDJSON_LINES_MAX,
            BatchForm::Entries => limits::BATCH_ITEMS_MAX,
        }
    }

    const fn bytes_max(self) -> usize {
        match self {
            BatchForm::Lines => LINES_BYTES_MAX,
            BatchForm::Entries => ENTRIES_BYTES_MAX,
        }
    }
}

impl Batch {
    pub fn of_lines() -> Batch {
        Batch { form: BatchForm::Lines, text: Vec::new(), places: Vec::new() }
    }

    pub fn of_entries() -> Batch {
        Batch { form: BatchForm::Entries, text: b"{\"items\":[".to_vec(), places: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether an item still fits. One that is too large by itself goes alone, so that no other is refused with it.
    pub fn has_room_for(&self, item: &[u8]) -> bool {
        let too_large = |bytes: usize| bytes > limits::ENTRY_BYTES_MAX;
        let last_too_large = self.places.len() == 1 && too_large(self.text.len());
        self.is_empty()
            || (self.places.len() < self.form.items_max()
                && self.text.len() + item.len() < self.form.bytes_max()
                && !too_large(item.len())
                && !last_too_large)
    }

    pub fn add(&mut self, place: usize, item: &[u8]) {
        if !self.is_empty() {
            self.text.push(match self.form {
                BatchForm::Lines => b'\n',
                BatchForm::Entries => b',',
            });
        }
        self.text.extend_from_slice(item);
        self.places.push(place);
    }

    fn into_content(self) -> (Content, BatchForm, Vec<usize>) {
        let Batch { form, mut text, places } = self;
        let media_type = match form {
            BatchForm::Lines => "application/x-ndjson",
            BatchForm::Entries => {
                text.extend_from_slice(b"]}");
                "application/json"
            }
        };
        (Content { media_type, bytes: text.into() }, form, places)
    }
}

/// A report being sent.
pub struct Sending<'a> {
    client: Client,
    source: Option<String>,
    bar: ProgressBar,
    report: Report<'a>,
}

impl<'a> Sending<'a> {
    pub fn new(
        client: Client,
        source: Option<String>,
        bar: ProgressBar,
        screen: &'a mut Screen,
    ) -> anyhow::Result<Sending<'a>> {
        Ok(Sending { client, source, report: Report::begin(screen, bar.clone())?, bar })
    }

    /// What follows comes from this input.
    pub fn begin(&mut self, name: &str) {
        self.report.input = name.to_owned();
    }

    /// Sends a batch and takes down what became of its items. An empty one is nothing to send.
    pub async fn send(&mut self, batch: Batch) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let (content, form, places) = batch.into_content();
        let bytes = content.bytes.len() as u64;
        match self.post(content).await {
            Ok(answer) => {
                let receipts: Receipts = answer.read()?;
                if receipts.items.len() != places.len() {
                    return Err(Failure::failed("the response does not match the number of letters").into());
                }
                for (receipt, place) in receipts.items.into_iter().zip(places) {
                    self.report.take(Verdict::of(receipt), form, place)?;
                }
            }
            Err(ClientError::Refused(problem)) if is_about_the_item(&problem, &places) => {
                self.report.take(Verdict::refused(&problem), form, places[0])?;
            }
            Err(error) => return Err(error.into()),
        }
        self.bar.inc(bytes);
        self.bar.set_message(self.report.summary());
        Ok(())
    }

    async fn post(&self, content: Content) -> Result<Answer, ClientError> {
        let query: Vec<(&str, &str)> = self.source.iter().map(|source| ("source", source.as_str())).collect();
        let busy = |_: &Problem| {
            self.bar.set_message(format!("{} (server busy, retrying)", self.report.summary()));
        };
        self.client.post_patiently(&["dead-letters"], &query, content, busy).await
    }

    /// Ends the report and says what became of it. What was stored stays stored, even if the rest failed.
    pub fn finish(self, end: End) -> anyhow::Result<Outcome> {
        self.bar.finish_and_clear();
        self.report.end(end)
    }
}

/// A refusal of a whole request that can only mean its one item.
fn is_about_the_item(problem: &Problem, places: &[usize]) -> bool {
    let about_size_or_content =
        matches!(problem.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY);
    places.len() == 1 && about_size_or_content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_sent_as_it_was_written() {
        let mut lines = Batch::of_lines();
        let mut entries = Batch::of_entries();
        for batch in [&mut lines, &mut entries] {
            batch.add(3, b"{\"a\": 1.0}");
            batch.add(5, b"{}");
        }
        let (content, _, places) = lines.into_content();
        assert_eq!((&content.bytes[..], places), (&b"{\"a\": 1.0}\n{}"[..], vec![3, 5]));
        let (content, _, _) = entries.into_content();
        assert_eq!(&content.bytes[..], b"{\"items\":[{\"a\": 1.0},{}]}");
    }

    #[test]
    fn batches_keep_the_limits_of_the_server() {
        let mut batch = Batch::of_entries();
        for place in 0..limits::BATCH_ITEMS_MAX {
            assert!(batch.has_room_for(b"{}"));
            batch.add(place, b"{}");
        }
        assert!(!batch.has_room_for(b"{}"));

        let mut batch = Batch::of_lines();
        let large = vec![b'x'; limits::ENTRY_BYTES_MAX];
        let mut fitted = 0;
        while batch.has_room_for(&large) {
            batch.add(fitted, &large);
            fitted += 1;
        }
        assert_eq!(fitted, 7);
    }

    #[test]
    fn what_is_too_large_goes_alone() {
        let huge = vec![b'x'; limits::ENTRY_BYTES_MAX + 1];
        let mut batch = Batch::of_lines();
        batch.add(1, b"{}");
        assert!(!batch.has_room_for(&huge));
        let mut batch = Batch::of_lines();
        assert!(batch.has_room_for(&huge));
        batch.add(1, &huge);
        assert!(!batch.has_room_for(b"{}"));
    }
}
