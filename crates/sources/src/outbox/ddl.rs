//! The layout of an outbox as SQL: the table, what its claims and looks need, and the trigger that tells of changes.

use std::fmt::Write as _;

use lazaret_core::limits;
use lazaret_core::retry::Preset;

use super::config::OutboxConfig;
use super::name::{TableName, literal, quoted};
use super::notes::CHANNEL;

/// Bytes of a name in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// Statements that make the table of a configuration, its indexes and its triggers. What is there already stays: on an
/// existing table only the indexes and triggers are added.
pub fn ddl(config: &OutboxConfig) -> String {
    let mut sql = format!("-- The outbox {} for Lazaret. May be run again.\n\n", config.table);
    if let Some(schema) = &config.table.schema {
        writeln!(sql, "create schema if not exists {};\n", quoted(schema)).expect(STRING);
    }
    sql.push_str(&table(config));
    sql.push_str(&indexes(config));
    sql.push_str(&triggers(config));
    sql
}

const STRING: &str = "writing to a string cannot fail";

fn table(config: &OutboxConfig) -> String {
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

fn indexes(config: &OutboxConfig) -> String {
    let (columns, statuses) = (&config.columns, &config.statuses);
    let (id, status, created_at) =
        (quoted(&columns.id), quoted(&columns.status), quoted(&columns.created_at));
    let [pending, processing, dead] =
        [&statuses.pending, &statuses.processing, &statuses.dead_letter].map(|word| literal(word));
    let mut sql = String::from("-- On a large table make these with `create index concurrently` instead.\n");
    let mut index = |what: &str, on: String, rows: String| {
        let name = quoted(&own_name(&config.table, what));
        let table = config.table.sql();
        writeln!(sql, "create index if not exists {name} on {table} ({on}) where {rows};").expect(STRING);
    };
    index("dead", id.clone(), format!("{status} = {dead}"));
    index("due", format!("{created_at}, {id}"), format!("{status} = {pending}"));
    if let Some(next) = &columns.next_attempt_at {
        index("next", quoted(next), format!("{status} in ({pending}, {processing})"));
    }
    if let Some(aggregate) = &columns.aggregate_id {
        index(
            "order",
            format!("{}, {created_at}, {id}", quoted(aggregate)),
            format!("{status} in ({pending}, {processing}, {dead})"),
        );
    }
    sql.push('\n');
    sql
}

/// One notification for each statement that made rows due or dead, with the keys of the dead ones where they fit.
fn triggers(config: &OutboxConfig) -> String {
    let (id, status) = (quoted(&config.columns.id), quoted(&config.columns.status));
    let (pending, dead) = (literal(&config.statuses.pending), literal(&config.statuses.dead_letter));
    // Whoever notifies waits for others who do, so new events are told of only if a relay of ours wants to know.
    let due = match config.relay {
        Some(_) => format!("exists (select from changed where {status} = {pending})"),
        None => "false".to_owned(),
    };
    let table = config.table.sql();
    let function = TableName { schema: config.table.schema.clone(), name: own_name(&config.table, "notify") };
    let function = function.sql();
    let mut sql = format!(
        "create or replace function {function}() returns trigger language plpgsql as $lazaret$
declare
    dead_keys json;
    how_many bigint;
    is_due boolean;
begin
    select count(*), coalesce(json_agg(key), '[]') into how_many, dead_keys
      from (select {id}::text as key from changed where {status} = {dead} limit {rows_max} + 1) as dead;
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
            "drop trigger if exists {name} on {table};\n\
             create trigger {name} after {event} on {table}\n    \
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
        assert!(ddl(&config).contains("select false into is_due"));
        config.relay = Some(RelayConfig::default());
        let told = "select exists (select from changed where \"status\" = 'PENDING') into is_due";
        assert!(ddl(&config).contains(told));
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
