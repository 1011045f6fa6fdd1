//! The doors by which jobs are put back without a plan: one by a person, many by an operation, some by a rule. Each leaves
//! a row, so that every letter that was ever put back says by whom and what came of it.
//!
//! The rows are written at the end of the transaction, with the outcomes: a rule's redrive is held by all who join it.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::gate::Passed;
use lazaret_core::id::{LetterId, OperationId, RedriveId};
use lazaret_core::redrive::{Options, Outcome, Pace, RedriveKind, RunState, day_start};
use lazaret_core::time::Time;
use sha2::{Digest, Sha256};

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::incidents::SentSingly;
use super::super::writer::Write;
use super::line;
use super::open::{Opening, add};
use crate::StoreError;
use crate::audit::Actor;
use crate::claim::ClaimStep;
use crate::job::SOURCE;
use crate::redrive::{Did, LetterCause};

/// Which door a letter went through.
#[derive(Clone, Copy)]
pub(in crate::postgres) enum Door<'a> {
    Single,
    Operation(OperationId),
    Rule(&'a str),
}

/// Letters that went through one door together, and who let them.
pub(in crate::postgres) struct Passage {
    redrive: RedriveId,
    kind: RedriveKind,
    rule: Option<String>,
    by: Actor,
    reason: Option<String>,
    letters: Vec<LetterId>,
    /// The cause of a single letter that passed the gate under its RCA.
    governed: Option<LetterCause>,
    at: Time,
}

/// The redrive of a rule on a day. Its id is made of both: two instances that open it at once open the same one.
fn of_rule(rule: &str, at: Time) -> RedriveId {
    let day = day_start(at);
    let mut bits = [0; 10];
    bits.copy_from_slice(&Sha256::digest(rule.as_bytes())[..10]);
    RedriveId::mint(day, bits)
}

/// Writes down that letters were put back with their jobs; says in which redrive.
pub(in crate::postgres) fn record(
    write: &mut Write,
    door: Door<'_>,
    letters: Vec<LetterId>,
    (by, reason): (&Actor, Option<&str>),
    at: Time,
) -> Result<RedriveId, StoreError> {
    let (redrive, kind, rule) = match door {
        Door::Single => (RedriveId::mint(at, write.entropy.take()?), RedriveKind::Single, None),
        Door::Operation(id) => (RedriveId::from_bytes(*id.bytes()), RedriveKind::Bulk, None),
        Door::Rule(rule) => (of_rule(rule, at), RedriveKind::Rule, Some(rule.to_owned())),
    };
    let (by, reason) = (by.clone(), reason.map(str::to_owned));
    write.outcomes.passages.push(Passage { redrive, kind, rule, by, reason, letters, governed: None, at });
    Ok(redrive)
}

/// Writes down that a person put one letter back under the RCA of its incident; says in which redrive.
pub(in crate::postgres) fn record_governed(
    write: &mut Write,
    letter: LetterId,
    cause: LetterCause,
    by: (&Actor, Option<&str>),
    at: Time,
) -> Result<RedriveId, StoreError> {
    let sent_by = by.0.name.clone();
    let redrive = record(write, Door::Single, vec![letter], by, at)?;
    write.tally.send(cause.fingerprint.as_str(), SentSingly { redrive, by: sent_by, at });
    if let Some(passage) = write.outcomes.passages.last_mut() {
        passage.governed = Some(cause);
    }
    Ok(redrive)
}

/// Writes the rows of redrives that letters passed into, in the order of their ids, unless they are there; says which.
pub(super) async fn open_doors(conn: &Conn, passages: &[Passage]) -> Result<Vec<RedriveId>, StoreError> {
    let mut sorted: Vec<&Passage> = passages.iter().filter(|passage| !passage.letters.is_empty()).collect();
    sorted.sort_by_key(|passage| passage.redrive);
    sorted.dedup_by_key(|passage| passage.redrive);
    let options = Options { pace: Pace::Unlimited, canary: 0, ..Options::default() };
    for passage in &sorted {
        let opening = Opening {
            id: passage.redrive,
            kind: passage.kind,
            // Whatever joins it is out with the same commit.
            state: RunState::Verifying,
            filter: "",
            by: &passage.by,
            reason: passage.reason.as_deref(),
            edit: None,
            rule: passage.rule.as_deref(),
            options: &options,
            frozen: true,
            launched_at: Some(passage.at),
            at: passage.at,
        };
        add(conn, &opening).await?;
        if let Some(cause) = &passage.governed {
            govern(conn, passage.redrive, cause).await?;
        }
    }
    Ok(sorted.into_iter().map(|passage| passage.redrive).collect())
}

const ADD_GROUP: &str = "
insert into redrive_groups (redrive, number, incident, source, died, letters, verdict, detail)
values ($1, $2, $3, $4, $5, 1, $6, $4)";

const GOVERN: &str = "
update redrives
   set plan = '{}'
 where id = $1";

/// The group of a letter that passed the gate under its RCA; letters that passed freely have none.
const GOVERNED: i32 = 1;

