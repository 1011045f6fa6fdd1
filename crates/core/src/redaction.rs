//! What is not for everyone's eyes is masked where a letter is shown: by the name of a header, by the name of a key, by a
//! JSON path, and by what credentials and card numbers look like.
//!
//! It makes copies for showing and nothing else. What is stored, grouped, redriven and hashed never comes from here.

mod assigned;
mod card;
mod draft;
mod form;
mod header;
mod json;
#[cfg(test)]
mod laws;
mod lexer;
mod names;
mod places;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;

use crate::filter::Filter;
use crate::header::HeaderValue;
use crate::json_path::Query;
use crate::surrogates;
pub use draft::{Draft, Unfilled};
use names::Names;
pub use names::{DEFAULT_HEADERS, DEFAULT_KEYS};

/// What is shown in the place of a value.
pub const MASK: &str = "[redacted]";

/// What an operator wants masked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Whether the built-in names, and credentials by their look, are masked too.
    pub defaults: bool,
    /// Names of headers; `*` stands for any characters.
    pub headers: Vec<String>,
    /// Names of keys at any depth; `*` stands for any characters.
    pub keys: Vec<String>,
    /// Values of bodies.
    pub paths: Vec<Query>,
    pub card_numbers: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { defaults: true, headers: Vec::new(), keys: Vec::new(), paths: Vec::new(), card_numbers: true }
    }
}

/// The rules ready to mask with.
#[derive(Clone, Debug)]
pub struct Redactor(Option<Compiled>);

#[derive(Clone, Debug)]
struct Compiled {
    headers: Names,
    keys: Names,
    paths: Vec<Query>,
    card_numbers: bool,
    /// Whether credentials are known by their look.
    credentials: bool,
}

/// A body as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown<'a> {
    /// Nothing in it is hidden: the bytes themselves.
    Whole(&'a [u8]),
    Masked(String),
    /// It is no text, so that nobody can tell what is in it.
    Withheld,
}

impl Redactor {
    pub fn new(rules: Rules) -> Redactor {
        let names = |defaults: &[&str], own: &[String]| {
            let mut names = Names::default();
            if rules.defaults {
                defaults.iter().for_each(|name| names.add(name));
            }
            own.iter().for_each(|name| names.add(name));
            names
        };
        Redactor(Some(Compiled {
            headers: names(&DEFAULT_HEADERS, &rules.headers),
            keys: names(&DEFAULT_KEYS, &rules.keys),
            paths: rules.paths,
            card_numbers: rules.card_numbers,
            credentials: rules.defaults,
        }))
    }

    /// Masks nothing: for whoever has said why, and where it is switched off.
    pub const fn off() -> Redactor {
        Redactor(None)
    }

