//! `lazaret resolve`, `discard`, `reopen`, `hold`, `release` and `delete`: decisions on named letters or by a filter; and
//! `restore`, on named ones only.

pub mod bulk;

use clap::{ArgGroup, Args};
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Action;
use serde_json::json;

use crate::answers::LetterSummary;
use crate::client::{Client, ClientError, Content};
use crate::failure::{Failure, Outcome, explain};
use crate::filter;
use crate::output::{Format, Screen, escape, json_text, moment};

pub const EXAMPLES_RESOLVE: &str = "\
Examples:
  lazaret resolve 019a8b1c-7e00-7000-8000-000000000000 --reason 'booked by hand'
  lazaret resolve --filter 'queue:billing error:Timeout' --expect 412 --reason 'gateway is back'

A filter selects pending letters by default, as in `lazaret ls`.
Exit code 1 if a letter was refused or skipped.";

pub const EXAMPLES_DISCARD: &str = "\
Examples:
  lazaret discard 019a8b1c-7e00-7000-8000-000000000000 --reason 'test data'
  lazaret discard --filter 'queue:demo age:>30d'      asks for confirmation on a terminal
  lazaret discard --filter 'queue:demo age:>30d' --expect 412

A filter selects pending letters by default, as in `lazaret ls`.
Held letters are not discarded. Exit code 1 if a letter was refused or skipped.";

pub const EXAMPLES_REOPEN: &str = "\
Examples:
  lazaret reopen 019a8b1c-7e00-7000-8000-000000000000 --reason 'was not fixed after all'
  lazaret reopen --filter 'status:discarded queue:billing since:2h' --expect 412

A filter selects resolved and discarded letters by default.
Exit code 1 if a letter was refused or skipped.";

pub const EXAMPLES_RELEASE: &str = "\
Examples:
  lazaret release 019a8b1c-7e00-7000-8000-000000000000 --reason 'case closed'
  lazaret release --filter 'tenant:acme held:yes' --expect 412

A filter selects letters of every status. They are released from all holds; `lazaret holds release` ends one hold.
Exit code 1 if a letter was refused or skipped.";

pub const EXAMPLES_DELETE: &str = "\
Examples:
  lazaret delete 019a8b1c-7e00-7000-8000-000000000000 --reason 'test data'
  lazaret delete --filter 'source:jobs age:>180d' --expect 412 --reason 'too old to matter'

A filter selects pending letters by default, as in `lazaret ls`, and requires a reason.
Letters younger than retention.min_age (default 90 days) stay in the archive: `lazaret archive ls --deleted` lists
them, `lazaret restore` restores them.
Held letters are not deleted. Exit code 1 if a letter was refused or skipped.";

pub const EXAMPLES_RESTORE: &str = "\
Examples:
  lazaret archive ls --deleted
  lazaret restore 019a8b1c-7e00-7000-8000-000000000000 --reason 'deleted by mistake'

Restores deleted and archived letters. `lazaret archive restore` restores by filter. Exit code 1 if a
letter was refused.";

#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Letter ids
    #[arg(value_name = "ID", required = true, value_parser = LetterId::parse)]
    ids: Vec<LetterId>,

    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("letters").required(true).args(["ids", "filter", "all"]))]
pub struct DecideArgs {
    /// Letter ids
    #[arg(value_name = "ID", value_parser = LetterId::parse)]
    pub ids: Vec<LetterId>,

    /// Filter, such as 'queue:billing since:24h'
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,

    /// All letters of every status
    #[arg(long)]
    pub all: bool,

    /// Expected number of letters; on a mismatch nothing is changed
    #[arg(long, value_name = "N", conflicts_with = "ids")]
    pub expect: Option<u64>,

