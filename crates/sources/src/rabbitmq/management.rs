//! The management API of RabbitMQ: which queues there are, how they dead-letter and who is bound to an exchange. Only reads.
//!
//! No error holds a credential.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_core::limits;
use reqwest::{StatusCode, Url};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::config::Auth;
use super::{RabbitMq, discovery};
use crate::connection::locked;
use crate::{Finding, FoundQueue, Secret, SourceError};

const DOING: &str = "asking the management API of RabbitMQ";

/// The management API of one virtual host.
pub struct Management {
    client: reqwest::Client,
    url: Url,
    vhost: String,
    user: String,
    password: Secret,
}

/// A queue with its settings, those of its policy included.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct QueueInfo {
    pub name: String,
    #[serde(rename = "type")]
    pub queue_type: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub exclusive: bool,
    /// Messages in the queue; nothing while the node has not counted them yet.
    pub messages: Option<u64>,
    pub consumers: Option<u64>,
    arguments: Settings,
    effective_policy_definition: Settings,
    message_stats: MessageStats,
}

/// An empty list stands for an empty object in some versions.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(from = "Value")]
struct Settings(Map<String, Value>);

impl From<Value> for Settings {
    fn from(value: Value) -> Settings {
        match value {
            Value::Object(settings) => Settings(settings),
            _ => Settings::default(),
        }
    }
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
struct MessageStats {
    publish_details: Rate,
    deliver_get_details: Rate,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
struct Rate {
    rate: f64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExchangeInfo {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BindingInfo {
    pub source: String,
    pub destination: String,
    /// `queue` or `exchange`.
    pub destination_type: String,
    pub routing_key: String,
}

/// Everything that decides where messages of a virtual host go.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    pub queues: Vec<QueueInfo>,
    pub exchanges: Vec<ExchangeInfo>,
    pub bindings: Vec<BindingInfo>,
}

impl QueueInfo {
    /// A setting by the name that it has in policies, such as `dead-letter-exchange`. An argument of the queue
    /// (`x-dead-letter-exchange`) beats the policy.
    pub fn setting(&self, name: &str) -> Option<&Value> {
        self.arguments.0.get(&format!("x-{name}")).or_else(|| self.effective_policy_definition.0.get(name))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.setting(name).and_then(Value::as_str)
    }

    /// Messages per second that are published to the queue.
    pub fn publish_rate(&self) -> f64 {
        self.message_stats.publish_details.rate
    }

    /// Messages per second that consumers get from the queue.
    pub fn deliver_rate(&self) -> f64 {
        self.message_stats.deliver_get_details.rate
    }
}

impl Management {
    /// Prepares the client and connects to nothing. `ca` is a PEM file of authorities to trust beside the machine's.
    pub fn new(
        url: &str,
        vhost: &str,
        user: &str,
        password: Secret,
        ca: Option<&Path>,
    ) -> Result<Management, SourceError> {
        let unfit = |why: String| SourceError::Unfit(format!("management.url: {why}"));
        let url = Url::parse(url).map_err(|error| unfit(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some()
        {
            return Err(unfit(
                "write http://host:15672 or https://host:15671, without credentials".to_owned(),
            ));
        }
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(ca)?)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_millis(limits::RABBITMQ_MANAGEMENT_MS_MAX))
            .build()
            .map_err(|error| unfit(error.to_string()))?;
        Ok(Management { client, url, vhost: vhost.to_owned(), user: user.to_owned(), password })
    }

