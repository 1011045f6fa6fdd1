//! Finding short texts in short texts. The standard library prepares each search for long ones, which costs more than
//! the search itself where a line is looked through for a dozen words.

/// Where a part begins first.
pub(super) fn find(text: &str, part: &str) -> Option<usize> {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let (first, rest) = part.split_first()?;
    let mut from = 0;
    loop {
        let at = from + text[from..].iter().position(|byte| byte == first)?;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Where a part begins last.
pub(super) fn rfind(text: &str, part: &str) -> Option<usize> {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let (first, rest) = part.split_first()?;
    let last = text.len().checked_sub(part.len())?;
    (0..=last).rev().find(|at| text[*at] == *first && text[at + 1..].starts_with(rest))
}

pub(super) fn has(text: &str, part: &str) -> bool {
    find(text, part).is_some()
}

/// Texts to look for at once. What they begin with is gathered when the program is compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    texts: &'static [&'static str],
    firsts: u64,
    seconds: u64,
}

impl Parts {
    /// Each text must have at least two bytes.
    pub const fn of(texts: &'static [&'static str]) -> Parts {
        let (mut firsts, mut seconds) = (0, 0);
        let mut at = 0;
        while at < texts.len() {
            firsts |= bit(texts[at].as_bytes()[0]);
            seconds |= bit(texts[at].as_bytes()[1]);
            at += 1;
        }
        Parts { texts, firsts, seconds }
    }

    fn begin(&self, bytes: &[u8]) -> bool {
        bytes.get(1).is_some_and(|second| self.seconds & bit(*second) != 0)
            && self.texts.iter().any(|text| bytes.starts_with(text.as_bytes()))
    }
}

/// One of 64 bits for each byte. Bytes that share one only cost a comparison more.
const fn bit(byte: u8) -> u64 {
    1 << (byte & 63)
}

/// Where the first of several parts begins.
pub(super) fn find_any(text: &str, parts: Parts) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // Few places pass for two bytes, and only those are compared.
        if parts.firsts & bit(bytes[at]) != 0 && parts.begin(&bytes[at..]) {
            return Some(at);
        }
        at += 1;
    }
    None
}

pub(super) fn has_any(text: &str, parts: Parts) -> bool {
    find_any(text, parts).is_some()
}

/// A sorted table of words in small letters. Most words are in no table, which a glance at a few of their bytes tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    words: &'static [&'static str],
    /// One bit for each kind of word that the table holds.
    kinds: [u64; KINDS / 64],
}

const KINDS: usize = 512;

/// No table holds longer words.
const WORD_BYTES_MAX: usize = 32;

/// What a glance tells of a word in small letters: its length, its first and its last letter.
const fn kind(word: &[u8]) -> usize {
    let (first, last) = (word[0] as usize, word[word.len() - 1] as usize);
    (first * 37 + last * 5 + word.len() * 67) % KINDS
}

impl Words {
    pub const fn of(words: &'static [&'static str]) -> Words {
        let mut kinds = [0; KINDS / 64];
        let mut at = 0;
        while at < words.len() {
            let kind = kind(words[at].as_bytes());
            kinds[kind / 64] |= 1 << (kind % 64);
            at += 1;
        }
        Words { words, kinds }
    }

    /// Whether the table holds a word, whatever its case.
    pub fn has(&self, word: &str) -> bool {
        let mut lower = [0_u8; WORD_BYTES_MAX];
        let Some(lower) = lower.get_mut(..word.len()).filter(|lower| !lower.is_empty()) else { return false };
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        let kind = kind(lower);
        self.kinds[kind / 64] & 1 << (kind % 64) != 0
            && self.words.binary_search_by(|entry| entry.as_bytes().cmp(lower)).is_ok()
    }
}

/// What stands before and behind a part.
pub(super) fn split_once<'a>(text: &'a str, part: &str) -> Option<(&'a str, &'a str)> {
    // A match of whole characters begins and ends where characters do.
    find(text, part).map(|at| (&text[..at], &text[at + part.len()..]))
}

/// The first line, without its end.
pub(super) fn first_line(text: &str) -> &str {
    let end = text.bytes().position(|byte| byte == b'\n').unwrap_or(text.len());
    text[..end].strip_suffix('\r').unwrap_or(&text[..end])
}

#[cfg(test)]
impl Words {
    /// Whether each word can be found, and none twice.
    pub fn is_table(&self) -> bool {
        self.words.is_sorted_by(|one, next| one < next)
            && self.words.iter().all(|word| self.has(word) && self.has(&word.to_ascii_uppercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_the_standard_library_finds() {
        for text in ["", "a", "aab", "abab", "ü: b: c", "bab\r\nb"] {
            for part in ["a", "ab", "b: ", "ü", "abc", ": "] {
                assert_eq!(find(text, part), text.find(part), "{text} {part}");
                assert_eq!(rfind(text, part), text.rfind(part), "{text} {part}");
                assert_eq!(split_once(text, part), text.split_once(part), "{text} {part}");
                assert_eq!(has(text, part), text.contains(part), "{text} {part}");
            }
            assert_eq!(
                find_any(text, Parts::of(&["b: ", "ab"])),
                text.find("ab").or(text.find("b: ")),
                "{text}"
            );
            assert_eq!(first_line(text), text.lines().next().unwrap_or(""));
        }
    }
}
