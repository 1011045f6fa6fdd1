//! The months that letters are kept by: each has a partition, made when its first letter comes and one month ahead.

use std::collections::BTreeSet;
use std::sync::Mutex;

use deadpool_postgres::Pool;
use lazaret_core::time::Time;

use super::cell::Cells;
use super::conn::{Binds, Conn};
use super::failure::{Kind, kind_of};
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

/// Names sort as their months do.
const OLD_MONTHS: &str = "
select c.relname::text
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
 where i.inhparent = 'dead_letter_queue'::regclass
   and c.relname ~ '^dead_letter_queue_[0-9]{4}_[0-9]{2}$'
   and c.relname < $1
 order by c.relname
 limit 1000";

/// The months whose partitions are known to be there.
#[derive(Debug, Default)]
pub(super) struct Months {
    known: Mutex<BTreeSet<Month>>,
}

impl Months {
    /// Makes sure that letters of these moments find their partitions, before the transaction that stores them: what
    /// makes one must not be undone with it.
    pub async fn ensure(&self, pool: &Pool, moments: impl Iterator<Item = Time>) -> Result<(), StoreError> {
        let asked: BTreeSet<Month> =
            moments.map(Month::of).filter(|month| (FIRST..=LAST).contains(month)).collect();
        let missing: Vec<Month> = {
            let known = self.known.lock().unwrap_or_else(|broken| broken.into_inner());
            asked.difference(&known).copied().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let conn = Conn::of(pool).await?;
        for month in &missing {
            // The next one too, so that nobody waits for it when it begins.
            for month in [*month, Month(month.0 + 1)].into_iter().filter(|month| *month <= LAST) {
                let mut binds = Binds::default();
                let day = binds.text(month.first_day());
                conn.ask(&format!("select make_month({day}::date)"), &binds).await?;
            }
        }
        conn.give_back();
        self.known.lock().unwrap_or_else(|broken| broken.into_inner()).extend(missing);
        Ok(())
    }

    /// Takes away the partitions of months before the one of `before` that hold no letter; says how many. Capture goes
    /// on meanwhile: a letter that comes for such a month after all finds it made again.
    pub async fn drop_empty(&self, pool: &Pool, before: Time) -> Result<u64, StoreError> {
        let conn = Conn::of(pool).await?;
        // Of instances that do it at once the first one does; the lock ends with the connection, or below.
        let alone: bool = conn.query_one(ALONE, &[]).await?.cell(0)?;
        let mut dropped = 0;
        for row in
            if alone { conn.query(OLD_MONTHS, &[&Month::of(before).partition()]).await? } else { Vec::new() }
        {
            let name: String = row.cell(0)?;
            let is_empty = format!("select not exists (select 1 from {name})");
            if !conn.query_one(&is_empty, &[]).await?.cell(0)? {
                continue;
            }
            self.forget();
            conn.batch(&format!("alter table dead_letter_queue detach partition {name} concurrently"))
                .await?;
            // A letter may have come in just before.
            if conn.query_one(&is_empty, &[]).await?.cell(0)? {
                conn.batch(&format!("drop table {name}")).await?;
                dropped += 1;
            }
        }
        conn.batch("select pg_advisory_unlock_all()").await?;
        conn.give_back();
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
