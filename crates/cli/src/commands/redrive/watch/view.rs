//! How a run looks: some lines on a terminal, one line elsewhere, and the last words.

use lazaret_core::time::Time;

use super::speed::Speed;
use crate::answers::redrive::{Outcomes, Redrive};
use crate::commands::redrive::choices::pace_told;
use crate::output::{Paint, Screen, chart, escape, fit, moment};

/// The bar at most; a longer one is no clearer.
const BAR_CELLS_MAX: u16 = 50;

/// Columns of the bar's line beside the bar.
const BESIDE_BAR: u16 = 30;

const WIDTH: u16 = 80;

/// The run as it stands, in lines that fit the terminal.
pub fn picture(redrive: &Redrive, speed: &Speed, screen: &Screen, now: Time) -> String {
    let width = screen.width().unwrap_or(WIDTH);
    let room = usize::from(width.saturating_sub(1));
    let mut lines = head(redrive, screen, room);
    lines.extend(gate(redrive, screen, room));
    lines.push(bar(redrive, screen, width));
    lines.extend(fit::wrapped(&times(redrive, speed, now), room));
    lines.extend(outcomes(&redrive.letters, screen, room));
    let next = match redrive.state.as_str() {
        "paused" => format!("resume: lazaret redrive resume {}", escape::line(&redrive.id)),
        _ => "Ctrl-C stops following, not the redrive".to_owned(),
    };
    lines.push(screen.paint(Paint::Dim, &fit::cut(&next, room)));
    lines.join("\n")
}

/// The state, which matters most, and behind or below it which redrive it is.
fn head(redrive: &Redrive, screen: &Screen, room: usize) -> Vec<String> {
    let why = redrive.why.as_ref().map(|why| format!(": {}", escape::line(why))).unwrap_or_default();
    let state = fit::cut(&format!("{}{why}", escape::line(&redrive.state)), room);
    let id = format!("redrive {}", escape::line(&redrive.id));
    let fits = fit::columns_of(&state) + 2 + fit::columns_of(&id) <= room;
    let state = Paint::of_run(&redrive.state).map_or(state.clone(), |paint| screen.paint(paint, &state));
    let id = screen.paint(Paint::Dim, &id);
    if fits { vec![format!("{state}  {id}")] } else { vec![state, id] }
}

/// Where the first letters stand, for which the others wait.
fn gate(redrive: &Redrive, screen: &Screen, room: usize) -> Option<String> {
    let text = gate_text(redrive)?;
    let text = fit::cut(&text, room);
    Some(match (redrive.canary_passed, redrive.state.as_str()) {
        (true, _) => screen.paint(Paint::Green, &text),
        (false, "paused" | "stopped") => screen.paint(Paint::Red, &text),
        (false, _) => screen.paint(Paint::Yellow, &text),
    })
}

fn gate_text(redrive: &Redrive) -> Option<String> {
    let canaries = redrive.canaries.as_ref()?;
    let good = canaries.good();
    let all = canaries.waiting + canaries.under_way() + canaries.settled();
    let count = moment::count;
    Some(match (redrive.canary_passed, redrive.state.as_str()) {
        (true, _) => format!("canaries passed: {} succeeded", count(all)),
        (false, "canary" | "planned") => {
            format!("canaries: {} of {} succeeded, the rest wait", count(good), count(all))
        }
        (false, _) => format!("canaries: {} of {} succeeded", count(good), count(all)),
    })
}

fn bar(redrive: &Redrive, screen: &Screen, width: u16) -> String {
    let cells = width.saturating_sub(BESIDE_BAR).clamp(10, BAR_CELLS_MAX);
    let settled = redrive.letters.settled().min(redrive.count);
    let drawn = chart::bar(settled, redrive.count, u64::from(cells));
    let empty = usize::from(cells).saturating_sub(drawn.chars().count());
    let percent = (settled * 100).checked_div(redrive.count).unwrap_or(100);
    let paint = if redrive.letters.bad() > 0 { Paint::Yellow } else { Paint::Green };
    format!(
        "{}{} {percent:>3} %  {} of {}",
        screen.paint(paint, &drawn),
        screen.paint(Paint::Dim, &"·".repeat(empty)),
        moment::count(settled),
        moment::count(redrive.count)
    )
}

