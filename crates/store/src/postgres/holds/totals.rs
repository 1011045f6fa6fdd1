//! How many letters each hold has: added up while a transaction goes on, and written at its end in the order of the holds.
//! Captures under one standing hold would otherwise hold each other up from their first letter on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazaret_core::id::HoldId;
use lazaret_core::time::Time;

use super::super::cell::{At, Uid, clean};
use super::super::conn::Conn;
use super::standing::InForce;
use crate::StoreError;
use crate::decision::Decision;

/// What a transaction knows of holds and changes of them.
#[derive(Default)]
pub(in crate::postgres) struct Totals {
    /// Standing holds, once they were asked for. None begins or ends while a transaction is open.
    pub(super) standing: Option<Arc<Vec<InForce>>>,
    letters: BTreeMap<HoldId, i64>,
    ended: BTreeMap<HoldId, Ended>,
    placed: BTreeSet<HoldId>,
}

/// How a hold came to its end.
struct Ended {
    by: String,
    at: Time,
    reason: Option<String>,
}

const LOCK: &str = "
select id
  from holds
 where id = any($1)
 order by id
   for no key update";

const COUNT: &str = "
update holds h
   set letters = h.letters + c.by
  from unnest($1::uuid[], $2::bigint[]) as c (id, by)
 where h.id = c.id";

/// Who ended it before, and waits for it to be worked off, stays who ended it.
const END: &str = "
update holds h
   set state = 'released', released_by = coalesce(h.released_by, e.by), released_at = coalesce(h.released_at, e.at),
       release_reason = case when h.released_at is null then e.reason else h.release_reason end
  from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[]) as e (id, by, at, reason)
 where h.id = e.id
   and h.state <> 'released'";

const STAND: &str = "
update holds
   set state = 'standing'
 where id = any($1)
   and state = 'placing'";

impl Totals {
    /// Letters came under a hold, or left it.
    pub fn count(&mut self, hold: HoldId, by: i64) {
        *self.letters.entry(hold).or_default() += by;
    }

    /// A hold was on one letter, and that was freed.
    pub fn end(&mut self, hold: HoldId, decision: &Decision) {
        let (by, reason) = (clean(&decision.actor.name).into_owned(), decision.reason.as_deref());
        let reason = reason.map(|reason| clean(reason).into_owned());
        self.ended.insert(hold, Ended { by, at: decision.at, reason });
    }

    /// All letters of a hold are marked.
    pub fn placed(&mut self, hold: HoldId) {
        self.placed.insert(hold);
    }

    fn is_empty(&self) -> bool {
        self.letters.is_empty() && self.ended.is_empty() && self.placed.is_empty()
    }

    pub async fn flush(self, conn: &Conn) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        let touched = self.letters.keys().chain(self.ended.keys()).chain(&self.placed);
        let touched: Vec<Uid> = touched.map(|hold| Uid(*hold.bytes())).collect();
        conn.query(LOCK, &[&touched]).await?;
        let (holds, by): (Vec<Uid>, Vec<i64>) =
            self.letters.iter().map(|(hold, by)| (Uid(*hold.bytes()), *by)).unzip();
        conn.execute(COUNT, &[&holds, &by]).await?;
        if !self.ended.is_empty() {
            let ids: Vec<Uid> = self.ended.keys().map(|hold| Uid(*hold.bytes())).collect();
            let by: Vec<&str> = self.ended.values().map(|ended| ended.by.as_str()).collect();
            let at: Vec<At> = self.ended.values().map(|ended| At(ended.at)).collect();
            let reasons: Vec<Option<&str>> =
                self.ended.values().map(|ended| ended.reason.as_deref()).collect();
            conn.execute(END, &[&ids, &by, &at, &reasons]).await?;
        }
        if !self.placed.is_empty() {
            let placed: Vec<Uid> = self.placed.iter().map(|hold| Uid(*hold.bytes())).collect();
            conn.execute(STAND, &[&placed]).await?;
        }
        Ok(())
    }
}
