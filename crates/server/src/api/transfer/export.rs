//! Letters on their way out, a few at a time: the reader's pace is the pace.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::page::PageQuery;

use super::letter;
use super::line::Tally;
use crate::app::App;

/// An export under way.
#[derive(Debug)]
pub(crate) struct Export {
    app: Arc<App>,
    filter: Filter,
    /// When it was asked for; relative times are counted from here.
    started: Time,
    /// Letters that were found and not yet fetched.
    found: VecDeque<LetterId>,
    ahead: Ahead,
    tally: Tally,
}

/// What comes when all that was found is fetched.
#[derive(Clone, Copy, Debug)]
enum Ahead {
    Page(Option<LastKey>),
    EndLine,
    Nothing,
}

impl Export {
    pub fn new(app: Arc<App>, filter: Filter) -> Export {
        let started = app.clock.now();
        let (found, ahead) = (VecDeque::new(), Ahead::Page(None));
        Export { app, filter, started, found, ahead, tally: Tally::default() }
    }

    /// How many letters have been written.
    pub fn letters(&self) -> u64 {
        self.tally.letters()
    }

    /// The next lines; nothing once the end line was given out.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            if !self.found.is_empty() {
                let lines = self.fetch().await?;
                // Letters may be gone since they were found.
                if lines.is_empty() {
                    continue;
                }
                return Ok(Some(lines));
            }
            match self.ahead {
                Ahead::Page(after) => self.find(after).await?,
                Ahead::EndLine => {
                    self.ahead = Ahead::Nothing;
                    let letters = self.letters();
                    tracing::info!(letters, "{letters} letters exported");
                    return Ok(Some(Bytes::from(self.tally.write_end())));
                }
                Ahead::Nothing => return Ok(None),
            }
        }
    }

    async fn find(&mut self, after: Option<LastKey>) -> Result<(), StoreError> {
        let query = PageQuery {
            filter: self.filter.clone(),
            now: self.started,
            sort: Sort::DiedAtAsc,
            limit: limits::EXPORT_LETTERS_PER_PAGE,
            after,
            scan_max: PageQuery::SCAN_MAX,
        };
        let page = self.app.store.list(query).await?;
        self.ahead = page.next.map_or(Ahead::EndLine, |last| Ahead::Page(Some(last)));
        // Where letters die faster than they are read there would be no end. What was imported may bear the time of
        // a clock that is ahead, and belongs to it.
        let last = self.started.plus_ms(limits::CLOCKS_APART_MS_MAX);
        for letter in page.letters {
            if letter.died_at > last {
                self.ahead = Ahead::EndLine;
                break;
            }
            self.found.push_back(letter.id);
        }
        Ok(())
    }

    async fn fetch(&mut self) -> Result<Bytes, StoreError> {
        let count = self.found.len().min(limits::EXPORT_LETTERS_PER_READ);
        let ids = self.found.drain(..count).collect();
        let letters = self.app.store.export(ids).await?;
        let mut tally = self.tally.clone();
        // Megabytes are hashed and escaped here: too long for the threads that serve everyone.
        let written = tokio::task::spawn_blocking(move || {
            let mut lines = String::new();
            for letter in &letters {
                lines.push_str(&tally.write(&letter::write(letter)));
            }
            (lines, tally)
        });
        let (lines, tally) = written.await.map_err(|error| StoreError::Unavailable {
            doing: "writing letters for an export",
            source: Some(Box::new(error)),
        })?;
        self.tally = tally;
        Ok(Bytes::from(lines))
    }
}
