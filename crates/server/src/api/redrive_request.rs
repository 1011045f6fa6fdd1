//! What is asked of a redrive, read from a body: which letters, how fast, in what order, with how much care.

use std::collections::HashSet;

use lazaret_core::filter::{Bounds, Filter, Patterns};
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::redrive::{Direction, OrderBy, Pace, Prioritization};
use serde_json::Value;

use super::fields::{Fields, bad, number, word, wrong};
use super::letters::read_filter;
use super::problem::{Code, Problem};
use super::redrive_problem::filter_required;
use crate::redrive::{Selection, Wanted};

/// What a plan is asked for.
#[derive(Debug)]
pub(crate) struct PlanAsked {
    pub selection: Selection,
    pub expected: Option<u64>,
    pub wanted: Wanted,
    pub reason: Option<String>,
}

/// When options are stated: some hold for good once there is a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Plan,
    Launch,
}

pub(crate) fn read_plan(mut fields: Fields) -> Result<PlanAsked, Problem> {
    let (wanted, criteria) = take_wanted(&mut fields, Moment::Plan)?;
    let expected = fields.count("expectedCount")?;
    let selection = take_selection(&mut fields, criteria, expected)?;
    let reason = fields.reason("reason")?;
    fields.end()?;
    Ok(PlanAsked { selection, expected, wanted, reason })
}

/// Which letters: by a filter, by their ids, or all of them with their number. A slip never means everything.
fn take_selection(
    fields: &mut Fields,
    criteria: Option<Filter>,
    expected: Option<u64>,
) -> Result<Selection, Problem> {
    let filter = fields.take("filter").map(|filter| read_filter(&filter)).transpose()?.unwrap_or_default();
    let letters = fields.list("letters", limits::PAGE_ROWS_MAX)?;
    let all = fields.flag("all")?.unwrap_or(false);
    let filter = match criteria {
        Some(criteria) => join(filter, criteria)?,
        None => filter,
    };
    match (letters, filter.is_empty(), all) {
        (None, false, false) => Ok(Selection::Filter(filter)),
        (None, true, true) => match expected {
            Some(expected) => Ok(Selection::All { expected }),
            None => Err(bad("expectedCount", "is missing: required with all")
                .hint("get the count with POST /api/v1/dead-letters/count, then send it")),
        },
        (Some(letters), true, false) => read_letters(&letters).map(Selection::Letters),
        (None, true, false) => Err(filter_required()),
        (None, false, true) => {
            Err(Problem::new(Code::BadRequest, "all conflicts with a filter").with("field", "all"))
        }
        (Some(_), ..) => {
            Err(Problem::new(Code::BadRequest, "letters conflicts with filter and all")
                .with("field", "letters"))
        }
    }
}

/// Each once, in the order in which they were named first.
fn read_letters(values: &[Value]) -> Result<Vec<LetterId>, Problem> {
    let mut seen = HashSet::with_capacity(values.len());
    let mut letters = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let path = format!("letters[{at}]");
        let Value::String(text) = value else { return Err(wrong(&path, "an id", value)) };
        let id = LetterId::parse(text)
            .map_err(|error| Problem::new(Code::BadId, error.to_string()).with("field", path))?;
        if seen.insert(id) {
            letters.push(id);
        }
    }
    Ok(letters)
}

