//! Replay rules at work: every few seconds each rule in force puts back what has lain long enough.
//!
//! What a letter may is decided by the store, letter by letter; here only the rules take their turns. No rule holds up
//! another one, unless it has so much to do that the others' turn comes a moment later.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lazaret_core::cursor::Sort;
use lazaret_core::gate::Shut;
use lazaret_core::limits;
use lazaret_core::replay::ReplayRule;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::audit::Actor;
use lazaret_store::page::{PageQuery, Total};
use lazaret_store::replay::{Replay, ReplayQuery, Replayed, RuleRecord};

use crate::app::App;
use crate::config::Governance;
use crate::operations::Progress;

/// The shortest wait: a letter that is due and cannot be put back must not keep a loop busy.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// A rule, what it has done, and whether it is in force.
#[derive(Clone, Debug)]
pub struct RuleState {
    pub rule: ReplayRule,
    pub enabled: bool,
    /// Who says so.
    pub enabled_by: EnabledBy,
    /// Why it does nothing although it is enabled.
    pub blocked: Option<&'static str>,
    pub replayed: u64,
    pub last_replayed_at: Option<Time>,
}

/// Where it is said whether a rule is enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnabledBy {
    Configuration,
    /// A person switched it, which beats the configuration.
    Switch,
}

impl EnabledBy {
    pub const fn name(self) -> &'static str {
        match self {
            EnabledBy::Configuration => "configuration",
            EnabledBy::Switch => "switch",
        }
    }
}

impl RuleState {
    fn new(rule: ReplayRule, need: Need, record: Option<&RuleRecord>) -> RuleState {
        let switched = record.and_then(|record| record.switched);
        RuleState {
            enabled: switched.unwrap_or(rule.enabled),
            enabled_by: if switched.is_some() { EnabledBy::Switch } else { EnabledBy::Configuration },
            blocked: blocked(need, &rule),
            replayed: record.map_or(0, |record| record.replayed),
            last_replayed_at: record.and_then(|record| record.last_at),
            rule,
        }
    }

    fn in_force(&self) -> bool {
        self.enabled && self.blocked.is_none()
    }
}

/// Whether letters of jobs go back only once their cause is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Nothing,
    Cause,
}

impl Need {
    /// What the configuration asks for.
    fn of(app: &App) -> Need {
        match app.config.jobs.governance {
            Governance::Optional => Need::Nothing,
            Governance::Required => Need::Cause,
        }
    }
}

/// Why a rule may not put letters back. It is a standing analysis of a cause, if it names one.
fn blocked(need: Need, rule: &ReplayRule) -> Option<&'static str> {
    match (need, &rule.cause) {
        (Need::Nothing, _) | (Need::Cause, Some(_)) => None,
        (Need::Cause, None) => Some("jobs.governance is required and the rule has no cause"),
    }
}

/// All rules of the configuration, in their order.
pub async fn rules(app: &App) -> Result<Vec<RuleState>, StoreError> {
    let records = app.store.rule_records().await?;
    let records: HashMap<&str, &RuleRecord> = records.iter().map(|it| (it.rule.as_str(), it)).collect();
    let need = Need::of(app);
    let state =
        |rule: &ReplayRule| RuleState::new(rule.clone(), need, records.get(rule.name.as_str()).copied());
    Ok(app.config.replay_rules.iter().map(state).collect())
}

/// How many letters lie in wait for a rule, due or not.
pub async fn waiting(app: &App, rule: &ReplayRule) -> Result<Total, StoreError> {
    app.store.count(rule.waiting(), app.clock.now()).await
}

/// Switches a rule on or off, whatever the configuration says; nothing if there is none of this name.
pub async fn switch(
    app: &App,
    name: &str,
    enabled: bool,
    by: Actor,
) -> Result<Option<RuleState>, StoreError> {
    if !app.config.replay_rules.iter().any(|rule| rule.name == name) {
        return Ok(None);
    }
    app.store.switch_rule(name.to_owned(), enabled, by, app.clock.now()).await?;
    Ok(rules(app).await?.into_iter().find(|state| state.rule.name == name))
}

