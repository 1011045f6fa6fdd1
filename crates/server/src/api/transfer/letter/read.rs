//! Reading a letter of an export. Nothing is believed: what could not stand in a store is refused, by field and reason.

use bytes::Bytes;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::class::ErrorClass;
use lazaret_core::envelope::Envelope;
use lazaret_core::fingerprint::{Grouping, Subject};
use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::id::{IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Hold, Letter, Resolution, Strategy, listed};
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::origin::Origin;
use lazaret_core::time::Time;
use lazaret_store::page::{Life, LifeAttempt};
use lazaret_store::transfer::{DecisionRecord, Exported, Import};
use serde_json::Value;

use super::{
    AttemptForm, DecisionForm, ErrorForm, FORMAT, HoldForm, LetterForm, LifeForm, ResolutionForm, Text,
};
use check::{body, digest, id, json, json_object, moment, name, names, one_of, past, text, within};

mod check;

pub(crate) use check::{Door, NotTaken};

/// Reads a letter and works out the group of each of its lives. One that was under way waits again: whoever sent it
/// does not know of this store.
pub(crate) fn read(text: &str, door: &Door<'_>) -> Result<Import, NotTaken> {
    let form: LetterForm<'_> =
        serde_json::from_str(text).map_err(|error| NotTaken::json("the letter cannot be read", &error))?;
    if form.format != FORMAT {
        let message = format!("the letter has format {}, this server knows format {FORMAT}", form.format);
        return Err(NotTaken::Wrong(message));
    }
    within("lives", form.lives.len(), limits::IMPORT_LIVES_MAX)?;
    within("attempts", form.attempts.len(), limits::IMPORT_ATTEMPTS_MAX)?;
    within("decisions", form.decisions.len(), limits::IMPORT_DECISIONS_MAX)?;
    let attempts = read_attempts(&form, door)?;
    let names = names(&form)?;
    let mut lives = Vec::with_capacity(form.lives.len());
    let mut groupings = Vec::with_capacity(form.lives.len());
    for (number, life) in (1_u32..).zip(&form.lives) {
        if life.life != number {
            let message = format!("life {number} is missing: lives are numbered from 1 without gaps");
            return Err(NotTaken::Wrong(message));
        }
        let error = fatal_error(life, &attempts)?;
        let (grouping, incident) = (door.group)(Subject {
            source: &names.source,
            queue: &names.queue,
            letter_type: &names.letter_type,
            tenant: names.tenant.as_deref(),
            error,
        })?;
        lives.push(read_life(life, &grouping, door)?);
        groupings.push((grouping, incident));
    }
    let letter = read_letter(&form, names, (&lives, &attempts, &groupings), door)?;
    let decisions = form.decisions.iter().map(|form| read_decision(form, door)).collect::<Result<_, _>>()?;
    let key = CaptureKey(digest("key", &form.key)?);
    check_key(&letter, key)?;
    let exported = Exported { letter, key, ever_sent: form.ever_sent, lives, attempts, decisions };
    Ok(Import { exported, groupings, at: door.now })
}

/// What was read of a letter besides its own fields.
type Read<'a> = (&'a [(Life, Envelope)], &'a [LifeAttempt], &'a [(Grouping, IncidentId)]);

fn read_letter(
    form: &LetterForm<'_>,
    names: check::Names,
    (lives, attempts, groupings): Read<'_>,
    door: &Door<'_>,
) -> Result<Letter, NotTaken> {
    let letter = id("id", &form.id, LetterId::parse)?;
    let created_at = past("createdAt", &form.created_at, door)?;
    if created_at != letter.at() {
        return Err(NotTaken::wrong("createdAt is not the time of the id"));
    }
    if lives.len() != form.life as usize {
        let message = format!("life is {}, but there are {} lives", form.life, lives.len());
        return Err(NotTaken::Wrong(message));
    }
    let (Some((present, _)), Some((grouping, incident))) = (lives.last(), groupings.last()) else {
        return Err(NotTaken::wrong("a letter has at least one life"));
    };
    let Some(fatal) = attempts.iter().find(|attempt| attempt.ordinal == present.fatal) else {
        return Err(NotTaken::wrong("the last life has no attempt that ended it"));
    };
    let error = &fatal.attempt.error;
    let resolution = form.resolution.as_ref().map(|form| read_resolution(form, door)).transpose()?;
    Ok(Letter {
        id: letter,
        error_type: listed(&error.error_type, limits::NAME_BYTES_MAX),
        error_code: error.code.as_ref().map(|code| listed(code, limits::NAME_BYTES_MAX)),
        error_message: listed(&error.message, limits::MESSAGE_BYTES_LISTED),
        class: one_of("class", &form.class, ErrorClass::parse)?,
        fingerprint: grouping.fingerprint.clone(),
        incident: *incident,
        retry_count: form.retry_count,
        max_retries: form.max_retries,
        status: read_status(form, resolution.as_ref())?,
        place: Place::Live,
        life: form.life,
        hold: form.hold.as_ref().map(|form| read_hold(form, door)).transpose()?,
        resolution,
        previous: form.previous.as_deref().map(|text| id("previous", text, LetterId::parse)).transpose()?,
        created_at,
        updated_at: past("updatedAt", &form.updated_at, door)?,
        died_at: past("diedAt", &form.died_at, door)?,
        retention_at: past("retentionAt", &form.retention_at, door)?,
        source: names.source,
        event_id: names.event_id,
        letter_type: names.letter_type,
        queue: names.queue,
        subscriber: names.subscriber,
        tenant: names.tenant,
        aggregate: names.aggregate,
        schema_version: names.schema_version,
    })
}

