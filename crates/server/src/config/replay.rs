//! The operator's replay rules: which letters go back by themselves, when, and how often.

use lazaret_core::class::Category;
use lazaret_core::duration::Length;
use lazaret_core::filter::Filter;
use lazaret_core::limits;
use lazaret_core::replay::ReplayRule;
use serde_json::Value;

use super::check::parse_scalar;
use super::layer::{Entry, Given, Setting, Settings};
use super::problem::{Problems, quoted};
use super::value;

const REQUIRED: [&str; 5] = ["name", "filter", "delay", "max_replays", "category"];

/// The rules in their order; bad ones are reported and left out.
pub(super) fn rules(settings: &Settings, problems: &mut Problems) -> Vec<ReplayRule> {
    let Some(Setting { given: Given::Entries(entries), place }) = settings.get("replay_rules") else {
        return Vec::new();
    };
    if entries.len() > limits::REPLAY_RULES_MAX {
        let message = format!("more than {} rules", limits::REPLAY_RULES_MAX);
        problems.add(place.clone(), "replay_rules", message);
    }
    let mut rules: Vec<ReplayRule> = Vec::new();
    for entry in entries {
        let Some(rule) = rule(entry, problems) else { continue };
        // What a rule has done and whether it is switched off is kept under its name.
        if rules.iter().any(|known| known.name == rule.name) {
            let message = format!("there is another rule with the name {}", quoted(&rule.name));
            problems.add(entry.place.clone(), &entry.path, message);
        }
        rules.push(rule);
    }
    rules
}

fn rule(entry: &Entry, problems: &mut Problems) -> Option<ReplayRule> {
    for key in REQUIRED {
        if entry.settings.contains_key(key) {
            continue;
        }
        let message = match key {
            "category" => {
                "category is missing; a rule is a standing RCA, so say what kind of failure it is about: \
                           \"infrastructure\" or \"contract\""
                    .to_owned()
            }
            key => format!("{key} is missing"),
        };
        problems.add(entry.place.clone(), &entry.path, message);
    }
    let name = scalar(entry, "name", name, problems);
    let filter = filter(entry, problems);
    let delay = scalar(entry, "delay", delay, problems);
    let max_replays = scalar(entry, "max_replays", max_replays, problems);
    let enabled = scalar(entry, "enabled", value::flag, problems);
    let cause = scalar(entry, "cause", value::filled, problems);
    let category = scalar(entry, "category", category, problems);
    // What is missing by now was missing or bad, and has been reported as such.
    Some(ReplayRule {
        name: name?,
        filter: filter?,
        delay: delay?,
        max_replays: max_replays?,
        enabled: enabled.unwrap_or(true),
        cause,
        category: category?,
    })
}

fn scalar<T>(
    entry: &Entry,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
    problems: &mut Problems,
) -> Option<T> {
    parse_scalar(&entry.settings, key, &format!("{}.{key}", entry.path), parse, problems)
}

fn name(text: &str) -> Result<String, String> {
    match ReplayRule::check_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(message) => Err(format!("{} {message}", quoted(text))),
    }
}

/// None at all is a delay too: the letter goes back at once.
fn delay(text: &str) -> Result<Length, String> {
    let length = Length::parse(text)
        .map_err(|_| format!("{} is not a length of time; write it like 15m, 24h or PT1H", quoted(text)))?;
    let days = limits::REPLAY_DELAY_MS_MAX / 86_400_000;
    match u64::try_from(length.ms()) {
        Ok(ms) if ms <= limits::REPLAY_DELAY_MS_MAX => Ok(length),
        Ok(_) | Err(_) => Err(format!("{} is out of range; write 0s to {days}d", quoted(text))),
    }
}

fn max_replays(text: &str) -> Result<u32, String> {
    let number = value::count(text, 1..=u64::from(limits::REPLAYS_MAX))?;
    u32::try_from(number).map_err(|_| format!("{} is too large", quoted(text)))
}

