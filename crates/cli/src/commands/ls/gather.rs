//! One page of letters out of as many answers as it takes.
//!
//! A search that no index can answer is cut short by the server when its time runs out. Whoever asked for fifty letters
//! means fifty, so that the search goes on from there until they are found, none is left, or somebody stops it.

use indicatif::ProgressBar;

use crate::answers::search::Scan;
use crate::answers::{Page, RawPage};
use crate::output::moment;

/// One answer, and its own text for `--json`.
#[derive(Debug)]
pub struct Fetched {
    pub page: Page,
    pub text: String,
}

/// Why no more answers are fetched.
#[derive(Debug)]
pub enum End {
    /// The page is full, or there is no more.
    Reached,
    /// Somebody did not want to wait any longer.
    Interrupted,
    Failed(anyhow::Error),
}

#[derive(Debug)]
pub struct Gathered {
    pub page: Page,
    pub end: End,
    texts: Vec<String>,
}

/// Fetches until there are `limit` letters or no more. `fetch` takes a cursor and how many letters are still wanted.
pub async fn gather(
    cursor: Option<&str>,
    limit: usize,
    bar: ProgressBar,
    fetch: impl AsyncFn(Option<&str>, usize) -> anyhow::Result<Fetched>,
) -> anyhow::Result<Gathered> {
    let first = fetch(cursor, limit).await?;
    let mut gathered = Gathered { page: first.page, end: End::Reached, texts: vec![first.text] };
    while let Some(cursor) = gathered.unfinished(limit) {
        let looked_at = gathered.page.scan.map_or(0, |scan| scan.letters);
        bar.set_position(looked_at);
        let found = moment::count(gathered.page.items.len() as u64);
        bar.set_message(format!("scanned, {found} found; Ctrl-C shows them"));
        let wanted = limit - gathered.page.items.len();
        let fetched = tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => {
                gathered.end = End::Interrupted;
                break;
            }
            fetched = fetch(Some(&cursor), wanted) => fetched,
        };
        match fetched {
            Ok(next) => gathered.add(next),
            Err(error) => {
                gathered.end = End::Failed(error);
                break;
            }
        }
    }
    bar.finish_and_clear();
    Ok(gathered)
}

impl Gathered {
    /// Where to go on if the last answer was cut short and there is still room.
    fn unfinished(&self, limit: usize) -> Option<String> {
        let cut_short = self.page.scan.is_some_and(|scan| scan.cut_short);
        if !cut_short || self.page.items.len() >= limit {
            return None;
        }
        self.page.next_cursor.clone()
    }

    fn add(&mut self, next: Fetched) {
        let page = &mut self.page;
        page.items.extend(next.page.items);
        page.scan = add_scans(page.scan, next.page.scan);
        page.body_index = next.page.body_index.or(page.body_index.take());
        page.next_cursor = next.page.next_cursor;
        // An answer may count only what itself has found.
        page.total = page.total.max(next.page.total).max(page.items.len() as u64);
        page.total_is_at_least = next.page.total_is_at_least;
        self.texts.push(next.text);
    }

    /// The server's own answer, or one like it where there were several. Letters stay exactly as they were written.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        if let [only] = self.texts.as_slice() {
            return Ok(only.clone());
        }
        let mut items = Vec::new();
        for text in &self.texts {
            items.extend(serde_json::from_str::<RawPage>(text)?.items);
        }
        let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
        let rest = serde_json::json!({
            "total": self.page.total,
            "totalIsAtLeast": self.page.total_is_at_least,
            "nextCursor": self.page.next_cursor,
            "scan": self.page.scan.map(|scan| serde_json::json!({
                "letters": scan.letters,
                "cutShort": scan.cut_short,
            })),
        });
        let rest = rest.to_string();
        Ok(format!("{{\"items\":[{}],{}", items.join(","), rest.trim_start_matches('{')))
    }
}

/// What several answers cost together; whether the last was cut short is what counts.
pub fn add_scans(before: Option<Scan>, next: Option<Scan>) -> Option<Scan> {
    match (before, next) {
        (Some(before), Some(next)) => {
            Some(Scan { letters: before.letters.saturating_add(next.letters), cut_short: next.cut_short })
        }
        (Some(before), None) => Some(Scan { cut_short: false, ..before }),
        (None, next) => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A page of letters with these ids, its cursor the number of the page that follows.
    fn fetched(ids: &[&str], next: Option<&str>, cut_short: bool) -> Fetched {
        let letter = |id: &&str| {
            format!(
                r#"{{"id":"{id}","eventId":"e","source":"s","type":"t","queue":"q","error":{{}},"class":"c","retryCount":1,
                "status":"pending","place":"live","life":1,"createdAt":"","diedAt":""}}"#
            )
        };
        let items: Vec<String> = ids.iter().map(letter).collect();
        let text = format!(
            r#"{{"items":[{}],"total":{},"totalIsAtLeast":true,"nextCursor":{},"scan":{{"letters":100,"cutShort":{cut_short}}}}}"#,
            items.join(","),
            ids.len(),
            next.map_or("null".into(), |next| format!("\"{next}\"")),
        );
        Fetched { page: serde_json::from_str(&text).unwrap(), text }
    }

    /// Gathers from these pages and tells what was asked, and what came of it.
    fn gathered(limit: usize, pages: Vec<Fetched>) -> (Vec<(Option<String>, usize)>, Gathered) {
        let asked = RefCell::new(Vec::new());
        let pages = RefCell::new(pages.into_iter());
        let fetch = async |cursor: Option<&str>, wanted: usize| {
            asked.borrow_mut().push((cursor.map(str::to_owned), wanted));
            pages.borrow_mut().next().ok_or_else(|| anyhow::anyhow!("the server is gone"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let gathered = runtime.block_on(gather(None, limit, ProgressBar::hidden(), fetch)).unwrap();
        (asked.into_inner(), gathered)
    }

    #[test]
    fn a_page_that_was_cut_short_is_filled_from_where_it_ended() {
        let pages = vec![
            fetched(&["a"], Some("2"), true),
            fetched(&[], Some("3"), true),
            fetched(&["b", "c"], Some("4"), true),
        ];
        let (asked, gathered) = gathered(3, pages);
        assert_eq!(asked, [(None, 3), (Some("2".into()), 2), (Some("3".into()), 2)]);
        assert!(matches!(gathered.end, End::Reached));
        let json: serde_json::Value = serde_json::from_str(&gathered.json().unwrap()).unwrap();
        let ids: Vec<&str> =
            json["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!((&json["total"], &json["nextCursor"]), (&3.into(), &"4".into()));
        assert_eq!(json["scan"], serde_json::json!({"letters": 300, "cutShort": true}));
    }

    #[test]
    fn a_page_that_is_whole_is_the_servers_own() {
        let page = fetched(&["a"], Some("2"), false);
        let text = page.text.clone();
        let (asked, gathered) = gathered(3, vec![page]);
        assert_eq!((asked.len(), gathered.json().unwrap()), (1, text));
    }

    #[test]
    fn what_was_found_before_a_failure_is_kept() {
        let (asked, gathered) = gathered(3, vec![fetched(&["a"], Some("2"), true)]);
        assert_eq!((asked.len(), gathered.page.items.len()), (2, 1));
        assert!(matches!(gathered.end, End::Failed(_)));
    }
}
