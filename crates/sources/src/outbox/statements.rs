//! Every statement on an outbox, composed once from names and words that are quoted. Values are bound.
//!
//! Times are the application's database's own: its relay and its programs compare with that clock, and ours is another.

use super::config::{Order, OutboxConfig};
use super::name::quoted;
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RelayStatements {
    /// Claims up to `$1` due rows for `$2` milliseconds.
    pub claim: String,
    /// Takes back up to `$1` rows whose claim is over.
    pub take_back: String,
    /// `$1` keys, `$2` claims.
    pub delivered: String,
    /// The same with `$3` counts, `$4` errors and `$5` delays.
    pub retried: String,
    /// The same with `$3` counts and `$4` errors.
    pub died: String,
    /// The same with `$3` delays.
    pub released: String,
    /// How many milliseconds from now something is due.
    pub next_due: String,
}

impl Statements {
    pub fn of(table: &Table, config: &OutboxConfig) -> Statements {
        let Table { sql, columns, statuses, key, .. } = table;
        let (id, status, cast) = (&columns.id, &columns.status, &key.cast);
        let (pending, dead) = (&statuses.pending, &statuses.dead_letter);
        let sweep = |behind: &str| {
            format!(
                "select {id}::text, xmin::text, pg_catalog.pg_column_size({payload})::int8
                   from {sql}
                  where {status} = {dead}{behind}
                  order by {id}
                  limit $1",
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
                  where {id} = ($1::text)::{cast} and {status} = {dead}
                 returning {id}::text",
                retry_count = columns.retry_count,
                last_error = columns.last_error,
            )
        };
        Statements {
            sweep_first: sweep(""),
            sweep_after: sweep(&format!(" and {id} > ($2::text)::{cast}")),
            fetch: fetch(table),
            redrive: redrive(""),
            redrive_edited: redrive(&format!(", {} = {}", columns.payload, bound_payload(table, 2))),
            look: format!(
                "select {id}::text, {status}::text, {processed_at}
                   from {sql}
                  where {id} = any(($1::text[])::{cast}[])",
                processed_at = milliseconds(columns.processed_at.as_deref()),
            ),
            relay: config.relay.as_ref().and_then(|relay| RelayStatements::of(table, relay.order)),
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
fn milliseconds(column: Option<&str>) -> String {
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

fn payload(table: &Table, prefix: &str) -> String {
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
        "select {id}::text, xmin::text, {event_type}::text, {aggregate_type}, {aggregate_id}, {payload},
                {schema_version}, {tenant}, {retry_count}::int8, {max_retries}, {last_error}::text,
                {processed_at}, {created},
                (select pg_catalog.row_to_json(r)::text from (select {others}) as r)
           from {sql} as o
          where {id} = any(($1::text[])::{cast}[]) and {status} = {dead}
          order by {created_at}, {id}",
        id = columns.id,
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
        cast = key.cast,
        status = columns.status,
        dead = statuses.dead_letter,
        created_at = columns.created_at,
    )
}

fn number(column: Option<&str>) -> String {
    column.map_or_else(|| "null::int8".to_owned(), |column| format!("{column}::int8"))
}

impl RelayStatements {
    fn of(table: &Table, order: Order) -> Option<RelayStatements> {
        let Table { sql, columns, statuses, key, .. } = table;
        let (id, status, cast) = (&columns.id, &columns.status, &key.cast);
        let (pending, processing) = (&statuses.pending, &statuses.processing);
        let next = columns.next_attempt_at.as_ref()?;
        let now = table.now(next);
        let processed_at = match &columns.processed_at {
            Some(column) => format!(", {column} = {}", table.now(column)),
            None => String::new(),
        };
        // Whoever lost the claim in between changes nothing: the end of the claim tells them apart.
        let settle = |set: &str, also: &str, names: &str| {
            let type_of_next = if now == "now()" { "timestamptz" } else { "timestamp" };
            format!(
                "update {sql} as o
                    set {set}
                   from unnest($1::text[], $2::text[]{also}) as done(key, claim{names})
                  where o.{id} = done.key::{cast}
                    and o.{status} = {processing}
                    and o.{next} = done.claim::{type_of_next}
                 returning o.{id}::text"
            )
        };
        let later = format!("{next} = {now} + done.delay * interval '1 millisecond'");
        let told = format!("{} = done.count, {} = done.error", columns.retry_count, columns.last_error);
        Some(RelayStatements {
            claim: claim(table, order, next, now),
            take_back: format!(
                "update {sql}
                    set {status} = {pending}
                  where {id} in (select {id}
                                   from {sql}
                                  where {status} = {processing} and {next} <= {now}
                                  order by {next}
                                  limit $1
                                    for update skip locked)
                 returning {id}::text"
            ),
            delivered: settle(&format!("{status} = {}{processed_at}", statuses.processed), "", ""),
            retried: settle(
                &format!("{status} = {pending}, {told}, {later}"),
                ", $3::int8[], $4::text[], $5::int8[]",
                ", count, error, delay",
            ),
            died: settle(
                &format!("{status} = {}, {told}{processed_at}", statuses.dead_letter),
                ", $3::int8[], $4::text[]",
                ", count, error",
            ),
            released: settle(&format!("{status} = {pending}, {later}"), ", $3::int8[]", ", delay"),
            next_due: format!(
                "select floor(extract(epoch from min({next}) - {now}) * 1000)::int8
                   from {sql}
                  where {status} in ({pending}, {processing}) and {next} > {now}"
            ),
        })
    }
}

/// Of each aggregate only the oldest row that is not processed may be claimed: two relays can never have two of one.
fn claim(table: &Table, order: Order, next: &str, now: &str) -> String {
    let Table { sql, columns, statuses, .. } = table;
    let (id, status, created_at) = (&columns.id, &columns.status, &columns.created_at);
    let (pending, processing) = (&statuses.pending, &statuses.processing);
    let holding_back = match order {
        Order::Pass => format!("{pending}, {processing}"),
        Order::Wait => format!("{pending}, {processing}, {}", statuses.dead_letter),
    };
    let in_order = match &columns.aggregate_id {
        Some(aggregate) => {
            let same_type = match &columns.aggregate_type {
                Some(of) => format!(" and earlier.{of} is not distinct from o.{of}"),
                None => String::new(),
            };
            format!(
                "and not exists (select 1
                                   from {sql} as earlier
                                  where earlier.{aggregate} = o.{aggregate}{same_type}
                                    and earlier.{status} in ({holding_back})
                                    and (earlier.{created_at}, earlier.{id}) < (o.{created_at}, o.{id}))"
            )
        }
        None => String::new(),
    };
    format!(
        "with due as materialized (
             select o.{id} as key
               from {sql} as o
              where o.{status} = {pending} and (o.{next} is null or o.{next} <= {now})
                {in_order}
              order by o.{created_at}, o.{id}
              limit $1
                for update of o skip locked)
         update {sql} as o
            set {status} = {processing}, {next} = {now} + $2::int8 * interval '1 millisecond'
           from due
          where o.{id} = due.key
         returning o.{id}::text, o.{event_type}::text, {aggregate_type}, {aggregate_id}, {payload},
                   {schema_version}, {tenant}, o.{retry_count}::int8, {max_retries}, {created},
                   o.{next}::text",
        event_type = columns.event_type,
        aggregate_type = of_row(columns.aggregate_type.as_deref(), "text"),
        aggregate_id = of_row(columns.aggregate_id.as_deref(), "text"),
        payload = payload(table, "o."),
        schema_version = of_row(columns.schema_version.as_deref(), "text"),
        tenant = of_row(columns.tenant.as_deref(), "text"),
        retry_count = columns.retry_count,
        max_retries = of_row(columns.max_retries.as_deref(), "int8"),
        created = milliseconds(Some(&format!("o.{created_at}"))),
    )
}

fn of_row(column: Option<&str>, cast: &str) -> String {
    column.map_or_else(|| format!("null::{cast}"), |column| format!("o.{column}::{cast}"))
}
