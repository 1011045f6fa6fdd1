//! Decisions by filter: the number is stated or typed, the server freezes the list, and we watch it being worked off.

use std::io::{self, IsTerminal};
use std::time::Duration;

use lazaret_core::lifecycle::Action;
use serde_json::{Value, json};

use super::{Selection, past};
use crate::answers::{Count, Operation};
use crate::client::{Answer, Client, ClientError, Content};
use crate::failure::{Failure, Outcome};
use crate::output::table::{Column, Table};
use crate::output::{BAR_OF_LETTERS, Format, Screen, escape, moment};

/// How often a running operation is looked at, and how long the server may be away meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOKS_FAILED_MAX: u32 = 25;

#[derive(Debug)]
pub struct Request<'a> {
    pub action: Action,
    pub selection: Selection,
    pub expect: Option<u64>,
    pub reason: Option<&'a str>,
}

pub async fn run(request: Request<'_>, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let expected = stated(&request, client).await?;
    let mut body = match &request.selection {
        Selection::Matching(filter) => json!({ "filter": { "q": filter.to_string() } }),
        Selection::All => json!({ "all": true }),
    };
    body["expectedCount"] = expected.into();
    if let Some(reason) = request.reason {
        body["reason"] = reason.into();
    }
    let content = Content::json(&body);
    let mut answer = client.post(&["dead-letters", request.action.name()], &[], content).await?;
    let mut operation: Operation = answer.read()?;
    if is_running(&operation) {
        answer = follow(&operation, client, screen).await?;
        operation = answer.read()?;
    }
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => screen.line(&summary(request.action, &operation))?,
    }
    if operation.state == "refused" {
        return Err(Failure::failed("operation refused: nothing was changed").into());
    }
    if operation.skipped == 0 {
        return Ok(Outcome::Done);
    }
    if screen.format == Format::Text {
        screen.table(&skipped(&operation))?;
        let more = operation.skipped.saturating_sub(operation.skipped_letters.len() as u64);
        if more > 0 {
            screen.line(&format!("… and {} more", moment::count(more)))?;
        }
    }
    Ok(Outcome::Incomplete)
}

/// The number of letters as it was stated, or as somebody confirms it.
pub async fn stated(request: &Request<'_>, client: &Client) -> anyhow::Result<u64> {
    match request.expect {
        Some(expected) => Ok(expected),
        None => confirmed(request, client).await,
    }
}

/// Asks for the number of letters, first the server and then the person.
async fn confirmed(request: &Request<'_>, client: &Client) -> anyhow::Result<u64> {
    let (body, which) = match &request.selection {
        Selection::Matching(filter) => (json!({ "q": filter.to_string() }), format!(" matching {filter}")),
        Selection::All => (json!({}), " (all letters)".into()),
    };
    let count = count(&body, client).await?;
    if count.total_is_at_least {
        let total = moment::count(count.total);
        return Err(Failure::misuse(format!(
            "at least {total} letters match: too many for an interactive confirmation"
        ))
        .hint("pass the number with --expect N")
        .into());
    }
    if count.total == 0 {
        return Err(Failure::failed("no matching letters").hint("preview a filter with `lazaret ls`").into());
    }
    let letters = moment::letters(count.total);
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::misuse("--expect required: the number of letters")
            .hint(format!("{letters}{which}: pass --expect {}", count.total))
            .into());
    }
    let question = format!("{} {letters}{which}?", capitalised(request.action));
    ask(&question, count.total)
}

async fn count(body: &Value, client: &Client) -> Result<Count, ClientError> {
    client.post(&["dead-letters", "count"], &[], Content::json(body)).await?.read()
}

fn ask(question: &str, total: u64) -> anyhow::Result<u64> {
    use io::Write;
    let mut stderr = io::stderr();
    write!(stderr, "{question} Type the number to confirm: ")?;
    stderr.flush()?;
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    if !is_the_number(&typed, total) {
        return Err(Failure::failed("not confirmed: nothing was changed").into());
    }
    Ok(total)
}

/// Whether somebody typed the number, with or without separators.
fn is_the_number(typed: &str, total: u64) -> bool {
    let digits: String = typed.trim().chars().filter(|c| !matches!(c, ',' | '_' | '.' | ' ')).collect();
    digits.parse() == Ok(total)
}

/// Watches an operation until it ends. It goes on without us; that is said, so that leaving is no worry.
async fn follow(opened: &Operation, client: &Client, screen: &Screen) -> anyhow::Result<Answer> {
    let id = escape::line(&opened.id);
    screen.note(&format!("operation {id} is running on the server"));
    let bar = screen.bar(opened.total, BAR_OF_LETTERS);
    let mut looks_failed = 0;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let answer = match client.get(&["operations", &opened.id], &[]).await {
            Ok(answer) => answer,
            Err(ClientError::Lost { .. } | ClientError::Silent { .. } | ClientError::Unreachable { .. })
                if looks_failed < LOOKS_FAILED_MAX =>
            {
                looks_failed += 1;
                bar.set_message("(server not reachable)");
                continue;
            }
            Err(error) => {
                bar.abandon();
                return Err(anyhow::Error::from(error)
                    .context(format!("lost connection while following operation {id}")));
            }
        };
        looks_failed = 0;
        let operation: Operation = answer.read()?;
        bar.set_position(operation.done + operation.skipped);
        bar.set_message(match operation.skipped {
            0 => String::new(),
            skipped => format!("({} skipped)", moment::count(skipped)),
        });
        if !is_running(&operation) {
            bar.finish_and_clear();
            return Ok(answer);
        }
    }
}

fn is_running(operation: &Operation) -> bool {
    matches!(operation.state.as_str(), "freezing" | "working")
}

fn summary(action: Action, operation: &Operation) -> String {
    let mut text = format!("{} {}", past(action), moment::letters(operation.done));
    if operation.skipped > 0 {
        text.push_str(&format!(", skipped {}", moment::count(operation.skipped)));
    }
    text
}

fn skipped(operation: &Operation) -> Table {
    let mut table = Table::new(vec![Column::whole("SKIPPED"), Column::cut("REASON")]);
    for letter in &operation.skipped_letters {
        table.row(vec![letter.id.as_str().into(), letter.reason.as_str().into()]);
    }
    table
}

fn capitalised(action: Action) -> String {
    let name = action.name();
    let (first, rest) = name.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_itself_confirms() {
        for yes in ["12431\n", " 12,431 ", "12_431", "12.431"] {
            assert!(is_the_number(yes, 12_431), "{yes}");
        }
        for no in ["", "y", "yes", "12430", "-12431", "12431x"] {
            assert!(!is_the_number(no, 12_431), "{no}");
        }
    }

    #[test]
    fn a_summary_says_what_was_done_and_what_was_not() {
        let operation = Operation {
            id: "x".into(),
            state: "done".into(),
            total: Some(1_412),
            done: 1_410,
            skipped: 2,
            skipped_letters: Vec::new(),
        };
        assert_eq!(summary(Action::Discard, &operation), "discarded 1,410 letters, skipped 2");
        assert_eq!(capitalised(Action::Hold), "Hold");
    }
}
