//! What happened to one letter, each thing at its time: gaps and bursts show as what they are.

use std::fmt::Write;

use lazaret_core::time::Time;

use super::super::format::escaped;
use super::{DRAWN, moment, opened, ruled};
use crate::web::zone::Zone;

const HEIGHT: f64 = 64.0;
const LINE: f64 = 32.0;

/// Happenings that are drawn, the newest; more would stand on each other.
const DRAWN_MAX: usize = 200;

/// A name that would begin nearer to the one before it than this part of the width is left out.
const NAME_GAP: f64 = 12.0;

/// What happened to a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// It was tried, and failed.
    Attempt,
    /// A life of it ended.
    Death(u32),
    /// A redrive sent it.
    Sent,
}

/// Draws them over one line of time; nothing if all of it was at once.
pub(crate) fn story(happenings: &[(Time, Mark)], label: &str, zone: Zone) -> Option<String> {
    let moment = |at: Time| moment(zone.local(at));
    let mut all = happenings.to_vec();
    all.sort_by_key(|(at, _)| *at);
    let all = all.get(all.len().saturating_sub(DRAWN_MAX)..).unwrap_or_default();
    let (first, last) = (all.first()?.0, all.last()?.0);
    let length = last.since(first);
    if length <= 0 {
        return None;
    }
    let mut svg = opened("story", HEIGHT, label);
    ruled(&mut svg, "zero", LINE);
    let mut named = f64::NEG_INFINITY;
    for (at, mark) in all {
        let x = 2.0 + 96.0 * at.since(first) as f64 / length as f64;
        let (what, shape) = match mark {
            Mark::Attempt => (
                "failed attempt".to_owned(),
                format!(
                    "<line class=\"attempt\" x1=\"{x:.2}%\" y1=\"{}\" x2=\"{x:.2}%\" y2=\"{}\"/>",
                    LINE - 9.0,
                    LINE + 9.0
                ),
            ),
            Mark::Death(life) => (
                format!("life {life} ended"),
                format!("<circle class=\"death\" cx=\"{x:.2}%\" cy=\"{LINE}\" r=\"6\"/>"),
            ),
            Mark::Sent => (
                "sent by redrive".to_owned(),
                format!("<circle class=\"sent\" cx=\"{x:.2}%\" cy=\"{LINE}\" r=\"5\"/>"),
            ),
        };
        write!(svg, "<g><title>{}: {}</title>{shape}</g>", escaped(&moment(*at)), escaped(&what))
            .expect(DRAWN);
        if let Mark::Death(life) = mark
            && x - named >= NAME_GAP
        {
            let anchor = if x > 92.0 { " end" } else { "" };
            write!(svg, "<text class=\"axis{anchor}\" x=\"{x:.2}%\" y=\"16\">life {life}</text>")
                .expect(DRAWN);
            named = x;
        }
    }
    write!(
        svg,
        "<text class=\"axis\" x=\"0\" y=\"{y}\">{}</text><text class=\"axis end\" x=\"100%\" y=\"{y}\">{}</text></svg>",
        escaped(&moment(first)),
        escaped(&moment(last)),
        y = HEIGHT - 4.0
    )
    .expect(DRAWN);
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        Time::parse(text).unwrap()
    }

    #[test]
    fn each_thing_stands_at_its_time() {
        let story = story(
            &[
                (at("2026-11-15T03:00:00Z"), Mark::Attempt),
                (at("2026-11-15T04:00:00Z"), Mark::Death(2)),
                (at("2026-11-15T03:30:00Z"), Mark::Sent),
            ],
            "What happened",
            Zone::default(),
        );
        let svg = story.unwrap();
        assert!(
            svg.contains(
                "<title>Sun 15 Nov 03:30: sent by redrive</title><circle class=\"sent\" cx=\"50.00%\""
            ),
            "{svg}"
        );
        assert!(svg.contains("x1=\"2.00%\"") && svg.contains("cx=\"98.00%\""), "{svg}");
        assert!(svg.contains("class=\"axis end\" x=\"98.00%\" y=\"16\">life 2</text>"), "{svg}");
    }

    #[test]
    fn what_was_at_once_is_no_story() {
        assert_eq!(story(&[], "", Zone::default()), None);
        let one = at("2026-11-15T03:00:00Z");
        assert_eq!(story(&[(one, Mark::Attempt), (one, Mark::Death(1))], "", Zone::default()), None);
        let far = [(Time::from_ms(i64::MIN), Mark::Attempt), (Time::from_ms(i64::MAX), Mark::Sent)];
        assert!(story(&far, "", Zone::default()).is_some());
    }

    #[test]
    fn of_very_many_the_newest_are_drawn() {
        let many: Vec<_> = (0..1_000).map(|at| (Time::from_ms(at * 1_000), Mark::Attempt)).collect();
        assert_eq!(
            story(&many, "", Zone::default()).unwrap().matches("class=\"attempt\"").count(),
            DRAWN_MAX
        );
    }
}
