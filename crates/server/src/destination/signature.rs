//! How a receiver knows that a letter comes from here: `Lazaret-Signature: t=<unix seconds>,v1=<hex>`.
//!
//! The hex is HMAC-SHA256 over `<t>.<body>`. The time is signed too, so that an old request cannot be sent again.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of the header for a body that is sent at these Unix seconds.
pub fn sign(secret: &str, at_s: i64, body: &[u8]) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("an HMAC takes keys of any length");
    mac.update(format!("{at_s}.").as_bytes());
    mac.update(body);
    let mut value = format!("t={at_s},v1=");
    for byte in mac.finalize().into_bytes() {
        write!(value, "{byte:02x}").expect("a text takes whatever is written to it");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../../docs/guide/redrive-http.md");

    /// The same values stand in the guide for whoever writes a receiver.
    #[test]
    fn the_guide_tells_the_real_signatures() {
        let secret = "0123456789abcdef0123456789abcdef";
        for body in ["", "{\"orderId\":4711}", "Grüße, 世界\n"] {
            let told = format!("| `{body:?}` | `{}` |", sign(secret, 1_763_190_000, body.as_bytes()));
            assert!(GUIDE.contains(&told), "{told}");
        }
        assert!(GUIDE.contains(secret));
    }
}
