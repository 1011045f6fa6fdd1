//! Where letters are read from, and what shape they have there.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::failure::Failure;

/// A line longer than this is not an entry; the server takes far less.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// JSON that is no stream has to fit into memory.
const JSON_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Lines read ahead while a request is on its way.
const LINES_AHEAD: usize = 64;

/// What the input holds, as far as somebody has said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Lines,
    /// One entry, even if it looks like several.
    Entry,
    Unknown,
}

/// One file, or stdin.
pub struct Input {
    pub name: String,
    /// Its size, where that is known.
    pub bytes: Option<u64>,
    is_lines: bool,
    reader: Box<dyn Read + Send>,
}

/// What an input turned out to be.
pub enum Kind {
    Lines(Lines),
    Entries(Entries),
}

/// Opens all files before anything is sent: a wrong name in the middle shall not leave half a report.
pub fn open(files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    if files.is_empty() {
        return Ok(vec![stdin()]);
    }
    files.iter().map(|file| if file == Path::new("-") { Ok(stdin()) } else { open_file(file) }).collect()
}

fn stdin() -> Input {
    Input { name: "stdin".into(), bytes: None, is_lines: false, reader: Box::new(io::stdin()) }
}

fn open_file(path: &Path) -> anyhow::Result<Input> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let about = file.metadata().with_context(|| format!("cannot read {name}"))?;
    if about.is_dir() {
        return Err(Failure::misuse(format!("{name} is a folder")).hint("pass files").into());
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_lines = matches!(extension.to_ascii_lowercase().as_str(), "ndjson" | "jsonl");
    Ok(Input { name, bytes: about.is_file().then_some(about.len()), is_lines, reader: Box::new(file) })
}

impl Input {
    /// Finds out what it holds. Lines are read behind our back while others are sent; JSON is read whole.
    pub fn read(self, form: Form) -> anyhow::Result<Kind> {
        let Input { name, is_lines, reader, .. } = self;
        let failed = || format!("cannot read {name}");
        let mut reader = BufReader::with_capacity(256 * 1024, reader);
        if form == Form::Lines || (form == Form::Unknown && is_lines) {
            return Ok(Kind::Lines(read_lines(reader, name)));
        }
        let mut head = Vec::new();
        if form == Form::Unknown && begins_with_lines(&mut reader, &mut head).with_context(failed)? {
            return Ok(Kind::Lines(read_lines(Cursor::new(head).chain(reader), name)));
        }
        let mut bytes = head;
        reader.by_ref().take(JSON_BYTES_MAX).read_to_end(&mut bytes).with_context(failed)?;
        if !reader.fill_buf().with_context(failed)?.is_empty() {
            return Err(Failure::failed(format!("{name} is too large for a single JSON document"))
                .hint("use NDJSON, one entry per line: jq -c '.[]' converts an array")
                .into());
        }
        let text = String::from_utf8(bytes).map_err(|_| Failure::failed(format!("{name} is not UTF-8")))?;
        Entries::of(text, form).map(Kind::Entries).map_err(|error| {
            Failure::failed(format!("{name} is neither JSON nor NDJSON: {error}"))
                .hint("for NDJSON pass --ndjson: invalid lines are then refused one by one")
                .into()
        })
    }
}

/// Whether the input is NDJSON: its first line that is not blank is an object by itself, and another line follows.
/// What was read to know this is in `head`.
fn begins_with_lines(reader: &mut impl BufRead, head: &mut Vec<u8>) -> io::Result<bool> {
    let Some(first) = read_filled_line(reader, head)? else { return Ok(false) };
    let line = &head[first];
    let is_object = line.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    Ok(is_object && read_filled_line(reader, head)?.is_some())
}

/// Reads up to the end of the next line that is not blank.
fn read_filled_line(reader: &mut impl BufRead, head: &mut Vec<u8>) -> io::Result<Option<Range<usize>>> {
    loop {
        let start = head.len();
        if reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', head)? == 0 {
            return Ok(None);
        }
        if !head[start..].trim_ascii().is_empty() {
            return Ok(Some(start..head.len()));
        }
    }
}

/// A line that is not blank, without its end.
#[derive(Debug)]
pub struct Line {
    pub number: usize,
    pub bytes: Vec<u8>,
}

/// Lines as they are read.
pub type Lines = mpsc::Receiver<anyhow::Result<Line>>;

