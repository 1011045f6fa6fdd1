//! Every statement on an outbox, composed once from names and words that are quoted. Values are bound.
//!
//! Times are the application's database's own: its relay and its programs compare with that clock, and ours is another.

use super::config::OutboxConfig;
use super::name::quoted;
use super::relay::RelayStatements;
use super::table::{PayloadType, Table};

/// The statements of one table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Statements {
    /// Keys of dead rows from the first one on: `$1` is how many.
    pub sweep_first: String,
    /// The same behind a key, which is `$2`.
    pub sweep_after: String,
    /// Dead rows by key (`$1`), whole.
    pub fetch: String,
    /// A dead row (`$1`) is to be processed again.
    pub redrive: String,
    /// The same with another payload, which is `$2`.
    pub redrive_edited: String,
    /// Rows by key (`$1`): their status.
    pub look: String,
    pub relay: Option<RelayStatements>,
}

impl Statements {
    pub fn of(table: &Table, config: &OutboxConfig) -> Statements {
        let Table { sql, columns, statuses, key, .. } = table;
        let status = &columns.status;
        let (pending, dead) = (&statuses.pending, &statuses.dead_letter);
        let sweep = |behind: &str| {
            format!(
                "select {key_text}, xmin::text, pg_catalog.pg_column_size({payload})::int8
                   from {sql}
                  where {status} = {dead}{behind}
                  order by {keys}
                  limit $1",
                key_text = key.text(""),
                keys = key.list(""),
                payload = columns.payload,
            )
        };
        let redrive = |also: &str| {
            let due = match &columns.next_attempt_at {
                Some(next) => format!(", {next} = {}", table.now(next)),
                None => String::new(),
            };
            format!(
                "update {sql}
                    set {status} = {pending}, {retry_count} = 0, {last_error} = null{due}{also}
                  where {is_row} and {status} = {dead}
                 returning {key_text}",
                is_row = key.is("", "$1::text"),
                key_text = key.text(""),
                retry_count = columns.retry_count,
                last_error = columns.last_error,
            )
        };
        Statements {
            sweep_first: sweep(""),
            sweep_after: sweep(&format!(" and {}", key.is_behind("", "$2::text"))),
            fetch: fetch(table),
            redrive: redrive(""),
            redrive_edited: redrive(&format!(", {} = {}", columns.payload, bound_payload(table, 2))),
            look: format!(
                "select {key_text}, {status}::text, {processed_at}
                   from {sql} as o
                   join pg_catalog.unnest($1::text[]) as wanted(lazaret_key) on {is_row}",
                key_text = key.text("o."),
                is_row = key.is("o.", "wanted.lazaret_key"),
                processed_at = milliseconds(columns.processed_at.as_deref()),
            ),
            relay: config.relay.as_ref().and_then(|relay| RelayStatements::of(table, relay)),
        }
    }
}

/// A payload that is bound, in the type of its column.
pub(super) fn bound_payload(table: &Table, number: usize) -> String {
    match table.payload {
        PayloadType::Bytes => format!("${number}::bytea"),
        PayloadType::Json => format!("(${number}::text)::json"),
        PayloadType::Jsonb => format!("(${number}::text)::jsonb"),
        PayloadType::Text => format!("${number}::text"),
    }
}

/// Unix milliseconds of a time; null where there is none or where it is infinite.
pub(super) fn milliseconds(column: Option<&str>) -> String {
    match column {
        Some(column) => {
            format!("case when isfinite({column}) then floor(extract(epoch from {column}) * 1000)::int8 end")
        }
        None => "null::int8".to_owned(),
    }
}

fn text(column: Option<&str>) -> String {
    column.map_or_else(|| "null::text".to_owned(), |column| format!("{column}::text"))
}

pub(super) fn payload(table: &Table, prefix: &str) -> String {
    let column = &table.columns.payload;
    match table.payload {
        PayloadType::Bytes => format!("{prefix}{column}"),
        PayloadType::Json | PayloadType::Jsonb | PayloadType::Text => format!("{prefix}{column}::text"),
    }
}

/// The columns of a dead row are read in this order by `row.rs`.
fn fetch(table: &Table) -> String {
    let Table { sql, columns, statuses, key, catalogue, .. } = table;
    let others: Vec<String> = catalogue
        .columns
        .iter()
        .map(|column| quoted(&column.name))
        .filter(|name| *name != columns.payload)
        .map(|name| format!("o.{name}"))
        .collect();
    format!(
        "select {key_text}, o.xmin::text, {event_type}::text, {aggregate_type}, {aggregate_id}, {payload},
                {schema_version}, {tenant}, {retry_count}::int8, {max_retries}, {last_error}::text,
                {processed_at}, {created},
                (select pg_catalog.row_to_json(r)::text from (select {others}) as r)
           from {sql} as o
           join pg_catalog.unnest($1::text[]) as wanted(lazaret_key) on {is_row}
          where {status} = {dead}
          order by {created_at}, {keys}",
        key_text = key.text("o."),
        is_row = key.is("o.", "wanted.lazaret_key"),
        keys = key.list("o."),
        event_type = columns.event_type,
        aggregate_type = text(columns.aggregate_type.as_deref()),
        aggregate_id = text(columns.aggregate_id.as_deref()),
        payload = payload(table, ""),
        schema_version = text(columns.schema_version.as_deref()),
        tenant = text(columns.tenant.as_deref()),
        retry_count = columns.retry_count,
        max_retries = number(columns.max_retries.as_deref()),
        last_error = columns.last_error,
        processed_at = milliseconds(columns.processed_at.as_deref()),
        created = milliseconds(Some(&columns.created_at)),
        others = others.join(", "),
        status = columns.status,
        dead = statuses.dead_letter,
        created_at = columns.created_at,
    )
}

fn number(column: Option<&str>) -> String {
    column.map_or_else(|| "null::int8".to_owned(), |column| format!("{column}::int8"))
}
