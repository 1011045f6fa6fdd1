//! What is shown of letters and jobs, by the rules of redaction in force: copies in which hidden values are masked.
//!
//! Only the doors through which people look come here. Capture, grouping, redrive, receipts, workers and exports never
//! do: they need what was there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use lazaret_core::header::Headers;
use lazaret_core::job::Job;
use lazaret_core::redaction::{MASK, Redactor};
use serde_json::value::RawValue;

/// Masks in place, and knows whether there was anything to mask.
#[derive(Debug)]
pub(crate) struct Masker<'a> {
    redactor: &'a Redactor,
    hid: AtomicBool,
}

impl<'a> Masker<'a> {
    pub fn new(redactor: &'a Redactor) -> Masker<'a> {
        Masker { redactor, hid: AtomicBool::new(false) }
    }

    /// Whether something was masked so far.
    pub fn hid(&self) -> bool {
        self.hid.load(Ordering::Relaxed)
    }

    /// Takes note of something that was masked elsewhere.
    pub fn note(&self) {
        self.hid.store(true, Ordering::Relaxed);
    }

    /// Words.
    pub fn text(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(masked) = self.redactor.text(text) {
            *text = masked;
            self.note();
        }
    }

    /// Words of which only the beginning was kept.
    pub fn cut(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(masked) = self.redactor.text_cut(text) {
            *text = masked;
        }
    }

    pub fn maybe(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// A JSON text.
    pub fn json_text(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(masked) = self.redactor.json_text(text) {
            *text = masked;
            self.note();
        }
    }

    pub fn json(&self, raw: &mut Box<RawValue>) {
        if let std::borrow::Cow::Owned(masked) = self.redactor.json_text(raw.get()) {
            // What is masked stays JSON; if it ever did not, nothing is shown of it.
            *raw = RawValue::from_string(masked).unwrap_or_else(|_| RawValue::NULL.to_owned());
            self.note();
        }
    }

    pub fn headers(&self, headers: &mut Headers) {
        for (name, value) in headers {
            if let std::borrow::Cow::Owned(masked) = self.redactor.header_value(name, value)
                && masked != *value
            {
                *value = masked;
                self.note();
            }
        }
    }

    /// The fields of an object, which have names themselves.
    pub fn fields(&self, fields: &mut BTreeMap<String, Box<RawValue>>) {
        for (name, raw) in fields {
            if self.redactor.hides(name) && !matches!(raw.get(), "null" | "true" | "false" | "\"\"") {
                *raw = serde_json::value::to_raw_value(MASK).unwrap_or_else(|_| RawValue::NULL.to_owned());
                self.note();
            } else {
                self.json(raw);
            }
        }
    }

    /// A job as it is shown to whoever does not work on it.
    pub fn job(&self, mut job: Job) -> Job {
        self.json_text(&mut job.args);
        self.json_text(&mut job.meta);
        for (name, json) in &mut job.extra {
            match self.redactor.hides(name) {
                true => *json = format!("\"{MASK}\""),
                false => self.json_text(json),
            }
        }
        for error in &mut job.errors {
            self.text(&mut error.message);
            self.maybe(&mut error.backtrace);
            for json in [&mut error.details, &mut error.extra].into_iter().flatten() {
                self.json_text(json);
            }
        }
        if let Some(result) = &mut job.result {
            self.json_text(result);
        }
        job
    }
}
