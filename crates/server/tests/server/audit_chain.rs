//! The audit log can be proved: whatever is done to its rows shows.

use std::path::Path;

use lazaret_server::audit::{self, AuditKey};
use lazaret_server::config::{Config, StoreUrl};
use lazaret_store::AuditLog;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::rig::TestApp;

/// A server with a key, and five entries in its log that are linked.
pub struct Chain {
    pub app: TestApp,
    key: TempDir,
}

fn key_in(folder: &Path) -> AuditKey {
    let path = folder.join("audit.key");
    std::fs::write(&path, [7; 32]).unwrap();
    AuditKey::read_from(&path).unwrap()
}

impl Chain {
    pub async fn new() -> Chain {
        let mut app = TestApp::new().await;
        let key = tempfile::tempdir().unwrap();
        app.use_audit_key(key_in(key.path()));
        let chain = Chain { app, key };
        let id = chain.app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
        for (verb, body) in [
            ("hold", json!({"reason": "case 7"})),
            ("release", json!({})),
            ("resolve", json!({"reason": "by hand"})),
            ("reopen", json!({})),
            ("discard", json!({"reason": "poison"})),
        ] {
            chain.app.post(&format!("/api/v1/dead-letters/{id}/{verb}"), &body).await.expect(200);
            chain.app.pass(1_000);
        }
        chain.link().await;
        let verdict = chain.verify().await;
        assert_eq!((&verdict["intact"], &verdict["linked"]), (&json!(true), &json!(5)), "{verdict}");
        chain
    }

    async fn link(&self) {
        audit::tick(&self.app.app).await.unwrap();
    }

    /// One more entry.
    async fn decide(&self) {
        let body = json!({"filter": {"queue": "report"}, "expectedCount": 1});
        self.app.post("/api/v1/dead-letters/reopen", &body).await.expect(200);
    }

    async fn verify(&self) -> Value {
        self.app.get("/api/v1/audit/verify").await.expect(200)
    }

    /// Runs statements on the file, as somebody who can write to it would.
    pub fn damage(&self, statements: &str) {
        let file = Connection::open(self.app.backing.database()).unwrap();
        file.execute_batch(statements).unwrap();
    }

    #[track_caller]
    fn assert_fault(verdict: &Value, position: u64, kind: &str) {
        assert_eq!(verdict["intact"], false, "{verdict}");
        let fault = &verdict["fault"];
        assert_eq!((&fault["position"], &fault["kind"]), (&json!(position), &json!(kind)), "{verdict}");
        assert!(fault["detail"].is_string());
    }
}

#[tokio::test]
async fn new_entries_are_told_as_not_linked_yet() {
    let chain = Chain::new().await;
    let before = chain.verify().await;
    assert_eq!((&before["unlinked"], &before["newestPosition"]), (&json!(0), &json!(5)));
    chain.decide().await;
    let verdict = chain.verify().await;
    assert_eq!((&verdict["intact"], &verdict["entries"]), (&json!(true), &json!(6)), "{verdict}");
    assert_eq!((&verdict["unlinked"], &verdict["newestLink"]), (&json!(1), &before["newestLink"]));
    chain.link().await;
    let verdict = chain.verify().await;
    assert_eq!((&verdict["linked"], &verdict["unlinked"]), (&json!(6), &json!(0)));
    assert_ne!(verdict["newestLink"], before["newestLink"]);
    chain.link().await;
    assert_eq!(chain.verify().await, verdict);
}

