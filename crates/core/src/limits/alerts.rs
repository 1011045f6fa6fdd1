//! Limits of alerts and notifications.

/// Alerts that are active at once; more than a person looks at. What comes beyond is folded into `other`.
pub const ALERTS_MAX: usize = 2_000;

/// How often rules are evaluated.
pub const ALERT_TICK_MS: u64 = 2_000;

/// How often counters are read for rules whose measurement is a level.
pub const ALERT_LEVELS_MS: i64 = 10_000;

/// Events that one evaluation takes in: some ten milliseconds. The rest waits for the next one.
pub const ALERT_EVENTS_PER_TICK: u64 = 50_000;

/// Letters whose order key and tenant one evaluation looks up. Under a storm the rest waits: the cost stays some
/// milliseconds a second.
pub const ALERT_LETTERS_PER_TICK: u64 = 2_000;

/// Subjects of one kind and scope that are measured: the largest.
pub const ALERT_SUBJECTS_MAX: usize = 100;

/// An alert that fires again so soon after it resolved flaps.
pub const ALERT_FLAP_MS: i64 = 30 * 60_000;

/// The longest time that a flapping alert has to be clear before it resolves.
pub const ALERT_DAMPED_MS_MAX: i64 = 3_600_000;

/// How long resolved alerts are remembered: for damping, and for people who look the day after.
pub const ALERT_RESOLVED_KEPT_MS: i64 = 7 * 86_400_000;

/// How far back an evaluation looks for resolved alerts.
pub const ALERT_RESOLVED_SEEN_MS: i64 = 2 * 3_600_000;

/// How long ended notifications are kept.
pub const NOTIFICATIONS_KEPT_MS: i64 = 7 * 86_400_000;

/// Alerts listed in one notification; beyond that it says how many more there are.
pub const NOTIFICATION_ALERTS_MAX: usize = 20;

/// Tries of one notification before it is dead-lettered: some two hours with the backoff below.
pub const NOTIFICATION_ATTEMPTS_MAX: u32 = 12;

/// The first wait between two tries, which doubles, and the longest.
pub const NOTIFICATION_BACKOFF_MS: i64 = 5_000;
pub const NOTIFICATION_BACKOFF_MS_MAX: i64 = 30 * 60_000;

/// How long whoever claimed a notification has to deliver it before another instance may.
pub const NOTIFICATION_LEASE_MS: i64 = 30_000;

/// How long one delivery may take.
pub const NOTIFICATION_MS_MAX: u64 = 20_000;

/// Notifications claimed at once.
pub const NOTIFICATIONS_PER_CLAIM: usize = 10;

/// Rules, routes and receivers in a configuration.
pub const ALERT_RULES_MAX: usize = 200;
pub const ALERT_ROUTES_MAX: usize = 100;
pub const ALERT_RECEIVERS_MAX: usize = 50;

/// Matchers in one place.
pub const ALERT_MATCHERS_MAX: usize = 20;

/// Silences in force at once, and the longest one.
pub const SILENCES_MAX: usize = 500;
pub const SILENCE_MS_MAX: i64 = 366 * 86_400_000;

/// The longest window, `for` and interval of a rule or a route.
pub const ALERT_WINDOW_MS_MAX: u64 = 7 * 86_400_000;

/// Bytes of an error message in an alert.
pub const ALERT_MESSAGE_BYTES_MAX: usize = 200;
