//! Rules: which measurement fires an alert above which value, for whom, and how severe that is.

use super::labels::Matchers;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    Info,
    Warning,
    Critical,
}

/// What a rule measures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RuleKind {
    NewLetter,
    LetterCount,
    Inflow,
    Spike,
    AggregateRepeat,
    Growth,
    QueueGrowth,
    Relapse,
    NewIncident,
    RegressedIncident,
    BacklogAge,
    SourceDisconnected,
    LedgerDifference,
    DiskUsage,
    ArchiveFailing,
    HealthCheck,
}

/// What the measurements of a rule are told apart by: one alert for each value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    All,
    Type,
    Queue,
    Source,
    Aggregate,
    Tenant,
    Incident,
    Check,
}

/// One rule. It fires when its measurement is above `above` for `for_ms`, and resolves when it is not above `clear` for
/// `resolve_after_ms`.
#[derive(Clone, PartialEq, Debug)]
pub struct AlertRule {
    pub name: String,
    pub kind: RuleKind,
    pub scope: Scope,
    /// Which subjects it applies to; of rules of one kind and scope the first that matches counts.
    pub matchers: Matchers,
    pub above: f64,
    /// The value down to which a firing alert keeps firing; `above` unless set.
    pub clear: Option<f64>,
    pub window_ms: i64,
    pub for_ms: i64,
    pub resolve_after_ms: i64,
    /// Letters that a spike needs at least, whatever its baseline is.
    pub min_count: u64,
    pub severity: Severity,
    pub enabled: bool,
}

impl Severity {
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }

    pub fn parse(text: &str) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| severity.name() == text)
    }
}

impl Scope {
    pub const ALL: [Scope; 8] = [
        Scope::All,
        Scope::Type,
        Scope::Queue,
        Scope::Source,
        Scope::Aggregate,
        Scope::Tenant,
        Scope::Incident,
        Scope::Check,
    ];

    /// The name, which is the label that holds the subject.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::All => "all",
            Scope::Type => "type",
            Scope::Queue => "queue",
            Scope::Source => "source",
            Scope::Aggregate => "aggregate",
            Scope::Tenant => "tenant",
            Scope::Incident => "incident",
            Scope::Check => "check",
        }
    }

    pub fn parse(text: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.name() == text)
    }
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

