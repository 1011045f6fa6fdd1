//! Ids: UUIDv7, lower case, no prefix. Minted from a given time and given random bits, never from a clock.

use std::fmt;

use uuid::Uuid;

use crate::time::Time;

/// A text that is not one of our ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id; ids look like 019a8b1c-7e00-7000-8000-000000000000")]
pub struct BadId(pub String);

/// Makes a UUIDv7 of a millisecond and ten random bytes.
fn mint(at: Time, random: [u8; 10]) -> Uuid {
    // Times before 1970 do not fit the format; a letter is never captured there.
    uuid::Builder::from_unix_timestamp_millis(at.ms().max(0) as u64, &random).into_uuid()
}

fn parse(text: &str) -> Result<Uuid, BadId> {
    // Only the hyphenated form: one letter has one address.
    let bad = || BadId(text.chars().take(64).collect());
    if text.len() != 36 {
        return Err(bad());
    }
    Uuid::try_parse(text).map_err(|_| bad())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// Mints an id whose millisecond is exactly `at`.
            pub fn mint(at: Time, random: [u8; 10]) -> Self {
                Self(mint(at, random))
            }

            pub fn parse(text: &str) -> Result<Self, BadId> {
                parse(text).map(Self)
            }

            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            pub fn bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The millisecond the id was minted in.
            pub fn at(&self) -> Time {
                let bytes = self.0.as_bytes();
                let mut ms = [0_u8; 8];
                ms[2..].copy_from_slice(&bytes[..6]);
                Time::from_ms(i64::from_be_bytes(ms))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }
    };
}

id!(
    /// Names a dead letter; its millisecond is the letter's `created_at`.
    LetterId
);
id!(
    /// Names an incident: all letters of one cause.
    IncidentId
);
id!(
    /// Names a redrive.
    RedriveId
);
id!(
    /// Names an operation: a frozen list of letters and the decision worked off on it.
    OperationId
);
id!(
    /// Names a job, by the client's choice or ours.
    JobId
);
id!(
    /// Names an entry of the audit log.
    AuditId
);
id!(
    /// Names an event; shown with the prefix `evt_`.
    EventId
);
id!(
    /// Names an access token; the token itself is never stored.
    TokenId
);
id!(
    /// Names a hold.
    HoldId
);
id!(
    /// Names a file of the archive.
    FileId
);
id!(
    /// Names an alert; made of what the alert is about.
    AlertId
);
id!(
    /// Names a notification.
    NotificationId
);
id!(
    /// Names a silence.
    SilenceId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_millisecond_and_sorts_by_it() {
        let early = LetterId::mint(Time::from_ms(1_763_175_600_123), [255; 10]);
        let late = LetterId::mint(Time::from_ms(1_763_175_600_124), [0; 10]);
        assert_eq!(early.at().ms(), 1_763_175_600_123);
        assert!(early < late);
        assert_eq!(LetterId::parse(&early.to_string()), Ok(early));
    }

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        for bad in ["", "x", "019a8b1c7e0070008000000000000000", "{019a8b1c-7e00-7000-8000-00000000000}", "é"]
        {
            assert!(LetterId::parse(bad).is_err(), "{bad}");
        }
    }
}
