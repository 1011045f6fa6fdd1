//! What the gate knows of letters. Every door that sends letters one by one asks for it here, in the same transaction.

use std::collections::HashMap;

use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::gate::Cause;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::incident::AgainstFix;

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::insert::column;
use super::super::rows;
use super::{category, fix_kind, state};
use crate::StoreError;
use crate::redrive::LetterCause;

/// A letter is judged by the incident that it is in now, whatever incident it was in when it was listed.
const CAUSES: &str = "
select l.id, i.id, i.state, i.category, l.class, i.fix_kind, i.fix_at, l.died_at, l.fingerprint
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
        let (analysed, kind): (Option<&str>, Option<&str>) = (row.cell(3)?, row.cell(5)?);
        let fix_at = row.time_opt(6)?;
        let cause = Cause {
            state: state(row.cell(2)?)?,
            analysed: analysed.map(category).transpose()?,
            class: rows::class(row.cell(4)?)?.category(),
            fix: kind.filter(|_| fix_at.is_some()).map(fix_kind).transpose()?,
        };
        let incident = IncidentId::from_bytes(row.id(1)?);
        let died = AgainstFix::of(row.time(7)?, fix_at);
        let fingerprint = Fingerprint::stored(row.cell(8)?);
        let letter = LetterId::from_bytes(row.id(0)?);
        causes.insert(letter, LetterCause { incident, fingerprint, cause, died });
    }
    Ok(causes)
}
