//! What holds for every filter: it reads back as itself, means what a naive model says, and nothing makes it panic.

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;
use serde_json::{Value, json};

use super::key::{Form, Key, Kind, Side};
use super::text::quote;
use super::words::{Words, words};
use super::{Bounds, Choice, Filter, Held, PathCondition, Paths, Patterns, When};
use crate::class::ErrorClass;
use crate::duration::Length;
use crate::fingerprint::Fingerprint;
use crate::id::{IncidentId, LetterId};
use crate::letter::{Hold, Letter};
use crate::lifecycle::{Place, Status};
use crate::pattern::Pattern;
use crate::time::Time;

/// Letters die at the milliseconds 0 to 20 and are looked at in the last of them.
const NOW_MS: i64 = 20;

proptest! {
    #[test]
    fn a_filter_reads_back_as_itself(filter in odd_filter()) {
        let text = filter.to_string();
        prop_assert_eq!(Filter::from_text(&text), Ok(filter.clone()), "{:?}", text);
        let json = filter.to_json();
        prop_assert_eq!(Filter::from_json(&json), Ok(filter.clone()), "{}", json);
        prop_assert_eq!(Filter::from_query([("q", text.as_str())]), Ok(filter.clone()));
        prop_assert_eq!(filter.is_empty(), text.is_empty());
    }

    #[test]
    fn a_filter_means_what_the_model_says(filter in plain_filter(), letters in vec(letter(), 1..20)) {
        for letter in letters {
            prop_assert_eq!(filter.matches(&letter, now()), model(&filter, &letter), "{} {:?}", filter, letter);
        }
    }

    #[test]
    fn parameters_and_q_have_to_hold_both(
        one in plain_filter(),
        other in plain_filter(),
        letters in vec(letter(), 1..20),
    ) {
        let one = Filter { words: Words::default(), ..included(one) };
        let q = other.to_string();
        let mut pairs = pairs(&one);
        pairs.push(("q", q));
        let both = Filter::from_query(pairs.iter().map(|(name, value)| (*name, value.as_str())));
        if let Ok(both) = both {
            for letter in letters {
                let expected = one.matches(&letter, now()) && other.matches(&letter, now());
                prop_assert_eq!(both.matches(&letter, now()), expected, "{} {:?}", both, letter);
            }
        }
    }

    #[test]
    fn parameters_read_as_what_they_say(filter in odd_filter()) {
        let filter = included(filter);
        let pairs = pairs(&filter);
        let read = Filter::from_query(pairs.iter().map(|(name, value)| (*name, value.as_str())));
        prop_assert_eq!(read, Ok(filter), "{:?}", pairs);
    }

    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![any::<String>(), soup()]) {
        match Filter::from_text(&text) {
            Ok(filter) => prop_assert_eq!(Filter::from_text(&filter.to_string()), Ok(filter), "{:?}", text),
            Err(error) => prop_assert!(!error.to_string().contains(char::is_control), "{:?}", text),
        }
        for key in Filter::QUERY_KEYS {
            if let Ok(filter) = Filter::from_query([(key, text.as_str())]) {
                prop_assert_eq!(Filter::from_text(&filter.to_string()), Ok(filter), "{} {:?}", key, text);
            }
        }
    }

    #[test]
    fn any_json_is_read_or_refused(value in any_json()) {
        match Filter::from_json(&value) {
            Ok(filter) => prop_assert_eq!(Filter::from_json(&filter.to_json()), Ok(filter), "{}", value),
            Err(error) => prop_assert!(!error.to_string().contains(char::is_control), "{}", value),
        }
    }

    #[test]
    fn words_of_words_are_the_same_words(text in any::<String>()) {
        let once: Vec<String> = words(&text).collect();
        let twice: Vec<String> = words(&once.join(" ")).collect();
        prop_assert_eq!(once, twice);
    }
}

