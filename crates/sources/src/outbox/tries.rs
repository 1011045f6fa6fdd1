//! The failed deliveries of a relay. A row holds its last error only, so every error is kept elsewhere until the row is
//! delivered, and joins the letter when the row dies.

use std::fmt;

use async_trait::async_trait;
use lazaret_core::attempt::Attempt;
use lazaret_core::letter::Captured;

use super::row::{last_error, written};

/// Where a relay keeps the errors of deliveries that failed.
#[async_trait]
pub trait TryLog: Send + Sync + fmt::Debug {
    /// Keeps failed deliveries, each with the id of its row.
    async fn keep(&self, tries: Vec<(String, Attempt)>) -> Result<(), String>;

    /// Forgets the failed deliveries of rows that were delivered.
    async fn forget(&self, rows: Vec<String>) -> Result<(), String>;
}

/// Adds the failed deliveries of a row, oldest first, to what was captured of it.
///
/// The newest one is what the row died of if the row's error says so. It is the same run then, whether it is told by the
/// row alone or with what was kept of it, so it has the row's time.
pub fn add_tries(captured: &mut Captured, mut tries: Vec<Attempt>) {
    let last_error = captured.reported.as_deref().and_then(last_error).filter(|error| !error.is_empty());
    if let (Some(last_error), Some(last)) = (last_error, tries.last_mut())
        && written(&last.error).replace('\0', "\u{fffd}").starts_with(&last_error)
    {
        // The column may have cut it.
        captured.error = last.error.clone();
        last.at = captured.died_at.or(last.at);
    }
    captured.attempts = tries;
}

#[cfg(test)]
mod tests {
    use lazaret_core::attempt::LetterError;
    use lazaret_core::envelope::Envelope;
    use lazaret_core::letter::SourceWord;
    use lazaret_core::time::Time;

    use super::*;

    fn captured(last_error: &str) -> Captured {
        let reported = format!(
            "{{\"table\":\"t\",\"rowVersion\":\"7\",\"retryCount\":2,\"lastError\":{last_error:?},\"processedAt\":null}}"
        );
        Captured {
            source: "shop".into(),
            message_id: "7".into(),
            letter_type: "OrderCreated".into(),
            queue: "outbox".into(),
            subscriber: None,
            tenant: None,
            aggregate: None,
            schema_version: None,
            envelope: Envelope::seal(bytes::Bytes::new(), "application/json", Vec::new()),
            error: LetterError { message: last_error.into(), ..LetterError::default() },
            attempts: Vec::new(),
            retry_count: 2,
            max_retries: None,
            died_at: Some(Time::from_ms(2_010)),
            mark: None,
            word: SourceWord::Silent,
            reported: Some(reported),
        }
    }

    fn failed(ms: i64, message: &str) -> Attempt {
        let error = LetterError {
            error_type: "HttpAnswer".into(),
            code: Some("503".into()),
            message: message.into(),
            ..LetterError::default()
        };
        Attempt { at: Some(Time::from_ms(ms)), duration_ms: Some(5), error, extra: None }
    }

    #[test]
    fn the_last_try_is_what_the_row_died_of_if_the_row_says_so() {
        let tries = [failed(1_000, "busy"), failed(2_000, "busy, come back later")];
        for last_error in ["HttpAnswer (503): busy, come back later", "HttpAnswer (503): busy, co"] {
            let mut one = captured(last_error);
            add_tries(&mut one, tries.to_vec());
            assert_eq!(one.error, tries[1].error, "{last_error}");
            assert_eq!(one.attempts, [tries[0].clone(), failed(2_010, "busy, come back later")]);
        }
        // Somebody else let it die.
        let mut other = captured("given up by hand");
        add_tries(&mut other, tries.to_vec());
        assert_eq!((other.error.message.as_str(), &other.attempts[..]), ("given up by hand", &tries[..]));
        let mut untried = captured("given up by hand");
        add_tries(&mut untried, Vec::new());
        assert_eq!(untried, captured("given up by hand"));
    }
}