    /// Reason, recorded in the audit log; required to delete by filter
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// What a decision by filter is about.
#[derive(Debug)]
pub enum Selection {
    Matching(Box<Filter>),
    All,
}

pub async fn run(
    action: Action,
    args: DecideArgs,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let reason = args.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if action == Action::Hold && reason.is_none() {
        return Err(hold_without_reason().into());
    }
    if !args.ids.is_empty() {
        return by_id(action, &args.ids, reason, client, screen).await;
    }
    if action == Action::Delete && reason.is_none() {
        return Err(Failure::misuse("reason required to delete by filter")
            .hint("pass --reason TEXT; it is recorded in the audit log")
            .into());
    }
    let selection = match args.filter {
        None => Selection::All,
        Some(text) => {
            let wanted = filter::read(&text)?;
            if wanted.spares_nothing(action, moment::now()) {
                return Err(empty_filter().into());
            }
            Selection::Matching(Box::new(filter::with_default_status(wanted, &filter::meant(action))))
        }
    };
    bulk::run(bulk::Request { action, selection, expect: args.expect, reason }, client, screen).await
}

pub fn hold_without_reason() -> Failure {
    Failure::misuse("reason required").hint("pass --reason TEXT; it is shown to whoever releases the hold")
}

pub fn empty_filter() -> Failure {
    Failure::misuse("the filter is empty or matches all letters").hint("use --all to select all letters")
}

pub async fn restore(args: RestoreArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let reason = args.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    restore_all(&args.ids, reason, client, screen).await
}

/// Brings named letters back.
pub async fn restore_all(
    ids: &[LetterId],
    reason: Option<&str>,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    by_id(Action::Restore, ids, reason, client, screen).await
}

/// Decides letter by letter; one that is refused does not stop the others.
async fn by_id(
    action: Action,
    ids: &[LetterId],
    reason: Option<&str>,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let mut failed = 0;
    for id in ids {
        let id = id.to_string();
        let content = Content::json(&reason.map_or(json!({}), |reason| json!({ "reason": reason })));
        match client.post(&["dead-letters", &id, action.name()], &[], content).await {
            Ok(answer) => match screen.format {
                Format::Json => screen.line(&json_text::on_one_line(answer.text()?))?,
                Format::Text => {
                    let letter: LetterSummary = answer.read()?;
                    let held = if letter.hold.is_some() { ", held" } else { "" };
                    let is = if letter.place == "deleted" { "was" } else { "is" };
                    let status = escape::line(&letter.status);
                    let text = format!("{id} {}: {is} {status}{held}", past(action));
                    screen.line(&text)?;
                }
            },
            // The next letter would meet the same.
            Err(error @ (ClientError::Unreachable { .. } | ClientError::Foreign { .. })) => {
                return Err(error.into());
            }
            Err(
                error @ (ClientError::Refused(_) | ClientError::Lost { .. } | ClientError::Silent { .. }),
            ) => {
                failed += 1;
                refused(&id, &anyhow::Error::from(error), screen)?;
            }
        }
    }
    if failed > 0 && ids.len() > 1 {
        screen.note(&format!("{failed} of {} were not {}", ids.len(), past(action)));
    }
    Ok(if failed > 0 { Outcome::Incomplete } else { Outcome::Done })
}

/// Says why one letter of several was left as it is.
pub fn refused(id: &str, error: &anyhow::Error, screen: &mut Screen) -> anyhow::Result<()> {
    let explained = explain(error);
    if screen.format == Format::Json {
        let json = json!({ "id": id, "error": { "message": explained.message, "hint": explained.hint } });
        screen.line(&json.to_string())?;
    }
    screen.error(&format!("{id}: {}", explained.message), explained.hint.as_deref());
    Ok(())
}

/// The word for a letter on which the action was done.
fn past(action: Action) -> &'static str {
    match action {
        Action::Resolve => "resolved",
        Action::Discard => "discarded",
        Action::Reopen => "reopened",
        Action::Hold => "held",
        Action::Release => "released",
        Action::Delete => "deleted",
        Action::Restore => "restored",
        Action::Redrive
        | Action::Confirm
        | Action::Unclaim
        | Action::DieAgain
        | Action::EndWithoutDeadLetter
        | Action::SettleElsewhere
        | Action::Archive
        | Action::Prune => "done",
    }
}
