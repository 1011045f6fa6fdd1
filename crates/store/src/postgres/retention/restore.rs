//! Letters that come back from the archive: out of the trash while they wait there, else out of the file that they were
//! written to and read from.
//!
//! A letter is put among the live ones and leaves the archive in one commit, while its key is held.

use std::sync::Arc;

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::{Action, Place, Refused, Standing};
use lazaret_core::time::Time;

use super::super::audit::{self, NewEntry};
use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::counters::Counted;
use super::super::events::{self, NewEvent};
use super::super::failure::{Kind, kind_of};
use super::super::holds;
use super::super::insert::{latest_of_key, lock_keys};
use super::super::jobs::follow::{follow, job_of, named_job, with_rows};
use super::super::regroup;
use super::super::rows::{self, COUNTED_COLUMNS};
use super::super::transfer::{self, Columns, Packed};
use super::super::trash::{Carried, RECORDED, drop_content, incidents_of, put_back, waits};
use super::super::verdicts::standing;
use super::super::writer::Write;
use super::super::{PostgresStore, off_thread};
use crate::StoreError;
use crate::archive::Entry;
use crate::decision::{Decided, Decision};
use crate::engine::archive::late;
use crate::failure::FailurePoint;
use crate::transfer::Import;

/// What the archive knows of a letter that may come back.
pub(in crate::postgres) struct OnRecord {
    pub entry: Entry,
    /// Whether its lives are in the trash; else they stand in a file.
    pub waiting: bool,
    pub life: u32,
    pub died_at: Time,
    pub ever_sent: bool,
    pub event_id: String,
    pub counted: Counted,
}

/// Looks at a letter in the archive; its row stands still until the commit.
pub(in crate::postgres) async fn look(conn: &Conn, letter: LetterId) -> Result<Option<OnRecord>, StoreError> {
    let sql = format!(
        "select entry, waiting, life, died_at, ever_sent, event_id, {COUNTED_COLUMNS}
           from archive
          where id = $1
            for update"
    );
    let Some(row) = conn.query_opt(&sql, &[&Uid(*letter.bytes())]).await? else { return Ok(None) };
    Ok(Some(OnRecord {
        entry: row.cell(0)?,
        waiting: row.cell(1)?,
        life: row.small(2)?,
        died_at: row.time(3)?,
        ever_sent: row.cell(4)?,
        event_id: row.cell(5)?,
        counted: rows::counted(&row, 6)?,
    }))
}

const KEY_OF: &str = "select key from letter_keys where id = $1";

/// A letter that may come back, whose key is held.
struct Coming {
    on_record: OnRecord,
    standing: Standing,
}

