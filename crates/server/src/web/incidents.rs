//! The list of incidents as cards: what went wrong, how much of it, and how it stands.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lazaret_core::class::ErrorClass;
use lazaret_core::incident::IncidentState;
use lazaret_core::time::Time;
use lazaret_store::incident::IncidentSort;

use super::chart;
use super::format as filters;
use super::format::{encoded, grouped};
use super::frame::Page;
use super::shell::{Shell, UNSETTLED};
use super::viewer::{Theme, Viewer};
use super::zone::Zone;
use crate::api::incidents;
use crate::api::letters::Pairs;
use crate::api::problem::Problem;
use crate::api::wire::incident::{IncidentBody, IncidentList, Sparkline};
use crate::app::App;

/// Cards on a page: enough to see a bad night, few enough for a slow network.
const CARDS: &str = "30";

/// What is asked for unless a state is.
const NOT_CLOSED: &str = "";
const EVERY_STATE: &str = "all";

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.route("/incidents", get(show))
}

/// The states that wait for a person, as the API takes them.
pub(super) fn unsettled() -> String {
    UNSETTLED.map(IncidentState::name).join(",")
}

#[derive(Template)]
#[template(path = "incidents.html")]
struct Incidents {
    shell: Shell,
    asked: Asked,
    cards: Vec<Card>,
    total: u64,
    /// The address of the next page.
    next: Option<String>,
    /// Whether this is not the first page.
    later: bool,
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let shell = Shell::new(&app, &viewer, "Incidents", "/incidents").await?;
    let asked = Asked::new(pairs);
    let (list, problem) = match incidents::list(State(app), Ok(Query(asked.query()))).await {
        Ok(list) => (list.0, None),
        // What was typed stays in the fields, and the page says what is wrong with it.
        Err(problem) if problem.status().is_client_error() => {
            (IncidentList { items: Vec::new(), total: 0, next_cursor: None }, Some(problem))
        }
        Err(problem) => return Err(problem),
    };
    let status = problem.as_ref().map_or(http::StatusCode::OK, Problem::status);
    let page = Incidents {
        shell: shell.with(problem.as_ref()),
        next: list.next_cursor.map(|cursor| asked.address(&[("cursor", &cursor)])),
        later: !asked.get("cursor").is_empty(),
        total: list.total,
        cards: list.items.into_iter().map(|body| Card::new(body, viewer.zone)).collect(),
        asked,
    };
    Ok((status, Page(page)).into_response())
}

/// What the form asks for, without what was left empty.
struct Asked(Vec<(String, String)>);

