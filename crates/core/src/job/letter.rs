//! The way of a job into the dead letter and back.
//!
//! The arguments are the envelope, byte for byte; the failures are the attempts; everything else that the job was made
//! of goes along as one record, so that the job can be made again from its letter when its row is long gone.

use bytes::Bytes;

use crate::attempt::{Attempt, LetterError};
use crate::envelope::Envelope;
use crate::header::Headers;
use crate::key::CaptureKey;
use crate::letter::{Captured, RedriveMark, SourceWord};
use crate::time::Time;

use super::enqueue::job_id;
use super::failure::Fate;
use super::policy::{JobRetry, RetryPatch};
use super::raw::{self, Fields, ObjectText};
use super::state::JobState;
use super::{Job, JobError};

/// A letter that no job can be made from.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRecord {
    #[error("the letter's record is not a JSON object")]
    NotAnObject,
    #[error("the letter's record has no usable {0}")]
    Field(&'static str),
    #[error("the letter's body is not a JSON array")]
    Body,
}

/// The key of a job's letter. Tenant and worker are no part of it: a job's id is unique by itself, and a letter has to
/// be found by nothing else.
pub fn letter_key(source: &str, job_id: &str) -> CaptureKey {
    CaptureKey::of(source, "", "", job_id)
}

impl Job {
    /// What the dead letter gets to see. `mark` is the redrive of ours that the job came back from.
    pub fn to_captured(&self, source: &str, mark: Option<RedriveMark>) -> Captured {
        let attempts: Vec<Attempt> = self.errors.iter().map(to_attempt).collect();
        let error = attempts.last().map(|attempt| attempt.error.clone()).unwrap_or_default();
        let args = Bytes::copy_from_slice(self.args.as_bytes());
        Captured {
            source: source.to_owned(),
            message_id: self.id.to_string(),
            letter_type: self.job_type.clone(),
            queue: self.queue.clone(),
            subscriber: None,
            tenant: self.meta_text("tenant_id"),
            aggregate: self.meta_text("aggregate_id"),
            schema_version: self.meta_text("schema_version"),
            envelope: Envelope::seal(args, "application/json", self.headers()),
            error,
            attempts,
            retry_count: self.attempt,
            max_retries: Some(self.retry.max_attempts),
            died_at: self.discarded_at.or_else(|| self.errors.last().map(|error| error.occurred_at)),
            mark,
            // A job dies once for each time that it is discarded, and we are the ones who discard it.
            word: SourceWord::NewDeath,
            reported: Some(self.record()),
        }
    }

    /// Makes the job again as it died: discarded, and in the dead letter. `attempts` are those of all lives, oldest
    /// first.
    pub fn from_letter<'a>(
        envelope: &Envelope,
        record: &str,
        attempts: impl IntoIterator<Item = &'a Attempt>,
    ) -> Result<Job, BadRecord> {
        let args = std::str::from_utf8(envelope.body()).ok().filter(|text| raw::items(text).is_some());
        let args = args.ok_or(BadRecord::Body)?.to_owned();
        let mut record = Record(Fields::read(record).map_err(|_| BadRecord::NotAnObject)?);
        let id = record.text("id")?;
        let discarded_at = record.time("discarded_at")?;
        let errors = attempts.into_iter().map(|attempt| to_error(attempt, discarded_at)).collect();
        Ok(Job {
            id: job_id(&id).ok_or(BadRecord::Field("id"))?,
            job_type: record.text("type")?,
            queue: record.text("queue")?,
            args,
            meta: record.object("meta")?.unwrap_or("{}").to_owned(),
            schema: record.optional_text("schema")?,
            priority: record.number("priority")?,
            timeout_ms: record.number("timeout_ms")?,
            visibility_ms: record.number("visibility_timeout_ms")?,
            scheduled_at: record.optional_time("scheduled_at")?,
            expires_at: record.optional_time("expires_at")?,
            retry: record.retry()?,
            fate: match record.optional_text("returns_to")?.as_deref() {
                Some(DEAD_LETTER) => Fate::DeadLetter,
                Some(_) | None => Fate::ByPolicy,
            },
            unique: record.object("unique")?.map(str::to_owned),
            tags: record.tags()?,
            extra: record.extra()?,
            state: JobState::Discarded,
            in_dead_letter: true,
            attempt: record.number("attempt")?,
            created_at: record.time("created_at")?,
            enqueued_at: record.time("enqueued_at")?,
            started_at: record.optional_time("started_at")?,
            completed_at: record.optional_time("completed_at")?,
            cancelled_at: None,
            discarded_at: Some(discarded_at),
            activated_at: record.optional_time("activated_at")?,
            re_enqueued_at: record.optional_time("re_enqueued_at")?,
            next_attempt_at: None,
            retry_delay_ms: record.optional_number("retry_delay_ms")?,
            errors,
            result: None,
            held: None,
        })
    }

    /// Everything about the job but its arguments and failures, as JSON text of an object.
    fn record(&self) -> String {
        let mut object = ObjectText::onto(String::with_capacity(512 + self.meta.len()));
        object.shown("id", self.id);
        object.text("type", &self.job_type);
        object.text("queue", &self.queue);
        object.raw("meta", &self.meta);
        object.number("priority", self.priority);
        object.number("timeout_ms", self.timeout_ms);
        object.number("visibility_timeout_ms", self.visibility_ms);
        object.object("retry", |object| self.retry.add_to(object));
        object.number("attempt", self.attempt);
        if let Some(schema) = &self.schema {
            object.text("schema", schema);
        }
        if let Some(unique) = &self.unique {
            object.raw("unique", unique);
        }
        if !self.tags.is_empty() {
            object.texts("tags", self.tags.iter().map(String::as_str));
        }
        match self.fate {
            Fate::ByPolicy => {}
            Fate::DeadLetter => object.text("returns_to", DEAD_LETTER),
        }
        object.time("scheduled_at", self.scheduled_at);
        object.time("expires_at", self.expires_at);
        object.time("created_at", Some(self.created_at));
        object.time("enqueued_at", Some(self.enqueued_at));
        object.time("activated_at", self.activated_at);
        object.time("started_at", self.started_at);
        object.time("completed_at", self.completed_at);
        // A letter speaks of a death, so there is a time of it.
        object.time("discarded_at", Some(self.discarded_at.unwrap_or(self.enqueued_at)));
        object.time("re_enqueued_at", self.re_enqueued_at);
        if let Some(delay_ms) = self.retry_delay_ms {
            object.number("retry_delay_ms", delay_ms);
        }
        if !self.extra.is_empty() {
            object.object("extra", |extra| {
                for (name, json) in &self.extra {
                    extra.raw(name, json);
                }
            });
        }
        object.end()
    }

    /// The texts in `meta`, which is where a job carries its trace.
    fn headers(&self) -> Headers {
        let meta = Fields::read(&self.meta).unwrap_or_default();
        meta.iter()
            .filter(|(_, json)| json.starts_with('"'))
            .filter_map(|(name, json)| Some((name.to_owned(), raw::text(json)?.into())))
            .collect()
    }
}

