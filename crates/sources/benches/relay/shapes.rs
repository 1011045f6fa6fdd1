//! Rows for the relay, and how they are spread over aggregates.

use tokio_postgres::Client;

/// Rows of 1 MB for so many of 1 KiB.
const SMALL_FOR_EACH_LARGE: usize = 250;

/// How rows are spread over aggregates, and how large they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Ten rows of each aggregate.
    Tens,
    /// All rows of one aggregate.
    One,
    /// One row of each aggregate.
    Singles,
    /// As many aggregates as rows; the n-th has 1/n of what the first has.
    Zipf,
    /// Rows of 1 MB, one of each aggregate.
    Large,
}

impl Shape {
    pub fn name(self, rows: usize) -> String {
        match self {
            Shape::Tens => format!("{} aggregates × 10", rows / 10),
            Shape::One => format!("1 aggregate × {rows}"),
            Shape::Singles => format!("{rows} aggregates × 1"),
            Shape::Zipf => format!("Zipf over {rows} aggregates, {rows} rows"),
            Shape::Large => format!("{rows} rows of 1 MB"),
        }
    }

    /// How many rows there are of this shape where others have `rows`.
    pub fn rows(self, rows: usize) -> usize {
        if self == Shape::Large { (rows / SMALL_FOR_EACH_LARGE).max(1) } else { rows }
    }

    /// Fills the table with the rows of a shape, all of them pending.
    pub async fn fill(self, client: &Client, rows: usize) {
        let aggregate = match self {
            Shape::Tens => format!("(n % {})::text", rows / 10),
            Shape::One => "'hot'".to_owned(),
            Shape::Singles | Shape::Large => "n::text".to_owned(),
            Shape::Zipf => format!("floor(power({rows}, random()))::text"),
        };
        let text = match self {
            Shape::Large => "(select text from large_text)",
            Shape::Tens | Shape::One | Shape::Singles | Shape::Zipf => "repeat(md5(n::text), 30)",
        };
        let sql = format!(
            "truncate outbox;
             create table if not exists large_text as
                 select string_agg(md5(n::text), '') as text from generate_series(1, 32768) as n;
             select setseed(0.5);
             insert into outbox (event_type, aggregate_type, aggregate_id, payload)
             select 'OrderCreated', 'order', {aggregate}, jsonb_build_object('n', n, 'text', {text})
               from generate_series(1, {rows}) as n;
             vacuum analyze outbox;
             checkpoint"
        );
        for statement in sql.split(';') {
            client.batch_execute(statement).await.unwrap();
        }
    }
}
