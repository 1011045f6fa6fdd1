//! Letters on their way in: lines are gathered until they are worth a commit, checked, and handed to the store.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::audit::Actor;
use lazaret_store::transfer::{Import as NewLetter, Imported};
use serde::Serialize;
use utoipa::ToSchema;

use super::letter::{self, Door, NotTaken};
use super::line::{Line, Tally};
use crate::api::groups;
use crate::api::problem::{Code, Problem};
use crate::app::App;

#[derive(Serialize, ToSchema, Debug, Default)]
pub(crate) struct ImportBody {
    /// Letters that are here now and were not before.
    pub created: u64,
    /// Letters that were here already, as far along or further.
    pub known: u64,
    /// Letters whose place is taken by another; nothing of them was kept.
    pub conflicts: Vec<ConflictBody>,
    /// Lines that are no letters, or were changed on their way; nothing of them was kept.
    pub refused: Vec<RefusedBody>,
    /// Whether the last line was the end of an export and fits what was before it.
    pub end: bool,
}

#[derive(Serialize, ToSchema, Debug)]
pub(crate) struct ConflictBody {
    /// Counted from 1.
    pub line: usize,
    /// The letter on that line.
    pub id: String,
    pub detail: String,
}

#[derive(Serialize, ToSchema, Debug)]
pub(crate) struct RefusedBody {
    /// Counted from 1.
    pub line: usize,
    pub detail: String,
}

/// An import under way.
#[derive(Debug)]
pub(crate) struct Import {
    app: Arc<App>,
    by: Actor,
    tally: Tally,
    /// The number of the last line.
    line: usize,
    /// Lines that were not blank.
    lines: usize,
    chunk: Vec<(usize, Bytes)>,
    chunk_bytes: usize,
    answer: ImportBody,
}

impl Import {
    pub fn new(app: Arc<App>, by: Actor) -> Import {
        let (tally, answer) = (Tally::default(), ImportBody::default());
        Import { app, by, tally, line: 0, lines: 0, chunk: Vec::new(), chunk_bytes: 0, answer }
    }

    pub async fn add(&mut self, line: Bytes) -> Result<(), Problem> {
        self.line += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        // One more than letters: the end of an export of that many.
        if self.lines > limits::NDJSON_LINES_MAX {
            let max = limits::NDJSON_LINES_MAX;
            self.store().await?;
            let problem = Problem::new(Code::TooLarge, format!("the stream has more than {max} letters"));
            return Err(self.broken(problem));
        }
        self.lines += 1;
        self.chunk_bytes += line.len();
        self.chunk.push((self.line, line));
        if self.chunk.len() >= limits::IMPORT_LETTERS_PER_WRITE
            || self.chunk_bytes >= limits::STREAM_BYTES_PER_WRITE
        {
            self.store().await?;
        }
        Ok(())
    }

    pub async fn finish(mut self) -> Result<ImportBody, Problem> {
        self.store().await?;
        let ImportBody { created, known, conflicts, refused, end } = &self.answer;
        let (conflicts, refused) = (conflicts.len(), refused.len());
        tracing::info!(
            created,
            known,
            conflicts,
            refused,
            end,
            "{created} letters imported, {known} known, {conflicts} in conflict, {refused} lines refused"
        );
        Ok(self.answer)
    }

    /// Says how far a stream that breaks off was kept, so that the caller knows where to go on.
    pub fn broken(&self, problem: Problem) -> Problem {
        problem
            .with("created", self.answer.created)
            .with("known", self.answer.known)
            .hint("the letters before are kept; send all again, what is known already is recognised")
    }

    /// Checks the lines that were gathered and stores their letters.
    pub async fn store(&mut self) -> Result<(), Problem> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.chunk_bytes = 0;
        let (app, mut tally) = (Arc::clone(&self.app), self.tally.clone());
        let now = self.app.clock.now();
        // Parsing, hashing and grouping megabytes takes too long for the threads that serve everyone.
        let read = tokio::task::spawn_blocking(move || {
            let read: Vec<_> = chunk
                .iter()
                .map(|(number, line)| (*number, read_line(&app, &mut tally, line, now)))
                .collect();
            (read, tally)
        });
        let (read, tally) = read.await.map_err(|error| {
            tracing::error!(%error, "the lines of an import could not be read");
            self.broken(Problem::new(Code::Internal, "the lines could not be read"))
        })?;
        self.tally = tally;
        let mut letters = Vec::new();
        for (number, line) in read {
            self.answer.end = false;
            match line {
                Ok(Taken::Letter(letter)) => letters.push((number, *letter)),
                Ok(Taken::End { right }) => self.answer.end = right,
                Err(NotTaken::Wrong(detail)) => {
                    self.answer.refused.push(RefusedBody { line: number, detail });
                }
                Err(NotTaken::Store(error)) => return Err(self.broken(error.into())),
            }
        }
        self.put_in(letters, now).await
    }

    async fn put_in(&mut self, letters: Vec<(usize, NewLetter)>, now: Time) -> Result<(), Problem> {
        if letters.is_empty() {
            return Ok(());
        }
        let (places, letters): (Vec<(usize, LetterId)>, Vec<NewLetter>) =
            letters.into_iter().map(|(number, letter)| ((number, letter.exported.letter.id), letter)).unzip();
        let imported = self.app.store.import(letters, self.by.clone(), now).await;
        let imported = imported.map_err(|error| self.broken(error.into()))?;
        if imported.len() != places.len() {
            let what = format!("{} letters were imported and {} answered for", places.len(), imported.len());
            return Err(self.broken(StoreError::Corrupt(what).into()));
        }
        for ((line, id), imported) in places.into_iter().zip(imported) {
            match imported {
                Imported::Created => self.answer.created += 1,
                Imported::Known => self.answer.known += 1,
                Imported::Behind => self.conflict(line, id, format!(
                    "letter {id} is here already, but not as far along as in the file; what came since is not taken in"
                )),
                Imported::Conflict(other) if other == id => self.conflict(line, id, format!(
                    "letter {id} was here and was deleted, or stands here under another key"
                )),
                Imported::Conflict(other) => {
                    self.conflict(line, id, format!("letter {other} stands here under its key"));
                }
            }
        }
        Ok(())
    }

    fn conflict(&mut self, line: usize, id: LetterId, detail: String) {
        self.answer.conflicts.push(ConflictBody { line, id: id.to_string(), detail });
    }
}

/// What a line brings.
enum Taken {
    Letter(Box<NewLetter>),
    End { right: bool },
}

fn read_line(app: &App, tally: &mut Tally, line: &[u8], now: Time) -> Result<Taken, NotTaken> {
    let line = std::str::from_utf8(line).map_err(|_| NotTaken::wrong("the line is not UTF-8"))?;
    match tally.read(line.trim_ascii())? {
        Line::End { right } => Ok(Taken::End { right }),
        Line::Letter(text) => {
            let door = Door {
                now,
                body_bytes_max: app.config.limits.entry_bytes_max,
                group: &|subject| {
                    let incident = IncidentId::mint(now, app.entropy.take()?);
                    Ok((groups::group(app, subject), incident))
                },
            };
            letter::read(text, &door).map(|letter| Taken::Letter(Box::new(letter)))
        }
    }
}
