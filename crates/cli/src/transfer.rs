//! Letters on their way between stores, one JSON line each, and the proof that none was changed or lost.
//!
//! Each line carries the hash of its letter, and the last one the hash over all of these. Nothing here looks into a
//! letter, and none is read as values: what is hashed is the text itself.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// Bytes of one line: many lives of the largest bodies that a server takes.
pub const LINE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What a line turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    Letter,
    /// The last line, and it is right about all before it.
    End,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Neither a letter nor the end.
    Foreign,
    /// The letter is not the one that was hashed.
    Changed,
    /// The last line speaks of other letters than those before it.
    WrongEnd { told: u64, came: u64 },
    /// Something follows the last line.
    AfterEnd,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Foreign => f.write_str("not a line of an export"),
            Fault::Changed => f.write_str("letter does not match its hash"),
            Fault::WrongEnd { told, came } if told != came => {
                write!(f, "end of an export of {told} letters, but {came} were received")
            }
            Fault::WrongEnd { .. } => f.write_str("end of a different export"),
            Fault::AfterEnd => f.write_str("data after the last line"),
        }
    }
}

/// Checks lines in their order.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    hashes: Sha256,
    letters: u64,
    ended: bool,
}

impl Checker {
    /// Takes the next line. A line that is refused counts for the end all the same if it carries a hash, so that one
    /// bad line is one fault and not two.
    pub fn take(&mut self, line: &[u8]) -> Result<Checked, Fault> {
        #[derive(Deserialize)]
        struct Line<'a> {
            sha256: String,
            #[serde(borrow)]
            letter: Option<&'a RawValue>,
            end: Option<End>,
        }
        #[derive(Deserialize)]
        struct End {
            letters: u64,
        }
        if self.ended {
            return Err(Fault::AfterEnd);
        }
        let line: Line<'_> = serde_json::from_slice(line).map_err(|_| Fault::Foreign)?;
        match (line.letter, line.end) {
            (Some(letter), None) => {
                self.letters += 1;
                self.hashes.update(line.sha256.as_bytes());
                let is_right = hex(&Sha256::digest(letter.get().as_bytes())) == line.sha256;
                if is_right { Ok(Checked::Letter) } else { Err(Fault::Changed) }
            }
            (None, Some(End { letters })) => {
                let is_right = letters == self.letters && hex(&self.hashes.clone().finalize()) == line.sha256;
                if !is_right {
                    return Err(Fault::WrongEnd { told: letters, came: self.letters });
                }
                self.ended = true;
                Ok(Checked::End)
            }
            (Some(_), Some(_)) | (None, None) => Err(Fault::Foreign),
        }
    }

    /// Letters so far, good and bad.
    pub fn letters(&self) -> u64 {
        self.letters
    }

    /// Whether the last line has come and was right.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

/// Cuts lines out of pieces of bytes as they come.
#[derive(Debug, Default)]
pub struct LineCutter {
    rest: Vec<u8>,
}

/// A line that no letter can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineTooLong;

impl LineCutter {
    /// Takes the next bytes and gives the lines that are whole with them, without their ends.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, LineTooLong> {
        let mut lines = Vec::new();
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.rest.len() + piece.len() > LINE_BYTES_MAX {
                return Err(LineTooLong);
            }
            self.rest.extend_from_slice(piece);
            if pieces.peek().is_some() {
                lines.push(std::mem::take(&mut self.rest));
            }
        }
        Ok(lines)
    }

    /// Whether the last bytes were no whole line.
    pub fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An export of these letters, each a JSON text.
    pub fn export(letters: &[&str]) -> Vec<String> {
        let hashes: Vec<String> = letters.iter().map(|letter| hex(&Sha256::digest(letter))).collect();
        let line = |(letter, hash): (&&str, &String)| format!(r#"{{"sha256":"{hash}","letter":{letter}}}"#);
        let mut lines: Vec<String> = letters.iter().zip(&hashes).map(line).collect();
        let all = hex(&Sha256::digest(hashes.concat()));
        lines.push(format!(r#"{{"sha256":"{all}","end":{{"letters":{}}}}}"#, letters.len()));
        lines
    }

    fn check(lines: &[String]) -> Vec<Result<Checked, Fault>> {
        let mut checker = Checker::default();
        lines.iter().map(|line| checker.take(line.as_bytes())).collect()
    }

    #[test]
    fn an_export_is_right_to_its_last_line() {
        let lines = export(&[r#"{"id":1.0, "n":12345678901234567890.10}"#, r#"{"id":"ü"}"#]);
        assert_eq!(check(&lines), [Ok(Checked::Letter), Ok(Checked::Letter), Ok(Checked::End)]);
        assert_eq!(check(&export(&[])), [Ok(Checked::End)]);
    }

    #[test]
    fn the_hash_is_over_the_exact_text() {
        let line = export(&[r#"{"n":1.0}"#]).remove(0);
        assert_eq!(check(&[line.replace("1.0", "1.00")]), [Err(Fault::Changed)]);
        assert_eq!(check(&[line.replace("{\"n\"", "{ \"n\"")]), [Err(Fault::Changed)]);
    }

    #[test]
    fn a_letter_that_was_changed_taken_away_or_added_is_found() {
        let lines = export(&["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"]);
        let mut changed = lines.clone();
        changed[1] = changed[1].replace("\"a\":2", "\"a\":9");
        assert_eq!(
            check(&changed),
            [Ok(Checked::Letter), Err(Fault::Changed), Ok(Checked::Letter), Ok(Checked::End)]
        );
        let mut fewer = lines.clone();
        fewer.remove(1);
        assert_eq!(check(&fewer)[2], Err(Fault::WrongEnd { told: 3, came: 2 }));
        let mut swapped = lines.clone();
        swapped.swap(0, 1);
        assert_eq!(check(&swapped)[3], Err(Fault::WrongEnd { told: 3, came: 3 }));
        let more = [lines.clone(), vec![lines[0].clone()]].concat();
        assert_eq!(check(&more)[4], Err(Fault::AfterEnd));
    }

    #[test]
    fn what_is_no_line_of_an_export_is_told() {
        for foreign in ["", "{", "[]", "{}", r#"{"sha256":"x"}"#, r#"{"letter":{}}"#, "\u{0}"] {
            assert_eq!(check(&[foreign.to_owned()]), [Err(Fault::Foreign)], "{foreign}");
        }
    }

    #[test]
    fn it_does_not_matter_where_lines_are_cut() {
        let text = b"one\ntwo\n\nfour";
        for cut in 0..=text.len() {
            let mut cutter = LineCutter::default();
            let (head, tail) = text.split_at(cut);
            let mut lines = cutter.take(head).unwrap();
            lines.extend(cutter.take(tail).unwrap());
            assert_eq!(lines, [&b"one"[..], b"two", b""], "cut at {cut}");
            assert!(cutter.has_rest());
        }
    }
}
