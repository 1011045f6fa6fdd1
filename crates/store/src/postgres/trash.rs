//! Letters that leave the live ones: out of every table of theirs at once. Those that are archived, or deleted inside the
//! floor, are copied into the trash, whole, and put on record in the archive; of the others a tombstone stays.
//!
//! Whoever takes a letter away holds its key, then its job, then itself. Whoever has to do with one that is away holds its
//! key: whoever captures under that key, or enqueues the job again, waits for it.

use std::collections::{HashMap, HashSet};

use lazaret_core::id::{IncidentId, JobId, LetterId};
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::{Place, Standing, Status};
use lazaret_core::time::Time;

use super::cell::{At, Bind, Cells, Uid, clean};
use super::conn::Conn;
use super::counters::{Counted, Flow};
use super::incidents;
use super::jobs::follow::{Jobs, withdraw};
use super::regroup;
use super::rows::{self, COUNTED_COLUMNS, LETTER_COLUMNS};
use super::writer::Write;
use crate::StoreError;
use crate::decision::{Decided, Decision};
use crate::failure::FailurePoint;
use crate::source_store::left_source;

/// What became of a letter, and what is to be told of it beside.
pub(super) struct Carried {
    pub decided: Decided,
    pub job: Option<JobId>,
    pub incident: Option<IncidentId>,
}

impl Carried {
    pub(super) const fn only(decided: Decided) -> Carried {
        Carried { decided, job: None, incident: None }
    }
}

/// Where a letter goes that leaves the live ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outlet {
    Archived,
    /// Deleted by a person inside the floor: its content is kept.
    Deleted,
    /// Nothing of it is kept but its tombstone.
    Gone,
}

impl Outlet {
    const fn place(self) -> Place {
        match self {
            Outlet::Archived => Place::Archived,
            Outlet::Deleted | Outlet::Gone => Place::Deleted,
        }
    }
}

/// A letter on its way out, which is held still, and which the machine lets go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub letter: LetterId,
    pub status: Status,
    pub outlet: Outlet,
}

/// Who takes letters away, when, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal<'a> {
    pub by: &'a str,
    pub at: Time,
    /// As the archive tells it.
    pub reason: &'a str,
    /// What the tombstones say of it.
    pub removal: &'a str,
}

impl<'a> Removal<'a> {
    fn by_hand(decision: &'a Decision) -> Removal<'a> {
        Removal { by: &decision.actor.name, at: decision.at, reason: BY_HAND, removal: BY_HAND }
    }
}

/// Why a letter went that a person deleted.
const BY_HAND: &str = "deleted";

const LOCK_KEYS_OF: &str = "
select 1
  from letter_keys
 where id = any($1)
 order by key, generation
   for no key update";

/// Locks the keys of letters that are about to go, before anything else of them.
pub(super) async fn lock_keys_of(conn: &Conn, letters: &[LetterId]) -> Result<(), StoreError> {
    let ids: Vec<Uid> = letters.iter().map(|letter| Uid(*letter.bytes())).collect();
    conn.execute(LOCK_KEYS_OF, &[&ids]).await?;
    Ok(())
}

/// Locks the key of one letter, wherever it is: whoever places a hold on one that is archived has its row there.
pub(super) async fn lock_key_of(conn: &Conn, letter: LetterId) -> Result<(), StoreError> {
    lock_keys_of(conn, &[letter]).await?;
    conn.execute("select 1 from archive where id = $1 for update", &[&Uid(*letter.bytes())]).await?;
    Ok(())
}

/// Takes letters out of all lists by hand, with their jobs; returns their incidents. The letters are held still, and the
/// machine lets them go.
pub(super) async fn delete_held(
    write: &mut Write,
    letters: &[(LetterId, Standing)],
    jobs: &Jobs,
    decision: &Decision,
) -> Result<HashMap<LetterId, IncidentId>, StoreError> {
    let ids: Vec<LetterId> = letters.iter().map(|(letter, _)| *letter).collect();
    let since = since(&write.conn, &ids).await?;
    let mut leaving = Vec::with_capacity(letters.len());
    for (letter, standing) in letters {
        let inside = since.get(letter).is_some_and(|since| is_inside(*since, decision));
        let outlet = if inside { Outlet::Deleted } else { Outlet::Gone };
        leaving.push(Leaving { letter: *letter, status: standing.status, outlet });
    }
    let jobs: Vec<JobId> = ids.iter().filter_map(|letter| jobs.get(letter).copied()).collect();
    let removed = take_away(write, &leaving, &jobs, &Removal::by_hand(decision)).await?;
    incidents_of(&write.conn, &removed).await
}

/// Whether content is kept of what a person deletes that was captured or died last at `since`.
fn is_inside(since: Time, decision: &Decision) -> bool {
    since.plus_ms(decision.floor_ms()) > decision.at
}

const SINCE: &str = "
select l.id, greatest(l.created_at, l.died_at, v.captured_at)
  from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at)
  join dead_letter_queue l on l.id = m.letter and l.created_at = m.begun_at
  left join lives v on v.letter = l.id and v.life = l.life";