fn category(text: &str) -> Result<Category, String> {
    match Category::parse(text) {
        // It would die of itself again, however long it lay.
        Some(Category::PoisonPill) => {
            Err("\"poison_pill\" is never redriven automatically: discard such letters".to_owned())
        }
        Some(Category::Business) => {
            Err("\"business\" letters are redriven by the decision of an approver, never by a rule"
                .to_owned())
        }
        Some(category @ (Category::Infrastructure | Category::Contract)) => Ok(category),
        None => Err(format!("{} is not a category; write \"infrastructure\" or \"contract\"", quoted(text))),
    }
}

/// The filter as text, or as a table of the same keys as in JSON, which may be written as everything here is.
fn filter(entry: &Entry, problems: &mut Problems) -> Option<Filter> {
    let setting = entry.settings.get("filter")?;
    let read = match &setting.given {
        Given::Scalar(text) => Filter::from_text(text),
        Given::Table(value) => Filter::from_json(&camel_keys(value)),
        Given::Texts(_) | Given::Entries(_) | Given::Named(_) | Given::Unusable => return None,
    };
    let checked = read.map_err(|error| error.to_string()).and_then(|filter| {
        ReplayRule::check(&filter).map_err(|refused| refused.to_string())?;
        Ok(filter)
    });
    match checked {
        Ok(filter) => Some(filter),
        Err(message) => {
            problems.add(setting.place.clone(), &format!("{}.filter", entry.path), message);
            None
        }
    }
}

