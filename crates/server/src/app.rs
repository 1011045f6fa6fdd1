//! Everything a request or a tick needs, in one place, under one configuration.
//!
//! A reload makes another `App` that shares all but the configuration and what is made of it. Whoever holds one sees
//! that configuration to the end, never a mix of two.

use std::sync::{Arc, PoisonError, RwLock};

use lazaret_core::class::ClassRules;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::redaction::Redactor;
use lazaret_store::entropy::Entropy;
use lazaret_store::{Store, StoreError};
use tokio::sync::watch;

use crate::access::Access;
use crate::alerts::Measured;
use crate::archive::Archive;
use crate::audit::AuditKey;
use crate::books::Books;
use crate::clock::Clock;
use crate::config::Config;
use crate::destination::{Destination, Destinations};
use crate::events::Readers;
use crate::guesses::Guesses;
use crate::metrics::Metrics;
use crate::redrive::Verifications;
use crate::retention::Pruner;
use crate::sources::Sources;
use crate::web::mood::Moods;

#[derive(Clone, Debug)]
pub struct App {
    pub store: Arc<dyn Store>,
    pub config: Config,
    pub clock: Clock,
    pub entropy: Arc<Entropy>,
    /// The operator's class rules, then the built-in ones.
    pub rules: Arc<ClassRules>,
    /// How letters are grouped, by the newest configuration: a request that began before a reload and goes on for
    /// minutes must not bring in letters by rules that all others have been regrouped away from.
    groups: Arc<RwLock<Arc<FingerprintRules>>>,
    /// Masks what is shown; never what is stored, grouped or sent.
    pub redactor: Arc<Redactor>,
    /// Where letters come from that nobody reports.
    pub sources: Arc<Sources>,
    /// Where letters go back to.
    pub destinations: Arc<Destinations>,
    /// Who may do what.
    pub access: Arc<Access>,
    /// Whether the store may be emptied over HTTP.
    pub test_mode: bool,
    /// What entries of the audit log are linked with; without it they are not.
    pub audit_key: Option<Arc<AuditKey>>,
    /// Where letters go that limits push out.
    pub archive: Arc<Archive>,
    /// Who reads events.
    pub readers: Arc<Readers>,
    /// What this instance has done, whatever configuration was in force.
    pub metrics: Arc<Metrics>,
    /// Takes away what limits push out.
    pub pruner: Arc<Pruner>,
    /// Wrong tokens at the sign-in.
    pub guesses: Arc<Guesses>,
    /// The ledger as it was counted last.
    pub books: Arc<Books>,
    /// How far the verification of each redrive has come.
    pub(crate) verifications: Arc<Verifications>,
    /// What is wrong, as pages saw it last.
    pub(crate) moods: Arc<Moods>,
    /// When alerts were measured last.
    pub(crate) measured: Arc<Measured>,
    stop: Arc<watch::Sender<bool>>,
}

impl App {
    /// Puts the parts together and reads the tokens.
    pub async fn new(
        store: Arc<dyn Store>,
        config: Config,
        clock: Clock,
        test_mode: bool,
    ) -> Result<Arc<App>, StoreError> {
        let metrics = Arc::new(Metrics::new(clock.now()));
        let pruner = Arc::new(Pruner::new(clock.now()));
        let sources = Arc::new(Sources::default().under(&config, &store, &clock));
        let app = App {
            store,
            rules: Arc::new(config.classes()),
            groups: Arc::new(RwLock::new(Arc::new(config.groups()))),
            redactor: Arc::new(config.redactor()),
            destinations: Arc::new(Destinations::new(&config, &sources, &clock)),
            sources,
            archive: Arc::new(Archive::new(&config)),
            config,
            clock,
            entropy: Arc::default(),
            access: Arc::default(),
            test_mode,
            audit_key: None,
            readers: Arc::default(),
            metrics,
            pruner,
            guesses: Arc::default(),
            books: Arc::default(),
            verifications: Arc::default(),
            moods: Arc::default(),
            measured: Arc::default(),
            stop: Arc::new(watch::Sender::new(false)),
        };
        app.access.reload(app.store.as_ref()).await?;
        Ok(Arc::new(app))
    }

    /// The same under another configuration.
    pub fn under(&self, config: Config) -> App {
        *self.groups.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config.groups());
        let sources = Arc::new(self.sources.under(&config, &self.store, &self.clock));
        let destinations = Arc::new(self.destinations.under(&config, &sources));
        let same_archive =
            self.config.archive == config.archive && self.config.archive_url() == config.archive_url();
        let archive = if same_archive { Arc::clone(&self.archive) } else { Arc::new(Archive::new(&config)) };
        App {
            rules: Arc::new(config.classes()),
            redactor: Arc::new(config.redactor()),
            sources,
            destinations,
            archive,
            config,
            ..self.clone()
        }
    }

    /// The rules of grouping in force.
    pub fn groups(&self) -> Arc<FingerprintRules> {
        Arc::clone(&self.groups.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same with readers of events of its own, who may be dealt with in another way.
    pub fn with_readers(&self, readers: Readers) -> App {
        App { readers: Arc::new(readers), ..self.clone() }
    }

    /// The same with one more destination, which stays over reloads.
    pub fn with_destination(&self, name: &str, destination: Arc<dyn Destination>) -> App {
        let destinations = self.destinations.under(&self.config, &self.sources).with(name, destination);
        App { destinations: Arc::new(destinations), ..self.clone() }
    }

    /// The same with another archive.
    pub fn with_archive(&self, archive: Archive) -> App {
        App { archive: Arc::new(archive), ..self.clone() }
    }

    /// The same with a key for the chain of the audit log.
    pub fn with_audit_key(&self, key: Option<AuditKey>) -> App {
        App { audit_key: key.map(Arc::new), ..self.clone() }
    }

    /// Asks loops and streams to end; what was accepted is finished by those who accepted it.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Turns true when the end is asked for.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }
}
