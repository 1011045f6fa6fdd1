//! Certificates for servers and clients, made anew for each test by OpenSSL. Valid for three days.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// A certificate authority, a server certificate for `localhost` and `127.0.0.1`, a client certificate, and another authority
/// with a client certificate of its own.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    pub fn generate() -> Certificates {
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let path = folder.path();
        for authority in ["ca", "other-ca"] {
            let files = format!("-keyout {authority}.key -out {authority}.pem -subj /CN={authority}");
            openssl(path, &format!("req -x509 {KEY} -days 3 {files}"));
        }
        sign(
            path,
            "ca",
            "server",
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
        );
        sign(path, "ca", "client", "extendedKeyUsage=clientAuth\n");
        sign(path, "other-ca", "other-client", "extendedKeyUsage=clientAuth\n");
        Certificates { folder }
    }

    /// The authority that clients have to trust.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// An authority that has nothing to do with the server.
    pub fn other_ca(&self) -> PathBuf {
        self.file("other-ca.pem")
    }

    /// A client's certificate and key.
    pub fn client(&self) -> (PathBuf, PathBuf) {
        (self.file("client.pem"), self.file("client.key"))
    }

    /// A client's certificate and key that the other authority signed.
    pub fn other_client(&self) -> (PathBuf, PathBuf) {
        (self.file("other-client.pem"), self.file("other-client.key"))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn sign(folder: &Path, authority: &str, name: &str, extensions: &str) {
    openssl(folder, &format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
    std::fs::write(folder.join("extensions"), extensions).expect("the folder is ours");
    let authority = format!("-CA {authority}.pem -CAkey {authority}.key -CAcreateserial");
    openssl(
        folder,
        &format!("x509 -req -in {name}.csr {authority} -days 3 -extfile extensions -out {name}.pem"),
    );
}

fn openssl(folder: &Path, words: &str) {
    let ran = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
    let ran = ran.unwrap_or_else(|error| panic!("openssl: {error}; `cargo xtask test` installs it"));
    assert!(ran.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&ran.stderr));
}
