//! Where an export is read from, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::failure::Failure;
use crate::transfer::LINE_BYTES_MAX;

/// A file, which can be read twice, or stdin.
#[derive(Clone, Debug)]
pub enum Input {
    File(PathBuf),
    Stdin,
}

impl Input {
    pub fn named(path: &Path) -> Input {
        if path == Path::new("-") { Input::Stdin } else { Input::File(path.to_owned()) }
    }

    pub fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Stdin => "stdin".into(),
        }
    }

    pub fn open(&self) -> anyhow::Result<Lines> {
        let name = self.name();
        let (bytes, reader): (Option<u64>, Box<dyn Read + Send>) = match self {
            Input::Stdin => (None, Box::new(io::stdin())),
            Input::File(path) => {
                let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
                let about = file.metadata().with_context(|| format!("cannot read {name}"))?;
                if !about.is_file() {
                    return Err(Failure::misuse(format!("{name} is not a file"))
                        .hint("a stream is read from stdin: lazaret import -")
                        .into());
                }
                (Some(about.len()), Box::new(file))
            }
        };
        Ok(Lines { name, bytes, number: 0, reader: BufReader::with_capacity(256 * 1024, reader) })
    }
}

/// A line that is not blank, without its end.
#[derive(Debug)]
pub struct Line {
    pub number: usize,
    pub bytes: Vec<u8>,
}

/// Lines as they are read.
pub struct Lines {
    name: String,
    /// The size of the input, where that is known.
    pub bytes: Option<u64>,
    number: usize,
    reader: BufReader<Box<dyn Read + Send>>,
}

impl Lines {
    pub fn next(&mut self) -> anyhow::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let limit = LINE_BYTES_MAX as u64;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut bytes);
            if read.with_context(|| format!("cannot read {}", self.name))? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if bytes.len() as u64 == limit && bytes.last() != Some(&b'\n') {
                return Err(
                    Failure::failed(format!("line {} is too long to be a letter", self.number)).into()
                );
            }
            let trimmed = bytes.trim_ascii();
            if !trimmed.is_empty() {
                return Ok(Some(Line { number: self.number, bytes: trimmed.to_vec() }));
            }
        }
    }
}
