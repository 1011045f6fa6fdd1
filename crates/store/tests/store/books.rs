//! The books: after every case, counters, statistics and ledger have to be what the letters themselves say.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_core::cursor::Sort;
use lazaret_core::filter::Filter;
use lazaret_core::id::JobId;
use lazaret_core::job::state::JobState;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_store::Store;
use lazaret_store::job::SOURCE;
use lazaret_store::page::PageQuery;
use lazaret_store::stats::{Ledger, LedgerBy, Stats, StatsOf};

use crate::rig::at;

/// Asserts that everything the store has counted is so.
pub async fn agree(store: &dyn Store) {
    let recount = store.ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((recount.difference(), recount.wrong_counters, recount.unlisted), (0, 0, 0), "{recount:?}");
    let kept = store.ledger(LedgerBy::Counters).await.unwrap();
    assert_eq!(kept, Ledger { wrong_counters: 0, ..recount });
    let letters = all(store).await;
    assert_eq!(letters.len() as u64, recount.captured - recount.archived - recount.pruned - recount.deleted);
    assert_eq!(store.stats(StatsOf::All).await.unwrap(), counted(&letters, |_| true));
    for status in Status::ALL {
        let mut expected = counted(&letters, |letter| letter.status == status);
        expected.by_status = counted(&letters, |_| true).by_status;
        assert_eq!(store.stats(StatsOf::Only(status)).await.unwrap(), expected, "{status}");
        let of_job = |letter: &Letter| letter.source == SOURCE;
        let mut expected = counted(&letters, |letter| of_job(letter) && letter.status == status);
        expected.by_status = counted(&letters, of_job).by_status;
        (expected.by_source, expected.by_class) = (Vec::new(), Vec::new());
        assert_eq!(store.stats(StatsOf::Jobs(status)).await.unwrap(), expected, "jobs, {status}");
    }
    positions_grow(store).await;
    queues_hold_their_jobs(store).await;
    letters_lead_their_jobs(store, &letters).await;
}

async fn all(store: &dyn Store) -> Vec<Letter> {
    let mut letters = Vec::new();
    let mut after = None;
    loop {
        let query = PageQuery {
            filter: Filter::default(),
            now: at(0),
            sort: Sort::CreatedAtAsc,
            limit: 500,
            after,
            scan_max: PageQuery::SCAN_MAX,
        };
        let page = store.list(query).await.unwrap();
        letters.extend(page.letters);
        after = page.next;
        if after.is_none() {
            return letters;
        }
    }
}

/// The statistics of some letters, counted one by one.
fn counted(letters: &[Letter], of: impl Fn(&Letter) -> bool) -> Stats {
    let letters: Vec<&Letter> = letters.iter().filter(|letter| of(letter)).collect();
    let by = |name: fn(&Letter) -> &str| -> Vec<(String, u64)> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for letter in &letters {
            *counts.entry(name(letter)).or_default() += 1;
        }
        let mut values: Vec<_> = counts.into_iter().map(|(value, n)| (value.to_owned(), n)).collect();
        // The sort is stable: values of one size stay in their order.
        values.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        values.truncate(limits::STATS_VALUES_MAX);
        values
    };
    let in_status = |status| letters.iter().filter(|letter| letter.status == status).count() as u64;
    Stats {
        total: letters.len() as u64,
        by_status: Status::ALL.map(|status| (status.name(), in_status(status))).into(),
        by_source: by(|letter| &letter.source),
        by_queue: by(|letter| &letter.queue),
        by_type: by(|letter| &letter.letter_type),
        by_error_type: by(|letter| &letter.error_type),
        by_class: by(|letter| letter.class.name()),
        oldest_at: letters.iter().map(|letter| letter.died_at).min(),
        newest_at: letters.iter().map(|letter| letter.died_at).max(),
    }
}

async fn positions_grow(store: &dyn Store) {
    let events = store.events(0, 100_000).await.unwrap();
    assert!(events.is_sorted_by(|one, next| one.position < next.position));
    let ids: BTreeSet<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), events.len());
}

/// What queues count has to be what the rows of their jobs say.
async fn queues_hold_their_jobs(store: &dyn Store) {
    let mut counted: BTreeMap<(String, String), u64> = BTreeMap::new();
    let dump = store.dump().await.unwrap();
    let rows =
        dump.lines().skip_while(|line| *line != "jobs").skip(1).take_while(|line| line.starts_with(' '));
    for row in rows {
        let cell =
            |name: &str| row.split_whitespace().find_map(|cell| cell.strip_prefix(name)).unwrap().to_owned();
        *counted.entry((cell("queue="), cell("state="))).or_default() += 1;
    }
    let mut told = BTreeMap::new();
    for queue in store.queues().await.unwrap() {
        assert_eq!(queue.counts.len(), JobState::ALL.len());
        for (state, count) in queue.counts.into_iter().filter(|(_, count)| *count > 0) {
            told.insert((queue.name.clone(), state.name().to_owned()), count);
        }
    }
    assert_eq!(told, counted);
}

/// A pending letter's job is in the dead letter, and one that is out has a job that can still end.
async fn letters_lead_their_jobs(store: &dyn Store, letters: &[Letter]) {
    for letter in letters.iter().filter(|letter| letter.source == SOURCE) {
        let id = JobId::parse(&letter.event_id).unwrap();
        let job = store.job(id).await.unwrap().map(|stored| stored.job);
        let agrees = match (letter.status, &job) {
            (Status::Pending, Some(job)) => job.in_dead_letter,
            (Status::Reprocessing, Some(job)) => !job.state.is_terminal(),
            (Status::Pending | Status::Reprocessing, None) => false,
            (Status::Resolved | Status::Discarded, Some(job)) => job.state.is_terminal(),
            (Status::Resolved | Status::Discarded, None) => true,
        };
        assert!(agrees, "{letter:?}: {job:?}");
    }
}
