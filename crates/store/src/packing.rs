//! How bodies and backtraces are kept: compressed where that pays, always with a mark that says how.

use std::borrow::Cow;
use std::cell::RefCell;

use bytes::Bytes;
use lazaret_core::attempt::{Attempt, AttemptIdentity, LetterError, identities};
use lazaret_core::envelope::Envelope;
use lazaret_core::filter::words::indexed_text;
use lazaret_core::header::{Headers, headers_from_json, headers_to_json};
use lazaret_core::letter::{Admitted, listed};
use lazaret_core::limits;
use lazaret_core::origin::Origin;
use serde::{Deserialize, Serialize};

use crate::StoreError;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// Below this a frame's own header eats what compression gains.
const PACK_BYTES_MIN: usize = 128;

/// A page of the database: what fits into it costs no other read.
const PACK_LIGHTLY_BYTES_MIN: usize = 4 * 1024;

/// Level -1 finds what repeats and leaves single characters alone: less work beside the writer than level 1, for a
/// quarter more bytes on disk (2,960 against 2,390 a letter) of the bench's bodies, which hardly repeat.
const LEVEL: i32 = -1;

/// What says it is longer when opened is opened piece by piece: what it says may be wrong.
const UNPACK_AT_ONCE_BYTES_MAX: usize = 1024 * 1024;

thread_local! {
    static PACKER: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    /// Made once: to make one costs more than to open a letter.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Packs bytes; what does not shrink is kept plain.
pub(crate) fn pack(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() >= PACK_BYTES_MIN
        && let Some(packed) = shrink(bytes)
        && packed.len() < bytes.len()
    {
        return packed;
    }
    plain(bytes)
}

/// Packs bytes that are opened soon and often: a short text is sooner read than unpacked.
pub(crate) fn pack_lightly(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() >= PACK_LIGHTLY_BYTES_MIN { pack(bytes) } else { plain(bytes) }
}

fn plain(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len() + 1);
    plain.push(PLAIN);
    plain.extend_from_slice(bytes);
    plain
}

fn shrink(bytes: &[u8]) -> Option<Vec<u8>> {
    PACKER.with_borrow_mut(|packer| {
        if packer.is_none() {
            *packer = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        let frame = packer.as_mut()?.compress(bytes).ok()?;
        let mut packed = Vec::with_capacity(frame.len() + 1);
        packed.push(ZSTD);
        packed.extend_from_slice(&frame);
        Some(packed)
    })
}

/// Opens packed bytes.
pub(crate) fn unpack(packed: &[u8]) -> Result<Vec<u8>, StoreError> {
    match packed.split_first() {
        Some((&PLAIN, bytes)) => Ok(bytes.to_vec()),
        Some((&ZSTD, frame)) => grow(frame)
            .map_err(|error| StoreError::Corrupt(format!("a compressed value cannot be opened: {error}"))),
        Some((mark, _)) => Err(StoreError::Corrupt(format!("a value is packed in the unknown way {mark}"))),
        None => Err(StoreError::Corrupt("a packed value is empty".into())),
    }
}

fn grow(frame: &[u8]) -> std::io::Result<Vec<u8>> {
    let stated = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    let Some(bytes) = stated
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| *bytes <= UNPACK_AT_ONCE_BYTES_MAX)
    else {
        return zstd::stream::decode_all(frame);
    };
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            None => unpacker.insert(zstd::bulk::Decompressor::new()?),
        };
        unpacker.decompress(frame, bytes)
    })
}

/// One captured message with everything done to it that needs no database.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub admitted: Admitted,
    pub body: Vec<u8>,
    pub headers: Option<String>,
    pub reported: Option<Vec<u8>>,
    /// The last one is the run that killed it.
    pub attempts: Vec<PreparedAttempt>,
    pub words: String,
}

#[derive(Debug)]
pub(crate) struct PreparedAttempt {
    pub identity: AttemptIdentity,
    pub at: Option<i64>,
    pub duration_ms: Option<i64>,
    pub error_type: String,
    pub error_code: Option<String>,
    /// Cut for lists; the rest is in the detail.
    pub message: String,
    pub detail: Option<Vec<u8>>,
}

impl PreparedAttempt {
    /// A report without an error stands for no run that anyone could tell from another.
    pub fn tells_nothing(&self) -> bool {
        self.at.is_none()
            && self.duration_ms.is_none()
            && self.error_type.is_empty()
            && self.error_code.is_none()
            && self.message.is_empty()
            && self.detail.is_none()
    }
}

impl Prepared {
    pub fn new(admitted: Admitted) -> Result<Prepared, StoreError> {
        let captured = &admitted.captured;
        let runs = &captured.attempts;
        let attempts: Vec<_> = runs
            .iter()
            .zip(identities(runs))
            .map(|(run, identity)| pack_attempt(run, identity))
            .collect::<Result<_, _>>()?;
        let Some(fatal) = attempts.last() else {
            return Err(StoreError::Corrupt("a letter without a fatal attempt was admitted".into()));
        };
        let words = indexed_text(&captured.letter_type, &fatal.error_type, &fatal.message);
        let headers = header_text(&captured.envelope);
        Ok(Prepared {
            body: pack(captured.envelope.body()),
            headers,
            reported: captured.reported.as_ref().map(|text| pack(text.as_bytes())),
            words,
            attempts,
            admitted,
        })
    }

