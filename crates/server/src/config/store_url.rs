//! Which store is used. The address of a shared one may hold credentials: it is shown masked, and only `secret` gives
//! it whole.

use std::fmt;

use lazaret_store::postgres::PostgresStore;

/// Where letters are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreUrl {
    /// `sqlite`: `lazaret.db` in the data folder.
    Embedded,
    /// A database that any number of instances share.
    Postgres(PostgresUrl),
}

/// `postgres://…`, checked. Its `Debug` and `Display` hold no credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

/// Settings of an address that say nothing secret.
const OPEN_SETTINGS: [&str; 13] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "port",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
];

const MASK: &str = "***";

impl StoreUrl {
    /// Reads `sqlite` or `postgres://…`. What it says does not repeat the value: it may hold a password.
    pub fn parse(text: &str) -> Result<StoreUrl, String> {
        if text == "sqlite" {
            return Ok(StoreUrl::Embedded);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return PostgresUrl::parse(text).map(StoreUrl::Postgres);
        }
        Err("not a known store; write \"sqlite\", which is lazaret.db in the data folder, or \
             \"postgres://user:password@host/database\""
            .to_owned())
    }

    /// What kind of store it is.
    pub const fn name(&self) -> &'static str {
        match self {
            StoreUrl::Embedded => "sqlite",
            StoreUrl::Postgres(_) => "postgres",
        }
    }
}

/// As it was written, but for credentials.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Embedded => f.write_str(self.name()),
            StoreUrl::Postgres(url) => url.fmt(f),
        }
    }
}

impl PostgresUrl {
    pub fn parse(text: &str) -> Result<PostgresUrl, String> {
        PostgresStore::check_url(text).map_err(|error| error.to_string())?;
        Ok(PostgresUrl(text.to_owned()))
    }

    /// The whole address, for the store alone.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

/// The address without passwords. Rather too much is masked than too little: a password with an unescaped `@` or `?` in
/// it must not show its end.
fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (user, rest) = match rest.rsplit_once('@') {
        // Where the credentials end is not clear.
        Some((before, _)) if before.contains('?') => return format!("{scheme}://{MASK}"),
        Some((credentials, rest)) => match credentials.split_once([':', '/', '@']) {
            Some((user, _)) => (format!("{user}:{MASK}@"), rest),
            None => (format!("{credentials}@"), rest),
        },
        None => (String::new(), rest),
    };
    let (place, settings) = match rest.split_once('?') {
        Some((place, settings)) => (place, format!("?{}", masked_settings(settings))),
        None => (rest, String::new()),
    };
    format!("{scheme}://{user}{place}{settings}")
}

fn masked_settings(settings: &str) -> String {
    let shown = settings.split('&').map(|setting| match setting.split_once('=') {
        Some((name, _)) if OPEN_SETTINGS.contains(&name) => setting.to_owned(),
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    });
    shown.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://db/letters", "postgres://db/letters"),
            ("postgresql://lazaret@db:5433/letters", "postgresql://lazaret@db:5433/letters"),
            ("postgres://lazaret:hunter2@a,b/letters", "postgres://lazaret:***@a,b/letters"),
            (
                "postgres://u:hunter2@%2Frun%2Fpg/d?sslmode=disable",
                "postgres://u:***@%2Frun%2Fpg/d?sslmode=disable",
            ),
            ("postgres://h/d?user=u&password=hunter2", "postgres://h/d?user=***&password=***"),
        ] {
            let read = StoreUrl::parse(url).unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(format!("{read:?}"), format!("Postgres({shown})"));
            assert_eq!(read.name(), "postgres");
            let StoreUrl::Postgres(read) = read else { panic!("{url} is not embedded") };
            assert_eq!(read.secret(), url);
        }
    }

    #[test]
    fn a_password_that_should_have_been_escaped_is_masked_whole() {
        for url in [
            "postgres://u:hun@ter2@h/d",
            "postgres://u:hun?ter2@h/d",
            "postgres://u:hun/ter2@h/d",
            "postgres://u:hun&x=ter2@h/d",
            "postgres://u@h/d?password=hun@ter2",
            "postgres://u:hun@h?ter2",
        ] {
            let shown = masked(url);
            assert!(!shown.contains("hun") && !shown.contains("ter2"), "{shown}");
        }
    }
}
