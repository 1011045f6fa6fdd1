//! The outbox looked at from outside, for health and doctor: each finding with what to do. Changes nothing.

use lazaret_core::limits;

use super::catalogue::{Catalogue, Column};
use super::db::cell;
use super::relay::Ordered;
use super::table::Table;
use super::{Outbox, now};
use crate::{Finding, SourceError};

/// Everything that could be wrong, the worst kind of failure alone if nothing else can be looked at.
pub(super) async fn findings(outbox: &Outbox) -> Vec<Finding> {
    let mut findings = Vec::new();
    match server(outbox).await {
        Ok(found) => findings.extend(found),
        Err(error) => {
            let hint = "start the database, or repair url, user and password of the source";
            return vec![Finding::error(error.to_string(), hint)];
        }
    }
    let table = match outbox.bind_again().await {
        Ok(table) => table,
        Err(SourceError::Unfit(why)) => {
            let hint = "map the columns and words under the source, or make the table (lazaret outbox init)";
            findings.extend(why.split("; ").map(|why| Finding::error(why, hint)));
            return findings;
        }
        Err(error) => {
            findings.push(Finding::error(error.to_string(), "let the user of the source read the catalogue"));
            return findings;
        }
    };
    findings.push(Finding::ok(format!("table {} has every column that is mapped", outbox.config.table)));
    findings.extend(layout(outbox, &table));
    for looked in
        [privileges(outbox, &table).await, trigger(outbox, &table).await, rows(outbox, &table).await]
    {
        match looked {
            Ok(found) => findings.extend(found),
            Err(error) => {
                findings.push(Finding::error(error.to_string(), "see what the database's log says"));
            }
        }
    }
    findings
}

const SERVER: &str = "
    select pg_catalog.pg_is_in_recovery(),
           pg_catalog.current_setting('default_transaction_read_only') = 'on',
           floor(extract(epoch from pg_catalog.clock_timestamp()) * 1000)::int8,
           pg_catalog.current_setting('server_version')";

async fn server(outbox: &Outbox) -> Result<Vec<Finding>, SourceError> {
    // Connects first, so that the time of the question does not hold it.
    drop(outbox.db.client().await?);
    let before = now();
    let rows = outbox.db.query("asking the server", SERVER, &[]).await?;
    let (asked, answered) = (before.ms(), now().ms());
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let version: String = cell(row, 3)?;
    let mut findings = vec![Finding::ok(format!("connected to {}, version {version}", outbox.db.place()))];
    let (standby, read_only): (bool, bool) = (cell(row, 0)?, cell(row, 1)?);
    if standby || read_only {
        findings.push(Finding::error(
            "the server takes no changes: it is a standby or read-only",
            "name the primary, or all hosts with target_session_attrs=read-write",
        ));
    }
    let theirs: i64 = cell(row, 2)?;
    // Off by what lies outside of question and answer.
    let off_ms = if theirs < asked { asked - theirs } else { (theirs - answered).max(0) };
    findings.push(match off_ms > limits::CLOCK_OFF_MS_MAX {
        false => Finding::ok("its clock agrees with ours"),
        true => Finding::warning(
            format!("its clock is {off_ms} ms off ours"),
            "set both clocks by NTP: times of death and of capture do not fit together",
        ),
    });
    Ok(findings)
}

/// What the catalogue alone tells.
fn layout(outbox: &Outbox, table: &Table) -> Vec<Finding> {
    let (config, catalogue) = (&outbox.config, &table.catalogue);
    let mut findings = Vec::new();
    let column = |name: &str| catalogue.column(name);
    if let Some(status) = column(&config.columns.status) {
        findings.push(index_finding(catalogue, status, "dead and due rows"));
    }
    match table.statements.relay.as_ref().and_then(|relay| relay.ordered.as_ref()) {
        Some(Ordered::ByIndex { .. }) => {
            findings.push(Finding::ok("an index keeps the events of an aggregate in order"));
        }
        Some(Ordered::ByPass { .. }) => findings.push(Finding::warning(
            "no index holds the unprocessed events of each aggregate in order: each claim reads all of them",
            "make it (lazaret outbox init), without blocking writers",
        )),
        None => {}
    }
    let times = ["created_at", "next_attempt_at", "processed_at"];
    for (what, name) in config.columns.all().into_iter().filter(|(what, _)| times.contains(what)) {
        if column(name).is_some_and(|column| column.base == "timestamp") {
            findings.push(Finding::warning(
                format!("column {name:?} ({what}) has no time zone and is taken as UTC"),
                "write UTC into it, or make it timestamptz",
            ));
        }
    }
    if catalogue.row_security {
        findings.push(Finding::warning(
            "row security is on: policies may hide dead rows",
            "let the user of the source see every row (bypassrls, or a policy for it)",
        ));
    }
    findings
}

