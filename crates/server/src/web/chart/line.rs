//! Two lines over some days: what came in, with the room below it filled, and what went out.

use std::fmt::Write;

use super::super::format::{escaped, grouped};
use super::{Bar, DRAWN, TOP, Tick, Words, opened, ruled, said, ticked};

/// Lower than a chart of bars: it tells the course, not the hour.
const HEIGHT: f64 = 132.0;
const BOTTOM: f64 = HEIGHT - 22.0;

/// The points as lines, each over the middle of its part of the width.
pub(crate) fn line(points: &[Bar], ticks: &[Tick], words: Words<'_>) -> String {
    let most = points.iter().flat_map(|point| [point.up, point.down]).max().unwrap_or(0);
    let step = 100.0 / points.len().max(1) as f64;
    let middle = |at: usize| (at as f64 + 0.5) * step;
    let mut svg = opened("course", HEIGHT, words.label);
    ticked(&mut svg, ticks, middle, HEIGHT, "middle");
    // The lines are stretched to the width, what is written is not: hence a picture within the picture.
    write!(
        svg,
        "<svg x=\"0\" y=\"{TOP}\" width=\"100%\" height=\"{}\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\">",
        BOTTOM - TOP
    )
    .expect(DRAWN);
    let (up, down) = (path(points, most, |point| point.up), path(points, most, |point| point.down));
    if let (false, Some(first), Some(last)) = (up.is_empty(), first_x(points), last_x(points)) {
        write!(svg, "<path class=\"area\" d=\"{up}L{last:.1} 100L{first:.1} 100z\"/>").expect(DRAWN);
        write!(svg, "<path class=\"departed\" d=\"{down}\"/><path class=\"arrived\" d=\"{up}\"/>")
            .expect(DRAWN);
    }
    svg.push_str("</svg>");
    ruled(&mut svg, "zero", BOTTOM);
    for (at, point) in points.iter().enumerate() {
        write!(
            svg,
            "<g><title>{}</title><rect class=\"hit\" x=\"{:.2}%\" y=\"0\" width=\"{step:.2}%\" height=\"{BOTTOM}\"/></g>",
            escaped(&said(point, words)),
            at as f64 * step
        )
        .expect(DRAWN);
    }
    if most > 0 {
        write!(svg, "<text class=\"axis most\" x=\"0\" y=\"{}\">{}/day</text>", TOP - 6.0, grouped(most))
            .expect(DRAWN);
    }
    svg.push_str("</svg>");
    svg
}

fn x(at: usize, points: usize) -> f64 {
    (at as f64 + 0.5) * 1_000.0 / points as f64
}

fn first_x(points: &[Bar]) -> Option<f64> {
    (!points.is_empty()).then(|| x(0, points.len()))
}

fn last_x(points: &[Bar]) -> Option<f64> {
    Some(x(points.len().checked_sub(1)?, points.len()))
}

fn path(points: &[Bar], most: u64, value: fn(&Bar) -> u64) -> String {
    let mut path = String::new();
    for (at, point) in points.iter().enumerate() {
        let y = 98.0 - value(point) as f64 / most.max(1) as f64 * 96.0;
        let letter = if at == 0 { 'M' } else { 'L' };
        write!(path, "{letter}{:.1} {y:.1}", x(at, points.len())).expect(DRAWN);
    }
    path
}
