//! Access tokens as they are kept: by hash, never in clear.

use lazaret_core::id::TokenId;
use lazaret_core::time::Time;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredToken {
    pub id: TokenId,
    /// SHA-256 of the token's text.
    pub hash: [u8; 32],
    pub name: String,
    pub role: String,
    pub created_at: Time,
    pub created_by: String,
    pub revoked_at: Option<Time>,
}
