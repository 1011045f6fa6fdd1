//! The filter as a person types it: `queue:billing type:invoice.* -status:resolved "connection refused"`.
//!
//! A token is a word, a quoted phrase, or a key with values. Inside quotes a backslash stands before a quote or another
//! backslash; outside of them it is a character like any other, because class names are full of them.

use std::fmt;

use super::Filter;
use super::error::FilterError;
use super::key::{Form, Key, Kind, Side, shown};
use super::value::within_bytes;

impl Filter {
    /// Reads the text form. An empty text is the empty filter.
    pub fn from_text(text: &str) -> Result<Filter, FilterError> {
        within_bytes(text.len())?;
        let mut filter = Filter::default();
        let mut scanner = Scanner { rest: text.trim_start() };
        while !scanner.rest.is_empty() {
            token(&mut filter, &mut scanner)?;
            scanner.rest = scanner.rest.trim_start();
        }
        filter.check(Form::Text)
    }
}

impl Filter {
    /// The terms of the canonical text in their order. Each is a filter's text by itself, and all of them together say
    /// the same as the filter.
    pub fn terms(&self) -> Vec<String> {
        let mut terms = Vec::new();
        for key in Key::ALL {
            for (sign, side) in [("", Side::Include), ("-", Side::Exclude)] {
                let values = self.values(key, side);
                if values.is_empty() {
                    continue;
                }
                let name = key.name(Form::Text);
                match key.kind() {
                    // Words hold nothing but letters and digits, so they need neither key nor quotes.
                    Kind::Words if key == Key::Text => terms.extend(values),
                    Kind::Words => terms.push(format!("{sign}{name}:{}", quote(values.join(" ")))),
                    Kind::Parts | Kind::Paths => {
                        terms.extend(values.into_iter().map(|one| format!("{sign}{name}:{}", quote(one))));
                    }
                    Kind::List | Kind::Single => {
                        let values: Vec<String> = values.into_iter().map(quote).collect();
                        terms.push(format!("{sign}{name}:{}", values.join(",")));
                    }
                }
            }
        }
        terms
    }
}

/// The canonical text, which `from_text` reads back to the same filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.terms().join(" "))
    }
}

/// Reads one token, of which there is at least one character.
fn token(filter: &mut Filter, scanner: &mut Scanner<'_>) -> Result<(), FilterError> {
    if scanner.rest.starts_with('"') {
        let start = scanner.rest;
        let phrase = scanner.quoted()?;
        if !scanner.rest.is_empty() && !scanner.rest.starts_with(char::is_whitespace) {
            let end = start.len() - scanner.rest.len() + scanner.token().len();
            return Err(FilterError::StrayQuote { value: shown(&start[..end]) });
        }
        return filter.search(&phrase);
    }
    let whole = scanner.token();
    let (side, head) = match whole.strip_prefix('-') {
        Some(head) if !head.is_empty() => (Side::Exclude, head),
        Some(_) | None => (Side::Include, whole),
    };
    match head.find([':', '"']) {
        Some(at) if head[at..].starts_with(':') => {
            let name = &head[..at];
            let key = Key::find(name, Form::Text).ok_or_else(|| Key::unknown(name, whole, Form::Text))?;
            scanner.rest = &scanner.rest[whole.len() - head.len() + at + 1..];
            let values = scanner.values(key, Form::Text, char::is_whitespace)?;
            filter.add(key, Form::Text, side, &values)
        }
        Some(1..) => Err(FilterError::StrayQuote { value: shown(whole) }),
        Some(0) | None if side == Side::Exclude => {
            Err(FilterError::ExcludedWord { word: shown(&whole.replace('"', "")) })
        }
        Some(0) | None => {
            scanner.rest = &scanner.rest[whole.len()..];
            filter.search(head)
        }
    }
}

/// Quotes a value unless it can stand as it is.
pub(super) fn quote(value: String) -> String {
    let special = |c: char| c.is_whitespace() || c == ',' || c == '"';
    if !value.is_empty() && !value.contains(special) {
        return value;
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What is left to read.
pub(super) struct Scanner<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// The text up to the next space, which is not taken.
    fn token(&self) -> &'a str {
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        &self.rest[..end]
    }

    /// Takes values between commas, up to a character that `ends` them. Commas do not part what may hold some.
    pub(super) fn values(
        &mut self,
        key: Key,
        form: Form,
        ends: fn(char) -> bool,
    ) -> Result<Vec<String>, FilterError> {
        let mut values = Vec::new();
        loop {
            let start = self.rest;
            values.push(self.value(key, form, ends)?);
            match self.rest.strip_prefix(',') {
                Some(rest) if key.kind().is_parted() => self.rest = rest,
                Some(_) | None if self.rest.is_empty() || self.rest.starts_with(ends) => return Ok(values),
                Some(_) | None => {
                    let end = start.len() - self.rest.len() + self.token().len();
                    return Err(FilterError::StrayQuote { value: shown(&start[..end]) });
                }
            }
        }
    }

    fn value(&mut self, key: Key, form: Form, ends: fn(char) -> bool) -> Result<String, FilterError> {
        // Where spaces end a value there are none to trim; elsewhere they are as little meant as after a comma.
        let spaced = !ends(' ');
        if spaced {
            self.rest = self.rest.trim_start();
        }
        if self.rest.starts_with('"') {
            let value = self.quoted()?;
            if spaced {
                self.rest = self.rest.trim_start();
            }
            return Ok(value);
        }
        let parts = |c| c == ',' && key.kind().is_parted();
        let end = self.rest.find(|c| parts(c) || ends(c)).unwrap_or(self.rest.len());
        let (value, rest) = self.rest.split_at(end);
        let value = value.trim();
        if value.is_empty() {
            return Err(FilterError::NoValue { key: key.name(form), form });
        }
        // A path that goes on to the end may hold quotes; one that a space ends may have been cut at one inside of them.
        let kept_whole = key.kind() == Kind::Paths && spaced;
        if value.contains('"') && !kept_whole {
            return Err(FilterError::StrayQuote { value: shown(value) });
        }
        self.rest = rest;
        Ok(value.to_owned())
    }

    /// Takes a quoted text; the next character is its opening quote.
    fn quoted(&mut self) -> Result<String, FilterError> {
        let mut value = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(value);
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                    Some((_, other)) => {
                        return Err(FilterError::BadEscape { escaped: shown(&other.to_string()) });
                    }
                    None => break,
                },
                other => value.push(other),
            }
        }
        Err(FilterError::UnclosedQuote { after: shown(self.rest) })
    }
}
