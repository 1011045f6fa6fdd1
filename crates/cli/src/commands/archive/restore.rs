//! `lazaret archive restore`: letters brought back, by id or by filter.

use clap::{ArgGroup, Args};
use lazaret_core::id::LetterId;
use serde_json::json;

use super::lines::{self, NDJSON};
use crate::answers::archive::{RestoreLine, Restored};
use crate::client::{Client, Content};
use crate::commands::decide;
use crate::failure::{Failure, Outcome};
use crate::filter;
use crate::output::table::{Column, Table};
use crate::output::{BAR_OF_LETTERS, Format, Screen, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret archive restore 019a8b1c-7e00-7000-8000-000000000000 --reason 'needed for case 12'
  lazaret archive ls queue:billing since:300d                  preview
  lazaret archive restore --filter 'queue:billing since:300d' --expect 412 --reason 'audit'
  lazaret archive restore --filter 'queue:billing' --deleted --expect 3

Letters are restored in their previous state; the retention period starts again. A filter selects letters archived by
retention, or with --deleted manually deleted letters; at most 10,000 per call. Exit code 1 if a letter was skipped.";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("letters").required(true).args(["ids", "filter", "all"]))]
pub struct RestoreArgs {
    /// Letter ids
    #[arg(value_name = "ID", value_parser = LetterId::parse)]
    ids: Vec<LetterId>,

    /// Filter of archived letters, such as 'queue:billing since:300d'
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,

    /// All archived letters
    #[arg(long)]
    all: bool,

    /// Expected number of letters; on a mismatch nothing is restored
    #[arg(long, alias = "count", value_name = "N", conflicts_with = "ids")]
    expect: Option<u64>,

    /// Manually deleted letters instead of letters archived by retention
    #[arg(long, conflicts_with = "ids")]
    deleted: bool,

    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: RestoreArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let reason = args.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if !args.ids.is_empty() {
        return decide::restore_all(&args.ids, reason, client, screen).await;
    }
    let Some(count) = args.expect else {
        return Err(Failure::misuse("--expect required: the number of letters")
            .hint("preview with `lazaret archive ls`, then pass --expect N")
            .into());
    };
    let mut body = match &args.filter {
        None => json!({ "all": true }),
        Some(text) => {
            let wanted = filter::read(text)?;
            if wanted.is_empty() {
                return Err(Failure::misuse("the filter is empty and matches the whole archive")
                    .hint("use --all to select all letters")
                    .into());
            }
            json!({ "filter": { "q": wanted.to_string() } })
        }
    };
    body["count"] = count.into();
    body["place"] = if args.deleted { "deleted" } else { "archived" }.into();
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    let stream = client.post_for_stream(&["archive", "restore"], Content::json(&body), NDJSON).await?;
    let bar = screen.bar(Some(count), BAR_OF_LETTERS);
    let (mut end, mut problem, mut text) = (None, None, String::new());
    let read = lines::read(stream, |line: RestoreLine, written| {
        bar.set_position(line.done.unwrap_or(bar.position()));
        if line.end.is_some() {
            text = written.to_owned();
        }
        end = line.end.or(end.take());
        problem = line.problem.or(problem.take());
        Ok(())
    })
    .await;
    bar.finish_and_clear();
    read?;
    let Some(end) = end else {
        let why = problem.unwrap_or_else(|| "the server closed the connection early".into());
        return Err(Failure::failed(format!("restore interrupted: {why}"))
            .hint("restored letters stay restored; list the rest with `lazaret archive ls`")
            .into());
    };
    if screen.format == Format::Json {
        screen.json(&text)?;
    } else {
        tell(&end, screen)?;
    }
    Ok(if end.skipped > 0 { Outcome::Incomplete } else { Outcome::Done })
}

fn tell(end: &Restored, screen: &mut Screen) -> anyhow::Result<()> {
    let skipped = match end.skipped {
        0 => String::new(),
        skipped => format!(", skipped {}", moment::count(skipped)),
    };
    screen.line(&format!("restored {}{skipped}", moment::letters(end.restored)))?;
    if !end.skipped_letters.is_empty() {
        let mut table = Table::new(vec![Column::whole("SKIPPED"), Column::cut("REASON")]);
        for letter in &end.skipped_letters {
            table.row(vec![letter.id.as_str().into(), letter.reason.as_str().into()]);
        }
        screen.table(&table)?;
    }
    Ok(())
}
