//! Alerts with the real binary: a webhook, a real Alertmanager, a mail server with STARTTLS, and kills between firing and delivery.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::receiver::Receiver;
use crate::running::{Desk, Server};
use crate::secret::make_certificates;
use crate::torture::call;

const PATIENCE: Duration = Duration::from_secs(120);

/// Notifications of new letters alone, at once.
const ROUTE: &str = "group_wait = '0s'\nmatch = 'rule=new_letter'\n";

fn webhook(receiver: &Receiver) -> String {
    format!(
        "[alerts.receivers.ops]\ntype = 'webhook'\nurl = '{}'\nallow_private = true\nsecret = '0123456789abcdef'\n\
         [[alerts.routes]]\nreceivers = ['ops']\n{ROUTE}",
        receiver.url
    )
}

/// Asks until the answer is as it should be.
#[track_caller]
fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waiting for {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn alert(server: &Server, rule: &str) -> Option<Value> {
    let alerts = server.json(&["alerts", "list"]);
    alerts["items"].as_array().unwrap().iter().find(|alert| alert["rule"] == rule).cloned()
}

#[test]
fn a_person_lists_acknowledges_silences_and_tests_alerts() {
    let receiver = Receiver::start();
    let desk = Desk::new();
    desk.file("lazaret.toml", &webhook(&receiver));
    let server = Server::start_on(desk);
    assert!(server.run(&["alerts", "list"]).stderr.contains("no alerts"));
    let silence =
        server.json(&["alerts", "silence", "rule=new_incident", "--until", "1h", "--reason", "known"]);
    server.letter("e1", "invoice.created");
    let firing = eventually("an alert", || alert(&server, "new_letter"));
    receiver.wait_for_more(usize::from(receiver.received().is_empty()));
    let told: Value = serde_json::from_str(&receiver.received()[0].body).unwrap();
    assert_eq!(told["alerts"][0]["id"], firing["id"]);
    assert!(receiver.received()[0].header("lazaret-signature").unwrap().starts_with("t="));
    let table = server.run(&["alerts", "list"]).ok();
    assert!(table.contains("new_letter") && table.contains("silenced"), "{table}");
    let id = firing["id"].as_str().unwrap();
    assert!(server.run(&["alerts", "ack", id, "--reason", "mine"]).ok().contains("acknowledged"));
    assert_eq!(alert(&server, "new_letter").unwrap()["state"], "acknowledged");
    let silences = server.run(&["alerts", "silences"]).ok();
    assert!(silences.contains("rule=new_incident") && silences.contains("known"), "{silences}");
    server.run(&["alerts", "unsilence", silence["id"].as_str().unwrap()]).ok();
    assert_eq!(server.json(&["alerts", "silences"])["items"].as_array().unwrap().len(), 0);
    let sent = server.run(&["alerts", "test"]).ok();
    assert!(sent.contains("ops") && sent.contains("log") && !sent.contains("waiting"), "{sent}");
    receiver.answers(|_| 500);
    let failed = server.run(&["alerts", "test", "ops"]);
    assert!(failed.stdout.contains("500") && failed.fails(1).contains("1 of 1 receivers"));
    assert!(server.run(&["alerts", "notifications"]).ok().contains("delivered"));
}

#[test]
fn a_server_killed_between_firing_and_delivery_loses_no_notification() {
    for (point, copies) in [("notification_claimed", 1), ("notification_sent", 2)] {
        let receiver = Receiver::start();
        let desk = Desk::new().with_env("LAZARET_TORTURE_DIE_AT", point);
        desk.file("lazaret.toml", &webhook(&receiver));
        let server = Server::start_with(desk, &["--test-mode"]);
        server.letter("e1", "invoice.created");
        let (_, desk) = server.ended();
        let desk = desk.without_env("LAZARET_TORTURE_DIE_AT");
        assert_eq!(receiver.received().len(), copies - 1, "{point}");
        let server = Server::start_with(desk, &["--test-mode"]);
        let delivered = eventually("delivery", || {
            let sent = server.json(&["alerts", "notifications"]);
            sent["items"].as_array().unwrap().iter().find(|one| one["state"] == "delivered").cloned()
        });
        assert_eq!(delivered["attempts"], 2);
        let received = receiver.received();
        assert_eq!(received.len(), copies, "{point}");
        let keys: Vec<_> = received.iter().map(|it| it.header("idempotency-key")).collect();
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }
}

/// A process that ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_real_alertmanager_is_told_of_an_alert_and_of_its_end() {
    let desk = Desk::new();
    let config = desk.file("alertmanager.yml", "route:\n  receiver: none\nreceivers:\n  - name: none\n");
    let address = format!("127.0.0.1:{}", free_port());
    let _alertmanager = Process(
        Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.path={}", desk.folder.path().join("am").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--cluster.listen-address=")
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let alerts = || call(&address, "GET", "/api/v2/alerts", "application/json", "").map(|(_, alerts)| alerts);
    eventually("Alertmanager", alerts);
    let text = format!(
        "[alerts.receivers.am]\ntype = 'alertmanager'\nurl = 'http://{address}'\nallow_private = true\n\
         [[alerts.rules]]\nkind = 'letter_count'\nabove = 0\nresolve_after = '0s'\n\
         [[alerts.routes]]\nreceivers = ['am']\nmatch = 'rule=letter_count'\ngroup_wait = '0s'\ngroup_interval = '1s'\n"
    );
    desk.file("lazaret.toml", &text);
    let server = Server::start_on(desk);
    let letter = server.letter("e1", "invoice.created");
    let told = eventually("the alert", || {
        alerts().filter(|alerts| alerts[0]["labels"]["type"] == "invoice.created")
    });
    assert_eq!(told[0]["labels"]["alertname"], "Lazaret_letter_count");
    assert_eq!(
        (&told[0]["labels"]["severity"], &told[0]["status"]["state"]),
        (&"warning".into(), &"active".into())
    );
    let id = alert(&server, "letter_count").unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(told[0]["labels"]["lazaret_alert"], id);
    server.run(&["alerts", "ack", &id]).ok();
    server.run(&["resolve", &letter]).ok();
    eventually("its end", || alerts().filter(|alerts| alerts.as_array().is_some_and(Vec::is_empty)));
    assert_eq!(alert(&server, "letter_count").unwrap()["state"], "resolved");
}

