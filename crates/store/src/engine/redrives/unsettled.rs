//! Letters that are out and of which nobody speaks: leases that ran out, outcomes that nobody knows, receipts that come
//! later, and silence that is taken for success.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use super::row;
use crate::StoreError;
use crate::audit::{Actor, NewEntry};
use crate::claim::ClaimStep;
use crate::decision::Decided;
use crate::engine::sources;
use crate::redrive::{ByPerson, Expired, Proof, Proved, Taken};
use crate::seam::{Conn, Row, Sql, Tx, binds, sql};

const EXPIRED: Sql = sql!(
    "
select c.run, c.letter, c.life, c.idempotency_key, c.renewals, g.detail, g.source, g.subscriber, c.step, l.sent_at
  from claims c{sqlite  indexed by claims_by_lease}
  join redrive_letters t on t.letter = c.letter and t.redrive = c.run and t.life = c.life
  join dead_letter_queue l on l.id = c.letter{postgres  and l.created_at = uuid_time(c.letter)}
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where c.lease_until < $1
 order by c.lease_until, c.letter
 limit $2"
);

/// Claims of all runs whose lease is over, oldest first.
pub(super) async fn expired(
    conn: &mut impl Conn,
    at: Time,
    limit: usize,
) -> Result<Vec<Expired>, StoreError> {
    conn.query(&EXPIRED, binds![at, limit], read_expired).await
}

fn read_expired(row: &Row<'_>) -> Result<Expired, StoreError> {
    Ok(Expired {
        run: row.get("run")?,
        taken: Taken {
            letter: row.get("letter")?,
            life: row.get("life")?,
            idempotency_key: row.get("idempotency_key")?,
            renewals: row.get("renewals")?,
            destination: row.get::<Option<String>>("detail")?.unwrap_or_default(),
            source: row.get("source")?,
            subscriber: row.get("subscriber")?,
        },
        sending: row.get::<ClaimStep>("step")? == ClaimStep::Sending,
        begun_at: row.get("sent_at")?,
    })
}

const RENEW: Sql = sql!(
    "
update claims
   set lease_until = $6, renewals = renewals + 1
 where letter = $1
   and run = $2
   and idempotency_key = $3
   and renewals = $4
   and step = $5
   and lease_until < $7"
);

/// Takes a claim over as it was found expired: one that moved on to `sending` meanwhile may have been sent. Of two instances
/// that find the same claim expired, one renews it.
pub(super) async fn renew(
    tx: &mut impl Tx,
    expired: &Expired,
    lease_until: Time,
    at: Time,
) -> Result<Option<Taken>, StoreError> {
    let Expired { run, taken, .. } = expired;
    tx.lock_live(&[taken.letter]).await?;
    let values =
        binds![taken.letter, *run, &taken.idempotency_key, taken.renewals, expired.step(), lease_until, at,];
    let renewed = tx.execute(&RENEW, values).await?;
    Ok((renewed > 0).then(|| expired.renewed()))
}

const CLAIMED: Sql = sql!(
    "
select c.step, t.outcome
  from claims c
  join redrive_letters t{sqlite  indexed by redrive_letters_by_letter}
    on t.letter = c.letter and t.redrive = c.run and t.life = c.life
 where c.letter = $1
   and c.run = $2
 order by t.ordinal desc
 limit 1"
);

/// How far the claim of a letter has come, and its outcome, if a run has it out.
async fn claimed(
    tx: &mut impl Tx,
    run: RedriveId,
    letter: LetterId,
) -> Result<Option<(ClaimStep, Outcome)>, StoreError> {
    tx.query_opt(&CLAIMED, binds![letter, run], |row| Ok((row.get("step")?, row.get("outcome")?))).await
}

/// Settles a letter of which nobody knows whether it was sent, or what came of it, by a person's word. What a job came to
/// is its worker's to say.
pub(super) async fn settle_unknown(
    tx: &mut impl Tx,
    id: RedriveId,
    letter: LetterId,
    word: ByPerson,
    by: &Actor,
    at: Time,
) -> Result<bool, StoreError> {
    tx.lock_live(&[letter]).await?;
    let Some(run) = row::find(tx, id).await? else { return Ok(false) };
    // A proof that never comes must not keep the letter out for ever.
    let may_settle = match claimed(tx, id, letter).await? {
        Some((_, Outcome::Unknown)) => true,
        Some((ClaimStep::Sent, Outcome::Sent)) => tx.job_of(letter).await?.is_none(),
        Some(_) | None => false,
    };
    if !may_settle {
        return Ok(false);
    }
    let reason = match word {
        ByPerson::Sent => {
            let evidence = format!("sent, says {}", by.name);
            tx.confirm(&run, letter, Outcome::Assumed, &evidence, &by.name, at).await?;
            "sent"
        }
        ByPerson::Unclaim => {
            tx.unclaim(&run, letter, &format!("not sent, says {}", by.name), &by.name, at).await?;
            "unclaim"
        }
    };
    tx.add_audit(&NewEntry {
        letter: Some(letter),
        redrive: Some(id),
        reason: Some(reason),
        ..NewEntry::new(by, "redrive_settle", at)
    })?;
    Ok(true)
}

const HOLDER: Sql = sql!(
    "
select c.run, l.life, l.source
  from dead_letter_queue l
  left join claims c on c.letter = l.id
 where l.id = $1{postgres 
   and l.created_at = uuid_time($1)}"
);

/// Resolves a letter by what its subscriber says, also one that was claimed anew or taken back meanwhile: the work of its
/// present life is done. What a job came to is its worker's to say.
pub(super) async fn prove(tx: &mut impl Tx, proof: &Proof) -> Result<Proved, StoreError> {
    let letter = proof.letter;
    tx.lock_live(&[letter]).await?;
    let read = |row: &Row<'_>| -> Result<(Option<RedriveId>, u32, String), StoreError> {
        Ok((row.get("run")?, row.get("life")?, row.get("source")?))
    };
    let found = tx.query_opt(&HOLDER, binds![letter], read).await?;
    let Some((run, life, source)) = found else { return Ok(Proved::Unknown) };
    if proof.life > life || proof.life == 0 {
        return Ok(Proved::Unknown);
    }
    if proof.life != life || tx.job_of(letter).await?.is_some() {
        return Ok(Proved::Late);
    }
    let Some(id) = run else {
        return Ok(match sources::settle(tx, &proof.elsewhere(&source)).await? {
            Decided::Done => Proved::Done,
            Decided::Refused(_) | Decided::Unknown | Decided::NoWayBack | Decided::Replaced => Proved::Late,
        });
    };
    let (run, claimed) = (row::find(tx, id).await?, claimed(tx, id, letter).await?);
    let (Some(run), Some(_)) = (run, claimed) else { return Ok(Proved::Late) };
    tx.confirm(&run, letter, Outcome::Succeeded, proof.evidence, &run.redrive.by.name, proof.at).await?;
    Ok(Proved::Done)
}
