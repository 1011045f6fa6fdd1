//! Settings from the environment: `LAZARET_A__B` is the key `a.b`.
//!
//! Repeats the names of variables and never their values, any of which may be a secret under a misspelt name.

use super::layer::{self, Given, Setting, Settings};
use super::problem::{Place, Problems};
use super::schema::{self, ROOT, Shape};

const PREFIX: &str = "LAZARET_";

/// Set for the client and for our own tests.
const FOREIGN_NAMES: [&str; 2] = ["LAZARET_URL", "LAZARET_TOKEN"];
const FOREIGN_PREFIX: &str = "LAZARET_TORTURE_";

/// Reads the variables that are configuration and passes over those that are not ours.
pub(super) fn read(env: impl IntoIterator<Item = (String, String)>, problems: &mut Problems) -> Settings {
    let mut settings = Settings::new();
    for (name, value) in env {
        let is_foreign = FOREIGN_NAMES.contains(&name.as_str()) || name.starts_with(FOREIGN_PREFIX);
        if name.starts_with(PREFIX) && !is_foreign {
            settings.extend(read_variable(&name, &value, problems));
        }
    }
    settings
}

fn read_variable(name: &str, value: &str, problems: &mut Problems) -> Settings {
    let place = Place::Variable(name.to_owned());
    let Some((path, shape)) = find(name) else {
        let mut message = "unknown environment variable".to_owned();
        if let Some(known) = suggest(name) {
            message.push_str(&format!("; did you mean {known}?"));
        }
        problems.add_with_hint(place, "", message, schema::KEYS_HINT);
        return Settings::new();
    };
    if let Some(source) = path.strip_prefix("sources.").and_then(|rest| rest.split('.').next())
        && let Err(message) = layer::check_source_name(source)
    {
        problems.add(place, "sources", message);
        return Settings::new();
    }
    if let Some((_, rest)) = path.split_once(".subscribers.")
        && let Err(message) = layer::check_subscriber(rest.split('.').next().unwrap_or_default())
    {
        problems.add(place, "sources", message);
        return Settings::new();
    }
    if let Some((_, rest)) = path.split_once(".queues.")
        && let Err(message) = layer::check_queue(rest.split('.').next().unwrap_or_default())
    {
        problems.add(place, "queues", message);
        return Settings::new();
    }
    if let Some((_, rest)) = path.split_once(".relay.classes.")
        && let Err(message) = layer::check_class(rest.split('.').next().unwrap_or_default())
    {
        problems.add(place, "classes", message);
        return Settings::new();
    }
    let given = match shape {
        Shape::Text
        | Shape::Flag
        | Shape::Count
        | Shape::Number
        | Shape::CountOrNone
        | Shape::Size
        | Shape::Length
        | Shape::Status => {
            if let Err(message) = layer::check_text(value) {
                problems.add(place, &path, message);
                return Settings::new();
            }
            Given::Scalar(value.to_owned())
        }
        Shape::Texts if !value.trim_start().starts_with('[') => {
            let texts = value.split(',').map(str::trim).filter(|text| !text.is_empty());
            Given::Texts(texts.map(|text| (text.to_owned(), place.clone())).collect())
        }
        Shape::Texts | Shape::Filter | Shape::Entries(_) => {
            return layer::read_value(name, &path, shape, value.trim(), problems);
        }
        Shape::Table(_) => {
            problems.add(place, &path, format!("is a table; set its keys, each as {name}__KEY"));
            return Settings::new();
        }
        Shape::Named(_, _) => {
            problems.add(place, &path, format!("holds tables; set their keys, each as {name}__NAME__KEY"));
            return Settings::new();
        }
    };
    Settings::from([(path, Setting { given, place })])
}

/// The path and the shape that a variable's name stands for.
fn find(name: &str) -> Option<(String, &'static Shape)> {
    let key = name.strip_prefix(PREFIX)?;
    // A dot would look like a level.
    if key.bytes().any(|byte| byte.is_ascii_lowercase() || byte == b'.') {
        return None;
    }
    let parts: Vec<String> = key.split("__").map(str::to_lowercase).collect();
    let mut shape = ROOT;
    for part in &parts {
        shape = shape.child(part)?;
    }
    Some((parts.join("."), shape))
}

/// Compares without the prefix, which would make everything look alike.
fn suggest(name: &str) -> Option<String> {
    let key = name.strip_prefix(PREFIX)?;
    let second = key.split("__").nth(1).map(str::to_lowercase);
    let named = second.filter(|name| layer::check_source_name(name).is_ok()).unwrap_or("name".to_owned());
    let known = schema::paths(&named).into_iter().map(|path| path.replace('.', "__"));
    schema::nearest(key, known).map(|key| format!("{PREFIX}{}", key.to_uppercase()))
}
