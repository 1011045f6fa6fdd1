//! Words that go with a status of HTTP and say no more than its number: `HTTP status 404 Not Found` is `404`.

use super::{Kind, Piece};

/// Words in front of a status.
const LEADS: [&str; 7] = ["http", "https", "status", "code", "statuscode", "status_code", "http/1.1"];

/// The phrases of the protocol, and older or newer forms of them.
const PHRASES: &[(&str, &str)] = &[
    ("400", "bad request"),
    ("401", "unauthorized"),
    ("402", "payment required"),
    ("403", "forbidden"),
    ("404", "not found"),
    ("405", "method not allowed"),
    ("408", "request timeout"),
    ("409", "conflict"),
    ("410", "gone"),
    ("412", "precondition failed"),
    ("413", "payload too large"),
    ("413", "request entity too large"),
    ("415", "unsupported media type"),
    ("422", "unprocessable entity"),
    ("422", "unprocessable content"),
    ("423", "locked"),
    ("429", "too many requests"),
    ("500", "internal server error"),
    ("501", "not implemented"),
    ("502", "bad gateway"),
    ("503", "service unavailable"),
    ("504", "gateway timeout"),
];

/// Takes such words out of the comparison.
pub(super) fn hide_phrases(source: &str, pieces: &mut [Piece]) {
    for at in 0..pieces.len() {
        let text = &source[pieces[at].start..pieces[at].end];
        if pieces[at].kind != Kind::Kept || text.len() != 3 || !text.starts_with(['4', '5']) {
            continue;
        }
        let mut first = at;
        while first > 0 && is_lead(source, &pieces[first - 1], &pieces[first]) {
            first -= 1;
        }
        let length = PHRASES
            .iter()
            .filter(|(status, _)| *status == text)
            .filter_map(|(_, phrase)| phrase_length(source, &pieces[at..], phrase))
            .max()
            .unwrap_or(0);
        let (before, behind) = pieces.split_at_mut(at);
        for piece in before[first..].iter_mut().chain(&mut behind[1..=length]) {
            piece.kind = Kind::Shown;
        }
    }
}

fn is_lead(source: &str, piece: &Piece, next: &Piece) -> bool {
    let text = &source[piece.start..piece.end];
    matches!(piece.kind, Kind::Word | Kind::Kept)
        && LEADS.iter().any(|lead| lead.eq_ignore_ascii_case(text))
        && source[piece.end..next.start].chars().all(|c| matches!(c, ' ' | ':' | '=' | '(' | '['))
}

/// How many pieces behind the first spell a phrase, which may stand in brackets.
fn phrase_length(source: &str, pieces: &[Piece], phrase: &str) -> Option<usize> {
    let mut length = 0;
    for word in phrase.split(' ') {
        let (last, piece) = (pieces.get(length)?, pieces.get(length + 1)?);
        let is_near = source[last.end..piece.start].chars().all(|c| matches!(c, ' ' | '(' | '-' | ':'));
        if piece.kind != Kind::Word || !is_near || !source[piece.start..piece.end].eq_ignore_ascii_case(word)
        {
            return None;
        }
        length += 1;
    }
    Some(length)
}