/// From when on the floor of live letters is counted: the later of their last capture and their last death.
async fn since(conn: &Conn, letters: &[LetterId]) -> Result<HashMap<LetterId, Time>, StoreError> {
    if letters.is_empty() {
        return Ok(HashMap::new());
    }
    let (ids, begun_at) = places(letters.iter().copied());
    let found = conn.query(SINCE, &[&ids, &begun_at]).await?;
    found.iter().map(|row| Ok((LetterId::from_bytes(row.id(0)?), row.time(1)?))).collect()
}

/// What live letters are found by.
fn places(letters: impl Iterator<Item = LetterId>) -> (Vec<Uid>, Vec<At>) {
    letters.map(|letter| (Uid(*letter.bytes()), At(letter.at()))).unzip()
}

/// Takes letters out of all lists, with these jobs; returns what they counted under. They are put on record in the order
/// in which they are given.
pub(super) async fn take_away(
    write: &mut Write,
    letters: &[Leaving],
    jobs: &[JobId],
    removal: &Removal<'_>,
) -> Result<Vec<(LetterId, Counted)>, StoreError> {
    if letters.is_empty() {
        return Ok(Vec::new());
    }
    withdraw(write, jobs.iter().copied()).await?;
    let (kept, gone): (Vec<Leaving>, Vec<Leaving>) =
        letters.iter().copied().partition(|leaving| leaving.outlet != Outlet::Gone);
    if !kept.is_empty() {
        keep(write, &kept, removal).await?;
    }
    let gone: Vec<Uid> = gone.iter().map(|leaving| Uid(*leaving.letter.bytes())).collect();
    forget_past(&write.conn, &gone).await?;
    write.failures.at(FailurePoint::Archive)?;
    forget_deaths(&write.conn, letters).await?;
    let removed = remove(&write.conn, letters).await?;
    bury(&write.conn, letters, removal).await?;
    write.tally.at(removal.at);
    for (_, counted) in &removed {
        write.tally.vanish(counted);
        if waits(counted.status) {
            write.tally.flow(removal.at.minute(), Flow::Departed, counted);
        }
    }
    Ok(removed)
}

/// Whether a letter of this status goes out when it is taken away; the others went when they were settled.
pub(super) const fn waits(status: Status) -> bool {
    match status {
        Status::Pending | Status::Reprocessing => true,
        Status::Resolved | Status::Discarded => false,
    }
}

pub(super) async fn incidents_of(
    conn: &Conn,
    letters: &[(LetterId, Counted)],
) -> Result<HashMap<LetterId, IncidentId>, StoreError> {
    let fingerprints: HashSet<&str> =
        letters.iter().map(|(_, counted)| counted.fingerprint.as_str()).collect();
    let fingerprints: Vec<&str> = fingerprints.into_iter().collect();
    let known = incidents::of_fingerprints(conn, &fingerprints).await?;
    let found = letters.iter().filter_map(|(id, counted)| Some((*id, *known.get(&counted.fingerprint)?)));
    Ok(found.collect())
}

/// The columns of a letter that are the same in the trash; `place`, `updated_at`, `retention_at` and the hold are the live
/// one's own when it comes back.
pub(super) const SAME: &str = "id, event_id, subscriber_id, original_event, error_message, error_type, error_code,
error_stack_trace, error_context, retry_history, retry_count, max_retries, status, resolution_timestamp,
resolution_strategy, resolved_by, resolution_notes, created_at, source, tenant, type, queue, aggregate, schema_version,
class, fingerprint, life, sent_at, ever_sent, previous, died_at, words";