/// The letters of a filter said again without sharing its code.
fn model(filter: &Filter, letter: &Letter) -> bool {
    let texts = [
        (&filter.queue, Some(&letter.queue)),
        (&filter.letter_type, Some(&letter.letter_type)),
        (&filter.error_type, Some(&letter.error_type)),
        (&filter.code, letter.error_code.as_ref()),
        (&filter.source, Some(&letter.source)),
        (&filter.subscriber, letter.subscriber.as_ref()),
        (&filter.aggregate, letter.aggregate.as_ref()),
        (&filter.tenant, letter.tenant.as_ref()),
        (&filter.event_id, Some(&letter.event_id)),
    ];
    for (patterns, value) in texts {
        let hit = |pattern: &Pattern| value.is_some_and(|value| glob(pattern.text(), value));
        if !patterns.include.is_empty() && !patterns.include.iter().any(hit) {
            return false;
        }
        if patterns.exclude.iter().any(hit) {
            return false;
        }
    }
    fn chosen<T: Ord>(choice: &Choice<T>, value: &T) -> bool {
        (choice.include.contains(value) || choice.include.is_empty()) && !choice.exclude.contains(value)
    }
    let age_ms = NOW_MS - letter.died_at.ms();
    let since = |when| match when {
        When::At(time) => letter.died_at >= time,
        When::Ago(length) => age_ms <= length.ms(),
    };
    chosen(&filter.class, &letter.class)
        && chosen(&filter.status, &letter.status)
        && chosen(&filter.incident, &letter.incident)
        && (filter.held != Some(Held::Yes) || letter.hold.is_some())
        && (filter.held != Some(Held::No) || letter.hold.is_none())
        && filter.since.is_none_or(since)
        && filter.until.is_none_or(|until| !since(until))
        && filter.age.max.is_none_or(|max| age_ms <= max.ms())
        && filter.age.min.is_none_or(|min| age_ms > min.ms())
        && filter.retries.min.is_none_or(|min| letter.retry_count >= min)
        && filter.retries.max.is_none_or(|max| letter.retry_count <= max)
        && filter.words.iter().all(|word| {
            let text = format!("{} {} {}", letter.letter_type, letter.error_type, letter.error_message);
            text.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|found| found.starts_with(word))
        })
}

fn glob(pattern: &str, value: &str) -> bool {
    match pattern.split_at_checked(1) {
        None => value.is_empty(),
        Some(("*", rest)) => (0..=value.len()).any(|at| glob(rest, &value[at..])),
        Some((first, rest)) => value.strip_prefix(first).is_some_and(|value| glob(rest, value)),
    }
}

/// Without what only `q` can say.
fn included(mut filter: Filter) -> Filter {
    for patterns in [
        &mut filter.queue,
        &mut filter.letter_type,
        &mut filter.error_type,
        &mut filter.code,
        &mut filter.source,
        &mut filter.subscriber,
        &mut filter.aggregate,
        &mut filter.tenant,
        &mut filter.event_id,
    ] {
        patterns.exclude.clear();
    }
    filter.class.exclude.clear();
    filter.status.exclude.clear();
    filter.incident.exclude.clear();
    filter.path.exclude.clear();
    filter.header_path.exclude.clear();
    filter
}

fn pairs(filter: &Filter) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    for key in Key::ALL {
        let values = filter.values(key, Side::Include);
        if values.is_empty() {
            continue;
        }
        let name = key.name(Form::Query);
        match key.kind() {
            Kind::Words => pairs.push((name, values.join(" "))),
            Kind::Parts => pairs.extend(values.into_iter().map(|part| (name, part))),
            Kind::Paths => pairs.extend(values.into_iter().map(|path| (name, quote(path)))),
            Kind::List | Kind::Single => {
                pairs.push((name, values.into_iter().map(quote).collect::<Vec<_>>().join(",")));
            }
        }
    }
    pairs
}

fn now() -> Time {
    Time::from_ms(NOW_MS)
}

/// Filters made to be hard to write down: any character, any moment.
fn odd_filter() -> impl Strategy<Value = Filter> {
    let odd = select(vec![
        'a', '*', '"', '\\', ',', ' ', ':', '-', '\0', '\n', '\u{1b}', '\u{85}', '\u{3000}', 'É',
    ]);
    let value = prop_oneof![
        vec(odd, 0..5).prop_map(String::from_iter),
        vec(any::<char>(), 0..4).prop_map(String::from_iter)
    ];
    let moment = prop_oneof![any::<i64>(), 0..4_000_000_000_000_i64].prop_map(Time::from_ms);
    let length = prop_oneof![0..=3_652_425 * 86_400_000_i64, 0..200_000_i64].prop_map(Length::from_ms);
    filter(value.boxed(), moment.boxed(), length.boxed(), any::<u32>().boxed(), any::<String>().boxed())
}