/// How it is to go, and the criteria that narrow the filter.
pub(crate) fn take_wanted(fields: &mut Fields, moment: Moment) -> Result<(Wanted, Option<Filter>), Problem> {
    let mut wanted = Wanted {
        pace: take_pace(fields)?,
        canary: fields.number("canary", 0..=limits::CANARY_LETTERS_MAX)?,
        canary_ms: fields.length_ms("canaryTimeout")?,
        canary_assumed: fields.flag("canaryAssumed")?,
        stop_percent: fields.number("stopPercent", 0..=limits::STOP_PERCENT_MAX)?,
        stop_of: fields.number("stopOf", 1..=limits::STOP_OUTCOMES_MAX)?,
        quiet_ms: fields.length_ms("quiet")?,
        ..Wanted::default()
    };
    let Some(mut options) = fields.object("reprocessingOptions")? else { return Ok((wanted, None)) };
    wanted.batch_size = options.number("batchSize", 1..=limits::REDRIVE_BATCH_MAX)?;
    wanted.concurrency = options.number("concurrency", 1..=limits::REDRIVE_CONCURRENCY_MAX)?;
    let criteria_path = options.path("filterCriteria");
    let criteria = options.take("filterCriteria");
    let order = options.object("prioritization")?;
    if moment == Moment::Launch && (criteria.is_some() || order.is_some()) {
        let field = if criteria.is_some() { "filterCriteria" } else { "prioritization" };
        return Err(bad(&options.path(field), "is fixed by the plan").hint("create a new plan to change it"));
    }
    wanted.prioritization = order.map(read_order).transpose()?;
    options.end()?;
    let criteria = criteria.map(|criteria| read_criteria(&criteria_path, &criteria)).transpose()?;
    Ok((wanted, criteria))
}

/// Letters a minute, or a word for it.
fn take_pace(fields: &mut Fields) -> Result<Option<Pace>, Problem> {
    fields.take("pace").map(|value| read_pace(&value)).transpose()
}

pub(crate) fn read_pace(value: &Value) -> Result<Pace, Problem> {
    let expected = format!(
        "an integer from 1 to {} (letters per minute), \"unlimited\" or \"critical\"",
        limits::PACE_PER_MINUTE_MAX
    );
    match value {
        Value::String(text) if text == "unlimited" => Ok(Pace::Unlimited),
        Value::String(text) if text == "critical" => Ok(Pace::CRITICAL),
        Value::Number(_) => number("pace", value, 1..=limits::PACE_PER_MINUTE_MAX)
            .ok()
            .and_then(|rate| Pace::from_per_minute(Some(rate)))
            .ok_or_else(|| wrong("pace", &expected, value)),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong("pace", &expected, value))
        }
    }
}

fn read_order(mut order: Fields) -> Result<Prioritization, Problem> {
    let (by_path, direction_path) = (order.path("orderBy"), order.path("direction"));
    let by = match order.text("orderBy")? {
        Some(text) => word(&by_path, &text, OrderBy::parse, &OrderBy::ALL.map(OrderBy::name))?,
        None => OrderBy::DiedAt,
    };
    let direction = match order.text("direction")? {
        Some(text) => word(&direction_path, &text, Direction::parse, &Direction::ALL.map(Direction::name))?,
        None => Direction::Ascending,
    };
    order.end()?;
    Ok(Prioritization { by, direction })
}

const CRITERIA: [&str; 5] = ["errorTypes", "maxAge", "minRetryCount", "maxRetryCount", "eventPatterns"];

/// The criteria as the published entry schema has them; nothing else is among them.
fn read_criteria(path: &str, value: &Value) -> Result<Filter, Problem> {
    let Value::Object(object) = value else { return Err(wrong(path, "an object", value)) };
    if let Some(unknown) = object.keys().find(|key| !CRITERIA.contains(&key.as_str())) {
        let field = crate::raw_json::shown(&format!("{path}.{unknown}"));
        return Err(Problem::new(Code::BadRequest, format!("unknown field `{field}`"))
            .with("field", field)
            .hint(format!("known: {}; other keys belong in `filter`", CRITERIA.join(", "))));
    }
    Filter::from_json(value).map_err(|error| Problem::from(error).with("field", path))
}

/// What both ask for.
fn join(filter: Filter, criteria: Filter) -> Result<Filter, Problem> {
    let joined = Filter {
        error_type: both("errorTypes", filter.error_type.clone(), criteria.error_type)?,
        letter_type: both("eventPatterns", filter.letter_type.clone(), criteria.letter_type)?,
        age: Bounds { min: filter.age.min, max: least(filter.age.max, criteria.age.max) },
        retries: Bounds {
            min: filter.retries.min.max(criteria.retries.min),
            max: least(filter.retries.max, criteria.retries.max),
        },
        ..filter
    };
    // Read anew, because two ranges that are each fine can leave nothing between them.
    Ok(Filter::from_json(&joined.to_json())?)
}

