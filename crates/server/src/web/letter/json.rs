//! JSON as people read it, made from its text: numbers keep their digits, fields their order, and fields that are there
//! twice are shown twice. What it makes is markup; everything foreign in it is escaped here.

use lazaret_core::limits;
use serde_json::value::RawValue;

use super::room::Room;
use crate::web::format::{escaped, grouped};

/// The markup, and whether all of the text is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Printed {
    pub html: String,
    pub whole: bool,
}

/// Whether bytes are one JSON value.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(bytes).is_ok()
}

/// Prints the beginning of a text that is JSON, in as many bytes of markup.
pub(crate) fn print(text: &str, markup_bytes: usize) -> Printed {
    let counts = counts(text);
    let mut printer =
        Printer { text, at: 0, html: String::new(), room: Room::new(markup_bytes), counts, opened: 0 };
    let whole = printer.value("", 0);
    Printed { html: printer.html, whole }
}

struct Printer<'a> {
    text: &'a str,
    at: usize,
    html: String,
    room: Room,
    /// How many values each object and list holds, in the order in which they open; nothing if its end is not there.
    counts: Vec<Option<u64>>,
    opened: usize,
}

impl<'a> Printer<'a> {
    /// Writes one value behind `head`. False as soon as text or room has come to its end.
    fn value(&mut self, head: &str, depth: usize) -> bool {
        match self.next() {
            Some(b'{' | b'[') if depth >= limits::WEB_JSON_DEPTH_MAX => self.piece(head),
            Some(b'{') => self.block(head, depth, b'}'),
            Some(b'[') => self.block(head, depth, b']'),
            Some(b'"') => {
                let (text, is_closed) = self.quoted();
                self.line(head, text, true) && is_closed
            }
            Some(_) => {
                let rest = &self.text[self.at..];
                let end = rest.find([',', '}', ']', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
                self.at += end;
                self.line(head, &rest[..end], false)
            }
            None => false,
        }
    }

    /// An object or a list, which can be folded.
    fn block(&mut self, head: &str, depth: usize, close: u8) -> bool {
        let open = char::from(self.text.as_bytes()[self.at]);
        let close_sign = char::from(close);
        self.at += 1;
        let count = self.counts.get(self.opened).copied().flatten();
        self.opened += 1;
        if self.next() == Some(close) {
            self.at += 1;
            return self.mark(&format!("{head}{open}{close_sign}\n"));
        }
        let unfolded = if depth < limits::WEB_JSON_DEPTH_OPEN { " open" } else { "" };
        let count = count.map(|count| format!(" <small>{}</small>", grouped(count))).unwrap_or_default();
        if !self.mark(&format!("<details{unfolded}><summary>{head}{open}{count}</summary><div>")) {
            return false;
        }
        let is_whole = self.members(depth, close);
        // What was opened is closed, even if there is no room left.
        self.html.push_str("</div>");
        self.html.push(close_sign);
        self.html.push_str("</details>");
        is_whole
    }

    fn members(&mut self, depth: usize, close: u8) -> bool {
        loop {
            let mut head = String::new();
            if close == b'}' {
                if self.next() != Some(b'"') {
                    return false;
                }
                let (name, is_closed) = self.quoted();
                let fitted = self.room.fit(name, limits::WEB_JSON_TEXT_BYTES);
                let goes_on = if fitted.cut { "…" } else { "" };
                head = format!("<b>{}{goes_on}</b>: ", escaped(&fitted.text));
                if !is_closed || self.next() != Some(b':') {
                    return false;
                }
                self.at += 1;
            }
            if !self.value(&head, depth + 1) {
                return false;
            }
            match self.next() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return true;
                }
                Some(_) | None => return false,
            }
        }
    }