/// The columns of a letter that the archive holds beside its id, its place and its hold.
pub(super) const RECORDED: &str = "source, event_id, subscriber_id, tenant, type, queue, aggregate, schema_version,
error_type, error_code, error_message, class, retry_count, max_retries, status, life, ever_sent, resolution_timestamp,
resolution_strategy, resolved_by, resolution_notes, previous, created_at, died_at";

const LIFE_COLUMNS: &str =
    "letter, life, captured_at, died_at, class, fingerprint, content_type, headers, body,
body_bytes, sha256, fatal, retry_count, max_retries, redrive, reported, origin, body_missing";

const ATTEMPT_COLUMNS: &str =
    "letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail";

/// Letters by their ids and when they were created: each is one row of one month.
const THESE: &str = "(id, created_at) in (select letter, begun_at
                                            from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at))";

/// `offset` keeps the key from being asked first: then the letter would be looked for in every month.
fn record() -> String {
    format!(
        "insert into archive (id, key, place, waiting, bytes, {RECORDED}, fingerprint, updated_at, retention_at, since,
                removed_at, removed_by, reason)
         select l.id, k.key, m.place, true, v.bytes, {RECORDED}, l.fingerprint, l.updated_at, l.retention_at,
                greatest(l.created_at, l.died_at, v.captured_at), $4::timestamptz, $5::text, $6::text
           from unnest($1::uuid[], $2::timestamptz[], $3::text[]) with ordinality as m (letter, begun_at, place, n)
           join dead_letter_queue l on l.id = m.letter and l.created_at = m.begun_at
          cross join lateral (select key from letter_keys where id = l.id offset 0) k
          cross join lateral (select coalesce(sum(body_bytes), 0)::bigint as bytes,
                                     max(captured_at) filter (where life = l.life) as captured_at
                                from lives
                               where letter = l.id) v
          order by m.n"
    )
}

fn throw_away() -> String {
    format!(
        "insert into trash ({SAME}, place, updated_at, retention_at, grouped_by)
         select {SAME}, place, updated_at, retention_at, $3::text
           from dead_letter_queue
          where {THESE}"
    )
}

