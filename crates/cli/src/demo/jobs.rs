//! The part of the shop that works by jobs: what is pushed, and how each run of it will end. The same seed pushes the
//! same work; only times and ids follow the clock.

use lazaret_core::id::JobId;
use lazaret_core::letter::Captured;
use lazaret_core::time::Time;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::calendar::Calendar;
use super::causes::{Cause, invoices, mails};
use super::dice::Dice;
use super::message::Message;

/// The queues that the shop's worker serves.
pub(super) const QUEUES: [&str; 2] = ["invoices", "emails"];

/// A queue that somebody has paused, with work that waits in it.
pub(super) const PAUSED_QUEUE: &str = "newsletters";

/// Jobs at the beginning: to be worked off at once, and waiting behind the paused queue.
const FIRST: usize = 36;
const WAITING: usize = 9;

/// Runs of a job before it is a dead letter.
const RUNS: u32 = 3;

/// What the shop's work is about, and what it fails of if it does. All of these are in the history too, so that the
/// letters of jobs join its incidents.
static CAUSES: [&Cause; 7] = [
    &mails::NO_SOCKETS_LEFT,
    &mails::NO_SOCKETS_LEFT,
    &mails::POOL_EXHAUSTED,
    &mails::BAD_ADDRESS,
    &invoices::INVOICE_TWICE,
    &invoices::INVOICE_TWICE,
    &invoices::DATABASE_REFUSED,
];

/// A job that is about to be pushed.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Task {
    pub(super) id: String,
    /// The request that pushes it.
    pub(super) request: Value,
    /// How many of its runs fail before one succeeds.
    pub(super) failing_runs: u32,
    /// What a failing run reports.
    pub(super) error: Value,
}

/// The shop's work, without end.
#[derive(Debug)]
pub(super) struct Work {
    calendar: Calendar,
    dice: Dice,
}

impl Work {
    pub(super) fn new(seed: u64, from: Time) -> Work {
        // Throws of its own: more jobs must not change the story of the letters.
        Work { calendar: Calendar::new(from), dice: Dice::new(seed).fork().fork() }
    }

    /// What is there when the shop opens.
    pub(super) fn opening(&mut self, now: Time) -> Vec<Task> {
        let mut tasks: Vec<Task> = (0..FIRST).map(|_| self.task(now)).collect();
        for at in 0..WAITING {
            let mut task = self.task(now);
            task.request["type"] = "newsletter.send".into();
            task.request["options"]["queue"] = PAUSED_QUEUE.into();
            if at == 0 {
                task.request["options"]["delay_until"] = "+PT30M".into();
            }
            tasks.push(task);
        }
        tasks
    }

    /// One more piece of work. Six of ten succeed, a quarter needs another run, the rest dies.
    pub(super) fn task(&mut self, now: Time) -> Task {
        let cause = self.dice.pick(&CAUSES);
        let message = Message::new(cause, now, self.calendar, &mut self.dice);
        let captured = message.death(now, self.calendar, &mut self.dice);
        let failing_runs = match self.dice.below(20) {
            0..12 => 0,
            12..17 => 1,
            _ => RUNS,
        };
        let id = JobId::mint(now, self.dice.bytes()).to_string();
        let request = json!({
            "id": id,
            "type": captured.letter_type,
            "args": [event(&captured)],
            "meta": {"tenant_id": captured.tenant},
            "options": {
                "queue": captured.queue,
                "priority": self.dice.pick(&[0, 0, 0, 5, -5]),
                "retry": {
                    "max_attempts": RUNS, "initial_interval": "PT1S", "max_interval": "PT10S",
                    "on_exhaustion": "dead_letter",
                },
            },
        });
        Task { id, request, failing_runs, error: error(&captured) }
    }

    /// How long a run takes, in milliseconds.
    pub(super) fn run_ms(&mut self) -> u64 {
        self.dice.between(150, 2_000).unsigned_abs()
    }

    /// How long until the next piece of work comes in, in milliseconds.
    pub(super) fn pause_ms(&mut self) -> u64 {
        self.dice.between(1_500, 6_000).unsigned_abs()
    }
}

fn event(captured: &Captured) -> Value {
    serde_json::from_slice(captured.envelope.body()).unwrap_or_default()
}

/// The error as a worker reports it.
fn error(captured: &Captured) -> Value {
    let error = &captured.error;
    let context: Option<&RawValue> =
        error.context.as_deref().and_then(|text| serde_json::from_str(text).ok());
    json!({
        "type": error.error_type,
        "code": error.code,
        "message": error.message,
        "backtrace": error.backtrace,
        "details": context,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_core::job::enqueue::{JobDefaults, read_enqueue};
    use lazaret_core::job::failure::read_nack;

    fn tasks(seed: u64) -> Vec<Task> {
        let now = Time::parse("2026-11-15T09:30:00Z").unwrap();
        let mut work = Work::new(seed, now);
        let mut tasks = work.opening(now);
        tasks.extend((0..200).map(|_| work.task(now)));
        tasks
    }

    #[test]
    fn the_same_seed_pushes_the_same_work_and_another_seed_other_work() {
        assert_eq!(tasks(7), tasks(7));
        assert_ne!(tasks(7), tasks(8));
    }

    #[test]
    fn every_task_is_a_job_and_fails_as_a_worker_can_say() {
        for seed in 0..3 {
            let tasks = tasks(seed);
            for task in &tasks {
                let job = read_enqueue(&task.request.to_string(), &JobDefaults::default()).unwrap();
                assert!(QUEUES.contains(&job.queue.as_str()) || job.queue == PAUSED_QUEUE, "{}", job.queue);
                let nack = json!({"job_id": task.id, "error": task.error}).to_string();
                let failure = read_nack(&nack).unwrap().failure;
                assert_eq!(failure.wish, None);
                assert!(failure.backtrace.is_some() && !failure.message.is_empty(), "{failure:?}");
            }
            let ends = |runs: u32| tasks.iter().filter(|task| task.failing_runs == runs).count();
            assert!(ends(0) > 90 && ends(1) > 25 && ends(RUNS) > 15, "seed {seed}");
            let first = &tasks[..FIRST];
            assert!(first.iter().any(|task| task.failing_runs == RUNS), "seed {seed}: none dies at first");
        }
    }
}
