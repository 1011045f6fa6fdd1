//! Makes texts from elsewhere harmless: a letter must not be able to move the cursor, retitle the terminal or write
//! backwards. Everything that is printed for people goes through here; `--json` and `--body` stay exact.

/// A text on one line: control characters and line breaks are written as escapes.
pub fn line(text: &str) -> String {
    escaped(text, |c| !is_harmful(c))
}

/// A text of several lines: line breaks and tabs stay, everything else harmful is escaped.
pub fn lines(text: &str) -> String {
    escaped(&text.replace("\r\n", "\n"), |c| c == '\n' || c == '\t' || !is_harmful(c))
}

/// Whether a terminal could take the character for more than a picture.
pub fn is_harmful(c: char) -> bool {
    c.is_control() || is_direction(c) || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Characters that turn the direction of writing, so that a text reads as something else.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, stays: fn(char) -> bool) -> String {
    if text.chars().all(stays) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if stays(c) {
            safe.push(c);
        } else if matches!(c, '\n' | '\r' | '\t') {
            safe.extend(c.escape_default());
        } else {
            safe.extend(c.escape_unicode());
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_obeys_gets_through() {
        let cases = [
            ("plain – größe 時間 🚢", "plain – größe 時間 🚢"),
            ("\u{1b}]0;owned\u{7}", "\\u{1b}]0;owned\\u{7}"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("x\u{202e}gpj.exe", "x\\u{202e}gpj.exe"),
            ("\0\u{7f}", "\\u{0}\\u{7f}"),
        ];
        for (given, shown) in cases {
            assert_eq!(line(given), shown, "{given:?}");
        }
    }

    #[test]
    fn a_backtrace_keeps_its_lines() {
        assert_eq!(lines("at a\r\n\tat b\u{1b}[2J\rc"), "at a\n\tat b\\u{1b}[2J\\rc");
    }
}
