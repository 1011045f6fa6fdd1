//! Opening a redrive, and taking letters down on its list: each with its group, its lane and its turn.

use std::collections::{HashMap, HashSet};

use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::incident::AgainstFix;
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::{Options, Outcome, Prioritization, RunState};
use lazaret_core::time::Time;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use super::super::rows::unknown;
use super::super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::engine::redrives::row::LANE_MARK;
use crate::redrive::{NewRedrive, Selection};

const OPEN: &str = "
insert into redrives (id, kind, state, filter, actor, role, request, reason, edit, rule, pace, batch_size, concurrency,
       order_by, direction, canary, canary_ms, canary_assumed, stop_percent, stop_of, quiet_ms, frozen, launched_at,
       opened_at, updated_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
        ?24)
on conflict (id) do nothing";

/// The first row of a redrive.
pub(super) struct Opening<'a> {
    pub id: RedriveId,
    pub kind: &'static str,
    pub state: RunState,
    pub filter: &'a str,
    pub by: &'a Actor,
    pub reason: Option<&'a str>,
    pub edit: Option<u32>,
    pub rule: Option<&'a str>,
    pub options: &'a Options,
    pub frozen: bool,
    pub launched_at: Option<Time>,
    pub at: Time,
}

/// Writes the row of a redrive unless it is there.
pub(super) fn add(write: &Write, opening: &Opening<'_>) -> Result<(), StoreError> {
    let options = opening.options;
    write.conn.prepare_cached(OPEN)?.execute(rusqlite::params![
        opening.id.bytes(),
        opening.kind,
        opening.state.name(),
        opening.filter,
        opening.by.name,
        opening.by.role,
        opening.by.request,
        opening.reason,
        opening.edit,
        opening.rule,
        options.pace.per_minute(),
        options.batch_size,
        options.concurrency,
        options.prioritization.by.name(),
        options.prioritization.direction.name(),
        options.canary,
        options.canary_ms,
        options.canary_assumed,
        options.stop.percent,
        options.stop.of,
        options.quiet_ms,
        opening.frozen,
        opening.launched_at.map(Time::ms),
        opening.at.ms(),
    ])?;
    Ok(())
}

/// Opens a redrive; letters that were named are taken down at once, those of them that wait in that life.
pub(super) fn open(write: &Write, redrive: &NewRedrive) -> Result<(), StoreError> {
    let (filter, named) = match &redrive.selection {
        Selection::Filter(filter) => (filter.to_string(), None),
        Selection::Letters(letters) => (String::new(), Some(letters)),
    };
    let opening = Opening {
        id: redrive.id,
        kind: redrive.kind.name(),
        state: RunState::Planning,
        filter: &filter,
        by: &redrive.by,
        reason: redrive.reason.as_deref(),
        edit: redrive.edit,
        rule: None,
        options: &redrive.options,
        frozen: named.is_some(),
        launched_at: None,
        at: redrive.at,
    };
    add(write, &opening)?;
    let Some(named) = named else { return Ok(()) };
    let mut found = Vec::with_capacity(named.len());
    for (letter, life) in named {
        found.extend(named_letter(&write.conn, *letter, *life)?);
    }
    found.sort_by_key(|candidate| (candidate.died_at, candidate.id));
    // Somebody may have named one twice.
    found.dedup_by_key(|candidate| candidate.id);
    let list = List { redrive: redrive.id, opened_at: redrive.at, total: 0 };
    let mut lister = Lister::new(write, &list, redrive.options.prioritization)?;
    for candidate in &found {
        lister.add(candidate)?;
    }
    lister.finish()?;
    Ok(())
}

/// What of a letter its place on a list depends on.
pub(super) struct Candidate {
    pub id: [u8; 16],
    pub life: u32,
    source: String,
    subscriber: Option<String>,
    aggregate: Option<String>,
    fingerprint: String,
    created_at: i64,
    pub died_at: i64,
    retry_count: i64,
    updated_at: i64,
    body_missing: Option<String>,
}

