//! The open door: a dead-letter entry in JSON, from any program, becomes a captured message.
//!
//! The text of `originalEvent` is the envelope, byte for byte. What a reporter may not decide (`id`, `status`,
//! `resolution`, `updatedAt`) is kept as data and never obeyed; what we have no name for is kept as well.

use bytes::Bytes;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::envelope::Envelope;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Captured, RedriveMark, SourceWord};
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::value::RawValue;

use crate::config::{EventPath, SourceConfig, TENANT_PATH};
use crate::raw_json::{self, RawObject, kind, shown};

/// Why an entry cannot be taken, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub code: &'static str,
    /// The field, as a path such as `retryHistory[2].timestamp`.
    pub field: Option<String>,
    pub message: String,
    /// The message it speaks of, if that much could be read.
    pub event_id: Option<String>,
}

impl Refusal {
    fn new(code: &'static str, field: impl Into<String>, message: impl Into<String>) -> Refusal {
        Refusal { code, field: Some(field.into()), message: message.into(), event_id: None }
    }
}

/// Where an entry comes in.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    pub source: &'a str,
    pub config: &'a SourceConfig,
    pub entry_bytes_max: usize,
}

/// Reads one entry.
pub fn read_entry(text: &str, door: Door<'_>) -> Result<Captured, Refusal> {
    if text.len() > door.entry_bytes_max {
        let message = format!("the entry has {} bytes, the maximum is {}", text.len(), door.entry_bytes_max);
        return Err(Refusal { code: "too_large", field: None, message, event_id: None });
    }
    let object: RawObject<'_> = serde_json::from_str(text).map_err(|error| Refusal {
        code: "bad_json",
        field: None,
        message: format!("not a JSON object: {error}"),
        event_id: None,
    })?;
    let entry = sort_fields(object)?;
    let event = entry.original_event.ok_or_else(|| {
        Refusal::new("missing_field", "originalEvent", "originalEvent is missing: redrives send it")
    })?;
    let told = read_event(event)?;
    let event_id = match string(entry.event_id, "eventId")?.or_else(|| told.event_id.clone()) {
        Some(id) if id.is_empty() => return Err(Refusal::new("bad_field", "eventId", "eventId is empty")),
        Some(id) if id.len() > limits::MESSAGE_ID_BYTES_MAX => {
            let message = format!("eventId is longer than {} bytes", limits::MESSAGE_ID_BYTES_MAX);
            return Err(Refusal::new("bad_field", "eventId", message));
        }
        Some(id) => id,
        None => {
            let message = "eventId or originalEvent.eventId required: it identifies duplicates";
            return Err(Refusal::new("missing_field", "eventId", message));
        }
    };
    read_rest(entry, event, told, event_id.clone(), door)
        .map_err(|refusal| Refusal { event_id: Some(event_id), ..refusal })
}

/// The fields of an entry that mean something to us.
#[derive(Default)]
struct Entry<'a> {
    event_id: Option<&'a RawValue>,
    subscriber_id: Option<&'a RawValue>,
    original_event: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    retry_history: Option<&'a RawValue>,
    retry_count: Option<&'a RawValue>,
    max_retries: Option<&'a RawValue>,
    created_at: Option<&'a RawValue>,
    redrive: Option<&'a RawValue>,
    /// JSON text of an object with everything else.
    reported: Option<String>,
}

fn sort_fields(object: RawObject<'_>) -> Result<Entry<'_>, Refusal> {
    let mut entry = Entry::default();
    let mut kept = Kept::default();
    for (name, raw) in object.0 {
        let slot = match name.as_ref() {
            "eventId" => &mut entry.event_id,
            "subscriberId" => &mut entry.subscriber_id,
            "originalEvent" => &mut entry.original_event,
            "error" => &mut entry.error,
            "retryHistory" => &mut entry.retry_history,
            "retryCount" => &mut entry.retry_count,
            "maxRetries" => &mut entry.max_retries,
            "redrive" => &mut entry.redrive,
            "createdAt" => {
                kept.add(&name, raw);
                &mut entry.created_at
            }
            _ => {
                kept.add(&name, raw);
                continue;
            }
        };
        if slot.is_some() {
            return Err(Refusal::new("bad_field", name.as_ref(), format!("{name} occurs twice")));
        }
        // A field that says null says nothing, whatever it is.
        *slot = Some(raw).filter(|raw| raw.get() != "null");
    }
    entry.reported = kept.object();
    Ok(entry)
}

/// Fields kept verbatim beside what we understand.
#[derive(Default)]
struct Kept(String);

impl Kept {
    fn add(&mut self, name: &str, raw: &RawValue) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&serde_json::Value::from(name).to_string());
        self.0.push(':');
        self.0.push_str(raw.get());
    }

    fn object(mut self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push('}');
        Some(self.0)
    }
}

