//! Lines over time, suggestions, and how long events are kept.

use lazaret_core::time::Time;
use lazaret_store::decision::Verb;
use lazaret_store::search::{SuggestKey, Suggestion};
use lazaret_store::series::{Line, SeriesBy, SeriesOf, SeriesQuery, Step};

use crate::rig::{Rig, at, captured, dying};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;

async fn lines(rig: &Rig, of: SeriesOf, step: Step, from: Time, until: Time) -> Vec<Line> {
    rig.store().series(SeriesQuery { of, step, from, until }).await.unwrap()
}

/// The points of a line as (steps after the first time, arrived, departed).
fn points(line: &Line, step: Step) -> Vec<(i64, u64, u64)> {
    let steps = |at: Time| (at.ms() - crate::rig::at(0).ms()) / step.ms();
    line.points.iter().map(|point| (steps(point.at), point.arrived, point.departed)).collect()
}

pub async fn what_comes_and_goes_is_told_by_minute_and_hour(rig: &mut Rig) {
    for (n, (queue, minute)) in
        [("a", 0), ("a", 0), ("b", 1), ("a", 61), ("b", 62), ("a", 200)].into_iter().enumerate()
    {
        let mut letter = captured(&format!("e{n}"));
        letter.queue = queue.into();
        let id = rig.create(letter, at(minute * MINUTE)).await;
        if n == 1 {
            rig.done(id, Verb::Resolve, at(61 * MINUTE)).await;
        }
    }
    let (from, until) = (at(0), at(3 * HOUR));
    let all = lines(rig, SeriesOf::All, Step::Minute, from, until).await;
    assert_eq!(all.len(), 1);
    assert_eq!(points(&all[0], Step::Minute), [(0, 2, 0), (1, 1, 0), (61, 1, 1), (62, 1, 0)]);
    let all = lines(rig, SeriesOf::All, Step::Hour, from, until).await;
    assert_eq!(points(&all[0], Step::Hour), [(0, 3, 0), (1, 2, 1)]);
    let asked = SeriesOf::Values(SeriesBy::Queue, vec!["b".into(), "none".into()]);
    let some = lines(rig, asked, Step::Hour, from, until).await;
    assert_eq!(points(&some[0], Step::Hour), [(0, 1, 0), (1, 1, 0)]);
    assert_eq!((some[1].value.as_str(), some[1].points.len()), ("none", 0));
    let largest = lines(rig, SeriesOf::Largest(SeriesBy::Queue, 1), Step::Hour, from, until).await;
    assert_eq!(largest.iter().map(|line| line.value.as_str()).collect::<Vec<_>>(), ["a"]);
    let later = lines(rig, SeriesOf::All, Step::Hour, at(HOUR + MINUTE), at(2 * HOUR)).await;
    assert_eq!(points(&later[0], Step::Hour), [(1, 2, 1)], "a step that has begun is whole");
}

pub async fn an_incident_has_a_line_of_its_own(rig: &mut Rig) {
    let one = rig.create(captured("a"), at(0)).await;
    let mut other = captured("b");
    other.letter_type = "other".into();
    rig.create(other, at(0)).await;
    rig.done(one, Verb::Discard, at(MINUTE)).await;
    let incident = rig.letter(one).await.incident;
    let line = lines(rig, SeriesOf::Incidents(vec![incident]), Step::Minute, at(0), at(HOUR)).await;
    assert_eq!(line[0].value, incident.to_string());
    assert_eq!(points(&line[0], Step::Minute), [(0, 1, 0), (1, 0, 1)]);
}

pub async fn minutes_are_forgotten_and_hours_stay(rig: &mut Rig) {
    for hour in 0..4 {
        rig.create(captured(&format!("e{hour}")), at(hour * HOUR)).await;
    }
    assert!(rig.store().prune_minutes(at(2 * HOUR)).await.unwrap() > 0);
    assert_eq!(rig.store().prune_minutes(at(2 * HOUR)).await.unwrap(), 0);
    let minutes = lines(rig, SeriesOf::All, Step::Minute, at(0), at(4 * HOUR)).await;
    assert_eq!(points(&minutes[0], Step::Minute), [(120, 1, 0), (180, 1, 0)]);
    let hours = lines(rig, SeriesOf::All, Step::Hour, at(0), at(4 * HOUR)).await;
    assert_eq!(hours[0].points.len(), 4);
}