/// Filters of which many match.
fn plain_filter() -> impl Strategy<Value = Filter> {
    let value = select(vec!["*", "a", "b", "a*", "*b", "*a*b*", "ab", "", "x"]).prop_map(str::to_owned);
    let moment = (-2..=NOW_MS + 2).prop_map(Time::from_ms);
    let length = (0..=NOW_MS + 2).prop_map(Length::from_ms);
    let search = select(vec!["", "", "a", "A b", "ab", "x", "b a"]).prop_map(str::to_owned);
    filter(value.boxed(), moment.boxed(), length.boxed(), (0..4_u32).boxed(), search.boxed())
}

fn filter(
    value: BoxedStrategy<String>,
    moment: BoxedStrategy<Time>,
    length: BoxedStrategy<Length>,
    count: BoxedStrategy<u32>,
    search: BoxedStrategy<String>,
) -> impl Strategy<Value = Filter> {
    let when = prop_oneof![moment.prop_map(When::At), length.clone().prop_map(When::Ago)].boxed();
    let names = vec(rarely(patterns(value.clone())), 9);
    let choices = (
        rarely(choice(select(ErrorClass::ALL.to_vec()).boxed())),
        rarely(choice(select(Status::ALL.to_vec()).boxed())),
        rarely(choice(incident().boxed())),
        option::weighted(0.2, select(vec![Held::Yes, Held::No])),
    );
    let times =
        (option::weighted(0.3, when.clone()), option::weighted(0.3, when), bounds(length), bounds(count));
    let parts = btree_set(value.clone().prop_filter("empty", |part| !part.is_empty()), 0..3);
    let inside = (rarely(search.clone()), rarely(parts), rarely(paths()), rarely(paths()));
    (names, choices, times, rarely(search), inside).prop_map(|(names, choices, times, search, inside)| {
        let mut names = names.into_iter();
        let mut next = || names.next().unwrap();
        let (class, status, incident, held) = choices;
        let (since, until, age, retries) = times;
        let (body, contains, path, header_path) = inside;
        // A range of time that cannot hold a letter is refused.
        let until = until.filter(|until| match (since, until) {
            (Some(When::At(since)), When::At(until)) => since < *until,
            (Some(When::Ago(since)), When::Ago(until)) => since > *until,
            _ => true,
        });
        Filter {
            queue: next(),
            letter_type: next(),
            error_type: next(),
            class,
            code: next(),
            status,
            source: next(),
            incident,
            subscriber: next(),
            aggregate: next(),
            tenant: next(),
            event_id: next(),
            held,
            since,
            until,
            // An age between equal ends is refused, because none is; a count between them is exact.
            age: if age.min == age.max { Bounds { max: None, ..age } } else { age },
            retries,
            words: Words::of(&search),
            body: Words::of(&body),
            contains,
            path,
            header_path,
        }
    })
}

fn paths() -> impl Strategy<Value = Paths> {
    let text = select(vec![
        "$",
        "$.a",
        "$.a=1",
        " $.a = a b ",
        r#"$.a="x, \\ \" y""#,
        "$['a b',\"c\\\"\"][?@.x == '=' && length(@) > 1]",
        "$[?@['\u{85}\u{3000}']]=é\u{1b}",
        "$.a={\"b\": [1, 2.50]}",
        "$..*=-1e5",
    ]);
    let some = btree_set(text.prop_map(|text| PathCondition::parse(text).unwrap()), 0..4);
    (some.clone(), some).prop_map(|(include, exclude)| Paths { include, exclude })
}

/// Mostly the empty value: a filter with every field set matches nothing.
fn rarely<T: Default + Clone + std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    prop_oneof![4 => Just(T::default()), 1 => strategy].boxed()
}

