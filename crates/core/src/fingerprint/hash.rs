//! The hash under which parts become a fingerprint. Parts do not run into each other.

use sha2::{Digest as _, Sha256};

#[derive(Clone, Debug, Default)]
pub(super) struct Digest(Sha256);

impl Digest {
    pub fn add(&mut self, part: &str) {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part.as_bytes());
    }

    /// 32 hex digits.
    pub fn hex(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(32);
        for byte in &self.0.finalize()[..16] {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }
}
