//! Pages of the dead letter. Whoever counts rows gets full pages: a page that a search cut short has a cursor, and no
//! number of rows that could be skipped.

use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::Filter;
use lazaret_core::job::Job;
use lazaret_core::letter::Letter;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::page::{LetterPage, PageQuery, Total};

use super::{dead_job, letters};
use crate::app::App;
use crate::jobs::NotDone;

/// Where a page begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    After(LastKey),
    /// So many rows from the beginning.
    Offset(usize),
}

/// One page.
#[derive(Clone, Debug)]
pub struct DeadPage {
    pub jobs: Vec<Job>,
    pub total: Total,
    pub next: Option<LastKey>,
    /// Whether there may be more on this page: looking into letters took too long.
    pub cut_short: bool,
}

pub async fn list(
    app: &App,
    wanted: &Filter,
    sort: Sort,
    place: Place,
    limit: usize,
) -> Result<DeadPage, NotDone> {
    let walk = &mut Walk { app, filter: letters(wanted), sort, scans_left: limits::OJS_SCANS_MAX, seen: 0 };
    let after = match place {
        Place::After(last) => Some(last),
        Place::Offset(0) => None,
        Place::Offset(rows) => {
            let skipped = walk.gather(None, rows, |_| ()).await?;
            match (skipped.next, skipped.cut_short) {
                // Where so many rows end is not known.
                (Some(_), true) => return Err(StoreError::TooSlow.into()),
                (Some(last), false) => Some(last),
                (None, _) => {
                    let Gathered { total, .. } = skipped;
                    return Ok(DeadPage { jobs: Vec::new(), total, next: None, cut_short: false });
                }
            }
        }
    };
    let mut found = Vec::new();
    let Gathered { total, next, cut_short } = walk.gather(after, limit, |letter| found.push(letter)).await?;
    let mut jobs = Vec::with_capacity(found.len());
    for letter in &found {
        // One that left the dead letter since the page was read is not shown; the next page begins where this one ends.
        if let Some(job) = dead_job(app, letter).await? {
            jobs.push(job);
        }
    }
    Ok(DeadPage { jobs, total, next, cut_short })
}

/// A way through the list.
struct Walk<'a> {
    app: &'a App,
    filter: Filter,
    sort: Sort,
    /// Pages that may still look into letters until their time is over.
    scans_left: u32,
    /// Rows so far.
    seen: u64,
}

/// So many rows, or fewer.
struct Gathered {
    total: Total,
    /// The last row, if there are more behind it.
    next: Option<LastKey>,
    /// Whether the rows are fewer because looking into letters took too long.
    cut_short: bool,
}

impl Walk<'_> {
    async fn gather(
        &mut self,
        mut after: Option<LastKey>,
        rows: usize,
        mut each: impl FnMut(Letter),
    ) -> Result<Gathered, StoreError> {
        let mut left = rows;
        loop {
            let LetterPage { letters, total, next, scan } =
                self.page(after, left.min(limits::OJS_PAGE_ROWS_MAX)).await?;
            left -= letters.len();
            self.seen += letters.len() as u64;
            letters.into_iter().for_each(&mut each);
            let total = match total {
                Total::Exact(number) => Total::Exact(number),
                Total::AtLeast(number) => Total::AtLeast(number.max(self.seen)),
            };
            if next.is_none() || left == 0 {
                return Ok(Gathered { total, next, cut_short: false });
            }
            if scan.is_some_and(|scan| scan.cut_short) {
                self.scans_left -= 1;
                if self.scans_left == 0 {
                    return Ok(Gathered { total, next, cut_short: true });
                }
            }
            after = next;
        }
    }

    async fn page(&self, after: Option<LastKey>, limit: usize) -> Result<LetterPage, StoreError> {
        let (filter, now, sort) = (self.filter.clone(), self.app.clock.now(), self.sort);
        let scan_max = PageQuery::SCAN_MAX;
        self.app.store.list(PageQuery { filter, now, sort, limit, after, scan_max }).await
    }
}
