//! `lazaret archive show`: one letter of the archive, whole, or its exact bytes.

use clap::Args;
use lazaret_core::id::LetterId;

use crate::answers::archive::RemovalOf;
use crate::answers::{LetterRest, LetterSummary};
use crate::client::Client;
use crate::commands::show::{self, Layout, Payload};
use crate::failure::{Failure, Outcome};
use crate::output::page::Page;
use crate::output::{Format, Screen, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret archive show 019a8b1c-7e00-7000-8000-000000000000
  lazaret archive show 019a8b1c-7e00-7000-8000-000000000000 --body > event.json
  lazaret archive show 019a8b1c-7e00-7000-8000-000000000000 --body --life 1
  lazaret archive show 019a8b1c-7e00-7000-8000-000000000000 --json | jq .archive
  lazaret archive show 019a8b1c-7e00-7000-8000-000000000000 --reveal --reason 'ticket 7: which card was charged'";

#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Letter id
    #[arg(value_parser = LetterId::parse)]
    id: LetterId,

    /// Write only the captured body, byte for byte unless masked
    #[arg(long)]
    body: bool,

    /// Body of this life; default: the last
    #[arg(long, value_name = "N", requires = "body", value_parser = clap::value_parser!(u32).range(1..))]
    life: Option<u32>,

    /// Do not indent the payload; with --body, write control characters to a terminal
    #[arg(long)]
    raw: bool,

    /// Reveal masked values; requires role approver or admin, and --reason
    #[arg(long, requires = "reason")]
    reveal: bool,

    /// Reason for --reveal, at least 10 characters; recorded in the audit log
    #[arg(long, value_name = "TEXT", requires = "reveal")]
    reason: Option<String>,
}

pub async fn run(args: ShowArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let reason = args.reason.iter().filter(|_| args.reveal);
    let reveal: Vec<(&str, &str)> = reason.map(|reason| ("reveal", reason.as_str())).collect();
    if args.body {
        if screen.format == Format::Json {
            return Err(Failure::misuse("--body conflicts with --json").hint("remove --json").into());
        }
        let life = args.life.map(|life| life.to_string());
        let life = life.iter().map(|life| ("life", life.as_str()));
        let query: Vec<(&str, &str)> = life.chain(reveal.iter().copied()).collect();
        let answer = client.get(&["archive", &id, "body"], &query).await?;
        return show::write_body(args.raw, &answer, screen);
    }
    let answer = client.get(&["archive", &id], &reveal).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let letter: LetterSummary = answer.read()?;
    let rest: LetterRest = answer.read()?;
    let removal: RemovalOf = answer.read()?;
    let payload = Payload::present(&rest);
    let layout = if args.raw { Layout::AsCaptured } else { Layout::Indented };
    let now = moment::now();
    let mut text = show::page(&letter, &rest, &payload.text(layout), screen, now);
    text.push_str(&removed(&removal, screen, now));
    screen.write(text.as_bytes())?;
    show::tell_masked(&rest, &format!("lazaret archive show {id}"), screen);
    Ok(Outcome::Done)
}

/// How it came into the archive, below everything else: there it is seen without scrolling.
fn removed(of: &RemovalOf, screen: &Screen, now: lazaret_core::time::Time) -> String {
    let mut page = Page::new(screen);
    page.heading("archived");
    let removal = &of.archive;
    page.inner_field("since", &moment::both(&removal.removed_at, now));
    page.inner_field("by", &removal.removed_by);
    page.inner_field("why", &removal.reason);
    let place = match &removal.file {
        Some(file) => format!("file {}, row {}", file.file_id, file.row),
        None => "store, not yet in a file".to_owned(),
    };
    page.inner_field("in", &place);
    page.into_text()
}
