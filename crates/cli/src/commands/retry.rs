//! `lazaret retry`: puts one letter back, as it is or edited. It is a redrive of one, through the same gate.

mod edit;
mod wait;

use std::path::PathBuf;

use clap::Args;
use lazaret_core::id::LetterId;
use serde_json::json;

use crate::answers::redrive::Redrive;
use crate::client::{Client, ClientError, Content};
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Screen, escape};
use crate::prompt;
use edit::Edit;

const EXAMPLES: &str = "\
Examples:
  lazaret retry 019a8b1c-7e00-7000-8000-000000000000 --wait
  lazaret retry 019a8b1c-7e00-7000-8000-000000000000 --edit --reason 'currency was missing'
  lazaret retry 019a8b1c-7e00-7000-8000-000000000000 --body fixed.json --header X-Tenant=acme --yes
  lazaret retry 019a8b1c-7e00-7000-8000-000000000000 --to billing/ledger
  lazaret show 019a8b1c-7e00-7000-8000-000000000000 --body | jq .payload.currency=\\\"EUR\\\" |
      lazaret retry 019a8b1c-7e00-7000-8000-000000000000 --body - --yes

The original letter is never changed. An edit is stored with its author and diff; see `lazaret show`. \
The diff is shown for confirmation unless --yes is given.
--to selects a configured destination by name. With --wait the exit code is 1 unless the retry succeeded.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RetryArgs {
    /// Letter id
    #[arg(value_parser = LetterId::parse)]
    id: LetterId,

    /// Edit the body in $EDITOR
    #[arg(long, conflicts_with = "body")]
    edit: bool,

    /// Reveal masked values in the editor; requires role approver or admin, and --reason, which is recorded in the
    /// audit log
    #[arg(long, requires_all = ["edit", "reason"])]
    reveal: bool,

    /// File with the new body, `-` for stdin
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,

    /// Set a header; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<(String, String)>,

    /// Remove a header; repeatable
    #[arg(long, value_name = "NAME")]
    without_header: Vec<String>,

    /// Name of another configured destination
    #[arg(long = "to", value_name = "DESTINATION")]
    destination: Option<String>,

    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Emergency override: reason of at least 20 characters; requires role admin
    #[arg(long = "override", alias = "break-glass", value_name = "REASON")]
    break_glass: Option<String>,

    /// Wait for the outcome
    #[arg(long)]
    wait: bool,

    /// Skip the confirmation of an edit
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(args: RetryArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let mut body = json!({});
    if let Some(reason) = &args.reason {
        body["reason"] = reason.as_str().into();
    }
    if let Some(reason) = &args.break_glass {
        body["breakGlass"] = reason.as_str().into();
    }
    let edit = edit_of(&args, client).await?;
    if let Some(edit) = &edit {
        show(edit, screen)?;
        confirm(&args)?;
        body["edit"] = edit.json();
    }
    let answer = match client.post(&["dead-letters", &id, "retry"], &[], Content::json(&body)).await {
        Ok(answer) => answer,
        Err(error) => {
            // What somebody typed is not lost because a gate is shut.
            if let Some(path) = edit.and_then(Edit::keep) {
                screen.note(&format!("edited body saved in {}", path.display()));
            }
            return Err(error.into());
        }
    };
    let redrive: Redrive = answer.read()?;
    if args.wait {
        return wait::for_end(&id, &redrive.id, client, screen).await;
    }
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => {
            let run = escape::line(&redrive.id);
            screen.line(&format!("{id} sent by redrive {run}"))?;
            screen.note(&format!("outcome: lazaret redrive watch {run}"));
        }
    }
    Ok(Outcome::Done)
}

async fn edit_of(args: &RetryArgs, client: &Client) -> anyhow::Result<Option<Edit>> {
    let is_edited = args.edit
        || args.body.is_some()
        || !args.header.is_empty()
        || !args.without_header.is_empty()
        || args.destination.is_some();
    if !is_edited {
        return Ok(None);
    }
    if !args.yes && !prompt::can_ask() {
        return Err(Failure::misuse("confirmation required for an edit")
            .hint("pass --yes to confirm")
            .into());
    }
    let mut edit = Edit {
        headers: args.header.clone(),
        without_headers: args.without_header.clone(),
        destination: args.destination.clone(),
        ..Edit::default()
    };
    if args.edit || args.body.is_some() {
        let id = args.id.to_string();
        let reveal = args.reason.iter().filter(|_| args.reveal);
        let query: Vec<(&str, &str)> = reveal.map(|reason| ("reveal", reason.as_str())).collect();
        let captured = client.get(&["dead-letters", &id, "body"], &query).await;
        edit.body = Some(match &args.body {
            None => edit::in_editor(&captured?.bytes)?,
            Some(path) => match captured {
                // A new body needs no look at the old one.
                Err(ClientError::Refused(problem)) if problem.code == "withheld" => {
                    edit::from_file(path, &[])?
                }
                captured => edit::from_file(path, &captured?.bytes)?,
            },
        });
    }
    Ok(Some(edit))
}

/// Shows what differs from the letter as it was captured, on stderr: it is talk.
fn show(edit: &Edit, screen: &Screen) -> anyhow::Result<()> {
    for line in edit.differences(screen) {
        crate::output::tell(&line);
    }
    Ok(())
}

fn confirm(args: &RetryArgs) -> anyhow::Result<()> {
    if args.yes || prompt::yes("Send the edited letter?")? {
        Ok(())
    } else {
        Err(prompt::not_confirmed().into())
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        Some(_) | None => Err("use Name=value".into()),
    }
}
