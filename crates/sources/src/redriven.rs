//! What a redriven message carries, and how it is recognised when it dies again.

use lazaret_core::broker;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::RedriveMark;

/// On a redriven message: the id that its letter was captured under.
pub(crate) const EVENT_ID: &str = "Lazaret-Event-Id";

/// Our own letter, life and redrive, as a redriven message carries them.
pub(crate) fn mark<'h>(value: impl Fn(&str) -> Option<&'h str>) -> Option<RedriveMark> {
    Some(RedriveMark {
        letter: LetterId::parse(value(broker::LETTER_ID)?).ok()?,
        life: value(broker::LIFE)?.parse().ok()?,
        redrive: RedriveId::parse(value(broker::REDRIVE_ID)?).ok()?,
    })
}

/// What a body is that does not say so itself.
pub(crate) fn content_type_of(body: &[u8]) -> &'static str {
    let Ok(text) = std::str::from_utf8(body) else { return "application/octet-stream" };
    let looks_so = text.trim_start().starts_with(['{', '[']);
    match looks_so && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        true => "application/json",
        false => "text/plain; charset=utf-8",
    }
}
