//! The letters of a run: what became of each, which of them wait for a person, what was sent instead of an original.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use lazaret_core::redrive::Outcome;

use super::address;
use super::outcomes::{counts, told};
use crate::api::problem::{Code, Problem};
use crate::api::wire::edit::EditBody;
use crate::api::wire::redrive::{RedriveBody, RedriveLetterBody};
use crate::api::{redrives, retry};
use crate::app::App;
use crate::web::format::grouped;

/// Letters of one kind that are listed beside the run.
const LISTED: &str = "20";

/// One page of the letters of a run.
pub(super) struct Letters {
    pub rows: Vec<RedriveLetterBody>,
    pub choices: Vec<Choice>,
    pub first: Option<String>,
    pub next: Option<String>,
}

/// One outcome to choose, or all of them.
pub(super) struct Choice {
    pub label: String,
    pub address: String,
    pub is_chosen: bool,
}

/// Reads the page of letters that an address asks for.
pub(super) async fn page(
    app: &Arc<App>,
    redrive: &RedriveBody,
    asked: Vec<(String, String)>,
) -> Result<Letters, Problem> {
    let asked: Vec<_> = asked.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let find = |name: &str| asked.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let (outcome, cursor) = (find("outcome"), find("cursor"));
    let list = list(app, &redrive.id, asked).await?;
    let at = |outcome: Option<&str>, cursor: Option<&str>| {
        let outcome = outcome.map(|outcome| ("outcome", outcome));
        let pairs: Vec<_> = outcome.into_iter().chain(cursor.map(|cursor| ("cursor", cursor))).collect();
        format!("{}#letters", address(&format!("/redrives/{}", redrive.id), &pairs))
    };
    let all = Choice { label: "all".to_owned(), address: at(None, None), is_chosen: outcome.is_none() };
    let each = counts(&redrive.letters).into_iter().filter(|(it, count)| {
        // The one that is looked at stays, also when its last letter has moved on.
        *count > 0 || outcome.as_deref() == Some(it.name())
    });
    let each = each.map(|(it, count)| Choice {
        label: format!("{} {}", grouped(count), told(it).1),
        address: at(Some(it.name()), None),
        is_chosen: outcome.as_deref() == Some(it.name()),
    });
    Ok(Letters {
        choices: std::iter::once(all).chain(each).collect(),
        first: cursor.map(|_| at(outcome.as_deref(), None)),
        next: list.1.map(|cursor| at(outcome.as_deref(), Some(&cursor))),
        rows: list.0,
    })
}

/// The first letters of one outcome.
pub(super) async fn of(
    app: &Arc<App>,
    redrive: &RedriveBody,
    outcome: Outcome,
) -> Result<Vec<RedriveLetterBody>, Problem> {
    if counts(&redrive.letters).get(&outcome).is_none_or(|count| *count == 0) {
        return Ok(Vec::new());
    }
    let asked = [("outcome", outcome.name()), ("limit", LISTED)];
    let asked = asked.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    Ok(list(app, &redrive.id, asked).await?.0)
}

/// The first letters of which nobody knows whether they were sent, so many at most.
pub(super) async fn unknown(app: &Arc<App>, id: &str, most: u64) -> Result<Vec<RedriveLetterBody>, Problem> {
    let (mut all, mut cursor) = (Vec::new(), Some(String::new()));
    while let Some(after) = cursor.filter(|_| (all.len() as u64) < most) {
        let asked = [("outcome", Outcome::Unknown.name()), ("limit", "500"), ("cursor", after.as_str())];
        let asked = asked.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let (rows, next) = list(app, id, asked).await?;
        all.extend(rows);
        cursor = next;
    }
    Ok(all)
}

async fn list(
    app: &Arc<App>,
    id: &str,
    asked: Vec<(String, String)>,
) -> Result<(Vec<RedriveLetterBody>, Option<String>), Problem> {
    let list = redrives::letters(State(Arc::clone(app)), Ok(Path(id.to_owned())), Ok(Query(asked))).await?.0;
    Ok((list.items, list.next_cursor))
}

/// What was sent in place of the original, for the redrive of one letter that was changed.
pub(super) async fn edit(app: &Arc<App>, redrive: &RedriveBody) -> Result<Option<EditBody>, Problem> {
    let Some(number) = redrive.edit else { return Ok(None) };
    let rows = list(app, &redrive.id, vec![("limit".to_owned(), "1".to_owned())]).await?.0;
    let Some(only) = rows.into_iter().next() else { return Ok(None) };
    match retry::edits(State(Arc::clone(app)), Ok(Path(only.letter_id))).await {
        Ok(edits) => Ok(edits.0.items.into_iter().find(|edit| edit.number == number)),
        // The letter is not among the live ones any more; what became of it is told all the same.
        Err(problem) if problem.code() == Code::NotFound => Ok(None),
        Err(problem) => Err(problem),
    }
}
