//! Events: written with what they tell of, read in commit order.
//!
//! They are kept back until the end of the transaction. Then the row of positions is taken and held to the commit, so
//! that positions are given in the order in which transactions end, whoever began first.

use lazaret_core::id::{EventId, IncidentId, JobId, LetterId, OperationId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::audit::{self, Entry};
use super::cell::{At, Bind, Cells, Uid, clean};
use super::conn::Conn;
use super::rows::{self, LETTER_COLUMNS, LETTER_COLUMNS_COUNT};
use super::trash;
use super::writer::Write;
use crate::StoreError;
use crate::decision::Verb;
use crate::event::{Event, EventsKept};
use crate::moves::Move;

pub(super) use crate::event::NewEvent;

/// What waits for its position.
#[derive(Default)]
pub(super) struct Told {
    events: Vec<Waiting>,
    pub entries: Vec<Entry>,
    /// Letter and life.
    pub lives: Vec<(LetterId, u32)>,
}

struct Waiting {
    id: EventId,
    at: Time,
    kind: &'static str,
    letter: Option<LetterId>,
    incident: Option<IncidentId>,
    operation: Option<OperationId>,
    job: Option<JobId>,
    actor: Option<String>,
    detail: Option<String>,
}

pub(super) fn add(write: &mut Write, event: &NewEvent<'_>) -> Result<(), StoreError> {
    let id = EventId::mint(event.at, write.entropy.take()?);
    write.told.events.push(Waiting {
        id,
        // An id holds no time before 1970, and an event has the time of its id.
        at: event.at,
        kind: event.kind,
        letter: event.letter,
        incident: event.incident,
        operation: event.operation,
        job: event.job,
        actor: event.actor.map(|actor| clean(actor).into_owned()),
        detail: event.detail.as_deref().map(|detail| clean(detail).into_owned()),
    });
    Ok(())
}

const NAMES: &str = "
select source, queue, type
  from dead_letter_queue
 where id = $1
   and created_at = $2";

/// Counts what happened to a live letter for whoever watches this instance.
pub(super) async fn note(
    write: &mut Write,
    kind: &'static str,
    letter: LetterId,
    rule: &str,
) -> Result<(), StoreError> {
    let named = write.conn.query_opt(NAMES, &[&Uid(*letter.bytes()), &At(letter.at())]).await?;
    if let Some(row) = named {
        write.tally.note(Move {
            kind,
            source: row.cell(0)?,
            queue: row.cell(1)?,
            letter_type: row.cell(2)?,
            rule: rule.to_owned(),
        });
    }
    Ok(())
}

const NAMES_OF_ALL: &str = "
select l.source, l.queue, l.type
  from unnest($1::uuid[], $2::timestamptz[]) as n (letter, begun_at)
  join dead_letter_queue l on l.id = n.letter and l.created_at = n.begun_at";

/// Counts what happened to many live letters for whoever watches this instance.
pub(super) async fn note_all(
    write: &mut Write,
    kind: &'static str,
    letters: &[LetterId],
) -> Result<(), StoreError> {
    let ids: Vec<Uid> = letters.iter().map(|letter| Uid(*letter.bytes())).collect();
    let begun_at: Vec<At> = letters.iter().map(|letter| At(letter.at())).collect();
    for row in write.conn.query(NAMES_OF_ALL, &[&ids, &begun_at]).await? {
        write.tally.note(Move {
            kind,
            source: row.cell(0)?,
            queue: row.cell(1)?,
            letter_type: row.cell(2)?,
            rule: String::new(),
        });
    }
    Ok(())
}

/// Whether it tells of a letter that came to wait, or to be free, where a replay rule may have passed already.
fn waits_again(event: &Waiting) -> bool {
    const VERBS: [Verb; 3] = [Verb::Reopen, Verb::Restore, Verb::Release];
    event.kind == IMPORTED || VERBS.iter().any(|verb| event.kind == verb.event())
}

/// The event of a letter that came from another store.
pub(super) const IMPORTED: &str = "dead_letter.imported";

const TAKE_POSITIONS: &str = "
update positions
   set events = events + $1, lives = lives + $2, audit = audit + $3, waiting_again = waiting_again + $4
returning events - $1, lives - $2, audit - $3";

/// Gives positions to everything that was told and writes it; returns the newest of an event. The last thing before the
/// commit: whoever has taken positions holds up all others.
pub(super) async fn flush(conn: &Conn, told: Told) -> Result<Option<u64>, StoreError> {
    let Told { events, entries, lives } = told;
    if entries.is_empty() {
        return flush_told(conn, &events, &lives).await;
    }
    let counts = [events.len() as i64, lives.len() as i64, entries.len() as i64];
    let again = count_again(&events);
    let row = conn.query_one(TAKE_POSITIONS, &[&counts[0], &counts[1], &counts[2], &again]).await?;
    let (before, lives_before, entries_before): (i64, i64, i64) = (row.cell(0)?, row.cell(1)?, row.cell(2)?);
    tokio::try_join!(
        add_all(conn, before, &events),
        add_lives(conn, lives_before, &lives),
        audit::add_all(conn, entries_before, &entries),
    )?;
    Ok((!events.is_empty()).then_some((before + counts[0]) as u64))
}

/// How many events tell of letters that wait again.
fn count_again(events: &[Waiting]) -> i64 {
    events.iter().filter(|event| waits_again(event)).count() as i64
}

const FLUSH_TOLD: &str = "
with taken as (update positions
                  set events = events + $10, waiting_again = waiting_again + $11, lives = lives + $14
               returning events - $10 as before, lives - $14 as lives_before),
     added as (insert into events (position, id, at, kind, letter, incident, operation, job, actor, detail)
               select t.before + e.n, e.id, e.at, e.kind, e.letter, e.incident, e.operation, e.job, e.actor, e.detail
                 from taken t
                cross join unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[],
                                  $7::uuid[], $8::text[], $9::text[])
                 with ordinality as e (id, at, kind, letter, incident, operation, job, actor, detail, n)),
     lived as (insert into life_positions (position, letter, life)
               select t.lives_before + l.n, l.letter, l.life
                 from taken t
                cross join unnest($12::uuid[], $13::integer[]) with ordinality as l (letter, life, n))
