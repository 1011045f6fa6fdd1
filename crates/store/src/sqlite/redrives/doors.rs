//! The doors by which jobs are put back without a plan: one by a person, many by an operation, some by a rule. Each leaves
//! a row, so that every letter that was ever put back says by whom and what came of it.

use lazaret_core::gate::Passed;
use lazaret_core::id::{LetterId, OperationId, RedriveId};
use lazaret_core::incident::Happening;
use lazaret_core::redrive::{Options, Outcome, Pace, RedriveKind, RunState, day_start};
use lazaret_core::time::Time;
use rusqlite::OptionalExtension;

use super::super::writer::Write;
use super::line;
use super::open::{Opening, add};
use crate::StoreError;
use crate::audit::Actor;
use crate::claim::ClaimStep;
use crate::engine::incidents::{self, TimelineNote};
use crate::job::SOURCE;
use crate::redrive::{Did, LetterCause};
use crate::seam::ready;

/// Which door a letter went through.
#[derive(Clone, Copy)]
pub(in crate::sqlite) enum Door<'a> {
    Single,
    Operation(OperationId),
    Rule(&'a str),
}

/// Who put a letter back, why and when.
#[derive(Clone, Copy)]
pub(in crate::sqlite) struct Passage<'a> {
    pub door: Door<'a>,
    pub by: &'a Actor,
    pub reason: Option<&'a str>,
    /// The letter's cause, if it passed the gate under its RCA.
    pub governed: Option<&'a LetterCause>,
    pub at: Time,
}

const OF_RULE: &str = "
select id
  from redrives indexed by redrives_by_rule
 where rule = ?1
   and opened_at >= ?2
   and finished_at is null
 order by opened_at desc, id desc
 limit 1";

/// The redrive that a rule has open on the day of a time.
fn of_rule(write: &Write, rule: &str, at: Time) -> Result<Option<RedriveId>, StoreError> {
    let day = day_start(at).ms();
    let mut statement = write.conn.prepare_cached(OF_RULE)?;
    Ok(statement.query_row((rule, day), |row| row.get(0).map(RedriveId::from_bytes)).optional()?)
}

/// The redrive that a letter joins: a rule has one a day, an operation is one.
fn redrive(write: &mut Write, passage: &Passage<'_>) -> Result<RedriveId, StoreError> {
    let Passage { door, by, reason, governed: _, at } = *passage;
    let minted = || Ok::<_, StoreError>(RedriveId::mint(at, write.entropy.take()?));
    let (id, kind, rule) = match door {
        Door::Single => (minted()?, RedriveKind::Single, None),
        Door::Operation(id) => (RedriveId::from_bytes(*id.bytes()), RedriveKind::Bulk, None),
        Door::Rule(rule) => match of_rule(write, rule, at)? {
            Some(id) => return Ok(id),
            None => (minted()?, RedriveKind::Rule, Some(rule)),
        },
    };
    let options = Options { pace: Pace::Unlimited, canary: 0, ..Options::default() };
    let opening = Opening {
        id,
        kind: kind.name(),
        // Whatever joins it is out with the same commit.
        state: RunState::Verifying,
        filter: "",
        by,
        reason,
        edit: None,
        rule,
        options: &options,
        frozen: true,
        launched_at: Some(at),
        at,
    };
    add(write, &opening)?;
    Ok(id)
}

/// A redrive that is open while many letters join it in one request: its numbers are written once, at the end.
#[derive(Debug)]
pub(in crate::sqlite) struct Hall {
    redrive: RedriveId,
    /// The ordinal of the last letter that joined.
    last: i64,
    joined: u64,
    /// Whether it is the free retry of a single job, which has no line over time and ends with its letter.
    is_alone: bool,
}

const TOTAL: &str = "select total from redrives where id = ?1";

/// Opens the redrive that a letter joins, for those that follow as well.
fn enter(write: &mut Write, passage: &Passage<'_>) -> Result<(), StoreError> {
    let id = redrive(write, passage)?;
    let last = write.conn.prepare_cached(TOTAL)?.query_row([id.bytes()], |row| row.get(0))?;
    let is_alone = matches!(passage.door, Door::Single) && passage.governed.is_none();
    write.hall = Some(Hall { redrive: id, last, joined: 0, is_alone });
    Ok(())
}

const JOIN: &str = "
update redrives
   set total = total + ?3, sent = sent + ?3, updated_at = max(updated_at, ?2)
 where id = ?1";

/// Writes down how many have joined. Whoever puts many letters back calls it after the last of them.
pub(in crate::sqlite) fn leave(write: &mut Write, at: Time) -> Result<(), StoreError> {
    if let Some(hall) = write.hall.take() {
        write.conn.prepare_cached(JOIN)?.execute((hall.redrive.bytes(), at.ms(), hall.joined as i64))?;
        if !hall.is_alone {
            line::add(write, hall.redrive, Did { sent: hall.joined, ..Did::default() }, at)?;
        }
    }
    Ok(())
}

const ADD_LETTER: &str = "
insert into redrive_letters (redrive, ordinal, letter, life, grp, lane, head, rank, outcome, sent_at, outcome_at)
select ?1, ?2, id, life, ?6, iif(aggregate is null, null, source || char(31) || aggregate), 1, 0, ?4, ?5, ?5
  from dead_letter_queue
 where id = ?3";

