//! The page as people see it who do not see it well: axe-core, every rule that it has on by itself.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::browser::Browser;

/// `xtask/src/axe.rs` puts this version into the user's cache.
const AXE: &str = "lazaret-axe/axe-4.14.0.min.js";

/// No rule is switched off; that targets are large enough is asked for too, which is off by itself.
const RUN: &str = "return axe.run(document, {
    resultTypes: ['violations'],
    rules: { 'target-size': { enabled: true } },
}).then((results) => results.violations.map((violation) => ({
    rule: violation.id,
    help: violation.help,
    at: violation.nodes.map((node) => node.target.join(' ') + ': ' + (node.failureSummary ?? '') + ' ' + node.html),
})));";

fn source() -> String {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let path = cache.unwrap_or_default().join(AXE);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask test` fetches axe-core", path.display()))
}

/// Every rule that the page breaks, with where.
pub(crate) fn violations(browser: &Browser) -> Vec<String> {
    let has = browser.script("return typeof axe", &json!([]));
    if has != json!("object") {
        browser.script(&source(), &json!([]));
    }
    let found = browser.script(RUN, &json!([]));
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', " ");
    let lines = |violation: &Value| {
        let rule = format!("{} ({})", text(&violation["rule"]), text(&violation["help"]));
        let places: Vec<String> = violation["at"].as_array().unwrap().iter().map(text).collect();
        format!("{rule}:\n    {}", places.join("\n    "))
    };
    found.as_array().expect("axe-core gives a list").iter().map(lines).collect()
}
