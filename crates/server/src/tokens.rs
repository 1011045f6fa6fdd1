//! Making tokens: 256 random bits, shown once, kept as a hash.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazaret_core::id::TokenId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::audit::Actor;
use lazaret_store::entropy::Entropy;
use lazaret_store::sqlite::Mode;
use lazaret_store::token::StoredToken;
use lazaret_store::{Store, StoreError};

use crate::access::{self, Role};
use crate::audit;
use crate::clock::Clock;
use crate::config::Config;
use crate::serve::ServeError;
use crate::stores;

/// A token that was just made; its text exists only here.
#[derive(Clone)]
pub struct NewToken {
    pub id: TokenId,
    pub name: String,
    pub role: Role,
    pub token: String,
    pub created_at: Time,
}

/// The token's text is a secret and stays out of logs.
impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a token is not made.
#[derive(Debug, thiserror::Error)]
pub enum TokenRefused {
    #[error("the name must have 1 to {} bytes and no control characters", limits::NAME_BYTES_MAX)]
    BadName,
    #[error("the first token must be an admin's")]
    FirstNotAdmin,
    #[error("there are {} tokens already", limits::TOKENS_MAX)]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TokenRefused {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TokenRefused::FirstNotAdmin => {
                Some("with it everyone needs one: without an admin nobody could make the next")
            }
            TokenRefused::BadName | TokenRefused::TooMany | TokenRefused::Store(_) => None,
        }
    }
}

/// Makes a token and stores its hash.
pub async fn create(
    store: &dyn Store,
    entropy: &Entropy,
    at: Time,
    name: &str,
    role: Role,
    by: Actor,
) -> Result<NewToken, TokenRefused> {
    let name = name.trim();
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(TokenRefused::BadName);
    }
    let tokens = store.tokens().await?;
    if tokens.len() >= limits::TOKENS_MAX {
        return Err(TokenRefused::TooMany);
    }
    if role != Role::Admin && tokens.iter().all(|token| token.revoked_at.is_some()) {
        return Err(TokenRefused::FirstNotAdmin);
    }
    let secret: [u8; 32] = entropy.take()?;
    let token = format!("lzr_{}", URL_SAFE_NO_PAD.encode(secret));
    let id = TokenId::mint(at, entropy.take()?);
    let stored = StoredToken {
        id,
        hash: access::hash(&token),
        name: name.to_owned(),
        role: role.name().to_owned(),
        created_at: at,
        created_by: by.name.clone(),
        revoked_at: None,
    };
    store.add_token(stored, by).await?;
    Ok(NewToken { id, name: name.to_owned(), role, token, created_at: at })
}

/// Makes a token in the store itself, which no server may hold if it is the embedded one, for the first token of a server that is to leave loopback.
pub async fn create_offline(config: &Config, name: &str, role: Role) -> Result<NewToken, ServeError> {
    let store = stores::open(config, Mode::Real).await?.store;
    let by = Actor { name: access::COMMAND_LINE.into(), role: Role::Admin.name().into(), request: None };
    let made = create(store.as_ref(), &Entropy::default(), Clock::System.now(), name, role, by).await?;
    // A server links it otherwise, which may be never: the entry tells who made an admin.
    if let Ok(Some(key)) = audit::prepare(config, store.as_ref()).await {
        audit::link_all(store.as_ref(), &key).await;
    }
    store.close().await?;
    Ok(made)
}
