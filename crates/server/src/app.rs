//! Everything a request or a tick needs, in one place.

use std::sync::Arc;

use lazaret_core::class::ClassRules;
use lazaret_store::entropy::Entropy;
use lazaret_store::{Store, StoreError};

use crate::access::{Access, Reach};
use crate::clock::Clock;
use crate::config::Config;
use crate::net::{host_of, is_loopback};

#[derive(Debug)]
pub struct App {
    pub store: Arc<dyn Store>,
    pub config: Config,
    pub clock: Clock,
    pub entropy: Entropy,
    /// The operator's class rules, then the built-in ones.
    pub rules: ClassRules,
    /// Who may do what.
    pub access: Access,
    /// Whether the store may be emptied over HTTP.
    pub test_mode: bool,
}

impl App {
    /// Puts the parts together and reads the tokens.
    pub async fn new(
        store: Arc<dyn Store>,
        config: Config,
        clock: Clock,
        test_mode: bool,
    ) -> Result<Arc<App>, StoreError> {
        let rules = config.classes();
        let reach = if is_loopback(host_of(&config.listen)) { Reach::Loopback } else { Reach::Abroad };
        let app = App {
            store,
            config,
            clock,
            entropy: Entropy::default(),
            rules,
            access: Access::new(reach),
            test_mode,
        };
        app.access.reload(app.store.as_ref()).await?;
        Ok(Arc::new(app))
    }
}
