//! `[jobs]`: how long ended jobs and dead letters are kept, what a retry asks for, and which pages may call the job routes.

use std::collections::BTreeMap;

use lazaret_core::duration::Length;
use lazaret_core::gate::Governance;
use lazaret_core::limits;
use lazaret_core::retention::Retention;
use serde::Serialize;

use super::check::{parse_scalar, parse_texts};
use super::layer::Settings;
use super::problem::{Problems, quoted};
use super::retention::{self, QueueConfig, ShownQueue, ShownRetention};
use super::value;

/// What is set for the built-in source of jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobsConfig {
    /// How long jobs are kept that ended in these states and are not in the dead letter.
    pub keep_completed_ms: i64,
    pub keep_cancelled_ms: i64,
    pub keep_discarded_ms: i64,
    pub governance: Governance,
    /// Origins of pages that may call `/ojs` from a browser, in lower case.
    pub allowed_origins: Vec<String>,
    /// How long its letters stay.
    pub retention: Retention,
    /// What is set for single queues.
    pub queues: BTreeMap<String, QueueConfig>,
}

impl Default for JobsConfig {
    fn default() -> JobsConfig {
        JobsConfig {
            keep_completed_ms: limits::JOB_KEEP_COMPLETED_MS,
            keep_cancelled_ms: limits::JOB_KEEP_CANCELLED_MS,
            keep_discarded_ms: limits::JOB_KEEP_DISCARDED_MS,
            governance: Governance::Optional,
            allowed_origins: Vec::new(),
            retention: Retention::default(),
            queues: BTreeMap::new(),
        }
    }
}

pub(super) fn check(settings: &Settings, problems: &mut Problems) -> JobsConfig {
    let defaults = JobsConfig::default();
    let mut kept = |path: &str, default: i64| {
        let length = |text: &str| value::length_ms(text, limits::JOB_KEEP_MS_MAX);
        let given = parse_scalar(settings, path, path, length, problems);
        given.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(default)
    };
    let keep_completed_ms = kept("jobs.keep_completed", defaults.keep_completed_ms);
    let keep_cancelled_ms = kept("jobs.keep_cancelled", defaults.keep_cancelled_ms);
    let keep_discarded_ms = kept("jobs.keep_discarded", defaults.keep_discarded_ms);
    let path = "jobs.governance";
    let governance = parse_scalar(settings, path, path, governance, problems);
    let path = "jobs.allowed_origins";
    JobsConfig {
        keep_completed_ms,
        keep_cancelled_ms,
        keep_discarded_ms,
        governance: governance.unwrap_or(defaults.governance),
        allowed_origins: parse_texts(settings, path, path, origin, problems),
        retention: retention::check("jobs.retention", settings, problems),
        queues: retention::queues("jobs.queues", settings, problems),
    }
}

pub(super) fn governance(text: &str) -> Result<Governance, String> {
    Governance::parse(text).ok_or_else(|| {
        let known = Governance::ALL.map(Governance::name).join(" or ");
        format!("{} is not known; write {known}", quoted(text))
    })
}

/// What a browser sends as `Origin`, in lower case. No pattern: whoever is let in by name is let in with a token.
fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host.map(value::allowed_host) {
        Some(Ok(_)) => Ok(text.to_ascii_lowercase()),
        Some(Err(_)) | None => {
            Err(format!("{} is not an origin; write it like https://jobs.example.org", quoted(text)))
        }
    }
}

/// As it is written to a file.
#[derive(Serialize)]
pub(super) struct ShownJobs<'a> {
    keep_completed: String,
    keep_cancelled: String,
    keep_discarded: String,
    governance: &'a str,
    allowed_origins: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<ShownRetention>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    queues: BTreeMap<&'a str, ShownQueue>,
}

pub(super) fn shown(jobs: &JobsConfig) -> ShownJobs<'_> {
    let length = |ms: i64| Length::from_ms(ms).to_string();
    ShownJobs {
        keep_completed: length(jobs.keep_completed_ms),
        keep_cancelled: length(jobs.keep_cancelled_ms),
        keep_discarded: length(jobs.keep_discarded_ms),
        governance: jobs.governance.name(),
        allowed_origins: &jobs.allowed_origins,
        retention: retention::shown(&jobs.retention),
        queues: retention::shown_queues(&jobs.queues),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load_text;
    use super::*;

    #[test]
    fn jobs_are_set_and_shown_as_they_are_set() {
        let text = "[jobs]\nkeep_completed = \"2h\"\nkeep_cancelled = \"P1D\"\nkeep_discarded = \"30d\"\n\
                    governance = \"required\"\n\
                    allowed_origins = [\"https://Jobs.example.org\", \"http://127.0.0.1:5173\"]";
        let config = load_text(text).unwrap();
        let expected = JobsConfig {
            keep_completed_ms: 7_200_000,
            keep_cancelled_ms: 86_400_000,
            keep_discarded_ms: 30 * 86_400_000,
            governance: Governance::Required,
            allowed_origins: vec!["https://jobs.example.org".into(), "http://127.0.0.1:5173".into()],
            ..JobsConfig::default()
        };
        assert_eq!(config.jobs, expected);
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
    }

    #[test]
    fn what_makes_no_sense_for_jobs_is_told() {
        for (bad, told) in [
            ("keep_completed = \"0s\"", "out of range"),
            ("keep_completed = \"soon\"", "not a length of time"),
            ("keep_discarded = \"99999d\"", "out of range"),
            ("governance = \"strict\"", "optional or required"),
            ("allowed_origins = [\"*\"]", "not an origin"),
            ("allowed_origins = [\"null\"]", "not an origin"),
            ("allowed_origins = [\"example.org\"]", "not an origin"),
            ("allowed_origins = [\"https://*.example.org\"]", "not an origin"),
            ("allowed_origins = [\"https://example.org/\"]", "not an origin"),
            ("allowed_origins = \"https://example.org\"", "list of texts"),
            ("max_age = \"P180D\"", "unknown"),
        ] {
            let error = load_text(&format!("[jobs]\n{bad}")).unwrap_err().to_string();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }
}
