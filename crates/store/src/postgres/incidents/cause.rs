//! What the gate knows of letters. Every door that sends letters one by one asks for it here, in the same transaction.

use std::collections::HashMap;

use lazaret_core::id::LetterId;

use super::super::cell::{At, Uid};
use super::super::conn::Conn;
use super::super::insert::column;
use crate::StoreError;
use crate::engine::incidents::read_cause;
use crate::redrive::LetterCause;
use crate::seam::Row;

/// A letter is judged by the incident that it is in now, whatever incident it was in when it was listed.
const CAUSES: &str = "
select l.id as letter, i.id as incident, i.state, i.category, l.class, i.fix_kind, i.fix_at, l.died_at, l.fingerprint
  from unnest($1::uuid[], $2::timestamptz[]) as n (letter, begun_at)
  join dead_letter_queue l on l.id = n.letter and l.created_at = n.begun_at
  join fingerprints f on f.fingerprint = l.fingerprint
  join incidents i on i.id = f.incident";

/// Live letters as the gate sees them.
pub(in crate::postgres) async fn letter_causes(
    conn: &Conn,
    letters: &[LetterId],
) -> Result<HashMap<LetterId, LetterCause>, StoreError> {
    let mut causes = HashMap::with_capacity(letters.len());
    if letters.is_empty() {
        return Ok(causes);
    }
    let ids: Vec<Uid> = column(letters, |letter| Uid(*letter.bytes()));
    let begun_at: Vec<At> = column(letters, |letter| At(letter.at()));
    for row in conn.query(CAUSES, &[&ids, &begun_at]).await? {
        let row = Row::of_postgres(&row);
        causes.insert(row.get("letter")?, read_cause(&row)?);
    }
    Ok(causes)
}