    /// What lies too deep to be folded, in one piece.
    fn piece(&mut self, head: &str) -> bool {
        let (start, mut depth) = (self.at, 0_usize);
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'"' => {
                    self.quoted();
                    continue;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.opened += 1;
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
        self.line(head, &self.text[start..self.at], false) && depth == 0
    }

    /// A value on a line of its own.
    fn line(&mut self, head: &str, text: &'a str, is_text: bool) -> bool {
        let fitted = self.room.fit(text, limits::WEB_JSON_TEXT_BYTES);
        let (tag, end) = if is_text { ("<i>", "</i>") } else { ("", "") };
        let rest = match fitted.cut {
            true => format!("… <small>{} bytes in all</small>", grouped(text.len() as u64)),
            false => String::new(),
        };
        self.mark(&format!("{head}{tag}{}{end}{rest}\n", escaped(&fitted.text)))
    }

    /// A text with its quotes, as it is written, and whether its end is there. The next sign is its opening quote.
    fn quoted(&mut self) -> (&'a str, bool) {
        let (start, mut escaped) = (self.at, false);
        for (at, byte) in self.text.bytes().enumerate().skip(start + 1) {
            if byte == b'"' && !escaped {
                self.at = at + 1;
                return (&self.text[start..self.at], true);
            }
            escaped = byte == b'\\' && !escaped;
        }
        self.at = self.text.len();
        (&self.text[start..], false)
    }

    /// The next sign that is no space.
    fn next(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        self.text.as_bytes().get(self.at).copied()
    }

    fn mark(&mut self, html: &str) -> bool {
        // Names and texts were paid for already; to pay twice only makes a page a little shorter.
        let has_room = self.room.take(html.len());
        if has_room {
            self.html.push_str(html);
        }
        has_room
    }
}

/// How many values every object and list of a text holds, in the order in which they open.
fn counts(text: &str) -> Vec<Option<u64>> {
    let mut counts: Vec<Option<u64>> = Vec::new();
    // Where it stands among the counts, and its values so far.
    let mut open: Vec<(usize, u64)> = Vec::new();
    let (mut in_text, mut escaped, mut begins) = (false, false, false);
    for byte in text.bytes() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        let is_close = matches!(byte, b'}' | b']');
        if byte.is_ascii_whitespace() {
            continue;
        }
        // The first value is told by anything that is not the end, every other one by its comma.
        if let Some((_, values)) = open.last_mut()
            && (byte == b',' || begins && !is_close)
        {
            *values += 1;
        }
        begins = matches!(byte, b'{' | b'[');
        in_text = byte == b'"';
        if begins {
            open.push((counts.len(), 0));
            counts.push(None);
        }
        if is_close && let Some((at, values)) = open.pop() {
            counts[at] = Some(values);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        let printed = print(text, 100_000);
        assert!(printed.whole, "{printed:?}");
        printed.html
    }

    #[test]
    fn values_stay_as_they_are_written() {
        assert_eq!(
            html(r#" {"b": 12345678901234567890.10, "a" :[ ], "b":"x\"<", "c":[1,{"d":null}] } "#),
            "<details open><summary>{ <small>4</small></summary><div><b>&quot;b&quot;</b>: 12345678901234567890.10\n\
             <b>&quot;a&quot;</b>: []\n<b>&quot;b&quot;</b>: <i>&quot;x\\&quot;&lt;&quot;</i>\n\
             <details open><summary><b>&quot;c&quot;</b>: [ <small>2</small></summary><div>1\n\
             <details open><summary>{ <small>1</small></summary><div><b>&quot;d&quot;</b>: null\n</div>}</details>\
             </div>]</details></div>}</details>"
        );
        assert_eq!(html("1e400"), "1e400\n");
        assert_eq!(html("\"\u{202e}\""), "<i>&quot;⟨U+202E⟩&quot;</i>\n");
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_everything_is_closed() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let wide = format!("[{}]", vec!["1"; 100_000].join(","));
        let long = format!("{{\"a\":\"{}\"}}", "ü".repeat(1_000_000));
        let torn = &long[..1_000];
        for text in [deep.as_str(), &wide, &long, torn, "{\"a\": {\"b\": [1, {\"c", "[1,"] {
            let Printed { html, .. } = print(text, 20_000);
            assert!(html.len() < 25_000, "{}", html.len());
            assert_eq!(html.matches("<details").count(), html.matches("</details>").count());
            assert_eq!(html.matches("<div>").count(), html.matches("</div>").count());
        }
        assert!(!print(&wide, 20_000).whole);
        assert!(!print(torn, 20_000).whole);
        assert!(print(&deep, 100_000).whole, "deep levels are shown in one piece");
    }

    #[test]
    fn only_json_is_json() {
        assert!(is_json(b" [1] ") && is_json(b"\"x\""));
        assert!(is_json(
            "[".repeat(200)
                .as_bytes()
                .iter()
                .chain("]".repeat(200).as_bytes())
                .copied()
                .collect::<Vec<u8>>()
                .as_slice()
        ));
        for other in [&b""[..], b"{", b"{} {}", b"\xff", b"abc"] {
            assert!(!is_json(other), "{other:?}");
        }
    }
}