/// Puts a single retry under the RCA of its incident: the incident moves with it, and the redrive is tended to its end as
/// that of a plan.
async fn govern(conn: &Conn, id: RedriveId, cause: &LetterCause) -> Result<(), StoreError> {
    let (key, incident) = (Uid(*id.bytes()), Uid(*cause.incident.bytes()));
    let (died, passed) = (cause.died.name(), Passed::Governed.name());
    conn.execute(ADD_GROUP, &[&key, &GOVERNED, &incident, &SOURCE, &died, &passed]).await?;
    conn.execute(GOVERN, &[&key]).await?;
    Ok(())
}

/// Puts letters on the lists of their redrives, which are held, and claims them.
pub(super) async fn let_pass(write: &Write, passages: &[Passage]) -> Result<(), StoreError> {
    let mut by_redrive: BTreeMap<RedriveId, (Vec<LetterId>, i32, Time)> = BTreeMap::new();
    let mut lines = Vec::new();
    for passage in passages.iter().filter(|passage| !passage.letters.is_empty()) {
        let (letters, group, at) = by_redrive.entry(passage.redrive).or_default();
        letters.extend(&passage.letters);
        if passage.governed.is_some() {
            *group = GOVERNED;
        }
        // The free retry of a single job has no line over time.
        if passage.kind != RedriveKind::Single || passage.governed.is_some() {
            let sent = passage.letters.len() as u64;
            lines.push((passage.redrive, passage.at.minute(), Did { sent, ..Did::default() }));
        }
        *at = passage.at.max(*at);
    }
    for (redrive, (letters, group, at)) in by_redrive {
        add_claims(write, &letters, redrive, ClaimStep::Sent, None, at).await?;
        join(write, redrive, &letters, group, at).await?;
    }
    line::add(write, lines).await
}

const ADD_LETTERS: &str = "
insert into redrive_letters (redrive, ordinal, letter, life, grp, lane, head, rank, outcome, sent_at, outcome_at)
select r.id, r.total + row_number() over (order by n.n), l.id, l.life, $6,
       case when l.aggregate is not null then l.source || chr(31) || l.aggregate end, true, 0, $4, $5, $5
  from unnest($2::uuid[], $3::timestamptz[]) with ordinality as n (letter, begun_at, n)
  join dead_letter_queue l on l.id = n.letter and l.created_at = n.begun_at
 cross join redrives r
 where r.id = $1";

/// A redrive that was thought to be over, as that of an operation between two chunks, is not.
const JOIN: &str = "
update redrives
   set total = total + $2, sent = sent + $2, updated_at = greatest(updated_at, $3), state = $4, finished_at = null
 where id = $1";

async fn join(
    write: &Write,
    redrive: RedriveId,
    letters: &[LetterId],
    group: i32,
    at: Time,
) -> Result<(), StoreError> {
    let key = Uid(*redrive.bytes());
    let (ids, begun_at) = keys(letters);
    let sent = Outcome::Sent.name();
    let added = write.conn.execute(ADD_LETTERS, &[&key, &ids, &begun_at, &sent, &At(at), &group]).await?;
    let state = RunState::Verifying.name();
    write.conn.execute(JOIN, &[&key, &(added as i64), &At(at), &state]).await?;
    Ok(())
}

fn keys(letters: &[LetterId]) -> (Vec<Uid>, Vec<At>) {
    letters.iter().map(|letter| (Uid(*letter.bytes()), At(letter.at()))).unzip()
}

const HOLD: &str = "
insert into claims (letter, life, run, step, lease_until, idempotency_key, claimed_at, lane)
select l.id, l.life, $3, $4, $5,
       l.id::text || ':' || l.life || ':'
         || coalesce((select s.number from send_numbers s where s.letter = l.id and s.life = l.life), 1),
       $6, case when l.aggregate is not null then l.source || chr(31) || l.aggregate end
  from unnest($1::uuid[], $2::timestamptz[]) as n (letter, begun_at)
  join dead_letter_queue l on l.id = n.letter and l.created_at = n.begun_at
returning letter, idempotency_key";

const COUNT_SENDS: &str = "
insert into send_numbers (letter, life, number)
select l.id, l.life, 1
  from unnest($1::uuid[], $2::timestamptz[]) as n (letter, begun_at)
  join dead_letter_queue l on l.id = n.letter and l.created_at = n.begun_at
on conflict (letter, life)
do update set number = send_numbers.number + 1";

/// Claims locked letters for a run, and with them their lanes; answers with the idempotency key each is sent under. A claim
/// with a lease is a new send, so its key has the next number; a job is put back in this commit, and nobody is shown its
/// key.
pub(super) async fn add_claims(
    write: &Write,
    letters: &[LetterId],
    run: RedriveId,
    step: ClaimStep,
    lease_until: Option<Time>,
    at: Time,
) -> Result<HashMap<LetterId, String>, StoreError> {
    if letters.is_empty() {
        return Ok(HashMap::new());
    }
    let (ids, begun_at) = keys(letters);
    if lease_until.is_some() {
        write.conn.execute(COUNT_SENDS, &[&ids, &begun_at]).await?;
    }
    let lease = lease_until.map(At);
    let binds = (Uid(*run.bytes()), step.name(), At(at));
    let claimed = write.conn.query(HOLD, &[&ids, &begun_at, &binds.0, &binds.1, &lease, &binds.2]).await?;
    claimed.iter().map(|row| Ok((LetterId::from_bytes(row.id(0)?), row.cell(1)?))).collect()
}
