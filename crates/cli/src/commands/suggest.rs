//! `lazaret suggest`: the values that occur, for whoever writes a filter.

use clap::Args;

use crate::answers::search::{Suggestion, Suggestions};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Column, Table, Titles};
use crate::output::{Format, Screen, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret suggest queue
  lazaret suggest type invoice.
  lazaret suggest error --limit 50 --json | jq -r '.items[].value'

Values are preceded by the number of letters where known.";

/// The keys that have values to suggest.
const KEYS: [&str; 11] = [
    "source",
    "queue",
    "type",
    "error",
    "errorType",
    "class",
    "status",
    "code",
    "subscriber",
    "aggregate",
    "tenant",
];

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SuggestArgs {
    /// Filter key
    #[arg(value_name = "KEY", value_parser = KEYS)]
    key: String,

    /// Prefix
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,

    /// Maximum number of values, up to 100
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
}

pub async fn run(args: SuggestArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let limit = args.limit.to_string();
    let query = [("key", args.key.as_str()), ("prefix", &args.prefix), ("limit", &limit)];
    let answer = client.get(&["suggest"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let suggestions: Suggestions = answer.read()?;
    if suggestions.items.is_empty() {
        let prefix = escape::line(&args.prefix);
        let begin = if prefix.is_empty() { String::new() } else { format!(" starting with {prefix}") };
        screen.note(&format!("no values for {}{begin}", args.key));
        return Ok(Outcome::Done);
    }
    screen.table(&table(&suggestions.items))?;
    Ok(Outcome::Done)
}

fn table(items: &[Suggestion]) -> Table {
    let mut table =
        Table::new(vec![Column::number("LETTERS"), Column::cut("VALUE")]).with_titles(Titles::Hidden);
    for item in items {
        let count = item.count.map(moment::count).unwrap_or_default();
        table.row(vec![count.into(), item.value.as_str().into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn values_stand_with_their_letters_where_these_are_known() {
        let json = r#"{"key":"queue","prefix":"b","items":[{"value":"billing","count":1204},{"value":"b\u001b[2J","count":null}]}"#;
        let suggestions: Suggestions = serde_json::from_str(json).unwrap();
        insta::assert_snapshot!(table(&suggestions.items).render(None, Colour::Off), @r"
        1,204  billing
               b\u{1b}[2J
        ");
    }
}
