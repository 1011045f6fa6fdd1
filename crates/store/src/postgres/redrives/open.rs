//! Opening a redrive, and taking letters down on its list: each with its group, its lane and its turn.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::incident::AgainstFix;
use lazaret_core::lifecycle::Status;
use lazaret_core::redrive::{Options, Outcome, Prioritization, RedriveKind, RunState};
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::insert::column;
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
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $24)
on conflict (id) do nothing";

/// The first row of a redrive.
pub(super) struct Opening<'a> {
    pub id: RedriveId,
    pub kind: RedriveKind,
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
pub(super) async fn add(conn: &Conn, opening: &Opening<'_>) -> Result<(), StoreError> {
    let options = opening.options;
    conn.execute(
        OPEN,
        &[
            &Uid(*opening.id.bytes()),
            &opening.kind.name(),
            &opening.state.name(),
            &clean(opening.filter),
            &clean(&opening.by.name),
            &clean(&opening.by.role),
            &clean_opt(opening.by.request.as_deref()),
            &clean_opt(opening.reason),
            &opening.edit.map(|edit| edit as i32),
            &clean_opt(opening.rule),
            &options.pace.per_minute().map(i64::from),
            &i64::from(options.batch_size),
            &i64::from(options.concurrency),
            &options.prioritization.by.name(),
            &options.prioritization.direction.name(),
            &i64::from(options.canary),
            &options.canary_ms,
            &options.canary_assumed,
            &i64::from(options.stop.percent),
            &i64::from(options.stop.of),
            &options.quiet_ms,
            &opening.frozen,
            &opening.launched_at.map(At),
            &At(opening.at),
        ],
    )
    .await?;
    Ok(())
}

