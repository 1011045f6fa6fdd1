//! `lazaret ls`: letters that match a filter, a page at a time or all of them.

mod footer;
mod gather;

use clap::Args;
use lazaret_core::filter::Filter;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::answers::search::Scan;
use crate::answers::{LetterSummary, Page, RawPage};
use crate::args::filter_word;
use crate::client::{Answer, Client};
use crate::failure::Outcome;
use crate::filter;
use crate::output::moment;
use crate::output::table::{Cell, Column, Table, Titles};
use crate::output::{COUNTER, Format, Paint, Screen, json_text};
use footer::{footer, looked_into, matching};
use gather::{End, Fetched};

const EXAMPLES: &str = "\
Examples:
  lazaret ls                                    pending letters, newest death first
  lazaret ls queue:billing 'type:invoice.*' since:24h
  lazaret ls error:Timeout -class:transient '\"connection refused\"'
  lazaret ls 'body:\"acme corp\"' 'path:$.customer.id=4711'    search the body
  lazaret ls status:discarded --sort diedAt --limit 200
  lazaret ls --all --all-pages --json           all letters, one JSON object per line

Keys: queue, type, error, class, code, status, source, incident, subscriber, aggregate, tenant, \
event, held, since, until, age, retries, text, body, contains, path, headerPath. `*` is a wildcard, commas mean or, `-key:value` \
excludes, bare words search type, error and message. Quote shell \
metacharacters. A full scan that exceeds the server's time limit continues automatically; Ctrl-C shows \
the matches so far.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LsArgs {
    /// Filter, such as queue:billing since:24h
    #[arg(value_name = "FILTER", value_parser = filter_word)]
    pub filter: Vec<String>,

    /// Letters of every status; default: pending
    #[arg(long)]
    all: bool,

    /// Letters per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Sort order
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "-diedAt",
        allow_hyphen_values = true,
        value_parser = ["-diedAt", "diedAt", "-createdAt", "createdAt"]
    )]
    sort: String,

    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,

    /// Fetch all pages; with --json, one letter per line
    #[arg(long, conflicts_with = "cursor")]
    pub all_pages: bool,
}

pub async fn run(args: LsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let mut wanted = filter::read(&args.filter.join(" "))?;
    if !args.all {
        wanted = filter::with_default_status(wanted, &[Status::Pending]);
    }
    if args.all_pages {
        return all_pages(&args, &wanted, client, screen).await;
    }
    let limit = args.limit.map_or(limits::PAGE_ROWS, usize::from);
    let bar = screen.bar(None, COUNTER);
    let fetch = async |cursor: Option<&str>, limit: usize| {
        let answer = fetch(&args, &wanted, cursor, limit, client).await?;
        Ok(Fetched { page: answer.read()?, text: answer.text()?.to_owned() })
    };
    let gathered = gather::gather(args.cursor.as_deref(), limit, bar, fetch).await?;
    match screen.format {
        Format::Json => screen.json(&gathered.json()?)?,
        Format::Text => {
            if !gathered.page.items.is_empty() {
                screen.table(&table(&gathered.page.items, moment::now()))?;
            }
            screen.note(&footer(&args, &wanted, &gathered.page));
        }
    }
    match gathered.end {
        End::Reached => Ok(Outcome::Done),
        End::Interrupted => Ok(Outcome::Incomplete),
        End::Failed(error) => Err(error),
    }
}

