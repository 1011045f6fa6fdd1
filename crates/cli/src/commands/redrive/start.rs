//! `lazaret redrive start`: puts back the letters of a plan, once somebody has said how many that are.

use clap::Args;
use lazaret_core::id::RedriveId;
use lazaret_core::redrive::Outcome::LaneBlocked;
use serde_json::json;

use super::choices::{How, Which, pace_told};
use super::{page, plan, watch};
use crate::answers::redrive::Redrive;
use crate::args::filter_word;
use crate::client::{Client, ClientError, Content};
use crate::failure::{Failure, Outcome};
use crate::gate;
use crate::output::{Format, Screen, escape, moment};
use crate::prompt;

pub const EXAMPLES: &str = "\
Examples:
  lazaret redrive start 019a8b1c-7e00-7000-8000-000000000007 --expect 412
  lazaret redrive start 019a8b1c-7e00-7000-8000-000000000007 --expect 412 --pace critical --watch
  lazaret redrive start queue:billing error:Timeout       plan, confirm and start
  lazaret redrive start --incident 019a8b1c-7e00-7000-8000-000000000001 --expect 412 --yes
  lazaret redrive start 019a8b1c-7e00-7000-8000-000000000007 --expect 430 \\
      --override 'payments are down, the fix is deployed'

--expect is the number of letters in the plan; on a mismatch nothing starts. On a terminal the command asks for \
confirmation unless --yes is given.
--override (emergency override) also redrives blocked letters. It requires the role admin and a reason of at least 20 \
characters, which is recorded in the audit log.";

#[derive(Args, Debug)]
pub struct StartArgs {
    /// Plan id; or a filter, to plan and start in one step
    #[arg(value_name = "PLAN|FILTER", value_parser = filter_word)]
    words: Vec<String>,

    /// Skip the confirmation
    #[arg(long, short, requires = "expect")]
    yes: bool,

    /// Follow the redrive until it finishes
    #[arg(long)]
    watch: bool,

    /// Emergency override: redrive blocked letters; reason of at least 20 characters, requires role admin
    #[arg(long = "override", alias = "break-glass", value_name = "REASON")]
    break_glass: Option<String>,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    how: How,
}

pub async fn run(args: StartArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let redrive = planned(&args, client, screen).await?;
    let count = confirmed(&args, &redrive)?;
    let mut body = json!({ "planId": redrive.id, "count": count });
    args.how.add_to(&mut body);
    if let Some(reason) = &args.break_glass {
        body["breakGlass"] = reason.as_str().into();
    }
    let answer = match client.post(&["redrives"], &[], Content::json(&body)).await {
        Err(ClientError::Refused(problem)) if problem.code == "count_mismatch" => {
            let failure = Failure::failed(problem.message.clone());
            return Err(match problem.count {
                Some(count) => failure.hint(format!(
                    "check the plan with `lazaret redrive show {}`, then pass --expect {count}",
                    escape::line(&redrive.id)
                )),
                None => failure,
            }
            .into());
        }
        answered => answered?,
    };
    let started: Redrive = answer.read()?;
    if args.watch {
        return watch::to_the_end(&started.id, client, screen).await;
    }
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => {
            let id = escape::line(&started.id);
            screen.line(&format!("{id} started: {}", going(&started)))?;
            screen.note(&format!("follow: lazaret redrive watch {id}"));
        }
    }
    Ok(Outcome::Done)
}

/// The plan that was named, or a new one, which is shown.
async fn planned(args: &StartArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Redrive> {
    let named = match args.words.as_slice() {
        [word] => RedriveId::parse(word).ok(),
        _ => None,
    };
    if let Some(id) = named {
        if args.which.is_said(&[]) || args.which.reason.is_some() || args.which.order.is_some() {
            return Err(Failure::misuse("selection and order are part of the plan")
                .hint("remove these flags, or create a new plan")
                .into());
        }
        return Ok(client.get(&["redrives", &id.to_string()], &[]).await?.read()?);
    }
    let mut body = args.which.json(&args.words)?;
    // A filter may also match letters that are blocked: the count is compared when the plan starts.
    if let (false, Some(body)) = (args.which.all, body.as_object_mut()) {
        body.remove("expectedCount");
    }
    args.how.add_to(&mut body);
    if args.which.expect.is_none() && !prompt::can_ask() {
        return Err(number_needed().into());
    }
    let redrive: Redrive = plan::made(&body, client).await?.read()?;
    if screen.format == Format::Text {
        let text = page::to_be_asked(&redrive, screen, moment::now());
        screen.write(text.as_bytes())?;
    }
    if expected(args, &redrive) == 0 {
        return Err(Failure::failed("redrive blocked: all letters are blocked, nothing was started").into());
    }
    Ok(redrive)
}

/// How many letters will go.
fn expected(args: &StartArgs, redrive: &Redrive) -> u64 {
    match args.break_glass {
        None => redrive.count,
        Some(_) => forced(redrive),
    }
}

/// Broken glass lets those through that the gate refuses, and those that only wait behind them. Of the latter some may
/// wait behind a letter without a way back; the server knows, and refuses this number then with the right one.
fn forced(redrive: &Redrive) -> u64 {
    let plan = redrive.plan.as_ref();
    let refused = plan.map(|plan| plan.refusals.as_slice()).unwrap_or_default();
    let passes = |code: &str| gate::command(code, "").is_some() || code == LaneBlocked.name();
    let forced = refused.iter().filter(|refusal| passes(&refusal.code)).map(|refusal| refusal.count);
    forced.fold(redrive.count, u64::saturating_add)
}

/// The number that somebody stands for: typed as a flag, or confirmed on the terminal.
fn confirmed(args: &StartArgs, redrive: &Redrive) -> anyhow::Result<u64> {
    let count = match args.which.expect {
        Some(count) => count,
        None if prompt::can_ask() => expected(args, redrive),
        None => {
            let hint = format!("check the plan, then pass --expect {}", expected(args, redrive));
            return Err(number_needed().hint(hint).into());
        }
    };
    if args.yes || !prompt::can_ask() {
        return Ok(count);
    }
    let glass = if args.break_glass.is_some() { " (emergency override)" } else { "" };
    let pace = match args.how.pace {
        Some(_) => String::new(),
        None => format!(", {}", pace_told(&redrive.options.pace)),
    };
    let question = format!("Redrive {}{glass}{pace}?", moment::letters(count));
    if prompt::yes(&question)? { Ok(count) } else { Err(prompt::not_confirmed().into()) }
}

fn number_needed() -> Failure {
    Failure::misuse("--expect required: the number of letters")
        .hint("create a plan, check it, and pass its count with --expect")
}

/// `412 letters, 5 of them first and alone`
fn going(redrive: &Redrive) -> String {
    let letters = moment::letters(redrive.count);
    match redrive.state.as_str() {
        "canary" => format!("{letters}, {} canaries first", moment::count(redrive.options.canary)),
        _ => letters,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_glass_counts_what_is_behind_the_gate_and_behind_that() {
        let mut plan: serde_json::Value = serde_json::from_str(include_str!("plan.json")).unwrap();
        let refusal = |code: &str, count: u64| json!({"code": code, "reason": "r", "hint": "h", "count": count, "incidents": []});
        plan["count"] = 400.into();
        plan["plan"]["refusals"] =
            json!([refusal("rca_required", 10), refusal("lane_blocked", 3), refusal("no_way_back", 7)]);
        let redrive: Redrive = serde_json::from_value(plan).unwrap();
        assert_eq!(forced(&redrive), 413);
    }
}
