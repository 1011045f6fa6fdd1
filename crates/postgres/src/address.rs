//! Where the database is: a URL, read once. Never shows a password.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lazaret_core::limits;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::Unfit;
use crate::tls::{Tls, Trust};

/// A database and how to reach it.
#[derive(Clone)]
pub struct Address {
    pub config: Config,
    pub tls: Tls,
}

impl Address {
    /// Reads `postgres://user:password@host[:port][,host…]/database?sslmode=…&target_session_attrs=read-write`.
    pub fn parse(url: &str) -> Result<Address, Unfit> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(Unfit("its address begins with neither postgres:// nor postgresql://".into()));
        }
        let (rest, security) = Security::take(url)?;
        // The driver's error names the key that is wrong, and never a value.
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            Unfit(format!("its address cannot be read: {}", cause.unwrap_or_default()))
        })?;
        config.ssl_mode(security.mode);
        if config.get_application_name().is_none() {
            config.application_name("lazaret");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX));
        }
        notice_silence(&mut config);
        Ok(Address { config, tls: Tls::new(&security.trust)? })
    }

    /// How long it may take to connect: each host has its time, so that one that is gone leaves some to the next.
    pub fn connect_max(&self) -> Duration {
        let hosts = u32::try_from(self.config.get_hosts().len()).unwrap_or(u32::MAX);
        let each = self.config.get_connect_timeout().copied();
        let each = each.unwrap_or(Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX));
        each.saturating_mul(hosts.max(1))
    }
}

/// A server that is gone without a word (a machine without power, a cut network) is noticed after seconds, and not after
/// the two hours that are usual: only then is another host looked for. What the address says comes first.
fn notice_silence(config: &mut Config) {
    let silence = Duration::from_millis(limits::POSTGRES_SILENCE_MS_MAX);
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(silence / 2);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(silence / 6);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(silence);
    }
}

/// Shows where, and not as whom.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&place(&self.config))
    }
}

/// Hosts and database, for people.
pub fn place(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    format!("postgres {} {}", hosts.join(","), config.get_dbname().unwrap_or(""))
}

/// The part of the address that is about TLS; the driver knows fewer words for it than people write.
struct Security {
    mode: SslMode,
    trust: Trust,
}

impl Security {
    /// Takes what is about TLS out of the address.
    fn take(url: &str) -> Result<(String, Security), Unfit> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut word, mut authorities, mut kept) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => word = Some(value),
                Some(("sslrootcert", path)) => authorities = Some(PathBuf::from(path.replace("%2F", "/"))),
                _ => kept.push(pair),
            }
        }
        let known = match authorities {
            Some(path) => Trust::Authorities(path),
            None => Trust::Machine,
        };
        let (mode, trust) = match word {
            Some("disable") => (SslMode::Disable, Trust::Anyone),
            None | Some("prefer") => (SslMode::Prefer, Trust::Anyone),
            Some("require") => (SslMode::Require, Trust::Anyone),
            // We check the name too where only the authority was asked for.
            Some("verify-ca" | "verify-full") => (SslMode::Require, known),
            Some(other) => {
                return Err(Unfit(format!(
                    "sslmode `{other}` is unknown; there are disable, prefer, require and verify-full"
                )));
            }
        };
        let rest = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        Ok((rest, Security { mode, trust }))
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::TargetSessionAttrs;

    use super::*;

    #[test]
    fn an_address_names_hosts_and_what_is_asked_of_them() {
        let url =
            "postgres://lazaret:secret@one:5433,two/dead?target_session_attrs=read-write&sslmode=verify-full";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.config.get_hosts().len(), 2);
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(address.config.get_application_name(), Some("lazaret"));
        assert_eq!(format!("{address:?}"), "postgres one,two dead");
    }

    #[test]
    fn a_host_that_falls_silent_is_noticed_within_seconds() {
        let silence = Duration::from_millis(limits::POSTGRES_SILENCE_MS_MAX);
        let config = Address::parse("postgres://one/dead").unwrap().config;
        let probes = config.get_keepalives_interval().unwrap() * config.get_keepalives_retries().unwrap();
        assert!(config.get_keepalives() && config.get_keepalives_idle() + probes <= silence);
        assert_eq!(config.get_tcp_user_timeout(), Some(&silence));
        let config = Address::parse("postgres://one/dead?keepalives_idle=60").unwrap().config;
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(60));
    }

    #[test]
    fn each_host_has_its_time_to_answer() {
        let each = Duration::from_millis(limits::POSTGRES_CONNECT_MS_MAX);
        for (url, expected) in [
            ("postgres://one/dead", each),
            ("postgres://one,two/dead", each * 2),
            ("postgres://one,two/dead?connect_timeout=9", Duration::from_secs(18)),
        ] {
            assert_eq!(Address::parse(url).unwrap().connect_max(), expected, "{url}");
        }
    }

    #[test]
    fn a_wrong_address_is_refused_without_its_password() {
        for url in [
            "mysql://u:secret@h/d",
            "postgres://u:secret@h/d?sslmode=maybe",
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@h/d?no_such_key=secret",
            "postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/no/such/file",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{url}: {error}");
        }
    }
}
