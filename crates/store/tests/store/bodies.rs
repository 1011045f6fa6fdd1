//! Searching inside of letters: the index may lag, and searches still find what is there.

use std::time::Duration;

use lazaret_core::cursor::Sort;
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::letter::Captured;
use lazaret_store::decision::{OperationState, Verb};
use lazaret_store::page::{LetterPage, PageQuery, Total};
use lazaret_store::search::BodyIndex;

use crate::rig::{Rig, at, captured, dying, envelope};

fn saying(event: &str, body: &str) -> Captured {
    Captured { envelope: envelope(body.as_bytes()), ..captured(event) }
}

/// Lives in the index, and lives behind it.
fn reached(index: BodyIndex) -> (u64, u64) {
    (index.indexed, index.behind)
}

/// The letters that match, oldest first.
async fn find(rig: &Rig, filter: &str) -> Vec<LetterId> {
    let mut found = rig.find(filter).await;
    found.sort();
    found
}

async fn page(rig: &Rig, filter: &str, limit: usize, scan_max: Duration) -> LetterPage {
    let filter = Filter::from_text(filter).unwrap();
    let query = PageQuery { filter, now: at(9_000), sort: Sort::DiedAtAsc, limit, after: None, scan_max };
    rig.store().list(query).await.unwrap()
}

pub async fn words_of_bodies_and_headers_are_found_before_and_after_they_are_indexed(rig: &mut Rig) {
    let ann = rig.create(saying("a", r#"{"customer":{"name":"Ann Lee","vip":true}}"#), at(0)).await;
    let bob = rig.create(saying("b", r#"{"customer":{"name":"Bob"},"total":12.50}"#), at(1)).await;
    let text = rig.create(saying("c", "Ann wrote this by hand"), at(2)).await;
    for indexed in 0..4 {
        assert_eq!(find(rig, "body:ann").await, [ann, text], "{indexed} are indexed");
        assert_eq!(find(rig, "body:\"lee ann\"").await, [ann]);
        assert_eq!(find(rig, "body:customer").await, [ann, bob], "names of members are words too");
        assert_eq!(find(rig, "body:7").await, [ann, bob, text], "and values of headers");
        assert_eq!(find(rig, "path:$.customer.vip").await, [ann]);
        assert_eq!(find(rig, "path:$.total=12.5").await, [bob]);
        assert_eq!(find(rig, "headerPath:$.trace=7").await.len(), 3);
        assert_eq!(find(rig, "body:nobody").await, []);
        let index = rig.store().index_bodies(1).await.unwrap();
        assert_eq!(reached(index), ((indexed + 1).min(3), 2_u64.saturating_sub(indexed)));
    }
    rig.reopen().await;
    assert_eq!(reached(rig.store().body_index().await.unwrap()), (3, 0));
    assert_eq!(find(rig, "body:ann").await, [ann, text]);
}

pub async fn the_lag_of_the_index_is_known(rig: &mut Rig) {
    rig.create(captured("a"), at(100)).await;
    rig.create(captured("b"), at(200)).await;
    rig.store().index_bodies(1).await.unwrap();
    let expected = BodyIndex { indexed: 1, behind: 1, behind_since: Some(at(200)) };
    assert_eq!(rig.store().body_index().await.unwrap(), expected);
}

pub async fn a_letter_is_found_by_its_present_life(rig: &mut Rig) {
    let id = rig.create(saying("a", r#"{"state":"before"}"#), at(0)).await;
    rig.store().index_bodies(10).await.unwrap();
    let again = Captured { envelope: envelope(br#"{"state":"after"}"#), ..dying("a", at(500)) };
    rig.capture(again, at(500)).await;
    for _ in 0..2 {
        assert_eq!(find(rig, "body:before").await, []);
        assert_eq!(find(rig, "body:after").await, [id]);
        rig.store().index_bodies(10).await.unwrap();
    }
}

pub async fn a_search_that_takes_too_long_goes_on_from_its_cursor(rig: &mut Rig) {
    let mut odd = Vec::new();
    for n in 0..9 {
        let id = rig.create(saying(&format!("e{n}"), &format!("{{\"n\":{}}}", n % 2)), at(n)).await;
        if n % 2 == 1 {
            odd.push(id);
        }
    }
    let mut found: Vec<LetterId> = Vec::new();
    let (mut after, mut pages) = (None, 0);
    loop {
        let query = PageQuery {
            filter: Filter::from_text("path:$.n=1").unwrap(),
            now: at(9_000),
            sort: Sort::DiedAtAsc,
            limit: 5,
            after,
            scan_max: Duration::ZERO,
        };
        let page = rig.store().list(query).await.unwrap();
        let scan = page.scan.expect("content was looked at");
        assert_eq!((scan.letters, scan.cut_short), (1, page.next.is_some()));
        found.extend(page.letters.iter().map(|letter| letter.id));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, pages), (odd, 9));
}

pub async fn a_page_that_looked_into_letters_says_so_and_counts(rig: &mut Rig) {
    for n in 0..10 {
        rig.create(saying(&format!("e{n}"), &format!("{{\"n\":{}}}", n % 2)), at(n)).await;
    }
    let whole = page(rig, "path:$.n=1", 50, PageQuery::SCAN_MAX).await;
    assert_eq!((whole.letters.len(), whole.total), (5, Total::Exact(5)));
    assert_eq!(whole.scan.map(|scan| (scan.letters, scan.cut_short)), Some((10, false)));
    let part = page(rig, "path:$.n=1", 2, PageQuery::SCAN_MAX).await;
    assert_eq!((part.letters.len(), part.total, part.next.is_some()), (2, Total::Exact(5), true));
    assert!(!part.scan.unwrap().cut_short, "the page is full");
    assert_eq!(page(rig, "queue:orders", 2, PageQuery::SCAN_MAX).await.scan, None);
}

pub async fn a_decision_by_content_takes_exactly_what_matches(rig: &mut Rig) {
    let mut odd = Vec::new();
    for n in 0..40 {
        let id = rig.create(saying(&format!("e{n}"), &format!("{{\"n\":{}}}", n % 2)), at(n)).await;
        if n % 2 == 1 {
            odd.push(id);
        }
    }
    let id = rig.open_operation(Verb::Resolve, "path:$.n=1", 20, at(100)).await;
    let (operation, _) = rig.freeze(id).await;
    assert_eq!((operation.state, operation.total), (OperationState::Working, 20));
    rig.work(id, at(200)).await;
    assert_eq!(find(rig, "status:resolved").await, odd);
}
