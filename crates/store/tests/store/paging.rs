//! Cases: pages walk every letter once in a total order, whatever comes in meanwhile, and totals are true.

use lazaret_core::cursor::Sort;
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::letter::{Captured, Letter};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::decision::Verb;
use lazaret_store::page::{LetterPage, PageQuery, Total};

use crate::rig::{Rig, at, captured, dying};

/// Letters of which many died in the same millisecond and many came in the same.
async fn tied(rig: &Rig, count: i64) {
    for n in 0..count {
        let queue = if n % 3 == 0 { "late" } else { "orders" };
        let letter = Captured { queue: queue.into(), ..dying(&format!("e{n}"), at(-1 - n % 4)) };
        rig.create(letter, at(n / 5)).await;
    }
}

fn key(sort: Sort, letter: &Letter) -> (Time, LetterId) {
    match sort {
        Sort::DiedAtDesc | Sort::DiedAtAsc => (letter.died_at, letter.id),
        Sort::CreatedAtDesc | Sort::CreatedAtAsc => (letter.created_at, letter.id),
    }
}

/// Asserts that the letters are in the order asked for, and none twice.
fn assert_sorted(sort: Sort, letters: &[Letter]) {
    let keys: Vec<_> = letters.iter().map(|letter| key(sort, letter)).collect();
    match sort {
        Sort::DiedAtAsc | Sort::CreatedAtAsc => {
            assert!(keys.is_sorted_by(|one, next| one < next), "{sort:?}")
        }
        Sort::DiedAtDesc | Sort::CreatedAtDesc => {
            assert!(keys.is_sorted_by(|one, next| one > next), "{sort:?}")
        }
    }
}

async fn page(
    rig: &Rig,
    sort: Sort,
    limit: usize,
    after: Option<lazaret_core::cursor::LastKey>,
) -> LetterPage {
    rig.store()
        .list(PageQuery {
            filter: Filter::default(),
            now: at(0),
            sort,
            limit,
            after,
            scan_max: PageQuery::SCAN_MAX,
        })
        .await
        .unwrap()
}

pub async fn every_sort_and_page_size_meets_each_letter_once(rig: &mut Rig) {
    assert!(page(rig, Sort::DiedAtDesc, 10, None).await.next.is_none());
    tied(rig, 23).await;
    for sort in Sort::ALL {
        for limit in [1, 2, 3, 5, 22, 23, 24, limits::PAGE_ROWS_MAX] {
            let walked = rig.walk(&Filter::default(), at(0), sort, limit).await;
            assert_eq!(walked.len(), 23, "{sort:?} by {limit}");
            assert_sorted(sort, &walked);
        }
        let exact = page(rig, sort, 23, None).await;
        assert_eq!((exact.letters.len(), exact.next, exact.total), (23, None, Total::Exact(23)));
    }
}

pub async fn letters_that_come_in_while_paging_disturb_nothing(rig: &mut Rig) {
    tied(rig, 20).await;
    for (round, sort) in Sort::ALL.into_iter().enumerate() {
        let before = rig.walk(&Filter::default(), at(0), sort, 500).await;
        let mut walked: Vec<Letter> = Vec::new();
        let mut after = None;
        for turn in 0.. {
            let page = page(rig, sort, 3, after).await;
            walked.extend(page.letters);
            after = page.next;
            if after.is_none() {
                break;
            }
            // Some fall before the place reached, some behind it; never so many that the walk has no end.
            if turn < 6 {
                for died in [-9, -2, 50] {
                    let event = format!("new {round} {turn} {died}");
                    rig.create(dying(&event, at(died)), at(100 + turn)).await;
                }
            }
        }
        assert_sorted(sort, &walked);
        for letter in before {
            assert!(walked.contains(&letter), "{sort:?} lost {}", letter.id);
        }
    }
}

pub async fn letters_that_move_while_paging_disturb_nothing(rig: &mut Rig) {
    tied(rig, 20).await;
    let first = page(rig, Sort::DiedAtDesc, 10, None).await;
    // The last one of the page, by which the next begins, is no longer where it was.
    let last = first.letters.last().unwrap();
    rig.capture(dying(&last.event_id, at(500)), at(600)).await;
    rig.done(first.letters[3].id, Verb::Discard, at(601)).await;
    let second = page(rig, Sort::DiedAtDesc, 10, first.next).await;
    let walked: Vec<Letter> = first.letters.into_iter().chain(second.letters).collect();
    assert_eq!((walked.len(), second.next), (20, None));
    assert_sorted(Sort::DiedAtDesc, &walked);
}

