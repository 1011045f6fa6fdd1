//! The configuration in force, and taking another one while requests go on.
//!
//! A request takes the router of the moment it comes in and keeps it; what changes, changes for the next one. Never
//! tells the value of `store`: it may hold credentials.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use tokio::sync::watch;

use crate::api;
use crate::app::App;
use crate::config::{Config, ConfigError};

/// Loads the configuration as at the start: the same file, variables and flags.
pub type Loader = dyn Fn() -> Result<Config, ConfigError> + Send + Sync;

/// Puts another `log.level` in force; says why it could not.
pub type LogSetter = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// How whoever started the server lets it begin anew.
#[derive(Clone)]
pub struct Reloading {
    pub load: Arc<Loader>,
    pub set_log_level: Arc<LogSetter>,
}

impl std::fmt::Debug for Reloading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reloading")
    }
}

/// Keys that a running server cannot change: what they set up is in use.
const NEEDS_RESTART: [&str; 5] = ["listen", "data", "store", "audit.key_file", "log.format"];

/// A key that differs between two configurations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    pub key: String,
    pub old: String,
    pub new: String,
    pub needs_restart: bool,
}

/// What is in force now.
#[derive(Debug)]
pub struct Live {
    current: watch::Sender<Current>,
}

#[derive(Debug)]
struct Current {
    app: Arc<App>,
    router: Router,
}

impl Current {
    fn new(app: Arc<App>) -> Current {
        Current { router: api::router(Arc::clone(&app)), app }
    }
}

impl Live {
    pub fn new(app: Arc<App>) -> Arc<Live> {
        Arc::new(Live { current: watch::Sender::new(Current::new(app)) })
    }

    pub fn app(&self) -> Arc<App> {
        Arc::clone(&self.current.borrow().app)
    }

    pub fn router(&self) -> Router {
        self.current.borrow().router.clone()
    }

    /// Wakes when another configuration comes into force.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.current.subscribe())
    }

    /// Takes a configuration that has passed every check; says what is different in it.
    pub fn take(&self, new: Config) -> Vec<Change> {
        let old = self.app();
        let changes = changes(&old.config, &new);
        let (listen, data) = (old.config.listen.clone(), old.config.data.clone());
        let (store, audit) = (old.config.store.clone(), old.config.audit.clone());
        let mut config = Config { listen, data, store, audit, ..new };
        config.log.format = old.config.log.format;
        if changes.iter().any(|change| !change.needs_restart) {
            self.current.send_replace(Current::new(Arc::new(old.under(config))));
        }
        changes
    }
}

#[derive(Debug)]
pub(crate) struct Changes(watch::Receiver<Current>);

impl Changes {
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody can change anything any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Loads the configuration anew and takes it, or says in the log why the old one stays.
pub async fn reload(live: &Live, reloading: &Reloading) {
    let load = Arc::clone(&reloading.load);
    let loaded = tokio::task::spawn_blocking(move || load()).await;
    let config = match loaded {
        Ok(Ok(config)) => config,
        Ok(Err(error)) => {
            let problems = error.to_string().replace('\n', "; ");
            tracing::error!("configuration not reloaded, the old one stays in effect: {problems}");
            return;
        }
        Err(error) => {
            tracing::error!(%error, "configuration not reloaded, the old one stays in effect");
            return;
        }
    };
    let level = config.log.level.clone();
    let changes = live.take(config);
    if changes.iter().any(|change| change.key == "log.level")
        && let Err(error) = (reloading.set_log_level)(&level)
    {
        tracing::error!(error, "log.level could not be changed");
    }
    log(&changes);
}

fn log(changes: &[Change]) {
    for change in changes.iter().filter(|change| change.needs_restart) {
        let Change { key, old, new, .. } = change;
        if key == "store" {
            tracing::warn!(key, "store changed: requires a restart");
        } else {
            tracing::warn!(key, old, new, "{key} changed from {old} to {new}: requires a restart");
        }
    }
    let taken: Vec<&str> =
        changes.iter().filter(|change| !change.needs_restart).map(|change| change.key.as_str()).collect();
    let changed = taken.join(", ");
    match taken.len() {
        0 => tracing::info!("configuration reloaded: no changes"),
        _ => tracing::info!(changed, "configuration reloaded: {changed} changed"),
    }
}

/// The keys that differ, by what `config show` prints: no key can be forgotten here.
fn changes(old: &Config, new: &Config) -> Vec<Change> {
    // Two values may look the same: credentials are not shown.
    let (old_secrets, new_secrets) = (old.secrets(), new.secrets());
    let (old_keys, new_keys) = (keys_of(old), keys_of(new));
    let mut keys: Vec<&String> = old_keys.keys().chain(new_keys.keys()).collect();
    keys.sort();
    keys.dedup();
    let shown = |keys: &BTreeMap<String, String>, key: &str| keys.get(key).cloned().unwrap_or_default();
    let differ = |key: &&String| {
        old_keys.get(*key) != new_keys.get(*key) || old_secrets.get(*key) != new_secrets.get(*key)
    };
    keys.into_iter()
        .filter(differ)
        .map(|key| Change {
            old: shown(&old_keys, key),
            new: shown(&new_keys, key),
            needs_restart: NEEDS_RESTART.contains(&key.as_str()),
            key: key.clone(),
        })
        .collect()
}

fn keys_of(config: &Config) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    // What we have just written is TOML; if it were not, nothing would seem changed.
    let table: toml::Table = config.to_toml().parse().unwrap_or_default();
    flatten(&table, "", &mut keys);
    keys
}