#[tokio::test]
async fn a_changed_row_is_named_whatever_was_changed() {
    let chain = Chain::new().await;
    for (column, value) in [
        ("reason", "'another reason'"),
        ("reason", "null"),
        ("actor", "'nobody'"),
        ("role", "'viewer'"),
        ("action", "'discard'"),
        ("at", "0"),
        ("count", "2"),
        ("filter", "'queue:a'"),
        ("letter", "null"),
        ("operation", "zeroblob(16)"),
        ("incident", "zeroblob(16)"),
        ("redrive", "zeroblob(16)"),
        ("request", "'x'"),
        ("id", "zeroblob(16)"),
        ("link", "zeroblob(32)"),
    ] {
        chain.damage(&format!(
            "create table kept as select * from audit where position = 3;
             update audit set {column} = {value} where position = 3;"
        ));
        Chain::assert_fault(&chain.verify().await, 3, "changed");
        chain.damage(&format!(
            "update audit set {column} = (select {column} from kept) where position = 3; drop table kept;"
        ));
        assert_eq!(chain.verify().await["intact"], true, "{column}");
    }
}

#[tokio::test]
async fn a_removed_row_is_named() {
    for (statement, position) in [
        ("delete from audit where position = 1", 1),
        ("delete from audit where position = 3", 3),
        ("delete from audit where position in (2, 3, 4)", 2),
    ] {
        let chain = Chain::new().await;
        chain.damage(statement);
        Chain::assert_fault(&chain.verify().await, position, "removed");
    }
    // Closing the gap does not help.
    let chain = Chain::new().await;
    chain.damage(
        "delete from audit where position = 3;
         update audit set position = 3 where position = 4; update audit set position = 4 where position = 5;",
    );
    Chain::assert_fault(&chain.verify().await, 3, "changed");
}

#[tokio::test]
async fn rows_that_trade_places_are_named() {
    let chain = Chain::new().await;
    chain.damage(
        "update audit set position = 99 where position = 2; update audit set position = 2 where position = 3;
         update audit set position = 3 where position = 99;",
    );
    Chain::assert_fault(&chain.verify().await, 2, "changed");
}

#[tokio::test]
async fn a_row_that_was_put_in_is_named() {
    let shift =
        "update audit set position = 6 where position = 5; update audit set position = 5 where position = 4;
         update audit set position = 4 where position = 3;
         insert into audit (position, id, at, actor, role, action, count, link)
         values (3, randomblob(16), 0, 'anna', 'admin', 'discard', 1, ";
    let chain = Chain::new().await;
    chain.damage(&format!("{shift} null)"));
    Chain::assert_fault(&chain.verify().await, 3, "inserted");
    let chain = Chain::new().await;
    chain.damage(&format!("{shift} randomblob(32))"));
    Chain::assert_fault(&chain.verify().await, 3, "changed");
}

#[tokio::test]
async fn a_row_that_lost_its_link_is_not_taken_for_a_new_one() {
    let chain = Chain::new().await;
    chain.damage("update audit set link = null where position = 2");
    chain.link().await;
    Chain::assert_fault(&chain.verify().await, 2, "inserted");
    // Nor is a log that was written anew as a whole.
    chain.damage("update audit set link = null, reason = 'forged'");
    chain.link().await;
    Chain::assert_fault(&chain.verify().await, 1, "cut_off");
}

#[tokio::test]
async fn an_end_that_was_cut_off_is_named_also_when_the_log_goes_on() {
    let chain = Chain::new().await;
    chain.damage("delete from audit where position > 2");
    Chain::assert_fault(&chain.verify().await, 3, "cut_off");
    // As if there had never been more: what takes the place of the old entries is not linked.
    chain.damage("update sqlite_sequence set seq = 2 where name = 'audit'");
    chain.decide().await;
    chain.link().await;
    let verdict = chain.verify().await;
    Chain::assert_fault(&verdict, 3, "cut_off");
    assert_eq!((&verdict["unlinked"], &verdict["newestPosition"]), (&json!(1), &json!(2)));
    // A person who set the database back on purpose says so.
    std::fs::remove_file(chain.key.path().join("audit.head")).unwrap();
    chain.link().await;
    let verdict = chain.verify().await;
    assert_eq!((&verdict["intact"], &verdict["linked"]), (&json!(true), &json!(3)), "{verdict}");
    chain.damage("delete from audit");
    Chain::assert_fault(&chain.verify().await, 1, "cut_off");
}

#[tokio::test]
async fn another_key_fits_nothing() {
    let mut chain = Chain::new().await;
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("audit.key"), [8; 32]).unwrap();
    chain.app.use_audit_key(AuditKey::read_from(&other.path().join("audit.key")).unwrap());
    Chain::assert_fault(&chain.verify().await, 1, "other_key");
    chain.app.use_audit_key(key_in(chain.key.path()));
    assert_eq!(chain.verify().await["intact"], true);
}

