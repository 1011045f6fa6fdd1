//! A job's own retry policy: read, checked, merged field by field over another one, and written back.
//!
//! What the client wrote is what it reads again: intervals keep their text and fields that we do not know stay. The
//! delays themselves are those of `retry`, so no job is tried again sooner than its floor says.

use std::collections::BTreeSet;

use crate::duration::Length;
use crate::limits;
use crate::retry::{Growth, Jitter, Preset, RetryPolicy};

use super::problem::{JobProblem, ProblemKind};
use super::raw::{self, Fields, ObjectText, number};

/// When a job is tried again, and what happens when that is over.
#[derive(Clone, PartialEq, Debug)]
pub struct JobRetry {
    /// Runs in all, the first one included; 0 and 1 both mean that the first failure is final.
    pub max_attempts: u32,
    pub initial_interval: Interval,
    pub backoff_coefficient: f64,
    pub max_interval: Interval,
    pub jitter: bool,
    /// Error types that are not retried; `auth.*` stands for everything that begins with `auth.`.
    pub non_retryable_errors: Vec<String>,
    pub on_exhaustion: OnExhaustion,
    pub backoff_strategy: Backoff,
    /// Fields that we have no name for, verbatim.
    pub extra: Vec<(String, String)>,
}

/// A length of time and the ISO 8601 text that the client wrote for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    ms: u64,
    text: String,
}

/// What becomes of a job that will not be tried again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnExhaustion {
    Discard,
    DeadLetter,
}

/// How delays grow. `none` and `constant` are the same under two names, and the client reads back its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Backoff {
    None,
    Constant,
    Linear,
    Exponential,
    Polynomial,
}

impl Interval {
    pub fn from_ms(ms: u64) -> Interval {
        let shown = i64::try_from(ms).unwrap_or(i64::MAX);
        Interval { ms, text: Length::from_ms(shown).to_string() }
    }

    pub fn ms(&self) -> u64 {
        self.ms
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

impl OnExhaustion {
    pub const ALL: [OnExhaustion; 2] = [OnExhaustion::Discard, OnExhaustion::DeadLetter];

    pub const fn name(self) -> &'static str {
        match self {
            OnExhaustion::Discard => "discard",
            OnExhaustion::DeadLetter => "dead_letter",
        }
    }

    pub fn parse(text: &str) -> Option<OnExhaustion> {
        OnExhaustion::ALL.into_iter().find(|end| end.name() == text)
    }
}

impl Backoff {
    pub const ALL: [Backoff; 5] =
        [Backoff::None, Backoff::Constant, Backoff::Linear, Backoff::Exponential, Backoff::Polynomial];

    pub const fn name(self) -> &'static str {
        match self {
            Backoff::None => "none",
            Backoff::Constant => "constant",
            Backoff::Linear => "linear",
            Backoff::Exponential => "exponential",
            Backoff::Polynomial => "polynomial",
        }
    }

    pub fn parse(text: &str) -> Option<Backoff> {
        Backoff::ALL.into_iter().find(|backoff| backoff.name() == text)
    }

    pub const fn growth(self) -> Growth {
        match self {
            Backoff::None | Backoff::Constant => Growth::Constant,
            Backoff::Linear => Growth::Linear,
            Backoff::Exponential => Growth::Exponential,
            Backoff::Polynomial => Growth::Polynomial,
        }
    }
}

/// The policy of a job that brings none.
impl Default for JobRetry {
    fn default() -> JobRetry {
        let preset = Preset::Ojs.policy();
        JobRetry {
            max_attempts: preset.attempts,
            initial_interval: Interval::from_ms(preset.first_ms),
            backoff_coefficient: preset.factor,
            max_interval: Interval::from_ms(preset.cap_ms),
            jitter: true,
            non_retryable_errors: Vec::new(),
            on_exhaustion: OnExhaustion::Discard,
            backoff_strategy: Backoff::Exponential,
            extra: Vec::new(),
        }
    }
}

impl JobRetry {
    /// The same policy as `retry` sees it.
    pub fn policy(&self) -> RetryPolicy {
        let preset = Preset::Ojs.policy();
        RetryPolicy {
            attempts: self.max_attempts.max(1),
            first_ms: self.initial_interval.ms,
            factor: self.backoff_coefficient,
            growth: self.backoff_strategy.growth(),
            cap_ms: self.max_interval.ms,
            jitter: if self.jitter { preset.jitter } else { Jitter::None },
            ..preset
        }
    }

    /// The delay after failed attempt `n`, counted from 1; `unit` is a random number from 0 to 1.
    pub fn delay_ms(&self, n: u32, unit: f64) -> u64 {
        self.policy().delay_ms(n, unit)
    }

    /// Whether failing at `attempt` leaves no other one.
    pub fn is_exhausted_by(&self, attempt: u32) -> bool {
        attempt >= self.max_attempts.max(1)
    }

