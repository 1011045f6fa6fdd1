//! The filter of the list: as it was typed, term by term, and what could be typed next.

use std::sync::Arc;

use axum::extract::{Query, State};
use lazaret_core::cursor::Sort;
use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::limits;

use crate::api::letters::Pairs;
use crate::api::problem::Problem;
use crate::api::suggest::suggest;
use crate::app::App;
use crate::web::format::{encoded, grouped, visible};

/// What is shown to whoever asks for nothing: the letters that wait for a decision.
pub(super) const DEFAULT: &str = "status:pending";

/// What the list was asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub q: String,
    pub sort: Option<String>,
    pub cursor: Option<String>,
    /// An operation whose progress is shown above the list.
    pub operation: Option<String>,
}

/// One term of the filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chip {
    pub term: String,
    /// The list without it.
    pub without: String,
}

pub(super) struct SortChoice {
    pub name: &'static str,
    pub label: &'static str,
    pub chosen: bool,
}

pub(super) struct Suggestion {
    pub value: String,
    pub label: String,
}

impl Asked {
    pub fn read(pairs: Pairs) -> Result<Asked, Problem> {
        let (mut q, mut asked) =
            (None, Asked { q: String::new(), sort: None, cursor: None, operation: None });
        for (key, value) in pairs?.0 {
            match key.as_str() {
                "q" => q = Some(value.trim().to_owned()),
                "sort" => asked.sort = Some(value).filter(|sort| !sort.is_empty()),
                "cursor" => asked.cursor = Some(value).filter(|cursor| !cursor.is_empty()),
                "operation" => asked.operation = Some(value),
                // An address that somebody made longer still shows the list.
                _ => {}
            }
        }
        asked.q = q.unwrap_or_else(|| DEFAULT.to_owned());
        Ok(asked)
    }

    /// What the API is asked.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs = vec![("q".to_owned(), self.q.clone())];
        pairs.extend(self.sort.clone().map(|sort| ("sort".to_owned(), sort)));
        pairs.extend(self.cursor.clone().map(|cursor| ("cursor".to_owned(), cursor)));
        pairs
    }

    /// The address of a page of this list.
    pub fn address(&self, cursor: Option<&str>) -> String {
        let sort = self.sort.as_deref().map(|sort| format!("&sort={}", encoded(sort))).unwrap_or_default();
        let cursor = cursor.map(|cursor| format!("&cursor={}", encoded(cursor))).unwrap_or_default();
        format!("/letters?q={}{sort}{cursor}", encoded(&self.q))
    }

    /// The terms of the filter; none if it cannot be read.
    pub fn chips(&self) -> Vec<Chip> {
        let terms = Filter::from_text(&self.q).map(|filter| filter.terms()).unwrap_or_default();
        let without = |left_out: usize| {
            let kept = terms.iter().enumerate().filter(|(at, _)| *at != left_out);
            let kept: Vec<&str> = kept.map(|(_, term)| term.as_str()).collect();
            Asked { q: kept.join(" "), cursor: None, operation: None, ..self.clone() }.address(None)
        };
        let chip = |(at, term): (usize, &String)| Chip { term: term.clone(), without: without(at) };
        terms.iter().enumerate().map(chip).collect()
    }

    pub fn sorts(&self) -> Vec<SortChoice> {
        let chosen = self.sort.as_deref().and_then(Sort::parse).unwrap_or_default();
        let choice = |sort: Sort| SortChoice {
            name: sort.name(),
            label: match sort.name() {
                "-diedAt" => "Died, newest first",
                "diedAt" => "Died, oldest first",
                "-createdAt" => "Captured, newest first",
                _ => "Captured, oldest first",
            },
            chosen: sort == chosen,
        };
        Sort::ALL.into_iter().map(choice).collect()
    }
}

/// Values that occur, written as the filter with them would be: a browser compares them with all that is typed.
pub(super) async fn suggestions(app: &Arc<App>, asked: &Asked) -> Result<Vec<Suggestion>, Problem> {
    type Term = fn(Patterns) -> Filter;
    let keys: [(&str, Term); 4] = [
        ("queue", |queue| Filter { queue, ..Filter::default() }),
        ("type", |letter_type| Filter { letter_type, ..Filter::default() }),
        ("errorType", |error_type| Filter { error_type, ..Filter::default() }),
        ("source", |source| Filter { source, ..Filter::default() }),
    ];
    let before = match asked.q.len() {
        1..=limits::WEB_SUGGESTED_BYTES_MAX => format!("{} ", asked.q),
        _ => String::new(),
    };
    let mut all = Vec::new();
    for (key, term) in keys {
        let limit = limits::WEB_SUGGESTIONS.to_string();
        let pairs = vec![("key".to_owned(), key.to_owned()), ("limit".to_owned(), limit)];
        let found = suggest(State(Arc::clone(app)), Ok(Query(pairs))).await?.0;
        // A long value, or one with signs that nobody sees, is found by its beginning and a star, not by a suggestion.
        let usable = |value: &str| value.len() <= limits::WEB_SUGGESTED_BYTES_MAX && visible(value) == value;
        let offered = found.items.into_iter().filter(|item| usable(&item.value));
        all.extend(offered.map(|item| Suggestion {
            value: format!("{before}{}", term(Patterns::only(&item.value))),
            label: item.count.map(|count| format!("{} letters", grouped(count))).unwrap_or_default(),
        }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(q: &str) -> Asked {
        Asked { q: q.into(), sort: Some("diedAt".into()), cursor: Some("c".into()), operation: None }
    }

    #[test]
    fn every_term_can_be_taken_away() {
        let chips = asked("refused status:pending,resolved -queue:\"a b\"").chips();
        let expected = [
            ("-queue:\"a b\"", "/letters?q=status%3Apending%2Cresolved+refused&sort=diedAt"),
            ("status:pending,resolved", "/letters?q=-queue%3A%22a+b%22+refused&sort=diedAt"),
            ("refused", "/letters?q=-queue%3A%22a+b%22+status%3Apending%2Cresolved&sort=diedAt"),
        ];
        let expected = expected.map(|(term, without)| Chip { term: term.into(), without: without.into() });
        assert_eq!(chips, expected);
        assert_eq!(asked("").chips(), []);
        assert_eq!(asked("nonsense:").chips(), []);
    }

    #[test]
    fn the_address_of_a_page_is_the_list_and_its_cursor() {
        assert_eq!(asked("a").address(Some("x/y")), "/letters?q=a&sort=diedAt&cursor=x%2Fy");
    }
}
