//! A database as source and target of a copy.
//!
//! Servers hold a shared lock (`leader`), a copy an exclusive one: neither begins while the other is at work.

mod value;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use lazaret_core::id::LetterId;
use lazaret_postgres::place;
use tokio::sync::mpsc;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::cell::{Cells, Uid};
use super::conn::{AnswerLimit, Conn};
use crate::StoreError;
use crate::copy::{Batch, Batches, CopyStore, OWN_META, Piece, Plan, Positions, Schema, TABLES, Value};

#[async_trait]
impl CopyStore for PostgresStore {
    async fn copy_schema(&self) -> Result<Schema, StoreError> {
        self.readers.read((), |conn, ()| Box::pin(schema(conn))).await
    }

    fn copy_order(&self) -> Vec<&'static str> {
        TABLES.to_vec()
    }

    async fn first_filled(&self) -> Result<Option<&'static str>, StoreError> {
        self.readers.read((), |conn, ()| Box::pin(first_filled(conn))).await
    }

    async fn copy_out(&self, plan: Plan, out: mpsc::Sender<Piece>) -> Result<(), StoreError> {
        let conn = self.begin_copy("begin isolation level repeatable read, read only").await?;
        for (table, columns) in plan.iter() {
            if !send(&conn, table, columns, &out).await? {
                return Ok(());
            }
        }
        let sent = positions(&conn).await?;
        // The lock keeps servers out, but one that lost its connection before may have come back.
        if self.readers.read((), |conn, ()| Box::pin(positions(conn))).await? != sent {
            return Err(self.held("somebody who wrote to it while it was copied"));
        }
        conn.batch("commit").await?;
        conn.give_back();
        // Whoever went away knows why.
        out.send(Piece::End(sent)).await.ok();
        Ok(())
    }

    async fn copy_in(&self, mut pieces: mpsc::Receiver<Piece>) -> Result<bool, StoreError> {
        let mut target = Target { conn: self.begin_copy("begin").await?, merged: Vec::new() };
        while let Some(piece) = pieces.recv().await {
            match piece {
                Piece::Rows(batch) => target.add(self, batch).await?,
                Piece::End(positions) => {
                    target.finish(positions).await?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// How long each answer may take: a copy takes as long as it takes, and a table may be sorted before its first row comes.
const ANSWER_MAX: Duration = Duration::from_secs(600);

const LOCK: &str = "select pg_try_advisory_xact_lock(hashtextextended('lazaret copy', 0))";

impl PostgresStore {
    /// A transaction that takes as long as it takes, and has the store alone. Closing the connection undoes it.
    async fn begin_copy(&self, begin: &str) -> Result<Conn, StoreError> {
        let conn = Conn::of(&self.lanes).await?.within(AnswerLimit::of_each(ANSWER_MAX));
        conn.batch(&format!(
            "{begin}; set local statement_timeout to 0; set local idle_in_transaction_session_timeout to 0"
        ))
        .await?;
        if conn.query_one(LOCK, &[]).await?.cell(0)? {
            return Ok(conn);
        }
        Err(self.held("a server, or by another copy"))
    }

    fn held(&self, holder: &str) -> StoreError {
        let folder = PathBuf::from(place(&self.leader.address().config));
        StoreError::Held { folder, holder: holder.to_owned() }
    }
}

/// All tables and their columns, without partitions, and without months that are on their way to be dropped.
pub(super) const COLUMNS: &str = "
select c.relname::text, a.attname::text
  from pg_catalog.pg_class c
  join pg_catalog.pg_attribute a on a.attrelid = c.oid
 where c.relnamespace = 'lazaret'::regnamespace
   and c.relkind in ('r', 'p')
   and not c.relispartition
   and c.relname not like 'dead\\_letter\\_queue\\_%'
   and a.attnum > 0
   and not a.attisdropped";

async fn schema(conn: &Conn) -> Result<Schema, StoreError> {
    let mut schema = Schema::new();
    for row in conn.query(COLUMNS, &[]).await? {
        schema.entry(row.cell(0)?).or_default().insert(row.cell(1)?);
    }
    schema.entry("lives".into()).or_default().insert("position".into());
    Ok(schema)
}

async fn first_filled(conn: &Conn) -> Result<Option<&'static str>, StoreError> {
    for table in TABLES.into_iter().filter(|table| *table != "meta") {
        let sql = format!("select exists (select 1 from {table})");
        let rows = conn.ask(&sql, &Default::default()).await?;
        if rows.first().map_or(Ok(false), |row| row.cell(0))? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

const POSITIONS: &str = "
select events, audit, lives,
       coalesce(pg_sequence_last_value(pg_get_serial_sequence('archive', 'entry')::regclass), 0)
  from positions";

async fn positions(conn: &Conn) -> Result<Positions, StoreError> {
    let row = conn.query_one(POSITIONS, &[]).await?;
    Ok(Positions { events: row.cell(0)?, audit: row.cell(1)?, lives: row.cell(2)?, archive: row.cell(3)? })
}

fn listed(alias: &str, columns: &[String]) -> String {
    let columns: Vec<String> = columns.iter().map(|column| format!("{alias}\"{column}\"")).collect();
    columns.join(", ")
}

/// Sends the rows of one table; returns false if the receiver went away.
async fn send(
    conn: &Conn,
    table: &'static str,
    columns: &Arc<[String]>,
    out: &mpsc::Sender<Piece>,
) -> Result<bool, StoreError> {
    let sql = match table {
        // In the order of capture.
        "lives" => {
            let columns = listed("t.", columns).replace("t.\"position\"", "p.position");
            format!(
                "select {columns} from life_positions p join lives t on t.letter = p.letter and t.life = p.life
                  order by p.position"
            )
        }
        "meta" => format!("select {} from meta where key not in {OWN_META}", listed("", columns)),
        table => format!("select {} from {table}", listed("", columns)),
    };
    let mut rows = std::pin::pin!(conn.stream(&sql, &[]).await?);
    let mut batches = Batches::new(table, columns);
    while let Some(row) = rows.try_next().await? {
        let values = (0..columns.len()).map(|at| row.cell(at)).collect::<Result<_, _>>()?;
        if let Some(full) = batches.add(values)
            && out.send(full).await.is_err()
        {
            return Ok(false);
        }
    }
    Ok(out.send(batches.take()).await.is_ok())
}

/// The transaction that everything is stored in.
struct Target {
    conn: Conn,
    /// Incidents and those that took them over, which may come later.
    merged: Vec<(Uid, Uid)>,
}

impl Target {
    async fn add(&mut self, store: &PostgresStore, mut batch: Batch) -> Result<(), StoreError> {
        match batch.table {
            _ if batch.rows.is_empty() => Ok(()),
            "incidents" => {
                self.keep_merged(&mut batch)?;
                self.put(&batch).await
            }
            "lives" => self.add_lives(batch).await,
            "trash" => self.put(&value::with_words(&batch)?).await,
            "dead_letter_queue" => {
                let id = batch.index("id")?;
                let created_at = batch.index("created_at")?;
                let mut months = Vec::with_capacity(batch.rows.len());
                for row in &mut batch.rows {
                    // The partition of a letter is the month of its id.
                    let at = LetterId::from_bytes(uid(&row[id])?.0).at();
                    row[created_at] = Value::Integer(at.ms());
                    months.push(at);
                }
                store.months.ensure(&store.lanes, months.into_iter()).await?;
                self.put(&value::with_words(&batch)?).await
            }
            _ => self.put(&batch).await,
        }
    }

    fn keep_merged(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        let (id, merged_into) = (batch.index("id")?, batch.index("merged_into")?);
        for row in &mut batch.rows {
            match std::mem::replace(&mut row[merged_into], Value::Null) {
                Value::Null => {}
                other => self.merged.push((uid(&row[id])?, uid(&other)?)),
            }
        }
        Ok(())
    }

    /// Splits the positions off: they have a table of their own.
    async fn add_lives(&self, mut batch: Batch) -> Result<(), StoreError> {
        let position = batch.index("position")?;
        let (letter, life) = (batch.index("letter")?, batch.index("life")?);
        let mut positions = Batch {
            table: "life_positions",
            columns: ["position", "letter", "life"].map(str::to_owned).into(),
            rows: Vec::with_capacity(batch.rows.len()),
        };
        for row in &mut batch.rows {
            positions.rows.push(vec![row[position].clone(), row[letter].clone(), row[life].clone()]);
            row.remove(position);
        }
        let kept = batch.columns.iter().enumerate().filter(|(at, _)| *at != position);
        batch.columns = kept.map(|(_, column)| column.clone()).collect();
        self.put(&batch).await?;
        self.put(&positions).await
    }

    async fn put(&self, batch: &Batch) -> Result<(), StoreError> {
        let columns = listed("", &batch.columns);
        let types: Vec<Type> =
            self.conn.types(&format!("select {columns} from {} limit 0", batch.table)).await?;
        let copy = format!("copy {} ({columns}) from stdin (format binary)", batch.table);
        self.conn.copy_in(&copy, &types, &batch.rows).await
    }

    async fn finish(self, positions: Positions) -> Result<(), StoreError> {
        const MERGE: &str = "
            update incidents i
               set merged_into = m.into_id
              from unnest($1::uuid[], $2::uuid[]) as m (id, into_id)
             where i.id = m.id";
        const REACHED: &str = "update positions set events = $1, audit = $2, lives = $3";
        // Sequences are not undone with a transaction, and those of an empty store may be anywhere.
        const ENTRIES: &str = "
            select setval(pg_get_serial_sequence('archive', 'entry'), greatest($1::bigint, 1), $1::bigint > 0)";
        const JOBS: &str =
            "select setval(pg_get_serial_sequence('jobs', 'job'), (select max(job) from jobs))";
        const LATE: &str = "
            select setval(pg_get_serial_sequence('archive_attempts', 'late'), (select max(late) from archive_attempts))";
        const REFILL: &str = "
            insert into meta (key, value)
            values ('extracts', '00000000-0000-0000-0000-000000000000')
            on conflict (key) do update
               set value = excluded.value";
        let (ids, into): (Vec<Uid>, Vec<Uid>) = self.merged.into_iter().unzip();
        self.conn.execute(MERGE, &[&ids, &into]).await?;
        let Positions { events, audit, lives, archive } = positions;
        self.conn.execute(REACHED, &[&events, &audit, &lives]).await?;
        self.conn.execute(ENTRIES, &[&archive]).await?;
        self.conn.execute(JOBS, &[]).await?;
        self.conn.execute(LATE, &[]).await?;
        self.conn.execute(REFILL, &[]).await?;
        self.conn.batch("commit").await?;
        self.conn.give_back();
        Ok(())
    }
}

fn uid(value: &Value) -> Result<Uid, StoreError> {
    let wrong = || StoreError::Corrupt("an id that is to be copied is none".into());
    let Value::Bytes(bytes) = value else { return Err(wrong()) };
    Ok(Uid(bytes.as_slice().try_into().map_err(|_| wrong())?))
}
