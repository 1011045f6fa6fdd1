//! The values of a filter: texts in, typed values out, and back. All forms add their values here and are checked here.

use std::collections::BTreeSet;
use std::fmt;

use super::error::FilterError;
use super::key::{Form, Key, Kind, Side, nearest, shown};
use super::words::{Words, words};
use super::{Bounds, Choice, Filter, Held, PathCondition, Paths, Patterns, When};
use crate::class::ErrorClass;
use crate::duration::Length;
use crate::id::IncidentId;
use crate::lifecycle::Status;
use crate::limits;
use crate::pattern::Pattern;
use crate::time::{Time, TimeError};

impl Filter {
    /// Adds values to a key. Several values of a list widen it, several words or conditions narrow it, and a second value
    /// of anything else must be the same.
    pub(super) fn add(
        &mut self,
        key: Key,
        form: Form,
        side: Side,
        values: &[String],
    ) -> Result<(), FilterError> {
        let name = key.name(form);
        let one = || only(key, form, side, values);
        match key {
            Key::Queue => self.queue.add(side, values),
            Key::Type => self.letter_type.add(side, values),
            Key::Error => self.error_type.add(side, values),
            Key::Code => self.code.add(side, values),
            Key::Source => self.source.add(side, values),
            Key::Subscriber => self.subscriber.add(side, values),
            Key::Aggregate => self.aggregate.add(side, values),
            Key::Tenant => self.tenant.add(side, values),
            Key::Event => self.event_id.add(side, values),
            Key::Class => self.class.add(side, values, class)?,
            Key::Status => self.status.add(side, values, status)?,
            Key::Incident => self.incident.add(side, values, incident)?,
            Key::Held => once(&mut self.held, held(one()?)?, name)?,
            Key::Since => once(&mut self.since, when(one()?, name)?, name)?,
            Key::Until => once(&mut self.until, when(one()?, name)?, name)?,
            Key::Age => self.age.narrow(age(one()?)?, name)?,
            Key::Retries => self.retries.narrow(retries(one()?, name)?, name)?,
            Key::Text => self.search(one()?)?,
            Key::Body => search(&mut self.body, one()?)?,
            Key::Contains => parts(&mut self.contains, key, form, side, values)?,
            Key::Path => conditions(&mut self.path, key, form, side, values)?,
            Key::HeaderPath => conditions(&mut self.header_path, key, form, side, values)?,
        }
        Ok(())
    }

    /// Adds the words of a text to search for them in what the letter's columns say.
    pub(super) fn search(&mut self, text: &str) -> Result<(), FilterError> {
        search(&mut self.words, text)
    }

    /// The values of a key as `add` takes them.
    pub(super) fn values(&self, key: Key, side: Side) -> Vec<String> {
        match (key, side) {
            (Key::Queue, _) => self.queue.texts(side),
            (Key::Type, _) => self.letter_type.texts(side),
            (Key::Error, _) => self.error_type.texts(side),
            (Key::Code, _) => self.code.texts(side),
            (Key::Source, _) => self.source.texts(side),
            (Key::Subscriber, _) => self.subscriber.texts(side),
            (Key::Aggregate, _) => self.aggregate.texts(side),
            (Key::Tenant, _) => self.tenant.texts(side),
            (Key::Event, _) => self.event_id.texts(side),
            (Key::Class, _) => self.class.side(side).iter().map(|class| class.name().to_owned()).collect(),
            (Key::Status, _) => self.status.side(side).iter().map(Status::to_string).collect(),
            (Key::Incident, _) => self.incident.side(side).iter().map(IncidentId::to_string).collect(),
            (Key::Held, Side::Include) => self.held.iter().map(|held| held.name().to_owned()).collect(),
            (Key::Since, Side::Include) => self.since.iter().map(When::to_string).collect(),
            (Key::Until, Side::Include) => self.until.iter().map(When::to_string).collect(),
            (Key::Age, Side::Include) => age_text(&self.age).into_iter().collect(),
            (Key::Retries, Side::Include) => retries_text(&self.retries).into_iter().collect(),
            (Key::Text, Side::Include) => self.words.iter().map(str::to_owned).collect(),
            (Key::Body, Side::Include) => self.body.iter().map(str::to_owned).collect(),
            (Key::Contains, Side::Include) => self.contains.iter().cloned().collect(),
            (Key::Path, _) => self.path.texts(side),
            (Key::HeaderPath, _) => self.header_path.texts(side),
            (Key::Held | Key::Since | Key::Until | Key::Age, Side::Exclude) => vec![],
            (Key::Retries | Key::Text | Key::Body | Key::Contains, Side::Exclude) => vec![],
        }
    }

