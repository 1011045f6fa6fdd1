//! `lazaret trash`: deleted letters that can be restored.

use clap::Args;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::answers::{TrashPage, TrashedLetter};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, moment, shell_word};

const EXAMPLES: &str = "\
Examples:
  lazaret trash                                 what was deleted and is still kept, last deleted first
  lazaret trash --limit 200
  lazaret trash --json | jq -r '.items[] | [.letterId, .deletedBy, .keptUntil] | @tsv'
  lazaret restore 019a8b1c-7e00-7000-8000-000000000000

The content of a deleted letter is kept for 90 days from when it was captured or died last. After that nothing \
but the fact that it was there is known.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TrashArgs {
    /// Letters on a page, 1 to 500
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_ROWS as u16, value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: u16,

    /// Go on where another page ended
    #[arg(long)]
    cursor: Option<String>,
}

pub async fn run(args: TrashArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let limit = args.limit.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(args.cursor.as_ref().map(|cursor| ("cursor", cursor.as_str())));
    let answer = client.get(&["trash"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: TrashPage = answer.read()?;
    if page.items.is_empty() {
        screen.note("nothing that was deleted is kept");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&page.items, moment::now()))?;
    if let Some(cursor) = page.next_cursor {
        screen.note(&format!("older: lazaret trash --limit {limit} --cursor {}", shell_word(&cursor)));
    }
    Ok(Outcome::Done)
}

fn table(letters: &[TrashedLetter], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("DELETED"),
        Column::cut("BY"),
        Column::whole("KEPT UNTIL").left_out(4),
        Column::whole("STATUS").left_out(3),
        Column::cut("QUEUE").left_out(2),
        Column::cut("TYPE"),
        Column::cut("ERROR"),
        Column::cut("MESSAGE").left_out(1),
    ]);
    for letter in letters {
        table.row(vec![
            Cell::painted(&letter.letter_id, Some(Paint::Bold)),
            moment::ago(&letter.deleted_at, now).into(),
            letter.deleted_by.as_str().into(),
            letter.kept_until.as_str().into(),
            Cell::painted(&letter.status, Paint::of_status(&letter.status)),
            letter.queue.as_str().into(),
            letter.letter_type.as_str().into(),
            letter.error_type.as_str().into(),
            letter.error_message.as_str().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn deleted_letters_are_listed_with_who_and_until_when() {
        let letter = serde_json::from_value(serde_json::json!({
            "letterId": "019a8b1c-7e00-7000-8000-000000000000", "source": "jobs", "queue": "billing",
            "type": "invoice.send", "eventId": "e", "errorType": "Timeout", "errorMessage": "timed\nout",
            "status": "pending", "diedAt": "2025-11-15T02:00:00.000Z",
            "deletedAt": "2025-11-15T02:55:00.000Z", "deletedBy": "anna",
            "keptUntil": "2026-02-13T02:00:00.000Z",
        }));
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        insta::assert_snapshot!(table(&[letter.unwrap()], now).render(None, Colour::Off));
    }
}