async fn all_pages(
    args: &LsArgs,
    wanted: &Filter,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let mut cursor: Option<String> = None;
    let mut listed = 0;
    let mut scan: Option<Scan> = None;
    let bar = screen.bar(None, COUNTER);
    let limit = args.limit.map_or(limits::PAGE_ROWS_MAX, usize::from);
    loop {
        let answer = fetch(args, wanted, cursor.as_deref(), limit, client).await?;
        let page: Page = answer.read()?;
        scan = gather::add_scans(scan, page.scan);
        if let Some(scan) = scan {
            bar.set_message("scanned");
            bar.set_position(scan.letters);
        }
        match screen.format {
            Format::Json => {
                let mut lines = String::new();
                for item in answer.read::<RawPage>()?.items {
                    lines.push_str(&json_text::on_one_line(item.get()));
                    lines.push('\n');
                }
                bar.suspend(|| screen.write(lines.as_bytes()))?;
            }
            Format::Text if page.items.is_empty() => {}
            Format::Text => {
                let titles = if listed == 0 { Titles::Shown } else { Titles::Hidden };
                let table = table(&page.items, moment::now()).with_titles(titles);
                bar.suspend(|| screen.table(&table))?;
            }
        }
        listed += page.items.len() as u64;
        cursor = page.next_cursor;
        if cursor.is_none() || screen.is_reader_gone() {
            break;
        }
    }
    bar.finish_and_clear();
    if screen.format == Format::Text {
        let mut text = format!("{}{}", moment::letters(listed), matching(wanted));
        text.extend(scan.and_then(looked_into).map(|cost| format!("\n{cost}")));
        screen.note(&text);
    }
    Ok(Outcome::Done)
}

async fn fetch(
    args: &LsArgs,
    wanted: &Filter,
    cursor: Option<&str>,
    limit: usize,
    client: &Client,
) -> anyhow::Result<Answer> {
    let q = wanted.to_string();
    let limit = limit.to_string();
    let mut query = vec![("sort", args.sort.as_str()), ("limit", &limit)];
    if !q.is_empty() {
        query.push(("q", &q));
    }
    if let Some(cursor) = cursor {
        query.push(("cursor", cursor));
    }
    Ok(client.get(&["dead-letters"], &query).await?)
}

const STATUS: usize = 2;
const QUEUE: usize = 3;

fn table(letters: &[LetterSummary], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("DIED"),
        Column::whole("STATUS").left_out(5),
        Column::cut("QUEUE").left_out(4),
        Column::cut("TYPE"),
        Column::cut("ERROR"),
        Column::cut("MESSAGE").left_out(3),
    ]);
    for letter in letters {
        let status = match letter.hold {
            Some(_) => format!("{} held", letter.status),
            None => letter.status.clone(),
        };
        table.row(vec![
            Cell::painted(&letter.id, Some(Paint::Bold)),
            moment::ago(&letter.died_at, now).into(),
            Cell::painted(&status, Paint::of_status(&letter.status)),
            letter.queue.as_str().into(),
            letter.letter_type.as_str().into(),
            (&letter.error.error_type).into(),
            (&letter.error.message).into(),
        ]);
    }
    // What is the same in every row is the first to go when there is no room: the filter has said it.
    if table.is_uniform(STATUS) {
        table.rank(STATUS, 1);
    }
    if table.is_uniform(QUEUE) {
        table.rank(QUEUE, 2);
    }
    table
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::output::Colour;

    pub fn args(words: &[&str]) -> LsArgs {
        let words = ["lazaret", "ls"].iter().chain(words).map(std::ffi::OsString::from);
        let Command::Ls(args) = Cli::read(words).command else { panic!("not ls") };
        args
    }

    pub fn page(total: u64, cursor: Option<&str>) -> Page {
        let items = serde_json::json!({
            "id": "019a8b1c-7e00-7000-8000-000000000000", "eventId": "e1", "source": "report",
            "type": "invoice.created", "queue": "billing", "class": "transient", "retryCount": 3,
            "error": {"type": "NetworkError", "message": "connection timed out\nafter 5 s \u{1b}[2J"},
            "status": "pending", "place": "live", "life": 1,
            "createdAt": "2025-11-15T02:59:00.000Z", "diedAt": "2025-11-15T02:57:00.000Z",
        });
        Page {
            items: vec![serde_json::from_value(items).unwrap()],
            total,
            total_is_at_least: false,
            next_cursor: cursor.map(str::to_owned),
            scan: None,
            body_index: None,
        }
    }

    #[test]
    fn a_page_fits_80_columns_and_is_whole_without_a_terminal() {
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        let table = table(&page(1, None).items, now);
        insta::assert_snapshot!("ls_80_columns", table.render(Some(80), Colour::Off));
        insta::assert_snapshot!("ls_140_columns", table.render(Some(140), Colour::Off));
        insta::assert_snapshot!("ls_no_terminal", table.render(None, Colour::Off));
    }
}
