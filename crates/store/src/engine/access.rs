//! The entry points of tokens and sessions.

use async_trait::async_trait;
use lazaret_core::id::TokenId;
use lazaret_core::time::Time;

use super::{sessions, tokens};
use crate::StoreError;
use crate::access::{Access, StoredSession};
use crate::audit::Actor;
use crate::seam::{Backend, Lane, View};
use crate::token::StoredToken;

#[async_trait]
impl<S: Backend> Access for S {
    async fn tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        self.read(View::Newest, (), |conn, ()| Box::pin(tokens::all(conn))).await
    }

    async fn add_token(&self, token: StoredToken, by: Actor) -> Result<(), StoreError> {
        self.write(Lane::Quick(1), (token, by), |tx, (token, by)| Box::pin(tokens::add(tx, token, by))).await
    }

    async fn revoke_token(&self, id: TokenId, by: Actor, at: Time) -> Result<bool, StoreError> {
        self.write(Lane::Quick(1), (id, by, at), |tx, (id, by, at)| {
            Box::pin(tokens::revoke(tx, *id, by, *at))
        })
        .await
    }

    async fn add_session(&self, session: StoredSession, by: Actor) -> Result<(), StoreError> {
        self.write(Lane::Quick(1), (session, by), |tx, (session, by)| {
            Box::pin(sessions::add(tx, session, by))
        })
        .await
    }

    async fn session(&self, hash: [u8; 32]) -> Result<Option<StoredSession>, StoreError> {
        self.read(View::Point, hash, |conn, hash| Box::pin(sessions::session(conn, hash))).await
    }

    async fn sessions_of(&self, token: [u8; 32]) -> Result<Vec<StoredSession>, StoreError> {
        self.read(View::Newest, token, |conn, token| Box::pin(sessions::of_token(conn, token))).await
    }

    async fn end_session(&self, hash: [u8; 32], by: Actor, at: Time) -> Result<bool, StoreError> {
        self.write(Lane::Quick(1), (hash, by, at), |tx, (hash, by, at)| {
            Box::pin(sessions::end(tx, hash, by, *at))
        })
        .await
    }

    async fn end_sessions_of(&self, token: [u8; 32], by: Actor, at: Time) -> Result<u64, StoreError> {
        self.write(Lane::Quick(1), (token, by, at), |tx, (token, by, at)| {
            Box::pin(sessions::end_of_token(tx, token, by, *at))
        })
        .await
    }

    async fn drop_sessions(&self, expired_by: Time, limit: usize) -> Result<u64, StoreError> {
        self.write(Lane::Long(1), (expired_by, limit), |tx, (expired_by, limit)| {
            Box::pin(sessions::drop_expired(tx, *expired_by, *limit))
        })
        .await
    }
}
