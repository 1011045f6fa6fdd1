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
    /// The letter
    #[arg(value_parser = LetterId::parse)]
    id: LetterId,

    /// Write the bytes that were captured, and nothing else; exactly unless something in them is masked
    #[arg(long)]
    body: bool,

    /// The bytes of this life; the last one unless said
    #[arg(long, value_name = "N", requires = "body", value_parser = clap::value_parser!(u32).range(1..))]
    life: Option<u32>,

    /// The payload as it was captured, not indented; with --body to a terminal whatever it holds
    #[arg(long)]
    raw: bool,

    /// Show what is masked too; needs the role approver or admin, and --reason
    #[arg(long, requires = "reason")]
    reveal: bool,

    /// Why it is revealed, in 10 characters or more: the audit log keeps it
    #[arg(long, value_name = "TEXT", requires = "reveal")]
    reason: Option<String>,
}

pub async fn run(args: ShowArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let reason = args.reason.iter().filter(|_| args.reveal);
    let reveal: Vec<(&str, &str)> = reason.map(|reason| ("reveal", reason.as_str())).collect();
    if args.body {
        if screen.format == Format::Json {
            return Err(Failure::misuse("--body writes bytes, not JSON").hint("leave out --json").into());
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
    page.heading("in the archive");
    let removal = &of.archive;
    page.inner_field("since", &moment::both(&removal.removed_at, now));
    page.inner_field("by", &removal.removed_by);
    page.inner_field("why", &removal.reason);
    let place = match &removal.file {
        Some(file) => format!("file {}, row {}", file.file_id, file.row),
        None => "the store, until its file is written".to_owned(),
    };
    page.inner_field("in", &place);
    page.into_text()
}
