//! Letters that are out and of which nobody speaks: leases that ran out, outcomes that nobody knows, receipts that come
//! later, and silence that is taken for success.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use super::super::audit::{self, NewEntry};
use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::jobs::follow::job_of;
use super::super::sources;
use super::super::verdicts;
use super::super::writer::Write;
use super::send::{Settling, claimed};
use crate::StoreError;
use crate::audit::Actor;
use crate::claim::ClaimStep;
use crate::decision::Decided;
use crate::engine::redrives::row;
use crate::redrive::{ByPerson, Expired, Proof, Proved, Taken};

const EXPIRED: &str = "
select c.run, c.letter, c.life, c.idempotency_key, c.step, g.detail, g.source, g.subscriber, c.renewals, l.sent_at
  from claims c
  join redrive_letters t on t.letter = c.letter and t.redrive = c.run and t.life = c.life
  join dead_letter_queue l on l.id = c.letter and l.created_at = uuid_time(c.letter)
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where c.lease_until < $1
 order by c.lease_until, c.letter
 limit $2";

pub(super) async fn expired(conn: &Conn, at: Time, limit: usize) -> Result<Vec<Expired>, StoreError> {
    let mut expired = Vec::new();
    for row in conn.query(EXPIRED, &[&At(at), &(limit as i64)]).await? {
        expired.push(Expired {
            run: RedriveId::from_bytes(row.id(0)?),
            taken: Taken {
                letter: LetterId::from_bytes(row.id(1)?),
                life: row.small(2)?,
                idempotency_key: row.cell(3)?,
                renewals: row.small(8)?,
                destination: row.cell::<Option<String>>(5)?.unwrap_or_default(),
                source: row.cell(6)?,
                subscriber: row.cell(7)?,
            },
            sending: row.cell::<&str>(4)? == ClaimStep::Sending.name(),
            begun_at: row.time_opt(9)?,
        });
    }
    Ok(expired)
}

const RENEW: &str = "
update claims
   set lease_until = $6, renewals = renewals + 1
 where letter = $1
   and run = $2
   and idempotency_key = $3
   and renewals = $4
   and step = $5
   and lease_until < $7";

/// Takes a claim over as it was found expired: one that moved on to `sending` meanwhile may have been sent. Of two instances
/// that find the same claim expired, one renews it.
pub(super) async fn renew(
    write: &Write,
    expired: &Expired,
    lease_until: Time,
    at: Time,
) -> Result<Option<Taken>, StoreError> {
    let Expired { run, taken, .. } = expired;
    verdicts::lock_letters(write, &[taken.letter]).await?;
    let renewed = write
        .conn
        .execute(
            RENEW,
            &[
                &Uid(*taken.letter.bytes()),
                &Uid(*run.bytes()),
                &taken.idempotency_key,
                &(taken.renewals as i32),
                &expired.step().name(),
                &At(lease_until),
                &At(at),
            ],
        )
        .await?;
    Ok((renewed > 0).then(|| expired.renewed()))
}

/// Settles a letter of which nobody knows whether it was sent, or what came of it, by a person's word. What a job came to
/// is its worker's to say.
pub(super) async fn settle_unknown(
    write: &mut Write,
    id: RedriveId,
    letter: LetterId,
    word: ByPerson,
    by: &Actor,
    at: Time,
) -> Result<bool, StoreError> {
    verdicts::lock_letters(write, &[letter]).await?;
    let Some(run) = row::find(write, id).await? else { return Ok(false) };
    let Some(claimed) = claimed(write, id, &[letter]).await?.remove(&letter) else { return Ok(false) };
    let unknown = claimed.outcome == Outcome::Unknown;
    let sent = claimed.outcome == Outcome::Sent && claimed.step == ClaimStep::Sent;
    let unproved = sent && job_of(&write.conn, letter).await?.is_none();
    if !unknown && !unproved {
        return Ok(false);
    }
    let settling = Settling { run: &run, by: &by.name, at };
    let reason = match word {
        ByPerson::Sent => {
            let evidence = format!("sent, says {}", by.name);
            settling.confirm(write, &[claimed], Outcome::Assumed, &evidence).await?;
            "sent"
        }
        ByPerson::Unclaim => {
            settling.take_back(write, claimed, &format!("not sent, says {}", by.name)).await?;
            "unclaim"
        }
    };
    let entry = NewEntry {
        at,
        actor: by,
        action: "redrive_settle",
        letter: Some(letter),
        operation: None,
        incident: None,
        redrive: Some(id),
        filter: None,
        count: 1,
        reason: Some(reason),
    };
    audit::add(write, &entry)?;
    Ok(true)
}

const HOLDER: &str = "
select c.run, l.source
  from dead_letter_queue l
  left join claims c on c.letter = l.id
 where l.id = $1
   and l.created_at = $2";

/// Resolves a letter by what its subscriber says, also one that was claimed anew or taken back meanwhile: the work of its
/// present life is done. What a job came to is its worker's to say.
pub(super) async fn prove(write: &mut Write, proof: &Proof) -> Result<Proved, StoreError> {
    let letter = proof.letter;
    let held = verdicts::lock_letters(write, &[letter]).await?;
    let Some((life, _)) = held.get(&letter) else { return Ok(Proved::Unknown) };
    if proof.life > *life || proof.life == 0 {
        return Ok(Proved::Unknown);
    }
    if proof.life != *life || job_of(&write.conn, letter).await?.is_some() {
        return Ok(Proved::Late);
    }
    let holder = write.conn.query_opt(HOLDER, &[&Uid(*letter.bytes()), &At(letter.at())]).await?;
    let Some(holder) = holder else { return Ok(Proved::Unknown) };
    let Some(Uid(run)) = holder.cell::<Option<Uid>>(0)? else {
        return Ok(match sources::settle(write, &proof.elsewhere(holder.cell(1)?)).await? {
            Decided::Done => Proved::Done,
            Decided::Refused(_) | Decided::Unknown | Decided::NoWayBack | Decided::Replaced => Proved::Late,
        });
    };
    let id = RedriveId::from_bytes(run);
    let run = row::find(write, id).await?;
    let claimed = claimed(write, id, &[letter]).await?.remove(&letter);
    let (Some(run), Some(claimed)) = (run, claimed) else { return Ok(Proved::Late) };
    let settling = Settling { run: &run, by: &run.redrive.by.name, at: proof.at };
    settling.confirm(write, &[claimed], Outcome::Succeeded, proof.evidence).await?;
    Ok(Proved::Done)
}
