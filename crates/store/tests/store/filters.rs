//! Case: the store finds exactly the letters that a filter means, for any filter.

use std::collections::BTreeSet;

use lazaret_core::attempt::LetterError;
use lazaret_core::class::ErrorClass;
use lazaret_core::cursor::Sort;
use lazaret_core::duration::Length;
use lazaret_core::envelope::Envelope;
use lazaret_core::filter::words::Words;
use lazaret_core::filter::{Bounds, Choice, Filter, Held, PathCondition, Paths, Patterns, When};
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::letter::{Captured, Letter};
use lazaret_core::lifecycle::Status;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::Verb;
use lazaret_store::page::Total;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::{BoxedStrategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::rig::{Rig, at, captured};
use crate::seeds;

const LETTERS: usize = 60;
const FILTERS: usize = 600;

/// Letters die within this many milliseconds before the moment they are looked at.
const SPAN_MS: i64 = 20;

pub async fn a_filter_finds_what_it_means(rig: &mut Rig) {
    let (mut runner, _told) = (seeds::runner(), seeds::TellSeed);
    let letters = some_letters(rig, &mut runner).await;
    let incidents: Vec<IncidentId> =
        BTreeSet::from_iter(letters.iter().map(|(letter, _)| letter.incident)).into_iter().collect();
    // Some bodies are indexed and the rest is not yet: both have to be found alike.
    rig.store().index_bodies(LETTERS / 2).await.unwrap();
    let filters = filter(incidents);
    let (mut none, mut few) = (0, 0);
    for _ in 0..FILTERS {
        let mut tree = filters.new_tree(&mut runner).unwrap();
        let mut wrong = None;
        // Shrinks as proptest does, which cannot wait for a store.
        loop {
            match complaint(rig, &letters, &tree.current()).await {
                Some(found) => {
                    wrong = Some(found);
                    if !tree.simplify() {
                        break;
                    }
                }
                None if wrong.is_none() || !tree.complicate() => break,
                None => {}
            }
        }
        assert_eq!(wrong, None);
        match meant(&letters, &tree.current()).len() {
            0 => none += 1,
            LETTERS => {}
            _ => few += 1,
        }
    }
    // Filters that match nothing or everything prove little.
    assert!(few > FILTERS / 4, "{none} filters match none, {few} match some");
}

fn meant(letters: &[(Letter, Envelope)], filter: &Filter) -> Vec<LetterId> {
    let matching = letters.iter().filter(|(letter, envelope)| {
        filter.matches(letter, now()) && (!filter.needs_content() || filter.matches_content(envelope))
    });
    matching.map(|(letter, _)| letter.id).collect()
}

/// What is wrong with the store's answers to a filter, if anything.
async fn complaint(rig: &Rig, letters: &[(Letter, Envelope)], filter: &Filter) -> Option<String> {
    let mut meant = meant(letters, filter);
    let count = match rig.store().count(filter.clone(), now()).await {
        Ok(count) => count,
        Err(error) => return Some(format!("`{filter}` cannot be counted: {error:?}")),
    };
    for sort in [Sort::CreatedAtAsc, Sort::DiedAtDesc] {
        let mut found: Vec<LetterId> =
            rig.walk(filter, now(), sort, 25).await.iter().map(|letter| letter.id).collect();
        found.sort();
        meant.sort();
        if found != meant {
            return Some(format!("`{filter}` means {meant:?}, {sort:?} finds {found:?}"));
        }
    }
    (count != Total::Exact(meant.len() as u64))
        .then(|| format!("`{filter}` means {} letters, {count:?}", meant.len()))
}

fn now() -> Time {
    at(SPAN_MS)
}

/// Letters whose values collide, in all states, some held; as the store gives them back.
async fn some_letters(rig: &Rig, runner: &mut TestRunner) -> Vec<(Letter, Envelope)> {
    let strategy = letter();
    let mut letters = Vec::new();
    for n in 0..LETTERS {
        let mut letter = strategy.new_tree(runner).unwrap().current();
        // The message id is part of what a filter asks for, so only the end of it may be unique.
        letter.message_id = format!("{}{}", letter.message_id, "\u{2003}".repeat(n));
        let envelope = letter.envelope.clone();
        let id = rig.create(letter, now()).await;
        match n % 7 {
            0 => rig.done(id, Verb::Resolve, now()).await,
            1 => rig.done(id, Verb::Discard, now()).await,
            2 => drop(rig.send(id, ClaimStep::Claimed, now()).await),
            _ => {}
        }
        if n % 5 == 0 {
            rig.done(id, Verb::Hold, now()).await;
        }
        letters.push((rig.letter(id).await, envelope));
    }
    letters
}

const NAMES: [&str; 13] =
    ["a", "b", "ab", "ba", "x.ab", "A b", "", "a?b", "a[b]", "[ab]", "]", "a\u{0}b", "ä*"];

fn letter() -> impl Strategy<Value = Captured> {
    let name = select(NAMES.to_vec()).prop_map(str::to_owned);
    let maybe = option::of(name.clone());
    let message = select(vec!["timed out", "invalid payload", "Ab, a!", "not found", "b\u{0}c", "Über"]);
    let body = select(vec![
        &br#"{"a":{"b":1},"c":"ab Timed"}"#[..],
        br#"{"a":[1,"1",{"b":"ab"}],"n":12345678901234567890}"#,
        b"plain ab text",
        b"{\"a\":",
        b"\xff\x00ab",
        b"",
    ]);
    (vec(name, 6), vec(maybe, 4), message, 0..SPAN_MS, 0..5_u32, body).prop_map(
        |(names, maybes, message, died, retry_count, body)| {
            let trace = ("trace".to_owned(), names[0].clone().into());
            let envelope = Envelope::seal(body.to_vec().into(), "application/json", vec![trace]);
            let [source, message_id, letter_type, queue, error_type, _] = names.try_into().unwrap();
            let [subscriber, tenant, aggregate, code] = maybes.try_into().unwrap();
            let error = LetterError { error_type, code, message: message.into(), ..LetterError::default() };
            let died_at = Some(at(died));
            Captured {
                source,
                message_id,
                letter_type,
                queue,
                subscriber,
                tenant,
                aggregate,
                error,
                retry_count,
                died_at,
                envelope,
                ..captured("")
            }
        },
    )
}

fn filter(incidents: Vec<IncidentId>) -> impl Strategy<Value = Filter> {
    let piece = select(vec![
        "*", "*", "a", "b", "ab", "?", "[", "]", "[ab]", "\u{0}", "\u{fffd}", ".", "ä", "^", "-",
    ]);
    let value = prop_oneof![
        3 => select(NAMES.to_vec()).prop_map(str::to_owned),
        3 => vec(piece, 0..4).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ];
    let names = vec(rarely(patterns(value.boxed())), 9);
    let length = (0..=SPAN_MS + 2).prop_map(Length::from_ms).boxed();
    let when =
        prop_oneof![(-2..=SPAN_MS + 2).prop_map(|ms| When::At(at(ms))), length.clone().prop_map(When::Ago)];
    let unknown = IncidentId::mint(at(0), [255; 10]);
    let incidents = prop_oneof![select(incidents), Just(unknown)];
    let choices = (
        rarely(choice(select(ErrorClass::ALL.to_vec()).boxed())),
        rarely(choice(select(Status::ALL.to_vec()).boxed())),
        rarely(choice(incidents.boxed())),
        option::weighted(0.15, select(vec![Held::Yes, Held::No])),
    );
    let times = (
        option::weighted(0.15, when.clone()),
        option::weighted(0.15, when),
        bounds(length),
        bounds((0..5_u32).boxed()),
    );
    let search = prop_oneof![
        4 => select(vec!["a", "A b", "ab", "tim", "out timed", "über", "ü", "x ab", "payload in", "c"]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let path =
        select(vec!["$.a.b", "$.a.b=1", "$..b", "$.a[?@==1]", "$.c=ab Timed", "$.n=12345678901234567890"]);
    let header = select(vec!["$.trace", "$.trace=ab", "$[?@=='a']"]);
    let part = select(vec!["a", "ab Timed", "\"b\":", "payload", "ü", "x"]).prop_map(str::to_owned);
    let content = (
        rarely(search.clone()),
        rarely(btree_set(part, 1..3)),
        rarely(paths(path.boxed())),
        rarely(paths(header.boxed())),
    );
    (names, choices, times, rarely(search), content).prop_map(|(names, choices, times, search, content)| {
        let (body, contains, path, header_path) = content;
        let [queue, letter_type, error_type, code, source, subscriber, aggregate, tenant, event_id] =
            names.try_into().unwrap();
        let (class, status, incident, held) = choices;
        let (since, until, age, retries) = times;
        let words = Words::of(&search);
        Filter {
            queue,
            letter_type,
            error_type,
            class,
            code,
            status,
            source,
            incident,
            subscriber,
            aggregate,
            tenant,
            event_id,
            held,
            since,
            until,
            age,
            retries,
            words,
            body: Words::of(&body),
            contains,
            path,
            header_path,
        }
    })
}

/// Mostly the empty value: a filter with every field set matches nothing.
fn rarely<T: Default + Clone + std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    prop_oneof![9 => Just(T::default()), 1 => strategy].boxed()
}

fn patterns(value: BoxedStrategy<String>) -> impl Strategy<Value = Patterns> {
    let some = btree_set(value.prop_map(Pattern::new), 0..3);
    (some.clone(), some).prop_map(|(include, exclude)| Patterns { include, exclude })
}

fn paths(text: BoxedStrategy<&'static str>) -> impl Strategy<Value = Paths> {
    let some = btree_set(text.prop_map(|text| PathCondition::parse(text).unwrap()), 0..2);
    (some.clone(), some).prop_map(|(include, exclude)| Paths { include, exclude })
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
    let end = option::weighted(0.1, value);
    (end.clone(), end).prop_map(|(min, max)| Bounds { min, max })
}
