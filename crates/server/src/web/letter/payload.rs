//! A body and its headers, as a page shows them. Whatever a page shows of either comes from `Shown`, so that what must
//! not be seen has one place where it is taken out.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::envelope::Envelope;
use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::limits;
use lazaret_core::redaction::{self, Redactor};

use super::json;
use super::room::{Fitted, Room};
use crate::api::problem::{Code, Problem};
use crate::web::format::size;

/// A body and headers as people may see them.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// Empty if it is withheld.
    pub body: Bytes,
    /// How many bytes the original has.
    pub bytes: u64,
    pub content_type: String,
    pub headers: Headers,
    pub hidden: Hidden,
    /// Why there is no body, if there is none.
    pub body_missing: Option<String>,
}

/// What of a body must not be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hidden {
    Nothing,
    /// Values in it are masked.
    Some,
    /// It is no text, so that nobody can tell what is in it.
    All,
}

/// The ways to look at a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    Json,
    Raw,
    Hex,
}

/// How a body is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted {
    /// The one that fits unless it is said.
    pub view: Option<View>,
    pub extent: Extent,
    /// Where hex begins.
    pub from: usize,
}

/// How much of a body is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Extent {
    #[default]
    Beginning,
    Whole,
}

/// A body in one view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Viewed {
    pub view: View,
    /// Markup of ours, for JSON alone.
    pub html: String,
    /// Text that is not escaped yet, for the other views.
    pub text: String,
    /// What is not seen here, and why.
    pub note: Option<String>,
    /// Whether asking for the whole shows more.
    pub has_more: bool,
    /// Where the page of hex before this one begins, and the next.
    pub before: Option<usize>,
    pub behind: Option<usize>,
    /// Whether it can be looked at as JSON.
    pub is_json: bool,
}

impl View {
    pub const ALL: [View; 3] = [View::Json, View::Raw, View::Hex];

    pub const fn name(self) -> &'static str {
        match self {
            View::Json => "json",
            View::Raw => "raw",
            View::Hex => "hex",
        }
    }

    pub const fn label(self) -> &'static str {
        match self {
            View::Json => "JSON",
            View::Raw => "Raw",
            View::Hex => "Hex",
        }
    }

    pub fn parse(text: &str) -> Option<View> {
        View::ALL.into_iter().find(|view| view.name() == text)
    }
}

impl Shown {
    /// What may be seen of an original.
    pub fn new(
        body: &Bytes,
        content_type: &str,
        headers: &[(String, HeaderValue)],
        redactor: &Redactor,
    ) -> Shown {
        let (shown, hidden) = match redactor.body(content_type, body) {
            redaction::Shown::Whole(_) => (body.clone(), Hidden::Nothing),
            redaction::Shown::Masked(text) => (Bytes::from(text), Hidden::Some),
            redaction::Shown::Withheld => (Bytes::new(), Hidden::All),
        };
        let headers = redactor.headers(headers).into_iter();
        Shown {
            body: shown,
            bytes: body.len() as u64,
            content_type: content_type.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.into_owned())).collect(),
            hidden,
            body_missing: None,
        }
    }

    /// The same, beside the threads that serve everyone: a body may have megabytes.
    pub async fn of(envelope: Envelope, redactor: &Arc<Redactor>) -> Result<Shown, Problem> {
        let redactor = Arc::clone(redactor);
        let masking = tokio::task::spawn_blocking(move || {
            let shown = Shown::new(envelope.body(), envelope.content_type(), envelope.headers(), &redactor);
            let body_missing = envelope.body_missing().map(|why| redactor.text(why).into_owned());
            Shown { body_missing, ..shown }
        });
        masking.await.map_err(|_| Problem::new(Code::Internal, "body could not be masked"))
    }

    /// The same as an original, to compare with.
    pub fn envelope(&self) -> Envelope {
        Envelope::seal(self.body.clone(), self.content_type.clone(), self.headers.clone())
    }

    /// The headers, as many as there is room for, and how many are left out.
    pub fn header_rows(&self) -> (Vec<(Fitted, Fitted)>, usize) {
        let mut room = Room::new(limits::WEB_HEADERS_MARKUP_BYTES);
        let mut rows = Vec::new();
        for (name, value) in &self.headers {
            // A row takes markup of its own.
            if !room.take(100) {
                break;
            }
            let name = room.fit(name, limits::NAME_BYTES_MAX);
            rows.push((name, room.fit(&value.described(), limits::WEB_HEADER_MARKUP_BYTES)));
        }
        let left_out = self.headers.len() - rows.len();
        (rows, left_out)
    }

    /// The body in the view that is wanted, or that fits.
    pub fn view(&self, wanted: Wanted) -> Viewed {
        let is_json = json::is_json(&self.body);
        let is_text = std::str::from_utf8(&self.body).is_ok();
        let fitting = match (is_json, is_text) {
            (true, _) => View::Json,
            (false, true) => View::Raw,
            (false, false) => View::Hex,
        };
        let view = wanted.view.filter(|view| *view != View::Json || is_json).unwrap_or(fitting);
        let viewed = Viewed {
            view,
            html: String::new(),
            text: String::new(),
            note: None,
            has_more: false,
            before: None,
            behind: None,
            is_json,
        };
        match view {
            View::Json => self.json(wanted.extent, viewed),
            View::Raw => self.raw(wanted.extent, viewed),
            View::Hex => self.hex(wanted.from, viewed),
        }
    }

    fn json(&self, extent: Extent, viewed: Viewed) -> Viewed {
        let (bytes_max, markup_max) = extent.limits();
        let text = std::str::from_utf8(&self.body).unwrap_or("");
        let printed = json::print(&text[..text.floor_char_boundary(bytes_max)], markup_max);
        let viewed = Viewed { html: printed.html, ..viewed };
        self.noted(viewed, extent, printed.whole)
    }

    fn raw(&self, extent: Extent, viewed: Viewed) -> Viewed {
        let (bytes_max, markup_max) = extent.limits();
        let beginning = &self.body[..self.body.len().min(bytes_max)];
        let text = String::from_utf8_lossy(beginning);
        let Fitted { text, cut } = Room::new(markup_max).fit(&text, markup_max);
        let whole = !cut && beginning.len() == self.body.len();
        self.noted(Viewed { text, ..viewed }, extent, whole)
    }

    fn noted(&self, viewed: Viewed, extent: Extent, whole: bool) -> Viewed {
        let all = size(self.bytes);
        let note = match (whole, extent) {
            (true, _) => None,
            (false, Extent::Beginning) => Some(format!("Truncated: first part of {all}.")),
            (false, Extent::Whole) => Some(format!("Truncated: download the file for all {all}.")),
        };
        Viewed { note, has_more: !whole && extent == Extent::Beginning, ..viewed }
    }

    fn hex(&self, from: usize, viewed: Viewed) -> Viewed {
        // A line has 16 bytes; one that is torn would be hard to compare.
        let from = from.min(self.body.len()) / 16 * 16;
        let to = self.body.len().min(from + limits::WEB_HEX_BYTES);
        let lines = self.body[from..to].chunks(16).enumerate();
        let text = lines.map(|(at, bytes)| hex_line(from + at * 16, bytes)).collect();
        let all = self.body.len();
        let note = (to - from < all).then(|| format!("Bytes {from} to {to} of {all}."));
        let before = (from > 0).then(|| from.saturating_sub(limits::WEB_HEX_BYTES));
        Viewed { text, note, before, behind: (to < all).then_some(to), ..viewed }
    }
}