    /// Whether the policy names this error type, by itself or by a prefix that ends with a dot.
    pub fn is_non_retryable(&self, error_type: &str) -> bool {
        self.non_retryable_errors.iter().any(|entry| match entry.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('.') => error_type.starts_with(prefix),
            Some(_) | None => entry == error_type,
        })
    }

    /// The whole policy as the wire wants it.
    pub fn to_json(&self) -> String {
        raw::object_onto(String::with_capacity(256), |object| self.add_to(object))
    }

    /// Adds its fields to an object.
    pub(super) fn add_to(&self, object: &mut ObjectText) {
        object.number("max_attempts", self.max_attempts);
        object.text("initial_interval", &self.initial_interval.text);
        object.raw("backoff_coefficient", &serde_json::Value::from(self.backoff_coefficient).to_string());
        object.text("max_interval", &self.max_interval.text);
        object.raw("jitter", if self.jitter { "true" } else { "false" });
        object.texts("non_retryable_errors", self.non_retryable_errors.iter().map(String::as_str));
        object.text("on_exhaustion", self.on_exhaustion.name());
        object.text("backoff_strategy", self.backoff_strategy.name());
        for (name, json) in &self.extra {
            object.raw(name, json);
        }
    }
}

/// What a client says about retries: any part of a policy, each part checked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RetryPatch {
    pub max_attempts: Option<u32>,
    pub initial_interval: Option<Interval>,
    pub backoff_coefficient: Option<f64>,
    pub max_interval: Option<Interval>,
    pub jitter: Option<bool>,
    pub non_retryable_errors: Option<Vec<String>>,
    pub on_exhaustion: Option<OnExhaustion>,
    pub backoff_strategy: Option<Backoff>,
    pub extra: Vec<(String, String)>,
}

impl RetryPatch {
    /// Reads the JSON text of an object; `path` is where it stands in the request.
    pub fn read(text: &str, path: &str) -> Result<RetryPatch, JobProblem> {
        let reader = Reader { path };
        let mut fields = Fields::read(text)
            .map_err(|_| reader.bad("", format!("be an object, not {}", raw::kind(text))))?;
        let patch = RetryPatch {
            max_attempts: reader.attempts(fields.take("max_attempts"))?,
            initial_interval: reader.interval(&mut fields, "initial_interval", "initial_interval_ms")?,
            backoff_coefficient: reader.coefficient(fields.take("backoff_coefficient"))?,
            max_interval: reader.interval(&mut fields, "max_interval", "max_interval_ms")?,
            jitter: reader.yes_or_no(fields.take("jitter"))?,
            non_retryable_errors: reader.entries(fields.take("non_retryable_errors"))?,
            on_exhaustion: reader.on_exhaustion(fields.take("on_exhaustion"))?,
            backoff_strategy: {
                let (name, alias) = (fields.take("backoff_strategy"), fields.take("backoff_type"));
                reader.strategy(name.or(alias))?
            },
            extra: fields.rest(),
        };
        if let (Some(first), Some(max)) = (&patch.initial_interval, &patch.max_interval)
            && max.ms < first.ms
        {
            let wanted = format!("be at least initial_interval ({}), not {}", first.text, max.text);
            return Err(reader.bad("max_interval", wanted));
        }
        Ok(patch)
    }

    /// This over `base`, field by field. Of two intervals of which only one is given, the other one gives way, because
    /// the client cannot know the base's.
    pub fn over(&self, base: &JobRetry) -> JobRetry {
        let mut initial_interval = self.initial_interval.as_ref().unwrap_or(&base.initial_interval).clone();
        let mut max_interval = self.max_interval.as_ref().unwrap_or(&base.max_interval).clone();
        if max_interval.ms < initial_interval.ms {
            match self.max_interval {
                Some(_) => initial_interval = max_interval.clone(),
                None => max_interval = initial_interval.clone(),
            }
        }
        let given: BTreeSet<&str> = self.extra.iter().map(|(name, _)| name.as_str()).collect();
        let mut extra = base.extra.clone();
        extra.retain(|(name, _)| !given.contains(name.as_str()));
        extra.extend(self.extra.iter().cloned());
        JobRetry {
            max_attempts: self.max_attempts.unwrap_or(base.max_attempts),
            initial_interval,
            backoff_coefficient: self.backoff_coefficient.unwrap_or(base.backoff_coefficient),
            max_interval,
            jitter: self.jitter.unwrap_or(base.jitter),
            non_retryable_errors: self
                .non_retryable_errors
                .as_ref()
                .unwrap_or(&base.non_retryable_errors)
                .clone(),
            on_exhaustion: self.on_exhaustion.unwrap_or(base.on_exhaustion),
            backoff_strategy: self.backoff_strategy.unwrap_or(base.backoff_strategy),
            extra,
        }
    }
}

/// Reads the parts of one policy and knows where it stands.
struct Reader<'a> {
    path: &'a str,
}

