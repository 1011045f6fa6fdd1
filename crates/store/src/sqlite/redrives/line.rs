//! What a run did minute by minute, kept as its letters move.

use lazaret_core::id::RedriveId;
use lazaret_core::time::Time;

use super::super::writer::Write;
use crate::StoreError;
use crate::redrive::Did;

const ADD: &str = "
insert into run_minutes (redrive, minute, sent, good, bad)
values (?1, ?2, ?3, ?4, ?5)
    on conflict (redrive, minute)
    do update set sent = sent + excluded.sent, good = good + excluded.good, bad = bad + excluded.bad";

pub(super) fn add(write: &Write, redrive: RedriveId, did: Did, at: Time) -> Result<(), StoreError> {
    if did == Did::default() {
        return Ok(());
    }
    let counts = (did.sent as i64, did.good as i64, did.bad as i64);
    write.conn.prepare_cached(ADD)?.execute((redrive.bytes(), at.minute(), counts.0, counts.1, counts.2))?;
    Ok(())
}
