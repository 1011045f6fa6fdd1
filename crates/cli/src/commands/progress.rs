//! `lazaret progress`: how far the work has come that goes on behind everything else.

use clap::Args;

use crate::answers::search::{BodyIndex, Progress, Regrouping};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::page::Page;
use crate::output::{Format, Screen, chart, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret progress
  lazaret progress --json | jq .bodyIndex.behind
  watch lazaret progress";

const BAR_CELLS: u64 = 24;

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ProgressArgs {}

pub async fn run(_: ProgressArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["progress"], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let progress: Progress = answer.read()?;
    let text = page(&progress, screen);
    screen.write(text.as_bytes())?;
    Ok(Outcome::Done)
}

fn page(progress: &Progress, screen: &Screen) -> String {
    let mut page = Page::new(screen);
    page.wrapped("body index", &body_index(&progress.body_index));
    page.wrapped("regrouping", &regrouping(&progress.regrouping));
    page.into_text()
}

/// How far the body index is, in one line.
pub fn body_index(index: &BodyIndex) -> String {
    if index.state == "off" {
        return "off: body searches use a full scan".into();
    }
    let indexed = moment::count(index.indexed);
    if index.behind == 0 {
        return format!("up to date, {indexed} bodies");
    }
    let bar = chart::bar(index.indexed, index.indexed.saturating_add(index.behind), BAR_CELLS);
    let lag = index.lag_ms.map(|ms| format!(", oldest {} behind", moment::took(ms))).unwrap_or_default();
    format!("{bar} {indexed} bodies, {} to go{lag}", moment::count(index.behind))
}

fn regrouping(regrouping: &Regrouping) -> String {
    let revision = escape::line(&regrouping.revision);
    match &regrouping.towards {
        None => format!("done, revision {revision}"),
        Some(towards) => {
            let bar = chart::bar(regrouping.done, regrouping.total, BAR_CELLS);
            let (done, total) = (moment::count(regrouping.done), moment::count(regrouping.total));
            format!("{bar} {done} of {total} from revision {revision} to {}", escape::line(towards))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ColorChoice;

    fn shown(json: serde_json::Value) -> String {
        let screen = Screen::new(Format::Text, ColorChoice::Never).without_width();
        page(&serde_json::from_value(json).unwrap(), &screen)
    }

    #[test]
    fn what_is_under_way_is_told_with_what_is_left() {
        let under_way = shown(serde_json::json!({
            "bodyIndex": {"state": "on", "indexed": 9_000, "behind": 3_000, "lagMs": 61_000},
            "regrouping": {"revision": "1", "towards": "2\u{1b}[2J", "done": 500, "total": 1_000},
        }));
        insta::assert_snapshot!(under_way, @r"
        body index  ██████████████████ 9,000 bodies, 3,000 to go, oldest 1 m 1 s behind
        regrouping  ████████████ 500 of 1,000 from revision 1 to 2\u{1b}[2J
        ");
        let done = shown(serde_json::json!({
            "bodyIndex": {"state": "on", "indexed": 12_000, "behind": 0, "lagMs": 0},
            "regrouping": {"revision": "2", "towards": null, "done": 0, "total": 0},
        }));
        insta::assert_snapshot!(done, @"
        body index  up to date, 12,000 bodies
        regrouping  done, revision 2
        ");
        let off = shown(serde_json::json!({
            "bodyIndex": {"state": "off"}, "regrouping": {"revision": "2", "towards": null, "done": 0, "total": 0},
        }));
        assert!(off.starts_with("body index  off: body searches use a full scan\n"), "{off}");
    }

    #[test]
    fn it_fits_a_narrow_terminal() {
        let progress = serde_json::from_value(serde_json::json!({
            "bodyIndex": {"state": "on", "indexed": 9_000_000, "behind": 3_000_000, "lagMs": 61_000},
            "regrouping": {"revision": "1", "towards": "2", "done": 500_000, "total": 1_000_000},
        }));
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(60);
        let text = page(&progress.unwrap(), &screen);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        insta::assert_snapshot!(text, @r"
        body index  ██████████████████ 9,000,000 bodies, 3,000,000
                    to go, oldest 1 m 1 s behind
        regrouping  ████████████ 500,000 of 1,000,000 from revision
                    1 to 2
        ");
    }
}
