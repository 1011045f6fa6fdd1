//! A worker's word that a message succeeded: of a redriven letter, or of a message that may have been taken for dead.

use serde_json::{Value, json};

use super::StreamOrigin;
use crate::time::Time;

/// What succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// A redriven message; the values are those of its headers.
    Redriven { letter_id: String, life: u32, redrive_id: Option<String> },
    /// A message whose last delivery had timed out before it succeeded: the server may have reported it as exhausted.
    Late(StreamOrigin),
}

impl Receipt {
    /// The JSON that is published to [`super::RECEIPTS_SUBJECT`].
    pub fn json(&self, at: Time) -> String {
        let at = at.to_string();
        match self {
            Receipt::Redriven { letter_id, life, redrive_id: Some(redrive_id) } => json!({
                "letterId": letter_id, "life": life, "redriveId": redrive_id, "outcome": "succeeded", "at": at,
            }),
            Receipt::Redriven { letter_id, life, redrive_id: None } => {
                json!({"letterId": letter_id, "life": life, "outcome": "succeeded", "at": at})
            }
            Receipt::Late(origin) => json!({
                "stream": origin.stream,
                "streamCreated": origin.stream_created.to_string(),
                "sequence": origin.sequence,
                "consumer": origin.consumer,
                "outcome": "succeeded",
                "at": at,
            }),
        }
        .to_string()
    }

    /// The value of `Nats-Msg-Id`: one receipt for each success, however often it is published.
    pub fn message_id(&self) -> String {
        match self {
            Receipt::Redriven { letter_id, life, redrive_id } => {
                format!("receipt:{letter_id}:{life}:{}", redrive_id.as_deref().unwrap_or_default())
            }
            Receipt::Late(origin) => format!("receipt:{}", origin.message_id()),
        }
    }

    /// Reads what a worker published, and when the message succeeded; `None` for what is not the receipt of a success.
    pub fn parse(text: &str) -> Option<(Receipt, Option<Time>)> {
        let fields: Value = serde_json::from_str(text).ok()?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let time = |name: &str| text(name).and_then(|text| Time::parse(&text).ok());
        if text("outcome").is_some_and(|outcome| outcome != "succeeded") {
            return None;
        }
        let receipt = match text("letterId") {
            Some(letter_id) => Receipt::Redriven {
                letter_id,
                life: u32::try_from(fields.get("life")?.as_u64()?).ok()?,
                redrive_id: text("redriveId"),
            },
            None => Receipt::Late(StreamOrigin {
                stream: text("stream")?,
                stream_created: time("streamCreated")?,
                sequence: fields.get("sequence")?.as_u64()?,
                consumer: text("consumer")?,
            }),
        };
        Some((receipt, time("at")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        let at = Time::from_ms(1_700_000_000_123);
        let letter = |redrive: Option<&str>| Receipt::Redriven {
            letter_id: "018f".into(),
            life: 2,
            redrive_id: redrive.map(str::to_owned),
        };
        let late = Receipt::Late(StreamOrigin {
            stream: "ORDERS".into(),
            stream_created: at,
            sequence: 9,
            consumer: "worker".into(),
        });
        for receipt in [letter(Some("r")), letter(None), late] {
            assert_eq!(Receipt::parse(&receipt.json(at)), Some((receipt, Some(at))));
        }
        assert_eq!(
            letter(Some("r")).json(at),
            r#"{"at":"2023-11-14T22:13:20.123Z","letterId":"018f","life":2,"outcome":"succeeded","redriveId":"r"}"#
        );
    }

    #[test]
    fn what_is_no_success_is_no_receipt() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"letterId":"a","life":-1}"#,
            r#"{"letterId":"a","life":1,"outcome":"failed"}"#,
        ] {
            assert_eq!(Receipt::parse(text), None, "{text}");
        }
    }
}
