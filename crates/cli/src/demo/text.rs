//! Texts with places to fill: `{order}` is a fact of the letter, `{71}` a line number of the shop's own code.
//!
//! What has no value stays as it is written, because backtraces have braces of their own.

/// Puts values into a text.
pub(super) fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, from_brace) = rest.split_at(open);
        filled.push_str(before);
        let place = from_brace[1..].split_once('}');
        match place.and_then(|(name, after)| Some((value(name)?, after))) {
            Some((value, after)) => {
                filled.push_str(&value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = &from_brace[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_places_are_filled_and_other_braces_stay() {
        let value = |name: &str| (name == "a").then(|| "1".to_owned());
        let cases = [
            ("{a} and {a}", "1 and 1"),
            ("run::{{closure}} {a}", "run::{{closure}} 1"),
            ("{{a}}", "{1}"),
            ("open { and {b} {a", "open { and {b} {a"),
            ("", ""),
        ];
        for (template, expected) in cases {
            assert_eq!(fill(template, value), expected, "{template}");
        }
    }
}
