//! Pages of the dead letter and calls for many of its jobs as clients ask for them, in the query and in JSON.

use lazaret_core::cursor::Sort;
use lazaret_core::filter::Filter;
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::{Map, Value};

use super::wanted::{KEYS, Key, Wanted};
use crate::ojs::problem::{Code, Problem};
use crate::ojs::queues::{read_offset, too_far};
use crate::ojs::{given, read_limit};
use crate::raw_json::shown;

/// Which part of a list.
#[derive(Debug)]
pub(super) struct Paging {
    pub limit: usize,
    pub offset: usize,
    /// Beats the offset.
    pub cursor: Option<String>,
}

/// Which page of a list, counted from 1.
#[derive(Debug)]
pub(super) struct Numbered {
    pub page: usize,
    pub per_page: usize,
}

impl Numbered {
    pub(super) fn offset(&self) -> Result<usize, Problem> {
        let offset = (self.page - 1).checked_mul(self.per_page);
        offset.filter(|offset| *offset <= limits::OJS_OFFSET_MAX).ok_or_else(too_far)
    }
}

/// What is listed, and how.
#[derive(Debug)]
pub(super) struct Listed<P> {
    pub filter: Filter,
    pub sort: Sort,
    pub paging: P,
}

pub(super) fn list(pairs: &[(String, String)]) -> Result<Listed<Paging>, Problem> {
    let mut paging = Paging { limit: limits::PAGE_ROWS, offset: 0, cursor: None };
    let (filter, sort) = listed(pairs, |key, value| {
        match key {
            "limit" => paging.limit = read_limit("limit", value, limits::OJS_PAGE_ROWS_MAX)?,
            "offset" => paging.offset = read_offset(value)?,
            "cursor" => paging.cursor = Some(value.to_owned()),
            // A key that is not known narrows nothing, and a list does no harm.
            _ => {}
        }
        Ok(())
    })?;
    Ok(Listed { filter, sort, paging })
}

pub(super) fn admin_list(pairs: &[(String, String)]) -> Result<Listed<Numbered>, Problem> {
    let mut paging = Numbered { page: 1, per_page: limits::OJS_ADMIN_ROWS };
    let (filter, sort) = listed(pairs, |key, value| {
        match key {
            "page" => paging.page = read_limit("page", value, usize::MAX)?,
            "per_page" => paging.per_page = read_limit("per_page", value, limits::OJS_ADMIN_ROWS_MAX)?,
            // A key that is not known narrows nothing, and a list does no harm.
            _ => {}
        }
        Ok(())
    })?;
    Ok(Listed { filter, sort, paging })
}

/// What all lists understand; the rest is handed over.
fn listed(
    pairs: &[(String, String)],
    mut rest: impl FnMut(&str, &str) -> Result<(), Problem>,
) -> Result<(Filter, Sort), Problem> {
    let mut wanted = Wanted::default();
    let (mut by, mut order) = (By::Death, Order::Descending);
    for (key, value) in pairs {
        if wanted.take(key, value)? == Key::Known {
            continue;
        }
        let Some(value) = given(value) else { continue };
        match key.as_str() {
            "sort" => by = read_sort(value)?,
            "order" => order = read_order(value)?,
            key => rest(key, value)?,
        }
    }
    let sort = match (by, order) {
        (By::Death, Order::Descending) => Sort::DiedAtDesc,
        (By::Death, Order::Ascending) => Sort::DiedAtAsc,
        (By::FirstDeath, Order::Descending) => Sort::CreatedAtDesc,
        (By::FirstDeath, Order::Ascending) => Sort::CreatedAtAsc,
    };
    Ok((wanted.filter()?, sort))
}

#[derive(Clone, Copy)]
enum By {
    Death,
    /// When the job came into the dead letter for the first time.
    FirstDeath,
}

#[derive(Clone, Copy)]
enum Order {
    Ascending,
    Descending,
}