/// The columns that `candidate` takes, in its order; the alias `l` is the letters table.
pub(super) const CANDIDATE_COLUMNS: &str =
    "l.died_at, l.id, l.life, l.letter, l.source, l.subscriber_id, l.aggregate, l.fingerprint, l.created_at,
l.retry_count, l.updated_at,
(select v.body_missing
   from lives v indexed by lives_without_body
  where v.letter = l.letter
    and v.life = l.life
    and v.body_missing is not null)";

pub(super) fn candidate(row: &Row<'_>) -> Result<Candidate, rusqlite::Error> {
    Ok(Candidate {
        died_at: row.get(0)?,
        id: row.get(1)?,
        life: row.get(2)?,
        source: row.get(4)?,
        subscriber: row.get(5)?,
        aggregate: row.get(6)?,
        fingerprint: row.get(7)?,
        created_at: row.get(8)?,
        retry_count: row.get(9)?,
        updated_at: row.get(10)?,
        body_missing: row.get(11)?,
    })
}

fn named_letter(conn: &Connection, letter: LetterId, life: u32) -> Result<Option<Candidate>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select {CANDIDATE_COLUMNS}
           from dead_letter_queue l
          where l.id = ?1
            and l.life = ?2
            and l.status = ?3"
    ))?;
    Ok(statement.query_row((letter.bytes(), life, Status::Pending.name()), candidate).optional()?)
}

/// What letters are judged together by; last, whether they have no body.
type GroupKey = (IncidentId, String, Option<String>, &'static str, bool);

/// Letters that joined a group, and why the first of them has no body.
struct Joined {
    key: GroupKey,
    letters: i64,
    body_missing: Option<String>,
}

/// A list that letters are taken down on, and how long it is.
pub(super) struct List {
    pub redrive: RedriveId,
    pub opened_at: Time,
    pub total: u64,
}

/// Takes letters down, in the order of their deaths.
pub(super) struct Lister<'w> {
    write: &'w Write,
    add_letter: CachedStatement<'w>,
    has_lane: CachedStatement<'w>,
    redrive: RedriveId,
    opened_at: Time,
    prioritization: Prioritization,
    pub total: u64,
    groups: HashMap<GroupKey, u32>,
    /// How many letters joined each group now.
    joined: HashMap<u32, Joined>,
    causes: HashMap<String, (IncidentId, Option<Time>)>,
    /// Lanes that have a letter on the list.
    lanes: HashSet<String>,
}

const GROUPS: &str = "
select number, incident, source, subscriber, died, body_missing is not null
  from redrive_groups
 where redrive = ?1";

const ADD_LETTER: &str = "
insert into redrive_letters (redrive, ordinal, letter, life, grp, lane, head, rank, outcome)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const IS_LISTED: &str = "
select 1
  from redrive_letters indexed by redrive_letters_by_letter
 where letter = ?1
   and redrive = ?2";

const HAS_LANE: &str = "
select 1
  from redrive_letters indexed by redrive_letters_in_lane
 where redrive = ?1
   and lane = ?2
 limit 1";

const CAUSE: &str = "
select f.incident, i.fix_at
  from fingerprints f
  join incidents i on i.id = f.incident
 where f.fingerprint = ?1";

