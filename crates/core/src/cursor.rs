//! Where a page ends and the next begins: version, sort, last key and the hash of the filter, as base64url.
//!
//! A cursor never expires; one that belongs to another filter or sort is refused, because its page would be a lie.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::id::LetterId;
use crate::time::Time;

/// The order of a list; ties are broken by id, in the same direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    #[default]
    DiedAtDesc,
    DiedAtAsc,
    CreatedAtDesc,
    CreatedAtAsc,
}

impl Sort {
    pub const ALL: [Sort; 4] = [Sort::DiedAtDesc, Sort::DiedAtAsc, Sort::CreatedAtDesc, Sort::CreatedAtAsc];

    pub const fn name(self) -> &'static str {
        match self {
            Sort::DiedAtDesc => "-diedAt",
            Sort::DiedAtAsc => "diedAt",
            Sort::CreatedAtDesc => "-createdAt",
            Sort::CreatedAtAsc => "createdAt",
        }
    }

    pub fn parse(text: &str) -> Option<Sort> {
        Sort::ALL.into_iter().find(|sort| sort.name() == text)
    }

    const fn tag(self) -> u8 {
        match self {
            Sort::DiedAtDesc => 0,
            Sort::DiedAtAsc => 1,
            Sort::CreatedAtDesc => 2,
            Sort::CreatedAtAsc => 3,
        }
    }
}

/// The last row of a page: the next one begins after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastKey {
    pub at: Time,
    pub id: LetterId,
}

/// A text that is not a cursor of this list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCursor {
    #[error("the cursor cannot be read; pass `nextCursor` of the page before, unchanged")]
    Unreadable,
    #[error("the cursor belongs to another filter or sort; start again without it")]
    Foreign,
}

const VERSION: u8 = 1;
const LENGTH: usize = 1 + 1 + 8 + 16 + 8;

pub fn encode(sort: Sort, filter_hash: [u8; 8], last: LastKey) -> String {
    seal(sort.tag(), filter_hash, RawKey { value: last.at.ms(), id: *last.id.bytes() })
}

pub fn decode(text: &str, sort: Sort, filter_hash: [u8; 8]) -> Result<LastKey, BadCursor> {
    let key = open(text, sort.tag(), filter_hash)?;
    Ok(LastKey { at: Time::from_ms(key.value), id: LetterId::from_bytes(key.id) })
}

/// The last row of a page of any list: what the list is sorted by, and the row's id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawKey {
    pub value: i64,
    pub id: [u8; 16],
}

/// Makes a cursor of any list. `order` stands for the list and its sort; the letters' are 0 to 3, every other list has
/// numbers of its own.
pub fn seal(order: u8, query_hash: [u8; 8], last: RawKey) -> String {
    let mut bytes = [0; LENGTH];
    bytes[0] = VERSION;
    bytes[1] = order;
    bytes[2..10].copy_from_slice(&last.value.to_be_bytes());
    bytes[10..26].copy_from_slice(&last.id);
    bytes[26..].copy_from_slice(&query_hash);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Opens a cursor that was sealed for the same order of the same query.
pub fn open(text: &str, order: u8, query_hash: [u8; 8]) -> Result<RawKey, BadCursor> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor::Unreadable)?;
    let bytes: [u8; LENGTH] = bytes.try_into().map_err(|_| BadCursor::Unreadable)?;
    if bytes[0] != VERSION {
        return Err(BadCursor::Unreadable);
    }
    if bytes[1] != order || bytes[26..] != query_hash {
        return Err(BadCursor::Foreign);
    }
    let (mut value, mut id) = ([0; 8], [0; 16]);
    value.copy_from_slice(&bytes[2..10]);
    id.copy_from_slice(&bytes[10..26]);
    Ok(RawKey { value: i64::from_be_bytes(value), id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_only_to_its_own_list() {
        let last = LastKey { at: Time::from_ms(1_763_175_600_123), id: LetterId::from_bytes([7; 16]) };
        let text = encode(Sort::DiedAtDesc, [1; 8], last);
        assert_eq!(decode(&text, Sort::DiedAtDesc, [1; 8]), Ok(last));
        assert_eq!(decode(&text, Sort::DiedAtAsc, [1; 8]), Err(BadCursor::Foreign));
        assert_eq!(decode(&text, Sort::DiedAtDesc, [2; 8]), Err(BadCursor::Foreign));
        for bad in ["", "x", "AA", "====", &text[1..], "\u{0}", &text.repeat(100)] {
            assert_eq!(decode(bad, Sort::DiedAtDesc, [1; 8]), Err(BadCursor::Unreadable), "{bad}");
        }
    }

    #[test]
    fn a_cursor_of_another_list_is_foreign() {
        let key = RawKey { value: i64::MIN, id: [9; 16] };
        let text = seal(16, [1; 8], key);
        assert_eq!(open(&text, 16, [1; 8]), Ok(key));
        for sort in Sort::ALL {
            assert_eq!(decode(&text, sort, [1; 8]), Err(BadCursor::Foreign));
        }
    }
}
