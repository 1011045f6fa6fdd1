//! `lazaret redrive plan`: what putting letters back would do. Nothing is sent.

use clap::Args;
use serde_json::Value;

use super::choices::{How, Which};
use super::page;
use crate::answers::redrive::Redrive;
use crate::args::filter_word;
use crate::client::{Answer, Client, ClientError, Content};
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Screen, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret redrive plan --incident 019a8b1c-7e00-7000-8000-000000000001
  lazaret redrive plan queue:billing error:Timeout since:24h
  lazaret redrive plan --incident 019a8b1c-7e00-7000-8000-000000000001 --pace critical --canary 10
  lazaret redrive plan source:jobs 'type:mail.*' --pace unlimited --order -retryCount
  lazaret redrive plan queue:billing --json | jq '{id, count, refusals: .plan.refusals}'

The plan snapshots the matching letters and expires after a day. Defaults: 100 letters per minute, 5 canaries. \
Exit code 1 if all letters are blocked.";

#[derive(Args, Debug)]
pub struct PlanArgs {
    /// Filter, such as queue:billing since:24h
    #[arg(value_name = "FILTER", value_parser = filter_word)]
    filter: Vec<String>,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    how: How,
}

pub async fn run(args: PlanArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let mut body = args.which.json(&args.filter)?;
    args.how.add_to(&mut body);
    let answer = made(&body, client).await?;
    let redrive: Redrive = answer.read()?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => {
            let text = page::plan(&redrive, screen, moment::now());
            screen.write(text.as_bytes())?;
        }
    }
    Ok(if redrive.count == 0 { Outcome::Incomplete } else { Outcome::Done })
}

/// Asks for a plan.
pub async fn made(body: &Value, client: &Client) -> anyhow::Result<Answer> {
    match client.post(&["redrives", "plan"], &[], Content::json(body)).await {
        // The server's hint speaks of a field of the request.
        Err(ClientError::Refused(problem)) if problem.code == "filter_required" => {
            Err(Failure::misuse(problem.message.clone())
                .hint("pass --incident ID or a filter, as for lazaret ls")
                .into())
        }
        answered => Ok(answered?),
    }
}
