//! RabbitMQ from the command line: topology, discovery, credentials that do not fit, and the demo.

use std::time::{Duration, Instant};

use lazaret_brokers::rabbitmq::Server as Node;
use serde_json::Value;

use crate::running::{Desk, Server};

const WAIT_MAX: Duration = Duration::from_secs(60);

/// A desk whose configuration captures `orders-dlq` on a virtual host of its own.
fn desk(password: &str) -> Desk {
    let node = Node::shared();
    let vhost = node.vhost();
    let arguments = r#"{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders-dead"}"#;
    let orders = format!(r#"{{"durable": true, "arguments": {arguments}}}"#);
    for (queue, settings) in [("orders-dead", r#"{"durable": true}"#), ("orders", orders.as_str())] {
        assert!(node.api("PUT", &format!("/api/queues/{}/{queue}", vhost.name), settings).is_some());
    }
    let desk = Desk::new().with_env("LAZARET_SOURCES__SHOP__AUTH__PASSWORD", password);
    desk.file(
        "lazaret.toml",
        &format!(
            "[sources.shop]\nkind = \"rabbitmq\"\nservers = [\"amqp://127.0.0.1:{}\"]\nvhost = \"{}\"\n\
             auth = {{ user = \"guest\" }}\nmanagement = {{ url = \"{}\" }}\n\n\
             [[sources.shop.dead_letter_queues]]\nqueue = \"orders-dlq\"\n",
            node.port(),
            vhost.name,
            vhost.management_url
        ),
    );
    desk
}

#[test]
fn queues_are_declared_and_found() {
    let desk = desk("guest");
    let dry_run = desk.run(&["rabbitmq", "apply", "shop", "--dry-run"]);
    assert!(dry_run.stderr.contains("2 differences; nothing was changed (dry run)"), "{dry_run:?}");
    let told = dry_run.ok();
    for line in ["+ queue lazaret.receipts", "+ queue orders-dlq"] {
        assert!(told.lines().any(|it| it == line), "{line}: {told}");
    }
    let found = desk.run(&["rabbitmq", "discover", "shop"]);
    assert!(found.stderr.contains("queue = \"orders-dead\"\noriginal_queue = \"orders\""), "{found:?}");
    let found = found.ok();
    let line = found.lines().find(|line| line.contains("orders-dead")).unwrap_or_default();
    assert!(line.contains("no") && line.contains("orders"), "{found}");
    desk.run(&["rabbitmq", "apply", "shop"]).ok();
    let again = desk.run(&["rabbitmq", "apply", "shop"]);
    assert!(again.stderr.contains("no differences"), "{again:?}");
    let found: Value =
        serde_json::from_str(&desk.run(&["rabbitmq", "discover", "shop", "--json"]).ok()).unwrap();
    let items = found["items"].as_array().unwrap();
    assert!(items.iter().any(|it| it["queue"] == "orders-dlq" && it["captured"] == true), "{found}");

    let log = desk.folder.path().join("log");
    let server = Server::start_logging(desk, &log);
    let begun = Instant::now();
    loop {
        let sources = server.json(&["sources"]);
        let shop =
            sources["items"].as_array().unwrap().iter().find(|it| it["name"] == "shop").unwrap().clone();
        if shop["connection"]["connected"] == true {
            break;
        }
        assert!(begun.elapsed() < WAIT_MAX, "{shop}");
        std::thread::sleep(Duration::from_millis(200));
    }
    // A warning is no failure.
    let told = server.run(&["doctor", "shop"]).ok();
    assert!(told.contains("classic queue orders dead-letters at most once"), "{told}");
    server.stop();
}

#[test]
fn a_wrong_password_is_refused_and_not_shown() {
    let wrong = "not-the-password-0815";
    let desk = desk(wrong);
    for command in [["rabbitmq", "apply", "shop"], ["rabbitmq", "discover", "shop"]] {
        let told = desk.run(&command).fails(1);
        assert!(
            told.contains("refused the credentials") || told.contains("refuses the credentials"),
            "{told}"
        );
        assert!(!told.contains(wrong), "{told}");
    }
    let told = desk.run(&["rabbitmq", "apply", "nats"]).fails(1);
    assert!(told.contains("no RabbitMQ source named nats") && told.contains("configured: shop"), "{told}");
}