impl Extent {
    /// Bytes of the body, and of markup.
    const fn limits(self) -> (usize, usize) {
        match self {
            Extent::Beginning => (limits::WEB_BODY_BYTES, limits::WEB_BODY_MARKUP_BYTES),
            Extent::Whole => (limits::WEB_BODY_BYTES_MAX, limits::WEB_BODY_MARKUP_BYTES_MAX),
        }
    }
}

fn hex_line(offset: usize, bytes: &[u8]) -> String {
    let mut line = format!("{offset:08x} ");
    for (at, byte) in bytes.iter().enumerate() {
        if at == 8 {
            line.push(' ');
        }
        line.push_str(&format!(" {byte:02x}"));
    }
    let seen: String =
        bytes.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' }).collect();
    format!("{line:<59} |{seen}|\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hides nothing.
    fn open() -> Redactor {
        Redactor::off()
    }

    fn shown(body: &[u8]) -> Shown {
        Shown::new(&Bytes::copy_from_slice(body), "x/y", &[], &open())
    }

    #[test]
    fn each_body_has_the_view_that_fits() {
        for (body, view) in [
            (&b"{\"a\":1}"[..], View::Json),
            (b"{\"a\":", View::Raw),
            (b"", View::Raw),
            (b"\xff\x00", View::Hex),
        ] {
            assert_eq!(shown(body).view(Wanted::default()).view, view, "{body:?}");
        }
        let wanted = Wanted { view: Some(View::Json), ..Wanted::default() };
        assert_eq!(shown(b"no json").view(wanted).view, View::Raw);
    }

    #[test]
    fn hex_has_offset_bytes_and_signs() {
        let viewed =
            shown(b"0123456789abcdef\xff\n<").view(Wanted { view: Some(View::Hex), ..Wanted::default() });
        assert_eq!(
            viewed.text,
            "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n\
             00000010  ff 0a 3c                                          |..<|\n"
        );
        assert_eq!((viewed.before, viewed.behind), (None, None));
        let long = shown(&vec![1; 10_000]);
        let at = |from| long.view(Wanted { view: Some(View::Hex), from, ..Wanted::default() });
        assert_eq!((at(0).before, at(0).behind), (None, Some(4_096)));
        assert_eq!((at(8_192).before, at(8_192).behind), (Some(4_096), None));
        assert_eq!(at(usize::MAX).text.lines().count(), 0);
    }

    #[test]
    fn a_large_body_is_shown_in_part_and_says_so() {
        let large = shown(&vec![b'x'; 2_000_000]);
        let viewed = large.view(Wanted::default());
        assert!(viewed.has_more && viewed.text.len() == limits::WEB_BODY_BYTES, "{:?}", viewed.note);
        let whole = large.view(Wanted { extent: Extent::Whole, ..Wanted::default() });
        assert!(!whole.has_more && whole.note.is_some() && whole.text.len() == limits::WEB_BODY_BYTES_MAX);
    }

    #[test]
    fn headers_fit_however_long_they_are() {
        let long = "v".repeat(64 * 1024);
        let headers: Headers = (0..100).map(|n| (format!("h{n}"), long.clone().into())).collect();
        let (rows, left_out) = Shown::new(&Bytes::new(), "", &headers, &open()).header_rows();
        assert!(
            rows.iter().map(|(_, value)| value.text.len()).sum::<usize>() <= limits::WEB_HEADERS_MARKUP_BYTES
        );
        assert_eq!(rows.len() + left_out, 100);
        assert!(rows[0].1.cut && left_out > 0);
    }
}