fn read_sort(value: &str) -> Result<By, Problem> {
    match value {
        "discarded_at" | "died_at" => Ok(By::Death),
        "added_at" => Ok(By::FirstDeath),
        _ => {
            let message = format!("cannot sort by `{}`", shown(value));
            Err(Problem::new(Code::InvalidRequest, message)
                .hint("sort keys: discarded_at (alias died_at), added_at")
                .detail("field", "sort"))
        }
    }
}

fn read_order(value: &str) -> Result<Order, Problem> {
    match value {
        "asc" => Ok(Order::Ascending),
        "desc" => Ok(Order::Descending),
        _ => {
            let message = format!("order must be asc or desc, got `{}`", shown(value));
            Err(Problem::new(Code::InvalidRequest, message).detail("field", "order"))
        }
    }
}

/// What a call for many is about.
#[derive(Debug)]
pub(super) struct Bulk {
    pub filter: Filter,
    pub expected: Option<u64>,
    pub reason: Option<String>,
}

/// How a call for many says that it is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Confirmed {
    /// By `confirm: true`.
    InWords,
    /// By the address it is sent to.
    ByPath,
}

/// Reads a call for many from query and body, which may each hold any part of it. A key that we do not know is refused:
/// left out, it would mean more jobs than were meant.
pub(super) fn bulk(
    pairs: &[(String, String)],
    body: &str,
    by: Confirmed,
    now: Time,
) -> Result<Bulk, Problem> {
    let mut call = Call::default();
    for (key, value) in pairs {
        call.pair(key, value)?;
    }
    for (key, value) in &object(body)? {
        call.field(key, value)?;
    }
    call.read(by, now)
}

/// A call for many that is being read.
#[derive(Default)]
struct Call {
    wanted: Wanted,
    confirm: Option<bool>,
    all: bool,
    expected: Option<u64>,
    reason: Option<String>,
}

impl Call {
    fn pair(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        if self.wanted.take(key, value)? == Key::Known {
            return not_blank(key, value);
        }
        let value = value.trim();
        let json = match key {
            "confirm" | "all" => match value {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => Value::String(value.to_owned()),
            },
            "expected_count" => value.parse::<u64>().map_or(Value::Null, Value::from),
            "reason" => Value::String(value.to_owned()),
            _ => return Err(unknown(key)),
        };
        // A number that is none must not be taken for one that was left out.
        if json.is_null() {
            return Err(not_a("a number", key));
        }
        self.field(key, &json)
    }

    fn field(&mut self, key: &str, value: &Value) -> Result<(), Problem> {
        if self.wanted.take_json(key, value, &shown(key))? == Key::Known {
            return not_blank(key, value.as_str().unwrap_or(key));
        }
        if value.is_null() {
            return Ok(());
        }
        match (key, value) {
            ("filter", Value::Object(keys)) => self.filter(keys)?,
            ("filter", _) => return Err(not_a("an object", key)),
            ("confirm", Value::Bool(confirm)) => self.confirm = Some(*confirm),
            ("all", Value::Bool(all)) => self.all = *all,
            ("confirm" | "all", _) => return Err(not_a("true or false", key)),
            ("expected_count", value) => {
                self.expected = Some(value.as_u64().ok_or_else(|| not_a("a number", key))?);
            }
            ("reason", Value::String(reason)) if reason.len() <= limits::REASON_BYTES_MAX => {
                self.reason = given(reason).map(str::to_owned);
            }
            ("reason", _) => {
                return Err(not_a(&format!("a string of at most {} bytes", limits::REASON_BYTES_MAX), key));
            }
            (key, _) => return Err(unknown(key)),
        }
        Ok(())
    }

    fn filter(&mut self, keys: &Map<String, Value>) -> Result<(), Problem> {
        for (key, value) in keys {
            let field = format!("filter.{}", shown(key));
            if self.wanted.take_json(key, value, &field)? == Key::Unknown {
                return Err(unknown(&field));
            }
            not_blank(&field, value.as_str().unwrap_or(key))?;
        }
        Ok(())
    }

