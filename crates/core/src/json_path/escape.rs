//! What stands behind a backslash, the same in JSON and in the quotes of a query.

/// What an escape means, and how many bytes it takes behind the backslash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Escape {
    /// None for half of a surrogate pair, which is allowed in JSON and no character.
    pub(super) meant: Option<char>,
    pub(super) bytes: usize,
}

/// Reads an escape; `rest` begins behind the backslash, and `quote` is what the text is quoted with.
pub(super) fn escape(rest: &str, quote: char) -> Option<Escape> {
    let one = |meant| Some(Escape { meant: Some(meant), bytes: 1 });
    match rest.chars().next()? {
        'b' => one('\u{8}'),
        'f' => one('\u{c}'),
        'n' => one('\n'),
        'r' => one('\r'),
        't' => one('\t'),
        '/' => one('/'),
        '\\' => one('\\'),
        'u' => unicode(&rest[1..]),
        other if other == quote => one(quote),
        _ => None,
    }
}

fn unicode(rest: &str) -> Option<Escape> {
    let first = unit(rest)?;
    if let Some(meant) = char::from_u32(first) {
        return Some(Escape { meant: Some(meant), bytes: 5 });
    }
    let second = rest[4..].strip_prefix("\\u").and_then(unit);
    let pair = match (first, second) {
        (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) => {
            char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
        }
        _ => None,
    };
    match pair {
        Some(meant) => Some(Escape { meant: Some(meant), bytes: 11 }),
        None => Some(Escape { meant: None, bytes: 5 }),
    }
}

/// Four hexadecimal digits.
fn unit(text: &str) -> Option<u32> {
    let digits = text.get(..4)?;
    // The standard parser also takes a plus sign.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_mean_what_json_says() {
        let cases = [
            ("n…", Some((Some('\n'), 1))),
            ("\"", Some((Some('"'), 1))),
            ("'", None),
            ("u00e9x", Some((Some('é'), 5))),
            ("uD83D\\uDE00", Some((Some('😀'), 11))),
            ("uD83D", Some((None, 5))),
            ("uD83D\\u0041", Some((None, 5))),
            ("uDE00\\uD83D", Some((None, 5))),
            ("u+123", None),
            ("u12", None),
            ("u12é4", None),
            ("x", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let found = escape(text, '"').map(|escape| (escape.meant, escape.bytes));
            assert_eq!(found, expected, "{text}");
        }
    }
}
