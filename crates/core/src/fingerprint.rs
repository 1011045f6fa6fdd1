//! The stable hash of "the same failure": letters with one fingerprint are one incident.
//!
//! It is made of the letter's type, the root cause's name, the program's own frames nearest the failure, and the words
//! of the message that are not values. It must take bounded time and never fail, whatever a stranger reports, and the
//! same report must give the same fingerprint on every machine: nothing here asks for anything but the letter.

use std::fmt;

use self::family::Family;
use self::frame::without_generated;
use self::template::HasFrames;
use crate::attempt::LetterError;
use crate::limits;

mod backtrace;
mod difference;
pub(crate) mod error_type;
mod excerpt;
mod family;
mod frame;
mod hash;
mod language;
mod lines;
mod message;
mod parts;
mod root;
mod rules;
mod search;
mod template;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod varied;

pub use difference::{Difference, differences};
pub use language::Language;
pub use lines::{LineOrigin, TracedLine, traced_lines};
pub use parts::Parts;
pub use rules::{
    EmptyFingerprintRule, FingerprintRule, FingerprintRules, RuleConditions, RuleEffect, SplitBy,
};

/// The version of the algorithm. A change that could group any letter otherwise is a new version.
pub const VERSION: u32 = 2;

/// `v`, the version, a colon and 32 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Takes a fingerprint that a store kept.
    pub fn stored(text: String) -> Fingerprint {
        Fingerprint(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fingerprint and what made it.
#[derive(Clone, PartialEq, Debug)]
pub struct Grouping {
    pub fingerprint: Fingerprint,
    pub parts: Parts,
}

/// What a letter is grouped by.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub source: &'a str,
    pub queue: &'a str,
    pub letter_type: &'a str,
    pub tenant: Option<&'a str>,
    pub error: &'a LetterError,
}

/// Groups a letter. Takes bounded time whatever the error holds.
pub fn group(subject: Subject<'_>, rules: &FingerprintRules) -> Grouping {
    let root = root::Root::of(subject.error, rules);
    let template = template::Template::of(&root.message);
    let mut words = template.words(root.has_frames);
    words.extend(root.told_outside.iter().cloned());
    let mut parts = Parts {
        letter_type: subject.letter_type.to_string(),
        error_type: root.error_type,
        language: root.language,
        frames: root.frames.iter().map(|name| without_generated(name)).collect(),
        template: template.text(),
        rule: None,
    };
    let mut digest = hash::Digest::default();
    let decided = rules.decide(subject, &parts).map(|rule| (rule.name.clone(), &rule.then));
    if let Some((name, effect)) = decided {
        parts.rule = Some(name);
        match effect {
            RuleEffect::Group(key) => {
                digest.add("group");
                digest.add(key);
                return grouping(digest, parts);
            }
            RuleEffect::SplitBy(values) => {
                for by in values {
                    digest.add(by.name());
                    digest.add(by.value(subject));
                }
            }
        }
    }
    digest.add(subject.letter_type);
    let is_placed = root.has_frames == HasFrames::Yes;
    // With a place and a few words, the name only says which layer spoke; so does the code that a library adds.
    let is_told = is_placed && words.len() >= limits::FINGERPRINT_WORDS_ENOUGH;
    let is_named = is_of_database(&words) || template.opens_with_constant();
    let name = if is_told || is_named { "" } else { parts.error_type.as_str() };
    match Family::of(&parts.error_type, &words) {
        Family::Exhausted(resource) => {
            digest.add(resource);
            // It may be any line of the program, but it is this program.
            digest.add(parts.language.map_or("", Language::name));
            parts.frames.clear();
        }
        Family::Stated(family) => digest.add(family),
        Family::Named(family) if is_placed => digest.add(family),
        Family::Named(_) | Family::None => {
            digest.add(name);
            for word in &words {
                digest.add("word");
                digest.add(word);
            }
            let code = subject
                .error
                .code
                .as_deref()
                .filter(|code| !is_told || !root.is_of_library && code.len() > 2);
            add_code(&mut digest, code, &words);
        }
    }
    for frame in &parts.frames {
        digest.add("frame");
        digest.add(frame);
    }
    grouping(digest, parts)
}

/// Where a database says which rule was broken, type and code only tell how many layers wrapped its error.
fn is_of_database(words: &[String]) -> bool {
    let any = |word: &str| words.iter().any(|it| it == word);
    let broken = words.iter().any(|word| word.starts_with("violat")) && any("constraint");
    let absent = (any("relation") || any("table") || any("column")) && any("exist");
    let locked = any("lock") && any("wait");
    let twice = any("duplicate") && (any("entry") || any("key"));
    let of_vendor = words.iter().any(|word| word.starts_with("ora-") || word == "sqlstate");
    broken || absent || locked || twice || of_vendor
}

/// The code counts unless the message says it already, or says a status, which libraries accompany by a code or not.
fn add_code(digest: &mut hash::Digest, code: Option<&str>, words: &[String]) {
    let has_status = words.iter().any(|word| family::is_status(word));
    if let Some(code) = code.and_then(stable_code)
        && !has_status
        && !is_of_database(words)
        && !words.contains(&code)
    {
        digest.add("code");
        digest.add(&code);
    }
}

fn grouping(digest: hash::Digest, parts: Parts) -> Grouping {
    Grouping { fingerprint: Fingerprint(format!("v{VERSION}:{}", digest.hex())), parts }
}

/// The comparable form of a code that tells kinds of errors apart; `None` for one that is more likely an id.
fn stable_code(code: &str) -> Option<String> {
    let code = code.trim();
    if code.len() < 2
        || code.len() > limits::NAME_IN_MESSAGE_BYTES_MAX
        || code == "-1"
        || error_type::says_nothing(code)
    {
        return None;
    }
    let digits = code.bytes().filter(u8::is_ascii_digit).count();
    let shaped = code
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/'));
    (shaped && digits <= 5).then(|| code.to_lowercase())
}

#[cfg(test)]
mod tests;
