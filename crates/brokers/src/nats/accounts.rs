//! An operator with one account and one user, as JSON Web Tokens: what a server and a credentials file need where accounts
//! are not kept in the server's configuration.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// Tokens of an operator, a system account, and an account with JetStream that has one user.
pub(crate) struct Accounts {
    operator: String,
    system_account: String,
    /// Public keys of accounts and their tokens.
    resolved: [(String, String); 2],
    /// The text of the user's credentials file.
    pub(crate) credentials: String,
}

impl Accounts {
    pub(crate) fn generate() -> Accounts {
        let operator = KeyPair::new_operator();
        let system = KeyPair::new_account();
        let account = KeyPair::new_account();
        let user = KeyPair::new_user();
        let unlimited = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
            "leaf": -1,
        });
        let mut stored = unlimited.clone();
        for limit in ["mem_storage", "disk_storage", "streams", "consumer"] {
            stored[limit] = json!(-1);
        }
        let account_claims = |limits: &Value| json!({"type": "account", "version": 2, "limits": limits});
        let user_claims = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
        let user_token = token(&account, &user, "worker", &user_claims);
        let seed = user.seed().expect("a generated pair has a seed");
        Accounts {
            operator: token(
                &operator,
                &operator,
                "tests",
                &json!({"type": "operator", "version": 2, "system_account": system.public_key()}),
            ),
            system_account: system.public_key(),
            resolved: [
                (system.public_key(), token(&operator, &system, "SYS", &account_claims(&unlimited))),
                (account.public_key(), token(&operator, &account, "APP", &account_claims(&stored))),
            ],
            credentials: format!(
                "-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n\
                 -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
            ),
        }
    }

    /// The part of a server's configuration that knows these accounts.
    pub(crate) fn settings(&self) -> String {
        let [(system, system_token), (account, account_token)] = &self.resolved;
        format!(
            "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n  {system}: {system_token}\n  \
             {account}: {account_token}\n}}\n",
            self.operator, self.system_account
        )
    }
}

fn token(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: &Value) -> String {
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let body = json!({
        "jti": name, "iat": 1_700_000_000, "iss": issuer.public_key(), "name": name, "sub": subject.public_key(),
        "nats": claims,
    });
    let [header, body] = [header, body].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{body}");
    let signature = issuer.sign(signed.as_bytes()).expect("a generated pair signs");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
