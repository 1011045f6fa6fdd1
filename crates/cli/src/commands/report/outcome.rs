//! What became of reported letters: counted, the refused ones told with their places.

use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::sending::BatchForm;
use crate::answers::Receipt;
use crate::client::Problem;
use crate::failure::Outcome;
use crate::output::{Format, Screen, escape, json_text, moment, tell};

/// Refused letters that are told one by one; `--json` has all of them.
const REFUSED_TOLD_MAX: u64 = 100;

/// The results that the API knows, in the order of the summary.
const RESULTS: [&str; 5] = ["created", "duplicate", "recurred", "relapse", "refused"];
const REFUSED: usize = 4;

/// How a report ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Complete,
    BrokenOff,
}

/// What became of one letter.
#[derive(Debug)]
pub struct Verdict {
    result: usize,
    id: Option<String>,
    event_id: Option<String>,
    error: Option<Value>,
}

impl Verdict {
    pub fn of(receipt: Receipt) -> Verdict {
        // A result that we do not know is not a success that we may count.
        let result = RESULTS.iter().position(|known| *known == receipt.result).unwrap_or(REFUSED);
        let error = receipt.error.map(|error| raw_value(&error));
        Verdict { result, id: receipt.id, event_id: receipt.event_id, error }
    }

    /// A request with one letter that was refused as a whole.
    pub fn refused(problem: &Problem) -> Verdict {
        let error = json!({ "code": problem.code, "message": problem.message });
        Verdict { result: REFUSED, id: None, event_id: None, error: Some(error) }
    }

    fn reason(&self) -> String {
        #[derive(Deserialize)]
        struct Reason {
            message: String,
            field: Option<String>,
        }
        let reason = self.error.as_ref().and_then(|error| Reason::deserialize(error).ok());
        let text = match reason {
            Some(Reason { message, field: Some(field) }) if !message.contains(&field) => {
                format!("{field}: {message}")
            }
            Some(Reason { message, .. }) => message,
            None => "no reason given by the server".into(),
        };
        match &self.event_id {
            Some(event) => format!("{text} (event {event})"),
            None => text,
        }
    }
}

fn raw_value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or(Value::Null)
}

/// The counts of a report, and what is printed of it while it runs.
pub struct Report<'a> {
    /// The input that letters come from now.
    pub input: String,
    counts: [u64; RESULTS.len()],
    screen: &'a mut Screen,
    bar: ProgressBar,
}

impl<'a> Report<'a> {
    pub fn begin(screen: &'a mut Screen, bar: ProgressBar) -> anyhow::Result<Report<'a>> {
        if screen.format == Format::Json {
            // Written as it comes: a report may have more letters than memory has room for.
            screen.write(b"{\"items\":[")?;
        }
        Ok(Report { input: String::new(), counts: [0; RESULTS.len()], screen, bar })
    }

    /// Takes down one letter, which stood at this line or was this entry of the input.
    pub fn take(&mut self, verdict: Verdict, form: BatchForm, place: usize) -> anyhow::Result<()> {
        let first = self.counts.iter().sum::<u64>() == 0;
        self.counts[verdict.result] += 1;
        let place_name = match form {
            BatchForm::Lines => "line",
            BatchForm::Entries => "entry",
        };
        match self.screen.format {
            Format::Json => {
                let separator = if first { "" } else { "," };
                let item = json_text::on_one_line(&self.item(&verdict, place_name, place).to_string());
                self.screen.write(format!("{separator}{item}").as_bytes())?;
            }
            Format::Text if verdict.result != REFUSED => {}
            Format::Text if self.counts[REFUSED] > REFUSED_TOLD_MAX => {}
            Format::Text => {
                let text = format!("{}: {place_name} {place}: refused: {}", self.input, verdict.reason());
                self.bar.suspend(|| tell(&escape::line(&text)));
            }
        }
        Ok(())
    }

    fn item(&self, verdict: &Verdict, place_name: &str, place: usize) -> Value {
        let mut item = Map::new();
        item.insert("result".into(), RESULTS[verdict.result].into());
        item.insert("id".into(), verdict.id.clone().into());
        item.insert("eventId".into(), verdict.event_id.clone().into());
        if let Some(error) = &verdict.error {
            item.insert("error".into(), error.clone());
        }
        item.insert("input".into(), self.input.clone().into());
        item.insert(place_name.into(), place.into());
        Value::Object(item)
    }

    /// `created 990, duplicate 10, refused 3`
    pub fn summary(&self) -> String {
        summary(&self.counts)
    }

    /// Prints the counts.
    pub fn end(self, end: End) -> anyhow::Result<Outcome> {
        match self.screen.format {
            Format::Json => {
                let mut text = String::from("]");
                for (result, count) in RESULTS.iter().zip(self.counts) {
                    text.push_str(&format!(",\"{result}\":{count}"));
                }
                self.screen.line(&format!("{text},\"complete\":{}}}", end == End::Complete))?;
            }
            Format::Text => {
                let more = self.counts[REFUSED].saturating_sub(REFUSED_TOLD_MAX);
                if more > 0 {
                    tell(&format!("… and {} more refused; --json lists them", moment::count(more)));
                }
                if self.counts.iter().any(|count| *count > 0) {
                    let so_far = match end {
                        End::Complete => "",
                        End::BrokenOff => " before the failure; send the input again to continue",
                    };
                    self.screen.line(&format!("{}{so_far}", summary(&self.counts)))?;
                }
            }
        }
        Ok(if self.counts[REFUSED] > 0 { Outcome::Incomplete } else { Outcome::Done })
    }
}

fn summary(counts: &[u64; RESULTS.len()]) -> String {
    let named = RESULTS.iter().zip(counts).filter(|(result, count)| **count > 0 || **result == "created");
    named.map(|(result, count)| format!("{result} {}", moment::count(*count))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(json: &str) -> Verdict {
        Verdict::of(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_summary_names_what_happened() {
        assert_eq!(summary(&[990, 10, 0, 0, 3]), "created 990, duplicate 10, refused 3");
        assert_eq!(summary(&[0, 12_000, 0, 1, 0]), "created 0, duplicate 12,000, relapse 1");
    }

    #[test]
    fn a_refusal_is_told_with_its_field_and_event() {
        let told = |json| verdict(json).reason();
        let named = r#"{"result":"refused","eventId":"e1","error":{"code":"x","message":"is empty","field":"queue"}}"#;
        assert_eq!(told(named), "queue: is empty (event e1)");
        let once =
            r#"{"result":"refused","error":{"code":"x","message":"eventId is empty","field":"eventId"}}"#;
        assert_eq!(told(once), "eventId is empty");
        assert_eq!(told(r#"{"result":"refused"}"#), "no reason given by the server");
    }

    #[test]
    fn a_result_we_do_not_know_is_not_counted_as_stored() {
        assert_eq!(verdict(r#"{"result":"vanished"}"#).result, REFUSED);
    }
}
