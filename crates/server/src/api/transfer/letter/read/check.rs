//! The checks of single fields, each with the reason why a value cannot be taken.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazaret_core::fingerprint::{Grouping, Subject};
use lazaret_core::id::{BadId, IncidentId};
use lazaret_core::letter::cut;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use serde_json::value::RawValue;

use super::{LetterForm, LifeForm, Text};
use crate::raw_json::shown;

/// Works out a group by the rules that hold here, with the id that its incident gets if it has to be opened.
pub(crate) type GroupBy<'a> = dyn Fn(Subject<'_>) -> Result<(Grouping, IncidentId), StoreError> + 'a;

/// Where a letter comes in.
pub(crate) struct Door<'a> {
    pub now: Time,
    /// Bytes of one original, and of any text beside it.
    pub body_bytes_max: usize,
    pub group: &'a GroupBy<'a>,
}

impl fmt::Debug for Door<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door at {} for {} bytes", self.now, self.body_bytes_max)
    }
}

/// Why a line is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// The line is to blame: it is refused, the others go on.
    #[error("{0}")]
    Wrong(String),
    /// Nobody's fault: the whole import stops.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NotTaken {
    pub fn wrong(reason: &str) -> NotTaken {
        NotTaken::Wrong(reason.to_owned())
    }

    pub fn json(what: &str, error: &serde_json::Error) -> NotTaken {
        // The error quotes what a stranger wrote, at whatever length.
        let mut message: String = error.to_string().chars().filter(|c| !c.is_control()).collect();
        cut(&mut message, 300);
        NotTaken::Wrong(format!("{what}: {message}"))
    }

    /// The same, with the place where it was found.
    pub fn inside(self, place: &str) -> NotTaken {
        match self {
            NotTaken::Wrong(reason) => NotTaken::Wrong(format!("{place}: {reason}")),
            NotTaken::Store(error) => NotTaken::Store(error),
        }
    }
}

pub(crate) fn within(field: &str, given: usize, max: usize) -> Result<(), NotTaken> {
    if given > max {
        return Err(NotTaken::Wrong(format!("{field}: {given} is more than the {max} that are taken")));
    }
    Ok(())
}

pub(crate) fn text(field: &str, given: &str, bytes_max: usize) -> Result<String, NotTaken> {
    within(&format!("the bytes of {field}"), given.len(), bytes_max)?;
    Ok(given.to_owned())
}

/// A name by which letters are found: as short as indexes want it, and without NUL.
pub(crate) fn name(field: &str, given: &str) -> Result<String, NotTaken> {
    if given.contains('\0') {
        return Err(NotTaken::Wrong(format!("{field} holds a NUL")));
    }
    text(field, given, limits::NAME_BYTES_MAX)
}

/// The names of a letter.
#[derive(Debug)]
pub(crate) struct Names {
    pub source: String,
    pub event_id: String,
    pub letter_type: String,
    pub queue: String,
    pub subscriber: Option<String>,
    pub tenant: Option<String>,
    pub aggregate: Option<String>,
    pub schema_version: Option<String>,
}

pub(crate) fn names(form: &LetterForm<'_>) -> Result<Names, NotTaken> {
    let required = |field: &str, given: &str| match given {
        "" => Err(NotTaken::Wrong(format!("{field} is empty"))),
        given => name(field, given),
    };
    let optional =
        |field: &str, given: &Option<Text<'_>>| given.as_ref().map(|given| name(field, given)).transpose();
    Ok(Names {
        source: required("source", &form.source)?,
        event_id: required("eventId", &form.event_id)?,
        letter_type: name("type", &form.letter_type)?,
        queue: name("queue", &form.queue)?,
        subscriber: optional("subscriberId", &form.subscriber_id)?,
        tenant: optional("tenant", &form.tenant)?,
        aggregate: optional("aggregate", &form.aggregate)?,
        schema_version: optional("schemaVersion", &form.schema_version)?,
    })
}

/// One of our own words.
pub(crate) fn one_of<T>(field: &str, given: &str, parse: fn(&str) -> Option<T>) -> Result<T, NotTaken> {
    parse(given).ok_or_else(|| NotTaken::Wrong(format!("{field} `{}` is unknown", shown(given))))
}

pub(crate) fn id<T>(field: &str, given: &str, parse: fn(&str) -> Result<T, BadId>) -> Result<T, NotTaken> {
    parse(given).map_err(|_| NotTaken::Wrong(format!("{field} `{}` is not an id", shown(given))))
}

pub(crate) fn moment(field: &str, given: &str) -> Result<Time, NotTaken> {
    Time::parse(given).map_err(|error| NotTaken::Wrong(format!("{field}: {error}")))
}

/// A time that some server's clock showed: later than now only as far as clocks differ.
pub(crate) fn past(field: &str, given: &str, door: &Door<'_>) -> Result<Time, NotTaken> {
    let at = moment(field, given)?;
    if at.since(door.now) > limits::CLOCKS_APART_MS_MAX {
        return Err(NotTaken::Wrong(format!("{field} lies in the future: {at}")));
    }
    Ok(at)
}

/// A SHA-256 in lower-case hex.
pub(crate) fn digest(field: &str, given: &str) -> Result<[u8; 32], NotTaken> {
    let bad = || NotTaken::Wrong(format!("{field} is not 64 hex digits"));
    let digits = given.as_bytes();
    if digits.len() != 64 {
        return Err(bad());
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else { return Err(bad()) };
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// A text that holds JSON, kept as it is.
pub(crate) fn json(
    field: &str,
    given: Option<&Text<'_>>,
    bytes_max: usize,
) -> Result<Option<String>, NotTaken> {
    let Some(given) = given else { return Ok(None) };
    let kept = text(field, given, bytes_max)?;
    match serde_json::from_str::<&RawValue>(&kept) {
        Ok(_) => Ok(Some(kept)),
        Err(_) => Err(NotTaken::Wrong(format!("{field} does not hold JSON"))),
    }
}

pub(crate) fn json_object(
    field: &str,
    given: Option<&Text<'_>>,
    bytes_max: usize,
) -> Result<Option<String>, NotTaken> {
    match json(field, given, bytes_max)? {
        Some(kept) if !kept.trim_start().starts_with('{') => {
            Err(NotTaken::Wrong(format!("{field} does not hold a JSON object")))
        }
        kept => Ok(kept),
    }
}

/// The bytes of an original, from whichever of the two ways it was written in.
pub(crate) fn body(form: &LifeForm<'_>, door: &Door<'_>) -> Result<Vec<u8>, NotTaken> {
    let bytes = match (&form.body, &form.body_base64) {
        (None, None) if form.body_missing.is_some() => Vec::new(),
        (_, _) if form.body_missing.is_some() => {
            return Err(NotTaken::wrong("a body and bodyMissing are both given"));
        }
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(coded)) => {
            STANDARD.decode(coded).map_err(|_| NotTaken::wrong("bodyBase64 is not base64"))?
        }
        (None, None) => return Err(NotTaken::wrong("neither body nor bodyBase64 is given")),
        (Some(_), Some(_)) => return Err(NotTaken::wrong("body and bodyBase64 are both given")),
    };
    within("the bytes of the body", bytes.len(), door.body_bytes_max)?;
    Ok(bytes)
}