impl RuleKind {
    pub const ALL: [RuleKind; 16] = [
        RuleKind::NewLetter,
        RuleKind::LetterCount,
        RuleKind::Inflow,
        RuleKind::Spike,
        RuleKind::AggregateRepeat,
        RuleKind::Growth,
        RuleKind::QueueGrowth,
        RuleKind::Relapse,
        RuleKind::NewIncident,
        RuleKind::RegressedIncident,
        RuleKind::BacklogAge,
        RuleKind::SourceDisconnected,
        RuleKind::LedgerDifference,
        RuleKind::DiskUsage,
        RuleKind::ArchiveFailing,
        RuleKind::HealthCheck,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            RuleKind::NewLetter => "new_letter",
            RuleKind::LetterCount => "letter_count",
            RuleKind::Inflow => "inflow",
            RuleKind::Spike => "spike",
            RuleKind::AggregateRepeat => "aggregate_repeat",
            RuleKind::Growth => "growth",
            RuleKind::QueueGrowth => "queue_growth",
            RuleKind::Relapse => "relapse",
            RuleKind::NewIncident => "new_incident",
            RuleKind::RegressedIncident => "regressed_incident",
            RuleKind::BacklogAge => "backlog_age",
            RuleKind::SourceDisconnected => "source_disconnected",
            RuleKind::LedgerDifference => "ledger_difference",
            RuleKind::DiskUsage => "disk_usage",
            RuleKind::ArchiveFailing => "archive_failing",
            RuleKind::HealthCheck => "health_check",
        }
    }

    pub fn parse(text: &str) -> Option<RuleKind> {
        RuleKind::ALL.into_iter().find(|kind| kind.name() == text)
    }

    /// The scopes that it can be measured by, its default first.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            RuleKind::NewLetter | RuleKind::Relapse | RuleKind::NewIncident | RuleKind::RegressedIncident => {
                &[Scope::Incident]
            }
            RuleKind::LetterCount => &[Scope::Type, Scope::Queue, Scope::Source, Scope::All],
            RuleKind::Inflow => &[Scope::Tenant, Scope::Incident, Scope::Aggregate],
            RuleKind::Spike => &[Scope::Type, Scope::Queue, Scope::Source, Scope::All],
            RuleKind::AggregateRepeat => &[Scope::Aggregate],
            RuleKind::Growth => &[Scope::Source, Scope::Queue, Scope::Type, Scope::All],
            RuleKind::QueueGrowth | RuleKind::SourceDisconnected => &[Scope::Source],
            RuleKind::BacklogAge => &[Scope::Queue, Scope::Source, Scope::All],
            RuleKind::LedgerDifference | RuleKind::DiskUsage | RuleKind::ArchiveFailing => &[Scope::All],
            RuleKind::HealthCheck => &[Scope::Check],
        }
    }

    /// What `above` counts, for people.
    pub const fn unit(self) -> &'static str {
        match self {
            RuleKind::NewLetter | RuleKind::Inflow => "letters in the window",
            RuleKind::LetterCount => "pending letters",
            RuleKind::Spike => "times the baseline in the window",
            RuleKind::AggregateRepeat => "letters of one order key in the window",
            RuleKind::Growth => "letters in minus letters out, in the window",
            RuleKind::QueueGrowth => "messages per minute",
            RuleKind::Relapse => "relapses in the window",
            RuleKind::NewIncident | RuleKind::RegressedIncident => "occurrences in the window",
            RuleKind::BacklogAge => "seconds since the oldest pending letter died",
            RuleKind::SourceDisconnected => "seconds without a connection",
            RuleKind::LedgerDifference => "letters unaccounted for",
            RuleKind::DiskUsage => "percent of the disk in use",
            RuleKind::ArchiveFailing => "seconds without a successful write",
            RuleKind::HealthCheck => "failing checks",
        }
    }

    /// What a person does about it.
    pub const fn next_step(self) -> &'static str {
        match self {
            RuleKind::NewLetter => "Open the incident and look at the newest letter.",
            RuleKind::LetterCount => "Open the letters, group them by incident and find the cause.",
            RuleKind::Inflow | RuleKind::Spike => {
                "Look for a deployment or an outage that began at this time; the incidents of the window name the cause."
            }
            RuleKind::AggregateRepeat => {
                "Look at the letters of this order key together: one record breaks every message about it."
            }
            RuleKind::Growth => "Find the incident that grows, record its root cause, then redrive.",
            RuleKind::QueueGrowth => {
                "Check the consumers of the queue: messages die faster than they are captured."
            }
            RuleKind::Relapse => "Pause the redrive: the fix did not work for these letters.",
            RuleKind::NewIncident => "Assign the incident and record its root cause.",
            RuleKind::RegressedIncident => {
                "The fix did not hold: analyse the incident again before any redrive."
            }
            RuleKind::BacklogAge => "Decide about the oldest letters: redrive, resolve or discard them.",
            RuleKind::SourceDisconnected => "Run `lazaret doctor`: the findings say what to do.",
            RuleKind::LedgerDifference => "Run `lazaret ledger --recount` and keep a copy of the store.",
            RuleKind::DiskUsage => {
                "Free disk space or move the data folder; capture stops when the disk is full."
            }
            RuleKind::ArchiveFailing => {
                "Make the archive's storage reachable; letters wait in the store meanwhile."
            }
            RuleKind::HealthCheck => "Open the page of the check: it says what to do.",
        }
    }
}

