//! Nodes come up, keep what they have over a kill, and go with the test.

use lazaret_brokers::rabbitmq::Server;

#[test]
fn a_node_keeps_its_virtual_hosts_over_a_kill() {
    let mut server = Server::start();
    let vhost = server.vhost();
    let queue = format!("/api/queues/{}/orders", vhost.name);
    assert!(server.api("PUT", &queue, r#"{"durable": true}"#).is_some());
    server.kill();
    assert!(!server.is_running() && server.api("GET", &queue, "").is_none());
    server.start_again();
    assert!(server.api("GET", &queue, "").is_some(), "{}", server.log());
    server.stop();
    let folder = server.folder();
    drop(server);
    assert!(!folder.exists());
}
