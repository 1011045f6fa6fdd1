//! `lazaret archive ls`: letters of the archive.

use clap::Args;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::answers::archive::{ArchivePage, ArchivedLetter};
use crate::args::filter_word;
use crate::client::Client;
use crate::failure::Outcome;
use crate::filter;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, moment, shell_word};

pub const EXAMPLES: &str = "\
Examples:
  lazaret archive ls                            last removed first
  lazaret archive ls queue:billing 'type:invoice.*' since:300d
  lazaret archive ls --deleted                  manually deleted letters that can be restored
  lazaret archive ls 'body:\"acme corp\"'         full scan of letters and files, time-limited
  lazaret archive ls --json | jq -r '.items[] | [.id, .archive.removedAt, .archive.reason] | @tsv'

Filter keys as in `lazaret ls`. Includes letters of every status.";

#[derive(Args, Debug)]
pub struct LsArgs {
    /// Filter, such as queue:billing
    #[arg(value_name = "FILTER", value_parser = filter_word)]
    filter: Vec<String>,

    /// Only manually deleted letters
    #[arg(long, conflicts_with = "archived")]
    deleted: bool,

    /// Only letters archived by retention
    #[arg(long)]
    archived: bool,

    /// Letters per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

pub async fn run(args: LsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let wanted = filter::read(&args.filter.join(" "))?;
    let asked = [
        ("q", Some(wanted.to_string()).filter(|q| !q.is_empty())),
        ("place", place(&args).map(str::to_owned)),
        ("limit", args.limit.map(|limit| limit.to_string())),
        ("cursor", args.cursor.clone()),
    ];
    let query: Vec<(&str, &str)> =
        asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let answer = client.get(&["archive"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: ArchivePage = answer.read()?;
    if !page.items.is_empty() {
        screen.table(&table(&page.items, moment::now()))?;
    }
    let footer = footer(&args, &page);
    if !footer.is_empty() {
        screen.note(&footer);
    }
    Ok(Outcome::Done)
}

fn place(args: &LsArgs) -> Option<&'static str> {
    match (args.deleted, args.archived) {
        (true, _) => Some("deleted"),
        (false, true) => Some("archived"),
        (false, false) => None,
    }
}

fn footer(args: &LsArgs, page: &ArchivePage) -> String {
    let mut lines = Vec::new();
    if page.items.is_empty() && page.next_cursor.is_none() && args.cursor.is_none() {
        lines.push(match (args.filter.is_empty(), args.deleted) {
            (true, true) => "no deleted letters".to_owned(),
            (true, false) => "the archive is empty".to_owned(),
            (false, _) => format!("no archived letters match {}", args.filter.join(" ")),
        });
    }
    if let Some(scan) = page.scan.filter(|scan| scan.letters > 0) {
        let more = if scan.cut_short { ", then timed out" } else { "" };
        lines.push(format!("full scan: {} read{more}", moment::letters(scan.letters)));
    }
    if let Some(cursor) = &page.next_cursor {
        lines.push(format!("older: {}", next_page(args, cursor)));
    }
    lines.join("\n")
}

/// The command that shows the next page.
fn next_page(args: &LsArgs, cursor: &str) -> String {
    let mut words = vec!["lazaret archive ls".to_owned()];
    words.extend(args.filter.iter().map(|word| shell_word(word)));
    words.extend(place(args).map(|place| format!("--{place}")));
    words.extend(args.limit.map(|limit| format!("--limit {limit}")));
    words.push(format!("--cursor {}", shell_word(cursor)));
    words.join(" ")
}

fn table(letters: &[ArchivedLetter], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("REMOVED"),
        Column::whole("REASON"),
        Column::cut("BY").left_out(3),
        Column::whole("STATUS").left_out(5),
        Column::whole("LOCATION").left_out(2),
        Column::cut("QUEUE").left_out(4),
        Column::cut("TYPE"),
        Column::cut("ERROR").left_out(6),
        Column::cut("MESSAGE").left_out(1),
    ]);
    for letter in letters {
        let status = match letter.hold {
            Some(_) => format!("{} held", letter.status),
            None => letter.status.clone(),
        };
        table.row(vec![
            Cell::painted(&letter.id, Some(Paint::Bold)),
            moment::ago(&letter.archive.removed_at, now).into(),
            letter.archive.reason.as_str().into(),
            letter.archive.removed_by.as_str().into(),
            Cell::painted(&status, Paint::of_status(&letter.status)),
            if letter.archive.file.is_some() { "file".into() } else { "store".into() },
            letter.queue.as_str().into(),
            letter.letter_type.as_str().into(),
            (&letter.error.error_type).into(),
            (&letter.error.message).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    fn letter(place: &str, file: serde_json::Value) -> ArchivedLetter {
        serde_json::from_value(serde_json::json!({
            "id": "019a8b1c-7e00-7000-8000-000000000000", "source": "jobs", "queue": "billing",
            "type": "invoice.send", "eventId": "e", "status": "pending", "place": place,
            "error": {"type": "Timeout", "message": "timed\nout"},
            "hold": {"at": "2025-11-15T02:00:00.000Z", "by": "legal", "reason": "case"},
            "archive": {"removedAt": "2025-11-15T02:55:00.000Z", "removedBy": "anna", "reason": "deleted", "file": file},
        }))
        .unwrap()
    }

    #[test]
    fn letters_are_listed_with_who_removed_them_and_why() {
        let row = serde_json::json!({"fileId": "019a8b1c-7e00-7000-8000-000000000001", "row": 3, "firstLife": 1, "lastLife": 2});
        let letters = [letter("deleted", serde_json::Value::Null), letter("archived", row)];
        let table = table(&letters, Time::parse("2025-11-15T03:00:00Z").unwrap());
        insta::assert_snapshot!("archive_no_terminal", table.render(None, Colour::Off));
        insta::assert_snapshot!("archive_80_columns", table.render(Some(80), Colour::Off));
    }
}