/// Writes down that a letter was put back with its job. All letters of a request go through one door.
pub(in crate::sqlite) fn record(
    write: &mut Write,
    letter: LetterId,
    passage: &Passage<'_>,
) -> Result<RedriveId, StoreError> {
    let at = passage.at;
    if write.hall.is_none() {
        enter(write, passage)?;
    }
    let Some(hall) = &mut write.hall else {
        return Err(StoreError::Corrupt("a letter was put back by no redrive".into()));
    };
    (hall.last, hall.joined) = (hall.last + 1, hall.joined + 1);
    let (id, ordinal) = (hall.redrive, hall.last);
    let group = match passage.governed {
        Some(cause) => govern(write, id, cause, passage)?,
        None => 0,
    };
    write.conn.prepare_cached(ADD_LETTER)?.execute((
        id.bytes(),
        ordinal,
        letter.bytes(),
        Outcome::Sent.name(),
        at.ms(),
        group,
    ))?;
    claim(write, letter, id, ClaimStep::Sent, None, at)?;
    match passage.door {
        Door::Single => leave(write, at)?,
        Door::Operation(_) | Door::Rule(_) => {}
    }
    Ok(id)
}

/// Writes down that letters were put back with their jobs by a rule; returns the redrive.
pub(in crate::sqlite) fn record_replays(
    write: &mut Write,
    rule: &str,
    letters: &[LetterId],
    by: &Actor,
    at: Time,
) -> Result<RedriveId, StoreError> {
    let passage = Passage { door: Door::Rule(rule), by, reason: None, governed: None, at };
    for letter in letters {
        record(write, *letter, &passage)?;
    }
    leave(write, at)?;
    of_rule(write, rule, at)?
        .ok_or_else(|| StoreError::Corrupt(format!("the redrive of rule {rule} is missing")))
}

const ADD_GROUP: &str = "
insert into redrive_groups (redrive, number, incident, source, died, letters, verdict, detail)
values (?1, ?2, ?3, ?4, ?5, 1, ?6, ?4)";

/// Puts a single retry under the RCA of its incident: the incident moves with it, and the redrive is tended to its end as
/// that of a plan. Says which group the letter is in.
fn govern(
    write: &mut Write,
    id: RedriveId,
    cause: &LetterCause,
    passage: &Passage<'_>,
) -> Result<u32, StoreError> {
    const GROUP: u32 = 1;
    let (incident, at, by) = (cause.incident, passage.at, Some(passage.by.name.as_str()));
    let died = cause.died.name();
    let passed = Passed::Governed.name();
    write.conn.prepare_cached(ADD_GROUP)?.execute((
        id.bytes(),
        GROUP,
        incident.bytes(),
        SOURCE,
        died,
        passed,
    ))?;
    write.conn.prepare_cached("update redrives set plan = '{}' where id = ?1")?.execute([id.bytes()])?;
    write
        .conn
        .prepare_cached("update incidents set redriven_at = ?2 where id = ?1")?
        .execute((incident.bytes(), at.ms()))?;
    let text = id.to_string();
    let note = TimelineNote { at, kind: "redrive_started", by, text: Some(&text) };
    ready(incidents::add_note(write, incident, &note))?;
    ready(incidents::happen(write, incident, Happening::SentSingly, by, at))?;
    Ok(GROUP)
}

const CLAIM: &str = "
insert into claims (letter, life, run, step, lease_until, idempotency_key, claimed_at, lane)
select l.id, l.life, ?2, ?3, ?4,
       ?6 || ':' || l.life || ':'
         || coalesce((select n.number from send_numbers n where n.letter = l.id and n.life = l.life), 1),
       ?5, iif(l.aggregate is null, null, l.source || char(31) || l.aggregate)
  from dead_letter_queue l
 where l.id = ?1";

/// Claims a letter for a run, and with it its lane.
fn claim(
    write: &mut Write,
    letter: LetterId,
    run: RedriveId,
    step: ClaimStep,
    lease_until: Option<Time>,
    at: Time,
) -> Result<(), StoreError> {
    let mut statement = write.conn.prepare_cached(CLAIM)?;
    statement.execute((
        letter.bytes(),
        run.bytes(),
        step.name(),
        lease_until.map(Time::ms),
        at.ms(),
        letter.to_string(),
    ))?;
    Ok(())
}

const COUNT_SEND: &str = "
insert into send_numbers (letter, life, number)
select id, life, 1
  from dead_letter_queue
 where id = ?1
on conflict (letter, life)
do update set number = number + 1";

/// Claims a letter for a run, and answers with the idempotency key it is sent under. A claim with a lease is a new send,
/// so its key has the next number; a job is put back in this commit, and nobody is shown its key.
pub(super) fn hold(
    write: &mut Write,
    letter: LetterId,
    run: RedriveId,
    step: ClaimStep,
    lease_until: Option<Time>,
    at: Time,
) -> Result<String, StoreError> {
    if lease_until.is_some() {
        write.conn.prepare_cached(COUNT_SEND)?.execute([letter.bytes()])?;
    }
    claim(write, letter, run, step, lease_until, at)?;
    // Asked for afterwards and not with `returning`, which takes longer than both statements.
    let mut key = write.conn.prepare_cached("select idempotency_key from claims where letter = ?1")?;
    Ok(key.query_row([letter.bytes()], |row| row.get(0))?)
}
