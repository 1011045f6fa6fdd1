//! Routes and groups: which receiver is notified of which alerts, together, and how often.

use std::collections::{BTreeMap, BTreeSet};

use super::labels::Matchers;
use super::state::{Alert, AlertKey, AlertState};
use crate::id::{AlertId, SilenceId};
use crate::time::Time;

/// The source of letters that Lazaret makes of its own notifications. Alerts about them reach the log and the page only: a
/// failing receiver must not be notified of its own failure for ever.
pub const OWN_SOURCE: &str = "lazaret";

/// The receiver that writes to the log.
pub const LOG_RECEIVER: &str = "log";

/// Alerts that match go to these receivers. The first route that matches counts, unless it says `go_on`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    pub receivers: Vec<String>,
    pub matchers: Matchers,
    /// Labels whose values alerts of one notification share.
    pub group_by: Vec<String>,
    /// How long the first notification of a group waits for more alerts.
    pub group_wait_ms: i64,
    /// How long a group waits between two notifications.
    pub group_interval_ms: i64,
    /// How often a group that keeps firing is notified again.
    pub repeat_ms: i64,
    pub go_on: bool,
}

impl Default for Route {
    fn default() -> Route {
        Route {
            receivers: vec![LOG_RECEIVER.to_owned()],
            matchers: Matchers::default(),
            group_by: vec!["rule".to_owned()],
            group_wait_ms: 30_000,
            group_interval_ms: 5 * 60_000,
            repeat_ms: 4 * 3_600_000,
            go_on: false,
        }
    }
}

/// Alerts that match are not notified between two times. One that begins later is a maintenance window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Silence {
    pub id: SilenceId,
    pub matchers: Matchers,
    pub starts_at: Time,
    pub ends_at: Time,
}

impl Silence {
    pub fn mutes(&self, alert: &Alert, now: Time) -> bool {
        self.starts_at <= now && now < self.ends_at && self.matchers.matches(&alert.labels())
    }
}

/// What a receiver was notified of last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub key: String,
    pub receiver: String,
    pub notified_at: Time,
    /// The alerts it knows to be firing.
    pub members: BTreeSet<AlertId>,
}

/// One message to one receiver.
#[derive(Clone, PartialEq, Debug)]
pub struct Notification {
    pub receiver: String,
    /// The key of the group: receivers recognise later notifications of it.
    pub group: String,
    /// The labels that its alerts share.
    pub labels: Vec<(String, String)>,
    /// The most severe first.
    pub firing: Vec<AlertKey>,
    pub resolved: Vec<AlertKey>,
}

/// What is to be sent now, and the groups as they are then.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    pub notifications: Vec<Notification>,
    pub groups: Vec<Group>,
    /// Keys of groups that are over.
    pub ended: Vec<String>,
}

/// The alerts of one group as they are now.
struct Current<'a> {
    receiver: String,
    labels: Vec<(String, String)>,
    route: &'a Route,
    firing: Vec<&'a Alert>,
    muted: BTreeSet<AlertId>,
}

/// Decides which notifications are due.
pub fn plan(routes: &[Route], alerts: &[Alert], silences: &[Silence], groups: &[Group], now: Time) -> Plan {
    let current = current_groups(routes, alerts, silences, now);
    let known: BTreeMap<&str, &Group> = groups.iter().map(|group| (group.key.as_str(), group)).collect();
    let mut plan = Plan::default();
    for (key, group) in &current {
        due(key, group, known.get(key.as_str()).copied(), alerts, now, &mut plan);
    }
    for group in groups.iter().filter(|group| !current.contains_key(&group.key)) {
        over(group, routes, alerts, now, &mut plan);
    }
    plan
}