/// Lets each rule in force put back one batch, in their order: a letter that two rules are about goes back by the first.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if app.config.replay_rules.is_empty() || !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    for state in rules(app).await?.iter().filter(|state| state.in_force()) {
        let name = state.rule.name.as_str();
        match replay(app, &state.rule).await {
            // The next rule would take what is left for this one.
            Ok(Progress::More) => return Ok(Progress::More),
            Ok(Progress::Idle) => {}
            Err(error) => {
                tracing::warn!(rule = name, error = %error, "replay rule {name} failed, retrying");
            }
        }
    }
    Ok(Progress::Idle)
}

async fn replay(app: &App, rule: &ReplayRule) -> Result<Progress, StoreError> {
    let now = app.clock.now();
    let query = ReplayQuery {
        rule: rule.name.clone(),
        filter: rule.due(now),
        max_replays: rule.max_replays,
        now,
        limit: limits::REPLAYS_PER_WRITE,
    };
    let letters = app.store.replayable(query).await?;
    if letters.is_empty() {
        return Ok(Progress::Idle);
    }
    let full = letters.len() == limits::REPLAYS_PER_WRITE;
    let (category, max_replays) = (rule.category, rule.max_replays);
    let wish = Replay { rule: rule.name.clone(), category, max_replays, letters, at: now };
    let outcomes = app.store.replay(wish).await?;
    tell_refused(rule, &outcomes);
    let done = outcomes.iter().filter(|outcome| **outcome == Replayed::Done).count();
    if done > 0 {
        let name = rule.name.as_str();
        tracing::info!(rule = name, letters = done, "replay rule {name} replayed {done} letters");
    }
    Ok(if full && done > 0 { Progress::More } else { Progress::Idle })
}

/// Logs why letters that match a rule are not redriven by it.
fn tell_refused(rule: &ReplayRule, outcomes: &[Replayed]) {
    let mut refused: BTreeMap<Shut, u64> = BTreeMap::new();
    for outcome in outcomes {
        if let Replayed::Shut(shut) = outcome {
            *refused.entry(*shut).or_default() += 1;
        }
    }
    let name = rule.name.as_str();
    for (shut, letters) in refused {
        tracing::info!(rule = name, letters, "replay rule {name} skipped {letters} letters: {shut}");
    }
}

/// How long no letter will be due, as far as it is known now. Letters that die meanwhile are not, so nobody should wait
/// for longer than a letter may be late.
pub async fn until_due(app: &App) -> Result<Option<Duration>, StoreError> {
    let now = app.clock.now();
    let mut next: Option<Time> = None;
    for state in rules(app).await?.iter().filter(|state| state.in_force()) {
        // To look into letters costs more than to come again in a while.
        if state.rule.filter.needs_content() {
            continue;
        }
        let query = PageQuery {
            filter: state.rule.undue(now),
            now,
            sort: Sort::DiedAtAsc,
            limit: 1,
            after: None,
            scan_max: PageQuery::SCAN_MAX,
        };
        let first = app.store.list(query).await?.letters.into_iter().next();
        let due = first.map(|letter| state.rule.due_at(letter.died_at));
        next = next.into_iter().chain(due).min();
    }
    Ok(next.map(|due| {
        let ms = u64::try_from(due.since(now)).unwrap_or(0);
        Duration::from_millis(ms).max(WAIT_MIN)
    }))
}

#[cfg(test)]
mod tests {
    use lazaret_core::class::Category;
    use lazaret_core::duration::Length;
    use lazaret_core::filter::Filter;

    use super::*;

    #[test]
    fn where_a_cause_is_needed_a_rule_without_one_is_blocked() {
        let rule = |cause: Option<&str>| ReplayRule {
            name: "r".into(),
            filter: Filter::from_text("queue:q").unwrap(),
            delay: Length::from_ms(0),
            max_replays: 1,
            enabled: true,
            cause: cause.map(str::to_owned),
            category: Category::Infrastructure,
        };
        for (need, cause, in_force) in [
            (Need::Nothing, None, true),
            (Need::Nothing, Some("c"), true),
            (Need::Cause, Some("c"), true),
            (Need::Cause, None, false),
        ] {
            let state = RuleState::new(rule(cause), need, None);
            assert_eq!((state.enabled, state.in_force()), (true, in_force), "{need:?} {cause:?}");
        }
    }
}
