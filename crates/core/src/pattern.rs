//! Patterns: `*` matches any run of characters, dots too; everything else matches itself.

/// A value to compare with, which may hold `*`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pattern(String);

impl Pattern {
    pub fn new(text: impl Into<String>) -> Pattern {
        Pattern(text.into())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// The value itself when there is no `*` in it: then an index can answer.
    pub fn exact(&self) -> Option<&str> {
        if self.0.contains('*') { None } else { Some(&self.0) }
    }

    /// Returns true for stars alone, which match every value there is.
    pub fn matches_all(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte == b'*')
    }

    /// Takes time in the product of the two lengths at worst and never recurses, whatever a stranger sends.
    pub fn matches(&self, value: &str) -> bool {
        let (pattern, value) = (self.0.as_bytes(), value.as_bytes());
        let (mut p, mut v) = (0, 0);
        // Where the last star stood and how much of the value it has swallowed so far.
        let mut star: Option<(usize, usize)> = None;
        while v < value.len() {
            if p < pattern.len() && pattern[p] == b'*' {
                star = Some((p, v));
                p += 1;
            } else if p < pattern.len() && pattern[p] == value[v] {
                p += 1;
                v += 1;
            } else if let Some((at, swallowed)) = star {
                star = Some((at, swallowed + 1));
                p = at + 1;
                v = swallowed + 1;
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_run_dots_too() {
        let cases = [
            ("invoice.*", "invoice.created.v2", true),
            ("invoice.*", "invoice.", true),
            ("invoice.*", "invoice", false),
            ("*", "", true),
            ("*.created", "order.created", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a?c", "abc", false),
            ("", "", true),
            ("", "a", false),
            ("Zahlung.*ü*", "Zahlung.zurück", true),
        ];
        for (pattern, value, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(value), expected, "{pattern} {value}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        assert!(!Pattern::new("*a".repeat(50) + "b").matches(&"a".repeat(2_000)));
    }
}
