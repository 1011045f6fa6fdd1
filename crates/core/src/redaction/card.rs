//! Numbers of payment cards, alone or in a text, with spaces or dashes between their digits.
//!
//! Besides the check digit a number has to begin and be as long as an issuer's: every tenth number of any sixteen digits
//! has the right check digit, and ids and times are such numbers.

use std::ops::Range;

/// What stands before the last four digits of a masked number.
pub(super) const DOTS: &str = "•••• ";

pub(super) const DIGITS_MIN: usize = 13;
const DIGITS_MAX: usize = 19;

/// Whether these digits are the number of a card.
pub(super) fn is_card(digits: &[u8]) -> bool {
    (DIGITS_MIN..=DIGITS_MAX).contains(&digits.len()) && is_issued(digits) && has_check_digit(digits)
}

/// Whether an issuer gives out numbers that begin like this and are as long.
fn is_issued(digits: &[u8]) -> bool {
    let begin = digits.iter().take(4).fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'));
    let count = digits.len();
    match begin {
        4000..=4999 => matches!(count, 13 | 16 | 19),
        5100..=5599 | 2221..=2720 => count == 16,
        3400..=3499 | 3700..=3799 => count == 15,
        3000..=3059 | 3600..=3699 | 3800..=3999 => (14..=19).contains(&count),
        3528..=3589 => (16..=19).contains(&count),
        5000..=5099 | 5600..=5899 => (13..=19).contains(&count),
        6000..=6999 => (16..=19).contains(&count),
        _ => false,
    }
}

/// The check of Luhn.
fn has_check_digit(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let value = u32::from(digit - b'0') * if place % 2 == 1 { 2 } else { 1 };
            if value > 9 { value - 9 } else { value }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// The last four digits of a number, as they are shown.
pub(super) fn masked(digits: &[u8]) -> String {
    let last = &digits[digits.len().saturating_sub(4)..];
    let mut text = String::from(DOTS);
    text.extend(last.iter().map(|digit| char::from(*digit)));
    text
}

/// Finds the numbers in a text, in their order, with what is shown in their place.
pub(super) fn find(text: &str, mut found: impl FnMut(Range<usize>, String)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(u8::is_ascii_digit) {
        let run = Run::read(text, at + step);
        let mut group = 0;
        while group < run.groups.len() {
            match run.card_from(bytes, group) {
                Some((last, digits)) => {
                    found(run.groups[group].start..run.groups[last].end, masked(&digits));
                    group = last + 1;
                }
                None => group += 1,
            }
        }
        at = run.end;
    }
}

/// Groups of digits with one space or dash between them.
struct Run {
    groups: Vec<Range<usize>>,
    end: usize,
}

impl Run {
    fn read(text: &str, start: usize) -> Run {
        let bytes = text.as_bytes();
        let digits_end = |from: usize| {
            bytes[from..]
                .iter()
                .position(|byte| !byte.is_ascii_digit())
                .map_or(bytes.len(), |count| from + count)
        };
        let mut groups = Vec::new();
        let mut from = start;
        let end = loop {
            let to = digits_end(from);
            groups.push(from..to);
            let parted = matches!(bytes.get(to), Some(b' ' | b'-'));
            if !parted || !bytes.get(to + 1).is_some_and(u8::is_ascii_digit) {
                break to;
            }
            from = to + 1;
        };
        let part_of_word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let mut kept = groups.as_slice();
        // What is shown of a number that was masked before is no beginning of another.
        if text[..start].ends_with(DOTS) || begins_inside(bytes, start) {
            kept = kept.get(1..).unwrap_or_default();
        }
        if part_of_word(bytes.get(end)) || goes_on(bytes, end) {
            kept = kept.get(..kept.len().saturating_sub(1)).unwrap_or_default();
        }
        Run { groups: kept.to_vec(), end }
    }

    /// The number that begins with a group, and the last group of it.
    fn card_from(&self, bytes: &[u8], first: usize) -> Option<(usize, Vec<u8>)> {
        if !matches!(bytes[self.groups[first].start], b'2'..=b'6') {
            return None;
        }
        let mut digits = Vec::with_capacity(DIGITS_MAX);
        let mut card = None;
        for (last, group) in self.groups.iter().enumerate().skip(first) {
            if digits.len() + group.len() > DIGITS_MAX {
                break;
            }
            digits.extend_from_slice(&bytes[group.clone()]);
            if is_card(&digits) {
                card = Some((last, digits.clone()));
            }
        }
        card
    }
}

/// Whether digits belong to a word, a fraction or a longer name before them.
fn begins_inside(bytes: &[u8], start: usize) -> bool {
    let before = |count: usize| start.checked_sub(count).map(|at| bytes[at]);
    match before(1) {
        Some(b'_') => true,
        Some(byte) if byte.is_ascii_alphabetic() => true,
        Some(b'.') => before(2).is_some_and(|byte| byte.is_ascii_digit()),
        Some(_) | None => false,
    }
}

/// Whether digits go on as a fraction.
fn goes_on(bytes: &[u8], end: usize) -> bool {
    bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        find(text, |range, card| all.push(format!("{}→{card}", &text[range])));
        all
    }

    #[test]
    fn cards_of_every_issuer_are_found() {
        for number in [
            "4242424242424242",
            "4222222222222",
            "5555555555554444",
            "2223003122003222",
            "378282246310005",
            "6011111111111117",
            "30569309025904",
            "3566002020360505",
            "6200000000000005",
        ] {
            let expected = format!("{number}→•••• {}", &number[number.len() - 4..]);
            assert_eq!(shown(&format!("card {number}, declined")), [expected]);
        }
        assert_eq!(shown("4242 4242 4242 4242"), ["4242 4242 4242 4242→•••• 4242"]);
        assert_eq!(shown("(4242-4242-4242-4242)"), ["4242-4242-4242-4242→•••• 4242"]);
        assert_eq!(shown("3782 822463 10005 12"), ["3782 822463 10005→•••• 0005"]);
        assert_eq!(shown("in 2026 4242424242424242"), ["4242424242424242→•••• 4242"]);
    }

    #[test]
    fn other_numbers_stay() {
        for text in [
            "",
            "4242424242424241",
            "1731628800000",
            "1763175600000000000",
            "0.4242424242424242",
            "4242424242424242.5",
            "id4242424242424242",
            "4242424242424242abc",
            "order_4242424242424242",
            "42424242424242424242424242424242",
            "4242  4242  4242  4242",
            "•••• 4242 4242 4242 4242",
            "019a8b1c-7e00-7000-8000-000000000000",
        ] {
            assert_eq!(shown(text), [""; 0], "{text}");
        }
    }
}
