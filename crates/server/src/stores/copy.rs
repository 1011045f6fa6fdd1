//! Copies one store into another, whole: a server that is started on the copy goes on where the original stopped.
//!
//! The target has to be empty and is written in one transaction. Then every row is read again and compared, the ledger is
//! recounted and the audit log verified.

use std::collections::BTreeMap;

use lazaret_store::copy::{Batch, Piece, Plan, Value, plan};
use lazaret_store::sqlite::Mode;
use lazaret_store::stats::LedgerBy;
use lazaret_store::{Store, StoreError};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::audit::{self, AuditKey, FaultKind, KeyError};
use crate::config::Config;
use crate::serve::ServeError;
use crate::stores;

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Copying { table: &'static str, rows: u64 },
    Comparing { table: &'static str, rows: u64 },
}

/// What was copied, and compared afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    pub rows: BTreeMap<&'static str, u64>,
    /// Linked entries of the audit log that fit; nothing without the key.
    pub audit_linked: Option<u64>,
    /// The first fault of the audit log, which the original has as well.
    pub audit_fault: Option<FaultKind>,
}

/// Why a copy failed. Unless it says that the target differs, nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Open(#[from] ServeError),
    #[error("the store that is copied cannot be read")]
    From(#[source] StoreError),
    #[error("the store that is copied into does not take it")]
    To(#[source] StoreError),
    #[error("the store that is copied into is not empty: {0} has rows")]
    NotEmpty(&'static str),
    #[error("the copy differs from the original: table {0}")]
    Differs(&'static str),
    #[error("the ledger of the copy does not balance")]
    Ledger,
    #[error("the audit log of the copy does not verify as that of the original does")]
    Audit,
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Pieces that are under way at once: each may hold megabytes.
const PIECES_UNDER_WAY: usize = 2;

/// Copies the store that one configuration names into the one that another names. With the key of the audit log it is
/// verified, and an embedded target gets the key.
pub async fn copy(
    from: &Config,
    to: &Config,
    key: Option<&AuditKey>,
    tell: &mut (dyn FnMut(Step) + Send),
) -> Result<Copied, CopyError> {
    let source = stores::open(from, Mode::Real).await?.store;
    let target = stores::open(to, Mode::Real).await?.store;
    if let Some(table) = target.first_filled().await.map_err(CopyError::To)? {
        return Err(CopyError::NotEmpty(table));
    }
    let here = source.copy_schema().await.map_err(CopyError::From)?;
    let there = target.copy_schema().await.map_err(CopyError::To)?;
    let plan = plan(&here, &there, target.copy_order()).map_err(CopyError::To)?;
    let sent = transfer(source.as_ref(), target.as_ref(), &plan, tell).await?;
    target.close().await.map_err(CopyError::To)?;
    drop(target);
    // What an open store knows by heart is of the empty one.
    let target = stores::open(to, Mode::Real).await?.store;
    let stored = read_back(target.as_ref(), &plan, tell).await?;
    if let Some((table, _)) = plan.iter().find(|(table, _)| sent.get(table) != stored.get(table)) {
        return Err(CopyError::Differs(table));
    }
    let ledger = target.ledger(LedgerBy::Recount).await.map_err(CopyError::To)?;
    if ledger.difference() != 0 || ledger.wrong_counters != 0 || ledger.unlisted != 0 {
        return Err(CopyError::Ledger);
    }
    let rows = sent.iter().map(|(table, sum)| (*table, sum.rows)).collect();
    let mut copied = Copied { rows, audit_linked: None, audit_fault: None };
    if let Some(key) = key {
        verify_audit(source.as_ref(), target.as_ref(), key, &mut copied).await?;
        if let Some(place) = to.audit_key_file().filter(|place| !place.exists()) {
            key.copy_to(&place)?;
        }
    }
    target.close().await.map_err(CopyError::To)?;
    source.close().await.map_err(CopyError::From)?;
    Ok(copied)
}

/// What one store sends into the other, summed up by table.
async fn transfer(
    from: &dyn Store,
    to: &dyn Store,
    plan: &Plan,
    tell: &mut (dyn FnMut(Step) + Send),
) -> Result<Sums, CopyError> {
    let (out, mut sent) = mpsc::channel(PIECES_UNDER_WAY);
    let (pass, arriving) = mpsc::channel(PIECES_UNDER_WAY);
    let mut sums = Sums::new();
    let relay = async {
        while let Some(piece) = sent.recv().await {
            if let Piece::Rows(batch) = &piece {
                let rows = add(&mut sums, batch);
                tell(Step::Copying { table: batch.table, rows });
            }
            if pass.send(piece).await.is_err() {
                break;
            }
        }
        // Whoever waits at either end must see that this one has ended.
        drop((sent, pass));
    };
    let (read, (), written) =
        tokio::join!(from.copy_out(Plan::clone(plan), out), relay, to.copy_in(arriving));
    let committed = written.map_err(CopyError::To)?;
    read.map_err(CopyError::From)?;
    match committed {
        true => Ok(sums),
        false => Err(CopyError::From(StoreError::Unavailable { doing: "copying", source: None })),
    }
}

async fn read_back(
    store: &dyn Store,
    plan: &Plan,
    tell: &mut (dyn FnMut(Step) + Send),
) -> Result<Sums, CopyError> {
    let (out, mut sent) = mpsc::channel(PIECES_UNDER_WAY);
    let mut sums = Sums::new();
    let relay = async {
        while let Some(piece) = sent.recv().await {
            if let Piece::Rows(batch) = &piece {
                let rows = add(&mut sums, batch);
                tell(Step::Comparing { table: batch.table, rows });
            }
        }
    };
    let (read, ()) = tokio::join!(store.copy_out(Plan::clone(plan), out), relay);
    read.map_err(CopyError::To)?;
    Ok(sums)
}

/// Rows and the sum of their hashes, which is the same in whatever order they come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Sum {
    rows: u64,
    hashes: u128,
}

type Sums = BTreeMap<&'static str, Sum>;

/// Adds the rows of a batch; returns how many there are of the table by now.
fn add(sums: &mut Sums, batch: &Batch) -> u64 {
    let sum = sums.entry(batch.table).or_default();
    for row in &batch.rows {
        sum.rows += 1;
        sum.hashes = sum.hashes.wrapping_add(hash(row));
    }
    sum.rows
}

/// Hashes each value behind its kind and length.
fn hash(row: &[Value]) -> u128 {
    let mut hash = Sha256::new();
    let mut add = |kind: u8, bytes: &[u8]| {
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    for value in row {
        match value {
            Value::Null => add(0, &[]),
            Value::Integer(number) => add(1, &number.to_be_bytes()),
            Value::Text(text) => add(2, text.as_bytes()),
            Value::Bytes(bytes) => add(3, bytes),
        }
    }
    hash.finalize().iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

/// Both logs have to say the same, be it good or bad.
async fn verify_audit(
    from: &dyn Store,
    to: &dyn Store,
    key: &AuditKey,
    copied: &mut Copied,
) -> Result<(), CopyError> {
    let here = audit::verify(from, key).await.map_err(CopyError::From)?;
    let there = audit::verify(to, key).await.map_err(CopyError::To)?;
    if here != there {
        return Err(CopyError::Audit);
    }
    copied.audit_linked = Some(there.linked);
    copied.audit_fault = there.fault.map(|fault| fault.kind);
    Ok(())
}