pub async fn a_filtered_walk_meets_each_match_once(rig: &mut Rig) {
    tied(rig, 40).await;
    for id in rig.find("queue:late").await.into_iter().take(3) {
        rig.done(id, Verb::Resolve, at(100)).await;
    }
    for (text, expected) in [
        ("queue:late", 14),
        ("queue:late status:pending", 11),
        ("status:resolved", 3),
        ("-queue:late", 26),
        ("queue:l*", 14),
        ("queue:late,orders", 40),
        ("subscriber:billing event:e7", 1),
        ("subscriber:billing", 40),
        ("tenant:none", 0),
        ("connection queue:late", 14),
    ] {
        let filter = Filter::from_text(text).unwrap();
        for sort in Sort::ALL {
            for limit in [1, 7, 50] {
                let walked = rig.walk(&filter, at(0), sort, limit).await;
                assert_eq!(walked.len(), expected, "{text} {sort:?} by {limit}");
                assert_sorted(sort, &walked);
            }
        }
        assert_eq!(rig.store().count(filter, at(0)).await.unwrap(), Total::Exact(expected as u64), "{text}");
    }
}

pub async fn totals_are_exact_or_at_least(rig: &mut Rig) {
    let max = limits::COUNT_ROWS_MAX;
    rig.create_many(max as i64, at(0)).await;
    let count = async |text: &str| rig.store().count(Filter::from_text(text).unwrap(), at(1)).await.unwrap();
    assert_eq!(count("queue:o*").await, Total::Exact(max));
    rig.create(captured("one more"), at(0)).await;
    assert_eq!(count("queue:o*").await, Total::AtLeast(max));
    assert_eq!(count("connection").await, Total::AtLeast(max));
    // Who asks for all of them gets all of them.
    for text in ["queue:o*", "connection", "-tenant:x", "body:no"] {
        let filter = Filter::from_text(text).unwrap();
        let rows = rig.walk(&filter, at(1), Sort::DiedAtDesc, 500).await.len() as u64;
        assert_eq!(rig.store().count_all(filter, at(1)).await.unwrap(), Total::Exact(rows), "{text}");
    }
    // What counters answer is exact, however much it is.
    assert_eq!(count("").await, Total::Exact(max + 1));
    assert_eq!(count("queue:orders").await, Total::Exact(max + 1));
    assert_eq!(count("queue:orders -status:pending").await, Total::Exact(0));
    let query = PageQuery {
        filter: Filter::from_text("-tenant:x").unwrap(),
        now: at(0),
        sort: Sort::DiedAtDesc,
        limit: 1,
        after: None,
        scan_max: PageQuery::SCAN_MAX,
    };
    assert_eq!(rig.store().list(query).await.unwrap().total, Total::AtLeast(max));
}

pub async fn a_counted_total_is_the_total_of_its_rows(rig: &mut Rig) {
    tied(rig, 12).await;
    rig.create(Captured { aggregate: Some("a1".into()), queue: String::new(), ..captured("x") }, at(0)).await;
    for id in rig.find("queue:late").await.into_iter().take(2) {
        rig.done(id, Verb::Discard, at(100)).await;
    }
    for text in [
        "",
        "queue:late",
        "queue:\"\"",
        "queue:nowhere",
        "queue:late status:pending",
        "queue:late -status:pending",
        "status:pending,discarded",
        "source:report",
        "source:report queue:late",
        "type:order.created status:discarded",
        "error:ConnectionError",
        "class:transient",
        "class:transient queue:late",
        "class:transient,unknown",
        "aggregate:a1",
        "-aggregate:a1",
        "queue:late -queue:orders",
    ] {
        let filter = Filter::from_text(text).unwrap();
        let rows = rig.walk(&filter, at(0), Sort::DiedAtDesc, 500).await.len();
        assert_eq!(rig.store().count(filter, at(0)).await.unwrap(), Total::Exact(rows as u64), "{text}");
    }
}
