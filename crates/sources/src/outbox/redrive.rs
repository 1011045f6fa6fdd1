//! The way back: a dead row is reset so that whoever processes the table takes it again (RULE-040-040).
//!
//! One guarded update of one row by its key. A row that is not dead any more is looked at instead: it may be on its way
//! already because the answer to the last send was lost, or be processed by the application itself.

use std::collections::BTreeMap;

use async_trait::async_trait;
use lazaret_core::attempt::LetterError;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::db::{Bind, cell};
use super::table::{PayloadType, Table};
use super::{Outbox, now};
use crate::SourceError;
use crate::destination::{Content, Destination, Outgoing, Refusal, Route, Sent, Verified};

/// What a row's status says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowStatus {
    Pending,
    Processing,
    Processed {
        at: Option<Time>,
    },
    DeadLetter,
    /// A word that the configuration does not know.
    Other(String),
    /// There is no such row any more.
    Gone,
}

impl Outbox {
    /// The status of each of these rows, in bounded batches: for letters whose rows may have been processed by the
    /// application itself, or deleted.
    pub async fn statuses(&self, ids: &[String]) -> Result<BTreeMap<String, RowStatus>, SourceError> {
        let table = self.table().await?;
        let mut statuses = BTreeMap::new();
        for chunk in ids.chunks(limits::OUTBOX_STATUSES_MAX) {
            let keys: Vec<&String> = chunk.iter().filter(|id| table.key.fits(id)).collect();
            let rows = self.db.query("looking at rows", &table.statements.look, &[&keys]).await;
            for row in self.noticing(rows)? {
                let (key, word): (String, Option<String>) = (cell(&row, 0)?, cell(&row, 1)?);
                let processed_at: Option<i64> = cell(&row, 2)?;
                statuses.insert(key, table.status(word, processed_at.map(Time::from_ms)));
            }
        }
        for id in ids {
            statuses.entry(id.clone()).or_insert(RowStatus::Gone);
        }
        Ok(statuses)
    }

    async fn status(&self, id: &str) -> Result<RowStatus, SourceError> {
        let mut statuses = self.statuses(&[id.to_owned()]).await?;
        Ok(statuses.remove(id).unwrap_or(RowStatus::Gone))
    }

    /// Resets the row if it is dead; says whether it was.
    async fn reset(&self, table: &Table, outgoing: &Outgoing) -> Result<bool, SourceError> {
        const DOING: &str = "putting a row back";
        let key = &outgoing.message_id;
        let rows = match (outgoing.content, table.payload) {
            (Content::Original, _) => self.db.query(DOING, &table.statements.redrive, &[key]).await,
            (Content::Edited, PayloadType::Bytes) => {
                let body: &[u8] = &outgoing.body;
                let binds: [Bind<'_>; 2] = [key, &body];
                self.db.query(DOING, &table.statements.redrive_edited, &binds).await
            }
            (Content::Edited, PayloadType::Json | PayloadType::Jsonb | PayloadType::Text) => {
                let Ok(body) = std::str::from_utf8(&outgoing.body) else {
                    let why = "the edited body is not text, and the payload's column takes nothing else";
                    return Err(SourceError::Refused { code: None, why: why.to_owned() });
                };
                self.db.query(DOING, &table.statements.redrive_edited, &[key, &body]).await
            }
        };
        Ok(!self.noticing(rows)?.is_empty())
    }

    async fn put(&self, outgoing: &Outgoing) -> Result<Sent, SourceError> {
        let table = self.table().await?;
        if table.key.fits(&outgoing.message_id) && self.reset(&table, outgoing).await? {
            return Ok(Sent::Taken { handle: None });
        }
        Ok(match self.status(&outgoing.message_id).await? {
            RowStatus::Pending | RowStatus::Processing => Sent::Taken { handle: None },
            RowStatus::Processed { .. } => Sent::Delivered { evidence: "processed", handle: None },
            RowStatus::DeadLetter => Sent::Unsent("its row changed at this very moment".to_owned()),
            RowStatus::Other(word) => refused(
                "UnknownStatus",
                None,
                format!("its row has the status {word:?}, which is not mapped"),
            ),
            RowStatus::Gone => refused(
                "RowVanished",
                None,
                format!(
                    "row {} vanished from {}; it can be put back from the letter",
                    outgoing.message_id, self.config.table
                ),
            ),
        })
    }
}

impl Table {
    fn status(&self, word: Option<String>, processed_at: Option<Time>) -> RowStatus {
        let word = word.unwrap_or_default();
        match &word {
            word if *word == self.words.pending => RowStatus::Pending,
            word if *word == self.words.processing => RowStatus::Processing,
            word if *word == self.words.processed => RowStatus::Processed { at: processed_at },
            word if *word == self.words.dead_letter => RowStatus::DeadLetter,
            _ => RowStatus::Other(word),
        }
    }
}

fn refused(error_type: &str, code: Option<String>, message: String) -> Sent {
    let error = LetterError { error_type: error_type.to_owned(), code, message, ..LetterError::default() };
    Sent::Refused(Box::new(Refusal { status: None, error }))
}

#[async_trait]
impl Destination for Outbox {
    fn address(&self) -> String {
        format!("{} {}", self.db.place(), self.config.table)
    }

    fn deduplicates(&self) -> bool {
        // A row that is not dead is not reset again.
        true
    }

    fn by_message_id(&self) -> bool {
        true
    }

    async fn route(&self, outgoing: &Outgoing) -> Result<Route, String> {
        let route = Route { address: Destination::address(self), also_reaches: Vec::new() };
        // Whoever only wants the address names no row.
        if outgoing.message_id.is_empty() {
            return Ok(route);
        }
        match self.status(&outgoing.message_id).await.map_err(|error| error.to_string())? {
            RowStatus::Gone => Err(format!("row {} vanished", outgoing.message_id)),
            _ => Ok(route),
        }
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        match self.put(outgoing).await {
            Ok(sent) => sent,
            // It may have arrived. Nothing is lost by trying again: a row is reset once.
            Err(SourceError::Unavailable { doing, why }) => Sent::Unknown(format!("{doing}: {why}")),
            Err(SourceError::Refused { code, why }) => refused("DatabaseError", code, why),
            Err(error @ (SourceError::Unfit(_) | SourceError::Stopped(_))) => {
                refused("TableChanged", None, error.to_string())
            }
        }
    }

    async fn verify(&self, outgoing: &Outgoing) -> Verified {
        match self.status(&outgoing.message_id).await {
            Ok(RowStatus::Processed { at }) => {
                Verified::Succeeded { evidence: "processed", at: at.unwrap_or_else(now) }
            }
            // A row that is dead again is captured as a relapse, and one that is gone is reported.
            Ok(
                RowStatus::Pending
                | RowStatus::Processing
                | RowStatus::DeadLetter
                | RowStatus::Other(_)
                | RowStatus::Gone,
            ) => Verified::NotYet,
            Err(error) => {
                tracing::warn!(
                    source = self.config.name,
                    "cannot look after row {}: {error}",
                    outgoing.message_id
                );
                Verified::NotYet
            }
        }
    }
}
