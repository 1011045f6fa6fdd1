//! Which names a query looks at: whoever may not see a value must not be able to ask for it either.

use super::Query;
use super::syntax::{Logical, Path, Pattern, Segment, Selector, Value};

impl Query {
    /// Whether an answer to the query could tell something of a value under a hidden name: because it goes by that name,
    /// or because it ends at whatever there is.
    pub fn may_see(&self, is_hidden: &dyn Fn(&str) -> bool) -> bool {
        segments(&self.segments, is_hidden)
    }

    /// The last name on the way, which says best what is selected.
    pub fn last_name(&self) -> Option<&str> {
        let selectors = self.segments.iter().rev().flat_map(|segment| segment.selectors.iter().rev());
        selectors.into_iter().find_map(|selector| match selector {
            Selector::Name(name) => Some(name.as_str()),
            Selector::Any | Selector::Index(_) | Selector::Slice(_) | Selector::Filter(_) => None,
        })
    }
}

fn segments(way: &[Segment], is_hidden: &dyn Fn(&str) -> bool) -> bool {
    let ends_anywhere = way
        .last()
        .is_some_and(|last| last.selectors.iter().any(|selector| matches!(selector, Selector::Any)));
    ends_anywhere
        || way.iter().flat_map(|segment| &segment.selectors).any(|selector| match selector {
            Selector::Name(name) => is_hidden(name),
            Selector::Filter(logical) => holds(logical, is_hidden),
            Selector::Any | Selector::Index(_) | Selector::Slice(_) => false,
        })
}

fn holds(logical: &Logical, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    match logical {
        Logical::Any(parts) | Logical::All(parts) => parts.iter().any(|part| holds(part, is_hidden)),
        Logical::Not(part) => holds(part, is_hidden),
        Logical::Exists(path) => segments(&path.segments, is_hidden),
        Logical::Compare(one, _, other) => value(one, is_hidden) || value(other, is_hidden),
        Logical::Matches { text, pattern } => {
            let looked = match pattern {
                Pattern::Fixed(_) => false,
                Pattern::Looked(pattern, _) => value(pattern, is_hidden),
            };
            looked || value(text, is_hidden)
        }
    }
}

fn value(value: &Value, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::Literal(_) => false,
        Value::Single(path) | Value::Only(path) => compared(path, is_hidden),
        Value::Length(inner) => self::value(inner, is_hidden),
        Value::Count(path) => segments(&path.segments, is_hidden),
    }
}

/// A path that is `@` alone is every value that the filter passes by.
fn compared(path: &Path, is_hidden: &dyn Fn(&str) -> bool) -> bool {
    path.segments.is_empty() || segments(&path.segments, is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_could_tell_of_a_hidden_value_is_known() {
        let may_see = |text: &str| Query::parse(text).unwrap().may_see(&|name| name == "password");
        for seeing in [
            "$.password",
            "$..password",
            "$.a['password'].b",
            "$.*",
            "$..*",
            "$.a[*]",
            "$[?@.password == 'x']",
            "$[?search(@.password, '^h')]",
            "$[?@ == 'x']",
            "$.a[?length(@.password) == 3].id",
            "$.a[?@.b == $.password]",
            "$[?@.*]",
        ] {
            assert!(may_see(seeing), "{seeing}");
        }
        for blind in ["$", "$.a", "$.items[*].sku", "$.items[0]", "$..sku", "$.items[?@.sku == 'x']"] {
            assert!(!may_see(blind), "{blind}");
        }
    }

    #[test]
    fn the_last_name_is_found_behind_indexes() {
        for (text, expected) in [("$.a.b", Some("b")), ("$.a[*][0]", Some("a")), ("$", None), ("$[0]", None)]
        {
            assert_eq!(Query::parse(text).unwrap().last_name(), expected, "{text}");
        }
    }
}
