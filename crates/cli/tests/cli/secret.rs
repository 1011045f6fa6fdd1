//! TLS to PostgreSQL: a real server with a certificate that this test made, asked by the real binary. Whoever is not whom
//! the address names is refused, and the password is in no message and in no log.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use lazaret_store::testing::own::{OwnServer, wait_until};

use crate::running::{Desk, Ran, arg};
use crate::torture::call;

const PASSWORD: &str = "hunter2-and-more";

fn openssl(folder: &Path, words: &str) {
    let ran = Command::new("openssl").args(words.split(' ')).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Makes an authority, another one, and a certificate of the first for the name `localhost`.
pub fn make_certificates(folder: &Path) {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for authority in ["right", "wrong"] {
        let made = format!("-keyout {authority}.key -out {authority}.pem -subj /CN={authority}");
        openssl(folder, &format!("req -x509 {KEY} -days 3 {made}"));
    }
    openssl(folder, &format!("req {KEY} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        folder,
        "x509 -req -in server.csr -CA right.pem -CAkey right.key -CAcreateserial -days 3 -extfile names -out server.pem",
    );
}

/// A server, and a folder with the certificates.
struct Secret {
    desk: Desk,
    server: OwnServer,
}

impl Secret {
    fn start() -> Secret {
        let desk = Desk::new();
        let folder = desk.folder.path();
        make_certificates(folder);
        let server = OwnServer::start_secret(&folder.join("server.pem"), &folder.join("server.key"));
        server.run(&format!("create role lazaret login password '{PASSWORD}'"));
        server.run("grant create on database lazaret to lazaret");
        Secret { desk, server }
    }

    fn url(&self, host: &str, password: &str, settings: &str) -> String {
        let port = self.server.port().unwrap();
        format!("postgres://lazaret:{password}@{host}:{port}/lazaret?{settings}")
    }

    /// The settings that ask for a server whom this authority vouches for.
    fn verify(&self, authority: &str) -> String {
        let path = self.desk.folder.path().join(authority);
        format!("sslmode=verify-full&sslrootcert={}", arg(&path))
    }

    fn migrate(&self, url: &str) -> Ran {
        self.desk.run(&["store", "migrate", "--store", url])
    }

    /// What is said of an address that cannot be used.
    fn refused(&self, url: &str) -> String {
        let told = self.migrate(url).fails(1);
        assert!(!told.contains(PASSWORD) && told.contains("hint: "), "{told}");
        told
    }
}

#[test]
fn a_database_over_tls_is_used_if_it_is_the_one_that_was_meant() {
    let secret = Secret::start();
    let right = secret.verify("right.pem");
    let made = secret.migrate(&secret.url("localhost", PASSWORD, &right)).ok();
    assert!(made.contains("created with schema"), "{made}");
    for settings in ["sslmode=require", "sslmode=prefer", ""] {
        let found = secret.migrate(&secret.url("127.0.0.1", PASSWORD, settings)).ok();
        assert!(found.contains("up to date"), "{settings}: {found}");
    }
    const SECRET: &str = "select count(*) from pg_stat_ssl s join pg_stat_activity a on a.pid = s.pid
                           where s.ssl and a.usename = 'lazaret'";
    let url = secret.url("localhost", PASSWORD, &right);
    let desk = Desk::new().with_env("LAZARET_STORE", &url).with_env("LAZARET_LOG__LEVEL", "trace");
    let mut child = desk
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut first)
        .unwrap();
    let address = first.trim().rsplit_once("http://").unwrap().1;
    let (status, told) = call(address, "GET", "/health/ready", "", "").unwrap();
    assert_eq!(status, 200, "{told}");
    assert!(secret.server.number(SECRET) > 0, "its sessions are not encrypted");
    // Also what is said when it is gone.
    secret.server.stop(lazaret_store::testing::own::Stop::Fast);
    wait_until("the server notices", || {
        let (status, told) = call(address, "GET", "/health/ready", "", "").unwrap();
        assert!(!told.to_string().contains(PASSWORD));
        status == 503
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let log = log.join().unwrap();
    assert!(log.contains("lazaret is starting") && !log.contains(PASSWORD), "{log}");
}

#[test]
fn a_database_that_is_not_the_one_that_was_meant_is_refused_with_what_to_do() {
    let secret = Secret::start();
    let certificate = |told: &str| told.contains("certificate") && told.contains("sslrootcert");
    let told = secret.refused(&secret.url("localhost", PASSWORD, &secret.verify("wrong.pem")));
    assert!(certificate(&told) && told.contains("UnknownIssuer"), "{told}");
    let told = secret.refused(&secret.url("127.0.0.1", PASSWORD, &secret.verify("right.pem")));
    assert!(certificate(&told) && told.contains("not valid for name"), "{told}");
    let told = secret.refused(&secret.url("localhost", PASSWORD, "sslmode=verify-full"));
    assert!(certificate(&told), "the machine does not know this authority: {told}");
    let told = secret.refused(&secret.url("localhost", PASSWORD, "sslmode=disable"));
    assert!(told.contains("no encryption"), "{told}");
    let told =
        secret.refused(&secret.url("localhost", &format!("not-{PASSWORD}"), &secret.verify("right.pem")));
    assert!(told.contains("look at user and password"), "{told}");
    // Nothing was made by any of them.
    assert_eq!(secret.server.number("select count(*) from pg_namespace where nspname = 'lazaret'"), 0);
}
