//! Standing holds: asked for every letter that comes in, in the transaction that stores it.
//!
//! They are read once for each transaction and parsed then. None is placed or ended while one is open, so what was read
//! holds until the commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazaret_core::envelope::Envelope;
use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, IncidentId, LetterId};
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::letters;
use super::super::rows::{self, LETTER_COLUMNS};
use super::super::writer::Write;
use super::Totals;
use crate::StoreError;
use crate::decision::Verb;
use crate::engine::holds::{add_hold_event, parse_filter, put_under, show};
use crate::packing::Prepared;

/// A standing hold that catches letters.
pub(in crate::postgres) struct InForce {
    id: HoldId,
    filter: Filter,
    until: Option<Time>,
    by: String,
}

impl InForce {
    /// Whether it is on a letter that comes in now.
    fn catches(&self, arrived: &Arrived<'_>) -> bool {
        self.until.is_none_or(|until| until > arrived.at)
            && self.filter.matches(&arrived.letter, arrived.at)
            && (!self.filter.needs_content() || self.filter.matches_content(arrived.envelope))
    }
}

/// The states are written out: PostgreSQL has to see that the index holds no others.
const IN_FORCE: &str = "
select id, filter, until, held_by
  from holds
 where standing
   and state in ('placing', 'standing')
 order by held_at, id
 limit $1";

/// The standing holds that catch letters.
pub(in crate::postgres) async fn in_force(conn: &Conn) -> Result<Arc<Vec<InForce>>, StoreError> {
    let mut holds = Vec::new();
    for row in conn.query(IN_FORCE, &[&(limits::STANDING_HOLDS_MAX as i64)]).await? {
        let (id, text) = (HoldId::from_bytes(row.id(0)?), row.cell::<Option<&str>>(1)?.unwrap_or_default());
        let filter = parse_filter(id, text)?;
        holds.push(InForce { id, filter, until: row.time_opt(2)?, by: row.cell(3)? });
    }
    Ok(Arc::new(holds))
}

impl Totals {
    /// Whether the standing holds were asked for in this transaction.
    pub fn knows_standing(&self) -> bool {
        self.standing.is_some()
    }

    pub fn know(&mut self, standing: Arc<Vec<InForce>>) {
        self.standing = Some(standing);
    }
}

/// The standing holds of this transaction, asked for the first time they are needed.
async fn standing(write: &mut Write) -> Result<Arc<Vec<InForce>>, StoreError> {
    if let Some(known) = &write.holds.standing {
        return Ok(Arc::clone(known));
    }
    let found = in_force(&write.conn).await?;
    write.holds.know(Arc::clone(&found));
    Ok(found)
}

/// A letter that came in just now, with the content of its last life.
pub(in crate::postgres) struct Arrived<'a> {
    pub letter: Letter,
    pub envelope: &'a Envelope,
    pub at: Time,
}

impl<'a> Arrived<'a> {
    /// A new letter as it was captured.
    pub fn new(prepared: &'a Prepared, incident: IncidentId) -> Arrived<'a> {
        let admitted = &prepared.admitted;
        let (captured, fatal) = (&admitted.captured, prepared.fatal());
        let letter = Letter {
            id: admitted.id,
            source: captured.source.clone(),
            event_id: captured.message_id.clone(),
            letter_type: captured.letter_type.clone(),
            queue: captured.queue.clone(),
            subscriber: captured.subscriber.clone(),
            tenant: captured.tenant.clone(),
            aggregate: captured.aggregate.clone(),
            schema_version: captured.schema_version.clone(),
            error_type: fatal.error_type.clone(),
            error_code: fatal.error_code.clone(),
            error_message: fatal.message.clone(),
            class: admitted.class,
            fingerprint: admitted.grouping.fingerprint.clone(),
            incident,
            retry_count: captured.retry_count,
            max_retries: captured.max_retries,
            status: Status::Pending,
            place: Place::Live,
            life: 1,
            hold: None,
            resolution: None,
            previous: None,
            created_at: admitted.id.at(),
            updated_at: admitted.captured_at,
            died_at: admitted.died_at,
            retention_at: admitted.captured_at,
        };
        Arrived { letter, envelope: &captured.envelope, at: admitted.captured_at }
    }
}

/// Puts letters that came in under the standing holds that they match. They are locked, or new.
pub(in crate::postgres) async fn catch<'a, I>(write: &mut Write, arrived: I) -> Result<(), StoreError>
where
    I: IntoIterator<Item = Arrived<'a>>,
{
    let standing = standing(write).await?;
    if standing.is_empty() {
        return Ok(());
    }
    let mut caught = Vec::new();
    for one in arrived {
        let holds = standing.iter().filter(|hold| hold.catches(&one));
        caught.extend(holds.map(|hold| (one.letter.id, hold, one.at)));
    }
    if caught.is_empty() {
        return Ok(());
    }
    let under: Vec<(LetterId, HoldId)> = caught.iter().map(|(letter, hold, _)| (*letter, hold.id)).collect();
    let added: BTreeSet<(LetterId, HoldId)> = put_under(write, &under).await?.into_iter().collect();
    let letters: BTreeSet<LetterId> = added.iter().map(|(letter, _)| *letter).collect();
    show(write, &letters.into_iter().collect::<Vec<_>>(), None).await?;
    for (letter, hold, at) in
        caught.into_iter().filter(|(letter, hold, _)| added.contains(&(*letter, hold.id)))
    {
        add_hold_event(write, Verb::Hold, letter, hold.id, &hold.by, at)?;
    }
    Ok(())
}

/// A letter is live again: it shows the holds that it is under, and the standing ones are asked. Whoever brings it back
/// has locked it where it came from, or has removed it there.
pub(in crate::postgres) async fn came_back(
    write: &mut Write,
    letter: LetterId,
    at: Time,
) -> Result<(), StoreError> {
    show(write, &[letter], None).await?;
    catch_stored(write, letter, at).await
}

/// Puts a live letter under the standing holds that are for it as it stands now. It is locked.
pub(in crate::postgres) async fn catch_stored(
    write: &mut Write,
    letter: LetterId,
    at: Time,
) -> Result<(), StoreError> {
    if standing(write).await?.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "select {LETTER_COLUMNS}
           from dead_letter_queue l
           join fingerprints f on f.fingerprint = l.fingerprint
          where l.id = $1
            and l.created_at = $2"
    );
    let row = write.conn.query_one(&sql, &[&Uid(*letter.bytes()), &At(letter.at())]).await?;
    let found = rows::letter(&row)?;
    let Some(original) = letters::original(&write.conn, letter, None).await? else {
        return Err(StoreError::Corrupt(format!("letter {letter} has no content")));
    };
    catch(write, [Arrived { letter: found, envelope: &original.envelope, at }]).await
}