impl AlertRule {
    /// A rule of a kind with nothing set: the defaults of RULE-040-020 and of the design.
    pub fn new(kind: RuleKind, scope: Scope) -> AlertRule {
        use Severity::{Critical, Info, Warning};
        let (above, window_ms, for_ms, resolve_after_ms, severity) = match kind {
            RuleKind::NewLetter => (0.0, 10 * MINUTE, 0, 0, Info),
            RuleKind::LetterCount => (10.0, 0, 0, 5 * MINUTE, Warning),
            RuleKind::Inflow => (100.0, 5 * MINUTE, 0, 5 * MINUTE, Warning),
            RuleKind::Spike => (10.0, 5 * MINUTE, 0, 5 * MINUTE, Critical),
            RuleKind::AggregateRepeat => (2.0, DAY, 0, 0, Critical),
            RuleKind::Growth => (10.0, 15 * MINUTE, 5 * MINUTE, 15 * MINUTE, Warning),
            RuleKind::QueueGrowth => (0.0, 0, 5 * MINUTE, 5 * MINUTE, Warning),
            RuleKind::Relapse => (0.0, HOUR, 0, 0, Critical),
            RuleKind::NewIncident => (0.0, HOUR, 0, 0, Warning),
            RuleKind::RegressedIncident => (0.0, DAY, 0, 0, Critical),
            RuleKind::BacklogAge => (7.0 * 86_400.0, 0, 0, 5 * MINUTE, Warning),
            RuleKind::SourceDisconnected => (60.0, 0, 0, MINUTE, Critical),
            RuleKind::LedgerDifference => (0.0, 0, 0, MINUTE, Critical),
            RuleKind::DiskUsage => (90.0, 0, MINUTE, 5 * MINUTE, Critical),
            RuleKind::ArchiveFailing => (300.0, 0, 0, MINUTE, Warning),
            RuleKind::HealthCheck => (0.0, 0, MINUTE, MINUTE, Warning),
        };
        AlertRule {
            name: kind.name().to_owned(),
            kind,
            scope,
            matchers: Matchers::default(),
            above,
            clear: None,
            window_ms,
            for_ms,
            resolve_after_ms,
            min_count: 20,
            severity,
            enabled: true,
        }
    }

    /// The value above which a firing alert keeps firing.
    pub fn clear(&self) -> f64 {
        self.clear.unwrap_or(self.above)
    }
}

/// All rules in force: the configured ones first, then the defaults.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules(Vec<AlertRule>);

impl Rules {
    pub fn new(configured: Vec<AlertRule>) -> Rules {
        let mut rules = configured;
        for kind in RuleKind::ALL {
            // Only the operator knows how much inflow is too much.
            if kind != RuleKind::Inflow {
                rules.push(AlertRule::new(kind, kind.scopes()[0]));
            }
        }
        // Many types that grow a little each are a spike too.
        rules.push(AlertRule {
            name: "spike_total".to_owned(),
            ..AlertRule::new(RuleKind::Spike, Scope::All)
        });
        Rules(rules)
    }

    pub fn iter(&self) -> impl Iterator<Item = &AlertRule> {
        self.0.iter()
    }

    /// The rule that applies to a subject with these labels, if it is enabled.
    pub fn find(&self, kind: RuleKind, scope: Scope, labels: &[(&str, &str)]) -> Option<&AlertRule> {
        let applies =
            |rule: &&AlertRule| rule.kind == kind && rule.scope == scope && rule.matchers.matches(labels);
        self.0.iter().find(applies).filter(|rule| rule.enabled)
    }

    /// The scopes that a kind is measured by, each once.
    pub fn scopes(&self, kind: RuleKind) -> Vec<Scope> {
        let mut scopes: Vec<Scope> =
            self.0.iter().filter(|rule| rule.kind == kind && rule.enabled).map(|rule| rule.scope).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    }

    /// The widest window of a kind and scope.
    pub fn window_ms(&self, kind: RuleKind, scope: Scope) -> i64 {
        let of = self.0.iter().filter(|rule| rule.kind == kind && rule.scope == scope && rule.enabled);
        of.map(|rule| rule.window_ms).max().unwrap_or(0)
    }
}
