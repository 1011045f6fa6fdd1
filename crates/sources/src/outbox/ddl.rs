//! The layout of an outbox as SQL: the table, the indexes of claims and looks, and the triggers that notify of changes.

use std::fmt::Write as _;

use lazaret_core::limits;
use lazaret_core::retry::Preset;

use super::config::{Order, OutboxConfig};
use super::name::{TableName, literal, quoted};
use super::notes::CHANNEL;
use super::table::Table;

/// Bytes of a name in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// One statement of the layout, or a few that belong together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What it does, and what it locks on a table that is in use.
    pub about: String,
    pub sql: String,
    /// The index that it makes without blocking writers, if it is one. If that is broken off it leaves an invalid index
    /// behind, which has to be dropped first.
    pub(super) index: Option<TableName>,
}

/// The steps that make the table of a configuration, its indexes and its triggers. What is there already stays: on an
/// existing table only the indexes and triggers are added. Each step is run by itself, outside of a transaction.
pub fn ddl(config: &OutboxConfig) -> Vec<Step> {
    steps(config, None)
}

/// The steps for a table whose key is known.
pub(super) fn steps(config: &OutboxConfig, table: Option<&Table>) -> Vec<Step> {
    let mut steps = Vec::new();
    let step = |about: &str, sql: String| Step { about: about.to_owned(), sql, index: None };
    if let Some(schema) = &config.table.schema {
        let sql = format!("create schema if not exists {};\n", quoted(schema));
        steps.push(step("the schema; locks nothing that exists", sql));
    }
    let sql = new_table(config);
    steps.push(step("the table; locks nothing that exists", sql));
    steps.extend(indexes(config, table));
    steps.push(step(
        "the triggers; block writers for as long as it takes to get the table's lock, a moment unless a long \
         transaction holds it",
        triggers(config, table),
    ));
    steps
}

/// The steps as a script for `psql`.
pub fn script(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("-- {}.\n{}\n", step.about, step.sql)).collect()
}

const STRING: &str = "writing to a string cannot fail";

fn new_table(config: &OutboxConfig) -> String {
    let columns = &config.columns;
    let words: Vec<String> = config.statuses.all().iter().map(|(_, word)| literal(word)).collect();
    let optional =
        |name: &Option<String>, of: &str| name.as_deref().map(|name| format!("    {} {of}", quoted(name)));
    let status = quoted(&columns.status);
    let retry = config.relay.as_ref().map_or_else(|| Preset::Outbox.policies(), |relay| relay.retry);
    let attempts = retry.base().attempts;
    let lines = [
        Some(format!("    {} uuid primary key default gen_random_uuid()", quoted(&columns.id))),
        Some(format!("    {} text not null", quoted(&columns.event_type))),
        optional(&columns.aggregate_type, "text"),
        optional(&columns.aggregate_id, "text"),
        Some(format!("    {} jsonb not null", quoted(&columns.payload))),
        optional(&columns.schema_version, "integer not null default 1"),
        Some(format!(
            "    {status} text not null default {} check ({status} in ({}))",
            literal(&config.statuses.pending),
            words.join(", ")
        )),
        Some(format!("    {} integer not null default 0", quoted(&columns.retry_count))),
        optional(&columns.max_retries, &format!("integer not null default {attempts}")),
        Some(format!("    {} text", quoted(&columns.last_error))),
        optional(&columns.next_attempt_at, "timestamptz default now()"),
        // Not now(): events of one transaction keep their order.
        Some(format!("    {} timestamptz not null default clock_timestamp()", quoted(&columns.created_at))),
        optional(&columns.processed_at, "timestamptz"),
        optional(&columns.tenant, "text"),
    ];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    format!("create table if not exists {} (\n{}\n);\n\n", config.table.sql(), lines.join(",\n"))
}

