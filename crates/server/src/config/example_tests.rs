//! The example file and the reference stay true: they load, they hold every key, and they tell the real defaults.

use super::tests::load_text;
use super::*;

const EXAMPLE: &str = include_str!("../../../../lazaret.example.toml");
const REFERENCE: &str = include_str!("../../../../docs/reference/configuration.md");

/// The example with its inactive keys made active: `#key`, where an explanation is `# Words`.
fn everything_active() -> String {
    let active = |line: &str| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()) => key.to_owned(),
        Some(_) | None => line.to_owned(),
    };
    EXAMPLE.lines().map(active).collect::<Vec<_>>().join("\n")
}

/// The keys of a table and of all below it, as the reference writes them.
fn keys_of(table: &toml::Table, outer: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for (name, value) in table {
        let name = match outer {
            "sources" => "<name>",
            "sources.<name>.subscribers" => "<id>",
            "sources.<name>.queues" | "jobs.queues" => "<queue>",
            "sources.<name>.relay.classes" => "<class>",
            "alerts.receivers" => "<receiver>",
            _ => name,
        };
        let path = schema::join(outer, name);
        match value {
            toml::Value::Table(inner) => keys.extend(keys_of(inner, &path)),
            toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
                for item in items {
                    keys.extend(keys_of(item.as_table().unwrap(), &format!("{path}[]")));
                }
            }
            _ => keys.push(path),
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

#[test]
fn the_example_is_the_default_configuration() {
    assert_eq!(load_text(EXAMPLE).unwrap(), Config::default());
}

#[test]
fn the_example_loads_with_every_key_active() {
    let config = load_text(&everything_active()).unwrap();
    assert_eq!(config.class_rules.len(), 1);
    assert_eq!(config.fingerprint_rules.len(), 2);
    assert_eq!(config.replay_rules.len(), 1);
    assert_eq!(
        config.sources.keys().collect::<Vec<_>>(),
        [
            "billing",
            "events",
            "events-by-file",
            "events-by-nkey",
            "events-by-user",
            "orders",
            "orders-by-certificate",
            "report",
            "shop"
        ]
    );
    let path = |name: &str| config.sources[name].aggregate.as_ref().map(|path| path.text().to_owned());
    assert_eq!(path("billing").as_deref(), Some("$.payload.invoiceId"));
    assert_eq!(path("report").as_deref(), Some("$.payload.orderId"));
}

#[test]
fn the_example_holds_every_key_there_is() {
    let active: toml::Table = everything_active().parse().unwrap();
    let keys = keys_of(&active, "");
    for path in schema::paths("<name>") {
        let inside = format!("{path}[]");
        assert!(keys.iter().any(|key| *key == path || key.starts_with(&inside)), "{path}");
    }
    for list in ["class_rules", "fingerprint_rules", "replay_rules", "alerts.rules", "alerts.routes"] {
        let shape = list.split('.').fold(schema::ROOT, |shape, part| shape.child(part).unwrap());
        let schema::Shape::Entries(rule_keys) = shape else { panic!() };
        for key in *rule_keys {
            assert!(keys.contains(&format!("{list}[].{}", key.name)), "{list}: {}", key.name);
        }
    }
}

#[test]
fn the_reference_names_every_key_of_the_example() {
    let active: toml::Table = everything_active().parse().unwrap();
    for key in keys_of(&active, "") {
        assert!(
            REFERENCE.contains(&format!("| `{key}` |")),
            "{key} is not in docs/reference/configuration.md"
        );
    }
}

#[test]
fn the_example_states_each_default_beside_its_key() {
    let lines: Vec<&str> = EXAMPLE.lines().collect();
    for (index, line) in lines.iter().enumerate().skip(1) {
        if let (Some(stated), Some((_, value))) =
            (lines[index - 1].strip_prefix("# Default: "), line.split_once(" = "))
            && (stated == "true." || stated.starts_with(|c: char| c == '"' || c.is_ascii_digit()))
        {
            assert_eq!(stated, format!("{value}."), "{line}");
        }
    }
}