fn index_finding(catalogue: &Catalogue, status: &Column, what: &str) -> Finding {
    match catalogue.is_indexed_by(status) {
        true => Finding::ok(format!("an index finds {what}")),
        false => Finding::warning(
            format!("no index finds {what}: every look reads the whole table"),
            "make the indexes of `lazaret outbox init --print`",
        ),
    }
}

const PRIVILEGES: &str = "
    select pg_catalog.has_table_privilege($1::oid, 'select'),
           pg_catalog.has_table_privilege($1::oid, 'insert'),
           coalesce(pg_catalog.bool_and(pg_catalog.has_column_privilege($1::oid, number, 'update')), true)
      from pg_catalog.unnest($2::int2[]) as number";

async fn privileges(outbox: &Outbox, table: &Table) -> Result<Vec<Finding>, SourceError> {
    let written = ["status", "retry_count", "last_error", "next_attempt_at", "processed_at", "payload"];
    let columns = outbox.config.columns.all().into_iter().filter(|(what, _)| written.contains(what));
    let numbers: Vec<i16> =
        columns.filter_map(|(_, name)| Some(table.catalogue.column(name)?.number)).collect();
    let rows =
        outbox.db.query("looking at privileges", PRIVILEGES, &[&table.catalogue.oid, &numbers]).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let (select, insert, update): (bool, bool, bool) = (cell(row, 0)?, cell(row, 1)?, cell(row, 2)?);
    let grant = |what: &str| format!("grant {what} on {} to the user of the source", table.sql);
    let mut findings = Vec::new();
    if !select {
        findings.push(Finding::error("rows may not be read: nothing is captured", grant("select")));
    }
    if !update {
        findings.push(Finding::error("rows may not be changed: nothing can be put back", grant("update")));
    }
    if !insert {
        findings.push(Finding::warning(
            "rows may not be made: one that vanished cannot be put back",
            grant("insert"),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("rows may be read, changed and made"));
    }
    Ok(findings)
}

async fn trigger(outbox: &Outbox, table: &Table) -> Result<Vec<Finding>, SourceError> {
    let oid = table.catalogue.oid;
    let rows = outbox.db.query("looking for a trigger", super::capture::HAS_TRIGGER, &[&oid]).await?;
    let triggers: i64 = rows.first().map_or(Ok(0), |row| cell(row, 0))?;
    Ok(vec![match triggers {
        0 => Finding::warning(
            format!("no trigger tells of new rows: they are looked for every {} ms", outbox.config.poll_ms),
            "make the triggers of `lazaret outbox init --print`",
        ),
        1 => Finding::warning(
            "a trigger tells of only one of insert and update",
            "make both triggers of `lazaret outbox init --print`",
        ),
        _ => Finding::ok("triggers tell of new rows"),
    }])
}

/// What the rows themselves tell, counted as far as anybody wants to know.
async fn rows(outbox: &Outbox, table: &Table) -> Result<Vec<Finding>, SourceError> {
    const DOING: &str = "counting rows";
    let mut findings = Vec::new();
    let (status, sql) = (&table.columns.status, &table.sql);
    let count = |condition: String| {
        format!("select count(*) from (select from {sql} where {condition} limit $1) as counted")
    };
    let dead = count(format!("{status} = {}", table.statuses.dead_letter));
    let counted = outbox.db.query(DOING, &dead, &[&limits::OUTBOX_COUNT_MAX]).await?;
    let dead: i64 = counted.first().map_or(Ok(0), |row| cell(row, 0))?;
    let at_least = if dead == limits::OUTBOX_COUNT_MAX { "at least " } else { "" };
    findings.push(Finding::ok(format!("{at_least}{dead} rows are dead")));
    let processing = &table.statuses.processing;
    let overdue = match &table.columns.next_attempt_at {
        Some(next) => format!(" and ({next} is null or {next} < {} - interval '1 minute')", table.now(next)),
        // Without a time nobody can tell how long a row is there.
        None => return Ok(findings),
    };
    let stuck = count(format!("{status} = {processing}{overdue}"));
    let counted = outbox.db.query(DOING, &stuck, &[&limits::OUTBOX_COUNT_MAX]).await?;
    let stuck: i64 = counted.first().map_or(Ok(0), |row| cell(row, 0))?;
    findings.push(match (stuck, outbox.config.relay.is_some()) {
        (0, _) => Finding::ok("no row is stuck in processing"),
        (stuck, true) => Finding::warning(
            format!("{stuck} rows are stuck in processing"),
            "see that the relay runs; rows without a time in next_attempt_at were not claimed by it and stay",
        ),
        (stuck, false) => Finding::warning(
            format!("{stuck} rows are stuck in processing"),
            "whoever processes the table died over them: set them back to pending",
        ),
    });
    Ok(findings)
}