    /// Refuses what is too large, and what no letter can be like because of a slip.
    pub(super) fn check(self, form: Form) -> Result<Filter, FilterError> {
        for key in Key::ALL {
            let count = self.values(key, Side::Include).len() + self.values(key, Side::Exclude).len();
            let key_name = key.name(form);
            match key.kind() {
                Kind::Paths if count > limits::FILTER_PATHS_MAX => {
                    return Err(FilterError::TooManyPaths { key: key_name });
                }
                Kind::Parts if count > limits::FILTER_PARTS_MAX => {
                    return Err(FilterError::TooManyParts { key: key_name });
                }
                Kind::List | Kind::Single | Kind::Words if count > limits::FILTER_VALUES_MAX => {
                    return Err(FilterError::TooManyValues { key: key_name });
                }
                Kind::List | Kind::Single | Kind::Words | Kind::Parts | Kind::Paths => {}
            }
        }
        // A canonical text that is too long could not be read back.
        within_bytes(self.to_string().len())?;
        ordered(&self.age, Key::Age, form, |min, max| min < max)?;
        ordered(&self.retries, Key::Retries, form, |min, max| min <= max)?;
        let none_between = match (self.since, self.until) {
            (Some(When::At(since)), Some(When::At(until))) => since >= until,
            (Some(When::Ago(since)), Some(When::Ago(until))) => since <= until,
            // The clock decides, or one end is open.
            (Some(_) | None, Some(_) | None) => false,
        };
        if none_between { Err(FilterError::NoTimeBetween) } else { Ok(self) }
    }
}

/// Refuses a text that no person wrote, before any work is spent on it.
pub(super) fn within_bytes(bytes: usize) -> Result<(), FilterError> {
    if bytes > limits::FILTER_BYTES_MAX { Err(FilterError::TooLong { bytes }) } else { Ok(()) }
}

impl Patterns {
    fn add(&mut self, side: Side, values: &[String]) {
        let patterns = match side {
            Side::Include => &mut self.include,
            Side::Exclude => &mut self.exclude,
        };
        patterns.extend(values.iter().map(Pattern::new));
    }

    fn texts(&self, side: Side) -> Vec<String> {
        let patterns = match side {
            Side::Include => &self.include,
            Side::Exclude => &self.exclude,
        };
        patterns.iter().map(|pattern| pattern.text().to_owned()).collect()
    }
}

impl<T: Ord> Choice<T> {
    fn add(
        &mut self,
        side: Side,
        values: &[String],
        parse: fn(&str) -> Result<T, FilterError>,
    ) -> Result<(), FilterError> {
        let chosen = match side {
            Side::Include => &mut self.include,
            Side::Exclude => &mut self.exclude,
        };
        for value in values {
            chosen.insert(parse(value)?);
        }
        Ok(())
    }

    fn side(&self, side: Side) -> &BTreeSet<T> {
        match side {
            Side::Include => &self.include,
            Side::Exclude => &self.exclude,
        }
    }
}

