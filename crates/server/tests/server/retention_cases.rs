//! The table of what limits do to letters: age, count, both, per queue, floor, hold, and where they meet.

/// When a letter came, and what was done to it at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Is {
    Pending,
    Resolved,
    Discarded,
    Held,
    /// In a plan that nobody has launched, made at the end.
    Planned,
    /// It died again so many days ago.
    DiedAgain(i64),
    /// By hand, on the same day.
    Deleted,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fate {
    Live,
    Archived,
    Gone,
}

use Fate::{Archived, Gone, Live};

/// Name, source (or `jobs/queue`), age in days, state, fate.
pub type Row = (&'static str, &'static str, i64, Is, Fate);

pub struct Case {
    pub name: &'static str,
    pub config: &'static str,
    pub letters: &'static [Row],
}

pub const CASES: &[Case] = &[
    Case {
        name: "age: the limit that holds unless anything is set",
        config: "",
        letters: &[
            ("old report", "report", 181, Is::Pending, Archived),
            ("young report", "report", 179, Is::Pending, Live),
            ("old job", "jobs/q", 181, Is::Pending, Gone),
            ("young job", "jobs/q", 179, Is::Pending, Live),
            ("resolved long ago", "report", 181, Is::Resolved, Archived),
            ("discarded long ago", "report", 181, Is::Discarded, Archived),
        ],
    },
    Case {
        name: "age: settled letters have ages of their own",
        config: "[retention]\nmax_age = '300d'\nresolved_max_age = '100d'\ndiscarded_max_age = '200d'\npruning_policy = 'delete'\n",
        letters: &[
            ("p", "report", 250, Is::Pending, Live),
            ("r", "report", 150, Is::Resolved, Gone),
            ("d", "report", 150, Is::Discarded, Live),
            ("dd", "report", 250, Is::Discarded, Gone),
        ],
    },
    Case {
        name: "age: it runs from the last death",
        config: "[retention]\nmax_age = '100d'\n",
        letters: &[
            ("died again", "report", 150, Is::DiedAgain(50), Live),
            ("died once", "report", 150, Is::Pending, Archived),
        ],
    },
    Case {
        name: "floor: what is younger is archived whatever the policy says",
        config: "[retention]\nmax_age = '10d'\npruning_policy = 'delete'\n",
        letters: &[
            ("inside", "report", 89, Is::Pending, Archived),
            ("beyond", "report", 91, Is::Pending, Gone),
            ("died again inside", "report", 150, Is::DiedAgain(20), Archived),
            ("resolved inside", "report", 5, Is::Resolved, Live),
        ],
    },
    Case {
        name: "floor: as long as it is set, for the queue alone",
        config: "[jobs.retention]\nmax_age = '10d'\n[jobs.queues.books.retention]\nmin_age = '400d'\n[jobs.queues.tmp.retention]\nmin_age = '0s'\n",
        letters: &[
            ("books", "jobs/books", 300, Is::Pending, Archived),
            ("tmp", "jobs/tmp", 11, Is::Pending, Gone),
            ("other", "jobs/q", 300, Is::Pending, Gone),
        ],
    },
    Case {
        name: "count: the oldest go until it is met",
        config: "[sources.report.retention]\nmax_count = 2\n",
        letters: &[
            ("1", "report", 40, Is::Pending, Archived),
            ("2", "report", 30, Is::Pending, Archived),
            ("3", "report", 20, Is::Pending, Live),
            ("4", "report", 10, Is::Pending, Live),
            ("resolved ones are not counted", "report", 50, Is::Resolved, Live),
        ],
    },
    Case {
        name: "count: letters in an unfinished plan go last",
        config: "[jobs.retention]\nmax_count = 2\n",
        letters: &[
            ("planned, oldest", "jobs/q", 40, Is::Planned, Live),
            ("2", "jobs/q", 30, Is::Pending, Archived),
            ("3", "jobs/q", 20, Is::Pending, Archived),
            ("4", "jobs/q", 10, Is::Pending, Live),
        ],
    },
    Case {
        name: "count: planned letters go when there are no others",
        config: "[jobs.retention]\nmax_count = 1\n",
        letters: &[
            ("planned, old", "jobs/q", 40, Is::Planned, Archived),
            ("planned, young", "jobs/q", 30, Is::Planned, Live),
            ("other", "jobs/q", 20, Is::Pending, Archived),
        ],
    },
    Case {
        name: "both: age before count, and what went for its age is not counted",
        config: "[sources.report.retention]\nmax_age = '100d'\nmax_count = 2\npruning_policy = 'delete'\n",
        letters: &[
            ("too old and too many", "report", 120, Is::Pending, Gone),
            ("too old", "report", 110, Is::Pending, Gone),
            ("too many", "report", 95, Is::Pending, Gone),
            ("2", "report", 20, Is::Pending, Live),
            ("1", "report", 10, Is::Pending, Live),
        ],
    },
    Case {
        name: "per queue: one with its own count is counted alone, the rest together",
        config: "[jobs.retention]\nmax_count = 2\nmin_age = '0s'\n[jobs.queues.own.retention]\nmax_count = 1\n[jobs.queues.free.retention]\nmax_count = 'none'\n",
        letters: &[
            ("own, old", "jobs/own", 40, Is::Pending, Gone),
            ("own, young", "jobs/own", 5, Is::Pending, Live),
            ("a, oldest", "jobs/a", 30, Is::Pending, Gone),
            ("a", "jobs/a", 10, Is::Pending, Live),
            ("b", "jobs/b", 20, Is::Pending, Live),
            ("free", "jobs/free", 50, Is::Pending, Live),
            ("free too", "jobs/free", 51, Is::Pending, Live),
        ],
    },
    Case {
        name: "per source: one with its own count alone, the rest under the global one, each by its own policy",
        config: "[retention]\nmax_count = 2\n[sources.orders]\nkind = 'report'\nretention = { max_count = 1 }\n[sources.mails]\nkind = 'report'\nretention = { pruning_policy = 'delete', min_age = '0s' }\n",
        letters: &[
            ("orders, old", "orders", 40, Is::Pending, Archived),
            ("orders, young", "orders", 5, Is::Pending, Live),
            ("mails, oldest", "mails", 35, Is::Pending, Gone),
            ("report, old", "report", 30, Is::Pending, Archived),
            ("report, young", "report", 20, Is::Pending, Live),
            ("job", "jobs/q", 10, Is::Pending, Live),
        ],
    },
    Case {
        name: "hold: a held letter stays at any age",
        config: "[retention]\npruning_policy = 'delete'\n",
        letters: &[("held", "report", 400, Is::Held, Live), ("free", "report", 400, Is::Pending, Gone)],
    },
    Case {
        name: "hold: held letters count and others go for them",
        config: "[sources.report.retention]\nmax_count = 2\n",
        letters: &[
            ("held, oldest", "report", 40, Is::Held, Live),
            ("held too", "report", 30, Is::Held, Live),
            ("free", "report", 20, Is::Pending, Archived),
        ],
    },
    Case {
        name: "delete: what a person deleted inside the floor is no limit's business any more",
        config: "[sources.report.retention]\nmax_age = '100d'\npruning_policy = 'delete'\n",
        letters: &[
            ("deleted at once", "report", 20, Is::Deleted, Archived),
            ("free", "report", 20, Is::Pending, Live),
        ],
    },
];
