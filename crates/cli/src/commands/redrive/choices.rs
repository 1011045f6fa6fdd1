//! What a person chooses for a redrive: which letters, how fast, how many first. The same for a plan and for a start.

use clap::Args;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::limits;
use lazaret_core::redrive::OrderBy;
use serde_json::{Value, json};

use crate::answers::redrive::Pace as ToldPace;
use crate::failure::Failure;
use crate::filter;
use crate::output::{escape, moment};

/// Which letters, beside the words of a filter.
#[derive(Args, Debug)]
pub struct Which {
    /// Letters of this incident; can be combined with a filter
    #[arg(long, value_name = "ID", value_parser = IncidentId::parse)]
    pub incident: Option<IncidentId>,

    /// Letter id; repeatable
    #[arg(long, value_name = "ID", value_parser = LetterId::parse, conflicts_with_all = ["incident", "all"])]
    pub letter: Vec<LetterId>,

    /// All pending letters; requires --expect
    #[arg(long, requires = "expect", conflicts_with = "incident")]
    pub all: bool,

    /// Expected number of letters; on a mismatch nothing is planned or started
    #[arg(long, alias = "count", value_name = "N")]
    pub expect: Option<u64>,

    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,

    /// Sort order; letters of one order key always stay in order
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true, value_parser = order)]
    pub order: Option<Order>,
}

/// How they go. What is not said is as the server has it: 100 a minute (jobs: no limit), five first.
#[derive(Args, Debug)]
pub struct How {
    /// Rate: letters per minute, `critical` (1,000), or `unlimited`
    #[arg(long, value_name = "RATE", value_parser = pace)]
    pub pace: Option<Pace>,

    /// Canaries: letters sent first; the rest start once they succeed; 0 for none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(limits::CANARY_LETTERS_MAX)))]
    pub canary: Option<u32>,

    /// Count a canary as successful after the quiet window
    #[arg(long)]
    pub canary_assumed: bool,

    /// Batch size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::REDRIVE_BATCH_MAX)))]
    pub batch: Option<u32>,

    /// Concurrency: letters in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::REDRIVE_CONCURRENCY_MAX)))]
    pub concurrency: Option<u32>,

    /// Failure threshold in percent; the redrive stops above it
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub stop_percent: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    by: OrderBy,
    direction: &'static str,
}

/// A pace as it is typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    PerMinute(u32),
    Critical,
    Unlimited,
}

impl Pace {
    pub fn json(self) -> Value {
        match self {
            Pace::PerMinute(rate) => rate.into(),
            Pace::Critical => "critical".into(),
            Pace::Unlimited => "unlimited".into(),
        }
    }
}

/// Reads `100`, `100/min`, `critical` or `unlimited`.
pub fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "critical" => return Ok(Pace::Critical),
        "unlimited" => return Ok(Pace::Unlimited),
        _ => {}
    }
    let number = text.trim_end_matches("/min").replace([',', '_'], "");
    match number.parse() {
        Ok(rate @ 1..=limits::PACE_PER_MINUTE_MAX) => Ok(Pace::PerMinute(rate)),
        Ok(_) | Err(_) => Err(format!(
            "use letters per minute, 1 to {}, `critical` (1,000) or `unlimited`",
            moment::count(u64::from(limits::PACE_PER_MINUTE_MAX))
        )),
    }
}

/// Reads `diedAt`, or `-diedAt` for the other way round.
fn order(text: &str) -> Result<Order, String> {
    let (direction, name) = match text.strip_prefix('-') {
        Some(name) => ("desc", name),
        None => ("asc", text),
    };
    match OrderBy::parse(name) {
        Some(by) => Ok(Order { by, direction }),
        None => {
            let names = OrderBy::ALL.map(OrderBy::name).join(", ");
            Err(format!("use one of {names}; prefix with a hyphen for descending order"))
        }
    }
}

impl Which {
    pub fn is_said(&self, words: &[String]) -> bool {
        !words.is_empty() || self.incident.is_some() || !self.letter.is_empty() || self.all
    }

