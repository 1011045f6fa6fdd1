//! Which addresses letters may be sent to: those on the open net, and others only where the operator allows them.
//!
//! A name is looked up once for each connection and what was found is what is connected to, so that a name cannot mean
//! one address when it is checked and another when it is used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::config::DestinationConfig;
use crate::net::host_of;

/// An address that nothing may be sent to.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is a private address; set allow_private = true to allow it")]
pub(crate) struct Forbidden(String);

/// Looks names up and gives only addresses that may be connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    pub(crate) allow_private: bool,
}

/// Checks what can be told of an address as it is written. An address in numbers is never looked up.
pub(crate) fn check(destination: &DestinationConfig) -> Result<(), Forbidden> {
    check_host(destination.url.secret().host_str().unwrap_or_default(), destination.allow_private)
}

/// Checks what can be told of a host as it is written.
pub(crate) fn check_host(host: &str, allow_private: bool) -> Result<(), Forbidden> {
    let bare = host_of(host).trim_end_matches('.');
    let is_open = match bare.parse::<IpAddr>() {
        Ok(address) => is_open(address),
        // These names mean this machine, whatever is looked up (RFC 6761).
        Err(_) => bare != "localhost" && !bare.ends_with(".localhost"),
    };
    if is_open || allow_private { Ok(()) } else { Err(Forbidden(bare.to_owned())) }
}

impl Lookup {
    pub(crate) async fn addresses(
        self,
        host: &str,
    ) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
        let open: Vec<SocketAddr> =
            found.iter().copied().filter(|address| self.allow_private || is_open(address.ip())).collect();
        match (found.first(), open.is_empty()) {
            (Some(first), true) => Err(Forbidden(format!("{host} ({})", first.ip())).into()),
            (Some(_), false) => Ok(open),
            (None, _) => Err(format!("{host} has no address").into()),
        }
    }
}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = *self;
        Box::pin(async move {
            let addresses = lookup.addresses(name.as_str()).await?;
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an address is one of the open net (IANA's registries of special-purpose addresses).
fn is_open(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_open_v4(address),
        IpAddr::V6(address) => is_open_v6(address),
    }
}

fn is_open_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            // Protocol assignments, documentation, benchmarks.
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            // Multicast, reserved, broadcast.
            | [224..=255, ..]
    )
}

fn is_open_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // NAT64 leads to the IPv4 address at its end.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_open_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        // Protocol assignments with Teredo, documentation, 6to4.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All else that is routed. Mapped IPv4, loopback, unique-local, link-local and multicast lie outside.
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_open_net_are_open() {
        let closed = "0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.9.9.9 169.254.169.254 172.16.0.1 172.31.255.255 \
            192.0.0.1 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 240.0.0.1 255.255.255.255 \
            :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 \
            100::1 2001::1 2001:db8::1 2002:7f00:1::1 3fff::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1";
        for address in closed.split_whitespace() {
            assert!(!is_open(address.parse().unwrap()), "{address}");
        }
        let open = "1.1.1.1 100.128.0.1 172.32.0.1 192.0.1.1 198.20.0.1 223.255.255.255 2606:4700::1111 2a00:1450::1 \
            64:ff9b::808:808 2001:4860:4860::8888";
        for address in open.split_whitespace() {
            assert!(is_open(address.parse().unwrap()), "{address}");
        }
    }
}
