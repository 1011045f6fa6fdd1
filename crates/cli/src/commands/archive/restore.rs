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
  lazaret archive ls queue:billing since:300d                  look first
  lazaret archive restore --filter 'queue:billing since:300d' --count 412 --reason 'audit'
  lazaret archive restore --filter 'queue:billing' --deleted --count 3

A letter comes back in the state it had, and its retention begins anew. By filter, letters that a limit pushed out are
meant, or with --deleted those that somebody deleted; at most 10,000 at once. Exit code 1 when one was refused or skipped.";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("letters").required(true).args(["ids", "filter", "all"]))]
pub struct RestoreArgs {
    /// The letters, by id
    #[arg(value_name = "ID", value_parser = LetterId::parse)]
    ids: Vec<LetterId>,

    /// The letters of the archive that match a filter, such as 'queue:billing since:300d'
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,

    /// Every letter of the archive
    #[arg(long)]
    all: bool,

    /// How many letters that are; when it is another number, nothing is restored
    #[arg(long, visible_alias = "expect", value_name = "N", conflicts_with = "ids")]
    count: Option<u64>,

    /// Those that somebody deleted, not those that a limit pushed out
    #[arg(long, conflicts_with = "ids")]
    deleted: bool,

    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: RestoreArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let reason = args.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if !args.ids.is_empty() {
        return decide::restore_all(&args.ids, reason, client, screen).await;
    }
    let Some(count) = args.count else {
        return Err(Failure::misuse("the number of letters has to be stated")
            .hint("look at them with `lazaret archive ls`, then pass --count")
            .into());
    };
    let mut body = match &args.filter {
        None => json!({ "all": true }),
        Some(text) => {
            let wanted = filter::read(text)?;
            if wanted.is_empty() {
                return Err(Failure::misuse("the filter is empty and would match the whole archive")
                    .hint("say --all if that is meant")
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
        let why = problem.unwrap_or_else(|| "the server ended before it was done".into());
        return Err(Failure::failed(format!("the restore broke off: {why}"))
            .hint("what came back stays; look with `lazaret archive ls`, and restore the rest")
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
