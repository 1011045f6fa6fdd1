//! Times, lengths and counts in the words of people.

use lazaret_core::time::Time;

/// The one place where the commands ask for the time.
pub fn now() -> Time {
    Time::from_ms(jiff::Timestamp::now().as_millisecond())
}

/// How long ago a moment was, to the largest unit.
pub fn relative(at: Time, now: Time) -> String {
    let ms = now.since(at);
    // Clocks of two machines differ; half a minute into the future is no news.
    if (-30_000..1_000).contains(&ms) {
        return "just now".into();
    }
    let length = length_in_one_unit(ms.unsigned_abs());
    if ms < 0 { format!("in {length}") } else { format!("{length} ago") }
}

fn length_in_one_unit(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let years = ms / (365 * 86_400_000);
    if years > 1 {
        return format!("{years}y");
    }
    for (unit, name) in UNITS {
        if ms >= unit {
            return format!("{}{name}", ms / unit);
        }
    }
    "0s".into()
}

/// How long something took.
pub fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} m {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// A moment from the API as a person wants it: how long ago, and exactly. What is not a time is shown as it came.
pub fn both(text: &str, now: Time) -> String {
    match Time::parse(text) {
        Ok(at) => format!("{at} ({})", relative(at, now)),
        Err(_) => text.to_owned(),
    }
}

/// How long ago a moment from the API was.
pub fn ago(text: &str, now: Time) -> String {
    match Time::parse(text) {
        Ok(at) => relative(at, now),
        Err(_) => text.to_owned(),
    }
}

/// A moment from the API to its minute: `2025-11-15T03:00Z`. What is not a time is shown as it came.
pub fn minute(text: &str) -> String {
    match Time::parse(text) {
        Ok(at) => {
            at.to_string().rsplit_once(':').map_or_else(String::new, |(minute, _)| format!("{minute}Z"))
        }
        Err(_) => text.to_owned(),
    }
}

/// A count with separators: `12,431`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of letters: `1 letter`, `12,431 letters`.
pub fn letters(n: u64) -> String {
    if n == 1 { "1 letter".into() } else { format!("{} letters", count(n)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_from_now() {
        let now = Time::from_ms(1_763_175_600_000);
        let cases = [
            (0, "just now"),
            (-20_000, "just now"),
            (999, "just now"),
            (1_000, "1s ago"),
            (59_999, "59s ago"),
            (60_000, "1m ago"),
            (3_599_999, "59m ago"),
            (3_600_000, "1h ago"),
            (86_400_000, "1d ago"),
            (400 * 86_400_000, "400d ago"),
            (800 * 86_400_000, "2y ago"),
            (-120_000, "in 2m"),
        ];
        for (ms, told) in cases {
            assert_eq!(relative(now.plus_ms(-ms), now), told, "{ms}");
        }
    }

    #[test]
    fn what_is_no_time_is_shown_as_it_came() {
        let now = Time::from_ms(0);
        assert_eq!(ago("yesterday", now), "yesterday");
        assert_eq!(minute("yesterday"), "yesterday");
        assert_eq!(minute("2025-11-15T03:07:59.999Z"), "2025-11-15T03:07Z");
        assert_eq!(both("1970-01-01T00:00:00Z", now), "1970-01-01T00:00:00.000Z (just now)");
    }

    #[test]
    fn counts_and_lengths_are_readable() {
        let counts: Vec<String> = [0, 12, 999, 1_000, 12_431, 1_000_000].map(count).into();
        assert_eq!(counts, ["0", "12", "999", "1,000", "12,431", "1,000,000"]);
        let lengths: Vec<String> = [7, 1_250, 61_000, 3_660_000].map(took).into();
        assert_eq!(lengths, ["7 ms", "1.2 s", "1 m 1 s", "1 h 1 m"]);
        assert_eq!([letters(1), letters(2_000)], ["1 letter", "2,000 letters"]);
    }
}
