//! A table that the configuration was found to fit: the names and words of its statements, safe to write into them.

use super::catalogue::{Catalogue, Column};
use super::config::{Columns, OutboxConfig, Statuses};
use super::db::{Db, cell};
use super::key::{RowKey, can_be_id};
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
    pub key: RowKey,
    pub payload: PayloadType,
    /// Characters of an error that a row holds.
    pub error_chars_max: Option<usize>,
    pub statements: Statements,
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
            wrong.extend(RowKey::find(&catalogue, id).err());
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
        let key = RowKey::find(&catalogue, id).ok()?;
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
        "id" => (can_be_id(column), "uuid, smallint, integer, bigint, text or varchar"),
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