/// A mail server that insists on STARTTLS, refuses every other message for now, and prints what it takes.
const MAIL_SERVER: &str = r#"
import socket, ssl, sys
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("server.pem", "server.key")
listener = socket.create_server(("localhost", 0))
print(listener.getsockname()[1], flush=True)
taken = 0
while True:
    raw, _ = listener.accept()
    stream, secure = raw, False
    lines = stream.makefile("rb")
    say = lambda text: stream.sendall((text + "\r\n").encode())
    say("220 test")
    try:
        while (line := lines.readline()):
            verb = line.decode().strip()
            if verb.upper().startswith("EHLO"):
                say("250-test")
                say("250 AUTH PLAIN" if secure else "250 STARTTLS")
            elif verb.upper() == "STARTTLS":
                say("220 go")
                stream = context.wrap_socket(stream, server_side=True)
                lines, secure = stream.makefile("rb"), True
            elif verb.upper().startswith("AUTH"):
                say("235 yes")
            elif verb.upper().startswith("MAIL"):
                taken += 1
                say("451 later" if taken % 2 else "250 ok") if secure else say("530 STARTTLS first")
            elif verb.upper() == "DATA":
                say("354 go")
                body = b""
                while not body.endswith(b"\r\n.\r\n"):
                    body += lines.readline()
                print(body.decode().replace("\r\n", "|"), flush=True)
                say("250 taken")
            elif verb.upper() == "QUIT":
                say("221 bye")
                break
            else:
                say("250 ok")
    except (ssl.SSLError, OSError):
        pass
    raw.close()
"#;

#[test]
fn mail_is_sent_over_starttls_and_each_notification_arrives_once() {
    let desk = Desk::new();
    let folder = desk.folder.path().to_owned();
    make_certificates(&folder);
    let mut mail = Process(
        Command::new("python3")
            .args(["-c", MAIL_SERVER])
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(mail.0.stdout.take().unwrap()).lines();
    let port = lines.next().unwrap().unwrap();
    let text = format!(
        "[alerts.receivers.mail]\ntype = 'smtp'\nhost = 'localhost'\nport = {port}\nallow_private = true\n\
         user = 'lazaret'\npassword = 'hush-hush'\nfrom = 'Lazaret <lazaret@example.org>'\nto = ['ops@example.org']\n\
         [[alerts.routes]]\nreceivers = ['mail']\n{ROUTE}"
    );
    desk.file("lazaret.toml", &text);
    let authority = folder.join("right.pem");
    let server = Server::start_on(desk.with_env("SSL_CERT_FILE", authority.to_str().unwrap()));
    server.letter("e1", "invoice.created");
    let delivered = eventually("the mail", || {
        let sent = server.json(&["alerts", "notifications"]);
        sent["items"].as_array().unwrap().iter().find(|one| one["state"] == "delivered").cloned()
    });
    assert_eq!(delivered["attempts"], 2, "{delivered}");
    let message = lines.next().unwrap().unwrap();
    assert!(message.contains("Subject: [info] New dead letters: invoice.created TimeoutError"), "{message}");
    assert!(message.contains("To: ops@example.org"), "{message}");
    let again = server.json(&["alerts", "notifications"]);
    let states: BTreeMap<&str, usize> =
        again["items"].as_array().unwrap().iter().fold(BTreeMap::new(), |mut all, one| {
            *all.entry(one["state"].as_str().unwrap()).or_default() += 1;
            all
        });
    assert_eq!(states, BTreeMap::from([("delivered", 1)]));
    // A server that vouches for itself is not believed.
    let desk = server.stop();
    let wrong = folder.join("wrong.pem");
    let desk = desk.without_env("SSL_CERT_FILE").with_env("SSL_CERT_FILE", wrong.to_str().unwrap());
    let server = Server::start_on(desk);
    let failed = server.run(&["alerts", "test", "mail"]);
    assert!(failed.stdout.contains("certificate") && !failed.stdout.contains("hush-hush"), "{failed:?}");
}
