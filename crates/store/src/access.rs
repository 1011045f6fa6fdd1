//! Access: tokens, and who is signed in with which of them until when.
//!
//! Neither cookies nor tokens are ever kept, only their hashes. Whether the token of a session is still in force is not
//! asked here: whoever lets somebody in asks for that every time.

use async_trait::async_trait;
use lazaret_core::id::TokenId;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;
use crate::token::StoredToken;

/// A browser that somebody signed in with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSession {
    /// SHA-256 of the cookie.
    pub hash: [u8; 32],
    /// SHA-256 of the token's text.
    pub token: [u8; 32],
    pub created_at: Time,
    pub expires_at: Time,
}

/// What a store does for tokens and sessions. Every `Store` is one.
#[async_trait]
pub trait Access: Send + Sync {
    async fn tokens(&self) -> Result<Vec<StoredToken>, StoreError>;

    async fn add_token(&self, token: StoredToken, by: Actor) -> Result<(), StoreError>;

    /// Revokes a token; false if there is none that could be.
    async fn revoke_token(&self, id: TokenId, by: Actor, at: Time) -> Result<bool, StoreError>;

    /// Begins a session and writes the audit entry, together. Of too many sessions of one token the oldest ends.
    async fn add_session(&self, session: StoredSession, by: Actor) -> Result<(), StoreError>;

    /// The session of a cookie, also when it is over.
    async fn session(&self, hash: [u8; 32]) -> Result<Option<StoredSession>, StoreError>;

    /// Sessions of a token, the newest first, also those that are over and not yet dropped.
    async fn sessions_of(&self, token: [u8; 32]) -> Result<Vec<StoredSession>, StoreError>;

    /// Ends a session and writes the audit entry; says whether there was one.
    async fn end_session(&self, hash: [u8; 32], by: Actor, at: Time) -> Result<bool, StoreError>;

    /// Ends every session of a token and writes one audit entry; says how many there were.
    async fn end_sessions_of(&self, token: [u8; 32], by: Actor, at: Time) -> Result<u64, StoreError>;

    /// Forgets up to `limit` sessions that were over at a time; says how many.
    async fn drop_sessions(&self, expired_by: Time, limit: usize) -> Result<u64, StoreError>;
}
