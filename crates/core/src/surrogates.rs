//! Halves of surrogate pairs in JSON text: allowed by its grammar, and refused by every reader that makes texts of it.

/// Replaces escapes of single surrogates; everything else stays as it is.
pub fn mend(raw: &str) -> String {
    let mut mended = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        mended.push_str(&rest[..at]);
        rest = &rest[at..];
        let (taken, put) = match (surrogate(rest), rest.get(6..).and_then(surrogate)) {
            (Some(Half::High), Some(Half::Low)) => (12, &rest[..12]),
            (Some(Half::High | Half::Low), _) => (6, "\\ufffd"),
            // An escape of two characters; the second must not be taken for the start of another.
            (None, _) => {
                let taken = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
                (taken, &rest[..taken])
            }
        };
        mended.push_str(put);
        rest = &rest[taken..];
    }
    mended.push_str(rest);
    mended
}

enum Half {
    High,
    Low,
}

fn surrogate(text: &str) -> Option<Half> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..0xdc00 => Some(Half::High),
        0xdc00..0xe000 => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_are_replaced() {
        for (raw, expected) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00\ud83d!""#, r#""\ufffd\ufffd!""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""plain""#, r#""plain""#),
        ] {
            assert_eq!(mend(raw), expected);
        }
    }
}