/// What the original event says about itself.
#[derive(Default)]
struct Told {
    event_id: Option<String>,
    pattern: Option<String>,
    version: Option<String>,
    tenant: Option<String>,
}

fn read_event(event: &RawValue) -> Result<Told, Refusal> {
    // Anything can be an event; only an object says something about itself.
    if kind(event) != "an object" {
        return Ok(Told::default());
    }
    let object: RawObject<'_> = serde_json::from_str(event.get())
        .map_err(|error| Refusal::new("bad_field", "originalEvent", format!("originalEvent: {error}")))?;
    let mut told = Told::default();
    for (name, raw) in object.0 {
        match name.as_ref() {
            "eventId" => told.event_id = name_of(raw, "originalEvent.eventId")?,
            "pattern" => told.pattern = string(Some(raw), "originalEvent.pattern")?,
            "version" => told.version = name_of(raw, "originalEvent.version")?,
            "metadata" => told.tenant = tenant_of(raw),
            _ => {}
        }
    }
    Ok(told)
}

fn tenant_of(metadata: &RawValue) -> Option<String> {
    let object: RawObject<'_> = serde_json::from_str(metadata.get()).ok()?;
    let (_, raw) = object.0.into_iter().find(|(name, _)| name == "tenantId")?;
    name_of(raw, "").ok().flatten()
}

fn read_rest(
    entry: Entry<'_>,
    event: &RawValue,
    told: Told,
    message_id: String,
    door: Door<'_>,
) -> Result<Captured, Refusal> {
    let attempts = read_history(entry.retry_history)?;
    let stated = time(entry.created_at, "createdAt")?;
    let died_at = attempts.iter().filter_map(|attempt| attempt.at).max().or(stated);
    let error = match entry.error {
        Some(raw) => read_error(raw, "error")?,
        None => attempts.last().map(|attempt| attempt.error.clone()).unwrap_or_default(),
    };
    let retry_count = match entry.retry_count {
        Some(raw) => count(raw, "retryCount")?,
        None => attempts.len() as u32,
    };
    let (aggregate, tenant) = found_by_path(event, &told, door.config);
    Ok(Captured {
        source: door.source.to_owned(),
        message_id,
        letter_type: told.pattern.filter(|pattern| !pattern.is_empty()).unwrap_or_else(|| "unknown".into()),
        queue: door.config.queue.clone(),
        subscriber: string(entry.subscriber_id, "subscriberId")?,
        tenant,
        aggregate,
        schema_version: told.version,
        envelope: Envelope::seal(
            Bytes::copy_from_slice(event.get().as_bytes()),
            "application/json",
            Vec::new(),
        ),
        error,
        attempts,
        retry_count,
        max_retries: entry.max_retries.map(|raw| count(raw, "maxRetries")).transpose()?,
        died_at,
        mark: entry.redrive.map(read_mark).transpose()?,
        word: SourceWord::Silent,
        reported: entry.reported,
    })
}

/// The order key and the tenant, by the source's configured paths.
fn found_by_path(event: &RawValue, told: &Told, config: &SourceConfig) -> (Option<String>, Option<String>) {
    let tenant_told = config.tenant.text() == TENANT_PATH;
    if config.aggregate.is_none() && tenant_told {
        return (None, told.tenant.clone());
    }
    // An event too deep to look into has neither; it is kept all the same.
    let value = raw_json::value(event.get());
    let find = |path: &EventPath| value.as_ref().and_then(|event| path.find(event));
    let tenant = if tenant_told { told.tenant.clone() } else { find(&config.tenant) };
    (config.aggregate.as_ref().and_then(find), tenant)
}

fn read_history(raw: Option<&RawValue>) -> Result<Vec<Attempt>, Refusal> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let items: Vec<&RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| wrong(raw, "retryHistory", "a list of attempts"))?;
    if items.len() > limits::ATTEMPTS_MAX {
        let message =
            format!("retryHistory has {} attempts, the maximum is {}", items.len(), limits::ATTEMPTS_MAX);
        return Err(Refusal::new("too_large", "retryHistory", message));
    }
    items.iter().enumerate().map(|(at, raw)| read_attempt(raw, &format!("retryHistory[{at}]"))).collect()
}

fn read_attempt(raw: &RawValue, path: &str) -> Result<Attempt, Refusal> {
    let object: RawObject<'_> = serde_json::from_str(raw.get())
        .map_err(|_| wrong(raw, path, "an object with timestamp and error"))?;
    let mut attempt = Attempt { at: None, duration_ms: None, error: LetterError::default(), extra: None };
    let mut kept = Kept::default();
    for (name, raw) in object.0 {
        if raw.get() == "null" {
            continue;
        }
        match name.as_ref() {
            "timestamp" => attempt.at = time(Some(raw), &format!("{path}.timestamp"))?,
            "error" => attempt.error = read_error(raw, &format!("{path}.error"))?,
            "processingDuration" => {
                attempt.duration_ms = Some(duration(raw, &format!("{path}.processingDuration"))?);
            }
            _ => kept.add(&name, raw),
        }
    }
    attempt.extra = kept.object();
    Ok(attempt)
}

