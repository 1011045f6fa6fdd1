//! What a page was asked for in its query, with what means nothing left out.

use axum::extract::Query;

use super::format::encoded;
use crate::api::letters::Pairs;
use crate::api::problem::Problem;

/// The parameters of a page that say something, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Vec<(String, String)>);

impl Asked {
    /// A form sends its empty fields too: they ask for nothing.
    pub fn read(pairs: Pairs) -> Result<Asked, Problem> {
        let Query(pairs) = pairs?;
        Ok(Asked(pairs.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect()))
    }

    /// What a form asked for that is shown again.
    pub fn of(pairs: &[(&str, &str)]) -> Asked {
        let said = pairs.iter().filter(|(_, value)| !value.trim().is_empty());
        Asked(said.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim())
    }

    /// The same, or nothing: what stands in a field again.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// These parameters alone: what a handler of the API is asked.
    pub fn pairs(&self, names: &[&str]) -> Pairs {
        Ok(Query(self.0.iter().filter(|(key, _)| names.contains(&key.as_str())).cloned().collect()))
    }

    /// The address of a page with these parameters, and another value of one of them.
    pub fn with(&self, path: &str, names: &[&str], name: &str, value: &str) -> String {
        let mut address = format!("{path}?");
        for (key, kept) in self.0.iter().filter(|(key, _)| names.contains(&key.as_str()) && key != name) {
            address.push_str(&format!("{}={}&", encoded(key), encoded(kept.trim())));
        }
        address.push_str(&format!("{}={}", encoded(name), encoded(value)));
        address
    }
}

/// Parameters for a handler of the API.
pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    Ok(Query(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_what_was_asked_and_changes_one_thing() {
        let asked =
            Asked::read(pairs(&[("q", "queue:a b"), ("state", " "), ("cursor", "x"), ("y", "1")])).unwrap();
        assert_eq!(asked.get("state"), None);
        assert_eq!(
            asked.with("/jobs", &["q", "cursor"], "cursor", "a&b"),
            "/jobs?q=queue%3Aa+b&cursor=a%26b"
        );
    }
}
