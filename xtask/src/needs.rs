//! What the tests need from the machine beyond a Rust toolchain: one table, one line per need. Looks;
//! never installs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Add a line here when a test starts to need something.
pub(crate) const TEST_NEEDS: &[Need] = &[
    need("C compiler", &["cc"], &["gcc", "libc6-dev"], "compiles the bundled SQLite and zstd"),
    need(
        "PostgreSQL",
        &["initdb", "/usr/lib/postgresql/*/bin/initdb"],
        &["postgresql"],
        "keeps the letters of the shared store; each test process starts its own server",
    ),
    need(
        "PgBouncer",
        &["pgbouncer", "/usr/sbin/pgbouncer"],
        &["pgbouncer"],
        "stands between PostgreSQL and the tests that are about poolers",
    ),
    need(
        "OpenSSL",
        &["openssl"],
        &["openssl"],
        "makes the certificates of the PostgreSQL and NATS servers that are connected to over TLS",
    ),
    need(
        "NATS",
        &["nats-server", "/usr/sbin/nats-server"],
        &["nats-server"],
        "is the oldest server that the JetStream source is tested against",
    ),
    need(
        "RabbitMQ",
        &["/usr/lib/rabbitmq/bin/rabbitmq-server"],
        &["rabbitmq-server"],
        "is the broker that the RabbitMQ source and worker are tested against",
    ),
    need("Prometheus", &["promtool"], &["prometheus"], "checks the alert rules that are made from the code"),
    need(
        "Alertmanager",
        &["prometheus-alertmanager"],
        &["prometheus-alertmanager"],
        "is notified of alerts by the tests",
    ),
    need(
        "AMQP tools",
        &["amqp-publish"],
        &["amqp-tools"],
        "is an AMQP client of others that the RabbitMQ source is tested with",
    ),
    need(
        "Python 3",
        &["python3"],
        &["python3"],
        "runs the Python examples, the emulators of S3 and of Google Cloud Storage, and clients of NATS and RabbitMQ",
    ),
    need(
        "Python environments",
        &["/usr/lib/*/ensurepip", "/usr/local/lib/*/ensurepip", "pyenv"],
        &["python3-venv"],
        "keeps the packages that the tests need out of the machine's Python",
    ),
    need(
        "Node",
        &["node"],
        &["nodejs"],
        "runs the Node examples, Azurite and a NATS client, and fetches axe-core",
    ),
    need("Java", &["javac"], &["default-jdk-headless"], "runs examples/report/Report.java"),
    need("Ruby", &["ruby"], &["ruby"], "runs examples/report/report.rb"),
    need("PHP", &["php"], &["php-cli"], "runs examples/report/report.php"),
    need(
        "npm",
        &["npm"],
        &["npm"],
        "installs Azurite, which stands in for Azure's object storage, and a NATS client",
    ),
    need("Chromium", &["chromium"], &["chromium"], "shows the dashboard to the tests"),
    need("its driver", &["chromedriver"], &["chromium-driver"], "lets the tests use that Chromium"),
    need(
        "a font",
        &["/usr/share/fonts/*/*/DejaVuSans.ttf"],
        &["fonts-dejavu-core"],
        "makes the text of pages and their pictures the same everywhere",
    ),
];

/// One thing that has to be on the machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) name: &'static str,
    /// Any one of these will do: a program on the `PATH`, or an absolute path, in which a component `*`
    /// stands for any name (`/usr/lib/postgresql/*/bin/initdb`).
    pub(crate) found_at: &'static [&'static str],
    pub(crate) debian_packages: &'static [&'static str],
    pub(crate) purpose: &'static str,
}

const fn need(
    name: &'static str,
    found_at: &'static [&'static str],
    debian_packages: &'static [&'static str],
    purpose: &'static str,
) -> Need {
    Need { name, found_at, debian_packages, purpose }
}

pub(crate) fn missing<'a>(needs: &'a [Need], search_path: &OsStr) -> Vec<&'a Need> {
    let is_found = |place: &str| match place.starts_with('/') {
        true => exists(place),
        false => is_on_path(place, search_path),
    };
    needs.iter().filter(|need| !need.found_at.iter().any(|place| is_found(place))).collect()
}

pub(crate) fn is_on_path(program: &str, search_path: &OsStr) -> bool {
    std::env::split_paths(search_path).any(|folder| folder.join(program).is_file())
}

fn exists(pattern: &str) -> bool {
    let mut found = vec![PathBuf::from("/")];
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        found = match component {
            "*" => found.iter().flat_map(|folder| entries(folder)).collect(),
            name => found.iter().map(|folder| folder.join(name)).filter(|path| path.exists()).collect(),
        };
    }
    !found.is_empty()
}

/// A folder that cannot be read holds nothing that the tests could use.
fn entries(folder: &Path) -> Vec<PathBuf> {
    match folder.read_dir() {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found_at: &'static [&'static str], expected_missing: bool) {
        let needs = [Need { name: "thing", found_at, debian_packages: &["thing"], purpose: "a test" }];
        let search_path = OsStr::new("/nonexistent:/bin:/usr/bin");
        assert_eq!(!missing(&needs, search_path).is_empty(), expected_missing, "{found_at:?}");
    }

    #[test]
    fn a_program_is_found_on_the_path() {
        check(&["sh"], false);
        check(&["lazaret-no-such-program"], true);
    }

    #[test]
    fn a_folder_of_that_name_on_the_path_is_not_a_program() {
        assert!(!is_on_path("bin", OsStr::new("/usr")));
    }

    #[test]
    fn a_known_path_is_found_whatever_its_version() {
        check(&["/bin/sh"], false);
        check(&["/*/sh"], false);
        check(&["/usr/*/sh"], false);
        check(&["/*/lazaret-no-such-program"], true);
        check(&["/nonexistent/*/sh"], true);
    }

    #[test]
    fn any_one_place_will_do() {
        check(&["lazaret-no-such-program", "/nonexistent", "sh"], false);
    }

    #[test]
    fn every_need_can_be_looked_for_installed_and_explained() {
        for need in TEST_NEEDS {
            assert!(!need.found_at.is_empty(), "{need:?}");
            assert!(!need.debian_packages.is_empty(), "{need:?}");
            assert!(!need.purpose.is_empty(), "{need:?}");
        }
    }
}
