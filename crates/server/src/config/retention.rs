//! `[retention]`, and the same under a source and under its queues: how long letters stay, how many, and what becomes of
//! them then. What is not set at one place comes from further out, so nothing here has a default.

use std::collections::BTreeMap;

use lazaret_core::duration::Length;
use lazaret_core::limits;
use lazaret_core::retention::{Effective, MaxCount, Origin, PruningPolicy, Retention};
use lazaret_store::job::SOURCE;
use serde::Serialize;

use super::check::parse_scalar;
use super::layer::{self, Given, Settings};
use super::problem::{Place, Problems, quoted};
use super::{Config, value};

/// What is set for one queue of a source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueConfig {
    pub retention: Retention,
}

/// How a limit is written that is switched off.
const NONE: &str = "none";

pub(super) fn check(path: &str, settings: &Settings, problems: &mut Problems) -> Retention {
    let at = |key: &str| format!("{path}.{key}");
    let mut age = |key: &str, ms_min: u64| {
        parse_scalar(settings, &at(key), &at(key), |text| length(text, ms_min), problems)
    };
    let max_age = age("max_age", limits::RETENTION_AGE_MS_MIN);
    let resolved_max_age = age("resolved_max_age", limits::RETENTION_AGE_MS_MIN);
    let discarded_max_age = age("discarded_max_age", limits::RETENTION_AGE_MS_MIN);
    let min_age = age("min_age", 0);
    Retention {
        max_age,
        max_count: parse_scalar(settings, &at("max_count"), &at("max_count"), max_count, problems),
        min_age,
        pruning_policy: parse_scalar(
            settings,
            &at("pruning_policy"),
            &at("pruning_policy"),
            pruning_policy,
            problems,
        ),
        resolved_max_age,
        discarded_max_age,
    }
}

/// What is set for queues of a source, by the names that letters give them.
pub(super) fn queues(
    path: &str,
    settings: &Settings,
    problems: &mut Problems,
) -> BTreeMap<String, QueueConfig> {
    let inside = format!("{path}.");
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (key, setting) in settings {
        let Some(rest) = key.strip_prefix(&inside) else { continue };
        match &setting.given {
            // The table of a queue knows the name as it was written; the tables inside of it do not.
            Given::Named(name) if layer::part(name) == rest => {
                names.insert(rest.to_owned(), name.clone());
            }
            // From the environment, where names are plain.
            _ if !rest.starts_with('"') => {
                let part = rest.split('.').next().unwrap_or_default();
                names.entry(part.to_owned()).or_insert_with(|| part.to_owned());
            }
            _ => {}
        }
    }
    let checked = names.into_iter().map(|(part, name)| {
        let retention = check(&format!("{inside}{part}.retention"), settings, problems);
        (name, QueueConfig { retention })
    });
    checked.collect()
}

/// Warns about letters that are deleted for good before the floor of 90 days. Letters of an outbox are an application's
/// business events: there it is an error, unless somebody acknowledges it.
pub(super) fn check_floor(config: &Config, settings: &Settings, problems: &mut Problems) {
    let jobs = (SOURCE, "jobs".to_owned(), &config.jobs.retention, &config.jobs.queues, None);
    let sources = config.sources.iter().map(|(name, source)| {
        let acknowledged = source.outbox.as_ref().map(|outbox| outbox.acknowledge_early_delete);
        (name.as_str(), format!("sources.{name}"), &source.retention, &source.queues, acknowledged)
    });
    for (source, path, own, queues, acknowledged) in [jobs].into_iter().chain(sources) {
        let nothing = Retention::default();
        let usual = Effective::of(source, &nothing, own, &config.retention);
        let named = queues
            .iter()
            .map(|(queue, it)| (Some(queue), Effective::of(source, &it.retention, own, &config.retention)));
        for (queue, effective) in [(None, usual)].into_iter().chain(named) {
            let is_own = queue.is_none()
                || effective.min_age != usual.min_age
                || effective.pruning_policy != usual.pruning_policy;
            if !is_own || !deletes_early(&effective) {
                continue;
            }
            let key = floor_key(&path, queue, &effective);
            let place = settings.get(&key).map_or(Place::File, |setting| setting.place.clone());
            let of_queue = queue.map(|queue| format!(", queue {}", quoted(queue))).unwrap_or_default();
            let message = format!(
                "letters of {source}{of_queue} are deleted for good after {}, before the floor of 90 days",
                effective.min_age.0
            );
            match acknowledged {
                Some(false) => problems.add_with_hint(place, &key, message, ACKNOWLEDGE_HINT),
                Some(true) | None => problems.warn(place, &key, message, FLOOR_HINT),
            }
        }
    }
}

const FLOOR_HINT: &str = "leave min_age at P90D, or set pruning_policy = \"archive\"";
const ACKNOWLEDGE_HINT: &str = "leave min_age at P90D, set pruning_policy = \"archive\", or acknowledge it with \
acknowledge_early_delete = true under the source";

