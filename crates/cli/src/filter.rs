//! Filters as they are typed: read here first, so that a mistake is told at once and nothing is sent.

use lazaret_core::filter::Filter;
use lazaret_core::lifecycle::{Action, Place, Status};

use crate::failure::Failure;

/// Reads a filter that somebody typed.
pub fn read(text: &str) -> Result<Filter, Failure> {
    Filter::from_text(text).map_err(|error| {
        Failure::misuse(format!("cannot read the filter: {error}"))
            .hint("a filter looks like: queue:billing type:invoice.* error:Timeout since:24h \"connection refused\"")
    })
}

/// The filter for these statuses unless it speaks of a status itself.
pub fn with_default_status(mut filter: Filter, statuses: &[Status]) -> Filter {
    if filter.status.include.is_empty() && filter.status.exclude.is_empty() {
        filter.status.include.extend(statuses);
    }
    filter
}

/// The statuses that an action can move; none if it works on all of them.
///
/// Whoever lists pending letters and then discards by the same filter means those that were listed.
pub fn movable(action: Action) -> Vec<Status> {
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
            with_default_status(read(typed).unwrap(), &movable(action)).to_string()
        };
        assert_eq!(text("queue:a", Action::Discard), "queue:a status:pending");
        assert_eq!(text("queue:a", Action::Resolve), "queue:a status:pending");
        assert_eq!(text("queue:a", Action::Reopen), "queue:a status:resolved,discarded");
        assert_eq!(text("queue:a", Action::Hold), "queue:a");
        assert_eq!(text("-status:resolved", Action::Discard), "-status:resolved");
    }

    #[test]
    fn a_mistake_names_what_is_right() {
        let error = read("quue:billing").unwrap_err().to_string();
        assert!(error.contains("did you mean `queue`?"), "{error}");
    }
}
