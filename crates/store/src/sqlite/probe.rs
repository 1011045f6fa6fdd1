//! Probes that tell whether a letter could be stored now: rows that are written and removed.

use lazaret_core::limits;

use super::writer::Write;
use crate::StoreError;
use crate::failure::FailurePoint;

const WRITE: &str = "insert or replace into meta (key, value) values ('ready', ?1)";

const REMOVE: &str = "delete from meta where key = 'ready'";

/// Writes a row and removes it in one commit, which the disk has to take; nothing is left.
pub(super) fn write_and_remove(write: &Write) -> Result<(), StoreError> {
    write.conn.prepare_cached(WRITE)?.execute([""])?;
    remove(write)
}

/// Writes as much as a batch of letters does.
pub(super) fn write_large(write: &Write) -> Result<(), StoreError> {
    // It stands for letters: what tests let fail for letters fails here too.
    write.failures.at(FailurePoint::InsertLetter)?;
    write.conn.prepare_cached(WRITE)?.execute(["x".repeat(limits::PROBE_BYTES)])?;
    Ok(())
}

pub(super) fn remove(write: &Write) -> Result<(), StoreError> {
    write.conn.prepare_cached(REMOVE)?.execute([])?;
    Ok(())
}
