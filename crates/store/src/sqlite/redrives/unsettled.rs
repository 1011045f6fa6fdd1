//! Letters that are out and of which nobody speaks: leases that ran out, outcomes that nobody knows, receipts that come
//! later, and silence that is taken for success.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::audit::{self, NewEntry};
use super::super::jobs::follow::job_of;
use super::super::sources;
use super::super::writer::Write;
use super::outcomes::{Shifts, Turn};
use super::send::{Settling, claimed};
use crate::StoreError;
use crate::audit::Actor;
use crate::claim::ClaimStep;
use crate::decision::Decided;
use crate::engine::redrives::row;
use crate::redrive::{ByPerson, Expired, Proof, Proved, Taken};
use crate::seam::ready;

const EXPIRED: &str = "
select c.run, c.letter, c.life, c.idempotency_key, c.step, g.detail, g.source, g.subscriber, c.renewals, l.sent_at
  from claims c indexed by claims_by_lease
  join redrive_letters t on t.letter = c.letter and t.redrive = c.run and t.life = c.life
  join dead_letter_queue l on l.id = c.letter
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where c.lease_until < ?1
 order by c.lease_until, c.letter
 limit ?2";

pub(super) fn expired(conn: &Connection, at: Time, limit: usize) -> Result<Vec<Expired>, StoreError> {
    let mut statement = conn.prepare_cached(EXPIRED)?;
    let found = statement.query_map((at.ms(), limit as i64), |row| {
        Ok(Expired {
            run: RedriveId::from_bytes(row.get(0)?),
            taken: Taken {
                letter: LetterId::from_bytes(row.get(1)?),
                life: row.get(2)?,
                idempotency_key: row.get(3)?,
                renewals: row.get(8)?,
                destination: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
                source: row.get(6)?,
                subscriber: row.get(7)?,
            },
            sending: row.get::<_, String>(4)? == ClaimStep::Sending.name(),
            begun_at: row.get::<_, Option<i64>>(9)?.map(Time::from_ms),
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

const END_LEASES: &str = "
update claims
   set lease_until = ?1
 where lease_until > ?1";

/// Ends every lease that is not over; says how many.
pub(super) fn end_leases(write: &Write, at: Time) -> Result<usize, StoreError> {
    Ok(write.conn.prepare_cached(END_LEASES)?.execute([at.plus_ms(-1).ms()])?)
}

const RENEW: &str = "
update claims
   set lease_until = ?6, renewals = renewals + 1
 where letter = ?1
   and run = ?2
   and idempotency_key = ?3
   and renewals = ?4
   and step = ?5
   and lease_until < ?7";

/// Takes a claim over as it was found expired: one that moved on to `sending` meanwhile may have been sent.
pub(super) fn renew(
    write: &Write,
    expired: &Expired,
    lease_until: Time,
    at: Time,
) -> Result<Option<Taken>, StoreError> {
    let Expired { run, taken, .. } = expired;
    let renewed = write.conn.prepare_cached(RENEW)?.execute((
        taken.letter.bytes(),
        run.bytes(),
        &taken.idempotency_key,
        taken.renewals,
        expired.step().name(),
        lease_until.ms(),
        at.ms(),
    ))?;
    Ok((renewed > 0).then(|| expired.renewed()))
}

/// Settles a letter of which nobody knew, or that nothing proves, by a person's word.
pub(super) fn settle_unknown(
    write: &mut Write,
    id: RedriveId,
    letter: LetterId,
    word: ByPerson,
    by: &Actor,
    at: Time,
) -> Result<bool, StoreError> {
    let Some(run) = ready(row::find(write, id))? else { return Ok(false) };
    let Some(claimed) = claimed(write, id, letter)? else { return Ok(false) };
    let unknown = claimed.listed.outcome == Outcome::Unknown;
    // A proof that never comes must not hold the letter for ever. What a job came to is its worker's to say.
    let unproved = claimed.listed.outcome == Outcome::Sent
        && claimed.step == ClaimStep::Sent
        && job_of(write, letter)?.is_none();
    if !unknown && !unproved {
        return Ok(false);
    }
    let mut settling = Settling { run: &run, by: &by.name, at, shifts: Shifts::default() };
    let reason = match word {
        ByPerson::Sent => {
            // Nothing else may ever tell of it: a letter that was sent must not stay out for ever.
            let evidence = format!("sent, says {}", by.name);
            settling.confirm(write, letter, &claimed, Outcome::Assumed, &evidence)?;
            "sent"
        }
        ByPerson::Unclaim => {
            settling.unclaim(write, letter)?;
            let evidence = format!("not sent, says {}", by.name);
            let turn = Turn::new(Outcome::Failed, Some(&evidence), at);
            settling.shifts.shift(write, &claimed.listed, &turn)?;
            "unclaim"
        }
    };
    settling.shifts.flush(write, at)?;
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
select c.run, l.life, l.source
  from dead_letter_queue l
  left join claims c on c.letter = l.id
 where l.id = ?1";

/// Resolves a letter by what its subscriber says, also one that was claimed anew or taken back meanwhile: the work of its
/// present life is done. What a job came to is its worker's to say.
pub(super) fn prove(write: &mut Write, proof: &Proof) -> Result<Proved, StoreError> {
    let letter = proof.letter;
    let found: Option<(Option<[u8; 16]>, u32, String)> = write
        .conn
        .prepare_cached(HOLDER)?
        .query_row([letter.bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((run, life, source)) = found else { return Ok(Proved::Unknown) };
    if proof.life > life || proof.life == 0 {
        return Ok(Proved::Unknown);
    }
    if proof.life != life || job_of(write, letter)?.is_some() {
        return Ok(Proved::Late);
    }
    let Some(run) = run else {
        return Ok(match sources::settle(write, &proof.elsewhere(&source))? {
            Decided::Done => Proved::Done,
            Decided::Refused(_) | Decided::Unknown | Decided::NoWayBack | Decided::Replaced => Proved::Late,
        });
    };
    let id = RedriveId::from_bytes(run);
    let (Some(run), Some(claimed)) = (ready(row::find(write, id))?, claimed(write, id, letter)?) else {
        return Ok(Proved::Late);
    };
    let mut settling =
        Settling { run: &run, by: &run.redrive.by.name, at: proof.at, shifts: Shifts::default() };
    settling.confirm(write, letter, &claimed, Outcome::Succeeded, proof.evidence)?;
    settling.shifts.flush(write, proof.at)?;
    Ok(Proved::Done)
}
