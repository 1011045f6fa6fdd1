//! Operations whose caller went away while their lists were being frozen, and lists of refused ones: ended and dropped,
//! chunk by chunk.

use lazaret_core::limits;
use lazaret_core::time::Time;

use super::super::PostgresStore;
use super::super::cell::{At, Cells, Uid};
use super::super::writer::{Write, Writer};
use super::{COLUMNS, read, record};
use crate::StoreError;
use crate::decision::OperationState;
use crate::engine::redrives::plan::drop_overdue;
use crate::redrive::Overdue;

const IS_UNFROZEN: &str = "
select exists (select 1 from operations where state = $1 and opened_at < $2)
    or exists (select 1 from operations where left_over > 0)
    or exists (select 1
                 from redrives
                where state in ('planning', 'planned')
                  and state = 'planning'
                  and updated_at < $2)";

/// Ends operations that were opened before a time and never frozen, drops what is left of refused lists, and ends plans
/// that nobody works on any more. Asked for
/// every minute, so it is looked first: mostly there is none.
pub(in crate::postgres) async fn end_unfrozen(
    store: &PostgresStore,
    opened_before: Time,
) -> Result<u64, StoreError> {
    let is_any = store
        .readers
        .read(opened_before, |conn, asked| {
            Box::pin(async move {
                let freezing = OperationState::Freezing.name();
                conn.query_one(IS_UNFROZEN, &[&freezing, &At(*asked)]).await?.cell::<bool>(0)
            })
        })
        .await?;
    if !is_any {
        return Ok(0);
    }
    let ended =
        store.writer.write(1, opened_before, |write, asked| Box::pin(drop_unfrozen(write, *asked))).await?;
    drop_lists(&store.writer).await?;
    Ok(ended + drop_overdue(store, Overdue::Abandoned(opened_before)).await?)
}

fn drop_unfrozen_sql() -> String {
    format!(
        "update operations
            set state = $1, finished_at = $2, left_over = total
          where state = $3
            and opened_at < $2
        returning {COLUMNS}"
    )
}

/// Who freezes one now has committed its chunk before this is done.
async fn drop_unfrozen(write: &mut Write, opened_before: Time) -> Result<u64, StoreError> {
    let (refused, freezing) = (OperationState::Refused, OperationState::Freezing);
    let dropped = write
        .conn
        .query(&drop_unfrozen_sql(), &[&refused.name(), &At(opened_before), &freezing.name()])
        .await?;
    for row in &dropped {
        let operation = read(row)?;
        record(write, &operation, refused, operation.total).await?;
    }
    Ok(dropped.len() as u64)
}

/// Drops the lists of refused operations chunk by chunk: other writes come in between, and a caller that goes away
/// leaves the rest to the next one.
pub(in crate::postgres) async fn drop_lists(writer: &Writer) -> Result<(), StoreError> {
    let weight = limits::FREEZE_ROWS_PER_WRITE;
    while writer.write_long(weight, (), |write, ()| Box::pin(drop_chunk(write))).await? {}
    Ok(())
}

/// What somebody else drops now is theirs.
const LEFT_OVER: &str = "
select id
  from operations
 where left_over > 0
 order by opened_at, id
 limit 1
   for update skip locked";

const DROP_CHUNK: &str = "
delete from selections
 where operation = $1
   and ordinal <= (select min(ordinal) - 1 + $2 from selections where operation = $1)";

const DROPPED: &str = "
update operations
   set left_over = case when $2::bigint = 0 then 0 else left_over - $2 end
 where id = $1";

/// Drops a bounded part of a refused list; says whether there was one.
async fn drop_chunk(write: &mut Write) -> Result<bool, StoreError> {
    let Some(row) = write.conn.query_opt(LEFT_OVER, &[]).await? else { return Ok(false) };
    let id: Uid = row.cell(0)?;
    let dropped = write.conn.execute(DROP_CHUNK, &[&id, &(limits::FREEZE_ROWS_PER_WRITE as i64)]).await?;
    write.conn.execute(DROPPED, &[&id, &(dropped as i64)]).await?;
    Ok(true)
}
