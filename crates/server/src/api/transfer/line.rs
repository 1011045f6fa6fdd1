//! The lines of an export: each letter under the hash of its exact text, and at the end a hash over all hashes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::letter::NotTaken;
use crate::api::wire::hex;

/// What was written or read so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Over the hex of the hashes of all letters, one behind the other.
    hashes: Sha256,
    letters: u64,
}

/// What a line turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line<'a> {
    /// The text of a letter that has its hash.
    Letter(&'a str),
    /// The end, and whether it fits what was before it.
    End { right: bool },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form<'a> {
    sha256: Cow<'a, str>,
    #[serde(borrow)]
    letter: Option<&'a RawValue>,
    end: Option<End>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    letters: u64,
}

impl Tally {
    pub fn letters(&self) -> u64 {
        self.letters
    }

    /// Counts a letter and writes its line, with its end.
    pub fn write(&mut self, letter: &str) -> String {
        let hash = self.count(letter);
        format!("{{\"sha256\":\"{hash}\",\"letter\":{letter}}}\n")
    }

    /// Writes the line over all lines.
    pub fn write_end(&self) -> String {
        format!("{{\"sha256\":\"{}\",\"end\":{{\"letters\":{}}}}}\n", self.hash(), self.letters)
    }

    /// Reads a line and counts the letter on it, also if it does not have its hash: then the end will not fit either.
    pub fn read<'a>(&mut self, line: &'a str) -> Result<Line<'a>, NotTaken> {
        let form: Form<'a> =
            serde_json::from_str(line).map_err(|error| NotTaken::json("the line cannot be read", &error))?;
        match (form.letter, form.end) {
            (Some(letter), None) => {
                let letter = letter.get();
                if self.count(letter) != form.sha256 {
                    return Err(NotTaken::wrong(
                        "the letter does not have its hash: it was changed on its way",
                    ));
                }
                Ok(Line::Letter(letter))
            }
            (None, Some(end)) => {
                Ok(Line::End { right: end.letters == self.letters && form.sha256 == self.hash() })
            }
            (Some(_), Some(_)) => Err(NotTaken::wrong("a line holds a letter or the end, not both")),
            (None, None) => Err(NotTaken::wrong("the line holds neither a letter nor the end")),
        }
    }

    fn count(&mut self, letter: &str) -> String {
        let hash = hex(&Sha256::digest(letter.as_bytes()));
        self.hashes.update(hash.as_bytes());
        self.letters += 1;
        hash
    }

    fn hash(&self) -> String {
        hex(&self.hashes.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_and_the_end_fits() {
        let mut out = Tally::default();
        let lines = [out.write(r#"{"a": 1}"#), out.write("{}"), out.write_end()];
        let mut back = Tally::default();
        assert_eq!(back.read(&lines[0]).unwrap(), Line::Letter(r#"{"a": 1}"#));
        assert_eq!(back.clone().read(&lines[2]).unwrap(), Line::End { right: false });
        assert_eq!(back.read(&lines[1]).unwrap(), Line::Letter("{}"));
        assert_eq!(back.read(&lines[2]).unwrap(), Line::End { right: true });
        assert_eq!(Tally::default().read(&Tally::default().write_end()).unwrap(), Line::End { right: true });
    }

    #[test]
    fn a_changed_letter_is_refused_and_spoils_the_end() {
        let mut out = Tally::default();
        let line = out.write(r#"{"a":1}"#);
        let mut back = Tally::default();
        assert!(back.read(&line.replace("\"a\":1", "\"a\":2")).is_err());
        assert_eq!(back.read(&out.write_end()).unwrap(), Line::End { right: false });
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let deep = format!(r#"{{"sha256":"","letter":{}"#, "[".repeat(200_000));
        for bad in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"sha256":"x"}"#,
            r#"{"letter":{}}"#,
            r#"{"sha256":7,"letter":{}}"#,
            r#"{"sha256":"","letter":{},"end":{"letters":0}}"#,
            r#"{"sha256":"","end":{"letters":-1}}"#,
            r#"{"sha256":"","end":{"letters":0,"more":1}}"#,
            r#"{"sha256":"","letter":null}"#,
            r#"{"sha256":"","sha256":"","letter":{}}"#,
            r#"{"sha256":"","letter":{},"colour":"red"}"#,
            &deep,
        ] {
            assert!(Tally::default().read(bad).is_err(), "{}", &bad[..bad.len().min(80)]);
        }
    }
}
