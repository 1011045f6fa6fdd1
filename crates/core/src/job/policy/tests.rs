//! The retry policy, row by row of the specification's tables.

use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::*;

fn merged(text: &str) -> JobRetry {
    RetryPatch::read(text, "retry").unwrap().over(&JobRetry::default())
}

#[test]
fn an_absent_policy_is_the_default_one() {
    assert_eq!(merged("{}"), JobRetry::default());
    assert_eq!(
        JobRetry::default().to_json(),
        r#"{"max_attempts":3,"initial_interval":"PT1S","backoff_coefficient":2.0,"max_interval":"PT5M","jitter":true,"non_retryable_errors":[],"on_exhaustion":"discard","backoff_strategy":"exponential"}"#
    );
}

#[test]
fn each_field_is_merged_over_the_default_by_itself() {
    let base = JobRetry::default();
    let interval = |ms, text: &str| Interval { ms, text: text.to_owned() };
    let rows = [
        (r#"{"max_attempts":0}"#, JobRetry { max_attempts: 0, ..base.clone() }),
        (r#"{"max_attempts":5.0}"#, JobRetry { max_attempts: 5, ..base.clone() }),
        (
            r#"{"initial_interval":"PT0.5S"}"#,
            JobRetry { initial_interval: interval(500, "PT0.5S"), ..base.clone() },
        ),
        (
            r#"{"initial_interval_ms":1500}"#,
            JobRetry { initial_interval: interval(1_500, "PT1.500S"), ..base.clone() },
        ),
        (
            r#"{"max_interval":"P1DT1H"}"#,
            JobRetry { max_interval: interval(90_000_000, "P1DT1H"), ..base.clone() },
        ),
        (r#"{"max_interval_ms":2000}"#, JobRetry { max_interval: interval(2_000, "PT2S"), ..base.clone() }),
        (r#"{"backoff_coefficient":1}"#, JobRetry { backoff_coefficient: 1.0, ..base.clone() }),
        (r#"{"jitter":false}"#, JobRetry { jitter: false, ..base.clone() }),
        (
            r#"{"non_retryable_errors":["A","b.*"]}"#,
            JobRetry { non_retryable_errors: vec!["A".into(), "b.*".into()], ..base.clone() },
        ),
        (
            r#"{"on_exhaustion":"dead_letter"}"#,
            JobRetry { on_exhaustion: OnExhaustion::DeadLetter, ..base.clone() },
        ),
        (r#"{"on_exhaustion":null}"#, base.clone()),
        (r#"{"backoff_strategy":"linear"}"#, JobRetry { backoff_strategy: Backoff::Linear, ..base.clone() }),
        (r#"{"backoff_type":"none"}"#, JobRetry { backoff_strategy: Backoff::None, ..base.clone() }),
        (
            r#"{"x_budget": 1e400}"#,
            JobRetry { extra: vec![("x_budget".into(), "1e400".into())], ..base.clone() },
        ),
        (
            r#"{"initial_interval":"PT1S","initial_interval_ms":7}"#,
            JobRetry { initial_interval: interval(1_000, "PT1S"), ..base },
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(merged(text), expected, "{text}");
    }
}

#[test]
fn of_two_intervals_the_one_that_was_not_given_gives_way() {
    let raised = merged(r#"{"initial_interval":"PT10M"}"#);
    assert_eq!((raised.initial_interval.ms(), raised.max_interval.ms()), (600_000, 600_000));
    let lowered = merged(r#"{"max_interval":"PT0.5S"}"#);
    assert_eq!((lowered.initial_interval.ms(), lowered.max_interval.ms()), (500, 500));
}

#[test]
fn a_bad_field_is_a_validation_error_that_names_it() {
    let rows = [
        (r#"{"max_attempts":-1}"#, "max_attempts"),
        (r#"{"max_attempts":1.5}"#, "max_attempts"),
        (r#"{"max_attempts":"3"}"#, "max_attempts"),
        (r#"{"max_attempts":99999999999}"#, "max_attempts"),
        (r#"{"initial_interval":"PT0S"}"#, "initial_interval"),
        (r#"{"initial_interval":"1s"}"#, "initial_interval"),
        (r#"{"initial_interval":"soon"}"#, "initial_interval"),
        (r#"{"initial_interval":1000}"#, "initial_interval"),
        (r#"{"initial_interval":"P2000D"}"#, "initial_interval"),
        (r#"{"initial_interval_ms":0}"#, "initial_interval_ms"),
        (r#"{"initial_interval_ms":-5}"#, "initial_interval_ms"),
        (r#"{"max_interval":"-PT1S"}"#, "max_interval"),
        (r#"{"max_interval":"PT1S","initial_interval":"PT2S"}"#, "max_interval"),
        (r#"{"backoff_coefficient":0.9}"#, "backoff_coefficient"),
        (r#"{"backoff_coefficient":1e400}"#, "backoff_coefficient"),
        (r#"{"backoff_coefficient":"2"}"#, "backoff_coefficient"),
        (r#"{"jitter":1}"#, "jitter"),
        (r#"{"non_retryable_errors":"A"}"#, "non_retryable_errors"),
        (r#"{"non_retryable_errors":[""]}"#, "non_retryable_errors"),
        (r#"{"non_retryable_errors":[1]}"#, "non_retryable_errors"),
        (r#"{"on_exhaustion":"explode"}"#, "on_exhaustion"),
        (r#"{"backoff_strategy":"random"}"#, "backoff_strategy"),
    ];
    for (text, field) in rows {
        let problem = RetryPatch::read(text, "options.retry").unwrap_err();
        assert_eq!(problem.kind, ProblemKind::ValidationError, "{text}");
        assert_eq!(problem.field, Some(format!("options.retry.{field}")), "{text}");
        assert!(problem.message.contains(field), "{}", problem.message);
    }
    for text in ["[]", "3", "\"x\"", ""] {
        assert_eq!(RetryPatch::read(text, "retry").unwrap_err().field.as_deref(), Some("retry"), "{text}");
    }
}

#[test]
fn only_iso_lengths_are_read() {
    let rows = [
        ("PT1S", Some(1_000)),
        ("PT0.5S", Some(500)),
        ("PT5M", Some(300_000)),
        ("PT1H30M", Some(5_400_000)),
        ("P180D", Some(15_552_000_000)),
        ("P1DT2H3M4.5S", Some(93_784_500)),
        ("P", None),
        ("PT", None),
        ("P1W", None),
        ("P1Y", None),
        ("pt1s", None),
        ("PT1.5H", None),
        ("PT.5S", None),
        ("PT1,5S", None),
        ("-PT1S", None),
        ("1s", None),
        ("", None),
        ("PT99999999999999999999S", None),
    ];
    for (text, expected) in rows {
        assert_eq!(iso_ms(text), expected, "{text}");
    }
}

#[test]
fn delays_grow_by_strategy_and_stop_at_the_cap() {
    let rows = [
        (r#"{"backoff_strategy":"none"}"#, [1_000, 1_000, 1_000, 1_000]),
        (r#"{"backoff_strategy":"constant"}"#, [1_000, 1_000, 1_000, 1_000]),
        (r#"{"backoff_strategy":"linear"}"#, [1_000, 2_000, 3_000, 4_000]),
        (r#"{"backoff_strategy":"exponential"}"#, [1_000, 2_000, 4_000, 8_000]),
        (r#"{"backoff_strategy":"polynomial","backoff_coefficient":4}"#, [1_000, 16_000, 81_000, 256_000]),
        (r#"{"max_interval":"PT3S"}"#, [1_000, 2_000, 3_000, 3_000]),
    ];
    for (text, expected) in rows {
        let policy = JobRetry { jitter: false, ..merged(text) };
        assert_eq!([1, 2, 3, 4].map(|n| policy.delay_ms(n, 0.3)), expected, "{text}");
    }
    let spread = merged(r#"{"initial_interval":"PT2S"}"#);
    assert_eq!([0.0, 0.5, 1.0].map(|unit| spread.delay_ms(1, unit)), [1_000, 2_000, 3_000]);
}

#[test]
fn the_last_attempt_is_the_last() {
    for (max_attempts, attempt, exhausted) in
        [(0, 1, true), (1, 1, true), (2, 1, false), (2, 2, true), (3, 4, true)]
    {
        let policy = JobRetry { max_attempts, ..JobRetry::default() };
        assert_eq!(policy.is_exhausted_by(attempt), exhausted, "{max_attempts} {attempt}");
    }
}

#[test]
fn error_types_are_matched_whole_or_by_a_dotted_prefix() {
    let rows = [
        ("FatalError", "FatalError", true),
        ("FatalError", "fatalerror", false),
        ("FatalError", "FatalError.Sub", false),
        ("auth.*", "auth.token_expired", true),
        ("auth.*", "auth.", true),
        ("auth.*", "auth", false),
        ("auth.*", "authx", false),
        ("auth.*", "external.auth.x", false),
        ("Auth.*", "Auth.TokenExpired", true),
        ("auth*", "auth.x", false),
        ("auth*", "auth*", true),
        (".*", ".x", true),
        ("*", "anything", false),
    ];
    for (entry, error_type, expected) in rows {
        let policy = JobRetry { non_retryable_errors: vec![entry.to_owned()], ..JobRetry::default() };
        assert_eq!(policy.is_non_retryable(error_type), expected, "{entry} {error_type}");
    }
}

#[test]
fn names_are_read_back() {
    for backoff in Backoff::ALL {
        assert_eq!(Backoff::parse(backoff.name()), Some(backoff));
    }
    for end in OnExhaustion::ALL {
        assert_eq!(OnExhaustion::parse(end.name()), Some(end));
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,80}") {
        let opens = text.trim_start().starts_with('{');
        prop_assert!(RetryPatch::read(&text, "retry").is_err() || opens);
        prop_assert!(iso_ms(&text).is_none() || text.starts_with('P'));
    }

    #[test]
    fn a_policy_is_read_back_as_it_was_written(
        max_attempts in 0_u32..1_000_000, first_ms in 1_u64..1 << 30, more_ms in 0_u64..1 << 30,
        backoff_coefficient in 1.0_f64..1e9, jitter in any::<bool>(), entries in proptest::collection::vec(".{1,8}", 0..4),
        strategy in 0_usize..5,
    ) {
        let policy = JobRetry {
            max_attempts,
            initial_interval: Interval::from_ms(first_ms),
            backoff_coefficient,
            max_interval: Interval::from_ms(first_ms + more_ms),
            jitter,
            non_retryable_errors: entries,
            on_exhaustion: OnExhaustion::DeadLetter,
            backoff_strategy: Backoff::ALL[strategy],
            extra: vec![("x".into(), "[ 1 ]".into())],
        };
        prop_assert_eq!(merged(&policy.to_json()), policy);
    }
}
