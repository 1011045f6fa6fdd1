//! Sessions: a browser that somebody signed in with shows a cookie instead of the token.
//!
//! A session is worth what its token is worth at that moment: whether the token is in force, and whose it is, is asked
//! with every request. Neither cookie nor token is kept in clear anywhere.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::access::StoredSession;
use lazaret_store::audit::Actor;

use crate::access::{self, Holder};
use crate::app::App;
use crate::operations::Progress;

/// What the cookie is called.
pub const COOKIE: &str = "lazaret_session";

/// Begins a session for whoever has shown a token, and gives the cookie's text, which exists only there.
pub async fn begin(app: &App, token: [u8; 32], by: Actor) -> Result<String, StoreError> {
    let secret: [u8; 32] = app.entropy.take()?;
    let cookie = URL_SAFE_NO_PAD.encode(secret);
    let now = app.clock.now();
    let session = StoredSession {
        hash: access::hash(&cookie),
        token,
        created_at: now,
        expires_at: now.plus_ms(limits::SESSION_MS),
    };
    app.store.add_session(session, by).await?;
    Ok(cookie)
}

/// The session of a cookie and whose it is; nothing if it is over, or its token is no longer in force.
pub async fn find(app: &App, cookie: &str) -> Result<Option<(StoredSession, Holder)>, StoreError> {
    let Some(session) = app.store.session(access::hash(cookie)).await? else { return Ok(None) };
    if session.expires_at <= app.clock.now() {
        return Ok(None);
    }
    Ok(app.access.holder(&session.token).map(|holder| (session, holder)))
}

/// Whether a session that was found still is one.
pub async fn stands(app: &App, session: &StoredSession) -> Result<bool, StoreError> {
    if session.expires_at <= app.clock.now() || app.access.holder(&session.token).is_none() {
        return Ok(false);
    }
    Ok(app.store.session(session.hash).await?.is_some())
}

/// Forgets some sessions that are over.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let max = limits::SESSIONS_DROPPED_PER_WRITE;
    let dropped = app.store.drop_sessions(app.clock.now(), max).await?;
    Ok(if dropped < max as u64 { Progress::Idle } else { Progress::More })
}
