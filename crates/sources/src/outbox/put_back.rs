//! A row that vanished, made again from its letter under its own id: dead, as it was.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::Outbox;
use super::db::Bind;
use super::name::quoted;
use super::row::kept_row;
use super::statements::bound_payload;
use super::table::{PayloadType, Table};
use crate::SourceError;

/// What a letter knows of a row that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    pub message_id: String,
    /// The original's bytes.
    pub body: Bytes,
    /// What was kept of the row (`Captured::reported`).
    pub reported: String,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutBack {
    Made,
    /// There is a row of that id: nothing was changed.
    IsThere,
}

impl Outbox {
    /// Makes the row again, dead as it was, so that the letter can be redriven like any other.
    pub async fn put_back(&self, lost: &Lost) -> Result<PutBack, SourceError> {
        let table = self.table().await?;
        let unfit = |why: &str| SourceError::Refused { code: None, why: why.to_owned() };
        if !table.key.fits(&lost.message_id) {
            return Err(unfit("the letter's id cannot be a key of the table"));
        }
        let Some(kept) = kept_row(&lost.reported) else {
            return Err(unfit("the letter does not hold its row: it was too large to be kept"));
        };
        let names: BTreeMap<String, &RawValue> = serde_json::from_str(kept.get())
            .map_err(|_| unfit("what the letter holds of its row cannot be read"))?;
        let insert = insert(&table, &names);
        let text = std::str::from_utf8(&lost.body);
        let payload: Bind<'_> = match (table.payload, &text) {
            (PayloadType::Bytes, _) => &lost.body.as_ref(),
            (_, Ok(text)) => text,
            (_, Err(_)) => {
                return Err(unfit("the letter's body is not text, and the column takes nothing else"));
            }
        };
        let rows =
            self.db.query("putting a row back", &insert, &[&lost.message_id, payload, &kept.get()]).await;
        Ok(if self.noticing(rows)?.is_empty() { PutBack::IsThere } else { PutBack::Made })
    }
}

/// Takes each column that was kept and is still there; the others get what the table gives to new rows.
fn insert(table: &Table, kept: &BTreeMap<String, &RawValue>) -> String {
    let key = table.key.assigned("$1::text");
    let columns: Vec<String> = table
        .catalogue
        .columns
        .iter()
        .filter(|column| !column.generated && kept.contains_key(&column.name))
        .map(|column| quoted(&column.name))
        .filter(|name| ![&table.columns.payload, &table.columns.status].contains(&name))
        .filter(|name| key.iter().all(|(column, _)| column != name))
        .collect();
    let listed = |prefix: &str| columns.iter().map(|name| format!(", {prefix}{name}")).collect::<String>();
    format!(
        "insert into {sql} ({key_columns}, {status}, {payload}{columns})
         overriding system value
         select {key_values}, {dead}, {bound}{values}
           from pg_catalog.json_populate_record(null::{sql}, ($3::text)::json) as kept
         on conflict do nothing
         returning {key_text}",
        sql = table.sql,
        key_columns = key.iter().map(|(column, _)| column.as_str()).collect::<Vec<_>>().join(", "),
        key_values = key.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", "),
        key_text = table.key.text(""),
        status = table.columns.status,
        payload = table.columns.payload,
        columns = listed(""),
        dead = table.statuses.dead_letter,
        bound = bound_payload(table, 2),
        values = listed("kept."),
    )
}