impl Asked {
    fn new(pairs: Vec<(String, String)>) -> Asked {
        Asked(pairs.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The same as the API takes it, which shows all states unless told otherwise.
    fn query(&self) -> Vec<(String, String)> {
        let mut pairs: Vec<(String, String)> =
            self.0.iter().filter(|(key, value)| !(key == "state" && value == EVERY_STATE)).cloned().collect();
        if self.get("state") == NOT_CLOSED {
            pairs.push(("state".into(), unsettled()));
        }
        if self.get("limit").is_empty() {
            pairs.push(("limit".into(), CARDS.into()));
        }
        pairs
    }

    /// The address of this list with some things asked otherwise; an empty value takes one out.
    fn address(&self, changes: &[(&str, &str)]) -> String {
        let kept = self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        // A page of one list is no page of another.
        let kept =
            kept.filter(|(key, _)| *key != "cursor" && !changes.iter().any(|(changed, _)| changed == key));
        let all = kept.chain(changes.iter().copied()).filter(|(_, value)| !value.is_empty());
        let pairs: Vec<String> =
            all.map(|(key, value)| format!("{}={}", encoded(key), encoded(value))).collect();
        if pairs.is_empty() { "/incidents".into() } else { format!("/incidents?{}", pairs.join("&")) }
    }

    /// The choices of a state: value, words, whether it is chosen.
    fn states(&self) -> Vec<Choice> {
        let mut choices = vec![Choice::new(NOT_CLOSED, "Open"), Choice::new(EVERY_STATE, "All states")];
        choices.extend(IncidentState::ALL.map(|state| Choice::new(state.name(), state.name())));
        chosen(choices, self.get("state"))
    }

    fn classes(&self) -> Vec<Choice> {
        let mut choices = vec![Choice::new("", "All classes")];
        choices
            .extend(ErrorClass::ALL.map(|class| Choice::new(class.name(), &class.name().replace('_', " "))));
        chosen(choices, self.get("class"))
    }

    fn sorts(&self) -> Vec<Choice> {
        let word = |sort| match sort {
            IncidentSort::LastSeenDesc => "Last seen",
            IncidentSort::FirstSeenDesc => "Newest",
            IncidentSort::LettersDesc => "Most letters",
            IncidentSort::UnsettledDesc => "Most unresolved",
        };
        let asked =
            if self.get("sort").is_empty() { IncidentSort::default().name() } else { self.get("sort") };
        chosen(IncidentSort::ALL.map(|sort| Choice::new(sort.name(), word(sort))).into(), asked)
    }

    /// Whether one of the fields is used that are folded away otherwise.
    fn is_narrow(&self) -> bool {
        ["type", "errorType", "class", "since"].iter().any(|key| !self.get(key).is_empty())
    }

    /// Whether anything is asked for.
    fn is_filtered(&self) -> bool {
        self.is_narrow() || !self.get("text").is_empty() || !self.get("state").is_empty()
    }
}

/// One of several values of a field.
struct Choice {
    value: String,
    word: String,
    chosen: bool,
}

impl Choice {
    fn new(value: &str, word: &str) -> Choice {
        Choice { value: value.into(), word: word.into(), chosen: false }
    }
}

/// Marks the one that was asked for; what came from an address by hand is a choice too.
fn chosen(mut choices: Vec<Choice>, asked: &str) -> Vec<Choice> {
    match choices.iter_mut().find(|choice| choice.value == asked) {
        Some(choice) => choice.chosen = true,
        None => choices.push(Choice { chosen: true, ..Choice::new(asked, asked) }),
    }
    choices
}

/// One incident as it is shown among others.
pub(crate) struct Card {
    pub body: IncidentBody,
    pub spark: String,
}

impl Card {
    pub fn new(body: IncidentBody, zone: Zone) -> Card {
        Card { spark: chart::sparkline(&body.sparkline.arrived, &label(&body.sparkline, zone)), body }
    }
}

/// A sparkline in words.
fn label(sparkline: &Sparkline, zone: Zone) -> String {
    let all: u64 = sparkline.arrived.iter().sum();
    let hours = sparkline.arrived.len();
    let most = sparkline.arrived.iter().enumerate().max_by_key(|(_, count)| **count);
    let from = Time::parse(&sparkline.from).ok();
    match (most, from) {
        (Some((at, most)), Some(from)) if *most > 0 => {
            let at = chart::moment(zone.local(from.plus_ms(i64::try_from(at).unwrap_or(0) * 3_600_000)));
            format!(
                "Deaths in the last {hours} hours: {}, at most {} in the hour of {at} {}",
                grouped(all),
                grouped(*most),
                zone.name()
            )
        }
        (_, _) => format!("No deaths in the last {hours} hours"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Asked {
        Asked::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn what_is_closed_is_shown_only_when_asked_for() {
        let states = |asked: Asked| -> Vec<String> {
            asked.query().into_iter().filter(|(key, _)| key == "state").map(|(_, value)| value).collect()
        };
        assert_eq!(states(asked(&[])), ["open,diagnosed,fixed,redriving,verifying,regressed"]);
        assert_eq!(states(asked(&[("state", ""), ("text", "x")])).len(), 1);
        assert_eq!(states(asked(&[("state", "closed")])), ["closed"]);
        assert!(states(asked(&[("state", "all")])).is_empty());
    }

    #[test]
    fn addresses_keep_what_was_asked_and_begin_anew_when_it_changes() {
        let asked = asked(&[("type", "a&b"), ("since", " "), ("cursor", "c")]);
        assert_eq!(asked.address(&[]), "/incidents?type=a%26b");
        assert_eq!(asked.address(&[("cursor", "d")]), "/incidents?type=a%26b&cursor=d");
        assert_eq!(asked.address(&[("type", "")]), "/incidents");
    }
}
