//! Class rules and rules of grouping: the operator's first, what is built in behind them.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use lazaret_core::class::{Category, Conditions, ErrorClass, Retryable, builtin_phrases};
use lazaret_core::fingerprint::{FingerprintRule, RuleEffect, SplitBy};
use lazaret_core::pattern::Pattern;

use super::{ADDRESS, View};
use crate::api::problem::Problem;
use crate::api::progress::{self, RegroupingBody};
use crate::api::stats;
use crate::app::App;
use crate::config::ClassRule;
use crate::web::asked::pairs;
use crate::web::format as filters;
use crate::web::frame::Page;
use crate::web::shell::Shell;
use crate::web::tabs::Tab;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "rules_classes.html")]
struct Classes {
    shell: Shell,
    tabs: Vec<Tab>,
    classes: Vec<ClassRuleRow>,
    groups: Vec<GroupRuleRow>,
    in_app: Vec<String>,
    library: Vec<String>,
    builtin: Vec<Builtin>,
    regrouping: RegroupingBody,
}

/// A class rule of the operator's: its place, its conditions, its class.
struct ClassRuleRow {
    when: Vec<(&'static str, String)>,
    class: &'static str,
}

struct GroupRuleRow {
    name: String,
    when: Vec<(&'static str, String)>,
    then: String,
}

/// A class, what follows from it, and what is known of it.
struct Builtin {
    class: &'static str,
    category: &'static str,
    retryable: &'static str,
    phrases: u64,
    pending: u64,
}

/// The API tells what rules made of letters, and not the rules: they stand in the configuration, which is read here.
pub(super) async fn page(app: &Arc<App>, viewer: &Viewer) -> Result<Response, Problem> {
    let counted = stats::stats(State(Arc::clone(app)), pairs(&[("status", "pending")])).await?.0;
    let progress = progress::progress(State(Arc::clone(app)), pairs(&[])).await?.0;
    let builtin = ErrorClass::ALL.map(|class| Builtin {
        class: class.name(),
        category: class.category().map_or("none", Category::name),
        retryable: match class.retryable() {
            Retryable::Yes => "yes",
            Retryable::No => "no",
            Retryable::PresetDecides => "by retry policy",
        },
        phrases: builtin_phrases(class),
        pending: counted.by_class.get(class.name()),
    });
    let page = Classes {
        shell: Shell::new(app, viewer, "Classes and grouping", ADDRESS).await?,
        tabs: View::Classes.tabs(),
        classes: app.config.class_rules.iter().map(class_row).collect(),
        groups: app.config.fingerprint_rules.iter().map(group_row).collect(),
        in_app: app.config.fingerprint.in_app.clone(),
        library: app.config.fingerprint.library.clone(),
        builtin: builtin.into(),
        regrouping: progress.regrouping,
    };
    Ok(Page(page).into_response())
}

fn class_row(rule: &ClassRule) -> ClassRuleRow {
    let Conditions { error_type, code, message, http_status, source } = rule.when();
    let mut when =
        given([("error_type", error_type), ("code", code), ("message", message), ("source", source)]);
    when.extend(http_status.map(|range| ("http_status", range.to_string())));
    ClassRuleRow { when, class: rule.class().name() }
}

fn group_row(rule: &FingerprintRule) -> GroupRuleRow {
    let when = &rule.when;
    GroupRuleRow {
        name: rule.name.clone(),
        when: given([
            ("source", &when.source),
            ("type", &when.letter_type),
            ("error_type", &when.error_type),
            ("code", &when.code),
            ("message", &when.message),
            ("frame", &when.frame),
        ]),
        then: match &rule.then {
            RuleEffect::Group(key) => format!("one incident: {key}"),
            RuleEffect::SplitBy(parts) => {
                let names: Vec<&str> = parts.iter().map(|part| SplitBy::name(*part)).collect();
                format!("split by {}", names.join(", "))
            }
        },
    }
}

fn given<const N: usize>(parts: [(&'static str, &Option<Pattern>); N]) -> Vec<(&'static str, String)> {
    let text = |(name, pattern): (&'static str, &Option<Pattern>)| {
        pattern.as_ref().map(|pattern| (name, pattern.text().to_owned()))
    };
    parts.into_iter().filter_map(text).collect()
}
