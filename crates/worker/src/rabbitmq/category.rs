//! The four kinds of errors that a RabbitMQ consumer tells apart, as groups of Lazaret's error classes.

use std::fmt;

use lazaret_core::class::ErrorClass;

/// What kind of error a handler failed with.
///
/// | category | retried | classes | examples |
/// |---|---|---|---|
/// | client | no | malformed, authorization, not_found, business | invalid JSON, 401, 404, a rule of the business says no |
/// | validation | no | validation | missing field, bad UUID, unsupported MIME type, HTTP 4xx |
/// | transient | yes | transient, unknown | Redis unavailable, HTTP 5xx, timeout, RabbitMQ publish failure |
/// | configuration | no | configuration | missing storage credentials, invalid configuration |
///
/// Errors that no rule knows are retried: they may pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorCategory {
    /// The message cannot be handled as it is.
    Client,
    /// The message can be read, but is not what was agreed on.
    Validation,
    /// May pass by itself.
    Transient,
    /// The service is set up wrongly.
    Configuration,
}

impl ErrorCategory {
    pub const ALL: [ErrorCategory; 4] = [
        ErrorCategory::Client,
        ErrorCategory::Validation,
        ErrorCategory::Transient,
        ErrorCategory::Configuration,
    ];

    /// The category that a class belongs to.
    pub const fn of(class: ErrorClass) -> ErrorCategory {
        match class {
            ErrorClass::Validation => ErrorCategory::Validation,
            ErrorClass::Malformed
            | ErrorClass::Authorization
            | ErrorClass::NotFound
            | ErrorClass::Business => ErrorCategory::Client,
            ErrorClass::Transient | ErrorClass::Unknown => ErrorCategory::Transient,
            ErrorClass::Configuration => ErrorCategory::Configuration,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            ErrorCategory::Client => "client",
            ErrorCategory::Validation => "validation",
            ErrorCategory::Transient => "transient",
            ErrorCategory::Configuration => "configuration",
        }
    }

    /// Returns true if a failure of this category is retried.
    pub const fn is_retryable(self) -> bool {
        matches!(self, ErrorCategory::Transient)
    }
}

impl From<ErrorClass> for ErrorCategory {
    fn from(class: ErrorClass) -> ErrorCategory {
        ErrorCategory::of(class)
    }
}

impl fmt::Display for ErrorCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use lazaret_core::class::Retryable;
    use lazaret_core::retry::Preset;

    use super::*;
    use crate::Failure;
    use crate::settings::{Action, Settings};

    #[test]
    fn categories_and_retry_policies_agree() {
        for class in ErrorClass::ALL {
            let is_retried = Preset::Rabbitmq.class_attempts(class).is_none();
            assert_eq!(ErrorCategory::of(class).is_retryable(), is_retried, "{class}");
            if class.retryable() == Retryable::No && class.is_client() {
                assert!(matches!(
                    ErrorCategory::of(class),
                    ErrorCategory::Client | ErrorCategory::Validation
                ));
            }
        }
    }

    /// The examples of the requirement (T6.1), as services in JavaScript and in Rust report them.
    #[test]
    fn the_examples_of_the_requirement_are_classified() {
        let (client, validation) = (ErrorCategory::Client, ErrorCategory::Validation);
        let (transient, configuration) = (ErrorCategory::Transient, ErrorCategory::Configuration);
        let rows = [
            ("SyntaxError", None, "Unexpected token h in JSON at position 0", client),
            ("serde_json::Error", None, "expected value at line 1 column 1", client),
            ("Error", None, "invalid JSON", client),
            ("ValidationError", None, "missing required field: internalId", validation),
            ("Error", None, "missing fields: tenantId, internalId", validation),
            ("Error", None, "Invalid UUID: 42", validation),
            (
                "uuid::Error",
                None,
                "invalid character: expected an optional prefix of `urn:uuid:`",
                validation,
            ),
            ("UnsupportedMimeTypeError", None, "Unsupported MIME type: image/x-icon", validation),
            ("Error", None, "Redis unavailable", transient),
            ("Error", Some("ECONNREFUSED"), "connect ECONNREFUSED 127.0.0.1:6379", transient),
            ("HttpError", None, "Request failed with status code 503", transient),
            ("AxiosError", Some("502"), "Bad Gateway", transient),
            ("TimeoutError", None, "operation timed out", transient),
            ("Error", Some("ETIMEDOUT"), "timeout of 5000ms exceeded", transient),
            ("Error", None, "RabbitMQ publish failed", transient),
            ("lapin::error::Error", None, "IO error: connection reset by peer", transient),
            ("ConfigurationError", None, "missing storage credentials", configuration),
            ("Error", None, "Missing storage credentials", configuration),
            ("Error", None, "Invalid configuration: bucket is not set", configuration),
            ("Error", None, "invalid config", configuration),
        ];
        let settings = Settings::new(Preset::Rabbitmq);
        for (error_type, code, message, category) in rows {
            let failure = Failure::new(error_type, message);
            let failure = match code {
                Some(code) => failure.with_code(code),
                None => failure,
            };
            let decision = settings.decide("outbound-transformer", &failure, 1, None);
            assert_eq!(ErrorCategory::of(decision.class), category, "{error_type}: {message}");
            let is_retried = matches!(decision.action, Action::RetryAfter { .. });
            assert_eq!(is_retried, category.is_retryable(), "{error_type}: {message}");
        }
        assert_eq!(
            ErrorCategory::ALL.map(ErrorCategory::name),
            ["client", "validation", "transient", "configuration"]
        );
    }
}