/// How a record says that the job returns to the dead letter.
const DEAD_LETTER: &str = "dead_letter";

fn to_attempt(error: &JobError) -> Attempt {
    let mut extra = ObjectText::new();
    extra.number("attempt", error.attempt);
    if let Some(retryable) = error.retryable {
        extra.raw("retryable", if retryable { "true" } else { "false" });
    }
    Attempt {
        at: Some(error.occurred_at),
        duration_ms: None,
        error: LetterError {
            error_type: error.error_type.clone(),
            code: error.code.clone(),
            message: error.message.clone(),
            backtrace: error.backtrace.clone(),
            context: error.details.clone(),
            extra: error.extra.clone(),
        },
        extra: Some(extra.end()),
    }
}

/// An attempt that did not come from a job, such as one that was added by a report, has no number and perhaps no time.
fn to_error(attempt: &Attempt, died_at: Time) -> JobError {
    let extra = attempt.extra.as_deref().and_then(|text| Fields::read(text).ok()).unwrap_or_default();
    let number = extra.get("attempt").and_then(raw::whole).and_then(|number| u32::try_from(number).ok());
    let error = attempt.error.clone();
    JobError {
        attempt: number.unwrap_or(0),
        error_type: if error.error_type.is_empty() { "Unknown".to_owned() } else { error.error_type },
        code: error.code,
        message: error.message,
        occurred_at: attempt.at.unwrap_or(died_at),
        retryable: match extra.get("retryable") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) | None => None,
        },
        details: error.context,
        backtrace: error.backtrace,
        extra: error.extra,
    }
}

/// A job's record while it is read.
struct Record<'a>(Fields<'a>);

impl<'a> Record<'a> {
    fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, BadRecord> {
        self.0.take(name).map(|raw| raw::text(raw).ok_or(BadRecord::Field(name))).transpose()
    }

    fn text(&mut self, name: &'static str) -> Result<String, BadRecord> {
        self.optional_text(name)?.ok_or(BadRecord::Field(name))
    }

    fn optional_time(&mut self, name: &'static str) -> Result<Option<Time>, BadRecord> {
        let text = self.optional_text(name)?;
        text.map(|text| Time::parse(&text).map_err(|_| BadRecord::Field(name))).transpose()
    }

    fn time(&mut self, name: &'static str) -> Result<Time, BadRecord> {
        self.optional_time(name)?.ok_or(BadRecord::Field(name))
    }

    fn optional_number<N: TryFrom<i64>>(&mut self, name: &'static str) -> Result<Option<N>, BadRecord> {
        let read = |raw| raw::whole(raw).and_then(|number| N::try_from(number).ok());
        self.0.take(name).map(|raw| read(raw).ok_or(BadRecord::Field(name))).transpose()
    }

    fn number<N: TryFrom<i64>>(&mut self, name: &'static str) -> Result<N, BadRecord> {
        self.optional_number(name)?.ok_or(BadRecord::Field(name))
    }

    fn object(&mut self, name: &'static str) -> Result<Option<&'a str>, BadRecord> {
        match self.0.take(name) {
            Some(raw) if raw.starts_with('{') => Ok(Some(raw)),
            Some(_) => Err(BadRecord::Field(name)),
            None => Ok(None),
        }
    }

    fn retry(&mut self) -> Result<JobRetry, BadRecord> {
        let raw = self.object("retry")?.ok_or(BadRecord::Field("retry"))?;
        let whole = RetryPatch::read(raw, "retry").map_err(|_| BadRecord::Field("retry"))?;
        Ok(whole.over(&JobRetry::default()))
    }

    fn tags(&mut self) -> Result<Vec<String>, BadRecord> {
        let Some(raw) = self.0.take("tags") else { return Ok(Vec::new()) };
        let texts = raw::items(raw).map(|items| items.into_iter().map(raw::text).collect());
        texts.flatten().ok_or(BadRecord::Field("tags"))
    }

    fn extra(&mut self) -> Result<Vec<(String, String)>, BadRecord> {
        let Some(raw) = self.object("extra")? else { return Ok(Vec::new()) };
        Ok(Fields::read(raw).map_err(|_| BadRecord::Field("extra"))?.rest())
    }
}

#[cfg(test)]
mod tests;