fn indexes(config: &OutboxConfig, table: Option<&Table>) -> Vec<Step> {
    let (columns, statuses) = (&config.columns, &config.statuses);
    let (status, created_at) = (quoted(&columns.status), quoted(&columns.created_at));
    let keys = table.map_or_else(|| quoted(&columns.id), |table| table.key.list(""));
    let [pending, processing, dead] =
        [&statuses.pending, &statuses.processing, &statuses.dead_letter].map(|word| literal(word));
    // PostgreSQL cannot build an index of a partitioned table beside its writers.
    let is_partitioned = table.is_some_and(|table| table.catalogue.kind == "p");
    let mut steps = Vec::new();
    let mut index = |what: &str, on: String, rows: String| {
        let name = TableName { schema: config.table.schema.clone(), name: own_name(&config.table, what) };
        let (how, locks) = match is_partitioned {
            true => ("", "blocks writers while it is built, because the table has partitions"),
            false => (" concurrently", "blocks nobody, and takes as long as reading the table twice"),
        };
        steps.push(Step {
            about: format!("index {}; {locks}", name.name),
            sql: format!(
                "create index{how} if not exists {} on {} ({on})\n    where {rows};\n",
                quoted(&name.name),
                config.table.sql()
            ),
            index: Some(name),
        });
    };
    index("dead", keys.clone(), format!("{status} = {dead}"));
    if let Some(next) = columns.next_attempt_at.as_deref().map(quoted) {
        index("next", next.clone(), format!("{status} in ({pending}, {processing})"));
        if let (Some(_), Some(aggregate)) = (&config.relay, columns.aggregate_id.as_deref().map(quoted)) {
            index("free", format!("{next}, {keys}"), format!("{status} = {pending} and {aggregate} is null"));
        }
    }
    if let (Some(relay), Some(aggregate)) = (&config.relay, columns.aggregate_id.as_deref().map(quoted)) {
        let of = columns.aggregate_type.as_deref().map(|of| format!("{}, ", quoted(of))).unwrap_or_default();
        let unprocessed = match relay.order {
            Order::Pass => format!("{pending}, {processing}"),
            Order::Wait => format!("{pending}, {processing}, {dead}"),
        };
        // The name tells the two orders apart: after a change of the order both may be there.
        let what = if relay.order == Order::Pass { "heads" } else { "heads_wait" };
        index(what, format!("{aggregate}, {of}{created_at}, {keys}"), format!("{status} in ({unprocessed})"));
    }
    steps
}

/// One notification for each statement that made rows due or dead, with the keys of the dead ones where they fit.
fn triggers(config: &OutboxConfig, table: Option<&Table>) -> String {
    let status = quoted(&config.columns.status);
    let key =
        table.map_or_else(|| format!("{}::text", quoted(&config.columns.id)), |table| table.key.text(""));
    let (pending, dead) = (literal(&config.statuses.pending), literal(&config.statuses.dead_letter));
    // Whoever notifies waits for others who do, so new events are told of only if a relay of ours wants to know.
    let due = match config.relay {
        Some(_) => format!("exists (select from changed where {status} = {pending})"),
        None => "false".to_owned(),
    };
    let on = config.table.sql();
    let function = TableName { schema: config.table.schema.clone(), name: own_name(&config.table, "notify") };
    let function = function.sql();
    let mut sql = format!(
        "create or replace function {function}() returns trigger language plpgsql as $lazaret$
declare
    dead_keys json;
    how_many bigint;
    is_due boolean;
begin
    select count(*), coalesce(json_agg(lazaret_key), '[]') into how_many, dead_keys
      from (select {key} as lazaret_key from changed where {status} = {dead} limit {rows_max} + 1) as dead;
    select {due} into is_due;
    if how_many = 0 and not is_due then
        return null;
    end if;
    if how_many > {rows_max} or octet_length(dead_keys::text) > {bytes_max} then
        dead_keys := null;
    end if;
    perform pg_notify('{CHANNEL}', json_build_object(
        'table', tg_table_schema || '.' || tg_table_name, 'due', is_due, 'dead', dead_keys)::text);
    return null;
end
$lazaret$;\n\n",
        rows_max = limits::OUTBOX_NOTE_ROWS_MAX,
        bytes_max = limits::OUTBOX_NOTE_BYTES_MAX,
    );
    for event in ["insert", "update"] {
        let name = quoted(&own_name(&config.table, event));
        writeln!(
            sql,
            "drop trigger if exists {name} on {on};\n\
             create trigger {name} after {event} on {on}\n    \
             referencing new table as changed for each statement execute function {function}();"
        )
        .expect(STRING);
    }
    sql
}

/// The name of something that we add beside a table. A long one is cut as PostgreSQL would, but before what it is for.
fn own_name(table: &TableName, what: &str) -> String {
    let room = NAME_BYTES_MAX - "lazaret__".len() - what.len();
    let cut = &table.name[..table.name.floor_char_boundary(room)];
    format!("lazaret_{cut}_{what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::RelayConfig;

    #[test]
    fn without_a_relay_new_events_are_not_told_of() {
        let mut config =
            OutboxConfig::new("orders", "postgres://h/d", TableName::parse("app.outbox").unwrap());
        assert!(script(&ddl(&config)).contains("select false into is_due"));
        config.relay = Some(RelayConfig::default());
        let told = "select exists (select from changed where \"status\" = 'PENDING') into is_due";
        assert!(script(&ddl(&config)).contains(told));
    }

    #[test]
    fn names_beside_a_table_fit() {
        let table = TableName { schema: None, name: "ü".repeat(60) };
        for what in ["dead", "notify"] {
            let name = own_name(&table, what);
            assert!(name.len() <= NAME_BYTES_MAX && name.ends_with(what), "{name}");
        }
    }
}
