//! `lazaret redrive show`: one redrive, its plan, how far it is, and what became of its letters.

use clap::Args;
use lazaret_core::id::RedriveId;
use lazaret_core::limits;
use lazaret_core::redrive::Outcome as LetterOutcome;
use lazaret_core::time::Time;

use super::page;
use crate::answers::redrive::{Redrive, RedriveLetter, RedriveLetterPage};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::page::Page;
use crate::output::table::{Cell, Column, Table, Titles};
use crate::output::{Format, Paint, Screen, chart, escape, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret redrive show 019a8b1c-7e00-7000-8000-000000000007
  lazaret redrive show 019a8b1c-7e00-7000-8000-000000000007 --letters
  lazaret redrive show 019a8b1c-7e00-7000-8000-000000000007 --outcome failed --limit 500
  lazaret redrive show 019a8b1c-7e00-7000-8000-000000000007 --outcome unknown --json | jq -r '.items[].idempotencyKey'

Outcomes: waiting, out, sent, unknown, succeeded, assumed, ended, failed, relapsed, skipped, lane_blocked, cancelled.";

const BAR_CELLS: u64 = 24;

/// Letters that did not go well, shown on the page of the run.
const TROUBLES_SHOWN: &str = "5";

#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Redrive id
    #[arg(value_name = "ID", value_parser = RedriveId::parse)]
    id: RedriveId,

    /// List letters with their outcomes
    #[arg(long)]
    letters: bool,

    /// List letters with this outcome
    #[arg(long, value_name = "OUTCOME", value_parser = LetterOutcome::ALL.map(LetterOutcome::name))]
    outcome: Option<String>,

    /// Letters per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Cursor of the next page of letters
    #[arg(long)]
    cursor: Option<String>,
}

pub async fn run(args: ShowArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    if args.letters || args.outcome.is_some() || args.cursor.is_some() {
        return letters(&args, client, screen).await;
    }
    let id = args.id.to_string();
    let answer = client.get(&["redrives", &id], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let redrive: Redrive = answer.read()?;
    let now = moment::now();
    let text = match redrive.state.as_str() {
        "planning" | "planned" => page::plan(&redrive, screen, now),
        _ => whole(&redrive, &troubles(&redrive, client).await?, screen, now),
    };
    screen.write(text.as_bytes())?;
    Ok(Outcome::Done)
}

/// Some letters of each kind that somebody has to look at.
async fn troubles(redrive: &Redrive, client: &Client) -> anyhow::Result<Vec<RedriveLetter>> {
    let letters = &redrive.letters;
    let kinds = [("failed", letters.failed), ("relapsed", letters.relapsed), ("unknown", letters.unknown)];
    let mut found = Vec::new();
    for (outcome, _) in kinds.into_iter().filter(|(_, count)| *count > 0) {
        let query = [("outcome", outcome), ("limit", TROUBLES_SHOWN)];
        let page: RedriveLetterPage =
            client.get(&["redrives", &redrive.id, "letters"], &query).await?.read()?;
        found.extend(page.items);
    }
    Ok(found)
}

async fn letters(args: &ShowArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let limit = args.limit.map(|limit| limit.to_string());
    let asked = [("outcome", &args.outcome), ("limit", &limit), ("cursor", &args.cursor)];
    let query: Vec<(&str, &str)> =
        asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let answer = client.get(&["redrives", &id, "letters"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: RedriveLetterPage = answer.read()?;
    if page.items.is_empty() {
        screen.note("no letters");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&page.items, moment::now()))?;
    if let Some(cursor) = page.next_cursor {
        let outcome =
            args.outcome.as_ref().map(|outcome| format!(" --outcome {outcome}")).unwrap_or_default();
        let limit = args.limit.map(|limit| format!(" --limit {limit}")).unwrap_or_default();
        let cursor = escape::line(&cursor);
        screen.note(&format!(
            "next page: lazaret redrive show {id} --letters{outcome}{limit} --cursor {cursor}"
        ));
    }
    Ok(Outcome::Done)
}

fn table(letters: &[RedriveLetter], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("LETTER"),
        Column::number("LIFE").left_out(2),
        Column::whole("OUTCOME"),
        Column::cut("EVIDENCE"),
        Column::cut("ORDER KEY").left_out(1),
        Column::whole("AT").left_out(3),
    ]);
    for letter in letters {
        let first = if letter.canary { " (first)" } else { "" };
        table.row(vec![
            letter.letter_id.as_str().into(),
            letter.life.to_string().into(),
            Cell::painted(&format!("{}{first}", letter.outcome), Paint::of_run(&letter.outcome)),
            (&letter.evidence).into(),
            (&letter.lane).into(),
            letter.outcome_at.as_ref().map(|at| moment::ago(at, now)).unwrap_or_default().into(),
        ]);
    }
    table
}

