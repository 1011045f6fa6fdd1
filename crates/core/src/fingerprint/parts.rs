//! What made a fingerprint, for people who ask why letters are one group, and for finding groups that are alike.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::fingerprint::excerpt;
use crate::fingerprint::language::Language;
use crate::limits;

/// What made the fingerprint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    pub letter_type: String,
    /// Normalised name of the root cause; empty if none is told.
    pub error_type: String,
    /// The language of the backtrace, if one was recognised.
    pub language: Option<Language>,
    /// Normalised frames, nearest the failure first: the program's own, or one of a library where it has none.
    pub frames: Vec<String>,
    /// The root's message with placeholders.
    pub template: String,
    /// The name of the operator's rule that decided, if one did.
    pub rule: Option<String>,
}

impl Parts {
    /// One line for a card; never empty.
    pub fn title(&self) -> String {
        let mut title = match (self.error_type.as_str(), self.template.lines().next().unwrap_or("")) {
            ("", "") => String::from("Error"),
            ("", template) => template.to_string(),
            (name, "") => name.to_string(),
            (name, template) => format!("{name}: {template}"),
        };
        let place = self.frames.first().map_or(String::new(), |frame| format!(" in {frame}"));
        let place = excerpt::beginning(&place, limits::TITLE_BYTES_MAX / 2);
        let room = limits::TITLE_BYTES_MAX - place.len();
        if title.len() > room {
            const CUT: &str = "…";
            title.truncate(title.floor_char_boundary(room - CUT.len()));
            title.push_str(CUT);
        }
        title.push_str(place);
        title
    }

    /// JSON text for a store.
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
        put("letter_type", self.letter_type.clone().into());
        put("error_type", self.error_type.clone().into());
        put("language", self.language.map_or(Value::Null, |language| language.name().into()));
        put("frames", self.frames.clone().into());
        put("template", self.template.clone().into());
        put("rule", self.rule.clone().map_or(Value::Null, Value::from));
        Value::Object(object).to_string()
    }

    /// Reads what `to_json` wrote. Fields that are missing are empty, because older versions may have had fewer.
    pub fn from_json(text: &str) -> Option<Parts> {
        let Value::Object(object) = serde_json::from_str(text).ok()? else { return None };
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(String::from);
        let frames = object.get("frames").and_then(Value::as_array);
        Some(Parts {
            letter_type: text("letter_type").unwrap_or_default(),
            error_type: text("error_type").unwrap_or_default(),
            language: text("language").and_then(|name| Language::parse(&name)),
            frames: frames
                .map(|frames| frames.iter().filter_map(Value::as_str).map(String::from).collect())
                .unwrap_or_default(),
            template: text("template").unwrap_or_default(),
            rule: text("rule"),
        })
    }

    /// How alike two groups are, from 0 to 1. The letter's type counts little: one cause breaks many types.
    pub fn similarity(&self, other: &Parts) -> f64 {
        let mut sum = 0.0;
        let mut weights = 0.0;
        let mut weigh = |weight: f64, alike: Option<f64>| {
            if let Some(alike) = alike {
                sum += weight * alike;
                weights += weight;
            }
        };
        weigh(0.3, same(&self.error_type, &other.error_type));
        weigh(0.1, same(&self.letter_type, &other.letter_type));
        weigh(0.3, overlap(self.frames.iter().map(String::as_str), other.frames.iter().map(String::as_str)));
        weigh(0.3, overlap(words(&self.template), words(&other.template)));
        if weights == 0.0 { 0.0 } else { sum / weights }
    }
}

fn same(one: &str, other: &str) -> Option<f64> {
    (!one.is_empty() || !other.is_empty()).then_some(if one == other { 1.0 } else { 0.0 })
}

fn words(template: &str) -> impl Iterator<Item = &str> {
    template
        .split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '<' | '>'))
        .filter(|word| !word.is_empty())
}

/// Shared members among all; `None` when neither has any.
fn overlap<'a>(one: impl Iterator<Item = &'a str>, other: impl Iterator<Item = &'a str>) -> Option<f64> {
    let one: BTreeSet<&str> = one.collect();
    let other: BTreeSet<&str> = other.collect();
    let all = one.union(&other).count();
    (all > 0).then(|| one.intersection(&other).count() as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts {
            letter_type: "order.paid".into(),
            error_type: "SocketTimeoutException".into(),
            language: Some(Language::Java),
            frames: vec!["PaymentGateway.charge".into()],
            template: "Read timed out after <number>".into(),
            rule: None,
        }
    }

    #[test]
    fn a_title_says_what_and_where() {
        assert_eq!(
            parts().title(),
            "SocketTimeoutException: Read timed out after <number> in PaymentGateway.charge"
        );
        assert_eq!(Parts::default().title(), "Error");
    }

    #[test]
    fn a_title_is_bounded_whatever_the_parts_hold() {
        let long = Parts { template: "ü".repeat(1_000), frames: vec!["ß".repeat(1_000)], ..parts() };
        assert!(long.title().len() <= limits::TITLE_BYTES_MAX);
    }

    #[test]
    fn parts_are_read_back_from_a_store() {
        let mut parts = parts();
        assert_eq!(Parts::from_json(&parts.to_json()), Some(parts.clone()));
        parts.rule = Some("mine".into());
        parts.language = None;
        assert_eq!(Parts::from_json(&parts.to_json()), Some(parts));
        assert_eq!(Parts::from_json("[]"), None);
        assert_eq!(Parts::from_json("{}"), Some(Parts::default()));
    }

    #[test]
    fn similarity_grows_with_what_is_shared() {
        let one = parts();
        assert_eq!(one.similarity(&one), 1.0);
        let near = Parts { template: "Connect timed out after <number>".into(), ..parts() };
        let far = Parts { error_type: "KeyError".into(), frames: vec!["x.y".into()], ..near.clone() };
        assert!(one.similarity(&near) > one.similarity(&far));
        assert_eq!(one.similarity(&near), near.similarity(&one));
        assert_eq!(Parts::default().similarity(&Parts::default()), 0.0);
    }
}
