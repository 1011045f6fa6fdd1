//! One layer of settings as it was written: known keys only, of the right shape, each with its place.
//!
//! Meaning is checked later, once all layers lie on top of each other.

use lazaret_core::alert::OWN_SOURCE;
use lazaret_core::limits::{
    CONFIG_ENTRIES_MAX, CONFIG_TEXT_BYTES_MAX, NAME_BYTES_MAX, SOURCE_NAME_CHARS_MAX,
};
use std::collections::BTreeMap;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problems, quoted};
use super::schema::{self, Key, Names, ROOT, Shape, join};

/// By path: `limits.body_bytes_max`. In an entry of a list by the key alone.
pub(super) type Settings = BTreeMap<String, Setting>;

#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) given: Given,
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Given {
    /// A text, a number or a boolean, by its text.
    Scalar(String),
    Texts(Vec<(String, Place)>),
    Entries(Vec<Entry>),
    /// A table by the name it has, which may be empty.
    Named(String),
    /// A table whose keys are not ours to know.
    Table(Value),
    /// Of the wrong shape and reported as such; it is not missing.
    Unusable,
}

/// One table of a list.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) place: Place,
    pub(super) settings: Settings,
}

/// Reads a file's text. `None` when it is not TOML: then nothing in it can be relied on.
pub(super) fn read_document(text: &str, problems: &mut Problems) -> Option<Settings> {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let place = error.span().map_or(Place::File, |span| Place::Byte(span.start));
        problems.add(place, "", format!("not TOML: {}", error.message()));
    }
    if !errors.is_empty() {
        return None;
    }
    let mut reader = Reader { variable: None, problems, settings: Settings::new() };
    reader.shaped("", ROOT, &Place::File, &DeValue::Table(document.into_inner()));
    Some(reader.settings)
}

/// Reads the TOML value of an environment variable into what stands under `path`.
pub(super) fn read_value(
    variable: &str,
    path: &str,
    shape: &Shape,
    text: &str,
    problems: &mut Problems,
) -> Settings {
    let place = Place::Variable(variable.to_owned());
    match DeValue::parse(text) {
        Ok(value) => {
            let mut reader = Reader { variable: Some(variable), problems, settings: Settings::new() };
            reader.shaped(path, shape, &place, value.get_ref());
            reader.settings
        }
        Err(error) => {
            let message = format!("expected {} in TOML: {}", shape.expected(), error.message());
            problems.add(place, path, message);
            Settings::new()
        }
    }
}

/// Says why a source cannot have this name.
pub(super) fn check_source_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    if name.is_empty() || name.len() > SOURCE_NAME_CHARS_MAX || !name.bytes().all(is_plain) {
        return Err(format!(
            "{} cannot name a source; use 1 to {SOURCE_NAME_CHARS_MAX} of a-z, 0-9, _ and -",
            quoted(name)
        ));
    }
    if name == "jobs" {
        return Err("\"jobs\" cannot name a source; it is reserved for the job queue".to_owned());
    }
    if name == OWN_SOURCE {
        return Err(format!(
            "\"{OWN_SOURCE}\" cannot name a source; it is reserved for Lazaret's own notifications"
        ));
    }
    Ok(())
}

/// Says why a subscriber cannot have this name: none of its letters could.
pub(super) fn check_subscriber(name: &str) -> Result<(), String> {
    check_name(name, "subscriber")
}

/// Says why a queue cannot have this name: none of its letters could.
pub(super) fn check_queue(name: &str) -> Result<(), String> {
    check_name(name, "queue")
}

/// Says why a receiver cannot have this name.
pub(super) fn check_receiver(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    match !name.is_empty() && name.len() <= SOURCE_NAME_CHARS_MAX && name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "{} cannot name a receiver; use 1 to {SOURCE_NAME_CHARS_MAX} of a-z, 0-9, _ and -",
            quoted(name)
        )),
    }
}

/// Says why this is not a class of errors.
pub(super) fn check_class(name: &str) -> Result<(), String> {
    super::check::error_class(name).map(|_| ())
}

fn check_name(name: &str, what: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "{} cannot name a {what}; use 1 to {NAME_BYTES_MAX} bytes without control characters",
            quoted(name)
        ));
    }
    Ok(())
}

