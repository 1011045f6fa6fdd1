//! Alerts: what an evaluation is made from, and what it changes. Evaluations are fenced by a revision, so that of two
//! instances that evaluate at once one is applied.

pub(super) mod notifications;
pub(super) mod silences;
mod store;

use std::collections::BTreeSet;

use lazaret_core::alert::{Ack, Alert, AlertKey, AlertState, Group};
use lazaret_core::id::{AlertId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::alert_store::{AlertBatch, AlertInputs, AlertProgress, EventCount, NewLetters, SampleLetter};
use crate::audit::{Actor, NewEntry};
use crate::event::NewEvent;
use crate::packing::json;
use crate::seam::{Conn, Row, Sql, Table, Tx, Value, binds, sql, table};

pub(super) const ALERTS: Table = table!("alerts":
    "id", "kind", "scope", "subject", "rule", "severity", "state", "since", "fired_at", "clear_since", "resolved_at",
    "value", "count", "recent", "summary", "labels", "sample", "incident", "flaps", "acked_by", "acked_at",
    "ack_reason", "updated_at");

pub(super) const GROUPS: Table = table!("alert_groups": "key", "receiver", "notified_at", "members");

pub(super) const PROGRESS: Table = table!("alert_progress": "one", "revision", "events", "letters");

/// Letters of one order key that are counted; more say no more.
const REPEATED_MAX: usize = 50;

fn read(row: &Row<'_>) -> Result<Alert, StoreError> {
    let (acked_by, acked_at): (Option<String>, Option<Time>) = (row.get("acked_by")?, row.get("acked_at")?);
    let reason: Option<String> = row.get("ack_reason")?;
    Ok(Alert {
        key: AlertKey { kind: row.get("kind")?, scope: row.get("scope")?, subject: row.get("subject")? },
        rule: row.get("rule")?,
        severity: row.get("severity")?,
        state: row.get("state")?,
        since: row.get("since")?,
        fired_at: row.get("fired_at")?,
        clear_since: row.get("clear_since")?,
        resolved_at: row.get("resolved_at")?,
        value: row.get::<i64>("value")? as f64 / 1_000.0,
        count: row.get("count")?,
        recent: from_json(&row.get::<String>("recent")?)?,
        summary: row.get("summary")?,
        labels: from_json(&row.get::<String>("labels")?)?,
        sample: row.get("sample")?,
        incident: row.get("incident")?,
        flaps: row.get("flaps")?,
        ack: acked_by.zip(acked_at).map(|(by, at)| Ack { by, at, reason }),
        updated_at: row.get("updated_at")?,
    })
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Corrupt("an alert holds a bad list".to_owned()))
}

fn read_group(row: &Row<'_>) -> Result<Group, StoreError> {
    let members: Vec<String> = from_json(&row.get::<String>("members")?)?;
    Ok(Group {
        key: row.get("key")?,
        receiver: row.get("receiver")?,
        notified_at: row.get("notified_at")?,
        members: members.iter().filter_map(|id| AlertId::parse(id).ok()).collect::<BTreeSet<_>>(),
    })
}

const PROGRESS_NOW: Sql = sql!("select {} from alert_progress", PROGRESS);

const ACTIVE: Sql = sql!(
    "
select {}
  from alerts
 where state {any $1}
    or (state = $2 and updated_at >= $3)
 order by id
 limit $4",
    ALERTS
);

const ALL_GROUPS: Sql = sql!("select {} from alert_groups order by key", GROUPS);

async fn inputs(conn: &mut impl Conn, resolved_after: Time, now: Time) -> Result<AlertInputs, StoreError> {
    let progress = conn.query_opt(&PROGRESS_NOW, binds![], |row| {
        Ok(AlertProgress {
            revision: row.get("revision")?,
            events: row.get("events")?,
            letters: row.get("letters")?,
        })
    });
    let progress = progress.await?;
    let active = vec![AlertState::Pending.name(), AlertState::Firing.name()];
    let bound = 2 * limits::ALERTS_MAX;
    let binds = binds![active, AlertState::Resolved, resolved_after, bound];
    let alerts = conn.query(&ACTIVE, binds, read).await?;
    let groups = conn.query(&ALL_GROUPS, binds![], read_group).await?;
    let silences = silences::list(conn, now).await?;
    let silences = silences.into_iter().map(|it| it.silence()).collect();
    Ok(AlertInputs { progress, alerts, groups, silences })
}

