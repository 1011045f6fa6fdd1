//! What the database says about a table: its columns, their types, its indexes and triggers.

use tokio_postgres::Row;

use super::db::{Db, cell};
use super::name::{TableName, quoted};
use crate::SourceError;

/// A table as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Catalogue {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// `r` for a table, `p` for one with partitions.
    pub kind: String,
    /// Whether policies may hide rows from us.
    pub row_security: bool,
    pub columns: Vec<Column>,
    pub indexes: Vec<Index>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub number: i16,
    pub name: String,
    /// The type without domains, as the catalogue calls it: `int8`, `varchar`.
    pub base: String,
    /// The type as it is written in a cast.
    pub cast: String,
    /// Characters that it holds at most.
    pub chars_max: Option<usize>,
    pub not_null: bool,
    /// Whether the database makes the value from others.
    pub generated: bool,
    /// Whether a value of our own has to insist (`generated always as identity`).
    pub identity_always: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Index {
    pub unique: bool,
    /// The columns by number; zero stands for an expression.
    pub columns: Vec<i16>,
    /// The condition of rows that are in it.
    pub condition: Option<String>,
}

const TABLE: &str = "
    select c.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relrowsecurity
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where c.oid = pg_catalog.to_regclass($1::text)";

const COLUMNS: &str = "
    select a.attnum, a.attname::text, b.typname::text, pg_catalog.format_type(a.atttypid, -1),
           coalesce(nullif(a.atttypmod, -1), nullif(t.typtypmod, -1)), a.attnotnull,
           a.attgenerated <> '', a.attidentity = 'a', b.typtype::text
      from pg_catalog.pg_attribute a
      join pg_catalog.pg_type t on t.oid = a.atttypid
      join pg_catalog.pg_type b on b.oid = case t.typtype when 'd' then t.typbasetype else t.oid end
     where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
     order by a.attnum";

const INDEXES: &str = "
    select i.indisunique, string_to_array(i.indkey::text, ' ')::int2[], pg_catalog.pg_get_expr(i.indpred, i.indrelid)
      from pg_catalog.pg_index i
     where i.indrelid = $1 and i.indisvalid
     order by i.indexrelid";

impl Catalogue {
    /// Looks a table up.
    pub async fn read(db: &Db, table: &TableName) -> Result<Catalogue, SourceError> {
        const DOING: &str = "looking at the table";
        let rows = db.query(DOING, TABLE, &[&table.sql()]).await?;
        let Some(row) = rows.first() else {
            return Err(SourceError::Unfit(format!("there is no table {table} in {}", db.place())));
        };
        let oid: u32 = cell(row, 0)?;
        let columns = db.query(DOING, COLUMNS, &[&oid]).await?;
        let indexes = db.query(DOING, INDEXES, &[&oid]).await?;
        Ok(Catalogue {
            oid,
            schema: cell(row, 1)?,
            name: cell(row, 2)?,
            kind: cell(row, 3)?,
            row_security: cell(row, 4)?,
            columns: columns.iter().map(column).collect::<Result<_, _>>()?,
            indexes: indexes.iter().map(index).collect::<Result<_, _>>()?,
        })
    }

    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Nothing for zero, which stands for an expression in an index.
    pub fn by_number(&self, number: i16) -> Option<&Column> {
        self.columns.iter().find(|column| column.number == number)
    }

    /// The table as it stands in a statement.
    pub fn sql(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// Whether there is an index that begins with a column, or was made for some of its values.
    pub fn is_indexed_by(&self, column: &Column) -> bool {
        self.indexes.iter().any(|index| {
            let mentions = |condition: &String| {
                condition.contains(&quoted(&column.name))
                    || condition
                        .split(|c: char| !c.is_alphanumeric() && c != '_')
                        .any(|word| word == column.name)
            };
            index.columns.first() == Some(&column.number) || index.condition.as_ref().is_some_and(mentions)
        })
    }
}

fn column(row: &Row) -> Result<Column, SourceError> {
    let base: String = cell(row, 2)?;
    let kind: String = cell(row, 8)?;
    let modifier: Option<i32> = cell(row, 4)?;
    // The modifier of a text is its length and four; other types keep other things there.
    let chars_max = match base.as_str() {
        "varchar" | "bpchar" => modifier.and_then(|modifier| usize::try_from(modifier - 4).ok()),
        _ => None,
    };
    Ok(Column {
        number: cell(row, 0)?,
        name: cell(row, 1)?,
        base: if kind == "e" { "enum".to_owned() } else { base },
        cast: cell(row, 3)?,
        chars_max,
        not_null: cell(row, 5)?,
        generated: cell(row, 6)?,
        identity_always: cell(row, 7)?,
    })
}

fn index(row: &Row) -> Result<Index, SourceError> {
    Ok(Index { unique: cell(row, 0)?, columns: cell(row, 1)?, condition: cell(row, 2)? })
}
