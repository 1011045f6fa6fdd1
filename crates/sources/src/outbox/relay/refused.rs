//! Rows that the database refuses to change, for example because a trigger of the application does. They are left out of
//! claims for a while, so that they do not stop the others, and shown to people.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lazaret_core::limits;

/// A row that cannot be changed, and what the database says about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRow {
    pub key: String,
    pub why: String,
}

#[derive(Default)]
pub(super) struct RefusedRows(BTreeMap<String, (String, Instant)>);

impl RefusedRows {
    pub fn add(&mut self, key: &str, why: &str, now: Instant) {
        // A table that refuses everything is told of by its first rows.
        if self.0.len() < limits::RELAY_REFUSED_ROWS_MAX || self.0.contains_key(key) {
            self.0.insert(key.to_owned(), (why.to_owned(), now));
        }
    }

    /// The keys to leave out now. Those that were refused long ago are tried again.
    pub fn keys(&mut self, now: Instant) -> Vec<String> {
        let lasts = Duration::from_millis(limits::RELAY_REFUSED_MS);
        self.0.retain(|_, (_, since)| now.duration_since(*since) < lasts);
        self.0.keys().cloned().collect()
    }

    pub fn list(&self) -> Vec<RefusedRow> {
        self.0.iter().map(|(key, (why, _))| RefusedRow { key: key.clone(), why: why.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_row_is_left_out_for_a_while() {
        let mut rows = RefusedRows::default();
        let now = Instant::now();
        rows.add("7", "no", now);
        assert_eq!(rows.keys(now), ["7"]);
        assert_eq!(rows.list(), [RefusedRow { key: "7".to_owned(), why: "no".to_owned() }]);
        assert!(rows.keys(now + Duration::from_millis(limits::RELAY_REFUSED_MS)).is_empty());
    }

    #[test]
    fn no_more_rows_are_kept_than_a_person_can_read() {
        let mut rows = RefusedRows::default();
        let now = Instant::now();
        for key in 0..limits::RELAY_REFUSED_ROWS_MAX + 5 {
            rows.add(&key.to_string(), "no", now);
        }
        assert_eq!(rows.keys(now).len(), limits::RELAY_REFUSED_ROWS_MAX);
    }
}
