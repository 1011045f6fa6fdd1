//! What holds for every text: JSON stays JSON, only masked values change, and masking twice is masking once.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

use super::*;

/// A piece of JSON as it is written, and as it is shown.
#[derive(Clone, Debug)]
struct Piece {
    written: String,
    shown: String,
}

impl Piece {
    fn same(text: &str) -> Piece {
        Piece { written: text.to_owned(), shown: text.to_owned() }
    }
}

fn space() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", " ", "\n\t", "\r\n"])
}

fn leaf() -> impl Strategy<Value = Piece> {
    let same = [
        "1",
        "-0.50",
        "1e400",
        "12345678901234567890",
        "true",
        "null",
        "\"\"",
        "\"a\\u00e9\\n\"",
        "\"\\ud800\"",
        "\"words, \\\"[{:\"",
        "\"[redacted]\"",
        "{}",
        "[ ]",
    ];
    let cards = [("4242424242424242", "\"•••• 4242\""), ("\"pay 4242-4242-4242-4242\"", "\"pay •••• 4242\"")];
    let secrets = [
        ("\"password=hunter2\"", "\"password=[redacted]\""),
        ("\"Bearer hunter2\"", "\"Bearer [redacted]\""),
    ];
    let masked = cards.into_iter().chain(secrets);
    let masked = masked.map(|(written, shown)| Piece { written: written.into(), shown: shown.into() });
    select(same.into_iter().map(Piece::same).chain(masked).collect::<Vec<_>>())
}

/// The value of a member whose name hides it.
fn hidden(value: Piece) -> Piece {
    let stays = ["true", "null", "\"\"", "\"[redacted]\""].contains(&value.written.as_str());
    let shown = if stays { value.written.clone() } else { quoted(MASK) };
    Piece { shown, ..value }
}

fn piece() -> impl Strategy<Value = Piece> {
    let hiding = select(vec!["\"password\"", "\"API-Key\"", "\"t\\u006fken\"", "\"x_secret\""]);
    let plain = select(vec!["\"a\"", "\"tokens\"", "\"pass\"", "\"\\\"\"", "\"\""]);
    let name = prop_oneof![plain.prop_map(|name| (name, false)), hiding.prop_map(|name| (name, true))];
    leaf().prop_recursive(5, 40, 5, move |inner| {
        let list =
            (vec(inner.clone(), 1..5), space()).prop_map(|(items, space)| joined("[", "]", items, space));
        let member = (name.clone(), inner, space()).prop_map(|((name, hides), value, space)| {
            let value = if hides { hidden(value) } else { value };
            Piece {
                written: format!("{name}{space}:{}", value.written),
                shown: format!("{name}{space}:{}", value.shown),
            }
        });
        let object =
            (vec(member, 1..5), space()).prop_map(|(members, space)| joined("{", "}", members, space));
        prop_oneof![list, object]
    })
}

fn joined(open: &str, close: &str, parts: Vec<Piece>, space: &str) -> Piece {
    let join = |of: fn(&Piece) -> &str| {
        let parts: Vec<&str> = parts.iter().map(of).collect();
        format!("{open}{space}{}{space}{close}", parts.join(&format!("{space},{space}")))
    };
    Piece { written: join(|part| &part.written), shown: join(|part| &part.shown) }
}

fn soup() -> impl Strategy<Value = String> {
    let parts = select(vec![
        "password",
        "token",
        "Authorization",
        "cookie",
        "a",
        ":",
        "=",
        "=>",
        " ",
        "\n",
        "\"",
        "'",
        "\\",
        "[redacted]",
        "hunter2",
        "Bearer",
        "Basic",
        "https://",
        "user",
        "@",
        "4242424242424242",
        "4242",
        "-",
        "•••• ",
        "<token>",
        "</token>",
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        "&",
        "é",
        "eyJhbGciOi",
        ".",
        "expired",
    ]);
    vec(parts, 0..14).prop_map(|parts| parts.concat())
}

/// A secret inside JSON inside strings: each shape wraps the text of the one before.
fn nested() -> impl Strategy<Value = String> {
    let shape = select(vec![
        ("{\"data\":", "}"),
        ("[", ",1]"),
        (" {\"n\":1.0,\"data\" : ", ",\"z\":\"end\"}"),
        ("{\"data\":\"x\",\"more\":[", "]}"),
    ]);
    let label = select(vec!["", "", "", "got ", "\u{feff}"]);
    vec((shape, label), 0..11).prop_map(|levels| {
        let secret = String::from("{\"password\":\"hunter2\",\"token\":[\"hunter2\"]}");
        levels.into_iter().fold(secret, |inner, ((open, close), label)| {
            format!("{open}{}{close}", quoted(&format!("{label}{inner}")))
        })
    })
}

proptest! {
    #[test]
    fn a_secret_is_masked_however_deep_its_json_is_nested(text in nested()) {
        let redactor = Redactor::new(Rules::default());
        let masked = redactor.json_text(&text).into_owned();
        prop_assert!(!masked.contains("hunter2"), "{}\n{}", text, masked);
        prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&masked).is_ok(), "{}", masked);
        prop_assert_eq!(redactor.json_text(&masked), masked.as_str());
        let words = format!("failed: {text}");
        let masked = redactor.text(&words).into_owned();
        prop_assert!(!masked.contains("hunter2"), "{}\n{}", words, masked);
        prop_assert_eq!(redactor.text(&masked), masked.as_str());
    }

    #[test]
    fn json_stays_json_and_only_what_is_hidden_changes(piece in piece()) {
        let redactor = Redactor::new(Rules::default());
        let masked = redactor.json_text(&piece.written);
        prop_assert_eq!(&masked, &piece.shown, "{}", piece.written);
        prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&masked).is_ok());
        prop_assert_eq!(redactor.json_text(&masked), masked.as_ref());
    }

    #[test]
    fn a_draft_that_nobody_changed_is_the_text(piece in piece()) {
        let draft = Redactor::new(Rules::default()).draft(&piece.written);
        // A value that is hidden as a whole has no draft.
        let is_whole = !piece.shown.starts_with(['{', '[']);
        prop_assert!(draft.is_some() || is_whole);
        if let Some(draft) = draft {
            prop_assert_eq!(draft.fill(&draft.text), Ok(piece.written));
        }
    }

    #[test]
    fn masking_twice_is_masking_once(text in prop_oneof![soup(), any::<String>()]) {
        let redactor = Redactor::new(Rules::default());
        let once = redactor.text(&text).into_owned();
        prop_assert_eq!(redactor.text(&once), once.as_str(), "{}", text);
        let json = quoted(&text);
        let once = redactor.json_text(&json).into_owned();
        prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&once).is_ok(), "{}", once);
        prop_assert_eq!(redactor.json_text(&once), once.as_str(), "{}", text);
    }

    #[test]
    fn a_text_is_json_for_us_if_it_is_for_others(text in prop_oneof![soup(), "[\\[\\]{}:,\"a0-9.eE+\\\\u \n-]{0,12}"]) {
        let rules = Redactor::new(Rules::default()).0.unwrap();
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(json::mask(&rules, &text, 0).is_some(), theirs, "{}", text);
    }

    #[test]
    fn any_bytes_are_a_body(bytes in vec(any::<u8>(), 0..60), form in any::<bool>()) {
        let kind = if form { "application/x-www-form-urlencoded" } else { "text/plain" };
        Redactor::new(Rules::default()).body(kind, &bytes);
    }
}