/// The letter of a count is that of its newest event.
const COUNT_EVENTS: Sql = sql!(
    "
select n.kind, n.incident, n.times, l.id, l.source, l.queue, l.type, l.error_type, l.error_message, l.tenant
  from (select kind, incident, count(*) as times, max(position) as newest
          from events
         where position > $1
           and position <= $2
           and kind {any $3}
         group by kind, incident) n
  join events e on e.position = n.newest
  left join dead_letter_queue l on l.id = e.letter"
);

async fn count_events(
    conn: &mut impl Conn,
    after: u64,
    until: u64,
    kinds: &[&'static str],
) -> Result<Vec<EventCount>, StoreError> {
    let read = |row: &Row<'_>| {
        let letter: Option<LetterId> = row.get("id")?;
        let newest = match letter {
            None => None,
            Some(id) => Some(SampleLetter {
                id,
                source: row.get("source")?,
                queue: row.get("queue")?,
                letter_type: row.get("type")?,
                error_type: row.get("error_type")?,
                error_message: row.get("error_message")?,
                tenant: row.get("tenant")?,
            }),
        };
        let (kind, incident) = (row.get("kind")?, row.get("incident")?);
        Ok(EventCount { kind, incident, times: row.get("times")?, newest })
    };
    conn.query(&COUNT_EVENTS, binds![after, until, kinds.to_vec()], read).await
}

/// A bounded count for each order key: one key may have a million letters.
const NEW_LETTERS: Sql = sql!(
    "
select n.aggregate, n.tenant, n.source, n.times,
       (select count(*)
          from (select 1
                  from dead_letter_queue x
                 where x.aggregate = n.aggregate
                   and x.died_at >= $4
                 limit $5) counted) as repeated
  from (select l.aggregate, l.tenant, l.source, count(*) as times
          from events e
          join dead_letter_queue l on l.id = e.letter
         where e.position > $1
           and e.position <= $2
           and e.kind {any $3}
           and (l.aggregate is not null or l.tenant is not null)
         group by l.aggregate, l.tenant, l.source) n"
);

async fn new_letters(
    conn: &mut impl Conn,
    after: u64,
    until: u64,
    kinds: &[&'static str],
    since: Time,
) -> Result<Vec<NewLetters>, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(NewLetters {
            aggregate: row.get("aggregate")?,
            tenant: row.get("tenant")?,
            source: row.get("source")?,
            times: row.get("times")?,
            repeated: row.get("repeated")?,
        })
    };
    let binds = binds![after, until, kinds.to_vec(), since, REPEATED_MAX];
    conn.query(&NEW_LETTERS, binds, read).await
}

const BEGIN: Sql =
    sql!("insert into alert_progress ({}) values (1, $1, $2, $3) on conflict (one) do nothing", PROGRESS);

const ADVANCE: Sql = sql!(
    "
update alert_progress
   set revision = $1, events = $2, letters = $3
 where revision = $4"
);

const PUT: Sql = sql!(
    "
insert into alerts ({})
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
on conflict (id) do update
   set rule = excluded.rule, severity = excluded.severity, state = excluded.state, since = excluded.since,
       fired_at = excluded.fired_at, clear_since = excluded.clear_since, resolved_at = excluded.resolved_at,
       value = excluded.value, count = excluded.count, recent = excluded.recent, summary = excluded.summary,
       labels = excluded.labels, sample = excluded.sample, incident = excluded.incident, flaps = excluded.flaps,
       acked_by = excluded.acked_by, acked_at = excluded.acked_at, ack_reason = excluded.ack_reason,
       updated_at = excluded.updated_at",
    ALERTS
);

const PUT_GROUP: Sql = sql!(
    "
insert into alert_groups ({})
values ($1, $2, $3, $4)
on conflict (key) do update
   set receiver = excluded.receiver, notified_at = excluded.notified_at, members = excluded.members",
    GROUPS
);

const END_GROUP: Sql = sql!("delete from alert_groups where key = $1");