fn flatten(table: &toml::Table, outer: &str, keys: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let path = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(inner, &path, keys),
            value => {
                keys.insert(path, value.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DestinationConfig, DestinationUrl, REPORT_SOURCE, Secret, StoreUrl};

    #[test]
    fn every_key_that_differs_is_named_and_lists_count_as_one() {
        let old = Config::default();
        let mut new = Config { listen: "127.0.0.1:1".into(), ..old.clone() };
        new.limits.connections_max = 7;
        new.fingerprint.in_app.push("com.acme.".into());
        new.search.bodies = false;
        let told: Vec<_> = changes(&old, &new).into_iter().map(|it| (it.key, it.needs_restart)).collect();
        let expected = [
            ("fingerprint.in_app", false),
            ("limits.connections_max", false),
            ("listen", true),
            ("search.bodies", false),
        ];
        assert_eq!(told, expected.map(|(key, restart)| (key.to_owned(), restart)));
        assert_eq!(changes(&old, &old), []);
    }

    #[test]
    fn a_new_password_is_a_change_that_shows_neither() {
        let with = |store: &str| Config { store: StoreUrl::parse(store).unwrap(), ..Config::default() };
        let told = changes(&with("postgres://u:one@h/d"), &with("postgres://u:two@h/d"));
        let shown = "\"postgres://u:***@h/d\"".to_owned();
        let expected = Change { key: "store".into(), old: shown.clone(), new: shown, needs_restart: true };
        assert_eq!(told, [expected]);
    }

    #[test]
    fn a_new_secret_of_a_destination_is_a_change_that_shows_neither() {
        let with = |url: &str, secret: &str| {
            let mut destination = DestinationConfig::new(DestinationUrl::parse(url).unwrap());
            destination.secret = Some(Secret::parse(secret).unwrap());
            let mut config = Config::default();
            let report = config.sources.get_mut(REPORT_SOURCE).unwrap();
            report.subscribers.insert("a.b".to_owned(), destination.clone());
            report.destination = Some(destination);
            config
        };
        let old = with("https://u:one@h/", "one-one-one-one-one");
        let new = with("https://u:two@h/", "two-two-two-two-two");
        let told = changes(&old, &new);
        let keys: Vec<&str> = told.iter().map(|change| change.key.as_str()).collect();
        let expected = [
            "sources.report.destination.secret",
            "sources.report.destination.url",
            "sources.report.subscribers.a.b.secret",
            "sources.report.subscribers.a.b.url",
        ];
        assert_eq!(keys, expected);
        assert!(told.iter().all(|change| change.old == change.new && !change.needs_restart), "{told:?}");
        assert!(!format!("{told:?}").contains("one") && !format!("{told:?}").contains("two"), "{told:?}");
    }
}
