//! Hosts and addresses: who is on this machine, and who is meant by a `Host` header.

use std::net::IpAddr;

/// The host of `host:port`, without brackets and port.
pub(crate) fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or("");
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Whether a host can only mean this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        for (authority, host, loopback) in [
            ("127.0.0.1:7070", "127.0.0.1", true),
            ("localhost", "localhost", true),
            ("LOCALHOST:80", "LOCALHOST", true),
            ("[::1]:7070", "::1", true),
            ("127.9.9.9", "127.9.9.9", true),
            ("0.0.0.0:7070", "0.0.0.0", false),
            ("localhost.example.org:80", "localhost.example.org", false),
            ("127.0.0.1.example.org", "127.0.0.1.example.org", false),
            ("", "", false),
            ("[", "", false),
        ] {
            assert_eq!(host_of(authority), host);
            assert_eq!(is_loopback(host_of(authority)), loopback, "{authority}");
        }
    }
}