fn current_groups<'a>(
    routes: &'a [Route],
    alerts: &'a [Alert],
    silences: &[Silence],
    now: Time,
) -> BTreeMap<String, Current<'a>> {
    let mut groups: BTreeMap<String, Current<'a>> = BTreeMap::new();
    for alert in alerts.iter().filter(|alert| alert.state == AlertState::Firing) {
        let muted = silences.iter().any(|silence| silence.mutes(alert, now));
        let is_own = alert.label("source") == Some(OWN_SOURCE);
        for route in routes_of(routes, alert) {
            let receivers = route.receivers.iter().filter(|it| !is_own || *it == LOG_RECEIVER);
            for receiver in receivers {
                let value = |name: &String| (name.clone(), alert.label(name).unwrap_or_default().to_owned());
                let labels: Vec<(String, String)> = route.group_by.iter().map(value).collect();
                let shared: Vec<String> =
                    labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let key = format!("{receiver}:{}", shared.join(","));
                let group = groups.entry(key).or_insert_with(|| Current {
                    receiver: receiver.clone(),
                    labels,
                    route,
                    firing: Vec::new(),
                    muted: BTreeSet::new(),
                });
                match muted {
                    true => _ = group.muted.insert(alert.id()),
                    false => group.firing.push(alert),
                }
            }
        }
    }
    for group in groups.values_mut() {
        group.firing.sort_by_key(|alert| (std::cmp::Reverse(alert.severity), std::cmp::Reverse(alert.count)));
    }
    groups
}

fn routes_of<'a>(routes: &'a [Route], alert: &Alert) -> Vec<&'a Route> {
    let labels = alert.labels();
    let mut found = Vec::new();
    for route in routes.iter().filter(|route| route.matchers.matches(&labels)) {
        found.push(route);
        if !route.go_on {
            break;
        }
    }
    found
}

/// Notifies of a group in which something fires, if it is time.
fn due(
    key: &str,
    current: &Current<'_>,
    known: Option<&Group>,
    alerts: &[Alert],
    now: Time,
    plan: &mut Plan,
) {
    let firing: BTreeSet<AlertId> = current.firing.iter().map(|alert| alert.id()).collect();
    let none = BTreeSet::new();
    let members = known.map_or(&none, |group| &group.members);
    let is_new = firing.iter().any(|id| !members.contains(id));
    let gone: BTreeSet<AlertId> =
        members.iter().filter(|id| !firing.contains(id) && !current.muted.contains(id)).copied().collect();
    let elapsed = |from: Time| now.since(from);
    let is_due = match known {
        None => {
            let first = current.firing.iter().filter_map(|alert| alert.fired_at).min();
            first.is_some_and(|first| elapsed(first) >= current.route.group_wait_ms)
        }
        Some(group) if is_new || !gone.is_empty() => {
            elapsed(group.notified_at) >= current.route.group_interval_ms
        }
        Some(group) => {
            let unattended = current.firing.iter().any(|alert| alert.ack.is_none());
            unattended && elapsed(group.notified_at) >= current.route.repeat_ms
        }
    };
    if !is_due {
        return;
    }
    let kept = members.iter().filter(|id| current.muted.contains(id)).copied();
    plan.groups.push(Group {
        key: key.to_owned(),
        receiver: current.receiver.clone(),
        notified_at: now,
        members: firing.iter().copied().chain(kept).collect(),
    });
    plan.notifications.push(Notification {
        receiver: current.receiver.clone(),
        group: key.to_owned(),
        labels: current.labels.clone(),
        firing: current.firing.iter().map(|alert| alert.key.clone()).collect(),
        resolved: keys_of(alerts, &gone),
    });
}

/// Notifies that all alerts of a group are resolved. One whose receiver has no route any more ends without a word.
fn over(group: &Group, routes: &[Route], alerts: &[Alert], now: Time, plan: &mut Plan) {
    let route = routes.iter().find(|route| route.receivers.contains(&group.receiver));
    if route.is_some_and(|route| now.since(group.notified_at) < route.group_interval_ms) {
        return;
    }
    plan.ended.push(group.key.clone());
    let resolved = keys_of(alerts, &group.members);
    if route.is_none() || resolved.is_empty() {
        return;
    }
    let shared = group.key.strip_prefix(&format!("{}:", group.receiver)).unwrap_or_default();
    let pair = |part: &str| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    plan.notifications.push(Notification {
        receiver: group.receiver.clone(),
        group: group.key.clone(),
        labels: shared.split(',').filter_map(pair).collect(),
        firing: Vec::new(),
        resolved,
    });
}

fn keys_of(alerts: &[Alert], ids: &BTreeSet<AlertId>) -> Vec<AlertKey> {
    alerts.iter().filter(|alert| ids.contains(&alert.id())).map(|alert| alert.key.clone()).collect()
}