select before
  from taken";

/// Writes events and lives where no audit entry was told, as of captures and most jobs: in one round trip.
async fn flush_told(
    conn: &Conn,
    events: &[Waiting],
    lives: &[(LetterId, u32)],
) -> Result<Option<u64>, StoreError> {
    if events.is_empty() && lives.is_empty() {
        return Ok(None);
    }
    let (count, again, lived) = (events.len() as i64, count_again(events), lives.len() as i64);
    let columns = Columns::of(events);
    let letters: Vec<Uid> = lives.iter().map(|(letter, _)| Uid(*letter.bytes())).collect();
    let lives: Vec<i32> = lives.iter().map(|(_, life)| *life as i32).collect();
    let mut binds = columns.binds();
    binds.extend([&count as Bind<'_>, &again, &letters, &lives, &lived]);
    let before: i64 = conn.query_one(FLUSH_TOLD, &binds).await?.cell(0)?;
    Ok((count > 0).then_some((before + count) as u64))
}

/// Events as lists, one for each column but the position.
struct Columns<'a> {
    ids: Vec<Uid>,
    at: Vec<At>,
    kinds: Vec<&'a str>,
    letters: Vec<Option<Uid>>,
    incidents: Vec<Option<Uid>>,
    operations: Vec<Option<Uid>>,
    jobs: Vec<Option<Uid>>,
    actors: Vec<Option<&'a str>>,
    details: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(events: &'a [Waiting]) -> Columns<'a> {
        let ids = |of: fn(&Waiting) -> Option<[u8; 16]>| -> Vec<Option<Uid>> {
            events.iter().map(|event| of(event).map(Uid)).collect()
        };
        Columns {
            ids: events.iter().map(|event| Uid(*event.id.bytes())).collect(),
            at: events.iter().map(|event| At(event.at)).collect(),
            kinds: events.iter().map(|event| event.kind).collect(),
            letters: ids(|event| event.letter.map(|id| *id.bytes())),
            incidents: ids(|event| event.incident.map(|id| *id.bytes())),
            operations: ids(|event| event.operation.map(|id| *id.bytes())),
            jobs: ids(|event| event.job.map(|id| *id.bytes())),
            actors: events.iter().map(|event| event.actor.as_deref()).collect(),
            details: events.iter().map(|event| event.detail.as_deref()).collect(),
        }
    }

    fn binds(&self) -> Vec<Bind<'_>> {
        vec![
            &self.ids,
            &self.at,
            &self.kinds,
            &self.letters,
            &self.incidents,
            &self.operations,
            &self.jobs,
            &self.actors,
            &self.details,
        ]
    }
}

const ADD_EVENTS: &str = "
insert into events (position, id, at, kind, letter, incident, operation, job, actor, detail)
select $10 + e.n, e.id, e.at, e.kind, e.letter, e.incident, e.operation, e.job, e.actor, e.detail
  from unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[], $8::text[],
              $9::text[])
  with ordinality as e (id, at, kind, letter, incident, operation, job, actor, detail, n)";

