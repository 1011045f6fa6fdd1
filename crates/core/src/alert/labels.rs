//! Matchers: `source=billing severity=critical`. Every one has to match; values may hold `*`.

use std::fmt;

use crate::limits;
use crate::pattern::Pattern;

/// Conditions on the labels of an alert. Without any, every alert matches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matchers(Vec<(String, Pattern)>);

/// A text that is not a list of matchers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a matcher; write it like source=billing or type=invoice.*")]
pub struct BadMatcher(String);

impl Matchers {
    /// Reads `label=pattern` pairs, separated by spaces. A pattern with spaces stands in quotes.
    pub fn parse(text: &str) -> Result<Matchers, BadMatcher> {
        let bad = |part: &str| BadMatcher(part.chars().take(64).collect());
        let mut matchers = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (label, after) = rest.split_once('=').ok_or_else(|| bad(rest))?;
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
            if label.is_empty() || !label.chars().all(is_plain) {
                return Err(bad(rest));
            }
            let (value, left) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(|| bad(rest))?,
                None => after.split_once(' ').unwrap_or((after, "")),
            };
            if value.is_empty() || matchers.len() >= limits::ALERT_MATCHERS_MAX {
                return Err(bad(rest));
            }
            matchers.push((label.to_owned(), Pattern::new(value)));
            rest = left.trim_start();
        }
        Ok(Matchers(matchers))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if each matcher finds its label with a value that it matches.
    pub fn matches(&self, labels: &[(&str, &str)]) -> bool {
        let holds = |(name, pattern): &(String, Pattern)| {
            labels.iter().any(|(label, value)| label == name && pattern.matches(value))
        };
        self.0.iter().all(holds)
    }
}

impl fmt::Display for Matchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, pattern)) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match pattern.text().contains(' ') {
                true => write!(f, "{space}{name}=\"{}\"", pattern.text())?,
                false => write!(f, "{space}{name}={}", pattern.text())?,
            }
        }
        Ok(())
    }
}