fn patterns(value: BoxedStrategy<String>) -> impl Strategy<Value = Patterns> {
    let some = btree_set(value.prop_map(Pattern::new), 0..3);
    (some.clone(), some).prop_map(|(include, exclude)| Patterns { include, exclude })
}

fn choice<T: Ord + Clone + std::fmt::Debug + 'static>(
    value: BoxedStrategy<T>,
) -> impl Strategy<Value = Choice<T>> {
    (btree_set(value.clone(), 0..3), btree_set(value, 0..2))
        .prop_map(|(include, exclude)| Choice { include, exclude })
}

fn bounds<T: Ord + Copy + std::fmt::Debug + 'static>(
    value: BoxedStrategy<T>,
) -> impl Strategy<Value = Bounds<T>> {
    let end = option::weighted(0.2, value);
    (end.clone(), end).prop_map(|(one, other)| match (one, other) {
        (Some(one), Some(other)) => Bounds { min: Some(one.min(other)), max: Some(one.max(other)) },
        (min, max) => Bounds { min, max },
    })
}

fn incident() -> impl Strategy<Value = IncidentId> {
    (0..3_u8).prop_map(|n| IncidentId::mint(Time::from_ms(0), [n; 10]))
}

fn letter() -> impl Strategy<Value = Letter> {
    let name = select(vec!["a", "b", "ab", "ba", "x.ab", "A b", ""]).prop_map(str::to_owned);
    let maybe = option::of(name.clone());
    let details = (
        select(ErrorClass::ALL.to_vec()),
        select(Status::ALL.to_vec()),
        incident(),
        any::<bool>(),
        0..=NOW_MS,
        0..5_u32,
    );
    (vec(name, 6), vec(maybe, 4), details).prop_map(|(names, maybes, details)| {
        let mut names = names.into_iter();
        let mut name = || names.next().unwrap();
        let mut maybes = maybes.into_iter();
        let mut maybe = || maybes.next().unwrap();
        let (class, status, incident, held, died_ms, retry_count) = details;
        let at = Time::from_ms(0);
        Letter {
            id: LetterId::mint(at, [0; 10]),
            source: name(),
            event_id: name(),
            letter_type: name(),
            queue: name(),
            subscriber: maybe(),
            tenant: maybe(),
            aggregate: maybe(),
            schema_version: None,
            error_type: name(),
            error_code: maybe(),
            error_message: name(),
            class,
            fingerprint: Fingerprint::stored("v1:00".into()),
            incident,
            retry_count,
            max_retries: None,
            status,
            place: Place::Live,
            life: 1,
            hold: held.then(|| Hold { at, by: "ana".into(), reason: "case 7".into() }),
            resolution: None,
            previous: None,
            created_at: at,
            updated_at: at,
            died_at: Time::from_ms(died_ms),
            retention_at: at,
        }
    })
}

/// Pieces of filters in any order.
fn soup() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "queue",
        "status",
        "since",
        "age",
        "retries",
        "text",
        "held",
        ":",
        ":",
        "-",
        "\"",
        "\\",
        ",",
        " ",
        " ",
        "\u{3000}",
        ">",
        "<",
        "=",
        "..",
        "1",
        "7d",
        "pending",
        "yes",
        "é",
        "\0",
        "x",
        "body",
        "contains:",
        "path:$",
        "headerPath:$",
        "[",
        "]",
        "?",
        "@",
        ".a",
        "'",
        "==",
        "(",
        ")",
        "&&",
    ]);
    vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..9_u32).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        soup().prop_map(Value::from),
        select(vec![
            "7d",
            "1h",
            "$.a",
            "$.a=\"\u{1b}\"",
            "$[",
            "pending",
            "transient",
            "2026-11-15T03:00:00Z"
        ])
        .prop_map(Value::from),
    ];
    let name = select(vec![
        "queue",
        "type",
        "errorType",
        "class",
        "status",
        "since",
        "age",
        "retryCount",
        "text",
        "held",
        "body",
        "contains",
        "path",
        "headerPath",
        "not",
        "min",
        "max",
        "errorTypes",
        "maxAge",
        "minRetryCount",
        "maxRetryCount",
        "eventPatterns",
        "x\u{1b}",
    ]);
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name.clone(), inner), 0..4).prop_map(|entries| entries
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}
