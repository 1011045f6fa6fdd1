//! The tabs of a page: links, each to a view of its own.

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Tab {
    pub label: &'static str,
    pub address: String,
    pub here: bool,
}

/// The tabs of a page by their names in `view` and their labels.
pub(crate) fn tabs(path: &str, views: &[(&str, &'static str)], here: &str) -> Vec<Tab> {
    let tab = |(name, label): &(&str, &'static str)| Tab {
        label,
        address: format!("{path}?view={name}"),
        here: *name == here,
    };
    views.iter().map(tab).collect()
}
