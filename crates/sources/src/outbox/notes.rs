//! What a trigger on the table tells: that rows are due, and which are dead.

use serde::Deserialize;

/// The channel that every table of a database notifies on.
pub(super) const CHANNEL: &str = "lazaret_outbox";

/// One statement of the application's, as far as we care.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Note {
    /// Whether rows may be due for a relay.
    pub due: bool,
    pub dead: Dead,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Dead {
    /// These rows, if any.
    Rows(Vec<String>),
    /// More than a notification holds.
    Many,
}

#[derive(Deserialize)]
struct Told {
    table: String,
    due: bool,
    dead: Option<Vec<String>>,
}

impl Note {
    /// Reads a notification. One about another table tells nothing; one that cannot be read may have been about this.
    pub fn parse(payload: &str, table: &str) -> Option<Note> {
        match serde_json::from_str::<Told>(payload) {
            Ok(told) if told.table != table => None,
            Ok(told) => Some(Note { due: told.due, dead: told.dead.map_or(Dead::Many, Dead::Rows) }),
            Err(_) => Some(Note { due: true, dead: Dead::Many }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_rows_or_says_that_there_are_many() {
        let parse = |payload| Note::parse(payload, "app.outbox");
        let some = parse(r#"{"table": "app.outbox", "due": true, "dead": ["7"]}"#).unwrap();
        assert_eq!(some, Note { due: true, dead: Dead::Rows(vec!["7".to_owned()]) });
        let many = parse(r#"{"table": "app.outbox", "due": false, "dead": null}"#).unwrap();
        assert_eq!(many, Note { due: false, dead: Dead::Many });
        assert_eq!(parse(r#"{"table": "app.other", "due": true, "dead": ["7"]}"#), None);
        assert_eq!(parse("x").unwrap().dead, Dead::Many);
    }
}