fn times(redrive: &Redrive, speed: &Speed, now: Time) -> String {
    let mut parts = Vec::new();
    let allowed = pace_told(&redrive.options.pace);
    match speed.per_minute() {
        Some(rate) if redrive.state == "running" => {
            parts.push(format!("{}/min (limit {allowed})", moment::count(rate)));
        }
        Some(_) | None => parts.push(format!("limit {allowed}")),
    }
    if let Some(left) = speed.left_ms(redrive) {
        parts.push(format!("remaining about {}", moment::took(left)));
    }
    if let Some(since) = since_launch(redrive, now) {
        parts.push(format!("elapsed {}", moment::took(since)));
    }
    parts.join(" · ")
}

fn since_launch(redrive: &Redrive, now: Time) -> Option<u64> {
    let launched = Time::parse(redrive.launched_at.as_deref()?).ok()?;
    let until = redrive.finished_at.as_deref().and_then(|at| Time::parse(at).ok()).unwrap_or(now);
    u64::try_from(until.since(launched)).ok()
}

/// Every number that matters always, the others where there are any.
fn named(letters: &Outcomes) -> Vec<(&'static str, u64, Option<Paint>)> {
    let always = [
        ("ok", letters.good(), Some(Paint::Green)),
        ("failed", letters.failed, Some(Paint::Red)),
        ("relapsed", letters.relapsed, Some(Paint::Red)),
        ("unknown", letters.unknown, Some(Paint::Yellow)),
        ("skipped", letters.skipped, None),
    ];
    let if_any = [
        ("blocked", letters.lane_blocked, Some(Paint::Red)),
        ("ended", letters.ended, None),
        ("cancelled", letters.cancelled, None),
        ("in flight", letters.under_way(), Some(Paint::Cyan)),
        ("waiting", letters.waiting, None),
    ];
    always.into_iter().chain(if_any.into_iter().filter(|(_, count, _)| *count > 0)).collect()
}

fn outcomes(letters: &Outcomes, screen: &Screen, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut taken) = (String::new(), 0);
    for (name, count, paint) in named(letters) {
        let plain = format!("{} {name}", moment::count(count));
        if taken > 0 && taken + 3 + plain.len() > room {
            lines.push(std::mem::take(&mut line));
            taken = 0;
        }
        if taken > 0 {
            line.push_str(" · ");
            taken += 3;
        }
        taken += plain.len();
        match paint.filter(|_| count > 0) {
            Some(paint) => line.push_str(&screen.paint(paint, &plain)),
            None => line.push_str(&plain),
        }
    }
    lines.push(line);
    lines
}

/// The run in one line, for a log.
pub fn line(redrive: &Redrive, speed: &Speed, now: Time) -> String {
    let why = redrive.why.as_ref().map(|why| format!(" ({})", escape::line(why))).unwrap_or_default();
    let settled = redrive.letters.settled();
    let counts = named(&redrive.letters).into_iter();
    let counts: Vec<String> =
        counts.map(|(name, count, _)| format!("{} {name}", moment::count(count))).collect();
    let gate = match gate_text(redrive) {
        Some(gate) if !redrive.canary_passed => format!("; {gate}"),
        Some(_) | None => String::new(),
    };
    let left = speed
        .left_ms(redrive)
        .map(|left| format!("; remaining about {}", moment::took(left)))
        .unwrap_or_default();
    format!(
        "{now} {}{why} {} of {}: {}{gate}{left}",
        escape::line(&redrive.state),
        moment::count(settled),
        moment::count(redrive.count),
        counts.join(", ")
    )
}

