//! Silences: alerts that match are not notified for a while.

use lazaret_core::alert::{Matchers, Silence};
use lazaret_core::id::SilenceId;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::alert_store::SilenceRecord;
use crate::audit::{Actor, NewEntry};
use crate::event::NewEvent;
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};

pub(in crate::engine) const SILENCES: Table = table!("silences":
    "id", "matchers", "reason", "created_by", "created_at", "starts_at", "ends_at");

impl SilenceRecord {
    pub(super) fn silence(self) -> Silence {
        Silence { id: self.id, matchers: self.matchers, starts_at: self.starts_at, ends_at: self.ends_at }
    }
}

fn read(row: &Row<'_>) -> Result<SilenceRecord, StoreError> {
    let matchers: String = row.get("matchers")?;
    Ok(SilenceRecord {
        id: row.get("id")?,
        matchers: Matchers::parse(&matchers).map_err(|bad| StoreError::Corrupt(bad.to_string()))?,
        reason: row.get("reason")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
        starts_at: row.get("starts_at")?,
        ends_at: row.get("ends_at")?,
    })
}

const IN_FORCE: Sql =
    sql!("select {} from silences where ends_at > $1 order by ends_at, id limit $2", SILENCES);

pub(super) async fn list(conn: &mut impl Conn, now: Time) -> Result<Vec<SilenceRecord>, StoreError> {
    conn.query(&IN_FORCE, binds![now, limits::SILENCES_MAX], read).await
}

const ADD: Sql = sql!("insert into silences ({}) values ($1, $2, $3, $4, $5, $6, $7)", SILENCES);

pub(super) async fn add(tx: &mut impl Tx, silence: &SilenceRecord, by: &Actor) -> Result<bool, StoreError> {
    if list(tx, silence.created_at).await?.len() >= limits::SILENCES_MAX {
        return Ok(false);
    }
    let matchers = silence.matchers.to_string();
    let values = binds![
        silence.id,
        &matchers,
        &silence.reason,
        &silence.created_by,
        silence.created_at,
        silence.starts_at,
        silence.ends_at
    ];
    tx.execute(&ADD, values).await?;
    tell(tx, "alert.silenced", &matchers, Some(&silence.reason), by, silence.created_at)?;
    Ok(true)
}

const END: Sql =
    sql!("update silences set ends_at = $2 where id = $1 and ends_at > $2 returning {}", SILENCES);

pub(super) async fn end(tx: &mut impl Tx, id: SilenceId, by: &Actor, at: Time) -> Result<bool, StoreError> {
    let Some(ended) = tx.query_opt(&END, binds![id, at], read).await? else { return Ok(false) };
    tell(tx, "alert.unsilenced", &ended.matchers.to_string(), None, by, at)?;
    Ok(true)
}

fn tell(
    tx: &mut impl Tx,
    kind: &'static str,
    matchers: &str,
    reason: Option<&str>,
    by: &Actor,
    at: Time,
) -> Result<(), StoreError> {
    let detail = serde_json::json!({ "matchers": matchers, "reason": reason });
    let (actor, detail) = (Some(by.name.as_str()), Some(detail.to_string()));
    tx.add_event(&NewEvent { at, kind, actor, detail, ..NewEvent::default() })?;
    let action = if kind == "alert.silenced" { "alert_silenced" } else { "alert_unsilenced" };
    tx.add_audit(&NewEntry { filter: Some(matchers), reason, ..NewEntry::new(by, action, at) })
}

const PRUNE: Sql = sql!("delete from silences where ends_at < $1");

pub(super) async fn prune(tx: &mut impl Tx, before: Time) -> Result<u64, StoreError> {
    tx.execute(&PRUNE, binds![before]).await
}