fn whole(redrive: &Redrive, troubles: &[RedriveLetter], screen: &Screen, now: Time) -> String {
    let mut page = Page::new(screen);
    page.field("redrive", &redrive.id);
    state(&mut page, redrive);
    let edited = redrive.edit.map(|number| format!(", edit {number}")).unwrap_or_default();
    let refused = match redrive.refused {
        0 => String::new(),
        refused => format!("; {} blocked", moment::count(refused)),
    };
    page.field("letters", &format!("{}{edited}{refused}", moment::count(redrive.count)));
    let none = page::none();
    let plan = redrive.plan.as_ref().unwrap_or(&none);
    page::destinations(&mut page, &plan.destinations);
    page::how(&mut page, redrive, plan);
    page::under(&mut page, plan);
    page.maybe("rule", &redrive.rule);
    page::whence(&mut page, redrive);
    for (label, at) in [("started", &redrive.launched_at), ("ended", &redrive.finished_at)] {
        if let Some(at) = at {
            page.field(label, &moment::both(at, now));
        }
    }
    became(&mut page, redrive);
    if !troubles.is_empty() {
        page.heading("failures");
        page.table(&table(troubles, now));
    }
    page::what_goes(&mut page, plan, redrive.count);
    next(&mut page, redrive);
    page.into_text()
}

fn state(page: &mut Page<'_>, redrive: &Redrive) {
    let why = redrive.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let state = escape::line(&format!("{}{why}", redrive.state));
    let state = Paint::of_run(&redrive.state).map_or(state.clone(), |paint| page.screen.paint(paint, &state));
    page.plain("state", &state);
    if let Some(rate) = redrive.success_rate {
        page.field("success", &format!("{:.1} %", (rate * 100.0).clamp(0.0, 100.0)));
    }
}

/// What became of the letters, largest first as they stand in the life of a letter.
fn became(page: &mut Page<'_>, redrive: &Redrive) {
    let letters = &redrive.letters;
    let named = [
        ("succeeded", letters.succeeded),
        ("assumed", letters.assumed),
        ("ended", letters.ended),
        ("failed", letters.failed),
        ("relapsed", letters.relapsed),
        ("unknown", letters.unknown),
        ("lane_blocked", letters.lane_blocked),
        ("skipped", letters.skipped),
        ("cancelled", letters.cancelled),
        ("sent", letters.sent),
        ("out", letters.out),
        ("waiting", letters.waiting),
    ];
    page.heading("outcomes");
    let mut table = Table::new(vec![
        Column::whole("OUTCOME"),
        Column::number("LETTERS"),
        Column::whole("SHARE").left_out(1),
    ])
    .with_titles(Titles::Hidden);
    for (name, count) in named.into_iter().filter(|(_, count)| *count > 0) {
        let paint = Paint::of_run(name);
        table.row(vec![
            Cell::painted(&name.replace('_', " "), paint),
            moment::count(count).into(),
            Cell::painted(&chart::bar(count, redrive.count, BAR_CELLS), paint),
        ]);
    }
    page.table(&table);
}

fn next(page: &mut Page<'_>, redrive: &Redrive) {
    let id = &redrive.id;
    let mut steps = vec![(format!("lazaret redrive show {id} --letters"), "letters with outcomes")];
    if redrive.letters.unknown > 0 {
        let command = format!("lazaret redrive settle {id} LETTER sent|unclaim");
        steps.push((command, "settle an unknown outcome"));
    }
    let actions =
        [("pause", "pause the redrive"), ("resume", "resume the redrive"), ("cancel", "cancel the redrive")];
    for (action, purpose) in actions {
        if redrive.allowed_actions.iter().any(|allowed| allowed == action) {
            steps.push((format!("lazaret redrive {action} {id}"), purpose));
        }
    }
    if redrive.finished_at.is_none() {
        steps.push((format!("lazaret redrive watch {id}"), "follow the redrive"));
    }
    crate::commands::grouping::next_steps(page, &steps);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Colour, Format};
    use clap::ColorChoice;

    fn troubled() -> Vec<RedriveLetter> {
        let letters = serde_json::json!([
            {"letterId": "019a8b1c-7e00-7000-8000-000000000000", "life": 1, "outcome": "failed", "canary": false, "lane": "o-1", "evidence": "answered 500: no\u{1b}[2J", "outcomeAt": "2026-11-15T02:59:00.000Z"},
            {"letterId": "019a8b1c-7e00-7000-8000-000000000001", "life": 2, "outcome": "unknown", "canary": true, "lane": null, "evidence": null, "outcomeAt": null},
        ]);
        serde_json::from_value(letters).unwrap()
    }

    #[test]
    fn a_run_is_all_there_and_harmless() {
        let now = Time::parse("2026-11-15T03:00:00Z").unwrap();
        let redrive: Redrive = serde_json::from_str(include_str!("run.json")).unwrap();
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(100);
        let text = whole(&redrive, &troubled(), &screen, now);
        assert!(!text.contains('\u{1b}'));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn letters_are_listed_with_what_became_of_them() {
        let now = Time::parse("2026-11-15T03:00:00Z").unwrap();
        insta::assert_snapshot!(table(&troubled(), now).render(Some(80), Colour::Off));
    }
}
