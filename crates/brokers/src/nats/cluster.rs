//! Three servers that replicate to each other, so that a stream with three replicas survives one of them.

use std::time::{Duration, Instant};

use super::server::{Options, Server};
use crate::port::free_port;
use crate::programs::Version;

const NODES: usize = 3;

/// Electing a leader takes a second on a quiet machine.
const LEADER_MAX: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running cluster of three. Its nodes can be killed and started again one by one.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: [Server; NODES],
}

impl Cluster {
    /// Starts the nodes and waits until they have a leader, before which no stream can be created.
    pub fn start(version: Version) -> Cluster {
        let ports: [u16; NODES] = std::array::from_fn(|_| free_port());
        let routes = ports.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
        let mut nodes = ports.map(|port| {
            let cluster =
                format!("cluster {{ name: C1, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}\n");
            Server::prepare(Options { version, ..Options::default() }, &cluster)
        });
        nodes.iter_mut().for_each(Server::launch);
        nodes.iter().for_each(Server::wait_until_ready);
        let cluster = Cluster { nodes };
        let until = Instant::now() + LEADER_MAX;
        while !cluster.has_leader() {
            assert!(Instant::now() < until, "the cluster has no leader:\n{}", cluster.nodes[0].log());
            std::thread::sleep(LOOK_EVERY);
        }
        cluster
    }

    /// Every node has to know the leader, or be it: a stream with three replicas needs all of them.
    fn has_leader(&self) -> bool {
        const KNOWN: [&str; 2] =
            ["JetStream cluster new metadata leader", "Self is new JetStream cluster metadata leader"];
        self.nodes.iter().map(Server::log).all(|log| KNOWN.iter().any(|line| log.contains(line)))
    }

    /// The addresses of all nodes, separated by commas.
    pub fn url(&self) -> String {
        self.nodes.iter().map(Server::url).collect::<Vec<_>>().join(",")
    }
}
