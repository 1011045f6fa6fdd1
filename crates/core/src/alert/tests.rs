//! Tests of rules, the life of alerts and their notifications, over simulated time.

use super::*;
use crate::id::IncidentId;
use crate::limits;
use crate::time::Time;

fn at(s: i64) -> Time {
    Time::from_ms(1_800_000_000_000 + s * 1_000)
}

fn reading(kind: RuleKind, scope: Scope, subject: &str, measure: Measure) -> Reading {
    Reading {
        kind,
        scope,
        subject: subject.to_owned(),
        measure,
        summary: format!("{subject} {measure:?}"),
        labels: Vec::new(),
        sample: None,
        incident: None,
        severity: None,
    }
}

/// A store of alerts in memory.
struct Sim {
    rules: Rules,
    routes: Vec<Route>,
    silences: Vec<Silence>,
    alerts: Vec<Alert>,
    groups: Vec<Group>,
    sent: Vec<(i64, Notification)>,
}

impl Sim {
    fn new(configured: Vec<AlertRule>) -> Sim {
        let receivers = vec!["ops".to_owned()];
        Sim {
            rules: Rules::new(configured),
            routes: vec![Route { receivers, ..Route::default() }],
            silences: Vec::new(),
            alerts: Vec::new(),
            groups: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn tick(&mut self, s: i64, readings: Vec<Reading>) -> Evaluation {
        let complete = readings.iter().map(|reading| (reading.kind, reading.scope)).collect();
        self.tick_with(s, Facts { readings, complete, ended: Vec::new() })
    }

    fn tick_with(&mut self, s: i64, facts: Facts) -> Evaluation {
        let evaluation = evaluate(&self.rules, &self.alerts, &facts, at(s));
        for alert in &evaluation.changed {
            self.alerts.retain(|known| known.key != alert.key);
            self.alerts.push(alert.clone());
        }
        let plan = plan(&self.routes, &self.alerts, &self.silences, &self.groups, at(s));
        self.groups.retain(|group| {
            !plan.ended.contains(&group.key) && !plan.groups.iter().any(|new| new.key == group.key)
        });
        self.groups.extend(plan.groups);
        self.sent.extend(plan.notifications.into_iter().map(|notification| (s, notification)));
        evaluation
    }

    /// Level readings of one kind that are complete and empty.
    fn clear(&mut self, s: i64, kind: RuleKind, scope: Scope) -> Evaluation {
        self.tick_with(s, Facts { complete: [(kind, scope)].into(), ..Facts::default() })
    }

    fn firing(&self) -> Vec<&str> {
        let mut rules: Vec<&str> = self
            .alerts
            .iter()
            .filter(|alert| alert.state == AlertState::Firing)
            .map(|alert| alert.rule.as_str())
            .collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

fn count(kind: &str, letters: f64) -> Reading {
    reading(RuleKind::LetterCount, Scope::Type, kind, Measure::Level(letters))
}

#[test]
fn rule_040_020_every_condition_fires_with_its_severity_at_its_threshold() {
    let of = |kind, scope, measure| reading(kind, scope, "x", measure);
    let cases = [
        (of(RuleKind::NewLetter, Scope::Incident, Measure::Occurred(1)), Some(Severity::Info)),
        (of(RuleKind::LetterCount, Scope::Type, Measure::Level(10.0)), None),
        (of(RuleKind::LetterCount, Scope::Type, Measure::Level(11.0)), Some(Severity::Warning)),
        (of(RuleKind::Spike, Scope::Type, Measure::Level(10.0)), None),
        (of(RuleKind::Spike, Scope::Type, Measure::Level(10.1)), Some(Severity::Critical)),
        (of(RuleKind::AggregateRepeat, Scope::Aggregate, Measure::Counted(2)), None),
        (of(RuleKind::AggregateRepeat, Scope::Aggregate, Measure::Counted(3)), Some(Severity::Critical)),
        (of(RuleKind::Relapse, Scope::Incident, Measure::Occurred(1)), Some(Severity::Critical)),
    ];
    for (reading, severity) in cases {
        let mut sim = Sim::new(Vec::new());
        let told = format!("{reading:?}");
        let evaluation = sim.tick(0, vec![reading]);
        let fired = evaluation.changed.iter().find(|alert| alert.state == AlertState::Firing);
        assert_eq!(fired.map(|alert| alert.severity), severity, "{told}");
        assert_eq!(evaluation.fired.len(), usize::from(severity.is_some()), "{told}");
    }
}

#[test]
fn rule_040_060_a_new_letter_is_in_a_firing_alert_until_its_window_has_passed() {
    let mut sim = Sim::new(Vec::new());
    let letter = || reading(RuleKind::NewLetter, Scope::Incident, "i", Measure::Occurred(1));
    sim.tick(0, vec![letter()]);
    sim.tick(500, vec![letter()]);
    assert_eq!(sim.alerts[0].count, 2);
    sim.tick(1_000, Vec::new());
    assert_eq!(sim.firing(), ["new_letter"]);
    sim.tick(1_200, Vec::new());
    assert_eq!(sim.firing(), [""; 0]);
    assert_eq!(sim.alerts[0].resolved_at, Some(at(1_200)));
}

#[test]
fn a_level_resolves_only_after_it_was_clear_for_a_while() {
    let mut sim = Sim::new(Vec::new());
    sim.tick(0, vec![count("a", 11.0)]);
    sim.tick(10, vec![count("a", 9.0)]);
    assert_eq!(sim.firing(), ["letter_count"]);
    sim.tick(200, vec![count("a", 12.0)]);
    sim.tick(310, vec![count("a", 9.0)]);
    sim.clear(600, RuleKind::LetterCount, Scope::Type);
    assert_eq!(sim.firing(), ["letter_count"], "it was clear for 290 s only");
    let evaluation = sim.clear(610, RuleKind::LetterCount, Scope::Type);
    assert_eq!((evaluation.resolved.len(), sim.firing().len()), (1, 0));
}

#[test]
fn hysteresis_keeps_an_alert_firing_down_to_its_clear_value() {
    let rule = AlertRule {
        clear: Some(5.0),
        resolve_after_ms: 0,
        ..AlertRule::new(RuleKind::LetterCount, Scope::Type)
    };
    let mut sim = Sim::new(vec![rule]);
    for (s, letters, fires) in
        [(0, 6.0, false), (1, 11.0, true), (2, 6.0, true), (3, 5.0, false), (4, 9.0, false)]
    {
        sim.tick(s, vec![count("a", letters)]);
        assert_eq!(!sim.firing().is_empty(), fires, "{s}");
    }
}

#[test]
fn for_has_to_pass_without_a_break() {
    let source = |value| reading(RuleKind::QueueGrowth, Scope::Source, "nats", Measure::Level(value));
    let mut sim = Sim::new(Vec::new());
    sim.tick(0, vec![source(1.0)]);
    sim.tick(299, vec![source(1.0)]);
    assert_eq!(sim.alerts[0].state, AlertState::Pending);
    sim.tick(300, vec![source(0.0)]);
    sim.tick(310, vec![source(1.0)]);
    sim.tick(609, vec![source(1.0)]);
    assert!(sim.firing().is_empty());
    sim.tick(610, vec![source(1.0)]);
    assert_eq!(sim.firing(), ["queue_growth"]);
}

#[test]
fn thresholds_are_set_per_subject_and_a_rule_can_be_switched_off() {
    let matching =
        |text: &str, rule: AlertRule| AlertRule { matchers: Matchers::parse(text).unwrap(), ..rule };
    let base = || AlertRule::new(RuleKind::LetterCount, Scope::Type);
    let mut sim = Sim::new(vec![
        matching("type=noise.*", AlertRule { enabled: false, ..base() }),
        matching(
            "type=pay.*",
            AlertRule { name: "payments".into(), above: 0.0, severity: Severity::Critical, ..base() },
        ),
    ]);
    sim.tick(0, vec![count("noise.a", 99.0), count("pay.card", 1.0), count("mail", 10.0)]);
    let fired: Vec<(&str, Severity)> = sim.alerts.iter().map(|it| (it.rule.as_str(), it.severity)).collect();
    assert_eq!(fired, [("payments", Severity::Critical)]);
    // A rule that is switched off ends what fires.
    sim.rules = Rules::new(vec![AlertRule { enabled: false, ..base() }]);
    sim.tick(1, vec![count("pay.card", 1.0)]);
    assert!(sim.firing().is_empty());
}

#[test]
fn an_alert_that_flaps_takes_longer_to_resolve_each_time() {
    let mut sim = Sim::new(Vec::new());
    let (mut s, mut waits) = (0, Vec::new());
    for _ in 0..4 {
        sim.tick(s, vec![count("a", 11.0)]);
        let began = s;
        while !sim.firing().is_empty() {
            s += 10;
            sim.clear(s, RuleKind::LetterCount, Scope::Type);
        }
        waits.push(s - began);
        s += 10;
    }
    assert_eq!(waits, [310, 610, 1_210, 2_410]);
}

#[test]
fn alerts_beyond_the_bound_are_one() {
    let mut sim = Sim::new(Vec::new());
    let many = (0..limits::ALERTS_MAX + 50).map(|n| count(&format!("t{n}"), 20.0)).collect();
    sim.tick(0, many);
    assert_eq!(sim.alerts.len(), limits::ALERTS_MAX + 1);
    assert!(sim.alerts.iter().any(|alert| alert.key.subject == "other"));
}

#[test]
fn a_group_waits_is_sent_once_and_repeats_until_acknowledged() {
    let mut sim = Sim::new(Vec::new());
    let read = |s: i64, sim: &mut Sim| drop(sim.tick(s, vec![count("a", 11.0), count("b", 50.0)]));
    for s in [0, 10, 29] {
        read(s, &mut sim);
    }
    assert!(sim.sent.is_empty());
    for s in [30, 60, 400, 14_000] {
        read(s, &mut sim);
    }
    assert_eq!(sim.sent.len(), 1);
    assert_eq!(sim.sent[0].1.firing.iter().map(|key| key.subject.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    read(14_430, &mut sim);
    assert_eq!(sim.sent.len(), 2, "after four hours it is told again");
    for alert in &mut sim.alerts {
        alert.ack = Some(Ack { by: "ana".into(), at: at(14_431), reason: None });
    }
    read(40_000, &mut sim);
    assert_eq!(sim.sent.len(), 2, "somebody takes care of it");
    sim.tick(40_010, vec![count("a", 11.0), count("b", 50.0), count("c", 11.0)]);
    assert_eq!(sim.sent.len(), 3, "but another one is news");
}

#[test]
fn resolved_alerts_are_told_with_their_group() {
    let mut sim = Sim::new(Vec::new());
    sim.tick(0, vec![count("a", 11.0), count("b", 11.0)]);
    sim.tick(30, vec![count("a", 11.0), count("b", 11.0)]);
    for s in [40, 345] {
        sim.tick(s, vec![count("a", 11.0)]);
    }
    for s in [350, 660, 990] {
        sim.clear(s, RuleKind::LetterCount, Scope::Type);
    }
    let told: Vec<(i64, usize, usize)> =
        sim.sent.iter().map(|(s, it)| (*s, it.firing.len(), it.resolved.len())).collect();
    assert_eq!(told, [(30, 2, 0), (345, 1, 1), (660, 0, 1)]);
    assert!(sim.groups.is_empty());
}

#[test]
fn a_silence_mutes_without_resolving_and_a_maintenance_window_begins_later() {
    let mut sim = Sim::new(Vec::new());
    let matchers = Matchers::parse("type=a").unwrap();
    let id = crate::id::SilenceId::mint(at(0), [1; 10]);
    sim.silences = vec![Silence { id, matchers, starts_at: at(100), ends_at: at(5_000) }];
    for s in [0, 30, 600, 4_999] {
        sim.tick(s, vec![count("a", 11.0)]);
    }
    assert_eq!(sim.sent.len(), 1, "before the window it is told");
    let mut sim = Sim { sent: Vec::new(), alerts: Vec::new(), groups: Vec::new(), ..sim };
    for s in [200, 600, 4_999] {
        sim.tick(s, vec![count("a", 11.0)]);
    }
    assert!(sim.sent.is_empty());
    sim.tick(5_000, vec![count("a", 11.0)]);
    assert_eq!(sim.sent.len(), 1, "what still fires afterwards is told");
}

#[test]
fn the_first_route_that_matches_counts_and_own_letters_reach_the_log_only() {
    let mut sim = Sim::new(Vec::new());
    let route = |to: &str, text: &str, go_on| Route {
        receivers: vec![to.to_owned()],
        matchers: Matchers::parse(text).unwrap(),
        group_wait_ms: 0,
        go_on,
        ..Route::default()
    };
    sim.routes =
        vec![route("pager", "severity=critical", true), route("chat", "", false), route("log", "", false)];
    sim.tick(0, vec![count("a", 11.0)]);
    sim.tick(1, vec![reading(RuleKind::Spike, Scope::All, "", Measure::Level(50.0))]);
    let to: Vec<&str> = sim.sent.iter().map(|(_, it)| it.receiver.as_str()).collect();
    assert_eq!(to, ["chat", "chat", "pager"]);
    sim.sent.clear();
    sim.routes = vec![route("log", "", true), route("chat", "", false)];
    let mut own = reading(RuleKind::NewLetter, Scope::Incident, "i", Measure::Occurred(1));
    own.labels = vec![("source".to_owned(), OWN_SOURCE.to_owned())];
    sim.tick(2, vec![own]);
    assert!(sim.sent.iter().any(|(_, it)| it.receiver == "log" && it.group == "log:rule=new_letter"));
    assert!(!sim.sent.iter().any(|(_, it)| it.group == "chat:rule=new_letter"));
}

#[test]
fn rule_040_020_a_storm_of_50_000_letters_and_40_causes_is_a_handful_of_notifications() {
    let mut sim = Sim::new(Vec::new());
    for s in (0..60).step_by(2) {
        let mut readings = Vec::new();
        for cause in 0..40 {
            let id = IncidentId::mint(at(0), [cause as u8; 10]).to_string();
            let letters = 50_000 / 40 / 30;
            readings.push(reading(RuleKind::NewLetter, Scope::Incident, &id, Measure::Occurred(letters)));
            if s == 0 {
                readings.push(reading(RuleKind::NewIncident, Scope::Incident, &id, Measure::Occurred(1)));
            }
            let seen = (s / 2 + 1) as f64 * letters as f64;
            readings.push(count(&format!("type.{}", cause % 20), 2.0 * seen));
            readings.push(reading(
                RuleKind::Spike,
                Scope::Type,
                &format!("type.{}", cause % 20),
                Measure::Level(seen),
            ));
            let orders = reading(
                RuleKind::AggregateRepeat,
                Scope::Aggregate,
                &format!("order-{cause}"),
                Measure::Counted(3),
            );
            readings.push(orders);
        }
        sim.tick(s, readings);
    }
    for s in (60..3_600).step_by(2) {
        sim.tick(s, Vec::new());
    }
    let first: Vec<&str> =
        sim.sent.iter().filter(|(s, _)| *s <= 60).map(|(_, it)| it.group.as_str()).collect();
    assert_eq!(
        first,
        [
            "ops:rule=aggregate_repeat",
            "ops:rule=letter_count",
            "ops:rule=new_incident",
            "ops:rule=new_letter",
            "ops:rule=spike"
        ]
    );
    assert!(sim.sent.len() <= 10, "{} notifications", sim.sent.len());
    let new_letters: u64 =
        sim.alerts.iter().filter(|it| it.rule == "new_letter").map(|alert| alert.count).sum();
    assert_eq!(new_letters, 0, "an hour later it is over");
}

#[test]
fn matchers_are_read_and_written() {
    for good in ["", "source=billing", "type=invoice.* severity=critical", "queue=\"a b\" rule=*"] {
        assert_eq!(Matchers::parse(good).unwrap().to_string(), good);
    }
    for bad in ["source", "=x", "Source=x", "source=", "a=\"b"] {
        assert!(Matchers::parse(bad).is_err(), "{bad}");
    }
    let labels = [("source", "billing"), ("type", "invoice.created")];
    assert!(Matchers::parse("type=invoice.* source=billing").unwrap().matches(&labels));
    assert!(!Matchers::parse("type=invoice.* tenant=*").unwrap().matches(&labels));
}
