//! Every statement of a relay, composed once. Values are bound.
//!
//! What a claim costs does not depend on how much one aggregate holds: a claim visits the heads of aggregates, the oldest
//! event of each that is not processed, by skipping through an index, and takes the events that follow a head in order.
//! Without that index one pass over all unprocessed events finds the heads.

use crate::outbox::catalogue::Index;
use crate::outbox::config::{Order, RelayConfig};
use crate::outbox::name::quoted;
use crate::outbox::statements::{milliseconds, payload};
use crate::outbox::table::Table;

/// How many bytes a payload may have to be returned by the claim itself; a larger one is fetched when it is delivered.
pub(super) const INLINE_BYTES_MAX: u32 = 16 * 1024;

/// PostgreSQL compresses and moves out larger values than this: only their true length is worth computing.
const PLAIN_BYTES_MAX: u32 = 2_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::outbox) struct RelayStatements {
    /// How rows that belong to an aggregate are found; nothing if no aggregate is mapped.
    pub ordered: Option<Ordered>,
    /// Claims up to `$1` due rows of no aggregate for `$2` milliseconds, without the rows `$3`.
    pub claim_free: String,
    /// The keys of what `claim_free` would claim: `$1` limit, `$2` keys to leave out.
    pub free: String,
    /// Claims due rows by key (`$1`) for `$2` milliseconds.
    pub claim: String,
    /// The payload of one row, by key (`$1`).
    pub body: String,
    /// Rows whose claim expired: `$1` limit, `$2` keys to leave out. Keys, claims, counts, own limits.
    pub expired: String,
    /// Settles rows as delivered: `$1` keys, `$2` claims.
    pub delivered: String,
    /// Settles rows as due again: `$1` keys, `$2` claims, `$3` counts, `$4` errors, `$5` delays.
    pub retried: String,
    /// Settles rows as dead: `$1` keys, `$2` claims, `$3` counts, `$4` errors.
    pub died: String,
    /// Gives rows back without a try: `$1` keys, `$2` claims, `$3` delays.
    pub released: String,
    /// How many milliseconds from now the next row is due, if that is within a day.
    pub next_due: String,
}

/// How the rows of aggregates are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::outbox) enum Ordered {
    /// By skipping through an index that holds the unprocessed rows of each aggregate in order.
    ByIndex {
        /// Visits up to `$1` aggregates behind aggregate (`$2`, `$3`); without one it begins with the first. Gives id,
        /// type and whether the head is due, for each. `$4` are keys that cannot be claimed.
        heads: String,
        /// Rows that may be claimed of the aggregates `$1` of the types `$2`: up to `$3` of each, in order. `$4` are keys
        /// that cannot be claimed. Gives key, aggregate id, type and place in its aggregate.
        lanes: String,
    },
    /// By one pass over all unprocessed rows: `$1` limit, `$2` rows of each aggregate, `$3` keys that cannot be claimed.
    /// Gives what `lanes` gives.
    ByPass { lanes: String },
}