/// A name as a part of a path: quoted where a dot or another sign in it would look like something else.
pub(super) fn part(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.bytes().all(is_plain) { name.to_owned() } else { format!("{name:?}") }
}

/// Says why a text cannot be a value, whatever its key.
pub(super) fn check_text(text: &str) -> Result<(), String> {
    if text.len() > CONFIG_TEXT_BYTES_MAX {
        return Err(format!("longer than {CONFIG_TEXT_BYTES_MAX} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err("holds a control character".to_owned());
    }
    Ok(())
}

struct Reader<'a> {
    /// The environment variable that is read; `None` for the file.
    variable: Option<&'a str>,
    problems: &'a mut Problems,
    settings: Settings,
}

impl Reader<'_> {
    fn place<T>(&self, spanned: &Spanned<T>) -> Place {
        match self.variable {
            Some(name) => Place::Variable(name.to_owned()),
            None => Place::Byte(spanned.span().start),
        }
    }

    fn shaped(&mut self, path: &str, shape: &Shape, place: &Place, value: &DeValue<'_>) {
        match (shape, value) {
            (
                Shape::Text
                | Shape::Size
                | Shape::CountOrNone
                | Shape::Length
                | Shape::Status
                | Shape::Filter,
                DeValue::String(text),
            ) => match check_text(text) {
                Ok(()) => self.set(path, place, Given::Scalar(text.clone().into_owned())),
                Err(message) => self.refuse(path, place, message),
            },
            (Shape::Number, DeValue::Float(number)) => {
                self.set(path, place, Given::Scalar(number.as_str().to_owned()));
            }
            (
                Shape::Count | Shape::Number | Shape::CountOrNone | Shape::Size | Shape::Status,
                DeValue::Integer(number),
            ) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => self.set(path, place, Given::Scalar(number.to_string())),
                Err(_) => self.refuse(path, place, "the number is too large".to_owned()),
            },
            (Shape::Flag, DeValue::Boolean(flag)) => self.set(path, place, Given::Scalar(flag.to_string())),
            (Shape::Filter, DeValue::Table(_)) => match json(value, DEPTH_MAX) {
                Ok(table) => self.set(path, place, Given::Table(table)),
                Err(message) => self.refuse(path, place, message),
            },
            (Shape::Texts, DeValue::Array(items)) => self.texts(path, place, items),
            (Shape::Table(keys), DeValue::Table(table)) => {
                // An empty one was written all the same, and something may be missing in it.
                if !path.is_empty() && !self.settings.contains_key(path) {
                    self.set(path, place, Given::Named(path.to_owned()));
                }
                self.table(path, keys, table);
            }
            (Shape::Named(shape, names), DeValue::Table(tables)) => self.named(path, shape, *names, tables),
            (Shape::Entries(keys), DeValue::Array(items)) => self.entries(path, keys, place, items),
            // A new shape ends here until it is read above, and the example no longer loads.
            (_, found) => self.refuse(path, place, mismatch(shape.expected(), found)),
        }
    }

    fn set(&mut self, path: &str, place: &Place, given: Given) {
        self.settings.insert(path.to_owned(), Setting { given, place: place.clone() });
    }

    fn refuse(&mut self, path: &str, place: &Place, message: String) {
        self.problems.add(place.clone(), path, message);
        self.set(path, place, Given::Unusable);
    }

    fn texts(&mut self, path: &str, place: &Place, items: &[Spanned<DeValue<'_>>]) {
        if items.len() > CONFIG_ENTRIES_MAX {
            return self.refuse(path, place, format!("more than {CONFIG_ENTRIES_MAX} entries"));
        }
        let mut texts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let at = self.place(item);
            let path = format!("{path}[{index}]");
            match item.get_ref() {
                DeValue::String(text) => match check_text(text) {
                    Ok(()) => texts.push((text.clone().into_owned(), at)),
                    Err(message) => self.problems.add(at, &path, message),
                },
                found => self.problems.add(at, &path, mismatch(Shape::Text.expected(), found)),
            }
        }
        self.set(path, place, Given::Texts(texts));
    }

    fn table(&mut self, path: &str, keys: &[Key], table: &DeTable<'_>) {
        for (name, value) in table.iter() {
            let name_text: &str = name.get_ref();
            match keys.iter().find(|key| key.name == name_text) {
                Some(key) => {
                    let place = self.place(value);
                    self.shaped(&join(path, key.name), &key.shape, &place, value.get_ref());
                }
                None => {
                    let place = self.place(name);
                    self.unknown(place, path, name_text, keys);
                }
            }
        }
    }

    fn unknown(&mut self, place: Place, outer: &str, name: &str, keys: &[Key]) {
        let mut message = format!("unknown key {}", quoted(name));
        match schema::suggest_key(name, keys) {
            Some(known) => message.push_str(&format!("; did you mean \"{known}\"?")),
            None => {
                let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
                message.push_str(&format!("; known are {}", known.join(", ")));
            }
        }
        self.problems.add_with_hint(place, outer, message, schema::KEYS_HINT);
    }

    fn named(&mut self, path: &str, shape: &Shape, names: Names, tables: &DeTable<'_>) {
        if tables.len() > CONFIG_ENTRIES_MAX {
            let place = tables.values().next().map_or(Place::File, |first| self.place(first));
            return self.problems.add(place, path, format!("more than {CONFIG_ENTRIES_MAX} tables"));
        }
        for (name, value) in tables.iter() {
            let checked = match names {
                Names::Source => check_source_name(name.get_ref()),
                Names::Subscriber => check_subscriber(name.get_ref()),
                Names::Queue => check_queue(name.get_ref()),
                Names::Class => check_class(name.get_ref()),
                Names::Receiver => check_receiver(name.get_ref()),
            };
            if let Err(message) = checked {
                let place = self.place(name);
                self.problems.add(place, path, message);
                continue;
            }
            let path = join(path, &part(name.get_ref()));
            let place = self.place(value);
            if value.get_ref().is_table() {
                self.set(&path, &place, Given::Named(name.get_ref().to_string()));
                self.shaped(&path, shape, &place, value.get_ref());
            } else {
                self.problems.add(place, &path, mismatch(shape.expected(), value.get_ref()));
            }
        }
    }

    fn entries(&mut self, path: &str, keys: &[Key], place: &Place, items: &[Spanned<DeValue<'_>>]) {
        if items.len() > CONFIG_ENTRIES_MAX {
            return self.refuse(path, place, format!("more than {CONFIG_ENTRIES_MAX} entries"));
        }
        let mut entries = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let place = self.place(item);
            let DeValue::Table(table) = item.get_ref() else {
                self.problems.add(place, &path, mismatch("a table", item.get_ref()));
                continue;
            };
            // The entry is read as a layer of its own, so that its keys do not meet those of the next one.
            let outside = std::mem::take(&mut self.settings);
            self.table(&path, keys, table);
            let inside = std::mem::replace(&mut self.settings, outside);
            let keyed = inside.into_iter().map(|(full, setting)| {
                let key = full.rsplit('.').next().unwrap_or_default().to_owned();
                (key, setting)
            });
            entries.push(Entry { path, place, settings: keyed.collect() });
        }
        self.set(path, place, Given::Entries(entries));
    }
}

