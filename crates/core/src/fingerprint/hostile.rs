//! Whatever is reported, grouping ends soon, never panics and says the same twice.

use std::hint::black_box;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn grouped(error: &LetterError) -> Grouping {
    let subject =
        Subject { source: "jobs", queue: "default", letter_type: "order.paid", tenant: None, error };
    group(subject, &FingerprintRules::default())
}

fn of(message: String, backtrace: String) -> LetterError {
    LetterError { error_type: String::new(), message, backtrace: Some(backtrace), ..LetterError::default() }
}

/// Texts made of what parsers look for, in no order.
#[rustfmt::skip]
fn shreds() -> impl Strategy<Value = String> {
    let shred = prop::sample::select(vec![
        "at ", "Caused by: ", "\n", "\n\t", "  ", "(", ")", "[", "]", "{", "}", "<", ">", "\"", "'", "`", ": ",
        ":", "::", "$$", "$", ".", "/", "\\", "=", "-", "---> ", "--- End of inner exception stack trace ---",
        "Traceback (most recent call last):", "File \"/a/b.py\", line 3, in ",
        "The above exception was the direct cause", "goroutine 1 [running]:", "panic(", "panic: ",
        "/a/b.go:12", "thread 'x' panicked at ", "stack backtrace:", "12: ", "a.rb:12:in `", "a.rb:12:in '",
        "#0 /a.php(3): ", "{main}", "Next ", "** (", "(app 1.2) lib/x.ex:1: A.b/2", "ü", "“", "”", "é",
        "\u{0}", "𝄞", "#<", "%{", "0x", "1,2", "503", "status ", "key ", "java.lang.X: ",
        "Foo.bar(Foo.java:1)", "nested exception is ", "[cause]: ", "[errors]: [", "+---- 1 ----", "| ",
        "https://x/y", "a@b.c", "::1", "10.0.0.1", "SELECT ", " FROM ", "Error", "Exception", "€5", "…",
        "can't", "_", "…'",
    ]);
    prop::collection::vec(shred, 0..60).prop_map(|shreds| shreds.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_grouped_and_twice_alike(name in ".{0,40}", message in shreds(), backtrace in shreds(), noise in ".{0,200}") {
        for error in [
            LetterError { error_type: name.clone(), message: message.clone(), backtrace: Some(backtrace.clone()), ..LetterError::default() },
            LetterError { error_type: message.clone(), code: Some(name.clone()), message: backtrace.clone(), ..LetterError::default() },
            of(noise.clone(), noise.clone()),
        ] {
            let first = grouped(&error);
            prop_assert_eq!(&first, &grouped(&error));
            prop_assert!(!first.parts.title().is_empty());
            prop_assert!(first.parts.title().len() <= limits::TITLE_BYTES_MAX);
            prop_assert_eq!(Parts::from_json(&first.parts.to_json()), Some(first.parts.clone()));
            let alike = first.parts.similarity(&first.parts);
            prop_assert!((0.0..=1.0).contains(&alike));
            differences(&first.parts, "order.paid", &error);
        }
    }
}

fn least(times: usize, mut work: impl FnMut()) -> Duration {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

/// Ten times the text must not cost more than a few times as much: everything beyond the bounds is not looked at.
#[test]
fn a_megabyte_costs_no_more_than_what_is_looked_at() {
    let units = [
        "x",
        " ",
        "\n",
        "'",
        "\"a",
        "`a ",
        "{",
        "[{\"",
        "(",
        "=(",
        "'a'a",
        "a: ",
        "\tat a.B.c(D.java:1)\n",
        "Caused by: a.B: c\n",
        "at ",
        "    at f (/a/b.js:1:1)\n",
        "  File \"/a.py\", line 1, in f\n",
        "main.f()\n\t/a.go:1\n",
        " ---> A.B: c",
        "#0 /a.php(1): f()\n",
        "a.rb:1:in 'f': x (A::B)\n",
        "** (A) b\n",
        "  1: a::b\n",
        "Error: ",
        "nested exception is ",
        "SELECT ",
        "Aa ",
        "k=v ",
        "#<A ",
        "1,",
        "::",
        "ü",
        "“",
        "a.",
        "http://",
        "+---- 1 ----\n| ",
        "The above exception was\n",
        "[cause]: E: f\n",
        "'a' ",
    ];
    for unit in units {
        let sized = |bytes: usize| of(unit.repeat(bytes / unit.len()), unit.repeat(bytes / unit.len()));
        let (bounded, huge) = (sized(128 * 1024), sized(4 * 1024 * 1024));
        let floor = least(3, || {
            black_box(grouped(&bounded));
        });
        let cost = least(3, || {
            black_box(grouped(&huge));
        });
        // The size is 32 times as large; noise of a busy machine is well below half of that.
        assert!(cost <= floor * 12 + Duration::from_millis(3), "{unit:?}: {cost:?} against {floor:?}");
        assert!(floor < Duration::from_millis(500), "{unit:?}: {floor:?}");
    }
}
