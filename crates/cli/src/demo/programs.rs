//! The shop's programs: what they are written in, when they were deployed, how patiently they retry.
//!
//! A deploy moves the line numbers in backtraces and renames the pods, as it does in life.

use lazaret_core::time::Time;

use super::calendar::{Calendar, DAY, HOUR};
use super::dice::Dice;

/// One program that sends and handles events.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The language first, then what it runs on.
    pub(super) runtime: &'static str,
    /// Oldest first.
    pub(super) releases: &'static [Release],
    /// How often a message is tried before it is dead.
    pub(super) runs: u32,
    /// The first pause between two runs; each further one is twice as long.
    pub(super) pause_ms: i64,
}

/// One deployed state of a program.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) version: &'static str,
    /// How long before the end of the history it went live.
    live_ago: i64,
    /// By how many lines the code lies lower than in the first release.
    pub(super) lines_moved: u32,
}

const fn release(version: &'static str, live_ago: i64, lines_moved: u32) -> Release {
    Release { version, live_ago, lines_moved }
}

/// Before anything that the demo tells.
const LONG_AGO: i64 = i64::MAX;

/// When the bad release of the order-service went live and when it was rolled back.
pub(super) const BAD_DEPLOY_AGO: i64 = 36 * HOUR;
pub(super) const ROLLBACK_AGO: i64 = 31 * HOUR;

pub(super) static ORDERS: Program = Program {
    name: "order-service",
    runtime: "Java 21, Spring Boot 3.4.1",
    releases: &[
        release("4.11.2", LONG_AGO, 0),
        release("4.12.0", BAD_DEPLOY_AGO, 9),
        // The roll-back brings the old lines back.
        release("4.11.2", ROLLBACK_AGO, 0),
        release("4.12.1", 20 * HOUR, 11),
    ],
    runs: 3,
    pause_ms: 5_000,
};

pub(super) static PAYMENTS: Program = Program {
    name: "payment-service",
    runtime: "Kotlin 2.1, JVM 21",
    releases: &[release("2.30.0", LONG_AGO, 0), release("2.31.0", 8 * DAY, 14)],
    runs: 5,
    pause_ms: 2_000,
};

pub(super) static INVOICES: Program = Program {
    name: "invoice-service",
    runtime: "Python 3.12, Celery 5.4",
    releases: &[release("7.3.4", LONG_AGO, 0), release("7.4.0", 6 * DAY, 5)],
    runs: 4,
    pause_ms: 30_000,
};

pub(super) static MAILS: Program = Program {
    name: "mail-service",
    runtime: "TypeScript 5.6, Node.js 22.12",
    releases: &[release("1.58.0", LONG_AGO, 0), release("1.59.0", 10 * DAY, 7)],
    runs: 5,
    pause_ms: 10_000,
};

pub(super) static SHIPPING: Program = Program {
    name: "shipping-service",
    runtime: "Go 1.23.4",
    releases: &[
        release("0.94.1", LONG_AGO, 0),
        release("0.95.0", 5 * DAY, 18),
        release("0.95.1", 2 * DAY, 21),
    ],
    runs: 3,
    pause_ms: 4_000,
};

pub(super) static SEARCH: Program = Program {
    name: "search-indexer",
    runtime: "Rust 1.83",
    releases: &[release("3.2.0", LONG_AGO, 0), release("3.3.0", 4 * DAY, 6)],
    runs: 4,
    pause_ms: 1_000,
};

pub(super) static WAREHOUSE: Program = Program {
    name: "warehouse-sync",
    runtime: "Ruby 3.3, Sidekiq 7.3",
    releases: &[release("1.16.2", LONG_AGO, 0), release("1.17.0", 7 * DAY, 3)],
    runs: 4,
    pause_ms: 15_000,
};

/// Sends events and handles none.
pub(super) static STOREFRONT: Program = Program {
    name: "storefront",
    runtime: "TypeScript 5.6, Node.js 22.12",
    releases: &[release("12.7.0", LONG_AGO, 0), release("12.8.0", 3 * DAY, 2)],
    runs: 3,
    pause_ms: 1_000,
};

/// Pods of one program that run side by side.
const PODS: u64 = 3;

/// The letters that pod names are made of.
const POD_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Program {
    /// What was deployed at a moment.
    pub(super) fn release(&self, at: Time, calendar: Calendar) -> &'static Release {
        let age = calendar.age(at);
        let live = self.releases.iter().rev().find(|release| age <= release.live_ago);
        live.unwrap_or(&self.releases[0])
    }

    /// One of the pods that ran a release, such as `order-service-7d9c6b5f4-x2k8p`.
    pub(super) fn pod(&self, release: &Release, dice: &mut Dice) -> String {
        let seed = self.name.bytes().chain(release.version.bytes());
        let seed = seed.fold(0_u64, |sum, byte| sum.wrapping_mul(131).wrapping_add(u64::from(byte)));
        let set = Dice::new(seed).word(POD_LETTERS, 9);
        let pod = Dice::new(seed ^ (1 + dice.below(PODS))).word(POD_LETTERS, 5);
        format!("{}-{set}-{pod}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roll_back_brings_the_old_release_back() {
        let calendar = Calendar::new(Time::from_ms(100 * DAY));
        let version = |ago| ORDERS.release(calendar.ago(ago), calendar).version;
        assert_eq!(version(40 * HOUR), "4.11.2");
        assert_eq!(version(33 * HOUR), "4.12.0");
        assert_eq!(version(25 * HOUR), "4.11.2");
        assert_eq!(version(-HOUR), "4.12.1");
    }

    #[test]
    fn a_release_runs_in_three_pods() {
        let mut dice = Dice::new(5);
        let mut pods: Vec<String> = (0..50).map(|_| ORDERS.pod(&ORDERS.releases[0], &mut dice)).collect();
        pods.sort();
        pods.dedup();
        assert_eq!(pods.len(), 3, "{pods:?}");
    }
}
