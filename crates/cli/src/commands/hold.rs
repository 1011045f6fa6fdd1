//! `lazaret hold`: letters that nothing removes, by id, by filter, or standing for letters to come.

use clap::{ArgGroup, Args};
use lazaret_core::duration::Length;
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Action;
use lazaret_core::time::Time;
use serde_json::{Value, json};

use crate::answers::hold::HoldRecord;
use crate::client::{Answer, Client, Content};
use crate::commands::decide::{self, DecideArgs, Selection, bulk};
use crate::failure::Outcome;
use crate::filter;
use crate::output::{Format, Screen, escape, json_text, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret hold 019a8b1c-7e00-7000-8000-000000000000 --reason 'case 12/2026'
  lazaret hold --filter 'tenant:acme' --expect 412 --reason 'case 12/2026'
  lazaret hold --filter 'tenant:acme' --expect 412 --until 365d --reason 'case 12/2026'
  lazaret hold --filter 'tenant:acme' --standing --reason 'case 12/2026'      includes future matches
  lazaret holds                                                               list holds

A filter selects letters of every status. Held letters can be redriven, resolved and reopened, but not discarded,
archived or deleted. `lazaret release` releases a letter from all holds, `lazaret holds release` ends one hold.
Exit code 1 if a letter was refused or skipped.";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("letters").required(true).args(["ids", "filter", "all"]))]
pub struct HoldArgs {
    /// Letter ids
    #[arg(value_name = "ID", value_parser = LetterId::parse)]
    ids: Vec<LetterId>,

    /// Filter, such as 'tenant:acme'
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,

    /// All letters of every status
    #[arg(long)]
    all: bool,

    /// Expected number of letters; on a mismatch nothing is changed
    #[arg(long, alias = "count", value_name = "N", conflicts_with = "ids")]
    expect: Option<u64>,

    /// Include future matches
    #[arg(long, conflicts_with_all = ["ids", "expect"])]
    standing: bool,

    /// End of the hold: a duration such as 365d, or a time such as 2027-12-31T00:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = until)]
    until: Option<String>,

    /// Reason for the hold
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Read here first, so that a mistake is told at once; the server counts from its own clock.
fn until(text: &str) -> Result<String, String> {
    if Time::parse(text).is_ok() || Length::parse(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err("use a duration such as 365d, or a time such as 2027-12-31T00:00:00Z".into())
}

pub async fn run(args: HoldArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    if args.until.is_none() && !args.standing {
        let HoldArgs { ids, filter, all, expect, reason, .. } = args;
        let args = DecideArgs { ids, filter, all, expect, reason };
        return decide::run(Action::Hold, args, client, screen).await;
    }
    let Some(reason) = args.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty()) else {
        return Err(decide::hold_without_reason().into());
    };
    let mut body = json!({ "reason": reason });
    if let Some(until) = &args.until {
        body["until"] = until.as_str().into();
    }
    if !args.ids.is_empty() {
        return each(&args.ids, &body, client, screen).await;
    }
    let wanted = match &args.filter {
        None => Filter::default(),
        Some(text) => filter::read(text)?,
    };
    let selection = match (wanted.spares_nothing(Action::Hold, moment::now()), args.all) {
        (true, true) => Selection::All,
        (true, false) => return Err(decide::empty_filter().into()),
        (false, _) => Selection::Matching(Box::new(wanted)),
    };
    match &selection {
        Selection::All => body["all"] = true.into(),
        Selection::Matching(filter) => body["filter"] = json!({ "q": filter.to_string() }),
    }
    if args.standing {
        body["standing"] = true.into();
    } else {
        let request =
            bulk::Request { action: Action::Hold, selection, expect: args.expect, reason: Some(reason) };
        body["count"] = bulk::stated(&request, client).await?.into();
    }
    let answer = place(&body, client).await?;
    tell(&answer, screen)?;
    Ok(Outcome::Done)
}

async fn place(body: &Value, client: &Client) -> anyhow::Result<Answer> {
    Ok(client.post(&["holds"], &[], Content::json(body)).await?)
}

/// A hold for each letter; one that is refused does not stop the others.
async fn each(
    ids: &[LetterId],
    body: &Value,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let mut failed = 0;
    for id in ids {
        let mut body = body.clone();
        body["letterId"] = id.to_string().into();
        match place(&body, client).await {
            Ok(answer) => tell(&answer, screen)?,
            Err(error) => {
                failed += 1;
                decide::refused(&id.to_string(), &error, screen)?;
            }
        }
    }
    Ok(if failed > 0 { Outcome::Incomplete } else { Outcome::Done })
}

fn tell(answer: &Answer, screen: &mut Screen) -> anyhow::Result<()> {
    if screen.format == Format::Json {
        screen.line(&json_text::on_one_line(answer.text()?))?;
        return Ok(());
    }
    let hold: HoldRecord = answer.read()?;
    screen.line(&told(&hold))?;
    if hold.state == "placing" {
        let id = escape::line(&hold.id);
        screen.note(&format!("in progress: lazaret holds show {id}"));
    }
    Ok(())
}

/// A hold that was placed, in one line.
fn told(hold: &HoldRecord) -> String {
    let on = match (hold.kind.as_str(), &hold.letter_id) {
        ("letter", Some(letter)) => escape::line(letter),
        ("standing", _) => format!("{} and future matches", moment::letters(hold.letters)),
        (_, _) => moment::letters(hold.letters),
    };
    let until =
        hold.until.as_ref().map(|until| format!(" until {}", moment::minute(until))).unwrap_or_default();
    format!("hold {} on {on}{}", escape::line(&hold.id), escape::line(&until))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(kind: &str, until: Option<&str>) -> HoldRecord {
        serde_json::from_value(json!({
            "id": "019a8b1c-7e00-7000-8000-000000000009", "state": "standing", "kind": kind,
            "letterId": (kind == "letter").then_some("019a8b1c-7e00-7000-8000-000000000000"),
            "reason": "case", "by": "legal", "at": "2025-11-15T03:00:00.000Z", "until": until, "letters": 2,
        }))
        .unwrap()
    }

    #[test]
    fn a_hold_is_told_by_what_it_is_on() {
        let id = "019a8b1c-7e00-7000-8000-000000000009";
        assert_eq!(told(&hold("filter", None)), format!("hold {id} on 2 letters"));
        assert_eq!(told(&hold("standing", None)), format!("hold {id} on 2 letters and future matches"));
        assert_eq!(
            told(&hold("letter", Some("2026-11-15T03:00:00.000Z"))),
            format!("hold {id} on 019a8b1c-7e00-7000-8000-000000000000 until 2026-11-15T03:00Z")
        );
    }

    #[test]
    fn an_end_is_a_time_or_a_length() {
        for good in ["365d", "24h", "2027-12-31T00:00:00Z", "P30D"] {
            assert!(until(good).is_ok(), "{good}");
        }
        for bad in ["", "P1Y", "soon", "2027-12-31"] {
            assert!(until(bad).is_err(), "{bad}");
        }
    }
}
