//! What the gate knows of a letter. Every door that sends one letter asks for it here, in the same commit.

use lazaret_core::id::LetterId;
use rusqlite::Connection;

use crate::StoreError;
use crate::engine::incidents::read_cause;
use crate::redrive::LetterCause;
use crate::seam::Row;

/// A letter is judged by the incident that it is in now, whatever incident it was in when it was listed.
const CAUSE: &str = "
select i.id as incident, i.state, i.category, l.class, i.fix_kind, i.fix_at, l.died_at, l.fingerprint
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
    found.next()?.map(|row| read_cause(&Row::of_sqlite(row))).transpose()
}