impl<T: PartialEq> Bounds<T> {
    /// Sets the ends that are given; an end that is set already must be the same.
    pub(super) fn narrow(&mut self, by: Bounds<T>, name: &'static str) -> Result<(), FilterError> {
        if let Some(min) = by.min {
            once(&mut self.min, min, name)?;
        }
        if let Some(max) = by.max {
            once(&mut self.max, max, name)?;
        }
        Ok(())
    }
}

impl Held {
    fn name(self) -> &'static str {
        match self {
            Held::Yes => "yes",
            Held::No => "no",
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::At(time) => time.fmt(f),
            When::Ago(length) => length.fmt(f),
        }
    }
}

/// Sets what is not set; what is set already must be the same.
pub(super) fn once<T: PartialEq>(
    slot: &mut Option<T>,
    value: T,
    name: &'static str,
) -> Result<(), FilterError> {
    match slot {
        Some(earlier) if *earlier != value => Err(FilterError::Twice { key: name }),
        Some(_) => Ok(()),
        None => {
            *slot = Some(value);
            Ok(())
        }
    }
}

/// The value of a key that takes one and cannot be excluded.
fn only(key: Key, form: Form, side: Side, values: &[String]) -> Result<&str, FilterError> {
    let name = key.name(form);
    if side == Side::Exclude {
        return Err(FilterError::NotExcludable { key: name, form });
    }
    match values {
        [value] => Ok(value),
        _ => Err(FilterError::OneValue { key: name }),
    }
}

/// Adds the words of a text. One without words is refused, because leaving it out would match everything.
fn search(found: &mut Words, text: &str) -> Result<(), FilterError> {
    if words(text).next().is_none() {
        return Err(FilterError::NoWords { value: shown(text) });
    }
    found.add(text);
    Ok(())
}

/// Adds texts to be found as they stand. An empty one is refused, because it is in everything.
fn parts(
    found: &mut BTreeSet<String>,
    key: Key,
    form: Form,
    side: Side,
    values: &[String],
) -> Result<(), FilterError> {
    let name = key.name(form);
    if side == Side::Exclude {
        return Err(FilterError::NotExcludable { key: name, form });
    }
    for value in values {
        if value.is_empty() {
            return Err(FilterError::NothingToFind { key: name });
        }
        found.insert(value.clone());
    }
    Ok(())
}

fn conditions(
    paths: &mut Paths,
    key: Key,
    form: Form,
    side: Side,
    values: &[String],
) -> Result<(), FilterError> {
    for value in values {
        let condition = PathCondition::parse(value).map_err(|error| FilterError::BadPath {
            key: key.name(form),
            path: shown(value),
            error,
            form,
        })?;
        paths.add(side, condition);
    }
    Ok(())
}

fn class(value: &str) -> Result<ErrorClass, FilterError> {
    ErrorClass::parse(value)
        .ok_or_else(|| unknown_name("class", value, ErrorClass::ALL.into_iter().map(ErrorClass::name)))
}

fn status(value: &str) -> Result<Status, FilterError> {
    Status::parse(value)
        .ok_or_else(|| unknown_name("status", value, Status::ALL.into_iter().map(Status::name)))
}

fn unknown_name(
    key: &'static str,
    value: &str,
    names: impl Iterator<Item = &'static str> + Clone,
) -> FilterError {
    let known: Vec<&str> = names.clone().collect();
    let near = nearest(value, names.map(|name| (name, name)));
    FilterError::UnknownName { key, value: shown(value), near, known: known.join(", ") }
}

fn incident(value: &str) -> Result<IncidentId, FilterError> {
    IncidentId::parse(value).map_err(|_| FilterError::BadIncident { value: shown(value) })
}

fn held(value: &str) -> Result<Held, FilterError> {
    match value {
        // Programs write their own words for it.
        "yes" | "true" => Ok(Held::Yes),
        "no" | "false" => Ok(Held::No),
        _ => Err(FilterError::BadHeld { value: shown(value) }),
    }
}