/// `error_type` is `errorType` in JSON.
fn camel_keys(value: &Value) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    let renamed = object.iter().map(|(name, value)| (camel(name), camel_keys(value)));
    Value::Object(renamed.collect())
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut camel = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::tests::load_text;

    const GOOD: [&str; 5] = [
        "name = 'r'",
        "filter = 'queue:q'",
        "delay = 'PT1H'",
        "max_replays = 3",
        "category = 'infrastructure'",
    ];

    /// A good rule whose line for the same key is another one.
    fn with(line: &str) -> String {
        let key = line.split(' ').next().unwrap();
        let others = GOOD.into_iter().filter(|good| good.split(' ').next() != Some(key));
        let lines: Vec<&str> = others.chain([line]).collect();
        format!("[[replay_rules]]\n{}\n", lines.join("\n"))
    }

    fn only_rule(config: Config) -> ReplayRule {
        let [rule] = config.replay_rules.try_into().unwrap();
        rule
    }

    #[test]
    fn a_rule_is_read_as_the_specification_writes_it_and_as_we_do() {
        let text = "[[replay_rules]]\nname = 'retry-connection-errors'\ndelay = 'PT1H'\nmax_replays = 3\nenabled = true\n\
                    category = 'infrastructure'\n";
        let as_table =
            load_text(&format!("{text}[replay_rules.filter]\nerror_type = 'ConnectionError'\nqueue = 'q'\n"));
        let as_text = load_text(&format!("{text}filter = 'error:ConnectionError queue:q'\n"));
        let rule = only_rule(as_table.unwrap());
        assert_eq!(rule, only_rule(as_text.unwrap()));
        assert_eq!(rule.filter.to_string(), "queue:q error:ConnectionError");
        assert_eq!((rule.delay.ms(), rule.max_replays, rule.enabled), (3_600_000, 3, true));
        assert_eq!((rule.cause, rule.category), (None, Category::Infrastructure));
    }

    #[test]
    fn a_table_holds_what_json_does() {
        let line = "filter = { queue = ['a', 'b'], not = { error_type = 'X' }, age = { max = '7d' }, retry_count = 2 }";
        let rule = only_rule(load_text(&with(line)).unwrap());
        assert_eq!(rule.filter.to_string(), "queue:a,b -error:X age:<P7D retries:2");
    }

    #[test]
    fn what_is_left_out_or_said_otherwise() {
        let rule = only_rule(load_text(&with("delay = '0s'")).unwrap());
        assert!(rule.enabled && rule.delay.ms() == 0);
        let more = "enabled = false\ncause = 'the bank restarts'";
        let rule = only_rule(load_text(&format!("{}{more}\n", with("category = 'contract'"))).unwrap());
        assert_eq!((rule.enabled, rule.category), (false, Category::Contract));
        assert_eq!(rule.cause.as_deref(), Some("the bank restarts"));
    }

    #[test]
    fn each_mistake_is_named() {
        let cases = [
            (
                "name = ''",
                "replay_rules[0].name: \"\" is not a name for a rule; use 1 to 64 of a-z, 0-9, _ and -",
            ),
            ("name = 'A b'", "replay_rules[0].name: \"A b\" is not a name for a rule"),
            ("filter = ''", "replay_rules[0].filter: matches every letter there is"),
            ("filter = {}", "replay_rules[0].filter: matches every letter there is"),
            (
                "filter = 'status:pending source:jobs'",
                "replay_rules[0].filter: matches every letter there is",
            ),
            ("filter = 'queue:q status:resolved'", "asks for a status that is not pending"),
            ("filter = 'source:report'", "asks for a source other than jobs"),
            ("filter = 'queu:q'", "queu"),
            ("filter = { errortyp = 'x' }", "errortyp"),
            ("filter = { queue = 1 }", "a string or a list of strings"),
            ("filter = { age = { max = { max = { max = 1 } } } }", "replay_rules[0].filter: too deep"),
            ("filter = 3", "expected a filter such as"),
            ("delay = 'soon'", "\"soon\" is not a length of time; write it like 15m, 24h or PT1H"),
            ("delay = '9999d'", "is out of range; write 0s to 365d"),
            ("delay = 60", "expected a length of time"),
            ("max_replays = 0", "\"0\" is not a number from 1 to 1000"),
            ("max_replays = -1", "is not a number from 1 to 1000"),
            ("max_replays = 'x'", "expected an integer"),
            ("enabled = 'yes'", "expected true or false"),
            ("cause = ' '", "replay_rules[0].cause: is empty"),
            ("category = 'poison_pill'", "\"poison_pill\" is never redriven automatically"),
            ("category = 'business'", "\"business\" letters are redriven by the decision of an approver"),
            (
                "category = 'weather'",
                "\"weather\" is not a category; write \"infrastructure\" or \"contract\"",
            ),
            ("every = '5m'", "unknown key \"every\""),
        ];
        for (line, expected) in cases {
            let error = load_text(&with(line)).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn what_is_required_is_asked_for_and_names_are_one_rule_s() {
        let error = load_text("[[replay_rules]]\n").unwrap_err().to_string();
        for key in REQUIRED {
            assert!(error.contains(&format!("replay_rules[0]: {key} is missing")), "{error}");
        }
        let twice = [with("delay = '1h'"), with("delay = '2h'")].concat();
        let error = load_text(&twice).unwrap_err().to_string();
        assert!(error.contains("replay_rules[1]: there is another rule with the name \"r\""), "{error}");
        let many: String = (0..=limits::REPLAY_RULES_MAX).map(|n| with(&format!("name = 'r{n}'"))).collect();
        let error = load_text(&many).unwrap_err().to_string();
        assert!(error.contains("replay_rules: more than 100 rules"), "{error}");
    }

    #[test]
    fn what_is_shown_loads_to_the_same() {
        let lines = [
            "filter = { queue = ['a b', 'c:\"d'], path = '$.x[?@.y==1]', text = 'no answer' }",
            "cause = 'the \"bank\" restarts'",
            "enabled = false",
            "delay = '90m'",
        ];
        for line in lines {
            let config = load_text(&with(line)).unwrap();
            assert_eq!(load_text(&config.to_toml()).unwrap(), config, "{line}");
        }
    }
}
