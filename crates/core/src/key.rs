//! The capture key: what makes two reports speak of the same message.

use std::fmt;

use sha2::{Digest, Sha256};

/// SHA-256 over source, tenant, subscriber and message id, all at full length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureKey(pub [u8; 32]);

impl CaptureKey {
    /// Each part is preceded by its length, so that no two sets of parts can run together into one key.
    pub fn of(source: &str, tenant: &str, subscriber: &str, message_id: &str) -> CaptureKey {
        let mut hash = Sha256::new();
        for part in [source, tenant, subscriber, message_id] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        CaptureKey(hash.finalize().into())
    }
}

impl fmt::Debug for CaptureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts_at_full_length() {
        let long = "x".repeat(100_000);
        let base = CaptureKey::of("report", "t", "s", &long);
        assert_eq!(base, CaptureKey::of("report", "t", "s", &long));
        let longer = format!("{long}y");
        for other in [
            CaptureKey::of("other", "t", "s", &long),
            CaptureKey::of("report", "", "s", &long),
            CaptureKey::of("report", "t", "", &long),
            CaptureKey::of("report", "t", "s", &longer),
            CaptureKey::of("report", "ts", "", &long),
        ] {
            assert_ne!(base, other);
        }
    }
}