    /// The request for a plan, without how it shall go.
    pub fn json(&self, words: &[String]) -> Result<Value, Failure> {
        let mut body = json!({});
        if !self.letter.is_empty() {
            if !words.is_empty() {
                return Err(Failure::misuse("--letter conflicts with a filter"));
            }
            body["letters"] = self.letter.iter().map(ToString::to_string).collect();
        } else if self.all {
            if !words.is_empty() {
                return Err(Failure::misuse("--all conflicts with a filter"));
            }
            body["all"] = true.into();
        } else {
            let incident = self.incident.map(|id| format!("incident:{id}"));
            let typed: Vec<&str> = incident.iter().chain(words).map(String::as_str).collect();
            let wanted = filter::read(&typed.join(" "))?;
            if wanted.is_empty() {
                return Err(Failure::misuse("filter required")
                    .hint("pass --incident ID or a filter, as for lazaret ls"));
            }
            body["filter"] = json!({ "q": wanted.to_string() });
        }
        if let Some(expect) = self.expect {
            body["expectedCount"] = expect.into();
        }
        if let Some(reason) = &self.reason {
            body["reason"] = reason.as_str().into();
        }
        if let Some(order) = self.order {
            body["reprocessingOptions"] =
                json!({ "prioritization": { "orderBy": order.by.name(), "direction": order.direction } });
        }
        Ok(body)
    }
}

impl How {
    /// Puts what was said into a request.
    pub fn add_to(&self, body: &mut Value) {
        if let Some(pace) = self.pace {
            body["pace"] = pace.json();
        }
        if let Some(canary) = self.canary {
            body["canary"] = canary.into();
        }
        if self.canary_assumed {
            body["canaryAssumed"] = true.into();
        }
        if let Some(percent) = self.stop_percent {
            body["stopPercent"] = percent.into();
        }
        if let Some(batch) = self.batch {
            body["reprocessingOptions"]["batchSize"] = batch.into();
        }
        if let Some(concurrency) = self.concurrency {
            body["reprocessingOptions"]["concurrency"] = concurrency.into();
        }
    }
}

/// A pace in words: `100 a minute`.
pub fn pace_told(pace: &ToldPace) -> String {
    match pace {
        ToldPace::PerMinute(rate) => format!("{}/min", moment::count(*rate)),
        ToldPace::Word(word) if word == "unlimited" => "unlimited".to_owned(),
        ToldPace::Word(word) => escape::line(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Typed {
        words: Vec<String>,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        how: How,
    }

    fn body(words: &[&str]) -> Result<Value, String> {
        let words = ["x"].iter().chain(words);
        let typed = Typed::try_parse_from(words).map_err(|error| error.to_string())?;
        let mut body = typed.which.json(&typed.words).map_err(|error| error.to_string())?;
        typed.how.add_to(&mut body);
        Ok(body)
    }

    #[test]
    fn what_is_typed_is_what_is_asked() {
        let id = "019a8b1c-7e00-7000-8000-000000000001";
        assert_eq!(
            body(&["queue:a", "since:24h"]).unwrap(),
            json!({ "filter": { "q": "queue:a since:P1D" } })
        );
        let all = body(&[
            "--incident",
            id,
            "--pace",
            "critical",
            "--canary",
            "0",
            "--batch",
            "10",
            "--order",
            "-diedAt",
        ]);
        let expected = json!({
            "filter": { "q": format!("incident:{id}") }, "pace": "critical", "canary": 0,
            "reprocessingOptions": { "batchSize": 10, "prioritization": { "orderBy": "diedAt", "direction": "desc" } },
        });
        assert_eq!(all.unwrap(), expected);
        assert_eq!(body(&["--letter", id]).unwrap(), json!({ "letters": [id] }));
        assert_eq!(body(&["--all", "--expect", "3"]).unwrap(), json!({ "all": true, "expectedCount": 3 }));
    }

    #[test]
    fn nothing_is_put_back_without_saying_what() {
        assert!(body(&[]).unwrap_err().contains("filter required"));
        assert!(body(&["--all"]).is_err());
        assert!(body(&["--all", "--expect", "3", "queue:a"]).is_err());
        assert!(body(&["quue:a"]).unwrap_err().contains("did you mean"));
    }

    #[test]
    fn a_pace_is_a_number_or_a_known_word() {
        assert_eq!(pace("1,500/min"), Ok(Pace::PerMinute(1_500)));
        assert_eq!([pace("critical"), pace("unlimited")], [Ok(Pace::Critical), Ok(Pace::Unlimited)]);
        for bad in ["0", "-1", "fast", "1000001", ""] {
            assert!(pace(bad).is_err(), "{bad}");
        }
    }
}