async fn suggested(rig: &Rig, key: SuggestKey, prefix: &str) -> Vec<String> {
    let found = rig.store().suggest(key, prefix.into(), 3).await.unwrap();
    found.into_iter().map(|suggestion| suggestion.value).collect()
}

pub async fn values_that_occur_are_suggested(rig: &mut Rig) {
    for n in 0..12 {
        let mut letter = captured(&format!("e{n}"));
        letter.queue = ["billing", "billing", "bin", "mail"][n % 4].into();
        letter.tenant = Some(["acme", "zeta", "Äther"][n % 3].into());
        letter.subscriber = Some(format!("s{}", n % 5));
        letter.aggregate = Some(format!("order-{n}"));
        letter.error.code = Some(if n % 4 == 0 { "E_RARE" } else { "E_USUAL" }.into());
        rig.create(letter, at(0)).await;
    }
    assert_eq!(suggested(rig, SuggestKey::Queue, "bi").await, ["billing", "bin"]);
    assert_eq!(suggested(rig, SuggestKey::Queue, "").await, ["billing", "bin", "mail"]);
    assert!(suggested(rig, SuggestKey::Queue, "bi*").await.is_empty(), "a prefix is not a pattern");
    assert_eq!(suggested(rig, SuggestKey::Tenant, "").await, ["acme", "zeta", "Äther"]);
    assert_eq!(suggested(rig, SuggestKey::Tenant, "z").await, ["zeta"]);
    assert_eq!(
        suggested(rig, SuggestKey::Subscriber, "s").await,
        ["s0", "s1", "s2"],
        "no more than asked for"
    );
    assert_eq!(suggested(rig, SuggestKey::Aggregate, "order-11").await, ["order-11"]);
    assert_eq!(suggested(rig, SuggestKey::Code, "E").await, ["E_USUAL", "E_RARE"]);
    assert_eq!(suggested(rig, SuggestKey::Status, "re").await, ["reprocessing", "resolved"]);
    assert_eq!(suggested(rig, SuggestKey::Class, "tr").await, ["transient"]);
    let counted = rig.store().suggest(SuggestKey::Queue, "bil".into(), 3).await.unwrap();
    assert_eq!(counted, [Suggestion { value: "billing".into(), letters: Some(6) }]);
}

pub async fn old_events_are_forgotten_and_their_place_is_known(rig: &mut Rig) {
    let kept = rig.store().events_kept().await.unwrap();
    assert_eq!((kept.oldest, kept.newest), (1, 0));
    for n in 0..20 {
        rig.create(dying(&format!("e{n}"), at(n)), at(n)).await;
    }
    let kept = rig.store().events_kept().await.unwrap();
    assert_eq!((kept.oldest, kept.newest), (1, 21));
    assert_eq!(rig.store().prune_events(1_000).await.unwrap(), 0);
    assert_eq!(rig.store().prune_events(5).await.unwrap(), 16);
    assert_eq!(rig.store().prune_events(5).await.unwrap(), 0);
    let kept = rig.store().events_kept().await.unwrap();
    assert_eq!((kept.oldest, kept.newest), (17, 21));
    assert_eq!(rig.store().events(0, 100).await.unwrap().len(), 5);
    rig.store().prune_events(0).await.unwrap();
    rig.reopen().await;
    let kept = rig.store().events_kept().await.unwrap();
    assert_eq!((kept.oldest, kept.newest), (22, 21), "a position is never given twice");
    rig.create(captured("last"), at(100)).await;
    assert_eq!(rig.store().events(21, 100).await.unwrap()[0].position, 22);
}
