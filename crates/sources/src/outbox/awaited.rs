//! Rows that were redriven and whose outcome is awaited. An application may delete a row as soon as it was processed:
//! what the relay saw of it is then the only evidence.

use std::collections::HashMap;

use lazaret_core::limits;
use lazaret_core::time::Time;

/// Redriven rows by their keys, with the time at which the relay recorded them as processed. A process that starts knows
/// none; rows beyond the bound are not remembered.
#[derive(Default)]
pub(super) struct Awaited(HashMap<String, Option<Time>>);

impl Awaited {
    pub fn redriven(&mut self, key: &str) {
        if self.0.len() < limits::OUTBOX_AWAITED_MAX || self.0.contains_key(key) {
            self.0.insert(key.to_owned(), None);
        }
    }

    pub fn processed<'a>(&mut self, keys: impl Iterator<Item = &'a str>, at: Time) {
        for key in keys {
            if let Some(processed_at) = self.0.get_mut(key) {
                *processed_at = Some(at);
            }
        }
    }

    /// When the row was processed, if that was seen. It is not awaited any more.
    pub fn end(&mut self, key: &str) -> Option<Time> {
        self.0.remove(key).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_were_redriven_are_remembered_as_processed() {
        let (mut awaited, at) = (Awaited::default(), Time::from_ms(7));
        awaited.redriven("a");
        awaited.redriven("b");
        awaited.processed(["a", "c"].into_iter(), at);
        assert_eq!((awaited.end("a"), awaited.end("b"), awaited.end("c")), (Some(at), None, None));
        assert_eq!(awaited.end("a"), None);
    }
}
