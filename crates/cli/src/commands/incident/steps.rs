//! `lazaret incident fix|close|assign|note|rca`: what people do about an incident beside finding its cause.

use clap::{ArgGroup, Args};
use lazaret_core::id::IncidentId;
use serde_json::json;

use super::{Step, told};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::filter;
use crate::output::{Format, Screen, escape, moment};

pub const EXAMPLES_FIX: &str = "\
Examples:
  lazaret incident fix 019a8b1c-7e00-7000-8000-000000000001 --ref https://git.example.com/shop/pull/4711
  lazaret incident fix 019a8b1c-7e00-7000-8000-000000000001 --ref 'deploy 2026-11-15.3' --at 20m
  lazaret incident fix 019a8b1c-7e00-7000-8000-000000000001 --decision --ref 'minutes of 2026-11-14, item 3'

Letters that died before that time may then be put back: lazaret redrive plan --incident ID. One that dies after it \
says that it was not the fix: the incident is regressed and needs a new analysis.
A business error needs --decision, by someone whose role may approve.";

#[derive(Args, Debug)]
pub struct FixArgs {
    /// The incident
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// The pull request, commit or deployment; for a decision, where it is written down
    #[arg(long = "ref", value_name = "TEXT")]
    reference: String,

    /// Since when it is in force: a time, or how long ago, such as 20m; now unless said
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,

    /// It is the decision of an approver and no change of code
    #[arg(long)]
    decision: bool,
}

pub const EXAMPLES_CLOSE: &str = "\
Examples:
  lazaret incident close 019a8b1c-7e00-7000-8000-000000000001 --reason 'same as 4711'

An incident closes by itself with its last letter; by hand it can be closed once none of its letters waits.";

#[derive(Args, Debug)]
pub struct CloseArgs {
    /// The incident
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// Why, for the timeline
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub const EXAMPLES_ASSIGN: &str = "\
Examples:
  lazaret incident assign 019a8b1c-7e00-7000-8000-000000000001 anna
  lazaret incident assign 019a8b1c-7e00-7000-8000-000000000001 --nobody";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("to").required(true).args(["who", "nobody"]))]
pub struct AssignArgs {
    /// The incident
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// Who looks after it
    #[arg(value_name = "WHO")]
    who: Option<String>,

    /// Nobody does any more
    #[arg(long)]
    nobody: bool,
}

pub const EXAMPLES_NOTE: &str = "\
Examples:
  lazaret incident note 019a8b1c-7e00-7000-8000-000000000001 'the gateway team looks into it, ticket 812'";

#[derive(Args, Debug)]
pub struct NoteArgs {
    /// The incident
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// What others should know
    #[arg(value_name = "TEXT")]
    text: String,
}

pub const EXAMPLES_RCA: &str = "\
Examples:
  lazaret incident rca 019a8b1c-7e00-7000-8000-000000000001
  lazaret incident rca 019a8b1c-7e00-7000-8000-000000000001 > docs/incidents/2026-11-15.md

Prints Markdown: date, count, error, root cause, fix and redrive date. With --json the analysis, its revisions and \
fixes.";

#[derive(Args, Debug)]
pub struct RcaArgs {
    /// The incident
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,
}

pub async fn fix(args: FixArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let kind = if args.decision { "decision" } else { "deployed" };
    let mut body = json!({ "reference": args.reference, "kind": kind });
    if let Some(at) = &args.at {
        body["fixedAt"] = filter::moment(at, moment::now())?.to_string().into();
    }
    told(Step { id: &id, what: "fix", past: "fix named" }, &body, client, screen).await
}

pub async fn close(args: CloseArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let body = args.reason.map_or(json!({}), |reason| json!({ "reason": reason }));
    told(Step { id: &id, what: "close", past: "closed" }, &body, client, screen).await
}

pub async fn assign(args: AssignArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    if args.who.as_ref().is_some_and(|who| who.trim().is_empty()) {
        return Err(Failure::misuse("who shall look after it?").hint("say --nobody to assign nobody").into());
    }
    let past = match &args.who {
        Some(who) => format!("assigned to {}", escape::line(who)),
        None => "assigned to nobody".to_owned(),
    };
    let body = json!({ "assignee": args.who });
    told(Step { id: &id, what: "assign", past: &past }, &body, client, screen).await
}

pub async fn note(args: NoteArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let body = json!({ "text": args.text });
    told(Step { id: &id, what: "notes", past: "noted" }, &body, client, screen).await
}

/// Prints the document, or what it is made of.
pub async fn rca(args: RcaArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    if screen.format == Format::Json {
        let whole: serde_json::Value = client.get(&["incidents", &id], &[]).await?.read()?;
        let parts = ["id", "state", "rca", "rcas", "fix", "fixes"];
        let kept: serde_json::Map<String, serde_json::Value> =
            parts.into_iter().map(|part| (part.to_owned(), whole[part].clone())).collect();
        screen.json(&serde_json::Value::Object(kept).to_string())?;
        return Ok(Outcome::Done);
    }
    let answer = client.get(&["incidents", &id, "rca.md"], &[]).await?;
    screen.write(escape::lines(answer.text()?).as_bytes())?;
    Ok(Outcome::Done)
}
