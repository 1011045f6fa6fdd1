//! Both servers in every way that tests start them: they answer, keep their data over a kill, and refuse the wrong secret.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use lazaret_brokers::nats::{Access, Certificates, Cluster, Options, Server, Version, node_modules, python};

/// Sends lines to a server in its own protocol and returns what it answers until it has said `+`, `-` or `PONG`.
fn talk(server: &Server, lines: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(lines.as_bytes()).unwrap();
    let mut answer = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        answer.push_str(&line);
        answer.push('\n');
        if line.starts_with("-ERR") || line.starts_with("PONG") {
            return answer;
        }
    }
    answer
}

fn connect(server: &Server, fields: &str) -> String {
    talk(server, &format!("CONNECT {{\"verbose\":false{fields}}}\r\nPING\r\n"))
}

/// A request to JetStream and the first message that comes back.
fn ask(server: &Server, subject: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let request = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {}\r\n{body}\r\n",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the server hung up");
        if let Some(size) = line.strip_prefix("MSG answer 1 ") {
            let mut answer = vec![0; size.trim().parse().unwrap()];
            lines.read_exact(&mut answer).unwrap();
            return String::from_utf8(answer).unwrap();
        }
    }
}

#[test]
fn a_killed_server_comes_back_on_its_port_with_its_data() {
    for (version, number) in Version::ALL.into_iter().zip(["2.9.", "2.15."]) {
        let mut server = Server::start(version);
        let info = connect(&server, "");
        assert!(info.contains(&format!("\"version\":\"{number}")), "{info}");
        let stream = r#"{"name":"ORDERS","subjects":["orders.>"],"storage":"file"}"#;
        let created = ask(&server, "$JS.API.STREAM.CREATE.ORDERS", stream);
        assert!(!created.contains("\"error\""), "{created}");
        let stored = ask(&server, "orders.new", "one");
        assert!(stored.contains("\"seq\":1"), "{stored}");
        let port = server.port();
        server.kill();
        assert!(!server.is_running());
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the server is still there");
        server.start_again();
        assert_eq!(server.port(), port);
        let stored = ask(&server, "orders.new", "two");
        assert!(stored.contains("\"seq\":2"), "{version:?}: {stored}");
        let folder = server.folder().to_owned();
        server.stop();
        assert!(server.log().contains("Initiating Shutdown"), "{}", server.log());
        drop(server);
        assert!(!folder.exists());
    }
}

#[test]
fn only_the_right_secret_is_let_in() {
    for version in Version::ALL {
        let start = |access| Server::start_with(Options { version, access, ..Options::default() });
        let token = start(Access::Token("s3cret".into()));
        assert!(connect(&token, ",\"auth_token\":\"s3cret\"").contains("PONG"));
        assert!(connect(&token, ",\"auth_token\":\"guess\"").contains("Authorization Violation"));
        let user = start(Access::User { user: "app".into(), password: "s3cret".into() });
        assert!(connect(&user, ",\"user\":\"app\",\"pass\":\"s3cret\"").contains("PONG"));
        assert!(connect(&user, "").contains("Authorization Violation"));
    }
}

/// Written against the official client in Python, which knows every way to connect.
const CONNECT: &str = r#"
import asyncio, json, nats, ssl, sys
options = json.loads(sys.argv[2])
if "ca" in options:
    options["tls"] = ssl.create_default_context(cafile=options.pop("ca"))
async def main():
    client = await nats.connect(sys.argv[1], allow_reconnect=False, connect_timeout=5, **options)
    print((await client.jetstream().account_info()).streams)
    await client.close()
asyncio.run(main())
"#;

fn python_connects(server: &Server, options: &str) -> bool {
    let ran =
        std::process::Command::new(python()).args(["-c", CONNECT, &server.url(), options]).output().unwrap();
    ran.status.success() && ran.stdout == b"0\n"
}

#[test]
fn tls_is_required_and_its_authority_is_known() {
    for version in Version::ALL {
        let tls = Some(Certificates::generate());
        let server = Server::start_with(Options { version, tls, ..Options::default() });
        let certificates = server.certificates().unwrap();
        let ca = format!("{{\"ca\":{:?}}}", certificates.ca());
        assert!(python_connects(&server, &ca));
        let other_ca = format!("{{\"ca\":{:?}}}", certificates.other_ca());
        assert!(!python_connects(&server, &other_ca));
    }
}

#[test]
fn only_the_holder_of_a_key_or_of_credentials_is_let_in() {
    for version in Version::ALL {
        let start = |access| Server::start_with(Options { version, access, ..Options::default() });
        let server = start(Access::Nkey);
        let seed = server.nkey_seed().unwrap().to_owned();
        assert!(python_connects(&server, &format!("{{\"nkeys_seed_str\":{seed:?}}}")), "{}", server.log());
        assert!(!python_connects(&server, "{}"));
        let server = start(Access::Credentials);
        let file = format!("{{\"user_credentials\":{:?}}}", server.credentials());
        assert!(python_connects(&server, &file), "{}", server.log());
        let other = start(Access::Credentials);
        let file = format!("{{\"user_credentials\":{:?}}}", other.credentials());
        assert!(!python_connects(&server, &file));
    }
}

#[test]
fn a_cluster_has_a_leader_and_replicates() {
    for version in Version::ALL {
        let mut cluster = Cluster::start(version);
        let stream = r#"{"name":"ORDERS","subjects":["orders.>"],"storage":"file","num_replicas":3}"#;
        let created = ask(&cluster.nodes[0], "$JS.API.STREAM.CREATE.ORDERS", stream);
        assert!(!created.contains("\"error\""), "{created}");
        let stored = ask(&cluster.nodes[0], "orders.new", "one");
        assert!(stored.contains("\"seq\":1"), "{stored}");
        cluster.nodes[0].kill();
        // The others elect a new leader if it was this one; until then nobody answers.
        let stored = ask_until_stored(&cluster.nodes[1]);
        assert!(stored.contains("\"seq\":"), "{stored}");
        cluster.nodes[0].start_again();
        assert_eq!(cluster.url().split(',').count(), 3);
    }
}

/// Publishes until the stream has a leader.
fn ask_until_stored(node: &Server) -> String {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        stream
            .write_all(b"CONNECT {\"verbose\":false}\r\nSUB answer 1\r\nPUB orders.new answer 3\r\ntwo\r\n")
            .unwrap();
        let mut answer = String::new();
        // Ends with the timeout: the server does not hang up.
        BufReader::new(stream).read_to_string(&mut answer).ok();
        if answer.contains("\"seq\"") {
            return answer;
        }
        assert!(std::time::Instant::now() < until, "{answer}");
    }
}

#[test]
fn the_clients_in_python_and_javascript_are_there() {
    assert!(node_modules().join("@nats-io/jetstream").is_dir());
    let server = Server::start(Version::Current);
    assert!(python_connects(&server, "{}"));
}
