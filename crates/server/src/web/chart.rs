//! Charts as SVG, sharp at every size and readable in both themes: colours come from classes, never from here.
//!
//! A chart is a picture with a name; the page puts a table with the same numbers behind it. Widths are parts of the whole
//! and heights are pixels, so that what is written on a chart has the same size on a telephone as on a wall.

mod axis;
mod course;
mod line;
mod story;

use std::fmt::Write;

use super::format::{escaped, grouped};

pub(crate) use axis::{Tick, clock, moment};
pub(crate) use course::{Figure, days, hours};
pub(crate) use line::line;
pub(crate) use story::{Mark, story};

/// Drawing is writing into a string, which cannot fail.
const DRAWN: &str = "a string takes whatever is written to it";

/// A row of bars without axes, one per value.
pub(crate) fn sparkline(values: &[u64], label: &str) -> String {
    let width = values.len().max(1) * 4;
    let max = values.iter().copied().max().unwrap_or(0).max(1);
    // One path for all bars: a page has fifty of these.
    let mut bars = String::new();
    for (at, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
        // What happened at all is seen, however little it is beside the rest.
        let tall = ((*value as f64 / max as f64 * 22.0).round() as u64).max(3);
        write!(bars, "M{} 23v-{tall}h3v{tall}z", at * 4).expect(DRAWN);
    }
    let bars = if bars.is_empty() { String::new() } else { format!("<path class=\"bar\" d=\"{bars}\"/>") };
    format!(
        "<svg class=\"spark\" viewBox=\"0 0 {width} 24\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{}\"><path class=\"none\" d=\"M0 23h{width}v1H0z\"/>{bars}</svg>",
        escaped(label)
    )
}

/// One value of a chart with two directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    /// What stands under it and on hover.
    pub label: String,
    /// Drawn upwards.
    pub up: u64,
    /// Drawn downwards.
    pub down: u64,
}

/// What a chart is called, and what its two directions are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    pub label: &'a str,
    pub up: &'a str,
    pub down: &'a str,
}

/// What came in above the line, what went out below it; every sixth bar is named.
pub(crate) fn flow(bars: &[Bar], label: &str, up: &str, down: &str) -> String {
    let named = bars.iter().enumerate().step_by(6);
    let ticks: Vec<Tick> =
        named.map(|(at, bar)| Tick { at, text: bar.label.clone(), strong: false }).collect();
    columns(bars, &ticks, Words { label, up, down })
}

/// Where the picture of a chart begins and ends, in pixels from the top.
const TOP: f64 = 18.0;
const BOTTOM: f64 = 150.0;
/// With the row of names below it.
const HEIGHT: f64 = 172.0;

/// The same with an axis of its own.
pub(crate) fn columns(bars: &[Bar], ticks: &[Tick], words: Words<'_>) -> String {
    let most = |value: fn(&Bar) -> u64| bars.iter().map(value).max().unwrap_or(0);
    let (most_up, most_down) = (most(|bar| bar.up), most(|bar| bar.down));
    let scale = (BOTTOM - TOP) / (most_up + most_down).max(1) as f64;
    // With nothing at all the line lies at the bottom.
    let zero = if most_up + most_down == 0 { BOTTOM } else { TOP + most_up as f64 * scale };
    let tall = |value: u64| if value == 0 { 0.0 } else { (value as f64 * scale).max(2.0) };
    let step = 100.0 / bars.len().max(1) as f64;
    let mut svg = opened("flow", HEIGHT, words.label);
    ticked(&mut svg, ticks, |at| at as f64 * step, HEIGHT, "");
    for (at, bar) in bars.iter().enumerate() {
        let x = at as f64 * step;
        write!(
            svg,
            "<g><title>{}</title><rect class=\"hit\" x=\"{x:.2}%\" y=\"0\" width=\"{step:.2}%\" height=\"{BOTTOM}\"/>",
            escaped(&said(bar, words))
        )
        .expect(DRAWN);
        for (class, y, height) in [("in", zero - tall(bar.up), tall(bar.up)), ("out", zero, tall(bar.down))] {
            if height > 0.0 {
                let (x, width) = (x + step * 0.1, step * 0.8);
                write!(svg, "<rect class=\"{class}\" x=\"{x:.2}%\" y=\"{y:.1}\" width=\"{width:.2}%\" height=\"{height:.1}\"/>")
                    .expect(DRAWN);
            }
        }
        svg.push_str("</g>");
    }
    ruled(&mut svg, "zero", zero);
    let most = [(most_up, words.up), (most_down, words.down)].into_iter().find(|(most, _)| *most > 0);
    if let Some((most, what)) = most {
        write!(
            svg,
            "<text class=\"axis most\" x=\"0\" y=\"{}\">{} {}</text>",
            TOP - 6.0,
            grouped(most),
            escaped(what)
        )
        .expect(DRAWN);
    }
    svg.push_str("</svg>");
    svg
}