/// How it ended: `done: 410 ok, 2 failed, in 4 m 10 s`
pub fn summary(redrive: &Redrive, screen: &Screen) -> String {
    let state = escape::line(&redrive.state);
    let state = Paint::of_run(&redrive.state).map_or(state.clone(), |paint| screen.paint(paint, &state));
    let why = redrive.why.as_ref().map(|why| format!(" ({})", escape::line(why))).unwrap_or_default();
    let there = named(&redrive.letters).into_iter().filter(|(name, count, _)| *count > 0 || *name == "ok");
    let counts: Vec<String> =
        there.map(|(name, count, _)| format!("{} {name}", moment::count(count))).collect();
    let took = match (&redrive.finished_at, since_launch(redrive, moment::now())) {
        (Some(_), Some(ms)) => format!(", in {}", moment::took(ms)),
        (Some(_) | None, _) => String::new(),
    };
    format!("{state}{why}: {}{took}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::ColorChoice;

    const NOW: &str = "2026-11-15T03:00:00Z";

    fn run() -> Redrive {
        serde_json::from_str(include_str!("../run.json")).unwrap()
    }

    fn canary() -> Redrive {
        let letters = Outcomes { waiting: 407, out: 1, sent: 1, succeeded: 3, ..Outcomes::default() };
        let canaries = Some(Outcomes { waiting: 0, ..letters });
        Redrive { state: "canary".into(), canary_passed: false, letters, canaries, ..run() }
    }

    fn drawn(redrive: &Redrive, width: u16) -> String {
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(width);
        let text = picture(redrive, &Speed::default(), &screen, Time::parse(NOW).unwrap());
        let is_wide = |line: &&str| line.chars().count() >= usize::from(width) && !line.contains(&redrive.id);
        assert_eq!(text.lines().find(is_wide), None, "{text}");
        text
    }

    #[test]
    fn a_run_is_drawn_with_its_gate_its_bar_and_every_outcome() {
        insta::assert_snapshot!("running_80_columns", drawn(&run(), 80));
        insta::assert_snapshot!("running_50_columns", drawn(&run(), 50));
        insta::assert_snapshot!("canary_80_columns", drawn(&canary(), 80));
        let why = Some("canary: \u{1b}[2Jfailed".to_owned());
        let paused = drawn(&Redrive { state: "paused".into(), why, ..canary() }, 80);
        assert!(paused.contains("paused: canary: \\u{1b}[2Jfailed"), "{paused}");
        assert!(paused.ends_with(&format!("resume: lazaret redrive resume {}", run().id)), "{paused}");
    }

    #[test]
    fn a_log_gets_a_line_and_the_end_is_summed_up() {
        let now = Time::parse(NOW).unwrap();
        insta::assert_snapshot!(line(&run(), &Speed::default(), now), @"2026-11-15T03:00:00.000Z running 218 of 412: 212 ok, 2 failed, 1 relapsed, 1 unknown, 1 skipped, 1 blocked, 8 in flight, 186 waiting; remaining about 1 m 51 s");
        insta::assert_snapshot!(line(&canary(), &Speed::default(), now), @"2026-11-15T03:00:00.000Z canary 3 of 412: 3 ok, 0 failed, 0 relapsed, 0 unknown, 0 skipped, 2 in flight, 407 waiting; canaries: 3 of 5 succeeded, the rest wait");
        let letters = Outcomes { succeeded: 410, failed: 2, ..Outcomes::default() };
        let finished_at = Some("2026-11-15T03:01:50Z".to_owned());
        let done = Redrive { state: "done".into(), letters, finished_at, ..run() };
        let screen = Screen::new(Format::Text, ColorChoice::Never);
        assert_eq!(summary(&done, &screen), "done: 410 ok, 2 failed, in 4 m 10 s");
    }
}