/// Copies letters into the trash and puts them on record.
async fn keep(write: &Write, letters: &[Leaving], removal: &Removal<'_>) -> Result<(), StoreError> {
    let conn = &write.conn;
    let (ids, begun_at) = places(letters.iter().map(|leaving| leaving.letter));
    let kept_in: Vec<&str> = letters.iter().map(|leaving| leaving.outlet.place().name()).collect();
    let by = clean(removal.by);
    let grouped_by = regroup::settled_revision(conn).await?;
    let (record, letters) = (record(), throw_away());
    let lives = copy("trash_lives", "lives", LIFE_COLUMNS);
    let attempts = copy("trash_attempts", "attempts", ATTEMPT_COLUMNS);
    let at = At(removal.at);
    let recorded: [Bind<'_>; 6] = [&ids, &begun_at, &kept_in, &at, &by, &removal.reason];
    let thrown_away: [Bind<'_>; 3] = [&ids, &begun_at, &grouped_by];
    let of_letters: [Bind<'_>; 1] = [&ids];
    tokio::try_join!(biased;
        conn.execute(&record, &recorded),
        conn.execute(&letters, &thrown_away),
        conn.execute(&lives, &of_letters),
        conn.execute(&attempts, &of_letters),
    )?;
    Ok(())
}

fn copy(into: &str, from: &str, columns: &str) -> String {
    format!("insert into {into} ({columns}) select {columns} from {from} where letter = any($1)")
}

/// The death that a source told last stands only while its message stays dead there.
async fn forget_deaths(conn: &Conn, letters: &[Leaving]) -> Result<(), StoreError> {
    let resolved = letters.iter().filter(|leaving| leaving.status == Status::Resolved);
    let (ids, begun_at) = places(resolved.map(|leaving| leaving.letter));
    if ids.is_empty() {
        return Ok(());
    }
    let left_source = left_source();
    let sql = format!(
        "update letter_keys k
            set death = null
           from dead_letter_queue l
          where (l.id, l.created_at) in (select letter, begun_at
                                           from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at))
            and k.id = l.id
            and k.death is not null
            and {left_source}"
    );
    conn.execute(&sql, &[&ids, &begun_at]).await?;
    Ok(())
}

/// What hangs on a letter and is named by it.
const HANGING: [&str; 5] = [
    "delete from attempts where letter = any($1)",
    "delete from lives where letter = any($1)",
    "delete from life_positions where letter = any($1)",
    "delete from body_words where letter = any($1)",
    "delete from claims where letter = any($1)",
];

/// Removes live letters with what hangs on them. Their hold is asked for once more by the statement that removes them.
async fn remove(conn: &Conn, letters: &[Leaving]) -> Result<Vec<(LetterId, Counted)>, StoreError> {
    let (ids, begun_at) = places(letters.iter().map(|leaving| leaving.letter));
    for sql in HANGING {
        conn.execute(sql, &[&ids]).await?;
    }
    let sql = format!(
        "delete from dead_letter_queue
          where {THESE}
            and held_at is null
        returning id, {COUNTED_COLUMNS}"
    );
    let removed = conn.query(&sql, &[&ids, &begun_at]).await?;
    if removed.len() != ids.len() {
        let count = ids.len();
        return Err(StoreError::Corrupt(format!("of {count} letters held still, {} went", removed.len())));
    }
    removed.iter().map(|row| Ok((LetterId::from_bytes(row.id(0)?), rows::counted(row, 1)?))).collect()
}

const BURY: &str = "
update letter_keys k
   set place = m.place, removal = m.removal, removed_status = m.status, removed_at = $5, removed_by = $6
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as m (letter, status, place, removal)
 where k.id = m.letter";

/// Writes down on the letters' keys who removed them, and when. What is archived was neither pruned nor deleted.
async fn bury(conn: &Conn, letters: &[Leaving], removal: &Removal<'_>) -> Result<(), StoreError> {
    let ids: Vec<Uid> = letters.iter().map(|leaving| Uid(*leaving.letter.bytes())).collect();
    let statuses: Vec<&str> = letters.iter().map(|leaving| leaving.status.name()).collect();
    let now_in: Vec<&str> = letters.iter().map(|leaving| leaving.outlet.place().name()).collect();
    let removals: Vec<Option<&str>> = letters
        .iter()
        .map(|leaving| match leaving.outlet {
            Outlet::Archived => None,
            Outlet::Deleted | Outlet::Gone => Some(removal.removal),
        })
        .collect();
    let by = clean(removal.by);
    conn.execute(BURY, &[&ids, &statuses, &now_in, &removals, &At(removal.at), &by]).await?;
    Ok(())
}

/// What hangs on a letter beside its content. What redrives made of it stays: it is their history too. A changed copy of
/// what is gone does not.
const PAST: [&str; 5] = [
    "delete from past_decisions where letter = any($1)",
    "delete from replays where letter = any($1)",
    "delete from edits where letter = any($1)",
    "delete from send_numbers where letter = any($1)",
    "delete from archive_rows where letter = any($1)",
];

/// Forgets what hangs on letters of which nothing is left that it could belong to.
async fn forget_past(conn: &Conn, letters: &[Uid]) -> Result<(), StoreError> {
    if !letters.is_empty() {
        for sql in PAST {
            conn.execute(sql, &[&letters]).await?;
        }
    }
    Ok(())
}

/// Drops the content of letters that wait in the trash.
pub(super) async fn drop_content(conn: &Conn, letters: &[Uid]) -> Result<(), StoreError> {
    conn.execute("delete from trash_attempts where letter = any($1)", &[&letters]).await?;
    conn.execute("delete from trash_lives where letter = any($1)", &[&letters]).await?;
    conn.execute("delete from trash where id = any($1)", &[&letters]).await?;
    Ok(())
}

fn put_back_sql() -> String {
    format!(
        "insert into dead_letter_queue ({SAME}, place, updated_at, retention_at, held_at, held_by, hold_reason)
         select {SAME}, $2::text, $3::timestamptz, $3::timestamptz,
                (select a.held_at from archive a where a.id = trash.id),
                (select a.held_by from archive a where a.id = trash.id),
                (select a.hold_reason from archive a where a.id = trash.id)
           from trash
          where id = any($1)"
    )
}

/// Copies a letter out of the trash, under the hold that the archive tells of. Its lives get new places in the order of capture, because what goes by those has
/// passed the old ones by.
pub(super) async fn put_back(write: &mut Write, letter: LetterId, at: Time) -> Result<(), StoreError> {
    let ids = [Uid(*letter.bytes())];
    let conn = &write.conn;
    conn.execute(&put_back_sql(), &[&ids.as_slice(), &Place::Live.name(), &At(at)]).await?;
    let lives = copy("lives", "trash_lives", LIFE_COLUMNS) + " returning life";
    let mut came: Vec<u32> = Vec::new();
    for row in conn.query(&lives, &[&ids.as_slice()]).await? {
        came.push(row.small(0)?);
    }
    conn.execute(&copy("attempts", "trash_attempts", ATTEMPT_COLUMNS), &[&ids.as_slice()]).await?;
    came.sort_unstable();
    write.told.lives.extend(came.into_iter().map(|life| (letter, life)));
    Ok(())
}

const ON_RECORD: &str = "
select since, source, queue, type, error_type, class, fingerprint, aggregate, status
  from archive
 where id = $1
   for update";

const DELETE_ON_RECORD: &str = "
update archive
   set place = $2, removed_at = $3, removed_by = $4, reason = $5
 where id = $1
   and held_at is null";

/// Deletes a letter of the archive by hand: inside the floor it can still be had back, beyond it only its tombstone
/// stays, and the bytes that stand in a file. Its key is held, and the machine lets it go.
pub(super) async fn delete_archived(
    write: &mut Write,
    letter: LetterId,
    status: Status,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let conn = &write.conn;
    let id = Uid(*letter.bytes());
    let missing = || StoreError::Corrupt(format!("letter {letter} is not where it should be kept"));
    let row = conn.query_opt(ON_RECORD, &[&id]).await?.ok_or_else(missing)?;
    let counted = rows::counted(&row, 1)?;
    let removal = Removal::by_hand(decision);
    let outlet = if is_inside(row.time(0)?, decision) { Outlet::Deleted } else { Outlet::Gone };
    let went = match outlet {
        Outlet::Archived | Outlet::Deleted => {
            let (place, by) = (Place::Deleted.name(), clean(removal.by));
            conn.execute(DELETE_ON_RECORD, &[&id, &place, &At(removal.at), &by, &removal.reason]).await?
        }
        Outlet::Gone => {
            drop_content(conn, &[id]).await?;
            forget_past(conn, &[id]).await?;
            conn.execute("delete from archive where id = $1 and held_at is null", &[&id]).await?
        }
    };
    if went != 1 {
        return Err(StoreError::Corrupt(format!("letter {letter} is held and was to be deleted")));
    }
    bury(conn, &[Leaving { letter, status, outlet }], &removal).await?;
    let incident = incidents_of(conn, &[(letter, counted)]).await?.remove(&letter);
    Ok(Carried { decided: Decided::Done, job: None, incident })
}

/// The life of a letter that can be had back.
pub(super) async fn life(conn: &Conn, letter: LetterId) -> Result<Option<u32>, StoreError> {
    let found = conn.query_opt("select life from archive where id = $1", &[&Uid(*letter.bytes())]).await?;
    found.map(|row| row.small(0)).transpose()
}

/// Letters that are away, as they were; for events that tell of them.
pub(super) async fn letters(conn: &Conn, ids: &[LetterId]) -> Result<HashMap<LetterId, Letter>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = format!(
        "select {LETTER_COLUMNS}
           from archive l
           join fingerprints f on f.fingerprint = l.fingerprint
          where l.id = any($1)"
    );
    let ids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    let found = conn.query(&sql, &[&ids]).await?;
    found.iter().map(|row| rows::letter(row).map(|letter| (letter.id, letter))).collect()
}

const TOMBSTONE: &str = "
select k.place, coalesce(a.status, k.removed_status), a.held_at is not null, a.id is not null
  from letter_keys k
  left join archive a on a.id = k.id
 where k.id = $1
   and k.place <> $2";

/// How a letter stands that is archived or deleted.
pub(super) async fn tombstone(conn: &Conn, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    let found = conn.query_opt(TOMBSTONE, &[&Uid(*letter.bytes()), &Place::Live.name()]).await?;
    let Some(row) = found else { return Ok(None) };
    let Some(status) = row.cell::<Option<&str>>(1)? else { return Ok(None) };
    Ok(Some(Standing {
        status: rows::status(status)?,
        place: rows::place(row.cell(0)?)?,
        held: row.cell(2)?,
        content_kept: row.cell(3)?,
    }))
}
