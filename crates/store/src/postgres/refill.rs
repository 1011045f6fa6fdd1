//! Fills the copies for people who ask the database anew, of letters that were captured before these had their present
//! form, or copied from another store. Done once after an upgrade or a copy, a batch at a time.

use lazaret_core::attempt::Attempt;
use lazaret_core::id::LetterId;
use lazaret_core::limits;

use super::cell::{At, Cells, Uid};
use super::conn::Conn;
use super::extract::Extract;
use super::failure::{Kind, kind_of};
use super::insert::{chunks, column};
use super::writer::Write;
use super::{PostgresStore, off_thread, transfer};
use crate::StoreError;
use crate::transfer::Exported;

/// The copies of one life of a letter.
struct Refilled {
    id: LetterId,
    life: u32,
    extract: Extract,
}

/// Fills the copies of the next letters; false if there is nothing left to do.
pub(super) async fn refill(store: &PostgresStore, limit: usize) -> Result<bool, StoreError> {
    let found = store.readers.snapshot(limit, |conn, limit| Box::pin(page(conn, *limit))).await?;
    let Some((last, letters)) = found else { return Ok(false) };
    let refilled = off_thread(move || Ok(letters.iter().filter_map(refilled).collect::<Vec<_>>())).await?;
    let write = |refilled: Vec<Refilled>| {
        let weight = refilled.len().clamp(1, limits::COMMIT_LETTERS_MAX);
        let input = (refilled, last);
        store.writer.write_long(weight, input, |write, asked| Box::pin(put(write, &asked.0, asked.1)))
    };
    match write(refilled).await {
        // What PostgreSQL does not hold is left as it is: these are only copies.
        Err(error) if kind_of(&error) == Kind::Value => {
            tracing::warn!(%error, "copies of some letters keep their old form");
            write(Vec::new()).await?;
        }
        result => result?,
    }
    Ok(last.is_some())
}

const PROGRESS: &str = "select value::uuid from meta where key = 'extracts'";

const PAGE: &str = "
select id
  from dead_letter_queue
 where id > $1
 order by id
 limit $2";

/// The next letters and the last of them, which is none behind the last page. Nothing if all is done.
async fn page(conn: &Conn, limit: usize) -> Result<Option<(Option<LetterId>, Vec<Exported>)>, StoreError> {
    let Some(progress) = conn.query_opt(PROGRESS, &[]).await? else { return Ok(None) };
    let after = Uid(progress.id(0)?);
    let rows = conn.query(PAGE, &[&after, &(limit as i64)]).await?;
    let ids: Vec<LetterId> =
        rows.iter().map(|row| Ok(LetterId::from_bytes(row.id(0)?))).collect::<Result<_, StoreError>>()?;
    let last = ids.last().copied().filter(|_| ids.len() == limit);
    Ok(Some((last, transfer::export(conn, &ids).await?)))
}

fn refilled(exported: &Exported) -> Option<Refilled> {
    let letter = &exported.letter;
    let (life, envelope) = exported.lives.iter().find(|(life, _)| life.life == letter.life)?;
    let fatal = exported.attempts.iter().find(|told| told.ordinal == life.fatal);
    let attempts: Vec<&Attempt> = exported.attempts.iter().map(|told| &told.attempt).collect();
    let parts = letter.event_parts(envelope, life.reported.as_deref());
    let extract = Extract::of_parts(parts, fatal.map(|told| &told.attempt.error), &attempts);
    Some(Refilled { id: letter.id, life: life.life, extract })
}

/// A letter that died again meanwhile has new copies already.
const PUT: &str = "
update dead_letter_queue l
   set original_event = e.original_event::jsonb, retry_history = e.retry_history::jsonb,
       error_stack_trace = e.error_stack_trace, error_context = e.error_context::jsonb
  from unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[])
    as e (id, created_at, life, original_event, retry_history, error_stack_trace, error_context)
 where l.id = e.id
   and l.created_at = e.created_at
   and l.life = e.life";

const ADVANCE: &str = "update meta set value = $1::uuid::text where key = 'extracts'";

async fn put(write: &Write, refilled: &[Refilled], last: Option<LetterId>) -> Result<(), StoreError> {
    for rows in chunks(refilled, |row| row.extract.bytes()) {
        write
            .conn
            .execute(
                PUT,
                &[
                    &column(rows, |row| Uid(*row.id.bytes())),
                    &column(rows, |row| At(row.id.at())),
                    &column(rows, |row| row.life as i32),
                    &column(rows, |row| row.extract.original_event.as_deref()),
                    &column(rows, |row| row.extract.retry_history.as_deref()),
                    &column(rows, |row| row.extract.error_stack_trace.as_deref()),
                    &column(rows, |row| row.extract.error_context.as_deref()),
                ],
            )
            .await?;
    }
    match last {
        Some(last) => write.conn.execute(ADVANCE, &[&Uid(*last.bytes())]).await?,
        None => write.conn.execute("delete from meta where key = 'extracts'", &[]).await?,
    };
    Ok(())
}
