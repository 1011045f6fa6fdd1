//! Random bits for ids and tokens, from the operating system, fetched in bulk because ids are made by the thousand.

use std::sync::Mutex;

use crate::StoreError;

/// Hands out random bytes; a failure of the operating system's generator is an error, never a weaker source.
#[derive(Debug)]
pub struct Entropy {
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    bytes: [u8; 4096],
    used: usize,
}

impl Default for Entropy {
    fn default() -> Entropy {
        Entropy { pool: Mutex::new(Pool { bytes: [0; 4096], used: 4096 }) }
    }
}

impl Entropy {
    pub fn take<const N: usize>(&self) -> Result<[u8; N], StoreError> {
        let mut pool = self.pool.lock().unwrap_or_else(|broken| broken.into_inner());
        if pool.used + N > pool.bytes.len() {
            // Marked as used up first: if the refill fails, old bytes are never handed out again.
            pool.used = pool.bytes.len();
            getrandom::fill(&mut pool.bytes).map_err(|error| StoreError::Unavailable {
                doing: "drawing random bits",
                source: Some(Box::new(error)),
            })?;
            pool.used = 0;
        }
        let from = pool.used;
        pool.used += N;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&pool.bytes[from..from + N]);
        pool.bytes[from..from + N].fill(0);
        Ok(bytes)
    }
}
