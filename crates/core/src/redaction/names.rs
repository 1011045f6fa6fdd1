//! Names of headers, keys and parameters that say that their value is nobody's business.

use std::borrow::Cow;

use crate::pattern::Pattern;

/// Names to compare with, however they are written: `api_key` is also `apiKey`, `API-KEY` and `api.key`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Names {
    whole: Vec<String>,
    endings: Vec<String>,
    patterns: Vec<Pattern>,
}

impl Names {
    pub fn add(&mut self, name: &str) {
        let plain = plain(name).into_owned();
        match plain.strip_prefix('*') {
            None if !plain.contains('*') => self.whole.push(plain),
            Some(ending) if !ending.contains('*') => self.endings.push(ending.to_owned()),
            Some(_) | None => self.patterns.push(Pattern::new(plain)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.endings.is_empty() && self.patterns.is_empty()
    }

    pub fn has(&self, name: &str) -> bool {
        let name = plain(name);
        self.endings.iter().any(|ending| name.ends_with(ending.as_str()))
            || self.whole.iter().any(|whole| name == whole.as_str())
            || self.patterns.iter().any(|pattern| pattern.matches(&name))
    }
}

/// A name in lower case, without what parts its words.
fn plain(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'*') {
        return Cow::Borrowed(name);
    }
    let parts = |c: &char| !matches!(c, '_' | '-' | '.' | ' ');
    Cow::Owned(name.chars().filter(parts).flat_map(char::to_lowercase).collect())
}

/// Headers that are masked unless the operator says otherwise.
pub const DEFAULT_HEADERS: [&str; 9] = [
    "*authorization",
    "*cookie",
    "*token",
    "*secret",
    "*password",
    "*api-key",
    "*access-key",
    "*signature",
    "*credentials",
];

/// Keys that are masked, at any depth, unless the operator says otherwise.
pub const DEFAULT_KEYS: [&str; 18] = [
    "*password",
    "*passwd",
    "*passphrase",
    "pwd",
    "*secret",
    "*secret_key",
    "*secret_access_key",
    "*token",
    "*api_key",
    "*access_key",
    "*private_key",
    "*authorization",
    "*cookie",
    "*credentials",
    "*card_number",
    "cvv",
    "cvv2",
    "cvc",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_however_it_is_written() {
        let mut names = Names::default();
        for name in ["*api_key", "pwd", "db*url"] {
            names.add(name);
        }
        for yes in ["apiKey", "X-API-KEY", "stripe.api.key", "PWD", "db_url", "DB_REPLICA_URL"] {
            assert!(names.has(yes), "{yes}");
        }
        for no in ["apiKeyId", "cwd", "pwdx", "url", ""] {
            assert!(!names.has(no), "{no}");
        }
    }

    #[test]
    fn what_only_sounds_like_a_secret_stays() {
        let mut names = Names::default();
        DEFAULT_KEYS.into_iter().for_each(|name| names.add(name));
        for no in ["max_tokens", "tokenType", "secretary", "passwordChangedAt", "cookiePolicy", "cardholder"]
        {
            assert!(!names.has(no), "{no}");
        }
        for yes in
            ["accessToken", "client_secret", "newPassword", "Set-Cookie", "AWS_SECRET_ACCESS_KEY", "cvc"]
        {
            assert!(names.has(yes), "{yes}");
        }
    }
}
