//! `lazaret holds show`: one hold with letters under it.

use clap::Args;
use lazaret_core::id::HoldId;
use lazaret_core::limits;

use crate::answers::LetterSummary;
use crate::answers::hold::{HeldLetters, HoldRecord};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::page::Page;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, moment, shell_word};

pub const EXAMPLES: &str = "\
Examples:
  lazaret holds show 019a8b1c-7e00-7000-8000-000000000009
  lazaret holds show 019a8b1c-7e00-7000-8000-000000000009 --limit 500 --json | jq -r '.items[].id'";

#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Hold id
    #[arg(value_name = "ID", value_parser = HoldId::parse)]
    id: HoldId,

    /// Letters per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Cursor of the next page of letters
    #[arg(long)]
    cursor: Option<String>,
}

pub async fn run(args: ShowArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let limit = args.limit.map(|limit| limit.to_string());
    let mut query: Vec<(&str, &str)> = limit.iter().map(|limit| ("limit", limit.as_str())).collect();
    query.extend(args.cursor.as_ref().map(|cursor| ("cursor", cursor.as_str())));
    let answer = client.get(&["holds", &id], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let hold: HoldRecord = answer.read()?;
    let letters: HeldLetters = answer.read()?;
    let text = page(&hold, &letters, screen);
    screen.write(text.as_bytes())?;
    if let Some(cursor) = &letters.next_cursor {
        screen.note(&format!("more letters: lazaret holds show {id} --cursor {}", shell_word(cursor)));
    }
    Ok(Outcome::Done)
}

fn page(hold: &HoldRecord, letters: &HeldLetters, screen: &Screen) -> String {
    let now = moment::now();
    let mut page = Page::new(screen);
    page.field("hold", &hold.id);
    page.field("state", &hold.state);
    page.field("on", &super::which(hold));
    page.field("reason", &hold.reason);
    page.field("placed", &format!("{} by {}", moment::both(&hold.at, now), hold.by));
    match &hold.until {
        Some(until) => page.field("until", &moment::both(until, now)),
        None => page.field("until", "no end"),
    }
    if let Some(at) = &hold.released_at {
        let by = hold.released_by.as_deref().unwrap_or("nobody");
        let why = hold.release_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        page.field("released", &format!("{} by {by}{why}", moment::both(at, now)));
    }
    page.field("letters", &moment::count(hold.letters));
    if !letters.items.is_empty() {
        page.heading("letters");
        page.table(&table(&letters.items, now));
    }
    page.into_text()
}

fn table(letters: &[LetterSummary], now: lazaret_core::time::Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("DIED").left_out(2),
        Column::whole("STATUS").left_out(3),
        Column::whole("PLACE"),
        Column::cut("QUEUE").left_out(1),
        Column::cut("TYPE"),
    ]);
    for letter in letters {
        table.row(vec![
            Cell::painted(&letter.id, Some(Paint::Bold)),
            moment::ago(&letter.died_at, now).into(),
            Cell::painted(&letter.status, Paint::of_status(&letter.status)),
            letter.place.as_str().into(),
            letter.queue.as_str().into(),
            letter.letter_type.as_str().into(),
        ]);
    }
    table
}
