//! Deleted letters: out of every table of live letters at once, and back as they were while their content is kept.
//!
//! Lives that come back get new places in the order of capture, because what goes by those has passed the old ones by.
//! A letter is held still while it is deleted, and its key while it is restored: whoever captures under that key, or
//! enqueues the job again, waits for it.

use std::collections::{HashMap, HashSet};

use lazaret_core::id::{IncidentId, JobId, LetterId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::{Action, Place, Standing, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::cell::{At, Cells, Uid, clean};
use super::conn::Conn;
use super::counters::{Counted, Flow};
use super::incidents;
use super::insert::{hold_keys, latest_of_key};
use super::jobs::follow::{Jobs, follow, job_of, named_job, with_rows, withdraw};
use super::regroup;
use super::rows::{self, COUNTED_COLUMNS, LETTER_COLUMNS};
use super::verdicts::standing;
use super::writer::Write;
use crate::StoreError;
use crate::decision::{Decided, Decision};
use crate::trash::Trashed;

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

/// Takes letters out of all lists, with their jobs; returns their incidents. Inside the floor their content goes to the
/// trash. The letters are held still, and the machine lets them go.
pub(super) async fn delete_held(
    write: &mut Write,
    letters: &[(LetterId, Standing)],
    jobs: &Jobs,
    decision: &Decision,
) -> Result<HashMap<LetterId, IncidentId>, StoreError> {
    if letters.is_empty() {
        return Ok(HashMap::new());
    }
    withdraw(write, letters.iter().filter_map(|(letter, _)| jobs.get(letter).copied())).await?;
    let ids: Vec<Uid> = letters.iter().map(|(letter, _)| Uid(*letter.bytes())).collect();
    let begun_at: Vec<At> = letters.iter().map(|(letter, _)| At(letter.at())).collect();
    let kept = keep(write, &ids, &begun_at, decision).await?;
    let dropped: Vec<Uid> = ids.iter().filter(|id| !kept.contains(&id.0)).copied().collect();
    forget_past(write, &dropped).await?;
    let removed = remove(write, &ids, &begun_at).await?;
    bury(write, letters, decision).await?;
    write.tally.at(decision.at);
    for (_, counted) in &removed {
        write.tally.vanish(counted);
        if waits(counted.status) {
            write.tally.flow(decision.at.minute(), Flow::Departed, counted);
        }
    }
    incidents_of(&write.conn, &removed).await
}

/// Whether a letter of this status goes out when it is deleted; the others went when they were settled.
const fn waits(status: Status) -> bool {
    match status {
        Status::Pending | Status::Reprocessing => true,
        Status::Resolved | Status::Discarded => false,
    }
}

async fn incidents_of(
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

/// The columns of a letter that are the same in the trash; `place`, `updated_at` and `retention_at` are not.
const SAME: &str = "id, event_id, subscriber_id, original_event, error_message, error_type, error_code,
error_stack_trace, error_context, retry_history, retry_count, max_retries, status, resolution_timestamp,
resolution_strategy, resolved_by, resolution_notes, created_at, source, tenant, type, queue, aggregate, schema_version,
class, fingerprint, life, sent_at, ever_sent, held_at, held_by, hold_reason, previous, died_at, words";

const LIFE_COLUMNS: &str =
    "letter, life, captured_at, died_at, class, fingerprint, content_type, headers, body,
body_bytes, sha256, fatal, retry_count, max_retries, redrive, reported";

const ATTEMPT_COLUMNS: &str =
    "letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail";

/// Letters by their ids and when they were created: each is one row of one month.
const THESE: &str = "(id, created_at) in (select letter, begun_at
                                            from unnest($1::uuid[], $2::timestamptz[]) as m (letter, begun_at))";

/// Counted from the later of the last capture and the last death.
const KEPT_UNTIL: &str = "
greatest(created_at, died_at, (select v.captured_at
                                 from lives v
                                where v.letter = dead_letter_queue.id
                                  and v.life = dead_letter_queue.life)) + $6::bigint * interval '1 millisecond'";

/// Copies letters into the trash that are inside the floor; returns which.
async fn keep(
    write: &Write,
    ids: &[Uid],
    begun_at: &[At],
    decision: &Decision,
) -> Result<HashSet<[u8; 16]>, StoreError> {
    let conn = &write.conn;
    let sql = format!(
        "insert into trash ({SAME}, place, updated_at, retention_at, deleted_at, deleted_by, kept_until, grouped_by)
         select {SAME}, $3::text, $4::timestamptz, retention_at, $4::timestamptz, $5::text, {KEPT_UNTIL}, $7::text
           from dead_letter_queue
          where {THESE}
            and {KEPT_UNTIL} > $4::timestamptz
        returning id"
    );
    let grouped_by = regroup::settled_revision(conn).await?;
    let (place, by) = (Place::Deleted.name(), clean(&decision.actor.name));
    let kept = conn
        .query(
            &sql,
            &[&ids, &begun_at, &place, &At(decision.at), &by, &limits::RETENTION_FLOOR_MS, &grouped_by],
        )
        .await?;
    let kept: HashSet<[u8; 16]> = kept.iter().map(|row| row.id(0)).collect::<Result<_, _>>()?;
    let ids: Vec<Uid> = kept.iter().copied().map(Uid).collect();
    if !ids.is_empty() {
        let lives = copy("trash_lives", "lives", LIFE_COLUMNS);
        let attempts = copy("trash_attempts", "attempts", ATTEMPT_COLUMNS);
        let (ids_of_lives, ids_of_attempts) = ([&ids as _], [&ids as _]);
        tokio::try_join!(biased; conn.execute(&lives, &ids_of_lives), conn.execute(&attempts, &ids_of_attempts))?;
    }
    Ok(kept)
}

fn copy(into: &str, from: &str, columns: &str) -> String {
    format!("insert into {into} ({columns}) select {columns} from {from} where letter = any($1)")
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
async fn remove(write: &Write, ids: &[Uid], begun_at: &[At]) -> Result<Vec<(LetterId, Counted)>, StoreError> {
    for sql in HANGING {
        write.conn.execute(sql, &[&ids]).await?;
    }
    let sql = format!(
        "delete from dead_letter_queue
          where {THESE}
            and held_at is null
        returning id, {COUNTED_COLUMNS}"
    );
    let removed = write.conn.query(&sql, &[&ids, &begun_at]).await?;
    if removed.len() != ids.len() {
        let count = ids.len();
        return Err(StoreError::Corrupt(format!("of {count} letters held still, {} went", removed.len())));
    }
    removed.iter().map(|row| Ok((LetterId::from_bytes(row.id(0)?), rows::counted(row, 1)?))).collect()
}

const BURY: &str = "
update letter_keys k
   set place = $3, removed_at = $4, removed_by = $5, removal = 'deleted', removed_status = m.status
  from unnest($1::uuid[], $2::text[]) as m (letter, status)
 where k.id = m.letter";

/// Writes down on the letters' keys who removed them, and when.
async fn bury(
    write: &Write,
    letters: &[(LetterId, Standing)],
    decision: &Decision,
) -> Result<(), StoreError> {
    let ids: Vec<Uid> = letters.iter().map(|(letter, _)| Uid(*letter.bytes())).collect();
    let statuses: Vec<&str> = letters.iter().map(|(_, standing)| standing.status.name()).collect();
    let (place, by) = (Place::Deleted.name(), clean(&decision.actor.name));
    write.conn.execute(BURY, &[&ids, &statuses, &place, &At(decision.at), &by]).await?;
    Ok(())
}

/// Forgets what hangs on letters beside their content: nothing is left that it could belong to.
async fn forget_past(write: &Write, letters: &[Uid]) -> Result<(), StoreError> {
    if !letters.is_empty() {
        write.conn.execute("delete from past_decisions where letter = any($1)", &[&letters]).await?;
        write.conn.execute("delete from replays where letter = any($1)", &[&letters]).await?;
        // What redrives made of it stays: it is their history too. A changed copy of what is gone does not.
        write.conn.execute("delete from edits where letter = any($1)", &[&letters]).await?;
        write.conn.execute("delete from send_numbers where letter = any($1)", &[&letters]).await?;
    }
    Ok(())
}

/// A letter in the trash that may come back.
struct Kept {
    event_id: String,
    grouped_by: Option<String>,
    counted: Counted,
}

/// Looks at a letter in the trash; it stays there until the commit.
async fn kept(write: &Write, letter: LetterId) -> Result<Option<Kept>, StoreError> {
    let sql = format!("select event_id, grouped_by, {COUNTED_COLUMNS} from trash where id = $1 for update");
    let Some(row) = write.conn.query_opt(&sql, &[&Uid(*letter.bytes())]).await? else { return Ok(None) };
    Ok(Some(Kept { event_id: row.cell(0)?, grouped_by: row.cell(1)?, counted: rows::counted(&row, 2)? }))
}

/// The life of a letter in the trash.
pub(super) async fn life(conn: &Conn, letter: LetterId) -> Result<Option<u32>, StoreError> {
    let found = conn.query_opt("select life from trash where id = $1", &[&Uid(*letter.bytes())]).await?;
    found.map(|row| row.small(0)).transpose()
}

const KEY_OF: &str = "select key from letter_keys where id = $1";

const UNBURY: &str = "
update letter_keys
   set place = $2, removed_at = null, removed_by = null, removal = null, removed_status = null
 where id = $1";

/// Brings a deleted letter back as it was, with its job if it waits. Its time of retention begins again.
pub(super) async fn restore(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let id = Uid(*letter.bytes());
    let Some(row) = write.conn.query_opt(KEY_OF, &[&id]).await? else {
        return Ok(Carried::only(Decided::Unknown));
    };
    let key = CaptureKey(row.bytes(0)?);
    hold_keys(&write.conn, &[&key]).await?;
    let kept = kept(write, letter).await?;
    let Some(standing) = standing(write, letter).await? else { return Ok(Carried::only(Decided::Unknown)) };
    if let Err(refused) = standing.after(Action::Restore) {
        return Ok(Carried::only(Decided::Refused(refused)));
    }
    let Some(kept) = kept else {
        return Err(StoreError::Corrupt(format!("letter {letter} is not where it should be kept")));
    };
    if is_replaced(write, &key, &kept).await? {
        return Ok(Carried::only(Decided::Replaced));
    }
    put_back(write, letter, decision.at).await?;
    write.conn.execute(UNBURY, &[&id, &Place::Live.name()]).await?;
    regroup::catch_up(write, kept.grouped_by.as_deref(), decision.at).await?;
    write.tally.at(decision.at);
    write.tally.appear(&kept.counted);
    if waits(kept.counted.status) {
        follow(write, letter, decision.at).await?;
    }
    let job = job_of(&write.conn, letter).await?;
    let incident = incidents_of(&write.conn, &[(letter, kept.counted)]).await?.remove(&letter);
    Ok(Carried { decided: Decided::Done, job, incident })
}

/// Whether another letter has taken the key since, or a job the id.
async fn is_replaced(write: &Write, key: &CaptureKey, kept: &Kept) -> Result<bool, StoreError> {
    let taken = match latest_of_key(&write.conn, key).await? {
        Some((_, _, Place::Live | Place::Archived)) => true,
        Some((_, _, Place::Deleted)) | None => false,
    };
    let named: Vec<JobId> = named_job(&kept.counted.source, &kept.event_id, key).into_iter().collect();
    Ok(taken || !with_rows(&write.conn, &named).await?.is_empty())
}

/// Copies a letter out of the trash.
async fn put_back(write: &mut Write, letter: LetterId, at: Time) -> Result<(), StoreError> {
    let ids = [Uid(*letter.bytes())];
    let conn = &write.conn;
    let sql = format!(
        "insert into dead_letter_queue ({SAME}, place, updated_at, retention_at)
         select {SAME}, $2::text, $3::timestamptz, $3::timestamptz
           from trash
          where id = any($1)"
    );
    conn.execute(&sql, &[&ids.as_slice(), &Place::Live.name(), &At(at)]).await?;
    let lives = copy("lives", "trash_lives", LIFE_COLUMNS) + " order by life returning life";
    for row in conn.query(&lives, &[&ids.as_slice()]).await? {
        write.told.lives.push((letter, row.small(0)?));
    }
    conn.execute(&copy("attempts", "trash_attempts", ATTEMPT_COLUMNS), &[&ids.as_slice()]).await?;
    drop_content(conn, &ids).await
}

async fn drop_content(conn: &Conn, letters: &[Uid]) -> Result<(), StoreError> {
    conn.execute("delete from trash_attempts where letter = any($1)", &[&letters]).await?;
    conn.execute("delete from trash_lives where letter = any($1)", &[&letters]).await?;
    conn.execute("delete from trash where id = any($1)", &[&letters]).await?;
    Ok(())
}

const PAGE: &str = "
select id, source, queue, type, event_id, error_type, error_message, status, died_at, deleted_at, deleted_by, kept_until
  from trash
 where (deleted_at, id) < ($1, $2)
 order by deleted_at desc, id desc
 limit $3";

/// The last deleted first.
pub(super) async fn page(
    conn: &Conn,
    before: Option<(Time, LetterId)>,
    limit: usize,
) -> Result<Vec<Trashed>, StoreError> {
    let (at, id) = before.map_or((Time::from_ms(i64::MAX), [u8::MAX; 16]), |(at, id)| (at, *id.bytes()));
    let mut page = Vec::new();
    for row in conn.query(PAGE, &[&At(at), &Uid(id), &(limit as i64)]).await? {
        page.push(Trashed {
            letter: LetterId::from_bytes(row.id(0)?),
            source: row.cell(1)?,
            queue: row.cell(2)?,
            letter_type: row.cell(3)?,
            event_id: row.cell(4)?,
            error_type: row.cell(5)?,
            error_message: row.cell(6)?,
            status: rows::status(row.cell(7)?)?,
            died_at: row.time(8)?,
            deleted_at: row.time(9)?,
            deleted_by: row.cell(10)?,
            kept_until: row.time(11)?,
        });
    }
    Ok(page)
}

/// Letters in the trash, as they were; for events that tell of them.
pub(super) async fn letters(conn: &Conn, ids: &[LetterId]) -> Result<HashMap<LetterId, Letter>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = format!(
        "select {LETTER_COLUMNS}
           from trash l
           join fingerprints f on f.fingerprint = l.fingerprint
          where l.id = any($1)"
    );
    let ids: Vec<Uid> = ids.iter().map(|id| Uid(*id.bytes())).collect();
    let found = conn.query(&sql, &[&ids]).await?;
    found.iter().map(|row| rows::letter(row).map(|letter| (letter.id, letter))).collect()
}

const IS_OVERDUE: &str = "select exists (select 1 from trash where kept_until <= $1)";

/// Whether there is any. Asked first by a reader: mostly there is none.
pub(super) async fn is_overdue(conn: &Conn, now: Time) -> Result<bool, StoreError> {
    conn.query_one(IS_OVERDUE, &[&At(now)]).await?.cell(0)
}

/// What somebody else is restoring or dropping now is theirs.
const OVERDUE: &str = "
select id
  from (select id, bytes, sum(bytes) over (rows unbounded preceding) as so_far
          from (select t.id,
                       (select coalesce(sum(octet_length(v.body)), 0) from trash_lives v where v.letter = t.id)
                       + (select coalesce(sum(octet_length(a.detail)), 0) from trash_attempts a where a.letter = t.id)
                       as bytes
                  from trash t
                 where t.kept_until <= $1
                 order by t.kept_until, t.id
                 limit $2
                   for update skip locked) as overdue) as weighed
 where so_far - bytes < $3::bigint";

/// Drops the content of letters that need not be kept any longer; of large ones only a few.
pub(super) async fn empty(write: &mut Write, now: Time, limit: usize) -> Result<u64, StoreError> {
    let overdue = write
        .conn
        .query(OVERDUE, &[&At(now), &(limit as i64), &(limits::CONTENT_BYTES_DROPPED_PER_WRITE as i64)])
        .await?;
    let ids: Vec<Uid> = overdue.iter().map(|row| row.cell(0)).collect::<Result<_, _>>()?;
    if !ids.is_empty() {
        drop_content(&write.conn, &ids).await?;
        forget_past(write, &ids).await?;
    }
    Ok(ids.len() as u64)
}

const TOMBSTONE: &str = "
select k.removed_status, exists (select 1 from trash t where t.id = k.id)
  from letter_keys k
 where k.id = $1
   and k.place = $2";

/// How a deleted letter stands.
pub(super) async fn tombstone(conn: &Conn, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    let found = conn.query_opt(TOMBSTONE, &[&Uid(*letter.bytes()), &Place::Deleted.name()]).await?;
    let Some(row) = found else { return Ok(None) };
    let (Some(status), content_kept) = (row.cell::<Option<&str>>(0)?, row.cell(1)?) else { return Ok(None) };
    let status = rows::status(status)?;
    Ok(Some(Standing { status, place: Place::Deleted, held: false, content_kept }))
}