impl RelayStatements {
    pub fn of(table: &Table, relay: &RelayConfig) -> Option<RelayStatements> {
        let Table { sql, columns, statuses, key, .. } = table;
        let status = &columns.status;
        let (pending, processing) = (&statuses.pending, &statuses.processing);
        let next = columns.next_attempt_at.as_ref()?;
        let now = table.now(next);
        let lease = format!("{next} = {now} + $2::int8 * interval '1 millisecond'");
        let (key_text, keys) = (key.text("o."), key.list("o."));
        let no_aggregate = match &columns.aggregate_id {
            Some(aggregate) => format!("and o.{aggregate} is null"),
            None => String::new(),
        };
        // Rows without a time come first, then those that are due for the longest time. Each branch is a range of the index.
        let free = |is_due: &str, order: &str, skipped: &str, locking: &str| {
            format!(
                "select {keys}, {key_text} as lazaret_key
                   from {sql} as o
                  where o.{status} = {pending} {no_aggregate} and {is_due}
                    and {key_text} <> all({skipped}::text[])
                  order by {order}
                  limit $1 {locking}"
            )
        };
        let (unset, due) = (format!("o.{next} is null"), format!("o.{next} <= {now}"));
        let by_due = format!("o.{next}, {keys}");
        let lock = "for update of o skip locked";
        Some(RelayStatements {
            ordered: columns.aggregate_id.as_ref().map(|_| Ordered::of(table, relay.order, next, now)),
            claim_free: format!(
                "with unset as materialized ({unset}),
                      due as materialized ({due}),
                      taken as (select lazaret_key from unset union all select lazaret_key from due limit $1)
                 update {sql} as o
                    set {status} = {processing}, {lease}
                   from taken
                  where {is_row}
                 returning {returned}",
                unset = free(&unset, &keys, "$3", lock),
                due = free(&due, &by_due, "$3", lock),
                is_row = key.is("o.", "taken.lazaret_key"),
                returned = claimed_columns(table, next),
            ),
            free: format!(
                "select lazaret_key from (({unset}) union all ({due})) as free limit $1",
                unset = free(&unset, &keys, "$2", ""),
                due = free(&due, &by_due, "$2", ""),
            ),
            claim: format!(
                "with taken as materialized (
                     select {key_text} as lazaret_key
                       from {sql} as o
                       join pg_catalog.unnest($1::text[]) as wanted(lazaret_key) on {is_wanted}
                      where o.{status} = {pending} and ({unset} or {due})
                        for update of o skip locked)
                 update {sql} as o
                    set {status} = {processing}, {lease}
                   from taken
                  where {is_row}
                 returning {returned}",
                is_wanted = key.is("o.", "wanted.lazaret_key"),
                is_row = key.is("o.", "taken.lazaret_key"),
                returned = claimed_columns(table, next),
            ),
            body: format!(
                "select {} from {sql} as o where {}",
                payload(table, "o."),
                key.is("o.", "$1::text")
            ),
            expired: format!(
                "select {key_text}, o.{next}::text, o.{retry_count}::int8, {max_retries}
                   from {sql} as o
                  where o.{status} = {processing} and o.{next} <= {now} and {key_text} <> all($2::text[])
                  order by o.{next}
                  limit $1",
                retry_count = columns.retry_count,
                max_retries = of_row(columns.max_retries.as_deref(), "int8"),
            ),
            delivered: settle(
                table,
                next,
                &format!("{status} = {}{}", statuses.processed, done_at(table)),
                &[],
            ),
            retried: settle(
                table,
                next,
                &format!("{status} = {pending}, {}, {}", tried(table), later(next, now)),
                &[("count", "int8"), ("error", "text"), ("delay", "int8")],
            ),
            died: settle(
                table,
                next,
                &format!("{status} = {}, {}{}", statuses.dead_letter, tried(table), done_at(table)),
                &[("count", "int8"), ("error", "text")],
            ),
            released: settle(
                table,
                next,
                &format!("{status} = {pending}, {}", later(next, now)),
                &[("delay", "int8")],
            ),
            // A time that is infinite, or years away, says nothing about when to look again.
            next_due: format!(
                "select floor(extract(epoch from min({next}) - {now}) * 1000)::int8
                   from {sql}
                  where {status} in ({pending}, {processing})
                    and {next} > {now} and {next} < {now} + interval '1 day'"
            ),
        })
    }
}

fn done_at(table: &Table) -> String {
    match &table.columns.processed_at {
        Some(column) => format!(", {column} = {}", table.now(column)),
        None => String::new(),
    }
}

fn tried(table: &Table) -> String {
    format!("{} = done.count, {} = done.error", table.columns.retry_count, table.columns.last_error)
}

fn later(next: &str, now: &str) -> String {
    format!("{next} = {now} + done.delay * interval '1 millisecond'")
}

/// An update of claimed rows by key and claim, with more arrays by name and type. Whoever lost the claim in between changes
/// nothing: the end of the claim tells them apart.
fn settle(table: &Table, next: &str, set: &str, more: &[(&str, &str)]) -> String {
    let Table { sql, columns, statuses, key, .. } = table;
    let arrays: String =
        more.iter().enumerate().map(|(at, (_, of))| format!(", ${}::{of}[]", at + 3)).collect();
    let names: String = more.iter().map(|(name, _)| format!(", {name}")).collect();
    let type_of_next = if table.now(next) == "now()" { "timestamptz" } else { "timestamp" };
    format!(
        "update {sql} as o
            set {set}
           from unnest($1::text[], $2::text[]{arrays}) as done(lazaret_key, claim{names})
          where {is_row}
            and o.{status} = {processing}
            and o.{next} = done.claim::{type_of_next}
         returning {key_text}",
        is_row = key.is("o.", "done.lazaret_key"),
        status = columns.status,
        processing = statuses.processing,
        key_text = key.text("o."),
    )
}

