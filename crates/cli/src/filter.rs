//! Filters as they are typed: read here first, so that a mistake is told at once and nothing is sent.

use lazaret_core::filter::Filter;
use lazaret_core::lifecycle::{Action, Place, Status};
use lazaret_core::time::Time;

use crate::failure::Failure;

/// Reads a filter that somebody typed.
pub fn read(text: &str) -> Result<Filter, Failure> {
    Filter::from_text(text).map_err(|error| {
        Failure::misuse(format!("cannot read the filter: {error}"))
            .hint("a filter looks like: queue:billing type:invoice.* error:Timeout since:24h \"connection refused\"")
    })
}

/// Reads a moment as filters have it: a time, or how long before now.
///
/// It is resolved here and not at the server, so that all pages of a list are about the same time.
pub fn moment(text: &str, now: Time) -> Result<Time, Failure> {
    let read = Filter::from_text(&format!("since:\"{text}\"")).ok();
    // A text with quotes of its own could say more than a time.
    let only_a_time = |filter: &Filter| *filter == Filter { since: filter.since, ..Filter::default() };
    let when = read.filter(only_a_time).and_then(|filter| filter.since);
    when.map(|when| when.resolve(now)).ok_or_else(|| {
        Failure::misuse(format!("cannot read the time `{text}`"))
            .hint("use a duration such as 90m, 24h or 7d, or a time such as 2026-01-31T12:00:00Z")
    })
}

/// The filter for these statuses unless it speaks of a status itself.
pub fn with_default_status(mut filter: Filter, statuses: &[Status]) -> Filter {
    if filter.status.include.is_empty() && filter.status.exclude.is_empty() {
        filter.status.include.extend(statuses);
    }
    filter
}

/// The statuses that are meant by an action where none is said: those that it can move, none if it works on all of
/// them.
///
/// Whoever lists pending letters and then discards by the same filter means those that were listed. A delete can move
/// more than that, and means no more than that either.
pub fn meant(action: Action) -> Vec<Status> {
    if action == Action::Delete {
        return vec![Status::Pending];
    }
    let live = action.rows().iter().filter(|row| row.place == Place::Live);
    let statuses: Vec<Status> = live.flat_map(|row| row.from).copied().collect();
    if statuses.len() == Status::ALL.len() { Vec::new() } else { statuses }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_added_only_where_none_is_said() {
        let text = |typed: &str, action: Action| {
            with_default_status(read(typed).unwrap(), &meant(action)).to_string()
        };
        assert_eq!(text("queue:a", Action::Discard), "queue:a status:pending");
        assert_eq!(text("queue:a", Action::Resolve), "queue:a status:pending");
        assert_eq!(text("queue:a", Action::Reopen), "queue:a status:resolved,discarded");
        assert_eq!(text("queue:a", Action::Hold), "queue:a");
        assert_eq!(text("queue:a", Action::Delete), "queue:a status:pending");
        assert_eq!(text("-status:resolved", Action::Discard), "-status:resolved");
    }

    #[test]
    fn a_moment_is_a_time_or_so_long_ago() {
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        let read = |text: &str| moment(text, now).map(|time| time.to_string()).ok();
        assert_eq!(read("24h").as_deref(), Some("2025-11-14T03:00:00.000Z"));
        assert_eq!(read("2025-11-15T03:00:00+01:00").as_deref(), Some("2025-11-15T02:00:00.000Z"));
        for bad in ["", "yesterday", "24h\" queue:\"a", "2025-11-15T03:00:00"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_mistake_names_what_is_right() {
        let error = read("quue:billing").unwrap_err().to_string();
        assert!(error.contains("did you mean `queue`?"), "{error}");
    }
}
