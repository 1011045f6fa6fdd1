//! The plan as it is shown and kept: JSON text beside the redrive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What would happen if a redrive was launched.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The largest of each, of the letters on the list.
    pub types: Vec<Counted>,
    pub queues: Vec<Counted>,
    /// Where the letters that go are sent to.
    pub destinations: Vec<Destined>,
    pub lanes: LanesShown,
    pub older_outside: OlderOutside,
    /// How long it takes at the chosen pace.
    pub duration: String,
    /// The first letters as they would be sent.
    pub samples: Vec<Sample>,
    /// What does not go and why.
    pub refusals: Vec<RefusalShown>,
    /// Incidents that move with the run.
    pub incidents: Vec<IncidentCounted>,
    /// What a person should know before the launch.
    pub warnings: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    pub value: String,
    pub count: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Destined {
    /// The configured destination.
    pub name: String,
    /// The address as people know it, without credentials; null if no letter of it was looked at.
    pub address: Option<String>,
    pub count: u64,
    /// Consumers that did not fail and would get the letters all the same.
    pub also_reaches: Vec<String>,
}

/// Order keys: within one, letters go one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LanesShown {
    pub total: u64,
    /// Letters without an order key.
    pub unordered: u64,
    pub largest: Vec<Counted>,
}

/// Older letters of the same order keys that are not on the list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct OlderOutside {
    pub count: u64,
    pub lanes: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    pub letter_id: String,
    pub life: u32,
    pub destination: String,
    pub content_type: String,
    pub body_bytes: u64,
    /// The beginning of the body; null if it is no text.
    pub body: Option<String>,
    /// Headers that the original does not have, by name. The N in an idempotency key is the number of the try.
    #[serde(default)]
    pub headers_added: BTreeMap<String, String>,
    /// Names of headers of the original that are not passed on.
    #[serde(default)]
    pub headers_left_out: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct RefusalShown {
    /// rca_required, fix_required, decision_required, poison or no_way_back
    pub code: String,
    pub reason: String,
    pub hint: String,
    pub count: u64,
    /// The first incidents that it is about.
    pub incidents: Vec<ShutShown>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ShutShown {
    pub id: String,
    pub url: String,
    pub reason: String,
    pub count: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct IncidentCounted {
    pub id: String,
    pub url: String,
    pub count: u64,
}

impl Plan {
    /// Reads a plan that was kept; an empty one if it cannot be read, for it is only shown.
    pub fn of(text: Option<&str>) -> Plan {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}
