//! Holds for letters to come: the writer knows them by heart and asks them about every letter that comes in.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lazaret_core::filter::Filter;
use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::Connection;

use crate::StoreError;
use crate::decision::Verb;
use crate::engine::holds::{add_hold_event, parse_filter, put_under, show};
use crate::seam::ready;
use crate::sqlite::rows::{self, LETTER_COLUMNS};
use crate::sqlite::scan::Scanner;
use crate::sqlite::writer::Write;

/// The standing holds as the writer knows them. Its transactions may fail: what one of them changed is known only inside
/// of it, and the next one reads again.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct StandingHolds(Mutex<Known>);

#[derive(Debug, Default)]
enum Known {
    #[default]
    Nothing,
    Committed(Arc<[Rule]>),
    /// Changed by the open transaction; read since then, if anybody asked.
    Changed(Option<Arc<[Rule]>>),
}

/// One of them.
#[derive(Debug)]
struct Rule {
    hold: HoldId,
    filter: Filter,
    until: Option<Time>,
    by: String,
}

impl StandingHolds {
    /// A transaction begins.
    pub fn begin(&self) {
        let mut known = self.known();
        if matches!(*known, Known::Changed(_)) {
            *known = Known::Nothing;
        }
    }

    /// The open transaction has changed them.
    pub fn change(&self) {
        *self.known() = Known::Changed(None);
    }

    fn rules(&self, conn: &Connection) -> Result<Arc<[Rule]>, StoreError> {
        let mut known = self.known();
        match &*known {
            Known::Committed(rules) | Known::Changed(Some(rules)) => Ok(Arc::clone(rules)),
            Known::Nothing => {
                let rules = read(conn)?;
                *known = Known::Committed(Arc::clone(&rules));
                Ok(rules)
            }
            Known::Changed(None) => {
                let rules = read(conn)?;
                *known = Known::Changed(Some(Arc::clone(&rules)));
                Ok(rules)
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

const RULES: &str = "
select id, filter, until, held_by
  from holds indexed by holds_catching
 where standing = 1
   and state in ('placing', 'standing')
 order by held_at, id
 limit ?1";

fn read(conn: &Connection) -> Result<Arc<[Rule]>, StoreError> {
    let mut statement = conn.prepare_cached(RULES)?;
    let mut found = statement.query([limits::STANDING_HOLDS_MAX as i64])?;
    let mut rules = Vec::new();
    while let Some(row) = found.next()? {
        let hold = HoldId::from_bytes(row.get(0)?);
        rules.push(Rule {
            hold,
            filter: parse_filter(hold, &row.get::<_, Option<String>>(1)?.unwrap_or_default())?,
            until: row.get::<_, Option<i64>>(2)?.map(Time::from_ms),
            by: row.get(3)?,
        });
    }
    Ok(rules.into())
}

/// Puts a live letter under the standing holds that are for it.
pub(in crate::sqlite) fn catch(write: &mut Write, id: LetterId, at: Time) -> Result<(), StoreError> {
    let rules = write.standing.rules(&write.conn)?;
    if rules.is_empty() {
        return Ok(());
    }
    let mut statement = write.conn.prepare_cached(&format!(
        "select {LETTER_COLUMNS}, l.letter
           from dead_letter_queue l
           join fingerprints f on f.fingerprint = l.fingerprint
          where l.id = ?1"
    ))?;
    let mut found = statement.query([id.bytes()])?;
    let Some(row) = found.next()? else {
        return Err(StoreError::Corrupt(format!("letter {id} came in and is not there")));
    };
    let (letter, number) = (rows::letter(row)?, row.get(31)?);
    drop(found);
    drop(statement);
    for Rule { hold, filter, until, by } in rules.iter() {
        // One that has come to its end is about to be released.
        let is_over = until.is_some_and(|until| until <= at);
        if is_over || !filter.matches(&letter, at) {
            continue;
        }
        // Time does not matter: one letter is looked into.
        let mut scanner = Scanner::new(&write.conn, filter, Duration::ZERO);
        if filter.needs_content() && !scanner.holds(number, letter.life)? {
            continue;
        }
        if !ready(put_under(write, &[(id, *hold)]))?.is_empty() {
            ready(show(write, &[id], Some(at)))?;
            add_hold_event(write, Verb::Hold, id, *hold, by, at)?;
        }
    }
    Ok(())
}
