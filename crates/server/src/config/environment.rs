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

/// Reads the variables that are configuration and passes over those that are not ours. One that is unknown is warned
/// about: others may set variables with our prefix.
pub(super) fn read(env: impl IntoIterator<Item = (String, String)>, problems: &mut Problems) -> Settings {
    let mut settings = Settings::new();
    for (name, value) in env {
        let is_foreign = FOREIGN_NAMES.contains(&name.as_str()) || name.starts_with(FOREIGN_PREFIX);
        if name.starts_with(PREFIX) && !is_foreign && !is_service_link(&name, &value) {
            settings.extend(read_variable(&name, &value, problems));
        }
    }
    settings
}

/// Returns true for the variables that Kubernetes and Docker set in every container for a service whose name begins
/// with `lazaret`: `…_SERVICE_HOST`, `…_SERVICE_PORT[_NAME]`, `…_PORT` and `…_PORT_<n>_<protocol>[_PART]`.
fn is_service_link(name: &str, value: &str) -> bool {
    if find(name).is_some() {
        return false;
    }
    // A port by itself is a mistake of ours, such as LAZARET_PORT=8080; a link has an address.
    let links_port = name.ends_with("_PORT") && value.contains("://");
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || links_port
        || name.match_indices("_PORT_").any(|(at, port)| is_port_and_protocol(&name[at + port.len()..]))
}

/// Returns true for `7070_TCP`, `7070_TCP_ADDR` and the like.
fn is_port_and_protocol(rest: &str) -> bool {
    let mut parts = rest.split('_');
    let is_number = |part: &str| part.parse::<u16>().is_ok();
    parts.next().is_some_and(is_number)
        && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
        && matches!(parts.next(), None | Some("PROTO" | "PORT" | "ADDR"))
        && parts.next().is_none()
}

fn read_variable(name: &str, value: &str, problems: &mut Problems) -> Settings {
    let place = Place::Variable(name.to_owned());
    let Some((path, shape)) = find(name) else {
        let mut message = "unknown environment variable".to_owned();
        if let Some(known) = suggest(name) {
            message.push_str(&format!("; did you mean {known}?"));
        }
        problems.warn(place, "", message, schema::KEYS_HINT);
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
    if let Some(rest) = path.strip_prefix("alerts.receivers.")
        && let Err(message) = layer::check_receiver(rest.split('.').next().unwrap_or_default())
    {
        problems.add(place, "alerts.receivers", message);
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
            let message = format!("is a table; set its keys, each as {name}__KEY");
            problems.warn(place, &path, message, schema::KEYS_HINT);
            return Settings::new();
        }
        Shape::Named(_, _) => {
            let message = format!("holds tables; set their keys, each as {name}__NAME__KEY");
            problems.warn(place, &path, message, schema::KEYS_HINT);
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
    if key == "PORT" || key == "HOST" {
        return Some(format!("{PREFIX}LISTEN"));
    }
    let second = key.split("__").nth(1).map(str::to_lowercase);
    let named = second.filter(|name| layer::check_source_name(name).is_ok()).unwrap_or("name".to_owned());
    let known = schema::paths(&named).into_iter().map(|path| path.replace('.', "__"));
    schema::nearest(key, known).map(|key| format!("{PREFIX}{}", key.to_uppercase()))
}
