//! Alerts, silences and notifications as the server tells them.

use serde::Deserialize;

#[derive(Deserialize, Debug)]
pub struct Alerts {
    pub items: Vec<Alert>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    pub id: String,
    pub state: String,
    pub rule: String,
    pub severity: String,
    pub summary: String,
    pub count: u64,
    pub since: String,
    pub fired_at: Option<String>,
    pub acknowledged_by: Option<String>,
}

#[derive(Deserialize, Debug)]
pub struct Silences {
    pub items: Vec<Silence>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    pub id: String,
    pub matchers: String,
    pub reason: String,
    pub created_by: String,
    pub starts_at: String,
    pub ends_at: String,
}

#[derive(Deserialize, Debug)]
pub struct Notifications {
    pub items: Vec<Notification>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    pub receiver: String,
    pub state: String,
    pub attempts: u32,
    pub title: String,
    pub error: Option<String>,
}
