//! The headers that say where a dead letter came from and why it died: written by workers and the bridge, read by the source.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value, json};

use super::{
    ATTEMPTS, BACKTRACE, CONSUMER, DELIVERIES, ERROR_CLASS, ERROR_CODE, ERROR_MESSAGE, ERROR_TYPE,
    FIRST_ATTEMPT_AT, LAST_ATTEMPT_AT, ORIGINAL_SUBJECT, PUBLISHED_AT, REASON, SEQUENCE, SERVICE_VERSION,
    STREAM, STREAM_CREATED, StreamOrigin, escape_text, escape_token, unescape_text, unescape_token,
};
use crate::attempt::{Attempt, LetterError};
use crate::class::ErrorClass;
use crate::time::Time;

/// Bytes of a short text, such as an error's code. Longer ones are cut.
const NAME_BYTES_MAX: usize = 512;

/// Bytes of an error's message that are always kept; a backtrace and older attempts give way first.
const MESSAGE_BYTES_MIN: usize = 1_024;

/// Bytes of an attempt's message; the last one stands in full in its own header.
const ATTEMPT_MESSAGE_BYTES_MAX: usize = 1_024;

/// What a header costs beside its name and value: a colon, a space and the end of the line.
const HEADER_OVERHEAD_BYTES: usize = 4;

/// Why a message is dead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeathReason {
    /// The worker saw an error that another attempt cannot mend.
    Permanent,
    /// The worker saw the last allowed attempt fail.
    Exhausted,
    /// The server reported that it will not deliver the message again.
    MaxDeliveries,
    /// The server reported that a consumer terminated the message.
    Terminated,
}

impl DeathReason {
    pub const ALL: [DeathReason; 4] =
        [DeathReason::Permanent, DeathReason::Exhausted, DeathReason::MaxDeliveries, DeathReason::Terminated];

    pub const fn name(self) -> &'static str {
        match self {
            DeathReason::Permanent => "permanent",
            DeathReason::Exhausted => "exhausted",
            DeathReason::MaxDeliveries => "max_deliveries",
            DeathReason::Terminated => "terminated",
        }
    }

    pub fn parse(text: &str) -> Option<DeathReason> {
        DeathReason::ALL.into_iter().find(|reason| reason.name() == text)
    }
}

impl fmt::Display for DeathReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of a message that died on a broker. The bridge knows no error; other programs may know little else.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BrokerDeath {
    /// `None` when the headers do not name all of it.
    pub origin: Option<StreamOrigin>,
    pub original_subject: Option<String>,
    pub published_at: Option<Time>,
    pub deliveries: Option<u64>,
    pub reason: Option<DeathReason>,
    pub error: Option<LetterError>,
    pub class: Option<ErrorClass>,
    pub first_attempt_at: Option<Time>,
    pub last_attempt_at: Option<Time>,
    pub service_version: Option<String>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

impl BrokerDeath {
    /// The headers to publish, in at most `bytes_max` bytes as long as the indispensable ones fit: the backtrace is cut, then
    /// the oldest attempts are left out, then the message is cut.
    pub fn headers(&self, bytes_max: usize) -> Vec<(&'static str, String)> {
        let mut headers = self.indispensable();
        let mut room = bytes_max.saturating_sub(headers.iter().map(size).sum());
        if let Some(error) = &self.error {
            let free = room.saturating_sub(ERROR_MESSAGE.len() + HEADER_OVERHEAD_BYTES);
            let kept = free.max(MESSAGE_BYTES_MIN);
            push(&mut headers, &mut room, ERROR_MESSAGE, escape_cut(&error.message, kept));
        }
        if !self.attempts.is_empty() {
            // Half of the room: a history without a backtrace is as little use as the reverse.
            let history_bytes_max = (room / 2).saturating_sub(ATTEMPTS.len() + HEADER_OVERHEAD_BYTES);
            if let Some(history) = attempts_to_json(&self.attempts, history_bytes_max) {
                push(&mut headers, &mut room, ATTEMPTS, history);
            }
        }
        if let Some(backtrace) = self.error.as_ref().and_then(|error| error.backtrace.as_deref()) {
            let kept = room.saturating_sub(BACKTRACE.len() + HEADER_OVERHEAD_BYTES);
            let backtrace = escape_cut(backtrace, kept);
            if !backtrace.is_empty() {
                push(&mut headers, &mut room, BACKTRACE, backtrace);
            }
        }
        headers
    }