    /// Queues, exchanges and bindings of the virtual host.
    pub async fn topology(&self) -> Result<Topology, SourceError> {
        let path = |of| [of, self.vhost.as_str()];
        let [queues, exchanges, bindings] = ["queues", "exchanges", "bindings"].map(path);
        let (queues, exchanges, bindings) =
            tokio::try_join!(self.get(&queues), self.get(&exchanges), self.get(&bindings))?;
        Ok(Topology { queues, exchanges, bindings })
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, SourceError> {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("api").extend(path);
        }
        let request = self.client.get(url).basic_auth(&self.user, Some(self.password.reveal()));
        let answer = request.send().await.map_err(|error| unavailable(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(refused(status, &self.vhost));
        }
        answer.json().await.map_err(|error| unavailable(&error))
    }
}

/// A topology, and since when it is known.
pub(super) type KnownTopology = (Instant, Arc<Topology>);

impl RabbitMq {
    /// The management API of the source's virtual host; nothing where none is configured.
    fn management(&self) -> Result<Option<&Management>, SourceError> {
        let config = self.config();
        let Some(management) = &config.management else { return Ok(None) };
        if let Some(known) = self.management.get() {
            return Ok(Some(known));
        }
        let Auth::User { user, password } = &config.auth else {
            let why =
                "the management API needs user and password: set them under auth, or remove management.url";
            return Err(SourceError::Unfit(why.to_owned()));
        };
        let ca = config.tls.ca.as_deref();
        let made = Management::new(&management.url, &config.vhost, user, password.clone(), ca)?;
        Ok(Some(self.management.get_or_init(|| made)))
    }

    fn captured_queues(&self) -> Vec<&str> {
        self.config().queues.iter().map(|it| it.queue.as_str()).collect()
    }

    /// Queues that seem to hold dead letters; nothing without the management API.
    pub(super) async fn found_queues(&self) -> Result<Option<Vec<FoundQueue>>, SourceError> {
        let Some(management) = self.management()? else { return Ok(None) };
        let topology = management.topology().await?;
        Ok(Some(discovery::discover(&topology, &self.captured_queues())))
    }

    /// Settings of the virtual host that lose dead letters; nothing without the management API.
    pub(super) async fn topology_findings(&self) -> Vec<Finding> {
        let topology = match self.management() {
            Ok(None) => return Vec::new(),
            Ok(Some(management)) => management.topology().await,
            Err(error) => Err(error),
        };
        match topology {
            Ok(topology) => {
                let receipts = &self.config().receipts_queue;
                discovery::unsafe_settings(&topology, &self.captured_queues(), receipts)
            }
            Err(error) => vec![Finding::error(error.to_string(), "repair management.url, or remove it")],
        }
    }

    /// The queues that a message reaches, as they were some seconds ago at most; nothing without the management API.
    pub(super) async fn reached_queues(
        &self,
        exchange: &str,
        routing_key: &str,
    ) -> Result<Option<BTreeSet<String>>, SourceError> {
        let Some(management) = self.management()? else { return Ok(None) };
        let fresh = Duration::from_millis(limits::RABBITMQ_INFO_MS);
        let known = locked(&self.topology).clone().filter(|(since, _)| since.elapsed() < fresh);
        let topology = match known {
            Some((_, topology)) => topology,
            None => {
                let topology = Arc::new(management.topology().await?);
                *locked(&self.topology) = Some((Instant::now(), Arc::clone(&topology)));
                topology
            }
        };
        Ok(Some(topology.reached(exchange, routing_key)))
    }
}

fn refused(status: StatusCode, vhost: &str) -> SourceError {
    let code = Some(status.as_u16().to_string());
    let why = match status {
        StatusCode::UNAUTHORIZED => {
            "the management API refused the credentials: the user needs the tag management or monitoring"
                .to_owned()
        }
        StatusCode::NOT_FOUND => format!("the management API knows no virtual host {vhost:?} for this user"),
        _ => format!("the management API answered {status}"),
    };
    SourceError::Refused { code, why }
}

fn unavailable(error: &reqwest::Error) -> SourceError {
    // The error itself names the address only.
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        why = error.to_string();
        cause = error.source();
    }
    SourceError::Unavailable { doing: DOING, why: format!("{why}: see management.url") }
}

fn tls(ca: Option<&Path>) -> Result<ClientConfig, SourceError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca {
        let unfit = |why: String| SourceError::Unfit(format!("tls.ca_file {}: {why}", file.display()));
        let found = CertificateDer::pem_file_iter(file).map_err(|error| unfit(error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| unfit(error.to_string()))?;
            roots.add(certificate).map_err(|error| unfit(error.to_string()))?;
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SourceError::Unfit(format!("TLS cannot be set up: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

impl fmt::Debug for Management {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Management")
            .field("url", &self.url.as_str())
            .field("vhost", &self.vhost)
            .finish_non_exhaustive()
    }
}
