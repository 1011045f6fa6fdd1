//! A table that the configuration was found to fit: the names and words of its statements, safe to write into them.

use super::catalogue::{Catalogue, Column};
use super::config::{Columns, OutboxConfig, Statuses};
use super::db::{Db, cell};
use super::name::{literal, quoted};
use super::statements::Statements;
use crate::SourceError;

/// An outbox that can be worked with.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub catalogue: Catalogue,
    /// As it stands in a statement.
    pub sql: String,
    /// The columns as they stand in a statement.
    pub columns: Columns,
    /// The words as they stand in a statement.
    pub statuses: Statuses,
    /// The words as they are.
    pub words: Statuses,
    pub key: KeyType,
    pub payload: PayloadType,
    /// Characters of an error that a row holds.
    pub error_chars_max: Option<usize>,
    pub statements: Statements,
}

/// What rows are told apart by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyType {
    pub kind: KeyKind,
    /// The type as it is written in a cast.
    pub cast: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyKind {
    Uuid,
    Number { bits: u32 },
    Text,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PayloadType {
    Json,
    Jsonb,
    Text,
    Bytes,
}

impl Table {
    /// Looks the table up and says everything that does not fit.
    pub async fn bind(db: &Db, config: &OutboxConfig) -> Result<Table, SourceError> {
        db.require_sessions().await?;
        let catalogue = Catalogue::read(db, &config.table).await?;
        let mut wrong = Vec::new();
        if !matches!(catalogue.kind.as_str(), "r" | "p") {
            wrong.push(format!("{} is not a table", config.table));
        }
        for (what, name) in config.columns.all() {
            match catalogue.column(name) {
                None => wrong.push(format!("{} has no column {name:?} for {what}", config.table)),
                Some(column) => wrong.extend(misfit(what, column)),
            }
        }
        if let (true, Some(id)) = (wrong.is_empty(), catalogue.column(&config.columns.id)) {
            let unique = |index: &super::catalogue::Index| {
                index.unique && index.condition.is_none() && index.columns.contains(&id.number)
            };
            if !catalogue.indexes.iter().any(unique) {
                wrong.push(format!(
                    "column {:?} is not unique: a redrive could put back more than one row",
                    id.name
                ));
            }
        }
        let status = catalogue.column(&config.columns.status);
        if let (true, Some(status)) = (wrong.is_empty(), status) {
            wrong = misfit_words(db, &catalogue, status, &config.statuses).await?;
        }
        if !wrong.is_empty() {
            return Err(SourceError::Unfit(wrong.join("; ")));
        }
        Table::of(catalogue, config).ok_or_else(|| SourceError::Unfit("the table has changed".to_owned()))
    }

    /// `None` if a mapped column is missing, which was looked at before.
    fn of(catalogue: Catalogue, config: &OutboxConfig) -> Option<Table> {
        let id = catalogue.column(&config.columns.id)?;
        let key = KeyType { kind: key_kind(id)?, cast: id.cast.clone() };
        let payload = payload_type(catalogue.column(&config.columns.payload)?)?;
        let error_chars_max = catalogue.column(&config.columns.last_error)?.chars_max;
        let columns = quoted_columns(&config.columns);
        let statuses = Statuses {
            pending: literal(&config.statuses.pending),
            processing: literal(&config.statuses.processing),
            processed: literal(&config.statuses.processed),
            dead_letter: literal(&config.statuses.dead_letter),
        };
        let mut table = Table {
            sql: catalogue.sql(),
            catalogue,
            columns,
            statuses,
            words: config.statuses.clone(),
            key,
            payload,
            error_chars_max,
            statements: Statements::default(),
        };
        table.statements = Statements::of(&table, config);
        Some(table)
    }

    /// The name that notifications carry.
    pub fn noted_name(&self) -> String {
        format!("{}.{}", self.catalogue.schema, self.catalogue.name)
    }

    /// The present moment in the type of a column: those without a zone are taken as UTC.
    pub fn now(&self, quoted_name: &str) -> &'static str {
        let of = self.catalogue.columns.iter().find(|column| quoted(&column.name) == quoted_name);
        match of.map(|column| column.base.as_str()) {
            Some("timestamp") => "localtimestamp",
            Some(_) | None => "now()",
        }
    }
}

impl KeyType {
    /// Whether a text can be a key: one that cannot names no row.
    pub fn fits(&self, text: &str) -> bool {
        match self.kind {
            KeyKind::Uuid => is_uuid(text),
            KeyKind::Number { bits: 16 } => text.parse::<i16>().is_ok(),
            KeyKind::Number { bits: 32 } => text.parse::<i32>().is_ok(),
            KeyKind::Number { .. } => text.parse::<i64>().is_ok(),
            KeyKind::Text => !text.contains('\0'),
        }
    }
}

fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match dash(at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

fn quoted_columns(columns: &Columns) -> Columns {
    let some = |name: &Option<String>| name.as_deref().map(quoted);
    Columns {
        id: quoted(&columns.id),
        event_type: quoted(&columns.event_type),
        aggregate_type: some(&columns.aggregate_type),
        aggregate_id: some(&columns.aggregate_id),
        payload: quoted(&columns.payload),
        schema_version: some(&columns.schema_version),
        status: quoted(&columns.status),
        retry_count: quoted(&columns.retry_count),
        max_retries: some(&columns.max_retries),
        last_error: quoted(&columns.last_error),
        next_attempt_at: some(&columns.next_attempt_at),
        created_at: quoted(&columns.created_at),
        processed_at: some(&columns.processed_at),
        tenant: some(&columns.tenant),
    }
}

/// Why a column cannot be what it is mapped to.
fn misfit(what: &str, column: &Column) -> Option<String> {
    let (fits, wanted) = match what {
        "id" => (key_kind(column).is_some(), "uuid, smallint, integer, bigint, text or varchar"),
        "payload" => (payload_type(column).is_some(), "json, jsonb, text, varchar or bytea"),
        "retry_count" | "max_retries" => {
            (matches!(column.base.as_str(), "int2" | "int4" | "int8"), "smallint, integer or bigint")
        }
        "last_error" => (matches!(column.base.as_str(), "text" | "varchar"), "text or varchar"),
        "created_at" | "next_attempt_at" | "processed_at" => {
            (matches!(column.base.as_str(), "timestamptz" | "timestamp"), "timestamptz or timestamp")
        }
        "status" => (
            matches!(column.base.as_str(), "text" | "varchar" | "bpchar" | "enum" | "int2" | "int4" | "int8"),
            "text, varchar, char, an enum or a number",
        ),
        // The others are only read, as text.
        _ => (true, ""),
    };
    if !fits {
        return Some(format!("column {:?} is {}, and {what} has to be {wanted}", column.name, column.cast));
    }
    let written =
        matches!(what, "status" | "retry_count" | "last_error" | "next_attempt_at" | "processed_at");
    if written && column.generated {
        return Some(format!("column {:?} is generated, and {what} has to be written", column.name));
    }
    // Putting a letter back sets it to null.
    (what == "last_error" && column.not_null)
        .then(|| format!("column {:?} may not be null, and {what} has to be emptied", column.name))
}

fn key_kind(column: &Column) -> Option<KeyKind> {
    match column.base.as_str() {
        "uuid" => Some(KeyKind::Uuid),
        "int2" => Some(KeyKind::Number { bits: 16 }),
        "int4" => Some(KeyKind::Number { bits: 32 }),
        "int8" => Some(KeyKind::Number { bits: 64 }),
        "text" | "varchar" => Some(KeyKind::Text),
        _ => None,
    }
}

fn payload_type(column: &Column) -> Option<PayloadType> {
    match column.base.as_str() {
        "json" => Some(PayloadType::Json),
        "jsonb" => Some(PayloadType::Jsonb),
        "text" | "varchar" => Some(PayloadType::Text),
        "bytea" => Some(PayloadType::Bytes),
        _ => None,
    }
}

const CHECKS: &str = "
    select c.conname::text, pg_catalog.pg_get_expr(c.conbin, c.conrelid)
      from pg_catalog.pg_constraint c
     where c.conrelid = $1 and c.contype = 'c' and c.conkey = array[$2::int2]
     order by c.conname";

/// Tries each word on the column's type and on the conditions that are about this column alone, without writing.
async fn misfit_words(
    db: &Db,
    catalogue: &Catalogue,
    status: &Column,
    statuses: &Statuses,
) -> Result<Vec<String>, SourceError> {
    const DOING: &str = "trying a status word";
    let mut wrong = Vec::new();
    let checks = db.query(DOING, CHECKS, &[&catalogue.oid, &status.number]).await?;
    for (what, word) in statuses.all() {
        if status.chars_max.is_some_and(|max| word.chars().count() > max) {
            wrong.push(format!("the word {word:?} for {what} is too long for column {:?}", status.name));
            continue;
        }
        let tried = format!("select (($1::text)::{})::text", status.cast);
        match db.query(DOING, &tried, &[&word]).await {
            Ok(rows)
                if rows.first().map(|row| cell::<String>(row, 0)).transpose()?.as_deref() == Some(word) => {}
            Ok(_) => wrong.push(format!("the word {word:?} for {what} does not come back from the column")),
            Err(SourceError::Refused { why, .. }) => wrong.push(format!("the word for {what}: {why}")),
            Err(error) => return Err(error),
        }
        for check in &checks {
            let (name, condition): (String, String) = (cell(check, 0)?, cell(check, 1)?);
            let column = quoted(&status.name);
            let asked = format!(
                "select ({condition})::bool from (select ($1::text)::{} as {column}) as candidate",
                status.cast
            );
            // What cannot be told apart from the row is found out by writing.
            let Ok(rows) = db.query(DOING, &asked, &[&word]).await else { continue };
            if rows.first().map(|row| cell::<Option<bool>>(row, 0)).transpose()?.flatten() == Some(false) {
                wrong.push(format!("the word {word:?} for {what} is refused by the check {name:?}"));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_fits_its_type() {
        let key = |kind| KeyType { kind, cast: String::new() };
        let cases = [
            (KeyKind::Uuid, "019a8b1c-7e00-7000-8000-000000000000", true),
            (KeyKind::Uuid, "019a8b1c7e0070008000000000000000", false),
            (KeyKind::Uuid, "7", false),
            (KeyKind::Number { bits: 64 }, "9223372036854775807", true),
            (KeyKind::Number { bits: 64 }, "9223372036854775808", false),
            (KeyKind::Number { bits: 32 }, "2147483648", false),
            (KeyKind::Number { bits: 16 }, "40000", false),
            (KeyKind::Text, "anything", true),
            (KeyKind::Text, "a\0", false),
        ];
        for (kind, text, fits) in cases {
            assert_eq!(key(kind).fits(text), fits, "{kind:?} {text}");
        }
    }
}