    pub fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Whether values under a name are masked.
    pub fn hides(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|rules| rules.keys.has(name))
    }

    /// The value of a header; of one that is not hidden, what its words say.
    pub fn header<'a>(&self, name: &str, value: &'a str) -> Cow<'a, str> {
        match &self.0 {
            None => Cow::Borrowed(value),
            Some(rules) => header::mask_text(rules, name, value),
        }
    }

    /// The value of a header of any type. What is masked is text, whatever it was before; tables and arrays keep their
    /// shape.
    pub fn header_value<'a>(&self, name: &str, value: &'a HeaderValue) -> Cow<'a, HeaderValue> {
        match &self.0 {
            None => Cow::Borrowed(value),
            Some(rules) => header::mask(rules, name, value),
        }
    }

    /// All headers, in their order.
    pub fn headers<'a>(&self, headers: &'a [(String, HeaderValue)]) -> Vec<(&'a str, Cow<'a, HeaderValue>)> {
        headers.iter().map(|(name, value)| (name.as_str(), self.header_value(name, value))).collect()
    }

    /// A JSON text with its hidden values masked; every other byte stays as it is. What is no JSON is taken for words.
    pub fn json_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.0 {
            None => Cow::Borrowed(text),
            Some(rules) => json::mask(rules, text, 0).unwrap_or_else(|| rules.words(text)),
        }
    }

    /// Words: an error message, a backtrace, a note.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.0 {
            None => Cow::Borrowed(text),
            Some(rules) => rules.words(text),
        }
    }

    /// Words of which only the beginning was kept: what may be half of something hidden, at their end, is left out.
    pub fn text_cut<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.0 {
            None => Cow::Borrowed(text),
            Some(rules) => {
                let whole = text::without_torn_end(text);
                Cow::Owned(format!("{}…", rules.words(whole)))
            }
        }
    }

    /// A body, by what it is rather than by what it calls itself; a form cannot be told otherwise.
    pub fn body<'a>(&self, content_type: &str, body: &'a [u8]) -> Shown<'a> {
        let Some(rules) = &self.0 else { return Shown::Whole(body) };
        let Ok(text) = std::str::from_utf8(body) else { return Shown::Withheld };
        let is_form =
            content_type.trim_start().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
        let masked = match json::mask(rules, text, 0) {
            Some(masked) => masked,
            None if is_form => form::mask(rules, text),
            None => rules.lines(text),
        };
        match masked {
            Cow::Borrowed(_) => Shown::Whole(body),
            Cow::Owned(masked) => Shown::Masked(masked),
        }
    }

    /// A JSON text for somebody to change who may not see all of it; nothing if it is no JSON, or nothing of it is shown.
    pub fn draft(&self, text: &str) -> Option<Draft> {
        self.0.as_ref().and_then(|rules| Draft::of(rules, text))
    }

    /// The first condition of a filter that asks for a hidden value: its answer would tell what is masked.
    pub fn asked_by<'f>(&self, filter: &'f Filter) -> Option<&'f str> {
        let rules = self.0.as_ref()?;
        let last_names: Vec<&str> = rules.paths.iter().filter_map(Query::last_name).collect();
        let is_hidden_key = |name: &str| rules.keys.has(name) || last_names.contains(&name);
        let is_hidden_header = |name: &str| rules.headers.has(name) || rules.keys.has(name);
        let body = filter.path.include.iter().chain(&filter.path.exclude);
        let headers = filter.header_path.include.iter().chain(&filter.header_path.exclude);
        body.filter(|condition| condition.may_see(&is_hidden_key))
            .chain(headers.filter(|condition| condition.may_see(&is_hidden_header)))
            .map(|condition| condition.text())
            .next()
    }
}

impl Compiled {
    fn words<'a>(&self, text: &'a str) -> Cow<'a, str> {
        text::mask(self, text)
    }

    /// Words, or lines of JSON: a text whose first line is JSON by itself has one to a line.
    fn lines<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let is_json =
            |line: &str| line.trim_start().starts_with(['{', '[']) && json::mask(self, line, 0).is_some();
        if !text.split_inclusive('\n').next().is_some_and(is_json) {
            return self.words(text);
        }
        let masked: String = text
            .split_inclusive('\n')
            .map(|line| json::mask(self, line, 0).unwrap_or_else(|| self.words(line)))
            .collect();
        if masked == text { Cow::Borrowed(text) } else { Cow::Owned(masked) }
    }
}

/// A text that was cut, without what may be half of something hidden at its end.
pub fn untorn(text: &str) -> &str {
    text::without_torn_end(text)
}

/// How many masks stand in a text. More of them in a change than in what was changed are masks that somebody copied from
/// a page instead of the values.
pub fn masks(bytes: &[u8]) -> usize {
    let count = |mask: &[u8]| bytes.windows(mask.len()).filter(|part| *part == mask).count();
    count(MASK.as_bytes()) + count(card::DOTS.as_bytes())
}

/// What a JSON text in quotes says. Half a surrogate pair, which programs leave that cut texts, becomes U+FFFD.
fn unquoted(raw: &str) -> Cow<'_, str> {
    let inside = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    let read = |raw: &str| serde_json::from_str::<String>(raw).ok();
    let meant = read(raw).or_else(|| read(&surrogates::mend(raw)));
    meant.map_or(Cow::Borrowed(inside), Cow::Owned)
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
