//! Room on a page. Strangers write into it, so that each part has so much and no more, whatever they sent.

use crate::web::format::{escaped, visible};

/// Bytes of markup that are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room(usize);

/// As much of a text as there was room for, with its hidden signs made visible. It is not escaped yet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fitted {
    pub text: String,
    /// Whether something was left out.
    pub cut: bool,
}

impl Room {
    pub fn new(bytes: usize) -> Room {
        Room(bytes)
    }

    /// Takes the beginning of a foreign text, at most so many bytes of markup.
    pub fn fit(&mut self, text: &str, most: usize) -> Fitted {
        let mut left = self.0.min(most);
        let mut fitted = Fitted::default();
        for sign in text.chars() {
            // Nearly every sign is one of these, and needs no look into a table.
            let is_plain = matches!(sign, ' '..='~' | '\n') && !matches!(sign, '&' | '<' | '>' | '"' | '\'');
            let shown = if is_plain { String::new() } else { visible(sign.encode_utf8(&mut [0; 4])) };
            let bytes = if is_plain { 1 } else { escaped(&shown).len() };
            if bytes > left {
                fitted.cut = true;
                break;
            }
            left -= bytes;
            self.0 -= bytes;
            match is_plain {
                true => fitted.text.push(sign),
                false => fitted.text.push_str(&shown),
            }
        }
        fitted
    }

    /// Takes room for markup of our own.
    pub fn take(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_what_it_takes_on_the_page() {
        let mut room = Room::new(20);
        assert_eq!(room.fit("abc", 100), Fitted { text: "abc".into(), cut: false });
        assert_eq!(room.fit("äöü", 4), Fitted { text: "äö".into(), cut: true });
        assert_eq!(room.fit("<<<", 100), Fitted { text: "<<<".into(), cut: false });
        assert_eq!(room.fit("ab", 100), Fitted { text: "a".into(), cut: true });
        assert!(!room.take(1));
    }

    #[test]
    fn hidden_signs_take_the_room_of_what_shows_them() {
        let fitted = Room::new(25).fit("\u{0}\u{202e}x", 100);
        assert_eq!(fitted, Fitted { text: "⟨U+0000⟩⟨U+202E⟩x".into(), cut: false });
        assert_eq!(Room::new(11).fit("\u{0}", 100), Fitted { text: String::new(), cut: true });
    }
}