fn deletes_early(effective: &Effective) -> bool {
    effective.pruning_policy.0 == PruningPolicy::Delete
        && effective.min_age.0.ms() < limits::RETENTION_FLOOR_MS
}

/// The key that lowers the floor.
fn floor_key(source: &str, queue: Option<&String>, effective: &Effective) -> String {
    let level = match (effective.min_age.1, queue) {
        (Origin::Queue, Some(queue)) => format!("{source}.queues.{}.retention", layer::part(queue)),
        (Origin::Queue, None) | (Origin::Source, _) => format!("{source}.retention"),
        (Origin::Global | Origin::Default, _) => "retention".to_owned(),
    };
    format!("{level}.min_age")
}

fn length(text: &str, ms_min: u64) -> Result<Length, String> {
    let length = Length::parse(text)
        .map_err(|_| format!("{} is not a length of time; write it like P180D or 90d", quoted(text)))?;
    let range = ms_min..=limits::RETENTION_AGE_MS_MAX;
    match u64::try_from(length.ms()).ok().filter(|ms| range.contains(ms)) {
        Some(_) => Ok(length),
        None => Err(format!("{} is out of range; write {}s to 36525d", quoted(text), ms_min / 1_000)),
    }
}

fn max_count(text: &str) -> Result<MaxCount, String> {
    if text == NONE {
        return Ok(MaxCount::None);
    }
    let letters = value::count(text, 1..=limits::RETENTION_COUNT_MAX);
    letters.map(MaxCount::Letters).map_err(|message| format!("{message}, nor \"{NONE}\""))
}

fn pruning_policy(text: &str) -> Result<PruningPolicy, String> {
    PruningPolicy::parse(text).ok_or_else(|| {
        let known = PruningPolicy::ALL.map(PruningPolicy::name).join(" or ");
        format!("{} is not known; write {known}", quoted(text))
    })
}