/// The status here; a letter has a resolution exactly when it has come to its end.
fn read_status(form: &LetterForm<'_>, resolution: Option<&Resolution>) -> Result<Status, NotTaken> {
    let status = one_of("status", &form.status, Status::parse)?;
    let (ended, here) = match status {
        Status::Pending | Status::Reprocessing => (false, Status::Pending),
        Status::Resolved | Status::Discarded => (true, status),
    };
    match (ended, resolution) {
        (true, Some(_)) | (false, None) => Ok(here),
        (true, None) => Err(NotTaken::Wrong(format!("the letter is {status} and has no resolution"))),
        (false, Some(_)) => Err(NotTaken::Wrong(format!("the letter is {status} and has a resolution"))),
    }
}

fn read_hold(form: &HoldForm<'_>, door: &Door<'_>) -> Result<Hold, NotTaken> {
    Ok(Hold {
        at: past("hold.at", &form.at, door)?,
        by: text("hold.by", &form.by, limits::NAME_BYTES_MAX)?,
        reason: text("hold.reason", &form.reason, limits::REASON_BYTES_MAX)?,
    })
}

fn read_resolution(form: &ResolutionForm<'_>, door: &Door<'_>) -> Result<Resolution, NotTaken> {
    Ok(Resolution {
        at: past("resolution.at", &form.at, door)?,
        strategy: one_of("resolution.strategy", &form.strategy, Strategy::parse)?,
        by: text("resolution.by", &form.by, limits::NAME_BYTES_MAX)?,
        notes: optional("resolution.notes", form.notes.as_ref(), limits::REASON_BYTES_MAX)?,
    })
}

/// The key is made of whole names. Where none of them was cut or mended for its column, it can be made again.
fn check_key(letter: &Letter, key: CaptureKey) -> Result<(), NotTaken> {
    let parts = [
        letter.source.as_str(),
        letter.tenant.as_deref().unwrap_or(""),
        letter.subscriber.as_deref().unwrap_or(""),
        &letter.event_id,
    ];
    // A cut falls on a character's edge, up to three bytes below the limit.
    let whole =
        parts.iter().all(|part| part.len() < limits::NAME_BYTES_MAX - 3 && !part.contains('\u{fffd}'));
    let [source, tenant, subscriber, message_id] = parts;
    if whole && CaptureKey::of(source, tenant, subscriber, message_id) != key {
        return Err(NotTaken::wrong("key is not that of source, tenant, subscriberId and eventId"));
    }
    Ok(())
}

fn read_attempts(form: &LetterForm<'_>, door: &Door<'_>) -> Result<Vec<LifeAttempt>, NotTaken> {
    let mut attempts = Vec::with_capacity(form.attempts.len());
    for (ordinal, attempt) in (1_u32..).zip(&form.attempts) {
        if attempt.ordinal != ordinal {
            let message = format!("attempt {ordinal} is missing: attempts are numbered from 1 without gaps");
            return Err(NotTaken::Wrong(message));
        }
        if !(1..=form.life).contains(&attempt.life) {
            let message = format!("attempt {ordinal} belongs to life {}, which does not exist", attempt.life);
            return Err(NotTaken::Wrong(message));
        }
        let attempt_here =
            read_attempt(attempt, door).map_err(|error| error.inside(&format!("attempt {ordinal}")))?;
        attempts.push(LifeAttempt { life: attempt.life, ordinal, attempt: attempt_here });
    }
    Ok(attempts)
}

fn read_attempt(form: &AttemptForm<'_>, door: &Door<'_>) -> Result<Attempt, NotTaken> {
    if form.duration_ms.is_some_and(|ms| i64::try_from(ms).is_err()) {
        return Err(NotTaken::wrong("durationMs is longer than time itself"));
    }
    Ok(Attempt {
        // As the program stated it: evidence, whatever its clock said.
        at: form.at.as_deref().map(|at| moment("at", at)).transpose()?,
        duration_ms: form.duration_ms,
        error: read_error(&form.error, door.body_bytes_max)?,
        extra: json_object("extra", form.extra.as_ref(), door.body_bytes_max)?,
    })
}

