//! The months that letters are kept by: each has a partition, made when its first letter comes and one month ahead.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_postgres::Address;

use super::cell::Cells;
use super::conn::{Binds, Conn, Connections};
use super::failure::{Kind, kind_of};
use super::session::Session;
use crate::StoreError;

/// A month since 1970: twelve times the year, and the month from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Month(i64);

/// Outside of these the partitions at either end take what comes: a clock that is wrong must not make a thousand.
const FIRST: Month = Month((2020 - 1970) * 12);
const LAST: Month = Month((2100 - 1970) * 12 - 1);

impl Month {
    fn of(at: Time) -> Month {
        // Days to a civil date, by the calendar's 400-year cycle (Howard Hinnant's algorithm).
        let days = at.ms().div_euclid(86_400_000) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 2 } else { from_march - 10 };
        let year = year_of_era + era * 400 + i64::from(month <= 1);
        Month((year - 1970) * 12 + month)
    }

    fn partition(self) -> String {
        format!("dead_letter_queue_{:04}_{:02}", 1970 + self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }

    fn first_day(self) -> String {
        format!("{:04}-{:02}-01", 1970 + self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }
}

const ALONE: &str = "select pg_try_advisory_lock(hashtextextended('lazaret old months', 0))";

/// Names sort as their months do. A table that is no partition, or is on its way to be none, is what an instance left that
/// ended in the middle of taking it away.
const OLD_MONTHS: &str = "
select c.relname::text, i.inhrelid is not null, coalesce(i.inhdetachpending, false)
  from pg_catalog.pg_class c
  left join pg_catalog.pg_inherits i on i.inhrelid = c.oid
 where c.relnamespace = 'lazaret'::regnamespace
   and c.relkind = 'r'
   and c.relname ~ '^dead_letter_queue_[0-9]{4}_[0-9]{2}$'
   and c.relname < $1
 order by c.relname
 limit 1000";

/// Whoever makes a month holds this too.
const MAKING: &str = "select pg_advisory_xact_lock(hashtextextended('lazaret months', 0))";

const IS_LEAVING: &str = "
select coalesce((select inhdetachpending from pg_catalog.pg_inherits where inhrelid = to_regclass($1)), false)";

const IS_PARTITION: &str = "
select exists (select 1 from pg_catalog.pg_inherits where inhrelid = to_regclass($1))";

/// The months whose partitions are known to be there.
#[derive(Debug, Default)]
pub(super) struct Months {
    known: Mutex<BTreeSet<Month>>,
}

impl Months {
    /// Makes sure that letters of these moments find their partitions, before the transaction that stores them: what
    /// makes one must not be undone with it.
    pub async fn ensure(
        &self,
        lanes: &Connections,
        moments: impl Iterator<Item = Time>,
    ) -> Result<(), StoreError> {
        let asked: BTreeSet<Month> =
            moments.map(Month::of).filter(|month| (FIRST..=LAST).contains(month)).collect();
        let missing: Vec<Month> = {
            let known = self.known.lock().unwrap_or_else(|broken| broken.into_inner());
            asked.difference(&known).copied().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let conn = Conn::of(lanes).await?;
        for month in &missing {
            // The next one too, so that nobody waits for it when it begins.
            for month in [*month, Month(month.0 + 1)].into_iter().filter(|month| *month <= LAST) {
                make(&conn, month).await?;
            }
        }
        conn.give_back();
        self.known.lock().unwrap_or_else(|broken| broken.into_inner()).extend(missing);
        Ok(())
    }

    /// Takes away the partitions of months before the one of `before` that hold no letter; says how many. Capture goes
    /// on meanwhile: a letter that comes for such a month after all finds it made again.
    ///
    /// Has a session of its own: it may wait long for those who read, and writes must not wait for a connection then.
    pub async fn drop_empty(&self, address: &Address, before: Time) -> Result<u64, StoreError> {
        let session = Session::open(address, Duration::from_millis(limits::POSTGRES_WRITE_MS_MAX)).await?;
        // Of instances that do it at once the first one does; the lock ends with the session.
        let alone: bool = session.query_one(ALONE, &[]).await?.cell(0)?;
        let mut dropped = 0;
        if alone {
            for row in session.query(OLD_MONTHS, &[&Month::of(before).partition()]).await? {
                let (name, attached, leaving): (String, bool, bool) =
                    (row.cell(0)?, row.cell(1)?, row.cell(2)?);
                let alter = format!("alter table dead_letter_queue detach partition {name}");
                if leaving {
                    session.batch(&format!("{alter} finalize")).await?;
                } else if attached {
                    if !is_empty(&session, &name).await? {
                        continue;
                    }
                    self.forget();
                    session.batch(&format!("{alter} concurrently")).await?;
                }
                dropped += u64::from(drop_detached(&session, &name).await?);
            }
        }
        Ok(dropped)
    }

    /// Passes on what became of a write. If an empty partition was taken away that we took to be there, whoever comes
    /// again finds it made.
    pub fn after<T>(&self, written: Result<T, StoreError>) -> Result<T, StoreError> {
        if written.as_ref().is_err_and(|error| kind_of(error) == Kind::NoMonth) {
            self.forget();
        }
        written
    }

    /// Looks again next time: somebody may have taken an empty partition away.
    fn forget(&self) {
        self.known.lock().unwrap_or_else(|broken| broken.into_inner()).clear();
    }
}

async fn make(conn: &Conn, month: Month) -> Result<(), StoreError> {
    let name = month.partition();
    if conn.query_one(IS_LEAVING, &[&name]).await?.cell(0)? {
        // Whoever was taking it away ended in the middle, or is at it and will find it done.
        conn.batch(&format!("alter table dead_letter_queue detach partition {name} finalize")).await?;
    }
    let mut binds = Binds::default();
    let day = binds.text(month.first_day());
    conn.ask(&format!("select make_month({day}::date)"), &binds).await?;
    Ok(())
}

async fn is_empty(session: &Session, name: &str) -> Result<bool, StoreError> {
    session.query_one(&format!("select not exists (select 1 from {name})"), &[]).await?.cell(0)
}

/// Drops a table that is no partition any more, if it is empty; says whether it was. A letter may have come in just before
/// it was detached: then it becomes a partition again.
async fn drop_detached(session: &Session, name: &str) -> Result<bool, StoreError> {
    // Nobody makes the month again between the look and the drop.
    session.batch(&format!("begin; {MAKING}")).await?;
    let attached: bool = session.query_one(IS_PARTITION, &[&name]).await?.cell(0)?;
    let empty = !attached && is_empty(session, name).await?;
    if empty {
        session.batch(&format!("drop table {name}")).await?;
    } else if !attached {
        let day = name.trim_start_matches("dead_letter_queue_").replace('_', "-");
        session.batch(&format!("select make_month('{day}-01')")).await?;
    }
    session.batch("commit").await?;
    Ok(empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_that_of_the_calendar() {
        for (text, first) in [
            ("1970-01-01T00:00:00Z", "1970-01-01"),
            ("1969-12-31T23:59:59.999Z", "1969-12-01"),
            ("2024-02-29T23:59:59.999Z", "2024-02-01"),
            ("2024-03-01T00:00:00Z", "2024-03-01"),
            ("2025-11-15T03:00:00Z", "2025-11-01"),
            ("2099-12-31T23:59:59.999Z", "2099-12-01"),
        ] {
            assert_eq!(Month::of(Time::parse(text).unwrap()).first_day(), first, "{text}");
        }
        assert_eq!(Month::of(Time::parse("2100-01-01T00:00:00Z").unwrap()).0, LAST.0 + 1);
        assert_eq!(Month::of(Time::parse("2020-01-01T00:00:00Z").unwrap()), FIRST);
    }
}