/// As it is written to a file.
#[derive(Serialize)]
pub(super) struct ShownRetention {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_count: Option<ShownCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_age: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruning_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_max_age: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discarded_max_age: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ShownCount {
    Letters(u64),
    None(&'static str),
}

#[derive(Serialize)]
pub(super) struct ShownQueue {
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<ShownRetention>,
}

/// Nothing, if nothing is set.
pub(super) fn shown(retention: &Retention) -> Option<ShownRetention> {
    let length = |length: Option<Length>| length.map(|length| length.to_string());
    let count = |count: MaxCount| match count {
        MaxCount::Letters(letters) => ShownCount::Letters(letters),
        MaxCount::None => ShownCount::None(NONE),
    };
    (*retention != Retention::default()).then(|| ShownRetention {
        max_age: length(retention.max_age),
        max_count: retention.max_count.map(count),
        min_age: length(retention.min_age),
        pruning_policy: retention.pruning_policy.map(PruningPolicy::name),
        resolved_max_age: length(retention.resolved_max_age),
        discarded_max_age: length(retention.discarded_max_age),
    })
}

pub(super) fn shown_queues(queues: &BTreeMap<String, QueueConfig>) -> BTreeMap<&str, ShownQueue> {
    let queue = |it: &QueueConfig| ShownQueue { retention: shown(&it.retention) };
    queues.iter().map(|(name, it)| (name.as_str(), queue(it))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_text, load_env, load_text};
    use super::*;

    fn days(days: i64) -> Option<Length> {
        Some(Length::from_ms(days * 86_400_000))
    }

    #[test]
    fn each_level_is_set_and_shown_as_it_is_set() {
        let text = "\
[retention]
max_age = '365d'
max_count = 50_000
min_age = 'P30D'
pruning_policy = 'archive'
resolved_max_age = '30d'
discarded_max_age = '60d'
[jobs.retention]
max_count = 'none'
[jobs.queues.mails.retention]
max_count = 100
[jobs.queues.'a.retention'.retention]
pruning_policy = 'delete'
[sources.orders]
kind = 'report'
[sources.orders.retention]
min_age = '0s'
[sources.orders.queues.'Big \"q\"'.retention]
max_age = '1d'
";
        let config = load_text(text).unwrap();
        let global = Retention {
            max_age: days(365),
            max_count: Some(MaxCount::Letters(50_000)),
            min_age: days(30),
            pruning_policy: Some(PruningPolicy::Archive),
            resolved_max_age: days(30),
            discarded_max_age: days(60),
        };
        assert_eq!(config.retention, global);
        assert_eq!(config.jobs.retention.max_count, Some(MaxCount::None));
        let queues: Vec<&String> = config.jobs.queues.keys().collect();
        assert_eq!(queues, ["a.retention", "mails"]);
        assert_eq!(config.jobs.queues["mails"].retention.max_count, Some(MaxCount::Letters(100)));
        let policy = config.jobs.queues["a.retention"].retention.pruning_policy;
        assert_eq!(policy, Some(PruningPolicy::Delete));
        let orders = &config.sources["orders"];
        assert_eq!(orders.retention.min_age, days(0));
        assert_eq!(orders.queues["Big \"q\""].retention.max_age, days(1));
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
    }

    #[test]
    fn deleting_before_the_floor_is_warned_about_and_refused_for_an_outbox() {
        let warned = |text: &str| -> Vec<String> {
            let checked = check_text(text);
            assert!(checked.config.is_ok(), "{text}: {checked:?}");
            checked.warnings.iter().map(ToString::to_string).collect()
        };
        let lowered = "[retention]\nmin_age = '30d'\n";
        let told = "deleted for good after P30D, before the floor of 90 days";
        assert_eq!(
            warned(lowered),
            [format!("lazaret.toml:2:11: retention.min_age: letters of jobs are {told}")]
        );
        assert_eq!(warned("[retention]\nmin_age = '30d'\npruning_policy = 'archive'\n"), [""; 0]);
        assert_eq!(warned("[retention]\npruning_policy = 'delete'\n"), [""; 0]);
        assert_eq!(
            warned("[jobs.queues.'a b'.retention]\nmin_age = '30d'\n"),
            [format!(
                "lazaret.toml:2:11: jobs.queues.\"a b\".retention.min_age: letters of jobs, queue \"a b\" are {told}"
            )]
        );

        let outbox =
            "[sources.orders]\nkind = 'outbox'\nurl = 'postgres://localhost/shop'\ntable = 'outbox'\n";
        let early = "[sources.orders.retention]\nmin_age = '30d'\npruning_policy = 'delete'\n";
        assert_eq!(warned(&format!("{outbox}[sources.orders.retention]\nmin_age = '30d'\n")), [""; 0]);
        let error = load_text(&format!("{outbox}{early}")).unwrap_err();
        let refused = format!("sources.orders.retention.min_age: letters of orders are {told}");
        assert!(error.to_string().ends_with(&refused), "{error}");
        assert!(error.hint().unwrap().contains("acknowledge_early_delete = true"), "{error:?}");
        let acknowledged = format!("{outbox}acknowledge_early_delete = true\n{early}");
        assert!(warned(&acknowledged)[0].ends_with(&refused));
        let config = load_text(&acknowledged).unwrap();
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
        let report = "[sources.orders]\nkind = 'report'\nacknowledge_early_delete = true\n";
        let error = load_text(report).unwrap_err().to_string();
        assert!(error.contains("a source of the kind report has no acknowledge_early_delete"), "{error}");
    }

    #[test]
    fn the_environment_reaches_each_level() {
        let config = load_env(&[
            ("LAZARET_RETENTION__MAX_COUNT", "none"),
            ("LAZARET_JOBS__RETENTION__MAX_AGE", "30d"),
            ("LAZARET_JOBS__QUEUES__MAILS__RETENTION__MAX_COUNT", "7"),
            ("LAZARET_SOURCES__REPORT__QUEUES__REPORT__RETENTION__MIN_AGE", "10d"),
        ])
        .unwrap();
        assert_eq!(config.retention.max_count, Some(MaxCount::None));
        assert_eq!(config.jobs.retention.max_age, days(30));
        assert_eq!(config.jobs.queues["mails"].retention.max_count, Some(MaxCount::Letters(7)));
        assert_eq!(config.sources["report"].queues["report"].retention.min_age, days(10));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let error = load_text("[retention]\nmax_age = '1y'").unwrap_err().to_string();
        assert!(error.contains("retention.max_age: \"1y\" is not a length of time"), "{error}");
        for (bad, told) in [
            ("max_age = '59s'", "max_age: \"59s\" is out of range; write 60s to 36525d"),
            ("resolved_max_age = '0s'", "out of range"),
            ("min_age = '99999d'", "out of range"),
            ("max_count = 0", "is not a number from 1 to 1000000000, nor \"none\""),
            ("max_count = 'all'", "nor \"none\""),
            ("max_count = true", "expected an integer, or \"none\""),
            ("pruning_policy = 'keep'", "write delete or archive"),
            ("max_agee = '1d'", "did you mean \"max_age\"?"),
        ] {
            for table in ["retention", "jobs.retention", "sources.report.queues.report.retention"] {
                let error = load_text(&format!("[{table}]\n{bad}")).unwrap_err().to_string();
                assert!(error.contains(told), "{bad}: {error}");
            }
        }
        let error = load_text("[jobs.queues.''.retention]\nmax_age = '1d'").unwrap_err().to_string();
        assert!(error.contains("jobs.queues: \"\" cannot name a queue"), "{error}");
        let error = load_text("[jobs.queues.mails]\nmax_age = '1d'").unwrap_err().to_string();
        assert!(error.contains("unknown key \"max_age\""), "{error}");
    }
}