/// How deep a table may be whose keys are not ours: no filter is deeper.
const DEPTH_MAX: usize = 4;

/// The same in JSON, for what is read as JSON elsewhere.
fn json(value: &DeValue<'_>, depth: usize) -> Result<Value, String> {
    if depth == 0 {
        return Err("too deep".to_owned());
    }
    match value {
        DeValue::String(text) => check_text(text).map(|()| Value::from(text.as_ref())),
        DeValue::Boolean(flag) => Ok(Value::from(*flag)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|_| "the number is too large".to_owned()),
        DeValue::Array(items) if items.len() > CONFIG_ENTRIES_MAX => {
            Err(format!("more than {CONFIG_ENTRIES_MAX} entries"))
        }
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref(), depth - 1)).collect(),
        DeValue::Table(table) => {
            let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                check_text(name)?;
                Ok((name.to_string(), json(value.get_ref(), depth - 1)?))
            };
            let entries: Result<serde_json::Map<String, Value>, String> = table.iter().map(entry).collect();
            entries.map(Value::Object)
        }
        DeValue::Float(_) | DeValue::Datetime(_) => Err(mismatch("texts, integers, true or false", value)),
    }
}

fn mismatch(expected: &str, found: &DeValue<'_>) -> String {
    let found = match found {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    format!("expected {expected}, found {found}")
}
