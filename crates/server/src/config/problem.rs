//! What is wrong with a configuration and where it was written. Holds no value of `store`.

use std::fmt;
use std::path::Path;

use super::Config;

/// Problems shown at once. A file that is no configuration at all has thousands, and nobody reads them.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// Characters of a value that an error repeats: enough to find it again.
const SHOWN_CHARS_MAX: usize = 64;

/// Why a configuration cannot be used: every error found, one per line, in the order in which they were written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    pub problems: Vec<ConfigProblem>,
}

/// One thing that is wrong with a configuration, or looks so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigProblem {
    pub severity: Severity,
    /// The file with line and column, the variable or the flag.
    pub place: String,
    /// Line and column in the file, from 1.
    pub at: Option<(usize, usize)>,
    /// The key it is about, where there is one.
    pub key: Option<String>,
    pub message: String,
    pub hint: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The server does not start with it.
    Error,
    /// The server starts, and it is probably not what was meant.
    Warning,
}

impl Severity {
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

impl ConfigError {
    /// What to do about the first problem for which that is known.
    pub fn hint(&self) -> Option<&str> {
        self.problems.iter().find_map(|problem| problem.hint)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.problems.iter().take(PROBLEMS_SHOWN_MAX);
        let mut lines: Vec<String> = shown.map(ConfigProblem::to_string).collect();
        match self.problems.len().saturating_sub(PROBLEMS_SHOWN_MAX) {
            0 => {}
            more => lines.push(format!("and {more} more")),
        }
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigProblem { place, key, message, .. } = self;
        match key {
            // A flag is its key.
            Some(key) if !place.starts_with("--") => write!(f, "{place}: {key}: {message}"),
            Some(_) | None => write!(f, "{place}: {message}"),
        }
    }
}

/// Where a setting was written; ordered as a reader goes through it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// The file as a whole.
    File,
    /// A byte of the file.
    Byte(usize),
    /// An environment variable, by its name.
    Variable(String),
    Flag(&'static str),
}

#[derive(Debug)]
struct Problem {
    severity: Severity,
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
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    pub(super) fn add(&mut self, place: Place, path: &str, message: String) {
        self.push(Severity::Error, place, path, message, None);
    }

    pub(super) fn add_with_hint(&mut self, place: Place, path: &str, message: String, hint: &'static str) {
        self.push(Severity::Error, place, path, message, Some(hint));
    }

    pub(super) fn warn(&mut self, place: Place, path: &str, message: String, hint: &'static str) {
        self.push(Severity::Warning, place, path, message, Some(hint));
    }

    fn push(
        &mut self,
        severity: Severity,
        place: Place,
        path: &str,
        message: String,
        hint: Option<&'static str>,
    ) {
        self.found.push(Problem { severity, place, path: path.to_owned(), message, hint });
    }

    /// The configuration unless there is an error, and the warnings. It is only missing where an error was found.
    pub(super) fn or_config(mut self, config: Option<Config>, file: &Path, text: &str) -> Checked {
        self.found.sort_by(|a, b| a.place.cmp(&b.place));
        let problems = self.found.into_iter().map(|problem| problem.located(file, text));
        let (errors, warnings): (Vec<_>, Vec<_>) =
            problems.partition(|problem| problem.severity == Severity::Error);
        let config = match config {
            Some(config) if errors.is_empty() => Ok(config),
            Some(_) | None => Err(ConfigError { problems: errors }),
        };
        Checked { config, warnings }
    }
}

/// A configuration that was checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    pub config: Result<Config, ConfigError>,
    pub warnings: Vec<ConfigProblem>,
}

impl Problem {
    fn located(self, file: &Path, text: &str) -> ConfigProblem {
        let at = match &self.place {
            Place::Byte(at) => Some(line_and_column(text, *at)),
            Place::File | Place::Variable(_) | Place::Flag(_) => None,
        };
        let place = match (&self.place, at) {
            (Place::Variable(name), _) => name.escape_debug().to_string(),
            (Place::Flag(name), _) => (*name).to_owned(),
            (Place::File | Place::Byte(_), Some((line, column))) => {
                format!("{}:{line}:{column}", file.display())
            }
            (Place::File | Place::Byte(_), None) => file.display().to_string(),
        };
        let key = Some(self.path).filter(|path| !path.is_empty());
        ConfigProblem { severity: self.severity, place, at, key, message: self.message, hint: self.hint }
    }
}

fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let column = before.rsplit('\n').next().map_or(0, |start| start.chars().count()) + 1;
    (before.matches('\n').count() + 1, column)
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