/// The columns of a claimed row, in the order in which `claim.rs` reads them. A large payload is left out.
fn claimed_columns(table: &Table, next: &str) -> String {
    let Table { columns, key, .. } = table;
    let body = payload(table, "o.");
    let stored = format!("pg_catalog.pg_column_size(o.{})", columns.payload);
    let length = format!(
        "case when {stored} <= {PLAIN_BYTES_MAX} then {stored} else pg_catalog.octet_length({body}) end"
    );
    format!(
        "{key_text}, o.{event_type}::text, {aggregate_type}, {aggregate_id},
         case when {length} <= {INLINE_BYTES_MAX} then {body} end,
         {schema_version}, {tenant}, o.{retry_count}::int8, {max_retries}, {created}, o.{next}::text,
         coalesce({length}, 0)::int8",
        key_text = key.text("o."),
        event_type = columns.event_type,
        aggregate_type = of_row(columns.aggregate_type.as_deref(), "text"),
        aggregate_id = of_row(columns.aggregate_id.as_deref(), "text"),
        schema_version = of_row(columns.schema_version.as_deref(), "text"),
        tenant = of_row(columns.tenant.as_deref(), "text"),
        retry_count = columns.retry_count,
        max_retries = of_row(columns.max_retries.as_deref(), "int8"),
        created = milliseconds(Some(&format!("o.{}", columns.created_at))),
    )
}

fn of_row(column: Option<&str>, cast: &str) -> String {
    column.map_or_else(|| format!("null::{cast}"), |column| format!("o.{column}::{cast}"))
}

/// What the statements about aggregates are made of.
struct Parts<'a> {
    table: &'a Table,
    aggregate: &'a str,
    of: Option<&'a str>,
    /// A condition: the row holds back later ones of its aggregate.
    unprocessed: String,
    /// An expression: the row may be claimed.
    claimable: String,
}

impl Ordered {
    fn of(table: &Table, order: Order, next: &str, now: &str) -> Ordered {
        let Table { columns, statuses, key, .. } = table;
        let status = &columns.status;
        let mut parts = Parts {
            table,
            aggregate: columns.aggregate_id.as_deref().unwrap_or_default(),
            of: columns.aggregate_type.as_deref(),
            unprocessed: format!("o.{status} in ({})", unprocessed_words(table, order)),
            claimable: String::new(),
        };
        let claimable = |skipped: &str| {
            format!(
                "o.{status} = {} and (o.{next} is null or o.{next} <= {now}) and {} <> all({skipped}::text[])",
                statuses.pending,
                key.text("o."),
            )
        };
        if has_index(table, order) {
            parts.claimable = claimable("$4");
            Ordered::ByIndex { heads: parts.heads(), lanes: parts.lanes_by_index() }
        } else {
            parts.claimable = claimable("$3");
            Ordered::ByPass { lanes: parts.lanes_by_pass() }
        }
    }
}

/// The statuses that hold back later rows of an aggregate, as they stand in a statement.
fn unprocessed_words(table: &Table, order: Order) -> String {
    let statuses = &table.statuses;
    match order {
        Order::Pass => format!("{}, {}", statuses.pending, statuses.processing),
        Order::Wait => format!("{}, {}, {}", statuses.pending, statuses.processing, statuses.dead_letter),
    }
}

/// Whether there is an index of exactly the unprocessed rows in the order of their aggregates.
fn has_index(table: &Table, order: Order) -> bool {
    let Table { catalogue, columns, statuses, .. } = table;
    let number = |sql: &str| {
        catalogue.columns.iter().find(|column| quoted(&column.name) == sql).map(|column| column.number)
    };
    let mut wanted = vec![columns.aggregate_id.as_deref().and_then(number)];
    wanted.extend(columns.aggregate_type.as_deref().map(number));
    wanted.push(number(&columns.created_at));
    let Some(mut wanted) = wanted.into_iter().collect::<Option<Vec<i16>>>() else { return false };
    wanted.extend(table.key.list("").split(", ").filter_map(number));
    let holds = |index: &Index| {
        let condition = index.condition.as_deref().unwrap_or_default();
        let has = |word: &str| condition.contains(word);
        has(&statuses.pending)
            && has(&statuses.processing)
            && has(&statuses.dead_letter) == (order == Order::Wait)
            && !has(&statuses.processed)
    };
    catalogue.indexes.iter().any(|index| index.columns == wanted && holds(index))
}