#[tokio::test]
async fn without_a_key_nothing_is_linked_and_the_answer_says_so() {
    let app = TestApp::new().await;
    let problem = app.get("/api/v1/audit/verify").await.problem(409, "no_audit_key");
    assert!(problem["hint"].as_str().unwrap().contains("audit.key_file"), "{problem}");
    app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    app.post("/api/v1/dead-letters/discard", &json!({"all": true, "expectedCount": 1})).await.expect(200);
    audit::tick(&app.app).await.unwrap();
    let entries = app.store.audit_links(0, 10).await.unwrap();
    assert!(!entries.is_empty() && entries.iter().all(|(_, link)| link.is_none()), "{entries:?}");
}

#[tokio::test]
async fn an_empty_log_is_intact() {
    let mut app = TestApp::new().await;
    let folder = tempfile::tempdir().unwrap();
    app.use_audit_key(key_in(folder.path()));
    audit::tick(&app.app).await.unwrap();
    let verdict = app.get("/api/v1/audit/verify").await.expect(200);
    let expected = json!({"intact": true, "entries": 0, "linked": 0, "unlinked": 0, "newestPosition": null,
        "newestLink": null, "fault": null});
    assert_eq!(verdict, expected);
    app.get("/api/v1/audit/verify?from=1").await.problem(400, "bad_request");
}

#[tokio::test]
async fn an_embedded_store_gets_its_key_once_and_a_lost_one_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { data: folder.path().to_owned(), ..Config::default() };
    let mut app = TestApp::new().await;
    let made = audit::prepare(&config, app.store.as_ref()).await.unwrap().unwrap();
    let file = folder.path().join("audit.key");
    let text = std::fs::read(&file).unwrap();
    audit::prepare(&config, app.store.as_ref()).await.unwrap().unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), text);
    app.use_audit_key(made);
    app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    app.post("/api/v1/dead-letters/discard", &json!({"all": true, "expectedCount": 1})).await.expect(200);
    // Not linked yet: another key does no harm.
    std::fs::remove_file(&file).unwrap();
    app.use_audit_key(audit::prepare(&config, app.store.as_ref()).await.unwrap().unwrap());
    audit::tick(&app.app).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(audit::prepare(&config, app.store.as_ref()).await.unwrap().is_none());
    assert!(!file.exists());
    std::fs::write(&file, "no key").unwrap();
    let error = audit::prepare(&config, app.store.as_ref()).await.unwrap_err();
    assert!(error.to_string().contains("holds no key") && error.hint().is_some(), "{error}");
}

#[tokio::test]
async fn a_shared_store_has_the_key_that_is_configured_or_none() {
    let app = TestApp::new().await;
    let folder = tempfile::tempdir().unwrap();
    let store = StoreUrl::parse("postgres://lazaret@127.0.0.1/lazaret").unwrap();
    let mut config = Config { data: folder.path().to_owned(), store, ..Config::default() };
    assert!(audit::prepare(&config, app.store.as_ref()).await.unwrap().is_none());
    let file = folder.path().join("shared.key");
    config.audit.key_file = Some(file.clone());
    let error = audit::prepare(&config, app.store.as_ref()).await.unwrap_err();
    assert!(error.to_string().contains("shared.key"), "{error}");
    assert!(error.hint().unwrap().contains("openssl rand"), "{error}");
    std::fs::write(&file, "ab".repeat(32)).unwrap();
    assert!(audit::prepare(&config, app.store.as_ref()).await.unwrap().is_some());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
