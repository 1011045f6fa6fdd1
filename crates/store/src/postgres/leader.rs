//! Leadership: one instance does the periodic work. It holds a lock for as long as its session lives, so that another
//! one takes over as soon as it is gone. The same session holds the lock that keeps copies away from a store in use.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lazaret_core::limits;
use lazaret_postgres::{Address, place};
use tokio::sync::Mutex;

use super::cell::Cells;
use super::session::Session;
use crate::StoreError;

pub(super) struct Leader {
    address: Address,
    session: Mutex<Option<Standing>>,
    /// What was found when it was asked last.
    leads: AtomicBool,
}

struct Standing {
    session: Session,
    leads: bool,
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leader").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Held by every server; a copy takes it alone.
const SERVE: &str = "select pg_try_advisory_lock_shared(hashtextextended('lazaret copy', 0))";

const TRY: &str = "select pg_try_advisory_lock(hashtextextended('lazaret leader', 0))";

impl Leader {
    pub fn new(address: Address) -> Leader {
        Leader { address, session: Mutex::new(None), leads: AtomicBool::new(false) }
    }

    /// Whether this instance leads. Asked before each round of periodic work: a session that does not answer has lost
    /// the lock, or is about to.
    pub async fn lead(&self) -> Result<bool, StoreError> {
        let mut held = self.session.lock().await;
        let asked = self.ask(&mut held).await;
        self.note(matches!(asked, Ok(true)));
        asked
    }

    /// Whether this instance led when it was asked last.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    fn note(&self, leads: bool) {
        match (self.leads.swap(leads, Ordering::SeqCst), leads) {
            (false, true) => tracing::info!("this instance leads: it does the periodic work"),
            (true, false) => tracing::info!("this instance does not lead any more"),
            (true, true) | (false, false) => {}
        }
    }

    async fn ask(&self, held: &mut Option<Standing>) -> Result<bool, StoreError> {
        let mut standing = match held.take() {
            Some(standing) => standing,
            None => {
                // What is asked takes no time: a session that does not answer at once does not lead.
                let statement = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
                let session = Session::open(&self.address, statement).await?;
                if !session.query_one(SERVE, &[]).await?.cell(0)? {
                    let folder = PathBuf::from(place(&self.address.config));
                    return Err(StoreError::Held {
                        folder,
                        holder: "a copy of it that is being made".into(),
                    });
                }
                Standing { session, leads: false }
            }
        };
        // The lock counts how often it was taken, so it is asked for only while it is not held.
        let sql = if standing.leads { "select true" } else { TRY };
        // Whatever fails here drops the session, and the next round begins with a new one.
        standing.leads = standing.session.query_one(sql, &[]).await?.cell(0)?;
        Ok(held.insert(standing).leads)
    }

    /// Lets another instance lead.
    pub async fn step_down(&self) {
        if let Some(standing) = self.session.lock().await.take() {
            // Closing the session would do, only a moment later.
            standing.session.batch("select pg_advisory_unlock_all()").await.ok();
            self.note(false);
        }
    }
}
