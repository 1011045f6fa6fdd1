//! The four categories of errors, each with what becomes of its messages.

use lazaret_worker::rabbitmq::ErrorCategory;
use lazaret_worker::{ClassRule, ClassRules, Conditions, ErrorClass, Failure, Pattern};

use crate::rig::{Rig, Running, parse};

/// Messages name their error, so that one worker sees them all.
#[tokio::test]
async fn only_transient_errors_are_retried() {
    let rig = Rig::start().await;
    let (running, _deliveries) = Running::start_telling(rig.worker(), |delivery| {
        let (error_type, message) =
            std::str::from_utf8(delivery.body())?.split_once(": ").unwrap_or_default();
        Err(Failure::new(error_type, message))
    });
    let rows = [
        ("SyntaxError: Unexpected token h in JSON at position 0", ErrorCategory::Client),
        ("ValidationError: missing required field internalId", ErrorCategory::Validation),
        ("ConfigurationError: missing storage credentials", ErrorCategory::Configuration),
        ("Error: Redis unavailable", ErrorCategory::Transient),
    ];
    for (error, _) in rows {
        rig.publish(error).await;
    }
    let letters = rig.dead_letters(rows.len()).await;
    for (error, category) in rows {
        let letter = letters.iter().map(parse).find(|letter| letter.original == error).unwrap();
        let retries = if category.is_retryable() { 3 } else { 0 };
        assert_eq!(letter.retry_count, retries, "{error} ({category})");
        assert_eq!(format!("{}: {}", letter.error_type, letter.error_message), error);
    }
    running.stop().await;
}

#[tokio::test]
async fn rules_and_failures_of_the_programs_own_come_first() {
    let rig = Rig::start().await;
    let when = Conditions { code: Some(Pattern::new("ACME-*")), ..Conditions::default() };
    let rules = ClassRules::new(vec![ClassRule::new(when, ErrorClass::Validation).unwrap()]);
    let (running, _deliveries) = Running::start_telling(rig.worker().class_rules(rules), |delivery| {
        let failure = Failure::new("Error", "timed out");
        Err(match delivery.body().as_ref() {
            b"rule" => failure.with_code("ACME-7"),
            _ => failure.with_class(ErrorClass::Business),
        })
    });
    rig.publish("rule").await;
    rig.publish("class").await;
    let letters = rig.dead_letters(2).await;
    assert!(letters.iter().all(|letter| parse(letter).retry_count == 0));
    running.stop().await;
}
