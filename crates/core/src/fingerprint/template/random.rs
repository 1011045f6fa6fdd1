//! Tells ids that a generator drew from names that a person chose, where neither holds a digit.
//!
//! It looks only at which letters stand side by side: most pairs of letters hardly ever do in words and names of
//! European languages. A short text says too little and never counts as drawn.

/// For each letter, those that commonly follow it within a word.
#[rustfmt::skip]
const FOLLOWERS: [&str; 26] = [
    "abcdfgiklmnprstuvwxy", "aceijlorsuy", "acdehiklmorstu", "adefilorstu",
    "abcdefgilmnopqrstuvwxy", "aefilorstu", "aeghilnorsu", "aeiort",
    "abcdefglmnoprstvxz", "a", "aeis", "acdeilopstuy",
    "abdeilmopstu", "acdefgiklnopstuv", "abcdfgiklmnoprstuvwx", "adehiloprstuy",
    "u", "abcdefgiklmnoprstuvy", "acdefhiklmnopqrstuy", "acdefhilmoprstuwy",
    "abcdefgilmnprst", "aeio", "aehinors", "ceipt",
    "lnpst", "e",
];

/// Whether a word looks drawn: `hqzkwvxjtp`, and not `subscription`.
pub(super) fn is_drawn(word: &str) -> bool {
    let (rare, pairs) = rare_pairs(word);
    rare >= 3 && rare * 3 >= pairs
}

/// Whether what stands behind a short prefix looks drawn, as in `rfd_xyuwdkugupet`. Prefixes are put before ids by
/// habit, so that less is asked of the rest.
pub(super) fn is_prefixed_id(text: &str) -> bool {
    let Some((prefix, rest)) = text.split_once(['_', '-']) else { return false };
    let letters = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let short = (1..=5).contains(&prefix.len()) && letters(prefix);
    let (rare, pairs) = rare_pairs(rest);
    // An abbreviation such as `rfd` is hardly ever part of a name.
    let is_vowel = |byte: u8| matches!(byte.to_ascii_lowercase(), b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
    let least = if prefix.len() < 3 || prefix.bytes().any(is_vowel) { 2 } else { 1 };
    short
        && rest.len() >= 8
        && letters(rest)
        && (rare >= least && rare * 5 >= (least - 1) * pairs || is_mixed(rest))
}

/// Whether capitals stand anywhere but at the beginnings of words: `aQbXkeRt`.
fn is_mixed(word: &str) -> bool {
    let turns = word
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    turns.count() * 4 > word.len()
}

/// The followers of each letter, with one bit for each.
const FOLLOWED_BY: [u32; 26] = {
    let mut masks = [0; 26];
    let mut at = 0;
    while at < FOLLOWERS.len() {
        let letters = FOLLOWERS[at].as_bytes();
        let mut letter = 0;
        while letter < letters.len() {
            masks[at] |= 1 << (letters[letter] - b'a');
            letter += 1;
        }
        at += 1;
    }
    masks
};

/// How many neighbouring letters hardly ever are neighbours, and how many there are.
fn rare_pairs(word: &str) -> (usize, usize) {
    let at = |byte: u8| byte.to_ascii_lowercase().wrapping_sub(b'a');
    let (mut rare, mut pairs) = (0, 0);
    for pair in word.as_bytes().windows(2) {
        if let (Some(followers), 0..26) = (FOLLOWED_BY.get(usize::from(at(pair[0]))), at(pair[1])) {
            pairs += 1;
            rare += usize::from(followers & (1 << at(pair[1])) == 0);
        }
    }
    (rare, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_ids_are_told_from_words() {
        for drawn in ["xyuwdkugupet", "HQZKWVXJTP", "vbnqkdfwxz", "kQzRtWvbXj"] {
            assert!(is_drawn(drawn), "{drawn}");
        }
        for word in [
            "subscription",
            "ECONNREFUSED",
            "EHOSTUNREACH",
            "PostgreSQL",
            "SQLAlchemy",
            "HttpClientErrorException",
            "Geschwindigkeit",
            "sluttbruker",
            "voorwaarden",
            "throughput",
            "NoBrokersAvailable",
            "XMLHttpRequest",
            "MSSQLSERVER",
            "backpressure",
            "whitespace",
            "checkpoint",
            "Rechtsanwalt",
            "gzip",
            "",
        ] {
            assert!(!is_drawn(word), "{word}");
        }
    }

    #[test]
    fn a_prefix_makes_less_suffice() {
        for id in
            ["rfd_xyuwdkugupet", "dsp_kqhtyrwmva", "cus_NffrFeUfNVqWzX", "ord-wkzjyqhbtr", "rfd_hpwixygoanud"]
        {
            assert!(is_prefixed_id(id), "{id}");
        }
        for name in [
            "tax_calculation",
            "user_id",
            "order_confirmation",
            "pg_catalog",
            "x-forwarded",
            "read-only",
            "is_subscribed",
            "max_throughput",
        ] {
            assert!(!is_prefixed_id(name), "{name}");
        }
    }
}
