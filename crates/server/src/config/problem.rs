//! What is wrong with a configuration and where it was written. Holds no value of `store`.

use std::fmt;
use std::path::Path;

use super::Config;

/// Problems shown at once. A file that is no configuration at all has thousands, and nobody reads them.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// Characters of a value that an error repeats: enough to find it again.
const SHOWN_CHARS_MAX: usize = 64;

/// Every problem found, one per line, in the order in which they were written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    pub(super) lines: Vec<String>,
    hint: Option<&'static str>,
}

impl ConfigError {
    /// What to do about the first problem for which that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// Where a setting was written; ordered as a reader goes through it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// The file as a whole.
    File,
    /// A byte of the file. Line and column are counted only for what is shown.
    Byte(usize),
    /// An environment variable, by its name.
    Variable(String),
    Flag(&'static str),
}

#[derive(Debug)]
struct Problem {
    place: Place,
    /// Empty where the place says it all.
    path: String,
    message: String,
    hint: Option<&'static str>,
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<Problem>,
}

impl Problems {
    pub(super) fn add(&mut self, place: Place, path: &str, message: String) {
        self.found.push(Problem { place, path: path.to_owned(), message, hint: None });
    }

    pub(super) fn add_with_hint(&mut self, place: Place, path: &str, message: String, hint: &'static str) {
        self.found.push(Problem { place, path: path.to_owned(), message, hint: Some(hint) });
    }

    /// The configuration, unless there is a problem. It is only missing where one was found.
    pub(super) fn or_config(
        mut self,
        config: Option<Config>,
        file: &Path,
        text: &str,
    ) -> Result<Config, ConfigError> {
        if let Some(config) = config
            && self.found.is_empty()
        {
            return Ok(config);
        }
        self.found.sort_by(|a, b| a.place.cmp(&b.place));
        let hint = self.found.iter().find_map(|problem| problem.hint);
        let shown = self.found.iter().take(PROBLEMS_SHOWN_MAX);
        let mut lines: Vec<String> = shown.map(|problem| problem.line(file, text)).collect();
        if let Some(more) = self.found.len().checked_sub(PROBLEMS_SHOWN_MAX)
            && more > 0
        {
            lines.push(format!("and {more} more"));
        }
        Err(ConfigError { lines, hint })
    }
}

impl Problem {
    fn line(&self, file: &Path, text: &str) -> String {
        let place = place_text(&self.place, file, text);
        // A flag is its key.
        if self.path.is_empty() || matches!(self.place, Place::Flag(_)) {
            format!("{place}: {}", self.message)
        } else {
            format!("{place}: {}: {}", self.path, self.message)
        }
    }
}

fn place_text(place: &Place, file: &Path, text: &str) -> String {
    match place {
        Place::File => file.display().to_string(),
        Place::Byte(at) => {
            let before = &text[..text.floor_char_boundary(*at)];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |start| start.chars().count()) + 1;
            format!("{}:{line}:{column}", file.display())
        }
        Place::Variable(name) => name.escape_debug().to_string(),
        Place::Flag(name) => (*name).to_owned(),
    }
}

/// A value as an error repeats it: quoted, escaped and cut. What looks like a URL with credentials is not repeated,
/// because a store's URL may have been written to the wrong key.
pub(super) fn quoted(text: &str) -> String {
    if text.contains("://") && text.contains('@') {
        return "a URL".to_owned();
    }
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
