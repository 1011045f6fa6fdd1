//! What a handler returns when it could not do its work. Knows nothing of brokers.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error;
use std::fmt;

use lazaret_core::attempt::LetterError;
use lazaret_core::class::ErrorClass;

/// Causes of causes that are shown; a chain that is longer runs in a circle.
const CAUSES_MAX: usize = 32;

/// An error of a handler, as the dead letter will show it.
///
/// Any error becomes one by `?`: its type, its message with its causes and, where `RUST_BACKTRACE` is set, the place where it
/// was converted. Lazaret's rules decide by type, code and message whether another attempt can help; [`Failure::with_class`]
/// overrides them.
///
/// ```
/// use lazaret_worker::{ErrorClass, Failure};
///
/// fn parse(body: &str) -> Result<u32, Failure> {
///     Ok(body.trim().parse()?)
/// }
///
/// fn check(amount: u32) -> Result<(), Failure> {
///     if amount == 0 {
///         return Err(Failure::new("EmptyOrder", "the order has no items").with_class(ErrorClass::Validation));
///     }
///     Ok(())
/// }
/// # assert!(parse("12").is_ok() && check(0).is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    // Boxed, because a handler's result should be small where there is no error.
    error: Box<LetterError>,
    class: Option<ErrorClass>,
}

impl Failure {
    /// A failure with a name of its own, such as `PaymentRefused`: equal failures are grouped by it.
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Failure {
        let error =
            LetterError { error_type: error_type.into(), message: message.into(), ..LetterError::default() };
        Failure { error: Box::new(error), class: None }
    }

    /// A failure from an error whose type is not known any more, such as a boxed one.
    pub fn from_dyn(error_type: impl Into<String>, error: &(dyn Error + 'static)) -> Failure {
        Failure::new(error_type, chain(error))
    }

    /// Adds the code that the failing system gave, such as `ECONNREFUSED` or `23505`.
    pub fn with_code(mut self, code: impl Into<String>) -> Failure {
        self.error.code = Some(code.into());
        self
    }

    /// Says what kind of error it is, in place of the rules. A transient one is retried, most others are not.
    pub fn with_class(mut self, class: ErrorClass) -> Failure {
        self.class = Some(class);
        self
    }

    pub fn with_backtrace(mut self, backtrace: impl Into<String>) -> Failure {
        self.error.backtrace = Some(backtrace.into());
        self
    }

    #[cfg(any(feature = "jetstream", feature = "rabbitmq"))]
    pub(crate) fn class(&self) -> Option<ErrorClass> {
        self.class
    }

    #[cfg(any(feature = "jetstream", feature = "rabbitmq"))]
    pub(crate) fn error(&self) -> &LetterError {
        &self.error
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        let failure = Failure::from_dyn(std::any::type_name::<E>(), &error);
        let backtrace = Backtrace::capture();
        match backtrace.status() {
            BacktraceStatus::Captured => failure.with_backtrace(backtrace.to_string()),
            _ => failure,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error.error_type, self.error.message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("type", &self.error.error_type)
            .field("message", &self.error.message)
            .field("code", &self.error.code)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

/// The error's message and those of its causes. Many errors repeat their cause in their own message: once is enough.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot charge card")]
    struct Charge(#[source] std::io::Error);

    #[test]
    fn an_error_keeps_its_type_and_its_causes() {
        let io = std::io::Error::other("connection reset by peer");
        let failure = Failure::from(Charge(io));
        assert!(failure.error.error_type.ends_with("::Charge"), "{failure}");
        assert_eq!(failure.error.message, "cannot charge card: connection reset by peer");
        assert_eq!(failure.class, None);
    }

    #[test]
    fn a_cause_that_is_told_already_is_not_told_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot charge: {0}")]
        struct Repeats(#[source] std::io::Error);
        let failure = Failure::from(Repeats(std::io::Error::other("reset")));
        assert_eq!(failure.error.message, "cannot charge: reset");
    }

    #[test]
    fn a_boxed_error_becomes_a_failure() {
        let boxed: Box<dyn Error> = "out of stock".into();
        let failure = Failure::from_dyn("OutOfStock", boxed.as_ref()).with_code("S1");
        assert_eq!(format!("{failure}"), "OutOfStock: out of stock");
        assert!(format!("{failure:?}").contains("S1"));
    }
}
