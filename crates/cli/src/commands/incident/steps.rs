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

Letters that died before that time can then be redriven: lazaret redrive plan --incident ID. A letter that dies later \
disproves the fix: the incident regresses and requires a new RCA revision.
A business error requires --decision by an approver.";

#[derive(Args, Debug)]
pub struct FixArgs {
    /// Incident id
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// Pull request, commit, deployment or decision record
    #[arg(long = "ref", value_name = "TEXT")]
    reference: String,

    /// Effective since: a time, or a duration such as 20m; default: now
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,

    /// Approver decision instead of a code change
    #[arg(long)]
    decision: bool,
}

pub const EXAMPLES_CLOSE: &str = "\
Examples:
  lazaret incident close 019a8b1c-7e00-7000-8000-000000000001 --reason 'same as 4711'

An incident closes automatically when its last letter is resolved or discarded.";

#[derive(Args, Debug)]
pub struct CloseArgs {
    /// Incident id
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// Reason, shown in the timeline
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub const EXAMPLES_ASSIGN: &str = "\
Examples:
  lazaret incident assign 019a8b1c-7e00-7000-8000-000000000001 anna
  lazaret incident assign 019a8b1c-7e00-7000-8000-000000000001 --unassign";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("to").required(true).args(["who", "unassign"]))]
pub struct AssignArgs {
    /// Incident id
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// Assignee
    #[arg(value_name = "WHO")]
    who: Option<String>,

    /// Remove the assignee
    #[arg(long, alias = "nobody")]
    unassign: bool,
}

pub const EXAMPLES_NOTE: &str = "\
Examples:
  lazaret incident note 019a8b1c-7e00-7000-8000-000000000001 'the gateway team looks into it, ticket 812'";

#[derive(Args, Debug)]
pub struct NoteArgs {
    /// Incident id
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// Text of the note
    #[arg(value_name = "TEXT")]
    text: String,
}

pub const EXAMPLES_RCA: &str = "\
Examples:
  lazaret incident rca 019a8b1c-7e00-7000-8000-000000000001
  lazaret incident rca 019a8b1c-7e00-7000-8000-000000000001 > docs/incidents/2026-11-15.md

Prints Markdown: date, count, error, root cause, fix and redrive date. With --json: RCA, revisions and fixes.";

#[derive(Args, Debug)]
pub struct RcaArgs {
    /// Incident id
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
    told(Step { id: &id, what: "fix", past: "fix linked" }, &body, client, screen).await
}

pub async fn close(args: CloseArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let body = args.reason.map_or(json!({}), |reason| json!({ "reason": reason }));
    told(Step { id: &id, what: "close", past: "closed" }, &body, client, screen).await
}

pub async fn assign(args: AssignArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    if args.who.as_ref().is_some_and(|who| who.trim().is_empty()) {
        return Err(Failure::misuse("assignee required").hint("pass a name, or --unassign").into());
    }
    let past = match &args.who {
        Some(who) => format!("assigned to {}", escape::line(who)),
        None => "unassigned".to_owned(),
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