/// Opens a redrive; letters that were named are taken down at once, those of them that wait in that life.
pub(super) async fn open(write: &Write, redrive: &NewRedrive) -> Result<(), StoreError> {
    let (filter, named) = match &redrive.selection {
        Selection::Filter(filter) => (filter.to_string(), None),
        Selection::Letters(letters) => (String::new(), Some(letters)),
    };
    let opening = Opening {
        id: redrive.id,
        kind: redrive.kind,
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
    add(&write.conn, &opening).await?;
    let Some(named) = named else { return Ok(()) };
    let mut found = candidates(&write.conn, named).await?;
    found.sort_by_key(|candidate| (candidate.died_at, candidate.id));
    // Somebody may have named one twice.
    found.dedup_by_key(|candidate| candidate.id);
    let list = List { redrive: redrive.id, prioritization: redrive.options.prioritization, total: 0 };
    let listed = list.add(write, &found).await?;
    write.conn.execute(LISTED, &[&Uid(*redrive.id.bytes()), &(listed.added as i64)]).await?;
    Ok(())
}

/// Counts letters that were taken down.
pub(super) const LISTED: &str = "
update redrives
   set total = total + $2, waiting = waiting + $2
 where id = $1";

/// What of a letter its place on a list depends on.
pub(super) struct Candidate {
    pub id: LetterId,
    life: u32,
    source: String,
    subscriber: Option<String>,
    aggregate: Option<String>,
    incident: IncidentId,
    fix_at: Option<Time>,
    died_at: Time,
    retry_count: i64,
    body_missing: Option<String>,
}

const CANDIDATES: &str = "
select l.id, l.life, l.source, l.subscriber_id, l.aggregate, f.incident, i.fix_at, l.died_at, l.retry_count,
       v.body_missing
  from unnest($1::uuid[], $2::timestamptz[], $3::integer[]) with ordinality as n (letter, begun_at, life, n)
  join dead_letter_queue l on l.id = n.letter and l.created_at = n.begun_at and l.life = n.life
  join fingerprints f on f.fingerprint = l.fingerprint
  join incidents i on i.id = f.incident
  left join lives v on v.letter = l.id and v.life = l.life and v.body_missing is not null
 where l.status = $4
 order by n.n";

/// Letters as they stand, those that wait in this life.
pub(super) async fn candidates(
    conn: &Conn,
    letters: &[(LetterId, u32)],
) -> Result<Vec<Candidate>, StoreError> {
    let ids: Vec<Uid> = column(letters, |(letter, _)| Uid(*letter.bytes()));
    let begun_at: Vec<At> = column(letters, |(letter, _)| At(letter.at()));
    let lives: Vec<i32> = column(letters, |(_, life)| *life as i32);
    let mut candidates = Vec::with_capacity(letters.len());
    for row in conn.query(CANDIDATES, &[&ids, &begun_at, &lives, &Status::Pending.name()]).await? {
        candidates.push(Candidate {
            id: LetterId::from_bytes(row.id(0)?),
            life: row.small(1)?,
            source: row.cell(2)?,
            subscriber: row.cell(3)?,
            aggregate: row.cell(4)?,
            incident: IncidentId::from_bytes(row.id(5)?),
            fix_at: row.time_opt(6)?,
            died_at: row.time(7)?,
            retry_count: row.cell(8)?,
            body_missing: row.cell(9)?,
        });
    }
    Ok(candidates)
}

/// What letters are judged together by; last, whether they have no body.
type GroupKey = (IncidentId, String, Option<String>, &'static str, bool);

/// A list that letters are taken down on; the redrive's row is held, or nobody else knows it yet.
pub(super) struct List {
    pub redrive: RedriveId,
    pub prioritization: Prioritization,
    /// How many are on it.
    pub total: u64,
}

/// What taking letters down came to.
pub(super) struct Added {
    pub added: u64,
    /// How many groups the list has.
    pub groups: usize,
}

/// One that dies meanwhile is met again and stays as it was. Within a lane the first one is the head.
const ADD_LETTERS: &str = "
insert into redrive_letters (redrive, ordinal, letter, life, grp, lane, head, rank, outcome)
select $1, $2 + row_number() over (order by n.n), n.letter, n.life, n.grp, n.lane,
       n.lane is null
         or (row_number() over (partition by n.lane order by n.n) = 1
             and not exists (select 1 from redrive_letters e where e.redrive = $1 and e.lane = n.lane)),
       n.rank, $8
  from unnest($3::uuid[], $4::integer[], $5::integer[], $6::text[], $7::bigint[])
  with ordinality as n (letter, life, grp, lane, rank, n)
 where not exists (select 1
                     from redrive_letters s
                    where s.redrive = $1
                      and s.letter = n.letter)
returning grp";

impl List {
    /// Takes letters down in this order. Whoever calls it counts them.
    pub async fn add(&self, write: &Write, found: &[Candidate]) -> Result<Added, StoreError> {
        let mut groups = groups(&write.conn, self.redrive).await?;
        let first_new = groups.values().max().map_or(1, |last| last + 1);
        let mut next = first_new;
        let mut numbers = Vec::with_capacity(found.len());
        let mut missing: BTreeMap<u32, &str> = BTreeMap::new();
        for candidate in found {
            let number = *groups.entry(group_key(candidate)).or_insert(next);
            next = next.max(number + 1);
            numbers.push(number);
            if let Some(why) = &candidate.body_missing {
                missing.entry(number).or_insert(why);
            }
        }
        let lane = |candidate: &Candidate| {
            let aggregate = candidate.aggregate.as_ref()?;
            Some(format!("{}{LANE_MARK}{aggregate}", candidate.source))
        };
        let rank = |candidate: &Candidate| {
            let (created, died) = (candidate.id.at().ms(), candidate.died_at.ms());
            self.prioritization.rank(created, died, candidate.retry_count)
        };
        let added = write
            .conn
            .query(
                ADD_LETTERS,
                &[
                    &Uid(*self.redrive.bytes()),
                    &(self.total as i64),
                    &column(found, |candidate| Uid(*candidate.id.bytes())),
                    &column(found, |candidate| candidate.life as i32),
                    &column(&numbers, |number| *number as i32),
                    &column(found, lane),
                    &column(found, rank),
                    &Outcome::Waiting.name(),
                ],
            )
            .await?;
        let mut joined: BTreeMap<u32, i64> = BTreeMap::new();
        for row in &added {
            *joined.entry(row.small(0)?).or_default() += 1;
        }
        join(&write.conn, self.redrive, &groups, &joined, &missing).await?;
        // A group that only letters belong to which are listed already is none.
        let known = groups.values().filter(|number| **number < first_new || joined.contains_key(number));
        Ok(Added { added: added.len() as u64, groups: known.count() })
    }
}

fn group_key(candidate: &Candidate) -> GroupKey {
    let died = AgainstFix::of(candidate.died_at, candidate.fix_at).name();
    let (source, subscriber) = (candidate.source.clone(), candidate.subscriber.clone());
    (candidate.incident, source, subscriber, died, candidate.body_missing.is_some())
}

const GROUPS: &str = "
select number, incident, source, subscriber, died, body_missing is not null
  from redrive_groups
 where redrive = $1";

async fn groups(conn: &Conn, redrive: RedriveId) -> Result<HashMap<GroupKey, u32>, StoreError> {
    let mut groups = HashMap::new();
    for row in conn.query(GROUPS, &[&Uid(*redrive.bytes())]).await? {
        let died = against(row.cell(4)?)?.name();
        let key = (IncidentId::from_bytes(row.id(1)?), row.cell(2)?, row.cell(3)?, died, row.cell(5)?);
        groups.insert(key, row.small(0)?);
    }
    Ok(groups)
}

const JOIN_GROUPS: &str = "
insert into redrive_groups (redrive, number, incident, source, subscriber, died, letters, body_missing)
select $1, g.number, g.incident, g.source, g.subscriber, g.died, g.letters, g.body_missing
  from unnest($2::integer[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[])
    as g (number, incident, source, subscriber, died, letters, body_missing)
on conflict (redrive, number)
do update set letters = redrive_groups.letters + excluded.letters";

/// Adds letters to their groups.
async fn join(
    conn: &Conn,
    redrive: RedriveId,
    groups: &HashMap<GroupKey, u32>,
    joined: &BTreeMap<u32, i64>,
    missing: &BTreeMap<u32, &str>,
) -> Result<(), StoreError> {
    if joined.is_empty() {
        return Ok(());
    }
    let grown: Vec<(&GroupKey, u32, i64)> =
        groups.iter().filter_map(|(key, number)| Some((key, *number, *joined.get(number)?))).collect();
    conn.execute(
        JOIN_GROUPS,
        &[
            &Uid(*redrive.bytes()),
            &column(&grown, |(_, number, _)| *number as i32),
            &column(&grown, |(key, _, _)| Uid(*key.0.bytes())),
            &column(&grown, |(key, _, _)| key.1.as_str()),
            &column(&grown, |(key, _, _)| key.2.as_deref()),
            &column(&grown, |(key, _, _)| key.3),
            &column(&grown, |(_, _, letters)| *letters),
            &column(&grown, |(_, number, _)| missing.get(number).copied()),
        ],
    )
    .await?;
    Ok(())
}

fn against(text: &str) -> Result<AgainstFix, StoreError> {
    AgainstFix::parse(text).ok_or_else(|| unknown("time against the fix", text))
}
