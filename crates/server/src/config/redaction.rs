//! `[redaction]`: what is masked where letters are shown.

use lazaret_core::json_path::Query;
use lazaret_core::limits;
use lazaret_core::redaction::{Redactor, Rules};
use serde::Serialize;

use super::check::{parse_scalar, parse_texts};
use super::layer::{Given, Setting, Settings};
use super::problem::{Problems, quoted};
use super::value;

/// What an operator wants masked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedactionConfig {
    pub enabled: bool,
    pub rules: Rules,
    /// Whether those who may not reveal may look for what stands inside of letters.
    pub search: bool,
}

impl Default for RedactionConfig {
    fn default() -> RedactionConfig {
        RedactionConfig { enabled: true, rules: Rules::default(), search: true }
    }
}

impl RedactionConfig {
    /// The rules ready to mask with.
    pub fn redactor(&self) -> Redactor {
        if self.enabled { Redactor::new(self.rules.clone()) } else { Redactor::off() }
    }
}

pub(super) fn check(settings: &Settings, problems: &mut Problems) -> RedactionConfig {
    let defaults = RedactionConfig::default();
    let flag = |key: &str, default: bool, problems: &mut Problems| {
        let path = format!("redaction.{key}");
        parse_scalar(settings, &path, &path, value::flag, problems).unwrap_or(default)
    };
    for key in ["headers", "keys", "paths"] {
        let path = format!("redaction.{key}");
        if let Some(Setting { given: Given::Texts(texts), place }) = settings.get(&path)
            && texts.len() > limits::REDACTION_RULES_MAX
        {
            let message =
                format!("has {} entries; at most {} are taken", texts.len(), limits::REDACTION_RULES_MAX);
            problems.add(place.clone(), &path, message);
        }
    }
    let path = |text: &str| {
        let query = Query::parse(text).map_err(|bad| format!("{} {bad}", quoted(text)))?;
        match query.is_root() {
            true => Err(format!("{} is the whole body; name a part of it", quoted(text))),
            false => Ok(query),
        }
    };
    RedactionConfig {
        enabled: flag("enabled", defaults.enabled, problems),
        rules: Rules {
            defaults: flag("defaults", defaults.rules.defaults, problems),
            headers: parse_texts(settings, "redaction.headers", "redaction.headers", name, problems),
            keys: parse_texts(settings, "redaction.keys", "redaction.keys", name, problems),
            paths: parse_texts(settings, "redaction.paths", "redaction.paths", path, problems),
            card_numbers: flag("card_numbers", defaults.rules.card_numbers, problems),
        },
        search: flag("search", defaults.search, problems),
    }
}

/// A name, which may hold `*`. A path among names would match nothing, and nobody would notice.
fn name(text: &str) -> Result<String, String> {
    let name = value::name(text)?;
    if name.starts_with('$') {
        return Err(format!("{} is a path; put it into redaction.paths", quoted(text)));
    }
    if !name.chars().any(|c| c.is_alphanumeric() || c == '*') {
        return Err(format!("{} is no name", quoted(text)));
    }
    Ok(name)
}

/// As it is written to a file.
#[derive(Serialize)]
pub(super) struct ShownRedaction<'a> {
    enabled: bool,
    defaults: bool,
    headers: &'a [String],
    keys: &'a [String],
    paths: Vec<&'a str>,
    card_numbers: bool,
    search: bool,
}

pub(super) fn shown(redaction: &RedactionConfig) -> ShownRedaction<'_> {
    let rules = &redaction.rules;
    ShownRedaction {
        enabled: redaction.enabled,
        defaults: rules.defaults,
        headers: &rules.headers,
        keys: &rules.keys,
        paths: rules.paths.iter().map(Query::text).collect(),
        card_numbers: rules.card_numbers,
        search: redaction.search,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load_text;
    use super::*;

    #[test]
    fn redaction_is_set_and_shown_as_it_is_set() {
        let text = "[redaction]\nenabled = true\ndefaults = false\nheaders = [\"X-Session-*\"]\nkeys = [\"iban\"]\n\
                    paths = [\"$.customer.taxId\", \"$..diagnosis\"]\ncard_numbers = false\nsearch = false";
        let config = load_text(text).unwrap();
        let paths = ["$.customer.taxId", "$..diagnosis"].map(|path| Query::parse(path).unwrap());
        let expected = RedactionConfig {
            enabled: true,
            rules: Rules {
                defaults: false,
                headers: vec!["X-Session-*".into()],
                keys: vec!["iban".into()],
                paths: paths.to_vec(),
                card_numbers: false,
            },
            search: false,
        };
        assert_eq!(config.redaction, expected);
        assert_eq!(load_text(&config.to_toml()).unwrap(), config);
        assert!(load_text("[redaction]\nenabled = false").unwrap().redactor().is_off());
    }

    #[test]
    fn what_makes_no_sense_for_redaction_is_told() {
        let many = format!("keys = [{}]", "\"a\",".repeat(limits::REDACTION_RULES_MAX + 1));
        for (bad, told) in [
            ("enabled = \"maybe\"", "true or false"),
            ("keys = [\"\"]", "redaction.keys"),
            ("keys = [\"$.a\"]", "redaction.paths"),
            ("headers = [\"--\"]", "no name"),
            ("paths = [\"customer\"]", "redaction.paths"),
            ("paths = [\"$..a..b\"]", "more than once"),
            ("paths = [\"$\"]", "whole body"),
            ("key = [\"a\"]", "unknown"),
            (many.as_str(), "at most 100"),
        ] {
            let error = load_text(&format!("[redaction]\n{bad}")).unwrap_err().to_string();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }
}
