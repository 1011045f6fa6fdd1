//! Numbers compared by their digits, so that no two different ones are ever taken for the same.
//!
//! Floating point confuses 12345678901234567890 with its neighbours; ids in letters are that long.

use std::cmp::Ordering;

/// A number's value: `±0.d1d2d3… × 10^magnitude`, whose first and last digits are not zero.
#[derive(Clone, Copy, Debug)]
struct Decimal<'a> {
    sign: Ordering,
    magnitude: i64,
    /// The digits in two pieces, because a point may stand between them.
    front: &'a str,
    back: &'a str,
}

/// Compares two numbers in the notation of JSON. None when an exponent is beyond reason and the texts differ.
pub(super) fn compare(one: &str, other: &str) -> Option<Ordering> {
    if one == other {
        return Some(Ordering::Equal);
    }
    let (one, other) = (Decimal::read(one)?, Decimal::read(other)?);
    if one.sign != other.sign {
        return Some(one.sign.cmp(&other.sign));
    }
    let sizes = one.magnitude.cmp(&other.magnitude).then_with(|| one.digits().cmp(other.digits()));
    Some(if one.sign == Ordering::Less { sizes.reverse() } else { sizes })
}

impl<'a> Decimal<'a> {
    fn read(text: &'a str) -> Option<Decimal<'a>> {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (Ordering::Less, rest),
            None => (Ordering::Greater, text),
        };
        let (digits, power) = rest.split_once(['e', 'E']).unwrap_or((rest, ""));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let (front, back, shift) = if whole.is_empty() {
            let back = fraction.trim_start_matches('0');
            ("", back, -length(&fraction[..fraction.len() - back.len()]))
        } else if fraction.is_empty() {
            (whole.trim_end_matches('0'), "", length(whole))
        } else {
            (whole, fraction, length(whole))
        };
        if front.is_empty() && back.is_empty() {
            return Some(Decimal { sign: Ordering::Equal, magnitude: 0, front, back });
        }
        Some(Decimal { sign, magnitude: shift.checked_add(exponent(power)?)?, front, back })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.front.bytes().chain(self.back.bytes())
    }
}

fn length(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

fn exponent(text: &str) -> Option<i64> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value_and_exactly() {
        use Ordering::{Equal, Greater, Less};
        let cases = [
            ("1", "1.0", Some(Equal)),
            ("1e2", "100", Some(Equal)),
            ("100", "1.00E+2", Some(Equal)),
            ("0.001", "1e-3", Some(Equal)),
            ("-0", "0.0e99999999999999999999", Some(Equal)),
            ("12.50", "12.5", Some(Equal)),
            ("1230e-1", "123", Some(Equal)),
            ("12345678901234567890", "12345678901234567891", Some(Less)),
            ("12345678901234567890", "12345678901234567890.0", Some(Equal)),
            ("0.1", "0.10000000000000000001", Some(Less)),
            ("9", "10", Some(Less)),
            ("-9", "-10", Some(Greater)),
            ("-1", "1", Some(Less)),
            ("-1", "0", Some(Less)),
            ("0", "0.0001", Some(Less)),
            ("12", "1.3e1", Some(Less)),
            ("0.09", "0.1", Some(Less)),
            ("1e400", "1e401", Some(Less)),
            ("1e99999999999999999999", "1", None),
            ("1e99999999999999999999", "1e99999999999999999999", Some(Equal)),
        ];
        for (one, other, expected) in cases {
            assert_eq!(compare(one, other), expected, "{one} {other}");
            assert_eq!(compare(other, one), expected.map(Ordering::reverse), "{other} {one}");
        }
    }
}
