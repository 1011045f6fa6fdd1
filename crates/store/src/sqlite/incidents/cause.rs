//! What the gate knows of a letter. Every door that sends one letter asks for it here, in the same commit.

use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::gate::Cause;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::incident::AgainstFix;
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::super::rows;
use super::{category, fix_kind, state};
use crate::StoreError;
use crate::redrive::LetterCause;

/// A letter is judged by the incident that it is in now, whatever incident it was in when it was listed.
const CAUSE: &str = "
select i.id, i.state, i.category, l.class, i.fix_kind, i.fix_at, l.died_at, l.fingerprint
  from dead_letter_queue l
  join fingerprints f on f.fingerprint = l.fingerprint
  join incidents i on i.id = f.incident
 where l.id = ?1";

/// A live letter as the gate sees it.
pub(in crate::sqlite) fn letter_cause(
    conn: &Connection,
    letter: LetterId,
) -> Result<Option<LetterCause>, StoreError> {
    let mut statement = conn.prepare_cached(CAUSE)?;
    let mut found = statement.query([letter.bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let (analysed, kind): (Option<String>, Option<String>) = (row.get(2)?, row.get(4)?);
    let fix_at = row.get::<_, Option<i64>>(5)?.map(Time::from_ms);
    Ok(Some(LetterCause {
        incident: IncidentId::from_bytes(row.get(0)?),
        fingerprint: Fingerprint::stored(row.get(7)?),
        cause: Cause {
            state: state(&row.get::<_, String>(1)?)?,
            analysed: analysed.as_deref().map(category).transpose()?,
            class: rows::class(&row.get::<_, String>(3)?)?.category(),
            fix: kind.filter(|_| fix_at.is_some()).as_deref().map(fix_kind).transpose()?,
        },
        died: AgainstFix::of(Time::from_ms(row.get(6)?), fix_at),
    }))
}