/// Holds the key of a letter that is to come back, and asks whether it may; else says what became of it.
async fn hold(
    write: &Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Result<Coming, Decided>, StoreError> {
    let Some(row) = write.conn.query_opt(KEY_OF, &[&Uid(*letter.bytes())]).await? else {
        return Ok(Err(Decided::Unknown));
    };
    let key = CaptureKey(row.bytes(0)?);
    lock_keys(&write.conn, &[&key]).await?;
    let on_record = look(&write.conn, letter).await?;
    let Some(standing) = standing(write, letter).await? else { return Ok(Err(Decided::Unknown)) };
    if decision.from.is_some_and(|from| from != standing.status) {
        return Ok(Err(refused(standing)));
    }
    if let Err(refused) = standing.after(Action::Restore) {
        return Ok(Err(Decided::Refused(refused)));
    }
    let Some(on_record) = on_record else {
        return Err(StoreError::Corrupt(format!("letter {letter} is not where it should be kept")));
    };
    if is_replaced(write, letter, &key, &on_record).await? {
        return Ok(Err(Decided::Replaced));
    }
    Ok(Ok(Coming { on_record, standing }))
}

fn refused(standing: Standing) -> Decided {
    Decided::Refused(Refused { action: Action::Restore, standing })
}

/// Whether another letter has taken the key since, or a job the id.
async fn is_replaced(
    write: &Write,
    letter: LetterId,
    key: &CaptureKey,
    on_record: &OnRecord,
) -> Result<bool, StoreError> {
    let taken = match latest_of_key(&write.conn, key).await? {
        Some((_, other, Place::Live | Place::Archived)) => other != letter,
        Some((_, _, Place::Deleted)) | None => false,
    };
    let named = named_job(&on_record.counted.source, &on_record.event_id, key);
    let named: Vec<JobId> = named.into_iter().collect();
    Ok(taken || !with_rows(&write.conn, &named).await?.is_empty())
}

const GROUPED_BY: &str = "select grouped_by from trash where id = $1";

/// Brings a letter back that waits in the trash, as it was, with its job if it waits for a decision. Its time of retention
/// begins again. One that stands in a file has to be read there first.
pub(in crate::postgres) async fn restore(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let coming = match hold(write, letter, decision).await? {
        Ok(coming) if coming.on_record.waiting => coming,
        Ok(coming) => return Ok(Carried::only(refused(coming.standing))),
        Err(decided) => return Ok(Carried::only(decided)),
    };
    let kept = write.conn.query_one(GROUPED_BY, &[&Uid(*letter.bytes())]).await?;
    let grouped_by: Option<String> = kept.cell(0)?;
    put_back(write, letter, decision.at).await?;
    write.failures.at(FailurePoint::Restore)?;
    leave_archive(write, letter).await?;
    regroup::catch_up(write, grouped_by.as_deref(), decision.at).await?;
    came_back(write, letter, coming.on_record.counted, decision.at).await
}

/// Counts a letter that is among the live ones again, and asks for its holds and its job.
async fn came_back(
    write: &mut Write,
    letter: LetterId,
    counted: Counted,
    at: Time,
) -> Result<Carried, StoreError> {
    holds::came_back(write, letter, at).await?;
    write.tally.at(at);
    write.tally.appear(&counted);
    if waits(counted.status) {
        follow(write, letter, at).await?;
    }
    let job = job_of(&write.conn, letter).await?;
    let incident = incidents_of(&write.conn, &[(letter, counted)]).await?.remove(&letter);
    Ok(Carried { decided: Decided::Done, job, incident })
}

const UNBURY: &str = "
update letter_keys
   set place = $2, removed_at = null, removed_by = null, removal = null, removed_status = null
 where id = $1";

/// Takes a letter off the record that stands among the live ones again. Older lives of it stay in their files.
pub(in crate::postgres) async fn leave_archive(
    write: &mut Write,
    letter: LetterId,
) -> Result<(), StoreError> {
    let id = Uid(*letter.bytes());
    drop_content(&write.conn, &[id]).await?;
    late::bring(write, letter).await?;
    write.conn.execute("delete from archive where id = $1", &[&id]).await?;
    write.conn.execute(UNBURY, &[&id, &Place::Live.name()]).await?;
    Ok(())
}

/// What the row of a live letter holds that its row in the archive does not.
#[derive(Default)]
pub(in crate::postgres) struct Revived<'a> {
    pub fingerprint: Option<&'a str>,
    pub words: String,
    pub original_event: Option<&'a str>,
    pub error_stack_trace: Option<&'a str>,
    pub error_context: Option<&'a str>,
    pub retry_history: Option<&'a str>,
}

fn revive_sql() -> String {
    format!(
        "insert into dead_letter_queue (id, {RECORDED}, held_at, held_by, hold_reason, place, updated_at, retention_at,
                fingerprint, words, original_event, error_stack_trace, error_context, retry_history)
         select id, {RECORDED}, held_at, held_by, hold_reason, $2::text, $3::timestamptz, $3::timestamptz,
                coalesce($4::text, fingerprint), array_to_tsvector(string_to_array($5::text, ' ')), $6::text::jsonb,
                $7::text, $8::text::jsonb, $9::text::jsonb
           from archive
          where id = $1"
    )
}

/// Makes the row of a live letter from what the archive says of it; its lives are in a file.
pub(in crate::postgres) async fn revive(
    conn: &Conn,
    letter: LetterId,
    with: &Revived<'_>,
    at: Time,
) -> Result<(), StoreError> {
    conn.execute(
        &revive_sql(),
        &[
            &Uid(*letter.bytes()),
            &Place::Live.name(),
            &At(at),
            &with.fingerprint,
            &with.words,
            &with.original_event,
            &with.error_stack_trace,
            &with.error_context,
            &with.retry_history,
        ],
    )
    .await?;
    Ok(())
}

/// A letter out of a file, packed, which archiving of it was read, and who wants it back.
type Asked = Arc<(Packed, Entry, Decision)>;