impl Reader<'_> {
    fn bad(&self, name: &str, wanted: impl AsRef<str>) -> JobProblem {
        let field = if name.is_empty() { self.path.to_owned() } else { format!("{}.{name}", self.path) };
        JobProblem::new(ProblemKind::ValidationError, &field, format!("{field} must {}", wanted.as_ref()))
    }

    fn attempts(&self, raw: Option<&str>) -> Result<Option<u32>, JobProblem> {
        let Some(raw) = raw else { return Ok(None) };
        let attempts = raw::whole(raw).filter(|n| (0..=i64::from(limits::JOB_ATTEMPTS_MAX)).contains(n));
        match attempts.and_then(|n| u32::try_from(n).ok()) {
            Some(attempts) => Ok(Some(attempts)),
            None => Err(self.bad(
                "max_attempts",
                format!("be a whole number from 0 to {}, not {}", limits::JOB_ATTEMPTS_MAX, raw::shown(raw)),
            )),
        }
    }

    fn interval(&self, fields: &mut Fields<'_>, iso: &str, ms: &str) -> Result<Option<Interval>, JobProblem> {
        let (iso_raw, ms_raw) = (fields.take(iso), fields.take(ms));
        let (name, raw, interval) = match (iso_raw, ms_raw) {
            (Some(raw), _) => {
                let text = raw::text(raw);
                let interval = text.and_then(|text| iso_ms(&text).map(|ms| Interval { ms, text }));
                (iso, raw, interval)
            }
            (None, Some(raw)) => {
                (ms, raw, raw::whole(raw).and_then(|ms| u64::try_from(ms).ok()).map(Interval::from_ms))
            }
            (None, None) => return Ok(None),
        };
        match interval.filter(|interval| (1..=limits::RETRY_DELAY_MS_MAX).contains(&interval.ms)) {
            Some(interval) => Ok(Some(interval)),
            None => {
                let wanted = "be longer than nothing and at most a year, written like PT1S";
                Err(self.bad(name, format!("{wanted}, not {}", raw::shown(raw))).hinted(ISO_HINT))
            }
        }
    }

    fn coefficient(&self, raw: Option<&str>) -> Result<Option<f64>, JobProblem> {
        let Some(raw) = raw else { return Ok(None) };
        match number(raw).filter(|factor| factor.is_finite() && *factor >= 1.0) {
            Some(factor) => Ok(Some(factor)),
            None => {
                let wanted = format!("be a number of at least 1.0, not {}", raw::shown(raw));
                Err(self.bad("backoff_coefficient", wanted))
            }
        }
    }

    fn yes_or_no(&self, raw: Option<&str>) -> Result<Option<bool>, JobProblem> {
        match raw {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(raw) => Err(self.bad("jitter", format!("be true or false, not {}", raw::shown(raw)))),
        }
    }

    fn entries(&self, raw: Option<&str>) -> Result<Option<Vec<String>>, JobProblem> {
        let Some(raw) = raw else { return Ok(None) };
        let bad = || self.bad("non_retryable_errors", "be an array of error types that are not empty");
        let mut entries = Vec::new();
        for item in raw::items(raw).ok_or_else(bad)? {
            entries.push(raw::text(item).filter(|entry| !entry.is_empty()).ok_or_else(bad)?);
        }
        Ok(Some(entries))
    }

    fn on_exhaustion(&self, raw: Option<&str>) -> Result<Option<OnExhaustion>, JobProblem> {
        let Some(raw) = raw else { return Ok(None) };
        let end = raw::text(raw).and_then(|text| OnExhaustion::parse(&text));
        let wanted = || format!("be discard or dead_letter, not {}", raw::shown(raw));
        end.map(Some).ok_or_else(|| self.bad("on_exhaustion", wanted()))
    }

    fn strategy(&self, raw: Option<&str>) -> Result<Option<Backoff>, JobProblem> {
        let Some(raw) = raw else { return Ok(None) };
        let backoff = raw::text(raw).and_then(|text| Backoff::parse(&text));
        let names = Backoff::ALL.map(Backoff::name).join(", ");
        backoff.map(Some).ok_or_else(|| {
            self.bad("backoff_strategy", format!("be one of {names}, not {}", raw::shown(raw)))
        })
    }
}

const ISO_HINT: &str = "lengths of time are ISO 8601, such as PT1S, PT0.5S, PT5M or P1D";

/// Milliseconds of an ISO 8601 length. Other ways to write one are refused: a worker in another language has to
/// understand it too.
pub(super) fn iso_ms(text: &str) -> Option<u64> {
    let rest = text.strip_prefix('P')?;
    // Fractions belong to seconds alone; weeks, signs, commas and lower case are not in the specification.
    let plain = rest.bytes().all(|byte| byte.is_ascii_digit() || b"DTHMS.".contains(&byte));
    let fraction_of_seconds = rest.split_once('.').is_none_or(|(whole, fraction)| {
        whole.ends_with(|c: char| c.is_ascii_digit())
            && fraction
                .strip_suffix('S')
                .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    });
    if !plain || !fraction_of_seconds {
        return None;
    }
    u64::try_from(Length::parse(text).ok()?.ms()).ok()
}

#[cfg(test)]
mod tests;
