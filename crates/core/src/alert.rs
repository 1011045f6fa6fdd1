//! Alerts: what is worth a notification, how long it lasts, and who is notified when.
//!
//! `evaluate` turns facts into alerts, `notify` groups alerts into notifications. Both are pure: the server loads the facts
//! and the store applies the effects in one commit.

mod evaluate;
mod labels;
mod notify;
mod rule;
mod state;

pub use evaluate::{Evaluation, Facts, Measure, Reading, evaluate};
pub use labels::{BadMatcher, Matchers};
pub use notify::{Group, LOG_RECEIVER, Notification, OWN_SOURCE, Plan, Route, Silence, plan};
pub use rule::{AlertRule, RuleKind, Rules, Scope, Severity};
pub use state::{Ack, Alert, AlertKey, AlertState};

#[cfg(test)]
mod tests;
