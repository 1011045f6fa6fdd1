//! The operator's rules of grouping: what they apply to, and what they do.

use lazaret_core::fingerprint::{FingerprintRule, RuleConditions, RuleEffect, SplitBy};
use lazaret_core::pattern::Pattern;

use super::check::{parse_scalar, parse_texts};
use super::layer::{Entry, Given, Setting, Settings};
use super::problem::{Problems, quoted};
use super::value;

const CONDITIONS: [&str; 6] = ["source", "type", "error_type", "code", "message", "frame"];

/// The rules in their order; bad ones are reported and left out.
pub(super) fn rules(settings: &Settings, problems: &mut Problems) -> Vec<FingerprintRule> {
    let Some(Setting { given: Given::Entries(entries), .. }) = settings.get("fingerprint_rules") else {
        return Vec::new();
    };
    let mut rules: Vec<FingerprintRule> = Vec::new();
    for entry in entries {
        let Some(rule) = rule(entry, problems) else { continue };
        // Letters are shown with the name of their rule: it has to lead to one.
        if rules.iter().any(|known| known.name == rule.name) {
            let message = format!("there is another rule with the name {}", quoted(&rule.name));
            problems.add(entry.place.clone(), &entry.path, message);
        }
        rules.push(rule);
    }
    rules
}

fn rule(entry: &Entry, problems: &mut Problems) -> Option<FingerprintRule> {
    let mut text = |key: &str| parse_scalar(&entry.settings, key, &path(entry, key), value::name, problems);
    let name = text("name");
    let mut pattern = |key: &str| text(key).map(Pattern::new);
    let when = RuleConditions {
        source: pattern("source"),
        letter_type: pattern("type"),
        error_type: pattern("error_type"),
        code: pattern("code"),
        message: pattern("message"),
        frame: pattern("frame"),
    };
    let then = effect(entry, problems);
    let given = |key: &str| entry.settings.contains_key(key);
    if !given("name") {
        problems.add(entry.place.clone(), &entry.path, "name is missing".to_owned());
    }
    if !CONDITIONS.into_iter().any(given) {
        let message = format!("has no condition; give at least one of {}", CONDITIONS.join(", "));
        problems.add(entry.place.clone(), &entry.path, message);
    }
    // What is missing by now was given and bad, and has been reported as such.
    Some(FingerprintRule { name: name?, when, then: then? })
}

fn effect(entry: &Entry, problems: &mut Problems) -> Option<RuleEffect> {
    let has = |key: &str| entry.settings.contains_key(key);
    match (has("group"), has("split_by")) {
        (true, false) => {
            let key = parse_scalar(&entry.settings, "group", &path(entry, "group"), value::name, problems);
            key.map(RuleEffect::Group)
        }
        (false, true) => {
            let at = path(entry, "split_by");
            let given = parse_texts(&entry.settings, "split_by", &at, split, problems);
            if matches!(entry.settings.get("split_by"), Some(Setting { given: Given::Texts(texts), .. }) if texts.is_empty())
            {
                problems.add(entry.place.clone(), &at, format!("is empty; known are {}", known_splits()));
            }
            // In one order and once each: what says the same has to be the same.
            let parts: Vec<SplitBy> =
                SplitBy::ALL.into_iter().filter(|split| given.contains(split)).collect();
            (!parts.is_empty()).then_some(RuleEffect::SplitBy(parts))
        }
        (true, true) | (false, false) => {
            let message = "needs one of group and split_by, and not both".to_owned();
            problems.add(entry.place.clone(), &entry.path, message);
            None
        }
    }
}

fn path(entry: &Entry, key: &str) -> String {
    format!("{}.{key}", entry.path)
}

fn split(text: &str) -> Result<SplitBy, String> {
    SplitBy::parse(text)
        .ok_or_else(|| format!("{} cannot split groups; known are {}", quoted(text), known_splits()))
}

fn known_splits() -> String {
    SplitBy::ALL.map(SplitBy::name).join(", ")
}
