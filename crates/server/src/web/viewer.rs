//! Who looks at a page, and what every page has to know of the request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, header};
use lazaret_store::access::StoredSession;
use sha2::{Digest, Sha256};

use crate::access::{Caller, Permission};
use crate::api::guard::RequestId;
use crate::api::problem::{Code, Problem};
use crate::api::wire::hex;
use crate::app::App;
use crate::sessions;
use crate::web::zone::{ZONE, Zone};

/// What marks a browser that nobody signed in with: forms have to know that they come from it.
pub(crate) const VISITOR: &str = "lazaret_visitor";

/// What was done last, told on the next page.
pub(crate) const NOTICE: &str = "lazaret_notice";

/// The header with which a page is loaded again by our own script.
pub(crate) const LIVE: &str = "x-lazaret-live";

pub(crate) const THEME: &str = "lazaret_theme";

/// How a page looks: by the system's wish unless the viewer has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Theme {
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub const ALL: [Theme; 3] = [Theme::System, Theme::Light, Theme::Dark];

    pub const fn name(self) -> &'static str {
        match self {
            Theme::System => "system",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub fn parse(text: &str) -> Option<Theme> {
        Theme::ALL.into_iter().find(|theme| theme.name() == text)
    }
}

/// Who looks, and with what.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub caller: Caller,
    pub request: RequestId,
    /// By which session, if not by a token that came along.
    pub session: Option<StoredSession>,
    /// What a form has to carry to be believed.
    pub csrf: String,
    pub theme: Theme,
    pub zone: Zone,
    /// Whether everyone on this machine is let in.
    pub open: bool,
    /// What was done last.
    pub notice: Option<String>,
}

impl Viewer {
    pub fn may(&self, permission: Permission) -> bool {
        self.caller.role.may(permission)
    }

    /// Why the viewer may not do what needs a permission; nothing if they may. For actions that are shown disabled.
    pub fn hindrance(&self, permission: Permission) -> Option<String> {
        if self.may(permission) {
            return None;
        }
        Some(format!("not allowed for role {}: requires `{}`", self.caller.role.name(), permission.name()))
    }
}

impl FromRequestParts<Arc<App>> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Viewer, Problem> {
        let lost = || Problem::new(Code::Internal, "request without authentication");
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(lost)?;
        let request = parts.extensions.get::<RequestId>().cloned().ok_or_else(lost)?;
        Ok(Viewer {
            open: caller.token.is_none(),
            caller,
            request,
            session: parts.extensions.get::<StoredSession>().cloned(),
            csrf: csrf(parts),
            theme: cookie(parts, THEME).and_then(|text| Theme::parse(&text)).unwrap_or_default(),
            zone: cookie(parts, ZONE).and_then(|text| Zone::parse(&text)).unwrap_or_default(),
            notice: notice(parts).and_then(|text| crate::web::frame::read_notice(&text)),
        })
    }
}

/// The proof that a form was made by us for this browser: nobody else can read the cookie that it is made of. That is the
/// cookie of the session where there is one, so that a form does not outlive it.
pub(crate) fn csrf(parts: &Parts) -> String {
    let secret = cookie(parts, sessions::COOKIE)
        .or_else(|| cookie(parts, VISITOR))
        .or_else(|| parts.extensions.get::<NewVisitor>().map(|new| new.0.clone()));
    let mut digest = Sha256::new();
    digest.update(b"csrf\0");
    digest.update(secret.unwrap_or_default().as_bytes());
    hex(&digest.finalize())
}

/// What was done last, unless the page is loaded by a script to be compared with one that is shown: another tab would
/// take away what this one has to tell.
pub(crate) fn notice(parts: &Parts) -> Option<String> {
    if parts.headers.contains_key(LIVE) {
        return None;
    }
    cookie(parts, NOTICE)
}

/// The cookie that the answer to this request will set, for a browser that had none.
#[derive(Clone, Debug)]
pub(crate) struct NewVisitor(pub String);

/// The value of a cookie that the browser sent; the first of that name.
pub(crate) fn cookie(parts: &Parts, name: &str) -> Option<String> {
    cookie_in(&parts.headers, name)
}

pub(crate) fn cookie_in(headers: &HeaderMap, name: &str) -> Option<String> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let found = pairs.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    found.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}