    fn indispensable(&self) -> Vec<(&'static str, String)> {
        let time = |time: Option<Time>| time.map(|time| time.to_string());
        let text = |text: Option<&str>| text.map(|text| escape_cut(text, NAME_BYTES_MAX));
        let origin = self.origin.as_ref();
        let error = self.error.as_ref();
        let named = [
            (ORIGINAL_SUBJECT, self.original_subject.clone()),
            (STREAM, origin.map(|origin| escape_token(&origin.stream).into_owned())),
            (STREAM_CREATED, origin.map(|origin| origin.stream_created.to_string())),
            (SEQUENCE, origin.map(|origin| origin.sequence.to_string())),
            (CONSUMER, origin.map(|origin| escape_token(&origin.consumer).into_owned())),
            (PUBLISHED_AT, time(self.published_at)),
            (DELIVERIES, self.deliveries.map(|count| count.to_string())),
            (REASON, self.reason.map(|reason| reason.to_string())),
            (ERROR_TYPE, text(error.map(|error| error.error_type.as_str()).filter(|name| !name.is_empty()))),
            (ERROR_CODE, text(error.and_then(|error| error.code.as_deref()))),
            (ERROR_CLASS, self.class.map(|class| class.to_string())),
            (FIRST_ATTEMPT_AT, time(self.first_attempt_at)),
            (LAST_ATTEMPT_AT, time(self.last_attempt_at)),
            (SERVICE_VERSION, text(self.service_version.as_deref())),
        ];
        named.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
    }

    /// Reads the headers of any dead letter; `get` returns the first value of a name. What is missing or makes no sense is
    /// left out, because other programs publish dead letters too.
    pub fn read<'h>(get: impl Fn(&str) -> Option<&'h str>) -> BrokerDeath {
        let time = |name| get(name).and_then(|text| Time::parse(text).ok());
        let number = |name| get(name).and_then(|text| text.parse::<u64>().ok());
        let text = |name| get(name).map(unescape_text);
        let name = |name| get(name).map(|token| unescape_token(token).unwrap_or_else(|| token.to_owned()));
        let origin = match (name(STREAM), time(STREAM_CREATED), number(SEQUENCE), name(CONSUMER)) {
            (Some(stream), Some(stream_created), Some(sequence), Some(consumer)) => {
                Some(StreamOrigin { stream, stream_created, sequence, consumer })
            }
            _ => None,
        };
        let (error_type, code, message, backtrace) =
            (text(ERROR_TYPE), text(ERROR_CODE), text(ERROR_MESSAGE), text(BACKTRACE));
        let has_error = error_type.is_some() || code.is_some() || message.is_some() || backtrace.is_some();
        BrokerDeath {
            origin,
            original_subject: get(ORIGINAL_SUBJECT).map(str::to_owned),
            published_at: time(PUBLISHED_AT),
            deliveries: number(DELIVERIES),
            reason: get(REASON).and_then(DeathReason::parse),
            error: has_error.then(|| LetterError {
                error_type: error_type.unwrap_or_default(),
                code,
                message: message.unwrap_or_default(),
                backtrace,
                ..LetterError::default()
            }),
            class: get(ERROR_CLASS).and_then(ErrorClass::parse),
            first_attempt_at: time(FIRST_ATTEMPT_AT),
            last_attempt_at: time(LAST_ATTEMPT_AT),
            service_version: text(SERVICE_VERSION),
            attempts: get(ATTEMPTS).map(attempts_from_json).unwrap_or_default(),
        }
    }
}

