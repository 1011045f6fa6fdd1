//! What the gate knows of letters. Every door that sends letters one by one asks for it here, in the same transaction.

use std::collections::HashMap;

use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::gate::Cause;
use lazaret_core::id::LetterId;
use lazaret_core::incident::AgainstFix;
use lazaret_core::rca::FixKind;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::redrive::LetterCause;
use crate::seam::{Conn, Row, Sql, binds, sql};

/// A letter is judged by the incident that it is in now, whatever incident it was in when it was listed.
const CAUSES: Sql = sql!(
    "
select l.id as letter, i.id as incident, i.state, i.category, l.class, i.fix_kind, i.fix_at, l.died_at, l.fingerprint
  from {postgres unnest($1::uuid[]) as n (letter)
  join dead_letter_queue l on l.id = n.letter and l.created_at = uuid_time(n.letter)}{sqlite dead_letter_queue l}
  join fingerprints f on f.fingerprint = l.fingerprint
  join incidents i on i.id = f.incident
{sqlite  where l.id {any $1}}"
);

/// Live letters as the gate sees them.
pub(crate) async fn letter_causes(
    conn: &mut impl Conn,
    letters: &[LetterId],
) -> Result<HashMap<LetterId, LetterCause>, StoreError> {
    if letters.is_empty() {
        return Ok(HashMap::new());
    }
    Ok(conn.query(&CAUSES, binds![letters], read).await?.into_iter().collect())
}

/// A live letter as the gate sees it.
pub(crate) async fn letter_cause(
    conn: &mut impl Conn,
    letter: LetterId,
) -> Result<Option<LetterCause>, StoreError> {
    Ok(letter_causes(conn, &[letter]).await?.remove(&letter))
}

fn read(row: &Row<'_>) -> Result<(LetterId, LetterCause), StoreError> {
    let (letter, incident, state) = (row.get("letter")?, row.get("incident")?, row.get("state")?);
    let (analysed, class): (_, ErrorClass) = (row.get("category")?, row.get("class")?);
    let (kind, fix_at): (Option<FixKind>, Option<Time>) = (row.get("fix_kind")?, row.get("fix_at")?);
    let died = AgainstFix::of(row.get("died_at")?, fix_at);
    let fingerprint = Fingerprint::stored(row.get("fingerprint")?);
    let fix = kind.filter(|_| fix_at.is_some());
    let cause = Cause { state, analysed, class: class.category(), fix };
    Ok((letter, LetterCause { incident, fingerprint, cause, died }))
}