fn when(value: &str, name: &'static str) -> Result<When, FilterError> {
    match Time::parse(value) {
        Ok(time) => Ok(When::At(time)),
        Err(TimeError::NoZone(_)) => Err(FilterError::NoZone { key: name, value: shown(value) }),
        Err(TimeError::Malformed(_)) => match length(value) {
            Ok(length) => Ok(When::Ago(length)),
            Err(_) => Err(FilterError::BadWhen { key: name, value: shown(value) }),
        },
    }
}

pub(super) fn length(value: &str) -> Result<Length, FilterError> {
    match Length::parse(value) {
        Ok(length) if length.ms() <= limits::FILTER_LENGTH_MS_MAX => Ok(length),
        Ok(_) | Err(_) => Err(FilterError::BadLength { value: shown(value) }),
    }
}

fn age(value: &str) -> Result<Bounds<Length>, FilterError> {
    // Only one end of the range is included, as with `since` and `until`; a sign that promises more is not taken.
    let bad = || FilterError::BadAge { value: shown(value) };
    if value.starts_with(">=") || value.starts_with("<=") {
        Err(bad())
    } else if let Some(min) = value.strip_prefix('>') {
        Ok(Bounds { min: Some(length(min)?), max: None })
    } else if let Some(max) = value.strip_prefix('<') {
        Ok(Bounds { min: None, max: Some(length(max)?) })
    } else if let Some((min, max)) = value.split_once("..") {
        Ok(Bounds { min: Some(length(min)?), max: Some(length(max)?) })
    } else {
        Err(bad())
    }
}

fn age_text(age: &Bounds<Length>) -> Option<String> {
    match (age.min, age.max) {
        (Some(min), Some(max)) => Some(format!("{min}..{max}")),
        (Some(min), None) => Some(format!(">{min}")),
        (None, Some(max)) => Some(format!("<{max}")),
        (None, None) => None,
    }
}

fn retries(value: &str, name: &'static str) -> Result<Bounds<u32>, FilterError> {
    let bad = || FilterError::BadRetries { key: name, value: shown(value) };
    let number = |text: &str| {
        // The standard parser also takes a plus sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| digits).ok_or_else(bad)
    };
    let at_least = |min| Bounds { min: Some(min), max: None };
    let at_most = |max| Bounds { min: None, max: Some(max) };
    if let Some(min) = value.strip_prefix(">=") {
        Ok(at_least(number(min)?))
    } else if let Some(max) = value.strip_prefix("<=") {
        Ok(at_most(number(max)?))
    } else if let Some(below) = value.strip_prefix('>') {
        Ok(at_least(number(below)?.checked_add(1).ok_or_else(bad)?))
    } else if let Some(above) = value.strip_prefix('<') {
        Ok(at_most(number(above)?.checked_sub(1).ok_or_else(bad)?))
    } else if let Some((min, max)) = value.split_once("..") {
        Ok(Bounds { min: Some(number(min)?), max: Some(number(max)?) })
    } else {
        let exactly = number(value)?;
        Ok(Bounds { min: Some(exactly), max: Some(exactly) })
    }
}

fn retries_text(retries: &Bounds<u32>) -> Option<String> {
    match (retries.min, retries.max) {
        (Some(min), Some(max)) if min == max => Some(min.to_string()),
        (Some(min), Some(max)) => Some(format!("{min}..{max}")),
        (Some(min), None) => Some(format!(">={min}")),
        (None, Some(max)) => Some(format!("<={max}")),
        (None, None) => None,
    }
}

fn ordered<T: fmt::Display>(
    bounds: &Bounds<T>,
    key: Key,
    form: Form,
    in_order: fn(&T, &T) -> bool,
) -> Result<(), FilterError> {
    match (&bounds.min, &bounds.max) {
        (Some(min), Some(max)) if !in_order(min, max) => {
            Err(FilterError::NoneBetween { key: key.name(form), min: min.to_string(), max: max.to_string() })
        }
        _ => Ok(()),
    }
}
