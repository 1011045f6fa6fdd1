//! Numbers as pictures of block characters. They only ever stand beside the numbers, never in their place.

use lazaret_core::time::Time;

/// Parts of a character that rises from the line, and that grows to the right.
const RISING: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const GROWING: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Steps drawn at most, whatever a server sends: no terminal is wider than a row of these.
const STEPS_MAX: usize = 100_000;

/// Numbers of equal steps, each column so many steps wide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    pub values: Vec<u64>,
    pub steps_each: usize,
}

impl Columns {
    /// Adds up neighbours until there are no more than `columns`. All columns are equally wide, because one that holds
    /// a step more than the others would look like a peak.
    pub fn of(steps: &[u64], columns: usize) -> Columns {
        let steps_each = steps.len().div_ceil(columns.max(1)).max(1);
        // Counted from the end, so that it is the oldest column that may be short, and not the present one.
        let mut values: Vec<u64> = steps
            .rchunks(steps_each)
            .map(|chunk| chunk.iter().copied().fold(0, u64::saturating_add))
            .collect();
        values.reverse();
        Columns { values, steps_each }
    }

    pub fn largest(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or(0)
    }

    /// One line of blocks; what is zero is a dot, so that one letter looks different from none.
    pub fn spark(&self) -> String {
        self.rows(1).concat()
    }

    /// The columns drawn so many rows high, the highest row first.
    pub fn rows(&self, height: u64) -> Vec<String> {
        let largest = self.largest();
        let row = |row: u64| self.values.iter().map(|value| cell(*value, largest, row, height)).collect();
        (0..height).rev().map(row).collect()
    }
}

/// What stands in one row, counted from below, of a column.
fn cell(value: u64, largest: u64, row: u64, height: u64) -> char {
    if value == 0 || largest == 0 {
        return if row == 0 { RISING[0] } else { ' ' };
    }
    let eighths = eighths_of(value, largest, height * 8).saturating_sub(row * 8).min(8);
    if eighths == 0 { ' ' } else { RISING[eighths as usize] }
}

/// The share of `cells`, rounded down, but never to nothing: what is there at all is seen.
fn eighths_of(n: u64, largest: u64, cells: u64) -> u64 {
    let share = u128::from(n) * u128::from(cells) / u128::from(largest.max(1));
    (share as u64).clamp(1, cells)
}

/// A bar as long as its share of the largest, in eighths of a character.
pub fn bar(n: u64, largest: u64, cells: u64) -> String {
    if n == 0 || largest == 0 {
        return String::new();
    }
    let eighths = eighths_of(n, largest, cells * 8) as usize;
    format!("{}{}", "█".repeat(eighths / 8), GROWING[eighths % 8])
}

/// Puts what happened at moments into equal steps between two times; what lies outside is left out.
pub fn steps(moments: impl Iterator<Item = (Time, u64)>, from: Time, until: Time, step_ms: i64) -> Vec<u64> {
    let step_ms = step_ms.max(1);
    let length = until.since(from).max(0) as u64;
    let count = usize::try_from(length.div_ceil(step_ms as u64)).unwrap_or(STEPS_MAX).min(STEPS_MAX);
    let mut steps = vec![0_u64; count];
    for (at, n) in moments {
        let Ok(index) = usize::try_from(at.since(from).div_euclid(step_ms)) else { continue };
        if let Some(step) = steps.get_mut(index) {
            *step = step.saturating_add(n);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_added_up_to_equal_columns() {
        let steps: Vec<u64> = (0..48).collect();
        let columns = Columns::of(&steps, 24);
        assert_eq!((columns.values.len(), columns.steps_each), (24, 2));
        assert_eq!((columns.values[0], columns.values[23]), (1, 93));
        let uneven = Columns::of(&[1; 10], 4);
        assert_eq!((uneven.values, uneven.steps_each), (vec![1, 3, 3, 3], 3));
        assert_eq!(Columns::of(&[5, 6], 24).values, [5, 6]);
        assert!(Columns::of(&[], 24).values.is_empty());
    }

    #[test]
    fn one_letter_looks_different_from_none() {
        let spark = |steps: &[u64]| Columns::of(steps, 24).spark();
        assert_eq!(spark(&[0, 1, 1_000_000]), "·▁█");
        assert_eq!(spark(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), "·▁▂▃▄▅▆▇█");
        assert_eq!(spark(&[0, 0]), "··");
        assert_eq!(spark(&[u64::MAX, u64::MAX]), "██");
    }

    #[test]
    fn a_chart_of_several_rows_stands_on_its_line() {
        let chart = Columns::of(&[0, 1, 4, 8, 3], 10).rows(2).join("\n");
        assert_eq!(chart, "   █ \n·▂███".replace("███", "██▆"));
    }

    #[test]
    fn bars_show_shares_and_nothing_is_invisible() {
        assert_eq!(bar(10, 10, 24).chars().count(), 24);
        assert_eq!(bar(5, 10, 24), "█".repeat(12));
        assert_eq!(bar(1, 1_000_000, 24), "▏");
        assert_eq!(bar(0, 10, 24), "");
        assert_eq!(bar(u64::MAX, u64::MAX, 24).chars().count(), 24);
    }

    #[test]
    fn moments_outside_of_the_chart_are_left_out() {
        let at = Time::from_ms;
        let moments = [(at(-1), 9), (at(0), 1), (at(59_999), 2), (at(60_000), 4), (at(180_000), 9)];
        assert_eq!(steps(moments.into_iter(), at(0), at(180_000), 60_000), [3, 4, 0]);
        assert!(steps(moments.into_iter(), at(10), at(0), 60_000).is_empty());
        assert_eq!(steps([].into_iter(), at(0), at(i64::MAX), 1).len(), STEPS_MAX);
    }
}