    fn read(self, by: Confirmed, now: Time) -> Result<Bulk, Problem> {
        let confirmed = self.confirm.unwrap_or(by == Confirmed::ByPath);
        if !confirmed {
            return Err(Problem::new(Code::ConfirmRequired, "confirmation required for a bulk call")
                .detail("field", "confirm"));
        }
        let filter = self.wanted.filter()?;
        let (expected, reason) = (self.expected, self.reason);
        // What is deleted is a retry's opposite, and both are about all that is pending.
        match (filter.spares_nothing(Action::Redrive, now), self.all) {
            (false, false) => Ok(Bulk { filter, expected, reason }),
            (true, true) if expected.is_some() => Ok(Bulk { filter, expected, reason }),
            (true, _) => Err(Problem::new(Code::FilterRequired, "filter required")
                .detail("all", "{\"all\": true, \"expected_count\": N}")),
            (false, true) => {
                Err(Problem::new(Code::InvalidRequest, "all and a filter contradict each other")
                    .detail("field", "all"))
            }
        }
    }
}

fn object(body: &str) -> Result<Map<String, Value>, Problem> {
    if body.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Problem::new(Code::InvalidPayload, "the body must be a JSON object")),
        Err(error) => Err(Problem::new(Code::InvalidPayload, format!("not a JSON object: {error}"))),
    }
}

fn not_a(expected: &str, key: &str) -> Problem {
    Problem::new(Code::SchemaValidation, format!("{key} must be {expected}")).detail("field", key)
}

/// A variable that was not set leaves an empty text behind: passed over, it would mean more jobs than were meant.
fn not_blank(field: &str, value: &str) -> Result<(), Problem> {
    if given(value).is_some() {
        return Ok(());
    }
    Err(Problem::new(Code::InvalidRequest, format!("{field} is empty"))
        .hint("omit it if it is not needed")
        .detail("field", field))
}