fn read_lines(mut reader: impl BufRead + Send + 'static, name: String) -> Lines {
    let (lines, received) = mpsc::channel(LINES_AHEAD);
    // A thread of its own and not the runtime's: a read from a terminal never ends, and must not keep us from ending.
    std::thread::spawn(move || {
        let mut number = 0;
        loop {
            number += 1;
            let line = match next_line(&mut reader, number).with_context(|| format!("cannot read {name}")) {
                Ok(Some(line)) if line.bytes.is_empty() => continue,
                Ok(Some(line)) => Ok(line),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let ended = line.is_err();
            if lines.blocking_send(line).is_err() || ended {
                return;
            }
        }
    });
    received
}

fn next_line(reader: &mut impl BufRead, number: usize) -> anyhow::Result<Option<Line>> {
    let mut bytes = Vec::new();
    let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    if read as u64 == LINE_BYTES_MAX && bytes.last() != Some(&b'\n') {
        return Err(Failure::failed(format!("line {number} is too long to be an entry")).into());
    }
    Ok(Some(Line { number, bytes: bytes.trim_ascii().to_vec() }))
}

/// The entries of one piece of JSON, each exactly as it was written.
#[derive(Debug)]
pub struct Entries {
    text: String,
    entries: Vec<Range<usize>>,
}

impl Entries {
    /// One entry, an array, `{"items": […]}`, or several of those one after another.
    fn of(text: String, form: Form) -> Result<Entries, serde_json::Error> {
        let mut entries = Vec::new();
        let begin = text.as_ptr() as usize;
        let place = |raw: &RawValue| {
            let at = raw.get().as_ptr() as usize - begin;
            at..at + raw.get().len()
        };
        for value in serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>() {
            let value = value?;
            match (form, several(value)) {
                (Form::Unknown, Some(items)) => entries.extend(items.into_iter().map(place)),
                (Form::Unknown | Form::Entry | Form::Lines, _) => entries.push(place(value)),
            }
        }
        Ok(Entries { text, entries })
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|range| &self.text[range.clone()])
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The entries of an array or a batch; nothing if the value is an entry itself.
fn several(value: &RawValue) -> Option<Vec<&RawValue>> {
    #[derive(serde::Deserialize)]
    struct Batch<'a> {
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
        #[serde(rename = "originalEvent")]
        original_event: Option<serde::de::IgnoredAny>,
    }
    if value.get().starts_with('[') {
        return serde_json::from_str(value.get()).ok();
    }
    let batch: Batch<'_> = serde_json::from_str(value.get()).ok()?;
    batch.original_event.is_none().then_some(batch.items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str, form: Form) -> String {
        let reader = Box::new(Cursor::new(text.to_owned().into_bytes()));
        let input = Input { name: "x".into(), bytes: None, is_lines: false, reader };
        match input.read(form) {
            Ok(Kind::Lines(mut lines)) => {
                let mut text = String::from("lines");
                while let Some(line) = lines.blocking_recv() {
                    let line = line.unwrap();
                    text.push_str(&format!(" {}={}", line.number, String::from_utf8_lossy(&line.bytes)));
                }
                text
            }
            Ok(Kind::Entries(entries)) => {
                format!("entries {}", entries.iter().collect::<Vec<_>>().join(" | "))
            }
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn what_is_given_is_recognised_and_kept_as_written() {
        let cases = [
            ("{\"a\": 1.0}", "entries {\"a\": 1.0}"),
            ("\n {\"a\": 1.0}\n\n", "entries {\"a\": 1.0}"),
            ("{\n\n \"a\":\t1e400\n}\n", "entries {\n\n \"a\":\t1e400\n}"),
            ("[{\"a\":1}, {\"a\": 2}]", "entries {\"a\":1} | {\"a\": 2}"),
            ("{\"items\":[{\"a\":1},7]}", "entries {\"a\":1} | 7"),
            ("{\"items\":[1],\"originalEvent\":{}}", "entries {\"items\":[1],\"originalEvent\":{}}"),
            ("{\n\"a\":1\n}\n{\n\"a\":2\n}", "entries {\n\"a\":1\n} | {\n\"a\":2\n}"),
            ("{\"a\":1}\n{\"a\":2}\n", "lines 1={\"a\":1} 2={\"a\":2}"),
            ("\n{\"a\":1}\r\n\n{broken\n", "lines 2={\"a\":1} 4={broken"),
            ("", "entries "),
            ("  \n", "entries "),
        ];
        for (text, expected) in cases {
            assert_eq!(kind(text, Form::Unknown), expected, "{text:?}");
        }
    }

    #[test]
    fn what_somebody_said_is_believed() {
        assert_eq!(kind("{\"items\":[1]}", Form::Entry), "entries {\"items\":[1]}");
        assert_eq!(kind("{\"items\":[1]}", Form::Lines), "lines 1={\"items\":[1]}");
        assert_eq!(kind("nonsense", Form::Lines), "lines 1=nonsense");
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        let told = kind("{\"a\": oops}", Form::Unknown);
        assert!(told.contains("neither JSON nor NDJSON") && told.contains("line 1 column 7"), "{told}");
    }
}
