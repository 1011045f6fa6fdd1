//! `lazaret redrive pause|resume|cancel|pace|settle`: what is done to a redrive while it runs.

use clap::Args;
use lazaret_core::id::{LetterId, RedriveId};
use serde_json::{Value, json};

use super::choices::{self, Pace, pace_told};
use crate::answers::redrive::Redrive;
use crate::client::{Client, Content};
use crate::failure::Outcome;
use crate::output::{Format, Screen, escape, moment};

pub const EXAMPLES_PAUSE: &str = "\
Examples:
  lazaret redrive pause 019a8b1c-7e00-7000-8000-000000000007 --reason 'the receiver is slow'";

pub const EXAMPLES_RESUME: &str = "\
Examples:
  lazaret redrive resume 019a8b1c-7e00-7000-8000-000000000007

If the canaries have not succeeded, only new canaries are sent first.";

pub const EXAMPLES_CANCEL: &str = "\
Examples:
  lazaret redrive cancel 019a8b1c-7e00-7000-8000-000000000007 --reason 'wrong filter'

Letters already sent are still verified. A plan that was not started can be cancelled too.";

pub const EXAMPLES_PACE: &str = "\
Examples:
  lazaret redrive pace 019a8b1c-7e00-7000-8000-000000000007 20
  lazaret redrive pace 019a8b1c-7e00-7000-8000-000000000007 critical
  lazaret redrive pace 019a8b1c-7e00-7000-8000-000000000007 unlimited";

pub const EXAMPLES_SETTLE: &str = "\
Examples:
  lazaret redrive show 019a8b1c-7e00-7000-8000-000000000007 --outcome unknown
  lazaret redrive settle 019a8b1c-7e00-7000-8000-000000000007 019a8b1c-7e00-7000-8000-000000000000 sent
  lazaret redrive settle 019a8b1c-7e00-7000-8000-000000000007 019a8b1c-7e00-7000-8000-000000000000 unclaim

`sent`: delivered; verification continues. `unclaim`: not delivered; the letter returns to pending.
Look up the idempotency key from `show --json` at the receiver first.";

#[derive(Args, Debug)]
pub struct RedriveArg {
    /// Redrive id
    #[arg(value_name = "ID", value_parser = RedriveId::parse)]
    id: RedriveId,
}

#[derive(Args, Debug)]
pub struct BecauseArgs {
    /// Redrive id
    #[arg(value_name = "ID", value_parser = RedriveId::parse)]
    id: RedriveId,

    /// Reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Args, Debug)]
pub struct PaceArgs {
    /// Redrive id
    #[arg(value_name = "ID", value_parser = RedriveId::parse)]
    id: RedriveId,

    /// Rate: letters per minute, `critical` (1,000), or `unlimited`
    #[arg(value_name = "RATE", value_parser = choices::pace)]
    pace: Pace,
}

#[derive(Args, Debug)]
pub struct SettleArgs {
    /// Redrive id
    #[arg(value_name = "ID", value_parser = RedriveId::parse)]
    id: RedriveId,

    /// Letter id
    #[arg(value_name = "LETTER", value_parser = LetterId::parse)]
    letter: LetterId,

    /// Outcome
    #[arg(value_name = "WHAT", value_parser = ["sent", "unclaim"])]
    outcome: String,
}

pub async fn pause(args: BecauseArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    step(args.id, "pause", &because(args.reason), client, screen).await
}

pub async fn resume(args: RedriveArg, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    step(args.id, "resume", &json!({}), client, screen).await
}

pub async fn cancel(args: BecauseArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    step(args.id, "cancel", &because(args.reason), client, screen).await
}

pub async fn pace(args: PaceArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    step(args.id, "pace", &json!({ "pace": args.pace.json() }), client, screen).await
}

pub async fn settle(args: SettleArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let (id, letter) = (args.id.to_string(), args.letter.to_string());
    let content = Content::json(&json!({ "outcome": args.outcome }));
    let answer = client.post(&["redrives", &id, "letters", &letter, "settle"], &[], content).await?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => {
            let redrive: Redrive = answer.read()?;
            let is = match args.outcome.as_str() {
                "unclaim" => "pending again",
                _ => "marked as sent",
            };
            screen.line(&format!("{letter} settled: {is}"))?;
            let unknown = redrive.letters.unknown;
            if unknown > 0 {
                screen.note(&format!(
                    "{} of this redrive still have an unknown outcome",
                    moment::letters(unknown)
                ));
            }
        }
    }
    Ok(Outcome::Done)
}

fn because(reason: Option<String>) -> Value {
    reason.map_or(json!({}), |reason| json!({ "reason": reason }))
}

async fn step(
    id: RedriveId,
    what: &str,
    body: &Value,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let id = id.to_string();
    let answer = client.post(&["redrives", &id, what], &[], Content::json(body)).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let redrive: Redrive = answer.read()?;
    let state = escape::line(&redrive.state);
    let line = match what {
        "pace" => format!("{id} is {state}, now {}", pace_told(&redrive.options.pace)),
        _ => format!("{id} is {state}"),
    };
    screen.line(&line)?;
    let under_way = redrive.letters.under_way();
    if matches!(what, "pause" | "cancel") && under_way > 0 {
        screen.note(&format!("{} in flight are still verified", moment::letters(under_way)));
    }
    Ok(Outcome::Done)
}