impl Parts<'_> {
    /// Aggregate, type, creation and key: the order of the index.
    fn order(&self) -> String {
        let of = self.of.map(|of| format!("o.{of}, ")).unwrap_or_default();
        format!("o.{}, {of}{}", self.aggregate, self.order_in_aggregate())
    }

    fn order_in_aggregate(&self) -> String {
        format!("o.{}, {}", self.table.columns.created_at, self.table.key.list("o."))
    }

    /// The first unprocessed row that meets a condition.
    fn first(&self, rank: u32, condition: &str) -> String {
        format!(
            "(select {rank} as rank, o.{aggregate} as aggregate, {of} as of, ({claimable}) as claimable
                from {sql} as o
               where {unprocessed} and {condition}
               order by {order}
               limit 1)",
            aggregate = self.aggregate,
            of = self.of.map_or_else(|| "null::text".to_owned(), |of| format!("o.{of}")),
            claimable = self.claimable,
            sql = self.table.sql,
            unprocessed = self.unprocessed,
            order = self.order(),
        )
    }

    /// Skips from aggregate to aggregate: each step is a few probes of the index.
    fn heads(&self) -> String {
        let aggregate = self.aggregate;
        let mut steps = vec![self.first(0, &format!("head.aggregate is null and o.{aggregate} is not null"))];
        if let Some(of) = self.of {
            let same = format!("o.{aggregate} = head.aggregate");
            steps.push(self.first(1, &format!("{same} and o.{of} > head.of")));
            steps.push(self.first(2, &format!("{same} and head.of is not null and o.{of} is null")));
        }
        steps.push(self.first(3, &format!("o.{aggregate} > head.aggregate")));
        format!(
            "with recursive head as (
                 select 0::int8 as visited, ($2::text)::{cast} as aggregate, {begin_of} as of, false as claimable
                 union all
                 select head.visited + 1, following.aggregate, following.of, following.claimable
                   from head
                  cross join lateral (
                        select * from ({steps}) as step order by rank limit 1) as following
                  where head.visited < $1)
             select aggregate::text, of::text, claimable from head where visited > 0 order by visited",
            cast = self.cast(aggregate),
            begin_of = self.of.map_or_else(
                || "$3::text".to_owned(),
                |of| format!("($3::text)::{}", self.cast(of)),
            ),
            steps = steps.join("\n union all "),
        )
    }

    /// The rows behind each head that may go out together with it: as far as each may be claimed. Behind a row that failed
    /// before, nothing goes until it is through.
    fn lanes_by_index(&self) -> String {
        let aggregate = self.aggregate;
        let wanted = format!("o.{aggregate} = wanted.aggregate::{}", self.cast(aggregate));
        let branch = |condition: &str| {
            format!(
                "(select {key_text} as lazaret_key, ({claimable}) as claimable, o.{retry_count} as failed,
                         {columns}
                    from {sql} as o
                   where {unprocessed} and {wanted} {condition}
                   order by {order}
                   limit $3)",
                key_text = self.table.key.text("o."),
                claimable = self.claimable,
                retry_count = self.table.columns.retry_count,
                columns = self.order_in_aggregate(),
                sql = self.table.sql,
                unprocessed = self.unprocessed,
                order = self.order_in_aggregate(),
            )
        };
        let rows = match self.of {
            Some(of) => format!(
                "{} union all {}",
                branch(&format!("and o.{of} = wanted.of::{}", self.cast(of))),
                branch(&format!("and wanted.of is null and o.{of} is null")),
            ),
            None => branch(""),
        };
        format!(
            "select lane.lazaret_key, wanted.aggregate, wanted.of, lane.place
               from unnest($1::text[], $2::text[]) as wanted(aggregate, of)
              cross join lateral (select {placed} from ({rows}) as o) as lane
              where lane.in_order
              order by lane.place",
            placed = self.placed("o.lazaret_key", "o.claimable", "o.failed", ""),
        )
    }

    fn lanes_by_pass(&self) -> String {
        let of = self.of.map(|of| format!(", o.{of}")).unwrap_or_default();
        format!(
            "select lazaret_key, aggregate, of, place
               from (select {placed}, o.{aggregate}::text as aggregate, {of_text} as of
                       from {sql} as o
                      where {unprocessed} and o.{aggregate} is not null) as lane
              where in_order and place <= $2
              order by place
              limit $1",
            placed = self.placed(
                &self.table.key.text("o."),
                &self.claimable,
                &format!("o.{}", self.table.columns.retry_count),
                &format!("partition by o.{}{of}", self.aggregate),
            ),
            aggregate = self.aggregate,
            of_text = self.of.map_or_else(|| "null::text".to_owned(), |of| format!("o.{of}::text")),
            sql = self.table.sql,
            unprocessed = self.unprocessed,
        )
    }

    /// The place of a row in its aggregate, and whether all rows up to it may go out now.
    fn placed(&self, key: &str, claimable: &str, failed: &str, partition: &str) -> String {
        let window = format!("over ({partition} order by {})", self.order_in_aggregate());
        format!(
            "{key} as lazaret_key,
             row_number() {window} as place,
             bool_and({claimable}) {window}
                 and (row_number() {window} = 1 or max({failed}) {window} = 0) as in_order"
        )
    }

    fn cast(&self, quoted_name: &str) -> &str {
        let columns = &self.table.catalogue.columns;
        let column = columns.iter().find(|column| quoted(&column.name) == quoted_name);
        column.map_or("text", |column| column.cast.as_str())
    }
}