fn unknown(field: &str) -> Problem {
    let field = shown(field);
    Problem::new(Code::InvalidRequest, format!("unknown filter {field}"))
        .hint(format!("known: {KEYS}; beside the filter: confirm, all, expected_count, reason"))
        .detail("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::from_ms(1_800_000_000_000)
    }

    fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
        query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_list_without_parameters_asks_for_everything_from_the_start() {
        for query in [&[][..], &[("queue", " "), ("limit", ""), ("whatever", "x"), ("state", "discarded")]] {
            let Listed { filter, sort, paging } = list(&pairs(query)).unwrap();
            assert!(filter.is_empty());
            assert_eq!(sort, Sort::DiedAtDesc);
            assert_eq!((paging.limit, paging.offset, paging.cursor), (50, 0, None));
        }
    }

    #[test]
    fn more_rows_than_there_may_be_are_brought_down_and_nonsense_is_refused() {
        assert_eq!(list(&pairs(&[("limit", "99999999")])).unwrap().paging.limit, 1_000);
        assert_eq!(admin_list(&pairs(&[("per_page", "500")])).unwrap().paging.per_page, 100);
        for bad in [
            ("limit", "0"),
            ("limit", "-1"),
            ("limit", "x"),
            ("offset", "100001"),
            ("offset", "x"),
            ("since", "yesterday"),
            ("until", "2026-11-15T03:00:00"),
            ("sort", "priority"),
            ("order", "up"),
            ("state", "active"),
        ] {
            assert!(list(&pairs(&[bad])).is_err(), "{bad:?}");
        }
        assert!(admin_list(&pairs(&[("page", "0")])).is_err());
        let far = admin_list(&pairs(&[("page", "18446744073709551615")])).unwrap().paging;
        assert!(far.offset().is_err());
    }

    #[test]
    fn lists_are_sorted_as_asked() {
        for (query, expected) in [
            (&[("sort", "discarded_at")][..], Sort::DiedAtDesc),
            (&[("order", "asc")], Sort::DiedAtAsc),
            (&[("sort", "died_at"), ("order", "desc")], Sort::DiedAtDesc),
            (&[("order", "asc"), ("sort", "added_at")], Sort::CreatedAtAsc),
        ] {
            assert_eq!(admin_list(&pairs(query)).unwrap().sort, expected, "{query:?}");
        }
    }

    #[test]
    fn a_bulk_call_needs_to_be_confirmed_and_to_say_what_it_is_about() {
        for bad in [
            "",
            "{}",
            "[]",
            "{",
            r#"{"filter":{"queue":"q"}}"#,
            r#"{"filter":{"queue":"q"},"confirm":"true"}"#,
            r#"{"filter":{"queue":"q"},"confirm":false}"#,
            r#"{"confirm":true}"#,
            r#"{"confirm":true,"filter":{}}"#,
            r#"{"confirm":true,"filter":{"queue":""}}"#,
            r#"{"confirm":true,"filter":{"state":"discarded"}}"#,
            r#"{"confirm":true,"filter":{"state":"active","queue":"q"}}"#,
            r#"{"confirm":true,"filter":{"que":"q"}}"#,
            r#"{"confirm":true,"filter":{"queue":"q","que":null}}"#,
            r#"{"confirm":true,"filter":{"queue":["q"]}}"#,
            r#"{"confirm":true,"filter":{"queue":"","type":"t"}}"#,
            r#"{"confirm":true,"filter":{"type":"t"},"queue":" "}"#,
            r#"{"confirm":true,"filter":{"type":"t"},"que":""}"#,
            r#"{"confirm":true,"filter":"queue"}"#,
            r#"{"confirm":true,"queue":"q","force":1}"#,
            r#"{"confirm":true,"all":true}"#,
            r#"{"confirm":true,"all":true,"expected_count":-1}"#,
            r#"{"confirm":true,"all":true,"expected_count":1,"queue":"q"}"#,
        ] {
            assert!(bulk(&[], bad, Confirmed::InWords, now()).is_err(), "{bad}");
        }
        let all = bulk(&[], r#"{"confirm":true,"all":true,"expected_count":3}"#, Confirmed::InWords, now())
            .unwrap();
        assert!(all.filter.is_empty());
        assert_eq!(all.expected, Some(3));
        let body = r#"{"confirm":true,"filter":{"queue":"q","type":"a.*","since":"24h"},"reason":" fixed "}"#;
        let some = bulk(&[], body, Confirmed::InWords, now()).unwrap();
        assert_eq!(some.filter.to_string(), "queue:q type:a.* since:P1D");
        assert_eq!(some.reason.as_deref(), Some("fixed"));
    }

    #[test]
    fn a_bulk_call_says_the_same_in_the_query() {
        let read = |query: &[(&str, &str)], by| bulk(&pairs(query), "", by, now());
        for bad in [
            &[("older_than", "7d")][..],
            &[("older_than", "7d"), ("confirm", "yes")],
            &[("confirm", "true")],
            &[("confirm", "true"), ("all", "true")],
            &[("confirm", "true"), ("all", "true"), ("expected_count", "x")],
            &[("confirm", "true"), ("que", "q")],
            &[("confirm", "true"), ("type", "t"), ("que", "")],
            &[("confirm", "true"), ("type", "t"), ("queue", "")],
            &[("confirm", "true"), ("type", "t"), ("expected_count", "")],
            &[("confirm", "true"), ("queue", "q"), ("expected_count", "-1")],
        ] {
            assert!(read(bad, Confirmed::InWords).is_err(), "{bad:?}");
        }
        let some = read(&[("older_than", "7d"), ("confirm", "true")], Confirmed::InWords).unwrap();
        assert_eq!(some.filter.to_string(), "age:>P7D");
        let some = read(&[("older_than", "7d")], Confirmed::ByPath).unwrap();
        assert_eq!((some.filter.to_string().as_str(), some.expected), ("age:>P7D", None));
        assert!(read(&[("older_than", "7d"), ("confirm", "false")], Confirmed::ByPath).is_err());
        let all = read(&[("all", "true"), ("expected_count", "2")], Confirmed::ByPath).unwrap();
        assert_eq!(all.expected, Some(2));
    }
}