fn read_error(raw: &RawValue, path: &str) -> Result<LetterError, Refusal> {
    let mut error = LetterError::default();
    // Many programs have no more than a message.
    if let Some(message) = raw_json::text(raw.get()) {
        error.message = message;
        return Ok(error);
    }
    let object: RawObject<'_> =
        serde_json::from_str(raw.get()).map_err(|_| wrong(raw, path, "an object with type and message"))?;
    let mut kept = Kept::default();
    for (name, raw) in object.0 {
        if raw.get() == "null" {
            continue;
        }
        let field = || format!("{path}.{name}");
        match name.as_ref() {
            "message" => error.message = string(Some(raw), &field())?.unwrap_or_default(),
            "type" => error.error_type = string(Some(raw), &field())?.unwrap_or_default(),
            "code" => error.code = name_of(raw, &field())?,
            "stackTrace" => error.backtrace = string(Some(raw), &field())?,
            "context" => error.context = Some(raw.get().to_owned()),
            _ => kept.add(&name, raw),
        }
    }
    error.extra = kept.object();
    Ok(error)
}

fn read_mark(raw: &RawValue) -> Result<RedriveMark, Refusal> {
    let object: RawObject<'_> = serde_json::from_str(raw.get())
        .map_err(|_| wrong(raw, "redrive", "an object with letterId, life, redriveId"))?;
    let field = |wanted: &str| object.0.iter().find(|(name, _)| name == wanted).map(|(_, raw)| *raw);
    let id = |wanted: &str| -> Result<String, Refusal> {
        let path = format!("redrive.{wanted}");
        string(field(wanted), &path)?
            .ok_or_else(|| Refusal::new("missing_field", &path, format!("{path} is missing")))
    };
    let letter = LetterId::parse(&id("letterId")?)
        .map_err(|error| Refusal::new("bad_field", "redrive.letterId", error.to_string()))?;
    let redrive = RedriveId::parse(&id("redriveId")?)
        .map_err(|error| Refusal::new("bad_field", "redrive.redriveId", error.to_string()))?;
    let life = field("life")
        .ok_or_else(|| Refusal::new("missing_field", "redrive.life", "redrive.life is missing"))
        .and_then(|raw| count(raw, "redrive.life"))?;
    Ok(RedriveMark { letter, life, redrive })
}

fn wrong(raw: &RawValue, field: &str, wanted: &str) -> Refusal {
    Refusal::new("bad_field", field, format!("{field} must be {wanted}, got {}", kind(raw)))
}

fn string(raw: Option<&RawValue>, field: &str) -> Result<Option<String>, Refusal> {
    match raw {
        Some(raw) if raw.get() == "null" => Ok(None),
        Some(raw) => raw_json::text(raw.get()).map(Some).ok_or_else(|| wrong(raw, field, "a text")),
        None => Ok(None),
    }
}

/// A name that some programs write as a number, such as a version or an error code.
fn name_of(raw: &RawValue, field: &str) -> Result<Option<String>, Refusal> {
    if kind(raw) == "a number" {
        return Ok(Some(raw.get().to_owned()));
    }
    string(Some(raw), field)
}

fn time(raw: Option<&RawValue>, field: &str) -> Result<Option<Time>, Refusal> {
    let Some(raw) = raw else { return Ok(None) };
    let Some(text) = raw_json::text(raw.get()) else {
        return Err(wrong(raw, field, "an RFC 3339 time such as \"2026-11-15T03:00:00Z\""));
    };
    Time::parse(&text).map(Some).map_err(|error| Refusal::new("bad_time", field, format!("{field}: {error}")))
}

fn count(raw: &RawValue, field: &str) -> Result<u32, Refusal> {
    serde_json::from_str(raw.get()).map_err(|_| {
        let message = format!("{field} must be an integer from 0 to {}, got {}", u32::MAX, shown(raw.get()));
        Refusal::new("bad_field", field, message)
    })
}

fn duration(raw: &RawValue, field: &str) -> Result<u64, Refusal> {
    match serde_json::from_str::<f64>(raw.get()) {
        Ok(ms) if (0.0..1e15).contains(&ms) => Ok(ms.round() as u64),
        Ok(_) | Err(_) => {
            let message = format!("{field} must be a number of milliseconds, got {}", shown(raw.get()));
            Err(Refusal::new("bad_field", field, message))
        }
    }
}
