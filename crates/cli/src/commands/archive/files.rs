//! `lazaret archive files`: the files, and what waits for one.

use clap::Args;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::answers::archive::{File, FilePage};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, moment, shell_word};

pub const EXAMPLES: &str = "\
Examples:
  lazaret archive files
  lazaret archive files --json | jq -r '.items[] | [.path, .letters, .sha256] | @tsv'";

#[derive(Args, Debug)]
pub struct FilesArgs {
    /// Files per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

pub async fn run(args: FilesArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let limit = args.limit.map(|limit| limit.to_string());
    let mut query: Vec<(&str, &str)> = limit.iter().map(|limit| ("limit", limit.as_str())).collect();
    query.extend(args.cursor.as_ref().map(|cursor| ("cursor", cursor.as_str())));
    let answer = client.get(&["archive", "files"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: FilePage = answer.read()?;
    let now = moment::now();
    if !page.items.is_empty() {
        screen.table(&table(&page.items, now))?;
    }
    screen.note(&footer(&page, now));
    if let Some(cursor) = &page.next_cursor {
        let limit = limit.map(|limit| format!(" --limit {limit}")).unwrap_or_default();
        screen.note(&format!("newer: lazaret archive files{limit} --cursor {}", shell_word(cursor)));
    }
    Ok(Outcome::Done)
}

fn footer(page: &FilePage, now: Time) -> String {
    let mut lines = Vec::new();
    lines.push(match &page.place {
        Some(place) => format!("place: {place}"),
        None => "archive.url is not configured: letters stay in the store".into(),
    });
    lines.push(match (page.waiting.letters, &page.waiting.since) {
        (0, _) | (_, None) => "no letters queued for the next file".into(),
        (letters, Some(since)) => {
            let (letters, bytes) = (moment::letters(letters), moment::count(page.waiting.bytes));
            format!("{letters} ({bytes} bytes) queued for the next file, oldest {}", moment::ago(since, now))
        }
    });
    if let Some(problem) = &page.problem {
        let since = page.failing_since.as_deref().map(|at| moment::ago(at, now)).unwrap_or_default();
        lines.push(format!("archive writes failing ({since}): {problem}"));
    }
    lines.join("\n")
}

fn table(files: &[File], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("STATE").left_out(2),
        Column::number("LETTERS"),
        Column::number("BYTES").left_out(3),
        Column::whole("WRITTEN"),
        Column::whole("CHECKED").left_out(4),
        Column::cut("PATH").left_out(1),
        Column::cut("PROBLEM"),
    ]);
    for file in files {
        let checked = file.checked_at.as_deref().map(|at| moment::ago(at, now)).unwrap_or_default();
        let problem = file.problem.as_deref().unwrap_or("");
        table.row(vec![
            Cell::painted(&file.id, Some(Paint::Bold)),
            file.state.as_str().into(),
            moment::count(file.letters).into(),
            moment::count(file.bytes).into(),
            moment::ago(&file.opened_at, now).into(),
            checked.into(),
            file.path.as_str().into(),
            Cell::painted(problem, Some(Paint::Red)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn files_are_listed_with_what_is_wrong_and_what_waits() {
        let page: FilePage = serde_json::from_value(serde_json::json!({
            "items": [
                {"id": "019a8b1c-7e00-7000-8000-000000000001", "path": "2025/11/a.parquet", "state": "kept", "letters": 10_000,
                 "bytes": 4_200_000, "openedAt": "2025-11-14T03:00:00.000Z", "checkedAt": "2025-11-15T02:00:00.000Z", "problem": null},
                {"id": "019a8b1c-7e00-7000-8000-000000000002", "path": "2025/11/b.parquet", "state": "kept", "letters": 12,
                 "bytes": 9_001, "openedAt": "2025-11-15T01:00:00.000Z", "checkedAt": null, "problem": "is not there"},
            ],
            "nextCursor": null, "waiting": {"letters": 3, "bytes": 1_234, "since": "2025-11-15T02:00:00.000Z"},
            "place": "file:///var/lib/lazaret/archive", "failingSince": "2025-11-15T02:30:00.000Z",
            "problem": "cannot write", "nextTryAt": null,
        }))
        .unwrap();
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        insta::assert_snapshot!("files_no_terminal", table(&page.items, now).render(None, Colour::Off));
        insta::assert_snapshot!("files_80_columns", table(&page.items, now).render(Some(80), Colour::Off));
        insta::assert_snapshot!(footer(&page, now), @"
        place: file:///var/lib/lazaret/archive
        3 letters (1,234 bytes) queued for the next file, oldest 1h ago
        archive writes failing (30m ago): cannot write
        ");
    }
}