/// What a place of a chart says when it is pointed at.
fn said(bar: &Bar, words: Words<'_>) -> String {
    let up = format!("{}: {} {}", bar.label, grouped(bar.up), words.up);
    match words.down {
        "" => up,
        down => format!("{up}, {} {down}", grouped(bar.down)),
    }
}

fn opened(class: &str, height: f64, label: &str) -> String {
    format!(
        "<svg class=\"{class}\" width=\"100%\" height=\"{height}\" role=\"img\" aria-label=\"{}\">",
        escaped(label)
    )
}

fn ruled(svg: &mut String, class: &str, y: f64) {
    write!(svg, "<line class=\"{class}\" x1=\"0\" y1=\"{y:.1}\" x2=\"100%\" y2=\"{y:.1}\"/>").expect(DRAWN);
}

/// Writes the names below a chart, each with a faint line upwards from where it belongs.
fn ticked(svg: &mut String, ticks: &[Tick], x: impl Fn(usize) -> f64, height: f64, anchor: &str) {
    for Tick { at, text, strong } in ticks {
        let x = x(*at);
        // Names at the edges stay within.
        let anchor = match anchor {
            "middle" if x < 4.0 => "",
            "middle" if x > 96.0 => " end",
            "middle" => " middle",
            _ if x > 92.0 => " end",
            _ => "",
        };
        let strong = if *strong { " strong" } else { "" };
        write!(
            svg,
            "<line class=\"tick\" x1=\"{x:.2}%\" y1=\"{TOP}\" x2=\"{x:.2}%\" y2=\"{}\"/>\
             <text class=\"axis{anchor}{strong}\" x=\"{x:.2}%\" y=\"{}\">{}</text>",
            height - 18.0,
            height - 4.0,
            escaped(text)
        )
        .expect(DRAWN);
    }
}

/// A part of a whole, by the class that colours it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub class: &'static str,
    pub label: &'static str,
    pub count: u64,
}

/// One bar, divided as a whole is.
pub(crate) fn split(shares: &[Share], label: &str) -> String {
    let all = shares.iter().map(|share| share.count).sum::<u64>();
    let mut svg = format!(
        "<svg class=\"split\" viewBox=\"0 0 1000 12\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
         <rect class=\"none\" width=\"1000\" height=\"12\"/>",
        escaped(label)
    );
    let mut x = 0.0;
    for share in shares.iter().filter(|share| share.count > 0) {
        let width = share.count as f64 / all as f64 * 1_000.0;
        write!(
            svg,
            "<rect class=\"{}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"12\"><title>{} {}</title></rect>",
            share.class,
            grouped(share.count),
            escaped(share.label)
        )
        .expect(DRAWN);
        x += width;
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, up: u64, down: u64) -> Bar {
        Bar { label: label.into(), up, down }
    }

    #[test]
    fn a_label_cannot_break_out() {
        assert!(sparkline(&[1], "\"><script>").contains("aria-label=\"&quot;&gt;&lt;script&gt;\""));
        let bars = [bar("<b>", 1, 0)];
        assert!(!flow(&bars, "x", "in", "out").contains("<b>"));
        assert!(!line(&bars, &[], Words { label: "<b>", up: "<b>", down: "<b>" }).contains("<b>"));
    }

    #[test]
    fn nothing_at_all_can_be_drawn() {
        assert!(sparkline(&[], "").ends_with("</svg>"));
        assert!(flow(&[], "", "in", "out").ends_with("</svg>"));
        assert!(split(&[], "").ends_with("</svg>"));
        for bars in [&[][..], &[bar("one", 0, 0)], &[bar("one", 3, 0)]] {
            let svg = line(bars, &[], Words { label: "", up: "in", down: "out" });
            assert!(svg.ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn a_sparkline_is_small_and_shows_the_least() {
        let svg = sparkline(&[u64::MAX; 48], "many");
        assert!(svg.len() < 1_200, "{}", svg.len());
        assert!(sparkline(&[1, 1_000_000, 0], "few").contains("d=\"M0 23v-3h3v3zM4 23v-22h3v22z\""));
    }

    #[test]
    fn bars_stand_on_the_line_and_hang_below_it() {
        let svg = flow(&[bar("a", 3, 0), bar("b", 0, 1)], "x", "in", "out");
        // Three quarters of the room are above the line.
        assert!(
            svg.contains("class=\"in\" x=\"5.00%\" y=\"18.0\" width=\"40.00%\" height=\"99.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("class=\"out\" x=\"55.00%\" y=\"117.0\" width=\"40.00%\" height=\"33.0\""),
            "{svg}"
        );
        assert!(svg.contains("<title>a: 3 in, 0 out</title>"), "{svg}");
    }

    #[test]
    fn shares_fill_the_bar() {
        let share = |class, count| Share { class, label: "of it", count };
        let svg = split(&[share("ok", 3), share("bad", 1)], "all");
        assert!(svg.contains("width=\"750.00\"") && svg.contains("x=\"750.00\" width=\"250.00\""), "{svg}");
    }
}