    pub fn fatal(&self) -> &PreparedAttempt {
        // The constructor refuses a letter without one.
        self.attempts.last().expect("every admitted letter ends with the run that killed it")
    }
}

/// What of an attempt is not in columns of its own.
#[derive(Serialize, Deserialize, Default)]
struct Detail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backtrace: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_extra: Option<Cow<'a, str>>,
}

pub(crate) fn pack_attempt(run: &Attempt, identity: AttemptIdentity) -> Result<PreparedAttempt, StoreError> {
    let error = &run.error;
    let message = listed(&error.message, limits::MESSAGE_BYTES_LISTED);
    let error_type = listed(&error.error_type, limits::NAME_BYTES_MAX);
    let error_code = error.code.as_ref().map(|code| listed(code, limits::NAME_BYTES_MAX));
    fn borrowed(text: &Option<String>) -> Option<Cow<'_, str>> {
        text.as_deref().map(Cow::Borrowed)
    }
    let detail = Detail {
        message: (message != error.message).then_some(Cow::Borrowed(error.message.as_str())),
        error_type: (error_type != error.error_type).then_some(Cow::Borrowed(error.error_type.as_str())),
        error_code: if error_code == error.code { None } else { borrowed(&error.code) },
        backtrace: borrowed(&error.backtrace),
        context: borrowed(&error.context),
        extra: borrowed(&error.extra),
        attempt_extra: borrowed(&run.extra),
    };
    let text = json(&detail)?;
    Ok(PreparedAttempt {
        identity,
        at: run.at.map(|at| at.ms()),
        duration_ms: run.duration_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
        error_type,
        error_code,
        message,
        detail: (text != "{}").then(|| pack(text.as_bytes())),
    })
}

/// Puts the error of an attempt together again from its columns and its detail.
pub(crate) fn open_error(
    error_type: String,
    code: Option<String>,
    message: String,
    detail: Option<&[u8]>,
) -> Result<(LetterError, Option<String>), StoreError> {
    let text = detail.map(unpack).transpose()?;
    let detail: Detail<'_> = match &text {
        Some(text) => serde_json::from_slice(text)
            .map_err(|error| StoreError::Corrupt(format!("an attempt's detail cannot be read: {error}")))?,
        None => Detail::default(),
    };
    let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    let error = LetterError {
        error_type: owned(detail.error_type).unwrap_or(error_type),
        code: owned(detail.error_code).or(code),
        message: owned(detail.message).unwrap_or(message),
        backtrace: owned(detail.backtrace),
        context: owned(detail.context),
        extra: owned(detail.extra),
    };
    Ok((error, owned(detail.attempt_extra)))
}

pub(crate) fn open_body(packed: &[u8]) -> Result<Bytes, StoreError> {
    unpack(packed).map(Bytes::from)
}

/// Headers out of what `header_text` gave.
pub(crate) fn open_headers(text: Option<&str>) -> Result<Headers, StoreError> {
    match text {
        Some(text) => headers_from_json(text)
            .map_err(|error| StoreError::Corrupt(format!("headers cannot be read: {error}"))),
        None => Ok(Vec::new()),
    }
}

/// An origin out of its column.
pub(crate) fn open_origin(text: Option<&str>) -> Result<Option<Origin>, StoreError> {
    text.map(Origin::from_json)
        .transpose()
        .map_err(|error| StoreError::Corrupt(format!("an origin cannot be read: {error}")))
}

pub(crate) fn origin_text(envelope: &Envelope) -> Option<String> {
    envelope.origin().map(Origin::to_json)
}

pub(crate) fn open_text(packed: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(unpack(packed)?).map_err(|_| StoreError::Corrupt("a kept text is not UTF-8".into()))
}

/// Headers as they are kept: in order, nothing if there are none.
pub(crate) fn header_text(envelope: &Envelope) -> Option<String> {
    match envelope.headers() {
        [] => None,
        headers => Some(headers_to_json(headers)),
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Unavailable { doing: "writing JSON", source: Some(Box::new(error)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let noise: Vec<u8> = (0..2_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for bytes in [&b""[..], b"x", &[0; 100_000], &noise] {
            assert_eq!(unpack(&pack(bytes)).unwrap(), bytes);
            assert_eq!(unpack(&pack_lightly(bytes)).unwrap(), bytes);
        }
        assert!(pack(&[7; 4_096]).len() < 64);
        assert!(pack(&noise).len() <= noise.len() + 1);
    }

    #[test]
    fn damage_is_an_error_and_not_a_panic() {
        for damaged in [&b""[..], b"\x09abc", b"\x01not zstd"] {
            assert!(matches!(unpack(damaged), Err(StoreError::Corrupt(_))));
        }
    }
}
