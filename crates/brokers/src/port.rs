//! Ports for servers.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;

/// Below the range from which clients are given their own ports: nobody takes the port of a killed server by chance.
const PORTS: std::ops::Range<u64> = 10_000..32_000;

/// A port on which nothing listens, drawn at random so that test programs that run at once do not meet.
pub(crate) fn free_port() -> u16 {
    loop {
        let random = RandomState::new().build_hasher().finish();
        let port = PORTS.start + random % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).expect("ports fit");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