async fn add_all(conn: &Conn, before: i64, events: &[Waiting]) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(events);
    let mut binds = columns.binds();
    binds.push(&before);
    conn.execute(ADD_EVENTS, &binds).await?;
    Ok(())
}

const ADD_LIFE_POSITIONS: &str = "
insert into life_positions (position, letter, life)
select $1 + l.n, l.letter, l.life
  from unnest($2::uuid[], $3::integer[]) with ordinality as l (letter, life, n)";

async fn add_lives(conn: &Conn, before: i64, lives: &[(LetterId, u32)]) -> Result<(), StoreError> {
    if lives.is_empty() {
        return Ok(());
    }
    let letters: Vec<Uid> = lives.iter().map(|(letter, _)| Uid(*letter.bytes())).collect();
    let lives: Vec<i32> = lives.iter().map(|(_, life)| *life as i32).collect();
    conn.execute(ADD_LIFE_POSITIONS, &[&before, &letters, &lives]).await?;
    Ok(())
}

/// The letter comes with the event: whoever filters or shows it would ask for it next.
fn events_after() -> String {
    format!(
        "select {LETTER_COLUMNS}, e.position, e.id, e.at, e.kind, e.letter, e.incident, e.operation, e.job, e.actor,
                e.detail
           from events e
           left join dead_letter_queue l on l.id = e.letter and l.created_at = uuid_time(e.letter)
           left join fingerprints f on f.fingerprint = l.fingerprint
          where e.position > $1
          order by e.position
          limit $2"
    )
}

pub(super) async fn after(conn: &Conn, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let found = conn.query(&events_after(), &[&after, &(limit as i64)]).await?;
    let mut events: Vec<Event> = found.iter().map(read).collect::<Result<_, _>>()?;
    let gone: Vec<LetterId> =
        events.iter().filter(|event| event.about.is_none()).filter_map(|event| event.letter).collect();
    let trashed = trash::letters(conn, &gone).await?;
    for event in events.iter_mut().filter(|event| event.about.is_none()) {
        event.about = event.letter.and_then(|letter| trashed.get(&letter)).cloned().map(Box::new);
    }
    Ok(events)
}

fn read(row: &Row) -> Result<Event, StoreError> {
    const FROM: usize = LETTER_COLUMNS_COUNT;
    let about = match row.id_opt(0)? {
        None => None,
        Some(_) => Some(Box::new(rows::letter(row)?)),
    };
    Ok(Event {
        position: row.count(FROM)?,
        id: EventId::from_bytes(row.id(FROM + 1)?),
        at: row.time(FROM + 2)?,
        kind: row.cell(FROM + 3)?,
        letter: row.id_opt(FROM + 4)?.map(LetterId::from_bytes),
        incident: row.id_opt(FROM + 5)?.map(IncidentId::from_bytes),
        operation: row.id_opt(FROM + 6)?.map(OperationId::from_bytes),
        job: row.id_opt(FROM + 7)?.map(JobId::from_bytes),
        actor: row.cell(FROM + 8)?,
        detail: row.cell(FROM + 9)?,
        about,
    })
}

/// The newest position ever given outlives its event.
const KEPT: &str = "
select events, (select min(position) from events)
  from positions";

pub(super) async fn kept(conn: &Conn) -> Result<EventsKept, StoreError> {
    let row = conn.query_one(KEPT, &[]).await?;
    let newest = row.count(0)?;
    let oldest: Option<i64> = row.cell(1)?;
    Ok(EventsKept { oldest: oldest.map_or(newest + 1, |position| position as u64), newest })
}

const PRUNE: &str = "
delete from events
 where position in (select position
                      from events
                     where position <= $1
                     order by position
                     limit $2)";

pub(super) async fn prune(write: &Write, keep: u64) -> Result<u64, StoreError> {
    let EventsKept { newest, .. } = kept(&write.conn).await?;
    let Some(last) = newest.checked_sub(keep) else { return Ok(0) };
    write.conn.execute(PRUNE, &[&(last as i64), &(limits::EVENTS_PRUNED_PER_WRITE as i64)]).await
}
