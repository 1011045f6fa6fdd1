//! `lazaret incidents`: what is wrong, one line a cause.

mod list;
mod query;

use clap::Args;
use lazaret_core::class::ErrorClass;
use lazaret_core::incident::IncidentState;
use lazaret_core::limits;
use lazaret_store::incident::IncidentSort;

use crate::answers::incident::IncidentPage;
use crate::args::filter_word;
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::{Format, Screen, moment, shell_word};
use query::Query;

const EXAMPLES: &str = "\
Examples:
  lazaret incidents                             open incidents, last seen first
  lazaret incidents --sort -count --limit 10    top 10
  lazaret incidents state:open class:transient timeout
  lazaret incidents --type 'invoice.*' --since 24h
  lazaret incidents --all --json | jq -r '.items[] | [.id, .title] | @tsv'

Filter keys: state, type, error, class, since; other words search the title. COUNT is pending letters \
of all. LAST 48 H has one column per two hours; a dot is an empty column. On a narrow terminal the title \
is on a line of its own.";

#[derive(Args, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub struct IncidentsArgs {
    /// Filter, such as class:transient, or words of the title
    #[arg(value_name = "FILTER", value_parser = filter_word)]
    filter: Vec<String>,

    /// Incidents in this state; repeatable; default: all but closed
    #[arg(long, value_name = "STATE", value_parser = IncidentState::ALL.map(IncidentState::name))]
    state: Vec<String>,

    /// Include closed incidents
    #[arg(long, conflicts_with = "state")]
    all: bool,

    /// Letter type; `*` is a wildcard
    #[arg(long = "type", value_name = "PATTERN")]
    letter_type: Option<String>,

    /// Error type; `*` is a wildcard
    #[arg(long, value_name = "PATTERN")]
    error: Option<String>,

    /// Error class
    #[arg(long, value_name = "CLASS", value_parser = ErrorClass::ALL.map(ErrorClass::name))]
    class: Option<String>,

    /// Text in the title
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// Last seen since: a time, or a duration such as 24h
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Sort order
    #[arg(
        long,
        value_name = "ORDER",
        default_value = IncidentSort::LastSeenDesc.name(),
        allow_hyphen_values = true,
        value_parser = IncidentSort::ALL.map(IncidentSort::name)
    )]
    sort: String,

    /// Incidents per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

pub async fn run(args: IncidentsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let now = moment::now();
    let query = Query::of(&args, now)?;
    let limit = args.limit.map_or(limits::PAGE_ROWS, usize::from).to_string();
    let mut asked = query.pairs();
    asked.extend([("sort", args.sort.as_str()), ("limit", &limit)]);
    asked.extend(args.cursor.as_ref().map(|cursor| ("cursor", cursor.as_str())));
    let answer = client.get(&["incidents"], &asked).await?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => {
            let page: IncidentPage = answer.read()?;
            if !page.items.is_empty() {
                screen.write(list::list(&page.items, screen, now).as_bytes())?;
            }
            screen.note(&footer(&args, &query, &page));
        }
    }
    Ok(Outcome::Done)
}

fn footer(args: &IncidentsArgs, query: &Query, page: &IncidentPage) -> String {
    if page.items.is_empty() && args.cursor.is_none() {
        return match query.is_narrowed() {
            true => "no matching incidents".into(),
            false if args.all => "no incidents yet".into(),
            false => "no open incidents; --all includes closed incidents".into(),
        };
    }
    let noun = if page.total == 1 { "incident" } else { "incidents" };
    let shown = moment::count(page.items.len() as u64);
    let mut text = format!("{shown} of {} {noun}", moment::count(page.total));
    if let Some(cursor) = &page.next_cursor {
        text.push_str("\nnext page: ");
        text.push_str(&next_page(args, query, cursor));
    }
    text
}

/// The command that shows the next page. It names the moment that `since` was, because a cursor belongs to one list.
fn next_page(args: &IncidentsArgs, query: &Query, cursor: &str) -> String {
    let mut words = vec!["lazaret incidents".to_owned()];
    words.extend(query.flags().into_iter().map(|(flag, value)| format!("--{flag} {}", shell_word(&value))));
    if args.all {
        words.push("--all".into());
    }
    if args.sort != IncidentSort::LastSeenDesc.name() {
        words.push(format!("--sort {}", args.sort));
    }
    if let Some(limit) = args.limit {
        words.push(format!("--limit {limit}"));
    }
    words.push(format!("--cursor {}", shell_word(cursor)));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use lazaret_core::time::Time;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: IncidentsArgs,
    }

    pub fn args(words: &[&str]) -> IncidentsArgs {
        Words::try_parse_from(["incidents"].iter().chain(words)).unwrap().args
    }

    pub fn page(cursor: Option<&str>) -> IncidentPage {
        let mut arrived = vec![0_u64; 48];
        arrived[30..].copy_from_slice(&[0, 1, 4, 9, 20, 40, 80, 120, 100, 90, 60, 30, 20, 10, 5, 0, 0, 3]);
        let incident = |id: u8, title: &str, state: &str, category: Option<&str>, letters: [u64; 2]| {
            serde_json::json!({
                "id": format!("019a8b1c-7e00-7000-8000-0000000000{id:02}"), "fingerprint": "v1:0", "title": title,
                "state": state, "count": letters[1],
                "byStatus": {"pending": letters[0], "reprocessing": 0, "resolved": 0, "discarded": 0},
                "type": "invoice.created", "errorType": "NetworkError", "template": "t", "class": "transient",
                "category": category, "firstSeenAt": "2025-11-14T02:57:00.000Z",
                "lastSeenAt": "2025-11-15T02:57:00.000Z",
                "sparkline": {"step": "hour", "from": "2025-11-13T03:00:00.000Z", "arrived": arrived},
            })
        };
        serde_json::from_value(serde_json::json!({
            "items": [
                incident(1, "NetworkError: connection to <host> timed out after <n> ms\u{1b}[2J", "open",
                    Some("infrastructure"), [1_204, 1_310]),
                incident(2, "Größenfehler", "regressed", None, [1, 1]),
            ],
            "total": 1_204, "nextCursor": cursor,
        }))
        .unwrap()
    }

    #[test]
    fn the_footer_says_how_to_go_on_with_the_same_list() {
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        let args = args(&["state:open", "--type", "invoice.*", "--since", "24h", "it's", "--limit", "2"]);
        let query = Query::of(&args, now).unwrap();
        insta::assert_snapshot!(footer(&args, &query, &page(Some("AbC-_"))), @r"
        2 of 1,204 incidents
        next page: lazaret incidents --state open --type 'invoice.*' --text 'it'\''s' --since 2025-11-14T03:00:00.000Z --limit 2 --cursor AbC-_
        ");
    }

    #[test]
    fn an_empty_list_is_friendly() {
        let none = IncidentPage { items: Vec::new(), total: 0, next_cursor: None };
        let told = |words: &[&str]| {
            let args = args(words);
            footer(&args, &Query::of(&args, Time::from_ms(0)).unwrap(), &none)
        };
        assert_eq!(told(&[]), "no open incidents; --all includes closed incidents");
        assert_eq!(told(&["--all"]), "no incidents yet");
        assert_eq!(told(&["timeout"]), "no matching incidents");
    }
}