/// Brings a letter back from a file.
pub(super) async fn restore_from_file(
    store: &PostgresStore,
    letter: Import,
    entry: Entry,
    decision: Decision,
) -> Result<Decided, StoreError> {
    let packed = off_thread(|| Ok(vec![Packed::new(letter)?])).await?.pop();
    let nothing = || StoreError::Corrupt("a letter was packed and is not there".into());
    let asked = Arc::new((packed.ok_or_else(nothing)?, entry, decision));
    match try_from_file(store, &asked, Columns::All).await {
        Err(error) if kind_of(&error) == Kind::Value => try_from_file(store, &asked, Columns::Bare).await,
        // An empty month was taken away just now: it is made again.
        Err(error) if kind_of(&error) == Kind::NoMonth => try_from_file(store, &asked, Columns::All).await,
        result => result,
    }
}

async fn try_from_file(
    store: &PostgresStore,
    asked: &Asked,
    columns: Columns,
) -> Result<Decided, StoreError> {
    let letter = asked.0.letter().id;
    store.months.ensure(&store.lanes, std::iter::once(letter.at())).await?;
    let input = (Arc::clone(asked), columns);
    let restored = store.writer.write_of(letter, input, |write, (asked, columns)| {
        Box::pin(from_file(write, &asked.0, asked.1, &asked.2, *columns))
    });
    store.months.after(restored.await)
}

async fn from_file(
    write: &mut Write,
    packed: &Packed,
    entry: Entry,
    decision: &Decision,
    columns: Columns,
) -> Result<Decided, StoreError> {
    let letter = packed.letter().id;
    let Coming { on_record, standing } = match hold(write, letter, decision).await? {
        Ok(coming) => coming,
        Err(decided) => return Ok(decided),
    };
    if on_record.waiting || on_record.entry != entry {
        return Ok(refused(standing));
    }
    revive(&write.conn, letter, &packed.revived(columns)?, decision.at).await?;
    let counted = Counted { fingerprint: packed.fingerprint()?.to_owned(), ..on_record.counted };
    transfer::bring_lives(write, packed).await?;
    take_off_file(&write.conn, letter, on_record.life, packed).await?;
    write.failures.at(FailurePoint::Restore)?;
    leave_archive(write, letter).await?;
    let carried = came_back(write, letter, counted, decision.at).await?;
    tell(write, letter, decision, &carried)?;
    Ok(carried.decided)
}

/// The identities of attempts are those that they had: by these one that is told again is known.
const SAME_IDENTITIES: &str = "
update attempts a
   set identity = substring(r.attempts from (16 * (o.n - 1) + 1)::integer for 16)
  from (select string_agg(attempts, ''::bytea order by first_life) as attempts
          from archive_rows
         where letter = $1
           and first_life >= $2
           and last_life <= $3) r
 cross join lateral (select ordinal, row_number() over (order by ordinal) as n
                       from attempts
                      where letter = $1) o
 where a.letter = $1
   and a.ordinal = o.ordinal
   and length(r.attempts) = 16 * (select count(*) from attempts where letter = $1)";

const TAKE_OFF_FILE: &str = "
delete from archive_rows
 where letter = $1
   and first_life >= $2
   and last_life <= $3";

const LAST_IN_FILES: &str = "select coalesce(max(last_life), 0) from archive_rows where letter = $1";

/// Says of the lives that came back that they are in no file any more. All that are left there have to be older ones.
async fn take_off_file(conn: &Conn, letter: LetterId, last: u32, packed: &Packed) -> Result<(), StoreError> {
    let id = Uid(*letter.bytes());
    let lives = packed.lives();
    let first = lives.first().copied().unwrap_or(0);
    let whole = first >= 1 && lives.iter().copied().eq(first..=last);
    conn.execute(SAME_IDENTITIES, &[&id, &(first as i32), &(last as i32)]).await?;
    conn.execute(TAKE_OFF_FILE, &[&id, &(first as i32), &(last as i32)]).await?;
    let left = conn.query_one(LAST_IN_FILES, &[&id]).await?.small(0)?;
    if !whole || left + 1 != first {
        return Err(StoreError::Corrupt(format!(
            "letter {letter} has lives up to {last}, but a file gave lives {lives:?}"
        )));
    }
    Ok(())
}

fn tell(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
    carried: &Carried,
) -> Result<(), StoreError> {
    let event = NewEvent {
        at: decision.at,
        kind: decision.verb.event(),
        letter: Some(letter),
        incident: carried.incident,
        job: carried.job,
        actor: Some(&decision.actor.name),
        ..NewEvent::default()
    };
    events::add(write, &event)?;
    let entry = NewEntry {
        letter: Some(letter),
        reason: decision.reason.as_deref(),
        ..NewEntry::new(&decision.actor, decision.verb.name(), decision.at)
    };
    audit::add(write, &entry)
}