async fn apply(tx: &mut impl Tx, batch: &AlertBatch) -> Result<bool, StoreError> {
    let AlertProgress { revision, events, letters } = batch.progress;
    let applied = match revision {
        1 => tx.execute(&BEGIN, binds![revision, events, letters]).await?,
        _ => tx.execute(&ADVANCE, binds![revision, events, letters, revision - 1]).await?,
    };
    if applied == 0 {
        return Ok(false);
    }
    let mut rows = Vec::with_capacity(batch.alerts.len());
    for alert in &batch.alerts {
        rows.push(values(alert)?);
    }
    tx.execute_each(&PUT, &rows).await?;
    for group in &batch.groups {
        let members: Vec<String> = group.members.iter().map(AlertId::to_string).collect();
        let binds = binds![&group.key, &group.receiver, group.notified_at, json(&members)?];
        tx.execute(&PUT_GROUP, binds).await?;
    }
    for key in &batch.ended_groups {
        tx.execute(&END_GROUP, binds![key]).await?;
    }
    for new in &batch.notifications {
        notifications::add(tx, new, batch.at).await?;
    }
    for (kind, id) in &batch.moved {
        if let Some(alert) = batch.alerts.iter().find(|alert| alert.id() == *id) {
            tell(tx, kind, alert, None, batch.at)?;
        }
    }
    Ok(true)
}

fn values(alert: &Alert) -> Result<Vec<Value<'_>>, StoreError> {
    let ack = alert.ack.as_ref();
    Ok(binds![
        alert.id(),
        alert.key.kind,
        alert.key.scope,
        &alert.key.subject,
        &alert.rule,
        alert.severity,
        alert.state,
        alert.since,
        alert.fired_at,
        alert.clear_since,
        alert.resolved_at,
        (alert.value * 1_000.0) as i64,
        alert.count,
        json(&alert.recent)?,
        &alert.summary,
        json(&alert.labels)?,
        alert.sample,
        alert.incident,
        alert.flaps,
        ack.map(|ack| ack.by.as_str()),
        ack.map(|ack| ack.at),
        ack.and_then(|ack| ack.reason.as_deref()),
        alert.updated_at,
    ]
    .to_vec())
}

/// Adds the event of an alert.
fn tell(
    tx: &mut impl Tx,
    kind: &'static str,
    alert: &Alert,
    actor: Option<&str>,
    at: Time,
) -> Result<(), StoreError> {
    let detail = serde_json::json!({
        "alert": alert.id().to_string(),
        "rule": alert.rule,
        "severity": alert.severity.name(),
        "subject": alert.key.subject,
        "summary": alert.summary,
        "count": alert.count,
    });
    let (letter, incident) = (alert.sample, alert.incident);
    tx.add_event(&NewEvent {
        at,
        kind,
        letter,
        incident,
        actor,
        detail: Some(detail.to_string()),
        ..NewEvent::default()
    })
}

const LIST: Sql = sql!(
    "
select {}
  from alerts
 where state = $1
 order by updated_at desc, id
 limit $2",
    ALERTS
);

async fn list(conn: &mut impl Conn, limit: usize) -> Result<Vec<Alert>, StoreError> {
    let mut alerts = Vec::new();
    for state in [AlertState::Firing, AlertState::Pending, AlertState::Resolved] {
        let left = limit.saturating_sub(alerts.len());
        alerts.extend(conn.query(&LIST, binds![state, left], read).await?);
    }
    Ok(alerts)
}

const ACKNOWLEDGE: Sql = sql!(
    "
update alerts
   set acked_by = $2, acked_at = $3, ack_reason = $4
 where id = $1
   and state = $5
returning {}",
    ALERTS
);

/// An evaluation that began before does not know of it and must not be applied.
const FENCE: Sql = sql!("update alert_progress set revision = revision + 1");

async fn acknowledge(
    tx: &mut impl Tx,
    id: AlertId,
    reason: Option<&str>,
    by: &Actor,
    at: Time,
) -> Result<Option<Alert>, StoreError> {
    let binds = binds![id, &by.name, at, reason, AlertState::Firing];
    let Some(alert) = tx.query_opt(&ACKNOWLEDGE, binds, read).await? else { return Ok(None) };
    tx.execute(&FENCE, binds![]).await?;
    tell(tx, "alert.acknowledged", &alert, Some(&by.name), at)?;
    let filter = alert.summary.as_str();
    let incident = alert.incident;
    tx.add_audit(&NewEntry {
        reason: reason.or(Some(filter)),
        incident,
        ..NewEntry::new(by, "alert_acknowledged", at)
    })?;
    Ok(Some(alert))
}

const PRUNE: Sql = sql!("delete from alerts where state = $1 and updated_at < $2");

async fn prune(tx: &mut impl Tx, before: Time) -> Result<u64, StoreError> {
    let alerts = tx.execute(&PRUNE, binds![AlertState::Resolved, before]).await?;
    Ok(alerts + notifications::prune(tx, before).await? + silences::prune(tx, before).await?)
}