fn read_error(form: &ErrorForm<'_>, bytes_max: usize) -> Result<LetterError, NotTaken> {
    Ok(LetterError {
        error_type: text("error.type", &form.error_type, bytes_max)?,
        code: optional("error.code", form.code.as_ref(), bytes_max)?,
        message: text("error.message", &form.message, bytes_max)?,
        backtrace: optional("error.backtrace", form.backtrace.as_ref(), bytes_max)?,
        context: json("error.context", form.context.as_ref(), bytes_max)?,
        extra: json_object("error.extra", form.extra.as_ref(), bytes_max)?,
    })
}

fn optional(field: &str, given: Option<&Text<'_>>, bytes_max: usize) -> Result<Option<String>, NotTaken> {
    given.map(|given| text(field, given, bytes_max)).transpose()
}

/// The error that ended a life. The attempt may be of an earlier one: the same failure, told again.
fn fatal_error<'a>(life: &LifeForm<'_>, attempts: &'a [LifeAttempt]) -> Result<&'a LetterError, NotTaken> {
    // Attempts are numbered without gaps.
    let place = (life.fatal as usize).checked_sub(1);
    match place.and_then(|place| attempts.get(place)) {
        Some(fatal) => Ok(&fatal.attempt.error),
        None => Err(NotTaken::Wrong(format!(
            "life {} was ended by attempt {}, which does not exist",
            life.life, life.fatal
        ))),
    }
}

fn read_life(
    form: &LifeForm<'_>,
    grouping: &Grouping,
    door: &Door<'_>,
) -> Result<(Life, Envelope), NotTaken> {
    let life = read_life_alone(form, grouping, door);
    life.map_err(|error| error.inside(&format!("life {}", form.life)))
}

fn read_life_alone(
    form: &LifeForm<'_>,
    grouping: &Grouping,
    door: &Door<'_>,
) -> Result<(Life, Envelope), NotTaken> {
    let captured_at = past("capturedAt", &form.captured_at, door)?;
    let died_at = moment("diedAt", &form.died_at)?;
    if died_at > captured_at {
        return Err(NotTaken::wrong("diedAt is later than capturedAt"));
    }
    let content_type = name("contentType", &form.content_type)?;
    let headers = read_headers(form, door)?;
    let origin = form.origin.as_deref().map(Origin::from_json).transpose();
    let origin = origin.map_err(|error| NotTaken::Wrong(format!("origin: {error}")))?;
    let body_missing = optional("bodyMissing", form.body_missing.as_ref(), limits::REASON_BYTES_MAX)?;
    let envelope = Envelope::seal(Bytes::from(body(form, door)?), content_type.clone(), headers)
        .with_origin(origin.clone())
        .with_body_missing(body_missing.clone());
    if digest("sha256", &form.sha256)? != *envelope.sha256() {
        return Err(NotTaken::wrong("the body does not have its sha256"));
    }
    let life = Life {
        life: form.life,
        captured_at,
        died_at,
        class: one_of("class", &form.class, ErrorClass::parse)?,
        fingerprint: grouping.fingerprint.clone(),
        content_type,
        body_bytes: envelope.body().len() as u64,
        sha256: *envelope.sha256(),
        fatal: form.fatal,
        retry_count: form.retry_count,
        max_retries: form.max_retries,
        redrive: form
            .redrive_id
            .as_deref()
            .map(|text| id("redriveId", text, RedriveId::parse))
            .transpose()?,
        reported: json_object("reported", form.reported.as_ref(), door.body_bytes_max)?,
        origin,
        body_missing,
    };
    Ok((life, envelope))
}

fn read_headers(form: &LifeForm<'_>, door: &Door<'_>) -> Result<Headers, NotTaken> {
    let read = |(name, value): &(Text<'_>, Value)| match HeaderValue::from_json(value.clone()) {
        Ok(value) => Ok((name.to_string(), value)),
        Err(error) => Err(NotTaken::Wrong(format!("headers: {error}"))),
    };
    let headers: Headers = form.headers.iter().map(read).collect::<Result<_, _>>()?;
    let bytes = headers.iter().map(|(name, value)| name.len() + value.bytes()).sum();
    within("the bytes of headers", bytes, door.body_bytes_max)?;
    Ok(headers)
}

fn read_decision(form: &DecisionForm<'_>, door: &Door<'_>) -> Result<DecisionRecord, NotTaken> {
    let operation = form.operation_id.as_deref();
    let at: Time = past("decisions.at", &form.at, door)?;
    Ok(DecisionRecord {
        at,
        action: name("decisions.action", &form.action)?,
        actor: text("decisions.actor", &form.actor, limits::NAME_BYTES_MAX)?,
        role: name("decisions.role", &form.role)?,
        reason: optional("decisions.reason", form.reason.as_ref(), limits::REASON_BYTES_MAX)?,
        operation: operation.map(|text| id("decisions.operationId", text, OperationId::parse)).transpose()?,
        imported: true,
    })
}
