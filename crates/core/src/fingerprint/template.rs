//! The message with placeholders: what differs from letter to letter goes, words that tell causes apart stay.
//!
//! One pass from left to right over a bounded text; every piece is a range of it, so that values can be shown beside
//! the placeholders that stand for them. It must never look at a byte more than a bounded number of times.

use crate::fingerprint::excerpt;
use crate::limits;

mod address;
mod fragment;
mod names;
mod number;
mod quoted;
mod random;
mod scan;
mod status;
pub(super) mod vocabulary;
mod word;

/// A message in pieces.
#[derive(Clone, Debug)]
pub(super) struct Template<'a> {
    source: &'a str,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    start: usize,
    end: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Word,
    /// A name or a code that tells causes apart.
    Kept,
    /// Shown and never compared: the key of a value.
    Shown,
    /// Tells something only where there are no frames, such as the first part of a URL's path.
    Hint,
    Value(&'static str),
}

impl<'a> Template<'a> {
    pub fn of(message: &'a str) -> Template<'a> {
        let source = excerpt::beginning(message, limits::TEMPLATE_SOURCE_BYTES_MAX);
        let mut pieces = scan::pieces(source);
        names::hide(source, &mut pieces);
        names::hide_runs(source, &mut pieces);
        status::hide_phrases(source, &mut pieces);
        Template { source, pieces }
    }

    /// The text with placeholders. Lists of values shrink to one, whatever their length.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.source.len().min(limits::TEMPLATE_BYTES_MAX) + 16);
        let mut done = 0;
        let mut last: Option<Kind> = None;
        for piece in &self.pieces {
            let gap = &self.source[done..piece.start];
            done = piece.end;
            let repeated =
                matches!(piece.kind, Kind::Value(_)) && last == Some(piece.kind) && is_listing(gap);
            last = Some(piece.kind);
            if repeated {
                continue;
            }
            push_gap(&mut text, gap);
            match piece.kind {
                Kind::Word | Kind::Kept | Kind::Hint | Kind::Shown => {
                    text.push_str(&self.source[piece.start..piece.end])
                }
                Kind::Value(placeholder) => text.push_str(placeholder),
            }
            if text.len() >= limits::TEMPLATE_BYTES_MAX {
                break;
            }
        }
        if text.len() < limits::TEMPLATE_BYTES_MAX {
            push_gap(&mut text, &self.source[done..]);
        }
        text.truncate(text.floor_char_boundary(limits::TEMPLATE_BYTES_MAX));
        text.trim().to_string()
    }

    /// The words that make the fingerprint, lowered, without values, articles and plurals.
    pub fn words(&self, has_frames: HasFrames) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for piece in &self.pieces {
            let text = &self.source[piece.start..piece.end];
            let word = match (piece.kind, has_frames) {
                (Kind::Value(_) | Kind::Shown, _) | (Kind::Hint, HasFrames::Yes) => continue,
                (Kind::Kept | Kind::Hint, _) => text.to_lowercase(),
                (Kind::Word, _) => match stem(text) {
                    Some(word) => word,
                    None => continue,
                },
            };
            // A body behind such a status only repeats it, or is missing.
            let says_all = has_frames == HasFrames::Yes && piece.kind == Kind::Kept && is_final_status(text);
            if words.last() != Some(&word) {
                words.push(word);
            }
            if says_all {
                break;
            }
            if words.len() >= limits::TEMPLATE_WORDS_MAX {
                break;
            }
        }
        words
    }

    /// The names and codes alone.
    pub fn kept(&self) -> Vec<String> {
        let kept = self.pieces.iter().filter(|piece| piece.kind == Kind::Kept);
        kept.take(limits::TEMPLATE_WORDS_MAX)
            .map(|piece| self.source[piece.start..piece.end].to_lowercase())
            .collect()
    }

    /// Whether the message names its own error: `NOT_FOUND - no queue 'mail'`.
    pub fn opens_with_constant(&self) -> bool {
        self.pieces
            .first()
            .is_some_and(|first| first.start == 0 && word::is_constant(&self.source[..first.end]))
    }

    /// Whether a URL tells what was asked for.
    pub fn has_resource(&self) -> bool {
        self.pieces.iter().any(|piece| piece.kind == Kind::Hint)
    }

    /// Whether the name of a part is told that is more than a type of the language: in quotes, or behind the word for it.
    pub fn names_a_part(&self) -> bool {
        let text = |piece: &Piece| &self.source[piece.start..piece.end];
        self.pieces.iter().enumerate().any(|(at, piece)| {
            let is_led = || {
                at > 0
                    && vocabulary::names_a_part(text(&self.pieces[at - 1]))
                    && text(piece).contains(['.', '_'])
            };
            piece.kind == Kind::Kept
                && (self.source[..piece.start].ends_with(['"', '\'', '`']) || is_led())
                && !vocabulary::is_type(text(piece))
        })
    }

    /// Each placeholder with the value that it stands for.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        self.pieces.iter().filter_map(|piece| match piece.kind {
            Kind::Value(placeholder) => Some((placeholder, &self.source[piece.start..piece.end])),
            Kind::Word | Kind::Kept | Kind::Hint | Kind::Shown => None,
        })
    }
}

/// Whether frames of the failing program carry part of the meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HasFrames {
    Yes,
    No,
}

/// Whether only a list's own signs stand between two values.
fn is_listing(gap: &str) -> bool {
    gap.chars().all(|c| {
        c.is_whitespace()
            || matches!(c, ',' | ';' | '/' | '|' | '&' | '-' | '"' | '\'' | '[' | ']' | '(' | ')')
    })
}

/// Copies what stands between two pieces, with white space collapsed.
fn push_gap(text: &mut String, gap: &str) {
    for c in gap.chars() {
        if !c.is_whitespace() {
            text.push(c);
        } else if !text.ends_with(' ') && !text.is_empty() {
            text.push(' ');
        }
    }
}

/// Whether a status says why by itself: wrong credentials, too many requests, or the other side's own failure.
fn is_final_status(text: &str) -> bool {
    matches!(text, "401" | "407" | "429")
        || text.len() == 3 && text.starts_with('5') && text.bytes().all(|b| b.is_ascii_digit())
}

/// The comparable form of a word; `None` for one that tells nothing.
fn stem(word: &str) -> Option<String> {
    let lower = word.to_lowercase();
    if vocabulary::is_article(&lower) {
        return None;
    }
    // `1 item` and `3 items` are one, and so are `1 address` and `2 addresses`.
    if lower.ends_with("sses") || lower.ends_with("xes") || lower.ends_with("ches") {
        return Some(lower[..lower.len() - 2].to_string());
    }
    match lower.strip_suffix('s') {
        Some(one) if one.len() > 3 && !one.ends_with(['s', 'u', 'i']) => Some(one.to_string()),
        Some(_) | None => Some(lower),
    }
}

#[cfg(test)]
mod tests;