/// What two lists of patterns have in common cannot be written as one list.
fn both(name: &str, filter: Patterns, criteria: Patterns) -> Result<Patterns, Problem> {
    if criteria.include.is_empty() {
        return Ok(filter);
    }
    if !filter.include.is_empty() && filter.include != criteria.include {
        let field = format!("reprocessingOptions.filterCriteria.{name}");
        return Err(bad(&field, "conflicts with `filter`"));
    }
    Ok(Patterns { include: criteria.include, exclude: filter.exclude })
}

fn least<T: Ord>(left: Option<T>, right: Option<T>) -> Option<T> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PlanAsked, Problem> {
        read_plan(Fields::read(text.as_bytes())?)
    }

    #[test]
    fn the_published_options_are_read_as_they_stand() {
        let asked = read(
            r#"{"reprocessingOptions": {"batchSize": 50, "concurrency": 5,
                "filterCriteria": {"errorTypes": ["NetworkError", "ServiceUnavailableError"], "maxAge": "24h",
                    "minRetryCount": 1, "maxRetryCount": 5, "eventPatterns": ["payment.*", "order.created"]},
                "prioritization": {"orderBy": "createdAt", "direction": "asc"}}}"#,
        )
        .unwrap();
        assert_eq!((asked.wanted.batch_size, asked.wanted.concurrency), (Some(50), Some(5)));
        assert_eq!(
            asked.wanted.prioritization,
            Some(Prioritization { by: OrderBy::CreatedAt, direction: Direction::Ascending })
        );
        let Selection::Filter(filter) = asked.selection else { panic!("{:?}", asked.selection) };
        let expected = "error:NetworkError,ServiceUnavailableError type:order.created,payment.* age:<24h";
        let mut expected = Filter::from_text(expected).unwrap();
        expected.retries = Bounds { min: Some(1), max: Some(5) };
        assert_eq!(filter, expected);
    }

    #[test]
    fn criteria_narrow_the_filter() {
        let asked = read(
            r#"{"filter": {"queue": "billing", "retryCount": {"min": 2, "max": 9}},
                "reprocessingOptions": {"filterCriteria": {"minRetryCount": 1, "maxRetryCount": 5, "errorTypes": ["A"]}}}"#,
        )
        .unwrap();
        let Selection::Filter(filter) = asked.selection else { panic!("{:?}", asked.selection) };
        assert_eq!(filter.retries, Bounds { min: Some(2), max: Some(5) });
        assert_eq!((filter.queue, filter.error_type), (Patterns::only("billing"), Patterns::only("A")));
    }

    #[test]
    fn a_pace_is_a_number_or_a_word() {
        let pace = |text: &str| read(&format!(r#"{{"filter":{{"q":"queue:a"}},"pace":{text}}}"#));
        assert_eq!(pace("3000").unwrap().wanted.pace, Pace::from_per_minute(Some(3_000)));
        assert_eq!(pace("\"unlimited\"").unwrap().wanted.pace, Some(Pace::Unlimited));
        assert_eq!(pace("\"critical\"").unwrap().wanted.pace, Some(Pace::CRITICAL));
        for bad in ["0", "-1", "1.5", "1000001", "1e300", "99999999999999999999", "\"fast\"", "[]", "true"] {
            assert!(pace(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn letters_are_named_once() {
        let id = "019a8b1c-7e00-7000-8000-000000000000";
        let asked = read(&format!(r#"{{"letters":["{id}","{id}"]}}"#)).unwrap();
        assert_eq!(asked.selection, Selection::Letters(vec![LetterId::parse(id).unwrap()]));
    }
}