impl<'w> Lister<'w> {
    pub fn new(
        write: &'w Write,
        list: &List,
        prioritization: Prioritization,
    ) -> Result<Lister<'w>, StoreError> {
        let List { redrive, opened_at, total } = *list;
        let mut groups = HashMap::new();
        let mut statement = write.conn.prepare_cached(GROUPS)?;
        let mut found = statement.query([redrive.bytes()])?;
        while let Some(row) = found.next()? {
            let died: String = row.get(4)?;
            let died = against(&died)?.name();
            groups.insert(
                (IncidentId::from_bytes(row.get(1)?), row.get(2)?, row.get(3)?, died, row.get(5)?),
                row.get::<_, u32>(0)?,
            );
        }
        Ok(Lister {
            write,
            add_letter: write.conn.prepare_cached(ADD_LETTER)?,
            has_lane: write.conn.prepare_cached(HAS_LANE)?,
            redrive,
            opened_at,
            prioritization,
            total,
            groups,
            joined: HashMap::new(),
            causes: HashMap::new(),
            lanes: HashSet::new(),
        })
    }

    /// Takes one letter down, unless it is on the list: one that dies meanwhile is met again and stays as it was.
    pub fn add(&mut self, candidate: &Candidate) -> Result<(), StoreError> {
        let conn = &self.write.conn;
        let may_be_listed = candidate.updated_at >= self.opened_at.ms();
        if may_be_listed && conn.prepare_cached(IS_LISTED)?.exists((candidate.id, self.redrive.bytes()))? {
            return Ok(());
        }
        let group = self.group_of(candidate)?;
        let lane = candidate
            .aggregate
            .as_ref()
            .map(|aggregate| format!("{}{LANE_MARK}{aggregate}", candidate.source));
        let head = match &lane {
            None => true,
            Some(lane) if self.lanes.contains(lane) => false,
            Some(lane) => {
                let taken = self.has_lane.exists((self.redrive.bytes(), lane))?;
                self.lanes.insert(lane.clone());
                !taken
            }
        };
        let rank = self.prioritization.rank(candidate.created_at, candidate.died_at, candidate.retry_count);
        self.total += 1;
        self.add_letter.execute((
            self.redrive.bytes(),
            self.total as i64,
            candidate.id,
            candidate.life,
            group,
            lane,
            head,
            rank,
            Outcome::Waiting.name(),
        ))?;
        Ok(())
    }

    fn group_of(&mut self, candidate: &Candidate) -> Result<u32, StoreError> {
        let (incident, fix_at) = self.cause(&candidate.fingerprint)?;
        let died = AgainstFix::of(Time::from_ms(candidate.died_at), fix_at).name();
        let body_missing = &candidate.body_missing;
        let key =
            (incident, candidate.source.clone(), candidate.subscriber.clone(), died, body_missing.is_some());
        let next = self.groups.len() as u32 + 1;
        let number = *self.groups.entry(key.clone()).or_insert(next);
        let new = || Joined { key, letters: 0, body_missing: body_missing.clone() };
        self.joined.entry(number).or_insert_with(new).letters += 1;
        Ok(number)
    }

    fn cause(&mut self, fingerprint: &str) -> Result<(IncidentId, Option<Time>), StoreError> {
        if let Some(known) = self.causes.get(fingerprint) {
            return Ok(*known);
        }
        let cause = self.write.conn.prepare_cached(CAUSE)?.query_row([fingerprint], |row| {
            Ok((IncidentId::from_bytes(row.get(0)?), row.get::<_, Option<i64>>(1)?.map(Time::from_ms)))
        })?;
        self.causes.insert(fingerprint.to_owned(), cause);
        Ok(cause)
    }

    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Writes what was counted meanwhile.
    pub fn finish(self) -> Result<(), StoreError> {
        let conn = &self.write.conn;
        let mut join = conn.prepare_cached(JOIN_GROUP)?;
        for (number, Joined { key, letters, body_missing }) in &self.joined {
            let (incident, source, subscriber, died, _) = key;
            join.execute((
                self.redrive.bytes(),
                number,
                incident.bytes(),
                source,
                subscriber,
                died,
                letters,
                body_missing,
            ))?;
        }
        conn.prepare_cached("update redrives set total = ?2, waiting = ?2 where id = ?1")?
            .execute((self.redrive.bytes(), self.total as i64))?;
        Ok(())
    }
}

const JOIN_GROUP: &str = "
insert into redrive_groups (redrive, number, incident, source, subscriber, died, letters, body_missing)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (redrive, number)
do update set letters = letters + excluded.letters";

fn against(text: &str) -> Result<AgainstFix, StoreError> {
    AgainstFix::parse(text).ok_or_else(|| unknown("time against the fix", text))
}
