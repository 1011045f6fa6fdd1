//! The stable hash of "the same failure": letters with one fingerprint are one incident.
//!
//! Version 1 looks at the letter's type and the error's type alone.

use std::fmt;

use sha2::{Digest, Sha256};

/// `v1:` and 32 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    pub fn of(letter_type: &str, error_type: &str) -> Fingerprint {
        let mut hash = Sha256::new();
        for part in [letter_type, error_type] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut text = String::from("v1:");
        for byte in &hash.finalize()[..16] {
            text.push_str(&format!("{byte:02x}"));
        }
        Fingerprint(text)
    }

    /// Takes a fingerprint that a store kept.
    pub fn stored(text: String) -> Fingerprint {
        Fingerprint(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_make_the_fingerprint_and_do_not_run_together() {
        let one = Fingerprint::of("order.created", "Timeout");
        assert_eq!(one, Fingerprint::of("order.created", "Timeout"));
        assert_eq!(one.as_str().len(), 35);
        assert_ne!(one, Fingerprint::of("order.create", "dTimeout"));
        assert_ne!(one, Fingerprint::of("order.created", "Refused"));
    }
}