fn size((name, value): &(&'static str, String)) -> usize {
    name.len() + value.len() + HEADER_OVERHEAD_BYTES
}

fn push(headers: &mut Vec<(&'static str, String)>, room: &mut usize, name: &'static str, value: String) {
    let header = (name, value);
    *room = room.saturating_sub(size(&header));
    headers.push(header);
}

/// The beginning of a text, escaped, in at most `bytes_max` bytes and never cut within an escape.
fn escape_cut(text: &str, bytes_max: usize) -> String {
    let mut cut = &text[..text.floor_char_boundary(bytes_max)];
    loop {
        let escaped: Cow<'_, str> = escape_text(cut);
        if escaped.len() <= bytes_max {
            return escaped.into_owned();
        }
        // Every escaped byte costs three, so this ends after a few rounds.
        let excess = (escaped.len() - bytes_max).div_ceil(3);
        cut = &cut[..cut.floor_char_boundary(cut.len().saturating_sub(excess))];
    }
}

/// The value of [`ATTEMPTS`]: as many of the last attempts as fit. `None` if not even the last one does.
pub fn attempts_to_json(attempts: &[Attempt], bytes_max: usize) -> Option<String> {
    let mut kept = Vec::new();
    let mut used = 2;
    for attempt in attempts.iter().rev() {
        let text = attempt_json(attempt).to_string();
        used += text.len() + 1;
        if used > bytes_max {
            break;
        }
        kept.push(text);
    }
    kept.reverse();
    (!kept.is_empty()).then(|| format!("[{}]", kept.join(",")))
}

fn attempt_json(attempt: &Attempt) -> Value {
    let message = &attempt.error.message;
    let mut fields = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    set("at", attempt.at.map(|at| json!(at.to_string())));
    set("durationMs", attempt.duration_ms.map(|ms| json!(ms)));
    set("type", Some(json!(attempt.error.error_type)));
    set("message", Some(json!(&message[..message.floor_char_boundary(ATTEMPT_MESSAGE_BYTES_MAX)])));
    set("code", attempt.error.code.as_ref().map(|code| json!(code)));
    Value::Object(fields)
}

/// Reads the value of [`ATTEMPTS`]. What makes no sense is left out.
pub fn attempts_from_json(text: &str) -> Vec<Attempt> {
    let Ok(Value::Array(items)) = serde_json::from_str(text) else {
        return Vec::new();
    };
    let read = |item: &Value| {
        let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        item.is_object().then(|| Attempt {
            at: text("at").and_then(|at| Time::parse(&at).ok()),
            duration_ms: item.get("durationMs").and_then(Value::as_u64),
            error: LetterError {
                error_type: text("type").unwrap_or_default(),
                code: text("code"),
                message: text("message").unwrap_or_default(),
                ..LetterError::default()
            },
            extra: None,
        })
    };
    items.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::HEADER_BYTES_MAX;

    fn attempt(message: &str) -> Attempt {
        Attempt {
            at: Some(Time::from_ms(1_700_000_001_000)),
            duration_ms: Some(12),
            error: LetterError {
                error_type: "io::Error".into(),
                code: Some("E1".into()),
                message: message.into(),
                ..LetterError::default()
            },
            extra: None,
        }
    }

    fn death() -> BrokerDeath {
        BrokerDeath {
            origin: Some(StreamOrigin {
                stream: "ORDERS".into(),
                stream_created: Time::from_ms(1_700_000_000_000),
                sequence: 7,
                consumer: "wor ker".into(),
            }),
            original_subject: Some("orders.new".into()),
            published_at: Some(Time::from_ms(1_700_000_000_500)),
            deliveries: Some(5),
            reason: Some(DeathReason::Exhausted),
            error: Some(LetterError {
                backtrace: Some("at a\n  at b".into()),
                ..attempt("line 1\nline 2 is 100%").error
            }),
            class: Some(ErrorClass::Transient),
            first_attempt_at: Some(Time::from_ms(1_700_000_001_000)),
            last_attempt_at: Some(Time::from_ms(1_700_000_009_000)),
            service_version: Some("1.2.3".into()),
            attempts: vec![attempt("first \"quoted\"\n"), attempt("second ü")],
        }
    }

    fn read(headers: &[(&'static str, String)]) -> BrokerDeath {
        let get = |name: &str| headers.iter().find(|header| header.0 == name).map(|header| &*header.1);
        BrokerDeath::read(get)
    }

    #[test]
    fn a_death_is_read_as_it_was_written() {
        let headers = death().headers(HEADER_BYTES_MAX);
        assert!(headers.iter().all(|header| !header.1.contains(['\r', '\n'])), "{headers:?}");
        assert_eq!(read(&headers), death());
    }

    #[test]
    fn too_much_is_cut_where_it_hurts_least() {
        let long = "é\n".repeat(200_000);
        let mut death = death();
        death.attempts = (0..1_000).map(|n| attempt(&format!("{n} {long}"))).collect();
        death.error.as_mut().unwrap().backtrace = Some(long);
        for bytes_max in [HEADER_BYTES_MAX, 9_000, 4_000] {
            let headers = death.headers(bytes_max);
            let used: usize = headers.iter().map(size).sum();
            assert!(used <= bytes_max && used * 10 >= bytes_max * 4, "{used} of {bytes_max}");
            let read = read(&headers);
            assert_eq!(read.origin, death.origin);
            assert_eq!(read.error.unwrap().message, "line 1\nline 2 is 100%");
            // The newest attempts are kept.
            assert!(read.attempts.last().is_none_or(|last| last.error.message.starts_with("999 ")));
        }
        death.error.as_mut().unwrap().message = "x".repeat(100_000);
        let headers = death.headers(9_000);
        assert!(headers.iter().map(size).sum::<usize>() < 9_000 + MESSAGE_BYTES_MIN);
        // Without any room what is indispensable is there all the same.
        assert!(death.headers(0).iter().any(|header| header.0 == SEQUENCE));
    }

    #[test]
    fn headers_of_other_programs_are_taken_as_they_are() {
        assert_eq!(BrokerDeath::read(|_| None), BrokerDeath::default());
        let odd = BrokerDeath::read(|name| match name {
            STREAM => Some("100%"),
            SEQUENCE => Some("-1"),
            ERROR_MESSAGE => Some("100% full"),
            ATTEMPTS => Some("[1, {}, {\"message\": 3, \"at\": \"soon\"}]"),
            REASON => Some("boredom"),
            _ => None,
        });
        assert_eq!((odd.origin, odd.reason, odd.attempts.len()), (None, None, 2));
        assert_eq!(odd.error.unwrap().message, "100% full");
    }
}
